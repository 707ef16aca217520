"""Hold a press of stop back while something is put back that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Presses:
    """How often stop was pressed meanwhile."""

    count: int = 0

    def note(self, *_: Any) -> None:
        """Count a press; this is a signal's handler."""
        self.count += 1


@contextmanager
def uninterrupted() -> Iterator[Presses]:
    """Count interrupts instead of raising them. On another thread than the main one, where none arrive, do nothing."""
    presses = Presses()
    if threading.current_thread() is not threading.main_thread():
        yield presses
        return
    before = signal.signal(signal.SIGINT, presses.note)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
