"""Hear why torch uses no cudagraphs."""

from __future__ import annotations

import logging


class CudagraphSkips(logging.Handler):
    """Keeps why torch uses no cudagraphs."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.reasons: dict[str, None] = {}

    def handle(self, record: logging.LogRecord) -> bool:
        """Keep the message; it is printed all the same."""
        self.reasons[record.getMessage()] = None
        return True
