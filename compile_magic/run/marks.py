"""Keep the marks that compiling puts on tensors of the user's to the time of our calls.

Dynamo marks what it takes for static, AOTAutograd what came out with a dynamic size. Which objects these are is seen
where torch sets the mark, whether they are in the notebook, in a container, or made by the call itself.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from compile_magic import _torch
from compile_magic import looks
from compile_magic.looks import MISSING
from compile_magic.run.detours import Detour


@dataclass(frozen=True)
class _Mark:
    """An attribute of an object that our compiles have set, with its value before and since."""

    owner: weakref.ref[Any]
    name: str
    before: Any
    ours: Any


class Marks:
    """The marks of one run: on their objects between `lay` and `lift`, both of which may be called again."""

    def __init__(self) -> None:
        self._marks: dict[tuple[int, str], _Mark] = {}
        self._laid = False
        self._detours = [self._noting(function) for function in _torch.marking_functions()]

    def _noting(self, function: Any) -> Detour:
        def noting(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            before = _marks(tensor)
            try:
                return detour.original(tensor, *args, **kwargs)
            finally:
                self._note(tensor, before)

        detour = Detour(function, noting)
        return detour

    def _note(self, owner: Any, before: dict[str, Any]) -> None:
        for name, value in _marks(owner).items():
            was = before.get(name, MISSING)
            if was is not MISSING and was == value:
                continue
            known = self._marks.get((id(owner), name))
            kept = known.before if known is not None and known.owner() is owner else was
            self._marks[id(owner), name] = _Mark(weakref.ref(owner), name, kept, value)

    def lay(self) -> None:
        """Put the marks on again, and note new ones; what the user has marked anew meanwhile stays the user's."""
        if self._laid:
            return
        self._laid = True
        for key, mark in list(self._marks.items()):
            if not _exchange(mark, mark.before, mark.ours):
                del self._marks[key]
        for detour in self._detours:
            detour.lay()

    def lift(self) -> None:
        """Take the marks off."""
        for detour in self._detours:
            detour.lift()
        if self._laid:
            for mark in self._marks.values():
                _exchange(mark, mark.ours, mark.before)
        self._laid = False

    def end(self) -> None:
        """Take the marks off for good."""
        self.lift()
        for detour in self._detours:
            detour.end()


def _exchange(mark: _Mark, there: Any, value: Any) -> bool:
    """Set a mark to `value` if it is `there` now, and return whether it was."""
    own = looks.attributes(mark.owner())
    now = MISSING if own is None else own.get(mark.name, MISSING)
    if own is None or (now is MISSING) != (there is MISSING) or now != there:
        return False
    if value is MISSING:
        del own[mark.name]
    else:
        own[mark.name] = _copied(value)
    return True


def _copied(value: Any) -> Any:
    # torch adds to the sets of sizes in place.
    return set(value) if isinstance(value, set) else value


def _marks(owner: Any) -> dict[str, Any]:
    own = looks.attributes(owner) or {}
    return {name: _copied(value) for name, value in own.items() if name.startswith(_torch.MARKS)}
