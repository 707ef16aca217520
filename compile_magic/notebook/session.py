"""One explained cell, from its options to its report, without a word of IPython."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from types import FunctionType
from typing import Any

from compile_magic import _torch
from compile_magic.errors import guarded
from compile_magic.errors import said
from compile_magic.measure.state import process
from compile_magic.model import ExplainReport
from compile_magic.notebook.cellfunction import CELL_FUNCTION
from compile_magic.notebook.cellfunction import SHOWN_NAME
from compile_magic.notebook.cellfunction import name_nicely
from compile_magic.notebook.patches import Patches
from compile_magic.notebook.plan import HOOKS
from compile_magic.notebook.plan import Plan
from compile_magic.notebook.tracebacks import clean_bound
from compile_magic.notebook.tracebacks import clean_handled
from compile_magic.notebook.tracebacks import raised_in_graph
from compile_magic.read.parse import parse
from compile_magic.run.run import Options
from compile_magic.run.run import Run
from compile_magic.run.sources import CellOf
from compile_magic.run.sources import collect
from compile_magic.trace import Capture


@dataclass(frozen=True)
class CellOptions:
    """What the line of the magic asks for."""

    targets: tuple[str, ...] = ()
    cell: bool = False
    run: Options = field(default_factory=Options)
    guards: bool = False
    graphs: bool = False
    quiet: bool = False
    output: str | None = None
    max_breaks: int | None = None
    max_recompiles: int | None = None
    max_graphs: int | None = None


_LOST_NAMES = (
    "an op in a graph raised: the names that the cell had bound since the last break are not bound, "
    "as in any function that is compiled"
)


class Session:
    """Explains one cell. `begin` before it, `intercept` and `rebind` from inside it, `finish` after it.

    Raises:
        ValueError: an option is wrong; the message is one line that says what to do.
    """

    def __init__(self, options: CellOptions, plan: Plan, namespace: dict[str, Any]) -> None:
        self.options = options
        self._plan = plan
        self._namespace = namespace
        self._run = Run(options.run, mode=plan.mode)
        self._patches = Patches(self._run, namespace)
        self._value: Any = None
        self._raised: str | None = None

    @property
    def mode(self) -> str:
        """How the cell is run: "calls", "named" or "cell"."""
        return self._plan.mode

    def begin(self) -> None:
        """Start to listen and put the explained targets in place.

        Raises:
            TargetError: a target can't be explained. Nothing is left behind.
        """
        guarded(self._run.watch_namespace, self._namespace, tell=self._run.note, default=None)
        guarded(self._run.start, tell=self._run.note, default=None)
        if self.options.targets:
            self._run.steps_aside.append(self._patches.step_aside)
        try:
            for name in self.options.targets:
                self._patches.add(name, bound_later=self._plan.bound)
        except BaseException:
            self._end()
            raise
        if self._plan.note:
            self._run.note(self._plan.note)

    def intercept(self, candidate: Any, name: str = "") -> Any:
        """Return what the cell shall call instead of `candidate`."""
        if self.mode == "cell":
            return self._body(candidate)
        return self._run.intercept(candidate, name) if self.mode == "calls" else candidate

    def _body(self, function: FunctionType) -> Callable[[], Any]:
        name_nicely(self._namespace.pop(CELL_FUNCTION))
        tell = self._run.note
        explained = guarded(self._run.explained, function, "the cell's body", tell=tell, default=function)

        def body() -> Any:
            __tracebackhide__ = True
            end = _torch.follow_new_names(SHOWN_NAME)
            try:
                return explained()
            except Exception as error:
                if not self._plan.shape.again and guarded(raised_in_graph, error, tell=tell, default=False):
                    tell(_LOST_NAMES)
                raise
            finally:
                end()

        return body

    def ran(self, function: FunctionType | None = None) -> bool:
        """Run the body of the cell; return False if it has raised, with all put back. Later on, return that again."""
        if function is None:
            return self._raised is None
        draws = process.kept(process.DRAWS)
        before = {name: self._namespace[name] for name in self._plan.bound if name in self._namespace}
        try:
            self._value = self._body(function)()
        except Exception as error:  # noqa: BLE001 - the cell's own statements raise it, or do not
            self._raised = said(error)
            for name in self._plan.bound & set(self._namespace):
                del self._namespace[name]
            self._namespace.update(before)
            for kept in draws:
                kept.put_back()
        return self._raised is None

    def value(self) -> Any:
        """Return the value of the last expression of the body that ran."""
        value, self._value = self._value, None
        return value

    def rebind(self, name: str) -> None:
        """Explain the callable that the cell has just bound to a target's name."""
        guarded(self._patches.rebind, name, tell=self._run.note, default=None)

    def clean(self) -> None:
        """Clean the exception that an `except` of the cell has caught."""
        guarded(clean_handled, tell=self._run.note, default=None)

    def hooks(self) -> dict[str, Any]:
        """Return what the names in a rewritten cell stand for."""
        mine = (self.intercept, self.rebind, self.ran, self.value, _display, self.clean)
        return dict(zip(HOOKS, mine, strict=True))

    def _end(self) -> None:
        try:
            self._patches.undo()
        finally:
            self._run.finish()

    def finish(self, error: BaseException | None, cell_of: CellOf) -> Capture:
        """Put everything back and return what was recorded."""
        self._end()
        guarded(clean_bound, list(self._namespace.values()), tell=self._run.note, default=None)
        text = said(error) if error is not None else None
        if self._raised is not None and error is None:
            self._run.note(f"as one function the body raised {self._raised}; the cell was run in eager instead")
        capture = self._run.capture(collect(self._run.finish(), cell_of), error=text)
        reached = any(target.how != "eager" for target in capture.targets) or error is not None
        if self._plan.if_nothing and not reached:
            return replace(capture, notes=(*capture.notes, self._plan.if_nothing))
        return capture


def _display(value: Any) -> None:
    sys.displayhook(value)


def report_of(capture: Capture) -> ExplainReport:
    """Return what the records of a capture say."""
    return parse(capture)
