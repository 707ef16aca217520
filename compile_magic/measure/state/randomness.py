"""Sources of random numbers that the user has made, and numpy's arrays, without importing numpy."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Any

import torch

from compile_magic.measure.state.kept import StateKept


@dataclass(frozen=True)
class Source:
    """A kind of generator: how its state is read and written, and when two states are the same."""

    is_one: Callable[[Any], bool]
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], object]
    same: Callable[[Any, Any], object] = eq


def numpy() -> Any:
    """Return numpy if it is imported, else None."""
    return sys.modules.get("numpy")


def is_array(value: object) -> bool:
    """Return whether this is an array of numpy's."""
    kind = getattr(numpy(), "ndarray", None)
    return kind is not None and issubclass(type(value), kind)


def _is_numpys(name: str) -> Callable[[Any], bool]:
    def is_one(value: Any) -> bool:
        kind = getattr(getattr(numpy(), "random", None), name, None)
        return kind is not None and issubclass(type(value), kind)

    return is_one


def same_numpy(now: Any, then: Any) -> bool:
    """Return whether two states of a numpy generator, dicts with arrays in them, are the same."""
    if isinstance(now, dict):
        return now.keys() == then.keys() and all(same_numpy(now[key], then[key]) for key in now)
    return bool(now.tobytes() == then.tobytes()) if is_array(now) else bool(now == then)


def _set_bits(generator: Any, state: Any) -> None:
    generator.bit_generator.state = state


SOURCES: tuple[Source, ...] = (
    Source(
        lambda value: issubclass(type(value), torch.Generator),
        lambda value: value.get_state(),
        lambda value, state: value.set_state(state),
        torch.equal,
    ),
    Source(
        lambda value: issubclass(type(value), random.Random) and not issubclass(type(value), random.SystemRandom),
        lambda value: value.getstate(),
        lambda value, state: value.setstate(state),
    ),
    Source(
        _is_numpys("RandomState"),
        lambda value: value.get_state(legacy=False),
        lambda value, state: value.set_state(state),
        same_numpy,
    ),
    Source(_is_numpys("Generator"), lambda value: value.bit_generator.state, _set_bits, same_numpy),
)


def kept(path: str, value: Any) -> StateKept | None:
    """Return the remembered state of a source of random numbers, None if it isn't one."""
    source = next((source for source in SOURCES if source.is_one(value)), None)
    if source is None:
        return None
    return StateKept(path, partial(source.read, value), partial(source.write, value), source.same)
