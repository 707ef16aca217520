"""Show an exception of an explained cell as that of a plain one."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from typing import Any

from compile_magic.errors import guarded
from compile_magic.notebook.entry_lines import by_entries
from compile_magic.notebook.entry_lines import by_entry


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

        faults: list[str] = []
        guarded(clean, error, tell=faults.append, default=error)
        cleaned = guarded(clean_traceback, traceback, tell=faults.append, default=traceback)
        handled, handler = self._before or ((), None)
        if handler is not None and issubclass(kind, handled):
            handler(kind, error, cleaned, tb_offset=tb_offset)
        else:
            _print(shell, kind, error, cleaned)
        tell(faults)


def tell(faults: Iterable[str]) -> None:
    """Show the faults of ours under what the cell shows itself."""
    for fault in dict.fromkeys(faults):
        sys.stderr.write(f"{fault}\n")


def clean_last(error: BaseException) -> None:
    """Clean an exception that the shell has shown without asking us, and what it has kept of it for %tb."""
    from compile_magic.notebook.tracebacks import clean
    from compile_magic.notebook.tracebacks import clean_traceback

    clean(error)
    if getattr(sys, "last_value", None) is error:
        sys.last_traceback = clean_traceback(getattr(sys, "last_traceback", None))


def _print(shell: Any, kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    if not _goes_by_instructions(shell):
        shell.showtraceback((kind, error, traceback), running_compiled_code=True)
        return
    with by_entries(error):
        shell.showtraceback((kind, error, by_entry(traceback)), running_compiled_code=True)


def _goes_by_instructions(shell: Any) -> bool:
    # IPython 7 has the lines from inspect, by this function. Later ones have them from stack_data, which goes by the
    # entries, and which must not see one without an instruction.
    modules = (sys.modules.get(each.__module__) for each in type(shell.InteractiveTB).__mro__)
    return any(hasattr(module, "_fixed_getinnerframes") for module in modules)
