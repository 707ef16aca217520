"""Take off the marks that compiling leaves on modules and tensors of the user's.

torch.compile(module) marks the module itself, and compiling an optimizer marks its parameters as static.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import torch

MARKS = ("_is_torch_compile", "_dynamo_", "_torchdynamo_")


class Marks:
    """Remembers which marks objects have, and removes those that our own compiles have added."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Any, set[str]]] = {}
        self._ours: dict[int, tuple[Any, set[str]]] = {}
        self._as_of = 0

    def watch(self, values: Iterable[Any]) -> None:
        """Remember the marks of the modules and optimizers among `values`, and of their tensors."""
        for value in values:
            for owner in _owners(value):
                if id(owner) not in self._watched:
                    self._watched[id(owner)] = (owner, _marks(owner))

    def before_call(self, compiles_outside: int) -> None:
        """Take what was added since the last call for the user's, if the user has compiled something since."""
        if compiles_outside != self._as_of:
            self._as_of = compiles_outside
            self._add_to(self._watched)

    def after_compile(self) -> None:
        """Note what a call of ours has added."""
        self._add_to(self._ours)

    def _add_to(self, found: dict[int, tuple[Any, set[str]]]) -> None:
        for number, (owner, known) in self._watched.items():
            ours = self._ours.get(number, (owner, set()))[1]
            new = _marks(owner) - known - ours
            if new:
                found.setdefault(number, (owner, set()))[1].update(new)

    def restore(self) -> None:
        """Remove the marks that calls of ours have added."""
        for owner, names in self._ours.values():
            for name in names & set(vars(owner)):
                del vars(owner)[name]
        self._watched.clear()
        self._ours.clear()


def _marks(owner: Any) -> set[str]:
    return {name for name in vars(owner) if name.startswith(MARKS)}


def _owners(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.nn.Module):
        yield from value.modules()
        yield from value.parameters()
        yield from value.buffers()
    elif isinstance(value, torch.optim.Optimizer):
        yield value
        yield from (tensor for group in value.param_groups for tensor in group["params"])
