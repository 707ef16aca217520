"""Measure a cell that is about to run, and show what was found above what it prints."""

from __future__ import annotations

import ast
import contextvars
import re
import sys
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import CodeType
from typing import TYPE_CHECKING
from typing import Any

from compile_magic.errors import said
from compile_magic.notebook.cellfunction import needs_event_loop
from compile_magic.notebook.progress import LiveLine

if TYPE_CHECKING:
    from compile_magic.bench_model import BenchReport
    from compile_magic.notebook.alone import Calls
    from compile_magic.notebook.bench_cell import Benched
    from compile_magic.notebook.bench_cell import BenchOptions
    from compile_magic.notebook.bench_cell import Shell

# What IPython calls the inputs and outputs of cells, and we the last report.
_IPYTHONS = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[dios]h|_compile_report|__compile_magic_\w+")


class BenchRunner:
    """Measures bodies of cells in a shell's namespace. Afterwards the caller runs the body once, plainly.

    Args:
        shell: the IPython shell.
        read_options: turns the line of the magic into options; raises UsageError.
        silenced: keeps what a run prints and displays from being shown.
        live: makes the line that shows what is going on.
        show: shows a report in the place of that line, and returns what binds it to its names after the plain run,
            and shows an alarm if that comes with it.
    """

    def __init__(
        self,
        shell: Any,
        read_options: Callable[[str], BenchOptions],
        silenced: Callable[[], AbstractContextManager[Any]],
        live: Callable[[BenchOptions], LiveLine],
        show: Callable[[BenchOptions, BenchReport, LiveLine], Callable[[BenchReport, str], None]],
    ) -> None:
        self._shell = shell
        self._read_options = read_options
        self._silenced = silenced
        self._live = live
        self._show = show
        self._bind: Callable[[BenchReport, str], None] | None = None
        self._benched: Benched | None = None
        self._calls: Calls | None = None

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
            benched = self._benched = self._bench(options, body, file, live)
            if not self._will_measure_alone(benched, options, body, file):
                self._bind = self._show(options, benched.report, live)
        except (ValueError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must not take the cell's result away
            self._tell_fault("could not measure this cell", error)
            return
        if benched.report.interrupted:
            raise KeyboardInterrupt

    def _tell_fault(self, what: str, error: Exception) -> None:
        sys.stderr.write(
            f"compile_bench {what}: {said(error)}. The cell runs as usual. Please report this with the cell.\n"
        )

    def _bench(self, options: BenchOptions, body: Sequence[ast.stmt], file: str, live: LiveLine) -> Benched:
        from compile_magic.notebook.bench_cell import bench_cell

        # In a context of its own, so that variables of contexts are afterwards what they were.
        return contextvars.copy_context().run(bench_cell, body, options, self._around(file, live))

    def _around(self, file: str, live: LiveLine) -> Shell:
        from compile_magic.notebook.bench_cell import Shell

        def compile_code(tree: ast.Module) -> CodeType:
            code: CodeType = self._shell.compile(tree, file, "exec")
            return code

        return Shell(self._shell.user_ns, compile_code, self._silenced, live, self._is_ipythons)

    # --- a cell that runs once ---------------------------------------------------------------------------------------

    def _will_measure_alone(self, benched: Benched, options: BenchOptions, body: Sequence[ast.stmt], file: str) -> bool:
        """Begin to note what a cell that can't be repeated calls, and return whether there is anything to note."""
        from compile_magic.notebook.alone import Calls

        if not benched.once or benched.report.interrupted or needs_event_loop(ast.Module(list(body), [])):
            return False
        self._calls = Calls(body, self._shell.user_ns, file, options.settings.targets)
        self._options, self._file = options, file
        return self._calls.start()

    def _measure_alone(self, benched: Benched, *, ended: bool) -> Benched:
        """Measure what was noted, and show what was found; without that, the reason why the cell runs once."""
        from compile_magic.notebook.alone import measure_alone

        calls, self._calls = self._calls, None
        if calls is None or self._bind is not None:
            return benched
        calls.stop()
        why, options = benched.report.error or "", self._options
        live = self._live(options)
        context = contextvars.copy_context()
        found = context.run(
            list, measure_alone(calls, why, options.settings, self._around(self._file, live)) if ended else ()
        )
        calls.forget()
        timed = sorted((one for one in found if one.variants), key=lambda one: -(one.variants[0].median_s or 0.0))
        first, *more = [*timed, *(one for one in found if not one.variants), benched.report][: max(1, len(timed))]
        self._bind = self._show(options, first, live)
        for other in more:
            self._show(options, other, self._live(options))
        return replace(benched, report=first)

    def _is_ipythons(self, name: str) -> bool:
        """Return whether a name of the notebook is one that IPython, or we, keep up after each cell."""
        return name in self._shell.user_ns_hidden or _IPYTHONS.fullmatch(name) is not None

    def bind(self, *, ended: bool) -> None:
        """Bind the last report, after the cell that was measured has run: it must not find it instead of its own.

        Args:
            ended: whether the cell has run to its end. What it has left is then compared with what one run leaves.
        """
        benched, self._benched = self._benched, None
        if benched is None:
            return
        report, alarm = benched.report, ""
        try:
            report, alarm = benched.after_plain_run(ended=ended)
            report = self._measure_alone(replace(benched, report=report), ended=ended).report
        except Exception as error:  # noqa: BLE001 - a fault of ours must not take the cell's result away
            self._tell_fault("could not look at what the cell has left", error)
        bind, self._bind = self._bind, None
        if bind is not None:
            bind(report, alarm)
