"""What a run can change in dicts, lists, sets and namespaces.

Everything here compares by identity: the `==` of a user's class or of a tensor is never called.
"""

from __future__ import annotations

from collections import OrderedDict
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from compile_magic._torch import MARKS
from compile_magic.measure.state.kept import MISSING
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.kept import label
from compile_magic.measure.state.kept import same


def _is_mark(key: object) -> bool:
    # Compiling marks modules and tensors; those who compile take the marks off.
    return isinstance(key, str) and key.startswith(MARKS)


class DictKept(Kept):
    """A dict of any kind: its keys in their order, and its values."""

    def __init__(self, path: str, held: dict[Any, Any]) -> None:
        self.path, self._held = path, held
        # The methods of the class itself: a user's subclass may do more when an item is set.
        self._kind: Any = OrderedDict if isinstance(held, OrderedDict) else dict
        self._keys, self._values = list(self._kind.keys(held)), list(self._kind.values(held))

    def changed(self) -> bool:
        """Return whether it is different now."""
        kind, held = self._kind, self._held
        if len(held) == len(self._keys) and same(kind.values(held), self._values) and same(kind.keys(held), self._keys):
            return False
        now = [item for pair in kind.items(held) if not _is_mark(pair[0]) for item in pair]
        pairs = zip(self._keys, self._values, strict=True)
        then = [item for pair in pairs if not _is_mark(pair[0]) for item in pair]
        return len(now) != len(then) or not same(now, then)

    def put_back(self) -> None:
        """Make it what it was, in place."""
        kind, held = self._kind, self._held
        marks = {key: value for key, value in kind.items(held) if _is_mark(key) and key not in self._keys}
        if len(held) != len(self._keys) or not same(kind.keys(held), self._keys):
            kind.clear(held)
        for key, value in zip(self._keys, self._values, strict=True):
            if kind.get(held, key, MISSING) is not value:
                kind.__setitem__(held, key, value)
        for key, value in marks.items():
            kind.__setitem__(held, key, value)

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        then = {id(key): value for key, value in zip(self._keys, self._values, strict=True)}
        for key, value in list(self._kind.items(self._held)):
            if then.get(id(key), MISSING) is not value:
                yield f"{self.path}[{label(key)}]", value


class NamesKept(Kept):
    """Some names of a dict that nobody may empty: a namespace, or the globals of a module.

    `names` gives the names to look after at any time, so that it can leave out those that others put there.
    """

    def __init__(self, path: str, held: dict[str, Any], names: Callable[[dict[str, Any]], Iterable[str]]) -> None:
        self.path, self._held, self._names = path, held, names
        self._keys = frozenset(held)
        self._then = {name: held[name] for name in names(held) if name in held}

    def changed(self) -> bool:
        """Return whether it is different now."""
        held, then = self._held, self._then
        if held.keys() == self._keys:
            return any(held[name] is not value for name, value in then.items())
        now = [name for name in self._names(held) if name in held]
        return len(now) != len(then) or any(held[name] is not then.get(name, MISSING) for name in now)

    def put_back(self) -> None:
        """Make it what it was, in place."""
        for name in [name for name in self._names(self._held) if name not in self._then]:
            self._held.pop(name, None)
        for name, value in self._then.items():
            if self._held.get(name, MISSING) is not value:
                self._held[name] = value

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        for name in self._names(self._held):
            value = self._held.get(name, MISSING)
            if value is not MISSING and value is not self._then.get(name, MISSING):
                yield name, value


class SequenceKept(Kept):
    """A list, a deque, a bytearray or an array: its items in their order."""

    def __init__(self, path: str, held: Any) -> None:
        self.path, self._held = path, held
        self._then: Any = list(held) if isinstance(held, (list, deque)) else held[:]

    def changed(self) -> bool:
        """Return whether it is different now."""
        if not isinstance(self._then, list):
            return bool(self._held != self._then)
        return len(self._held) != len(self._then) or not same(self._held, self._then)

    def put_back(self) -> None:
        """Make it what it was, in place."""
        if isinstance(self._held, deque):
            deque.clear(self._held)
            deque.extend(self._held, self._then)
        elif isinstance(self._held, list):
            list.__setitem__(self._held, slice(None), self._then)
        else:
            self._held[:] = self._then

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        if isinstance(self._then, list):
            then = {id(value) for value in self._then}
            yield from ((f"{self.path}[{n}]", v) for n, v in enumerate(list(self._held)) if id(v) not in then)


class SetKept(Kept):
    """A set: what is in it. The order in which it is walked may differ once it has changed."""

    def __init__(self, path: str, held: set[Any]) -> None:
        self.path, self._held, self._then = path, held, {id(item): item for item in held}

    def changed(self) -> bool:
        """Return whether it is different now."""
        return self._then.keys() != {id(item) for item in self._held}

    def put_back(self) -> None:
        """Make it what it was, in place."""
        set.clear(self._held)
        set.update(self._held, self._then.values())
