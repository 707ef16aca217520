"""One explained cell, from its options to its report, without a word of IPython."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from compile_magic.model import ExplainReport
from compile_magic.notebook.cellfunction import CELL_FUNCTION
from compile_magic.notebook.cellfunction import UNBOUND
from compile_magic.notebook.cellfunction import name_nicely
from compile_magic.notebook.cellfunction import publish
from compile_magic.notebook.cellfunction import publish_partly
from compile_magic.notebook.patches import Patches
from compile_magic.notebook.plan import HOOKS
from compile_magic.notebook.plan import Plan
from compile_magic.notebook.tracebacks import clean_handled
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

    @property
    def mode(self) -> str:
        """How the cell is run: "calls", "named" or "cell"."""
        return self._plan.mode

    def begin(self) -> None:
        """Start to listen and put the explained targets in place.

        Raises:
            TargetError: a target can't be explained. Nothing is left behind.
        """
        self._run.watch_namespace(self._namespace)
        self._run.start()
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
        if getattr(candidate, "__name__", "") == CELL_FUNCTION:
            name_nicely(self._namespace.pop(CELL_FUNCTION))
            explained = self._run.explained(candidate, "the cell's body")
            return functools.partial(self._call_body, explained)
        return self._run.intercept(candidate, name) if self.mode == "calls" else candidate

    def _call_body(self, explained: Any, *values: Any) -> Any:
        try:
            return explained(*values)
        except BaseException as error:
            publish_partly(self._namespace, error.__traceback__, sorted(self._plan.bound))
            raise

    def rebind(self, name: str) -> None:
        """Explain the callable that the cell has just bound to a target's name."""
        self._patches.rebind(name)

    def publish(self, result: Any, names: tuple[str, ...]) -> Any:
        """Bind what the cell's body has bound, and return the value of its last expression."""
        return publish(self._namespace, result, names)

    def hooks(self) -> dict[str, Any]:
        """Return what the names in a rewritten cell stand for."""
        return dict(zip(HOOKS, (self.intercept, self.rebind, self.publish, UNBOUND, clean_handled), strict=True))

    def _end(self) -> None:
        self._patches.undo()
        self._run.finish()

    def finish(self, error: BaseException | None, cell_of: CellOf) -> Capture:
        """Put everything back and return what was recorded."""
        self._end()
        text = f"{type(error).__name__}: {error}" if error is not None else None
        return self._run.capture(collect(self._run.finish(), cell_of), error=text)


def report_of(capture: Capture) -> ExplainReport:
    """Return what the records of a capture say."""
    return parse(capture)
