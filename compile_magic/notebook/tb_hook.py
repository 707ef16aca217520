"""Show an exception of an explained cell as that of a plain one."""

from __future__ import annotations

import types
from typing import Any


class CleanTracebacks:
    """While started, the shell shows exceptions without compile_magic's frames and Dynamo's.

    It uses the shell's own place for a handler of exceptions, and hands on to the handler that was there.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: tuple[Any, Any] | None = None

    def start(self) -> None:
        """Take the place of the shell's handler."""
        if self._before is None:
            self._before = self._shell.custom_exceptions, self._shell.CustomTB
            self._shell.custom_exceptions = (BaseException,)
            self._shell.CustomTB = types.MethodType(self._show, self._shell)

    def stop(self) -> None:
        """Put the shell's handler back, unless the cell has set one of its own."""
        before, self._before = self._before, None
        if before is not None and self._shell.custom_exceptions == (BaseException,):
            self._shell.custom_exceptions, self._shell.CustomTB = before

    def _show(
        self, shell: Any, kind: type[BaseException], error: BaseException, traceback: Any, tb_offset: Any = None
    ) -> None:
        from compile_magic.notebook.tracebacks import clean
        from compile_magic.notebook.tracebacks import clean_traceback

        clean(error)
        cleaned = clean_traceback(traceback)
        handled, handler = self._before or ((), None)
        if handler is not None and isinstance(error, handled):
            handler(kind, error, cleaned, tb_offset=tb_offset)
        else:
            shell.showtraceback((kind, error, cleaned), running_compiled_code=True)
