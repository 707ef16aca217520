"""A thing that a run can change, remembered so that it can be put back in place."""

from __future__ import annotations

from abc import ABC
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from operator import eq
from operator import is_
from typing import Any

MISSING = object()


class Kept(ABC):
    """A thing that a run can change, with what it was when this was made."""

    path: str

    @abstractmethod
    def changed(self) -> bool:
        """Return whether it is different now."""

    @abstractmethod
    def put_back(self) -> None:
        """Make it what it was, in place."""

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        yield from ()


class StateKept(Kept):
    """Anything whose whole state can be read as a value and written: a generator, a setting of the process."""

    def __init__(
        self,
        path: str,
        read: Callable[[], Any],
        write: Callable[[Any], object],
        same: Callable[[Any, Any], object] = eq,
    ) -> None:
        self.path, self._read, self._write, self._is_same = path, read, write, same
        self._then = read()

    def changed(self) -> bool:
        """Return whether it is different now."""
        return not self._is_same(self._read(), self._then)

    def put_back(self) -> None:
        """Make it what it was, in place."""
        self._write(self._then)


def same(now: Iterable[Any], then: Iterable[Any]) -> bool:
    """Return whether these are the same objects in the same order. No `==` of the user's is called."""
    return all(map(is_, now, then))


def label(key: object) -> str:
    """Return a key as a path shows it. Only plain keys are spelled out: a `repr` can be the user's code."""
    return repr(key)[:40] if type(key) in {str, int, bool, float, type(None)} else "..."


def label_of(name: object) -> str:
    """Return the name of an attribute as a path shows it."""
    return name if isinstance(name, str) else "..."
