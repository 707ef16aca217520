"""Watch the cells of a notebook: hear what each compiles, show it under the cell, keep the ledger."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from compile_magic.errors import CompileBudgetExceeded
from compile_magic.notebook.cellnames import CellNames

if TYPE_CHECKING:
    from compile_magic.model import ExplainReport
    from compile_magic.watch_model import WatchReport
    from compile_magic.watching import Watch


@dataclass(frozen=True)
class WatchOptions:
    """What `%compile_watch on` asks for."""

    only: tuple[str, ...] = ()
    fail_on_recompile: bool = False
    verbose: bool = False


class CellWatch:
    """Switches a watch on and off in a shell, and ends each cell with what it heard.

    Args:
        shell: the IPython shell.
        show: called with the report of a cell in which something was compiled, and with whether to show it in full.
        explained: whether the cell that has just ended was an explained one: its report is shown already.
    """

    def __init__(self, shell: Any, show: Callable[[ExplainReport, bool], None], explained: Callable[[], bool]) -> None:
        self._shell = shell
        self._show = show
        self._explained = explained
        self._watch: Watch | None = None
        self._options = WatchOptions()
        self._since = 0

    @property
    def on(self) -> bool:
        """Whether cells are watched."""
        return self._watch is not None and self._watch.on

    def switch_on(self, options: WatchOptions) -> None:
        """Begin to watch, with the ledger of an earlier watch if there is one; new options replace the old."""
        from compile_magic.watching import Watch

        if self._watch is None or options.only != self._options.only:
            self.switch_off()
            self._watch = Watch(cell_of=CellNames(self._shell).cell_of, only=options.only)
        self._options = options
        if not self._watch.on:
            self._watch.start()
            self._since = self._number()
            self._shell.events.register("post_run_cell", self.post_run_cell)

    def switch_off(self) -> None:
        """Stop watching; the ledger stays until the next `clear`."""
        if self._watch is not None and self._watch.on:
            self._watch.take(self._place())
            self._watch.stop()
            self._shell.events.unregister("post_run_cell", self.post_run_cell)

    def clear(self) -> None:
        """Forget the ledger."""
        if self._watch is not None:
            self._watch.clear()

    def report(self) -> WatchReport:
        """Return the ledger."""
        from compile_magic.watch_model import WatchReport

        return self._watch.report() if self._watch is not None else WatchReport()

    def status(self) -> str:
        """Return whether the watch is on, and the totals, in one line."""
        if not self.on:
            return "compile_watch is off; %compile_watch switches it on"
        report = self.report()
        return (
            f"compile_watch is on since In[{self._since}] · compiles: {report.compile_count}, "
            f"recompiles: {report.recompile_count}, limits reached: {report.limit_hit_count}, "
            f"functions: {len(report.functions)} · {report.compile_time_s:.1f} s"
        )

    # --- after each cell ---------------------------------------------------------------------------------------------

    def post_run_cell(self, result: Any) -> None:
        """Add what the cell compiled to the ledger and show it; fail the cell if that was asked for."""
        if self._watch is None:
            return
        report = self._watch.take(self._place())
        self._note_calls(result, report)
        if report is None:
            return
        if not self._explained():
            self._show(report, self._options.verbose)
        if self._options.fail_on_recompile and (report.recompile_count or report.limit_hit_count):
            self._fail(result, report)

    def _fail(self, result: Any, report: ExplainReport) -> None:
        try:
            report.check(max_recompiles=0)
        except CompileBudgetExceeded as error:
            if result.error_in_exec is None:
                result.error_in_exec = error
                self._shell.showtraceback((type(error), error, None))

    def _note_calls(self, result: Any, report: ExplainReport | None) -> None:
        watch = self._watch
        silent = watch.past_their_limit() if watch is not None else set()
        raw = getattr(getattr(result, "info", None), "raw_cell", "") or ""
        if watch is None or not silent or not any(name.rpartition(".")[2] in raw for name in silent):
            return
        watch.note_calls(self._number(), _called(self._shell, raw) & silent, report.compiled if report else ())

    def _number(self) -> int:
        # The counter is one ahead in some IPythons; the history isn't.
        return max(len(self._shell.history_manager.input_hist_parsed) - 1, 0)

    def _place(self) -> str:
        return f"In[{self._number()}]"


def _called(shell: Any, raw: str) -> set[str]:
    """Return the names that a cell calls, of functions and of methods."""
    try:
        tree = ast.parse(shell.transform_cell(raw))
    except SyntaxError:
        return set()
    callees = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {c.id if isinstance(c, ast.Name) else c.attr for c in callees if isinstance(c, (ast.Name, ast.Attribute))}
