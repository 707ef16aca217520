"""Keep torch's own remarks about compiling out of the user's cell; a plain cell doesn't compile.

They are recorded instead. What the user asked torch to log (`torch._logging.set_logs`, TORCH_LOGS) still comes, and
so does every warning of the user's own code.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from compile_magic import _torch
from compile_magic.errors import words_of

# Packages of torch that only speak while something is compiled.
_COMPILER_PACKAGES = ("_dynamo", "_functorch", "_inductor", "_subclasses", "_higher_order_ops", "fx")
# What Python calls for each warning that its filters let through, and the modules between it and who warns.
_SHOW = "_showwarnmsg"
_BETWEEN = frozenset({__name__, "warnings", "_py_warnings"})


class Quiet:
    """Hands what torch remarks in explained calls to `keep`. `enter` before each call, `stop` at the end.

    A remark is torch's if torch's compiler called `warnings.warn`, whatever line the warning names. The name that
    Python calls for each warning is exchanged, and `warnings.showwarning` is not: that stays the user's all the time,
    and so does what a `warnings.catch_warnings()` of his finds and puts back.

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
        self._before: Any = None
        self._stopped = False

    def enter(self) -> None:
        """Hold remarks back in the call that begins. Calls may overlap, on several threads."""
        if self._before is None and not self._stopped:
            self._before = _living(vars(warnings)[_SHOW])
            vars(warnings)[_SHOW] = self._show
        self._watch_handlers()

    def stop(self) -> None:
        """Let everything through again. Where an interrupt keeps this from being done, all passes through anyway."""
        self._stopped = True
        if vars(warnings)[_SHOW] == self._show:
            vars(warnings)[_SHOW] = _living(self._before)
        for handler in self._handlers:
            handler.removeFilter(self._filter)
        self._handlers, self._as_of = [], []

    def living(self) -> Any:
        """Return what Python is to call for a warning in the place of this, once this is stopped."""
        return _living(self._before) if self._stopped else self._show

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
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - logging says itself what is wrong with a record
            return True
        self._keep(record.name, text)
        return False

    def _show(self, warning: warnings.WarningMessage) -> None:
        if not self._stopped and self._applies() and _is_compilers(_who_warns()):
            if _torch.hides(warning):
                return
            words = words_of(warning.message)  # type: ignore[arg-type]  # it is a Warning
            self._keep(warning.category.__name__, words)
            _forget_shown(words, warning)
        else:
            self._before(warning)


def _living(show: Any) -> Any:
    owner = getattr(show, "__self__", None)
    return owner.living() if isinstance(owner, Quiet) else show


def _forget_shown(words: str, warning: warnings.WarningMessage) -> None:
    """Let Python show a warning that was held back when it comes again, from a compile of the user's own."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - only the caller's globals have what was shown there
    while frame is not None:
        shown = frame.f_globals.get("__warningregistry__")
        if isinstance(shown, dict) and shown.pop((words, warning.category, warning.lineno), None) is not None:
            return
        frame = frame.f_back


def _who_warns() -> str:
    """Return the file of the code that has called `warnings.warn`."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - a warning doesn't say who made it
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


def _is_compilers(file: str) -> bool:
    root = _torch.torch_root()
    if not file.startswith(root):
        return False
    # While it compiles, torch also warns about parts of itself that it imports.
    return file[len(root) + 1 :].startswith(_COMPILER_PACKAGES) or bool(_torch.compile_id())
