"""Keep torch's own remarks about compiling out of the user's cell; a plain cell doesn't compile.

They are recorded instead. What the user asked torch to log (`torch._logging.set_logs`, TORCH_LOGS) still comes, and
so does every warning of the user's own code.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

from compile_magic import _torch

# Packages of torch that only speak while something is compiled.
_COMPILER_PACKAGES = ("_dynamo", "_functorch", "_inductor", "_subclasses", "_higher_order_ops", "fx")


class Quiet:
    """While started, hands torch's warnings of explained calls to `keep`.

    Args:
        applies: whether this thread is inside an explained call now.
        keep: takes the source and the text of a remark.
    """

    def __init__(self, applies: Callable[[], bool], keep: Callable[[str, str], None]) -> None:
        self._applies = applies
        self._keep = keep
        self._handlers: list[logging.Handler] = []
        self._show: Any = None

    def start(self) -> None:
        """Begin to hold remarks back."""
        self._handlers = _torch.log_handlers()
        for handler in self._handlers:
            handler.addFilter(self._filter)
        self._show, warnings.showwarning = warnings.showwarning, self._showwarning

    def stop(self) -> None:
        """Let everything through again."""
        for handler in self._handlers:
            handler.removeFilter(self._filter)
        self._handlers = []
        if self._show is not None and warnings.showwarning == self._showwarning:
            warnings.showwarning = self._show
        self._show = None

    def _filter(self, record: logging.LogRecord) -> bool:
        # The loggers of torch's artifacts ("recompiles", "graph_breaks") are off unless the user wants them.
        if record.levelno < logging.WARNING or ".__" in record.name or not self._applies():
            return True
        self._keep(record.name, record.getMessage())
        return False

    def _showwarning(self, message: Any, category: Any, filename: str, *rest: Any, **named: Any) -> None:
        if self._applies() and _is_compilers(filename):
            self._keep(category.__name__, str(message))
        elif self._show is not None:
            self._show(message, category, filename, *rest, **named)


def _is_compilers(filename: str) -> bool:
    root = _torch.torch_root()
    return filename.startswith(root) and filename[len(root) + 1 :].startswith(_COMPILER_PACKAGES)
