"""Keep torch's own remarks about compiling out of the user's cell; a plain cell doesn't compile.

They are recorded instead. What the user asked torch to log (`torch._logging.set_logs`, TORCH_LOGS) still comes, and
so does every warning of the user's own code.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

from compile_magic import _torch

# Packages of torch that only speak while something is compiled.
_COMPILER_PACKAGES = ("_dynamo", "_functorch", "_inductor", "_subclasses", "_higher_order_ops", "fx")


class Quiet:
    """Hands what torch remarks in explained calls to `keep`. `enter` and `leave` around each call, `stop` at the end.

    `warnings.showwarning` is ours only inside a call: a `warnings.catch_warnings()` of the user's that is entered in
    one cell and left in another one must find and put back what a plain cell has there.

    Args:
        applies: whether this thread is inside an explained call now.
        keep: takes the source and the text of a remark.
    """

    def __init__(self, applies: Callable[[], bool], keep: Callable[[str, str], None]) -> None:
        self._applies = applies
        self._keep = keep
        self._handlers: list[logging.Handler] = []
        self._loggers = _torch.main_loggers()
        self._as_of: list[list[logging.Handler]] = []
        self._show: Any = warnings.showwarning
        self._depth = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Begin to hold remarks back. Calls may overlap, on several threads."""
        with self._lock:
            if self._depth == 0:
                self._show, warnings.showwarning = warnings.showwarning, self._showwarning
            self._depth += 1
            self._watch_handlers()

    def leave(self) -> None:
        """Let warnings through again when the last call has ended."""
        with self._lock:
            self._depth = max(0, self._depth - 1)
            if self._depth == 0:
                self._put_back()

    def stop(self) -> None:
        """Let everything through again."""
        self._put_back()
        for handler in self._handlers:
            handler.removeFilter(self._filter)
        self._handlers, self._as_of = [], []

    def _put_back(self) -> None:
        if warnings.showwarning == self._showwarning:
            warnings.showwarning = self._show

    def _watch_handlers(self) -> None:
        # set_logs and the user's addHandler put new ones in place, also in the middle of a cell.
        handlers = [list(logger.handlers) for logger in self._loggers]
        if handlers != self._as_of:
            self._as_of = handlers
            for handler in self._handlers:
                handler.removeFilter(self._filter)
            self._handlers = _torch.log_handlers()
            for handler in self._handlers:
                handler.addFilter(self._filter)

    def _filter(self, record: logging.LogRecord) -> bool:
        # The loggers of torch's artifacts ("recompiles", "graph_breaks") are off unless the user wants them.
        if record.levelno < logging.WARNING or ".__" in record.name or not self._applies():
            return True
        self._keep(record.name, record.getMessage())
        return False

    def _showwarning(self, message: Any, category: Any, filename: str, *rest: Any, **named: Any) -> None:
        if self._applies() and _is_compilers(filename):
            self._keep(category.__name__, str(message))
        else:
            self._show(message, category, filename, *rest, **named)


def _is_compilers(filename: str) -> bool:
    root = _torch.torch_root()
    if not filename.startswith(root):
        return False
    # While it compiles, torch also warns about parts of itself that it imports.
    return filename[len(root) + 1 :].startswith(_COMPILER_PACKAGES) or bool(_torch.compile_id())
