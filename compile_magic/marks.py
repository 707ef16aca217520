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
    """Remembers which attributes objects have, and removes the marks that were added since."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Any, frozenset[str]]] = {}

    def watch(self, values: Iterable[Any]) -> None:
        """Remember the attributes of the modules and optimizers among `values`, and of their tensors."""
        for value in values:
            for owner in _owners(value):
                if id(owner) not in self._watched:
                    self._watched[id(owner)] = (owner, frozenset(vars(owner)))

    def restore(self) -> None:
        """Remove the marks that were added since."""
        for owner, before in self._watched.values():
            for name in [name for name in vars(owner) if name.startswith(MARKS) and name not in before]:
                del vars(owner)[name]
        self._watched.clear()


def _owners(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.nn.Module):
        yield from value.modules()
        yield from value.parameters()
        yield from value.buffers()
    elif isinstance(value, torch.optim.Optimizer):
        yield value
        yield from (tensor for group in value.param_groups for tensor in group["params"])
