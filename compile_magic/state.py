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
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from types import FunctionType
from typing import Any

from compile_magic import _torch
from compile_magic.threads import other_threads_busy


@dataclass(frozen=True)
class _Swap:
    function: FunctionType
    original: CodeType
    substitute: CodeType


class Isolation:
    """Keeps the compiles of one run apart from the user's.

    Enter `region` around each compiled call, and call `restore` at the end.

    Args:
        backend: the backend object that all compiles of this run use: it tells our cache entries from others.
        fresh: start with an empty memory of dynamic shapes instead of a copy of the user's.
    """

    def __init__(self, backend: object, *, fresh: bool = False) -> None:
        self._backend = backend
        self._fresh = fresh
        self._process = _torch.ProcessState()
        self._shapes: tuple[Any, set[str]] | None = None
        self._codes: dict[int, CodeType] = {}
        self._frames: list[tuple[int, int]] = []
        self._namespaces: dict[int, dict[str, Any]] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._swaps: tuple[_Swap, ...] = ()
        self._swaps_as_of: object = None
        self._lock = threading.Lock()
        self.notes: dict[str, None] = {}

    def watch_namespace(self, namespace: dict[str, Any]) -> None:
        """Remember the names in a namespace that compiles may add to."""
        if id(namespace) not in self._namespaces:
            self._namespaces[id(namespace)] = namespace
            self._names[id(namespace)] = _torch.dynamo_names(namespace)

    @contextmanager
    def region(self, compiles_outside: int) -> Iterator[None]:
        """Run one compiled call apart from the user's caches.

        Args:
            compiles_outside: how many compiles of the user's own were seen; after a new one we look for live entries.
        """
        if not self._lock.acquire(blocking=False):
            # A call inside a call, or in a second thread: the outer one has exchanged the state already.
            yield
            return
        try:
            with _errors_suppressed(), self._exchanged_shapes(), self._on_copies(compiles_outside), self._counted():
                yield
        finally:
            self._lock.release()

    @contextmanager
    def _exchanged_shapes(self) -> Iterator[None]:
        theirs, frames = self._process.shapes(), _torch.frame_count()
        if self._shapes is None:
            self._shapes = (None, set()) if self._fresh else (copy.deepcopy(theirs[0]), set(theirs[1]))
        self._process.set_shapes(self._shapes)
        try:
            yield
        finally:
            self._shapes = self._process.shapes()
            was_reset = _torch.frame_count() < frames
            self._process.set_shapes((None, theirs[1]) if was_reset else theirs)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        tallies, seen, frame = self._process.tallies(), _torch.seen_count(), _torch.frame_count()
        try:
            yield
        finally:
            if (_torch.seen_count(), _torch.frame_count()) != (seen, frame):
                start = seen if _torch.seen_count() >= seen else 0
                self._codes.update((id(code), code) for code in _torch.seen_codes(start))
                self._note_frames(frame, _torch.frame_count())
            self._process.set_tallies(tallies)

    def _note_frames(self, first: int, past: int) -> None:
        if past < first or (self._frames and first < self._frames[-1][1]):
            # The user has called torch._dynamo.reset(), which starts frame ids anew.
            self._frames.clear()
        self._frames.append((min(first, past), past))

    @contextmanager
    def _on_copies(self, compiles_outside: int) -> Iterator[None]:
        if self._swaps_as_of != compiles_outside:
            self._swaps, self._swaps_as_of = self._find_swaps(), compiles_outside
        for swap in self._swaps:
            swap.function.__code__ = swap.substitute
        try:
            yield
        finally:
            for swap in self._swaps:
                if swap.function.__code__ is swap.substitute:
                    swap.function.__code__ = swap.original

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
        mine = [code for code in self._codes.values() if not self._shared(code)]
        self._codes.clear()
        for code in mine:
            _torch.forget_code(code)
        _torch.forget_seen(mine)
        _torch.forget_names(mine)
        if not compiles_outside:
            # The user's own compiles share these names; with none of them in this run, the new ones are ours.
            for namespace in self._namespaces.values():
                _torch.forget_stray_names(namespace, self._names[id(namespace)])
        _torch.forget_backend(self._backend)
        self._forget_frames()
        self._swaps = ()

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


@contextmanager
def _errors_suppressed() -> Iterator[None]:
    # A part of the user's function that can't be compiled then runs in eager and raises what it raises in a plain cell.
    before = _torch.suppress_errors(value=True)
    try:
        yield
    finally:
        _torch.suppress_errors(before)


def _functions_of(codes: Mapping[int, CodeType]) -> list[FunctionType]:
    referrers = gc.get_referrers(*codes.values())
    return [f for f in referrers if isinstance(f, FunctionType) and id(f.__code__) in codes]


def _copy_code(code: CodeType, memo: dict[int, CodeType]) -> CodeType:
    """Return an equal code object that Dynamo has never seen, with the code of inner functions copied as well."""
    if id(code) not in memo:
        consts = tuple(_copy_code(c, memo) if isinstance(c, CodeType) else c for c in code.co_consts)
        memo[id(code)] = code.replace(co_consts=consts)
    return memo[id(code)]
