"""What a run can change in instances, classes and functions, read without any code of the user's."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CellType
from types import FunctionType
from types import GetSetDescriptorType
from types import MemberDescriptorType
from typing import Any

from compile_magic import looks
from compile_magic.measure.state.kept import MISSING
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.kept import same

Slot = MemberDescriptorType | GetSetDescriptorType


class SlotsKept(Kept):
    """The `__slots__` of an instance, read by their descriptors and so without any code of the user's."""

    def __init__(self, path: str, held: object, slots: dict[str, Slot]) -> None:
        self.path, self._held, self._slots = path, held, slots
        self.then = self._read()

    def _read(self) -> dict[str, Any]:
        return {name: _slot_contents(slot, self._held) for name, slot in self._slots.items()}

    def changed(self) -> bool:
        """Return whether it is different now."""
        return not same(self._read().values(), self.then.values())

    def put_back(self) -> None:
        """Make it what it was, in place."""
        for name, slot in self._slots.items():
            # Read one by one: to set an exception's cause sets one more of these.
            if _slot_contents(slot, self._held) is not self.then[name]:
                self._write(slot, self.then[name])

    def _write(self, slot: Slot, value: Any) -> None:
        if value is MISSING:
            slot.__delete__(self._held)
        else:
            slot.__set__(self._held, value)

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        yield from ((f"{self.path}.{n}", v) for n, v in self._read().items() if v is not self.then[n])


class ClassKept(Kept):
    """The attributes of a class of the user's: counters and caches that instances share."""

    def __init__(self, path: str, held: type) -> None:
        self.path, self._held, self._then = path, held, dict(looks.class_attributes(held))

    def changed(self) -> bool:
        """Return whether it is different now."""
        now = looks.class_attributes(self._held)
        return now.keys() != self._then.keys() or not all(now[name] is value for name, value in self._then.items())

    def put_back(self) -> None:
        """Make it what it was, in place."""
        for name in looks.class_attributes(self._held).keys() - self._then.keys():
            type.__delattr__(self._held, name)
        for name, value in self._then.items():
            if looks.class_attributes(self._held).get(name, MISSING) is not value:
                type.__setattr__(self._held, name, value)

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        now = dict(looks.class_attributes(self._held))
        yield from ((f"{self.path}.{n}", v) for n, v in now.items() if v is not self._then.get(n, MISSING))


class CellKept(Kept):
    """A variable of an outer function, which `nonlocal` can set."""

    def __init__(self, path: str, held: CellType) -> None:
        self.path, self._held, self._then = path, held, cell_contents(held)

    def changed(self) -> bool:
        """Return whether it is different now."""
        return cell_contents(self._held) is not self._then

    def put_back(self) -> None:
        """Make it what it was, in place."""
        if self._then is MISSING:
            del self._held.cell_contents
        else:
            self._held.cell_contents = self._then

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        if self.changed():
            yield self.path, cell_contents(self._held)


class DefaultsKept(Kept):
    """The default arguments of a function of the user's."""

    def __init__(self, path: str, held: FunctionType) -> None:
        self.path, self._held, self._then = path, held, (held.__defaults__, held.__kwdefaults__)

    def changed(self) -> bool:
        """Return whether it is different now."""
        return not same((self._held.__defaults__, self._held.__kwdefaults__), self._then)

    def put_back(self) -> None:
        """Make it what it was, in place."""
        self._held.__defaults__, self._held.__kwdefaults__ = self._then


def _slot_contents(slot: Slot, held: object) -> Any:
    try:
        return slot.__get__(held)
    except AttributeError:
        return MISSING


def cell_contents(cell: CellType) -> Any:
    """Return what is in a closure's cell, MISSING if nothing is yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def attributes_of(value: Any) -> dict[str, Any] | None:
    """Return the `__dict__` of an object, None if it has none."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return own if isinstance(own, dict) else None


# What each raise of an exception changes; the last one is set by setting the cause.
_OF_ERRORS = ("args", "__traceback__", "__context__", "__cause__", "__suppress_context__")


@functools.lru_cache(maxsize=4096)
def slots_of(kind: Any) -> dict[str, Slot]:
    """Return the `__slots__` of a class by name, and what Python itself keeps of an exception."""
    errors = vars(BaseException)
    return {
        **({name: errors[name] for name in _OF_ERRORS} if issubclass(kind, BaseException) else {}),
        **{
            name: member
            for base in looks.mro(kind)
            if "__slots__" in looks.class_attributes(base)
            for name, member in looks.class_attributes(base).items()
            if isinstance(member, MemberDescriptorType)
        },
    }
