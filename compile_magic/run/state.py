"""Compile beside the user's caches, and leave Dynamo as it was.

The promise: no function that the user compiled recompiles because of us, none gets nearer to its recompile limit,
and a first compile after us is as static as it would have been.

Most explained functions were never compiled by the user. For them a plain compile is enough, and afterwards the code
objects that Dynamo first met inside our calls are reset. Where live entries of the user's exist, their functions run
on a copy of their code for the time of an intercepted call, so that our entries land on the copy. Exchanging code
objects while another thread runs them crashes the interpreter; with such threads we compile in an isolated region
instead (torch 2.13 and newer) and say what stays behind.
"""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from types import FunctionType
from typing import Any

from compile_magic import _torch
from compile_magic.run.threads import other_threads_busy


@dataclass(frozen=True)
class _Swap:
    function: FunctionType
    original: CodeType
    substitute: CodeType


@dataclass(frozen=True)
class _Theirs:
    """What of Dynamo's state is exchanged for the time of a call."""

    errors: bool
    shapes: tuple[Any, set[str]]
    tallies: _torch.Tallies
    seen: int
    frame: int


class Isolation:
    """Keeps the compiles of one run apart from the user's.

    `enter` before each compiled call, `leave` after it, and `restore` at the end.

    Args:
        backend: the backend object that all compiles of this run use: it tells our cache entries from others.
        fresh: start with an empty memory of dynamic shapes instead of a copy of the user's.
        suppress: run what can't be compiled in eager instead of raising.
    """

    def __init__(self, backend: object, *, fresh: bool = False, suppress: bool = True) -> None:
        self._backend = backend
        self._suppress = suppress
        self._fresh = fresh
        self._process = _torch.ProcessState()
        self._shapes: tuple[Any, set[str]] | None = None
        self._codes: dict[int, CodeType] = {}
        self._frames: list[tuple[int, int]] = []
        self._namespaces: dict[int, dict[str, Any]] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._new_names: dict[int, frozenset[str]] = {}
        self._theirs: _Theirs | None = None
        self._swaps: tuple[_Swap, ...] = ()
        self._swaps_as_of: object = None
        self._lock = threading.Lock()
        self._holder: int | None = None
        self.notes: dict[str, None] = {}

    def watch_namespace(self, namespace: dict[str, Any]) -> None:
        """Remember the names in a namespace that compiles may add to."""
        if id(namespace) not in self._namespaces:
            self._namespaces[id(namespace)] = namespace
            self._names[id(namespace)] = _torch.dynamo_names(namespace)

    def enter(self, compiles_outside: int) -> bool:
        """Begin a compiled call apart from the user's caches; return whether it is to be ended with `leave`.

        Args:
            compiles_outside: how many compiles of the user's own were seen; after a new one we look for live entries.
        """
        me = threading.get_ident()
        # Held by this thread, it is left over from an interrupt. Held by another one, that has exchanged the state.
        if not self._lock.acquire(blocking=False) and self._holder != me:
            return False
        self._holder = me
        self._take_over(compiles_outside)
        return True

    def leave(self) -> None:
        """End the compiled call and give the user's state back."""
        self._give_back()
        if self._holder == threading.get_ident():
            self._holder = None
            self._lock.release()

    def _take_over(self, compiles_outside: int) -> None:
        # Remembered first and changed afterwards, so that an interrupt in between can be undone.
        self._give_back()
        if self._swaps_as_of != compiles_outside:
            self._swaps, self._swaps_as_of = self._find_swaps(), compiles_outside
        theirs = self._theirs = _Theirs(
            errors=_torch.suppresses_errors(),
            shapes=self._process.shapes(),
            tallies=self._process.tallies(),
            seen=_torch.seen_count(),
            frame=_torch.frame_count(),
        )
        if theirs.errors != self._suppress:
            # A part that can't be compiled then runs in eager and raises what it raises in a plain cell.
            _torch.suppress_errors(value=self._suppress)
        if self._shapes is None:
            self._shapes = (None, set()) if self._fresh else (copy.deepcopy(theirs.shapes[0]), set(theirs.shapes[1]))
        self._process.set_shapes(self._shapes)
        for swap in self._swaps:
            swap.function.__code__ = swap.substitute

    def _give_back(self) -> None:
        # Forgotten only when all is undone, and each step may be done twice: an interrupt can come in between.
        theirs = self._theirs
        if theirs is None:
            return
        for swap in self._swaps:
            if swap.function.__code__ is swap.substitute:
                swap.function.__code__ = swap.original
        if theirs.errors != self._suppress:
            _torch.suppress_errors(value=theirs.errors)
        frame = _torch.frame_count()
        if self._process.shapes()[0] is not theirs.shapes[0]:
            self._shapes = self._process.shapes()
        self._process.set_shapes((None, theirs.shapes[1]) if frame < theirs.frame else theirs.shapes)
        if (_torch.seen_count(), frame) != (theirs.seen, theirs.frame):
            self._note_compiled(theirs, frame)
        self._process.set_tallies(theirs.tallies)
        self._theirs = None

    def _note_compiled(self, theirs: _Theirs, frame: int) -> None:
        start = theirs.seen if _torch.seen_count() >= theirs.seen else 0
        self._codes.update((id(code), code) for code in _torch.seen_codes(start))
        self._note_frames(theirs.frame, frame)

    def after_compile(self) -> None:
        """Note the names that a region in which something was compiled has put into namespaces."""
        for number, namespace in self._namespaces.items():
            new = _torch.dynamo_names(namespace) - self._names[number] - self._new_names.get(number, frozenset())
            if new:
                self._new_names[number] = self._new_names.get(number, frozenset()) | new
                _torch.tolerate_lost_names(namespace, new)

    def _note_frames(self, first: int, past: int) -> None:
        if past < first or (self._frames and first < self._frames[-1][1]):
            # The user has called torch._dynamo.reset(), which starts frame ids anew.
            self._frames.clear()
        self._frames.append((min(first, past), past))

    def _find_swaps(self) -> tuple[_Swap, ...]:
        codes = {id(code): code for code in _torch.seen_codes() if self._is_theirs(code)}
        if not codes:
            return ()
        if other_threads_busy():
            self.notes["another thread is running: compiled in a region of its own, whose cache entries stay"] = None
            return ()
        memo = {id(swap.original): swap.substitute for swap in self._swaps}
        return tuple(_Swap(f, f.__code__, _copy_code(f.__code__, memo)) for f in _functions_of(codes))

    def _is_theirs(self, code: CodeType) -> bool:
        return id(code) not in self._codes and bool(_torch.entries(code))

    def restore(self, compiles_outside: int) -> None:
        """Put back what our compiles left in the process. Call it once, after the last region."""
        self._give_back()
        self._note_lost_entries()
        self._codes.update((id(code), code) for code in _torch.resume_codes(list(self._codes.values())))
        mine = [code for code in self._codes.values() if not self._shared(code)]
        self._codes.clear()
        for code in mine:
            _torch.forget_code(code)
        _torch.forget_seen(mine)
        names = [(self._namespaces[number], new) for number, new in self._new_names.items()]
        # Compiles share the names that none of them owns; with none of the user's in this run, the new ones are ours.
        _torch.forget_names(mine, names, shared=not compiles_outside)
        _torch.forget_backend(self._backend)
        self._forget_frames()
        self._swaps = ()

    def _note_lost_entries(self) -> None:
        # A thread of the user's that compiles at the same moment can get in between a look for live entries and ours.
        for code in _torch.seen_codes():
            if id(code) not in self._codes and any(
                _torch.entry_backend(e) is self._backend for e in _torch.entries(code)
            ):
                self._codes[id(code)] = code

    def _shared(self, code: CodeType) -> bool:
        backends = [_torch.entry_backend(entry) for entry in _torch.entries(code)]
        if all(backend is self._backend for backend in backends):
            return False
        if any(backend is self._backend for backend in backends):
            self.notes[f"`{code.co_name}` keeps a cache entry of this run: it was compiled by you in the same cell"] = (
                None
            )
        return True

    def _forget_frames(self) -> None:
        if not self._frames:
            return
        joined = all(end == start for (_, end), (start, _) in zip(self._frames, self._frames[1:], strict=False))
        alone = joined and self._frames[-1][1] == _torch.frame_count()
        for first, past in reversed(self._frames):
            _torch.forget_frames(first, past, rewind=alone)


def _functions_of(codes: Mapping[int, CodeType]) -> list[FunctionType]:
    referrers = gc.get_referrers(*codes.values())
    return [f for f in referrers if isinstance(f, FunctionType) and id(f.__code__) in codes]


def _copy_code(code: CodeType, memo: dict[int, CodeType]) -> CodeType:
    """Return an equal code object that Dynamo has never seen, with the code of inner functions copied as well."""
    if id(code) not in memo:
        consts = tuple(_copy_code(c, memo) if isinstance(c, CodeType) else c for c in code.co_consts)
        memo[id(code)] = code.replace(co_consts=consts)
    return memo[id(code)]
