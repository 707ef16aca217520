"""Tell a cell that makes something many times larger in each run: a few dozen runs in a row would take all memory."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import torch

# By how much more a run must add than the one before it. Adding to a list in each run gives 1, doubling gives 2.
_FACTOR = 1.2
_RUNS = 3
_CONTAINERS = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


def sizes(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, int]:
    """Return how large the values of names are: items, letters, elements, or the bits of a whole number."""
    return {name: _size(values[name]) for name in names if name in values}


def _size(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return 0 if value.layout != torch.strided or value.is_nested else value.numel()
    if type(value) is int:
        return value.bit_length()
    return len(value) if type(value) in _CONTAINERS else 0


def growing(found: list[dict[str, int]]) -> str | None:
    """Return the name of what grew faster and faster over three runs, None if nothing did."""
    for name in found[0] if len(found) == _RUNS else ():
        first, second, third = (one.get(name, 0) for one in found)
        if second > first and third - second >= _FACTOR * (second - first):
            return name
    return None
