"""Watch the cells of a notebook: hear what each compiles, show it under the cell, keep the ledger."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace
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


_EVENTS = ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell")


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
        self._loud: list[bool] = []

    @property
    def on(self) -> bool:
        """Whether cells are watched."""
        return self._watch is not None and self._watch.on

    def switch_on(self, options: WatchOptions) -> None:
        """Begin to watch, with the ledger of an earlier watch if there is one; new options replace the old."""
        from compile_magic.watching import Watch

        if self._watch is None:
            self._watch = Watch(cell_of=CellNames(self._shell).cell_of)
        self._options = options
        self._watch.only(options.only)
        if not self._watch.on:
            self._watch.start()
            self._since = self._number()
            self._explained()
            # The cell that switches it on is running already, and its front end hears of it.
            self._loud = [True]
            for name in _EVENTS:
                self._shell.events.register(name, getattr(self, name))

    def switch_off(self) -> None:
        """Stop watching; the ledger stays until the next `clear`."""
        if self._watch is not None and self._watch.on:
            self._watch.take(self._place())
            self._watch.stop()
            for name in _EVENTS:
                self._shell.events.unregister(name, getattr(self, name))

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

    def pre_execute(self) -> None:
        """Note that a cell starts, until more is known one that IPython runs silently."""
        self._loud.append(False)

    def pre_run_cell(self, _: Any) -> None:
        """Note that the cell is an ordinary one."""
        if self._loud:
            self._loud[-1] = True

    def post_execute(self) -> None:
        """End a cell that IPython runs silently, as those of `ipython notebook.ipynb`: it has no other event."""
        if self._loud and not self._loud.pop():
            self._end_cell(None)

    def post_run_cell(self, result: Any) -> None:
        """Add what the cell compiled to the ledger and show it; fail the cell if that was asked for."""
        self._end_cell(result)

    def _end_cell(self, result: Any) -> None:
        explained = self._explained()
        if self._watch is None:
            return
        report = self._watch.take(self._place())
        self._note_calls(result, report)
        if report is None:
            return
        if not explained:
            self._show(report, self._options.verbose)
        if (
            result is not None
            and self._options.fail_on_recompile
            and (report.recompile_count or report.limit_hit_count)
        ):
            self._fail(result, report)

    def _fail(self, result: Any, report: ExplainReport) -> None:
        try:
            replace(report, error=None).check(max_recompiles=0)
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
