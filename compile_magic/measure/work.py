"""What is measured: the body of a cell, or one call of a function, to be run again and again."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from collections.abc import Mapping
from types import CodeType
from typing import Any
from typing import Protocol

from compile_magic import _torch
from compile_magic.notebook.intercept import HOOK
from compile_magic.notebook.plan import HOOKS
from compile_magic.notebook.plan import REBIND

# What a cell's work calls with the value of its last expression.
KEEP = "__compile_magic_keep__"
VALUE = "the cell's value"


class Callees(Protocol):
    """What a lane gives the work to call."""

    def hook(self, candidate: Any, name: str = "") -> Any:
        """Return what is called instead of what the cell's own code calls."""

    def explained(self, candidate: Any, name: str) -> Any:
        """Return what is called instead of a callable that the user has named."""

    def rebind(self, name: str) -> None:
        """Take note that the cell has bound a name anew."""


class AsItIs:
    """Has the work call what it is written to call."""

    def hook(self, candidate: Any, name: str = "") -> Any:
        """Return the callable itself."""
        return candidate

    def explained(self, candidate: Any, name: str) -> Any:
        """Return the callable itself."""
        return candidate

    def rebind(self, name: str) -> None:
        """Do nothing."""


class Work(Protocol):
    """Something that can be run any number of times; `enter` and `leave` stand around the runs of one lane."""

    namespace: dict[str, Any]

    def enter(self, callees: Callees) -> None:
        """Send the calls of the following runs to these."""

    def leave(self) -> None:
        """Undo `enter`."""

    def run(self) -> None:
        """Run once. What it raises, it raises."""

    def results(self) -> dict[str, Any]:
        """Return what the last run gave, by name."""


class CellWork:
    """The body of a cell in the notebook's namespace.

    Args:
        code: the rewritten body.
        namespace: where it runs.
        bound: the names that it binds.
        hooks: more names that the code uses, and what they stand for.
        whole: what the function is called that the body was made, if it was.
    """

    def __init__(
        self,
        code: CodeType,
        namespace: dict[str, Any],
        bound: frozenset[str],
        hooks: Mapping[str, Any],
        *,
        whole: str = "",
    ) -> None:
        self.namespace = namespace
        self.code = code
        self._bound = bound
        self._hooks = {**hooks, KEEP: self._keep}
        self._value: list[Any] = []
        self._whole = whole
        self._leave: Callable[[], None] | None = None

    def enter(self, callees: Callees) -> None:
        """Make the names that the code uses builtins."""
        if self._whole:
            self._leave = _torch.follow_new_names(self._whole)
        vars(builtins).update({**self._hooks, HOOK: callees.hook, REBIND: callees.rebind})

    def leave(self) -> None:
        """Take them off again."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
        for name in (*HOOKS, KEEP):
            vars(builtins).pop(name, None)

    def run(self) -> None:
        """Run the body once."""
        exec(self.code, self.namespace)  # noqa: S102 - the user's own cell

    def _keep(self, value: Any) -> None:
        self._value[:] = [value]

    def results(self) -> dict[str, Any]:
        """Return the values of the names that the body binds, and that of its last expression."""
        found = {name: self.namespace[name] for name in sorted(self._bound) if name in self.namespace}
        return {**found, **({VALUE: self._value[0]} if self._value else {})}


class FunctionWork:
    """One call of a function."""

    def __init__(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.namespace: dict[str, Any] = {}
        self._function = function
        self._callee = function
        self._name = name
        self._args = args
        self._kwargs = kwargs
        self._value: Any = None

    def enter(self, callees: Callees) -> None:
        """Call what there is instead of the function."""
        self._callee = callees.explained(self._function, self._name)

    def leave(self) -> None:
        """Call the function itself again."""
        self._callee = self._function

    def run(self) -> None:
        """Make the call once."""
        self._value = self._callee(*self._args, **self._kwargs)

    def results(self) -> dict[str, Any]:
        """Return what the call gave."""
        return {"result": self._value}
