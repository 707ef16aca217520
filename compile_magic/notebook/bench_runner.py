"""Measure a cell that is about to run, and show what was found above what it prints."""

from __future__ import annotations

import ast
import contextvars
import sys
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import CodeType
from typing import TYPE_CHECKING
from typing import Any

from compile_magic.errors import said
from compile_magic.notebook.progress import LiveLine

if TYPE_CHECKING:
    from compile_magic.bench_model import BenchReport
    from compile_magic.notebook.bench_cell import BenchOptions


class BenchRunner:
    """Measures bodies of cells in a shell's namespace. Afterwards the caller runs the body once, plainly.

    Args:
        shell: the IPython shell.
        read_options: turns the line of the magic into options; raises UsageError.
        silenced: keeps what a run prints and displays from being shown.
        live: makes the line that shows what is going on.
        show: shows a report in the place of that line, and returns what binds it to its names.
    """

    def __init__(
        self,
        shell: Any,
        read_options: Callable[[str], BenchOptions],
        silenced: Callable[[], AbstractContextManager[Any]],
        live: Callable[[BenchOptions], LiveLine],
        show: Callable[[BenchOptions, BenchReport, LiveLine], Callable[[], None]],
    ) -> None:
        self._shell = shell
        self._read_options = read_options
        self._silenced = silenced
        self._live = live
        self._show = show
        self._bind: Callable[[], None] | None = None

    def measure(self, line: str, body: Sequence[ast.stmt], file: str) -> None:
        """Measure the body of the cell called `file` and show the report.

        Raises:
            UsageError: an option is wrong.
            ValueError: the body or a target can't be measured; the message is one line that says what to do.
            KeyboardInterrupt: the user has stopped it; what was measured until then is shown.
        """
        __tracebackhide__ = True
        options = self._read_options(line)
        live = self._live(options)
        try:
            report = self._report(options, body, file, live)
            self._bind = self._show(options, report, live)
        except (ValueError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must not take the cell's result away
            sys.stderr.write(
                f"compile_bench could not measure this cell: {said(error)}. "
                "The cell runs as usual. Please report this with the cell.\n"
            )
            return
        if report.interrupted:
            raise KeyboardInterrupt

    def _report(self, options: BenchOptions, body: Sequence[ast.stmt], file: str, live: LiveLine) -> BenchReport:
        from compile_magic.notebook.bench_cell import Shell
        from compile_magic.notebook.bench_cell import bench_cell

        def compile_code(tree: ast.Module) -> CodeType:
            code: CodeType = self._shell.compile(tree, file, "exec")
            return code

        shell = Shell(self._shell.user_ns, compile_code, self._silenced, live)
        # In a context of its own, so that variables of contexts are afterwards what they were.
        return contextvars.copy_context().run(bench_cell, body, options, shell)

    def bind(self) -> None:
        """Bind the last report, after the cell that was measured has run: it must not find it instead of its own."""
        bind, self._bind = self._bind, None
        if bind is not None:
            bind()
