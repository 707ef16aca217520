"""Run a cell as IPython runs it, with a session around it.

Two ways in. A cell typed with the magic on its first line: an input transformer puts one call in the place of that
line, IPython runs the cell by itself, and an event after the cell ends the session. And the magic called as a magic,
where the body is run here, under the name and the line numbers of the cell that it stands in.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic
from IPython.core.inputtransformer2 import classic_prompt
from IPython.core.inputtransformer2 import ipython_prompt
from IPython.core.inputtransformer2 import leading_indent

from compile_magic.errors import guarded
from compile_magic.notebook import plan as plans
from compile_magic.notebook.body import cell_frame
from compile_magic.notebook.body import displayed_last
from compile_magic.notebook.body import ends_with_semicolon
from compile_magic.notebook.body import parsed
from compile_magic.notebook.body import run_statements
from compile_magic.notebook.cellfunction import CannotWrapError
from compile_magic.notebook.cellnames import CellNames
from compile_magic.notebook.firstline import BENCH
from compile_magic.notebook.firstline import EXPLAIN
from compile_magic.notebook.firstline import begin_line
from compile_magic.notebook.firstline import replace_magic_line
from compile_magic.notebook.plan import HOOKS
from compile_magic.notebook.quoted import quote_instead
from compile_magic.notebook.tb_hook import CleanTracebacks
from compile_magic.notebook.tb_hook import clean_last
from compile_magic.notebook.tb_hook import tell

if TYPE_CHECKING:
    from compile_magic.notebook.bench_runner import BenchRunner
    from compile_magic.notebook.session import CellOptions
    from compile_magic.notebook.session import Session
    from compile_magic.trace import Capture

_EVENTS = ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell")


def _as_cell(lines: list[str]) -> list[str]:
    """Return lines as IPython takes them where they are a cell of their own."""
    transforms: list[Any] = [leading_indent, classic_prompt, ipython_prompt, cell_magic]
    for transform in transforms:
        lines = transform(lines)
    return lines


def _replace_line(lines: list[str]) -> list[str]:
    return replace_magic_line(lines, _as_cell)


class CellRunner:
    """Keeps at most one session, and the shell's hooks that it needs.

    Args:
        shell: the IPython shell.
        read_options: turns the line of %%compile_explain into options; raises UsageError.
        show: called with the options and the capture after a cell; may raise what the cell shall end with.
        bench: measures a cell of %%compile_bench before it runs.
    """

    def __init__(
        self,
        shell: Any,
        read_options: Callable[[str], CellOptions],
        show: Callable[[CellOptions, Capture], None],
        bench: BenchRunner,
    ) -> None:
        self._shell = shell
        self._bench = bench
        self._read_options = read_options
        self._show = show
        self._session: Session | None = None
        self._body: list[ast.stmt] | None = None
        self._plan: plans.Plan | None = None
        self._problem: UsageError | None = None
        # The cells that are running, outermost first: what IPython says of each, None for one that it runs silently.
        self._running: list[Any] = []
        self._owner: Any = None
        self._depth: int | None = None
        # How many cells were running when the last one was measured, 0 once it has ended.
        self._measured_at = 0
        self._leaving = False
        self._tracebacks = CleanTracebacks(shell)

    # --- the shell's hooks -------------------------------------------------------------------------------------------

    def register(self) -> None:
        """Put the hooks into the shell."""
        self._shell.input_transformers_cleanup.append(_replace_line)
        self._shell.ast_transformers.append(self)
        for name in _EVENTS:
            self._shell.events.register(name, getattr(self, name))
        setattr(builtins, plans.BEGIN, self.begin)

    def unregister(self) -> None:
        """Take the hooks out again; in the middle of an explained cell, that cell still ends as any other."""
        if _replace_line in self._shell.input_transformers_cleanup:
            self._shell.input_transformers_cleanup.remove(_replace_line)
        self._leaving = True
        if self._session is None:
            self._leave()

    def _leave(self) -> None:
        self._leaving = False
        for name in _EVENTS:
            self._shell.events.unregister(name, getattr(self, name))
        if self in self._shell.ast_transformers:
            self._shell.ast_transformers.remove(self)
        # After %reload_ext the next runner has put its own there.
        if vars(builtins).get(plans.BEGIN) == self.begin:
            del vars(builtins)[plans.BEGIN]

    def pre_execute(self) -> None:
        """Note that a cell starts. A session that has outlived its cell is dropped."""
        if self._session is not None and not self._running:
            self._abandon()
        self._running.append(None)

    def pre_run_cell(self, info: Any) -> None:
        """Remember the cell that starts."""
        if self._running:
            self._running[-1] = info

    def post_run_cell(self, result: Any) -> None:
        """End the session of the cell that has ended, and show its report."""
        if self._session is None or self._owner is None or getattr(result, "info", None) is not self._owner:
            return
        try:
            self._end(result.error_before_exec or result.error_in_exec)
        except Exception as error:  # noqa: BLE001 - it becomes the cell's own error
            result.error_in_exec = result.error_in_exec or error
            self._shell.showtraceback((type(error), error, None))

    def post_execute(self) -> None:
        """Note that a cell has ended. Cells of `%run notebook.ipynb` have no other event to end their session with."""
        if self._running:
            self._running.pop()
        if len(self._running) < self._measured_at:
            self._measured_at = 0
            self._bench.bind(ended=self._shell.last_execution_succeeded)
        if self._session is None:
            self._tracebacks.stop()
        elif self._depth is not None and len(self._running) < self._depth:
            self._end(None)

    def _abandon(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.finish(None, lambda _: None)
        self._unhook()

    # --- a typed cell ------------------------------------------------------------------------------------------------

    def visit(self, tree: ast.Module) -> ast.Module:
        """Rewrite the tree of a cell that is to be explained. IPython calls this for each cell before it runs."""
        try:
            return self._rewrite(tree)
        except Exception as error:  # noqa: BLE001 - IPython would throw the transformer away
            self._problem = UsageError(f"compile_explain could not read the cell: {type(error).__name__}: {error}")
            return tree

    def _rewrite(self, tree: ast.Module) -> ast.Module:
        found = begin_line(tree)
        if found is not None and found[0] == BENCH:
            # It is measured before it runs, and then runs as it is.
            self._body = copy.deepcopy(tree.body[1:])
        elif found is not None and self._session is None:
            tree.body[1:] = self._planned(tree.body[1:], found[1])
        elif found is None and self._session is not None and self._session.mode == "calls":
            tree.body = plans.apply(plans.Plan("calls"), tree.body, self._shell.user_ns)
        return tree

    def _planned(self, body: list[ast.stmt], line: str) -> list[ast.stmt]:
        self._problem, self._plan = None, None
        try:
            options = self._read_options(line)
            self._plan, statements = self._plan_for(body, options)
        except (UsageError, CannotWrapError) as error:
            self._problem = UsageError(str(error))
            return body
        return statements

    def _plan_for(
        self, body: list[ast.stmt], options: CellOptions, *, silent: bool = False
    ) -> tuple[plans.Plan, list[ast.stmt]]:
        """Return how to run a body and what to run instead of it.

        Raises:
            CannotWrapError: it is to be one function and can't be.
        """
        names = self._shell.user_ns
        ways = plans.Ways(
            cell=options.cell,
            named=bool(options.targets),
            interactivity="none" if silent else self._shell.ast_node_interactivity,
            postponed=bool(self._shell.compile.flags & __future__.annotations.compiler_flag),
        )
        body = displayed_last(body, ways.interactivity)
        found = plans.plan(body, names, ways)
        return found, plans.apply(found, body, names, options.targets)

    def begin(self, line: str, magic: str) -> None:
        """Start the session of the cell that is running, or measure it. The first line of a typed cell calls this.

        Raises:
            UsageError: an option or a target is wrong, or a session is running.
        """
        __tracebackhide__ = True
        frame = cell_frame(self._shell.user_ns)
        file = frame.f_code.co_filename if frame is not None else "<cell>"
        # A traceback that quotes the first line shall show what the user wrote there.
        quote_instead(file, plans.BEGIN, f"# %%{magic} {line}".rstrip())
        if magic == BENCH:
            self._measured_at = len(self._running)
            self._measure(line, self._body or [], file)
        else:
            self._explain(line)

    def _explain(self, line: str) -> None:
        problem, self._problem = self._problem, None
        options = self._read_options(line)
        if problem is not None:
            raise problem
        self._start(options, self._plan or plans.Plan("calls"))
        self._owner = self._running[-1] if self._running else None
        self._depth = len(self._running) if self._owner is None else None
        self._tracebacks.start()

    def _measure(self, line: str, body: list[ast.stmt], file: str) -> None:
        __tracebackhide__ = True
        self._refuse_second()
        self._tracebacks.start()
        try:
            self._bench.measure(line, body, file)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _start(self, options: CellOptions, found: plans.Plan) -> None:
        from compile_magic.notebook.session import Session

        self._refuse_second()
        try:
            session = Session(options, found, self._shell.user_ns)
            session.begin()
        except ValueError as error:
            raise UsageError(str(error)) from None
        self._session = session
        vars(builtins).update(session.hooks())

    def _refuse_second(self) -> None:
        if self._session is not None:
            raise UsageError(f"{EXPLAIN} is running in this cell already: one for a cell is enough")

    def _unhook(self) -> None:
        self._owner = self._depth = None
        self._tracebacks.stop()
        for name in HOOKS:
            vars(builtins).pop(name, None)
        if self._leaving:
            self._leave()

    def _end(self, error: BaseException | None) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        faults: list[str] = []
        cell_of = CellNames(self._shell).cell_of
        try:
            if error is not None:
                guarded(clean_last, error, tell=faults.append, default=None)
            capture = guarded(session.finish, error, cell_of, tell=faults.append, default=None)
        finally:
            self._unhook()
        tell(faults)
        if capture is not None:
            self._show(session.options, capture)

    # --- called as a magic -------------------------------------------------------------------------------------------

    def run(self, line: str, body: str, *, single: bool = False) -> Any:
        """Run the body of a magic that was called as one, and return the value of its last expression.

        Raises:
            UsageError: an option or a target is wrong, the body needs an event loop, or a session is running.
        """
        __tracebackhide__ = True
        options = self._read_options(line)
        name, tree = self._parse(EXPLAIN, line, body, single=single)
        silent = ends_with_semicolon(body)
        try:
            found, statements = self._plan_for(tree.body, options, silent=silent)
        except CannotWrapError as error:
            raise UsageError(str(error)) from None
        self._start(options, found)
        return self._execute(ast.Module(statements, []), name, silent=silent)

    def run_bench(self, line: str, body: str, *, single: bool = False) -> Any:
        """Measure the body of a magic that was called as one, run it once, and return the value of its last expression.

        Raises:
            UsageError: an option or a target is wrong, the body needs an event loop, or a session is running.
        """
        __tracebackhide__ = True
        name, tree = self._parse(BENCH, line, body, single=single)
        ended = False
        try:
            self._measure(line, copy.deepcopy(tree.body), name)
            value = run_statements(tree, name, self._shell, silent=ends_with_semicolon(body))
            ended = True
        finally:
            self._bench.bind(ended=ended)
        return value

    def _parse(self, magic: str, line: str, body: str, *, single: bool) -> tuple[str, ast.Module]:
        try:
            return parsed(self._shell, f"%%{magic} {line}".rstrip(), body, single=single)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def _execute(self, tree: ast.Module, name: str, *, silent: bool) -> Any:
        __tracebackhide__ = True
        error: BaseException | None = None
        try:
            return run_statements(tree, name, self._shell, silent=silent)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._end_after(error)

    def _end_after(self, error: BaseException | None) -> None:
        try:
            self._end(error)
        except Exception:
            # A budget that is exceeded must not hide the cell's own error.
            if error is None:
                raise
