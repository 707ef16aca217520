"""Compile beside the user's caches, and leave Dynamo as it was.

The promise: no function that the user compiled recompiles because of us, none gets nearer to its recompile limit,
a first compile after us is as static as it would have been, and what the user compiles meanwhile is his and stays.

It is kept by one rule: Dynamo's state is ours exactly while our own compiled region runs, and the user's at all other
times. `enter` and `leave` stand around a call of ours, `step_aside` and `step_back` around each region that the user
has compiled and that is entered inside of it. So nobody has to find out afterwards whose something is.

Our entries land on copies of the code: of what we compile, and of whatever holds live entries of the user's; these
functions have the copy for the time that is ours. What only turns up after a break is reset afterwards, since nobody
else has compiled it. Exchanging code objects while another thread runs them crashes the interpreter; with such threads
we compile in an isolated region instead (torch 2.13 and newer) and say what stays behind.
"""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from types import CodeType
from types import FunctionType
from typing import Any
from typing import NamedTuple

from compile_magic import _torch
from compile_magic.run.threads import other_threads_busy


@dataclass(frozen=True)
class _Swap:
    """A function whose code is a copy of it for a while. It is not kept alive by that."""

    function: weakref.ref[FunctionType]
    original: CodeType
    substitute: CodeType

    def lay(self) -> None:
        _exchange(self.function(), self.original, self.substitute)

    def lift(self) -> None:
        _exchange(self.function(), self.substitute, self.original)


def _exchange(function: FunctionType | None, before: CodeType, after: CodeType) -> None:
    if function is not None and function.__code__ is before:
        function.__code__ = after


class _Traces(NamedTuple):
    """Numbers that are others once anything was compiled."""

    outside: int
    records: int
    outputs: int
    seen: int
    frame: int


@dataclass(frozen=True)
class _Theirs:
    """What of Dynamo's state is exchanged while it is ours."""

    errors: bool
    shapes: tuple[Any, set[str]]
    tallies: _torch.Tallies
    traces: _Traces


@dataclass
class _Namespace:
    """Globals that compiles put names into: which are the user's as of the last look, and which are ours.

    `shared` are those of ours that any compile there would use: they are there only while Dynamo's state is ours.
    """

    names: dict[str, Any]
    theirs: frozenset[str]
    ours: frozenset[str] = frozenset()
    shared: dict[str, Any] = field(default_factory=dict)

    def look(self) -> None:
        # Ours that are shared are away now: what is there under such a name was put there by a compile of the user's.
        self.theirs = _torch.dynamo_names(self.names) - (self.ours - self.shared.keys())
        self.ours -= self.theirs
        self.shared = {name: value for name, value in self.shared.items() if name in self.ours}

    def note_ours(self) -> None:
        self.ours |= _torch.dynamo_names(self.names) - self.theirs
        self.shared = {n: v for n, v in _torch.shared_names(self.names).items() if n in self.ours}

    def lay(self) -> None:
        for name, value in self.shared.items():
            self.names.setdefault(name, value)

    def lift(self) -> None:
        for name in self.shared:
            self.names.pop(name, None)


class Isolation:
    """Keeps the compiles of one run apart from the user's.

    Args:
        backend: the backend object that all compiles of this run use: it tells our cache entries from others.
        heard: tells how many compiles of the user's own were heard of, and how many records of all; after new ones his
            state is looked at anew.
        fresh: start with an empty memory of dynamic shapes instead of a copy of the user's.
        suppress: run what can't be compiled in eager instead of raising.
    """

    def __init__(
        self, backend: object, heard: Callable[[], tuple[int, int]], *, fresh: bool = False, suppress: bool = True
    ) -> None:
        self._backend = backend
        self._heard = heard
        self._suppress = suppress
        self._fresh = fresh
        self._process = _torch.ProcessState()
        self._shapes: tuple[Any, set[str]] | None = None
        self._codes: dict[int, CodeType] = {}
        self._frames: list[tuple[int, int]] = []
        self._namespaces: dict[int, _Namespace] = {}
        self._outputs: list[Any] = []
        self._known_outputs: dict[int, Any] = {}
        self._theirs: _Theirs | None = None
        # By the `id` of the original code: one copy for all functions that share it.
        self._copies: dict[int, tuple[CodeType, CodeType]] = {}
        self._compiled: dict[int, _Swap] = {}
        self._swaps: tuple[_Swap, ...] = ()
        self._as_of: _Traces | None = None
        self._lock = threading.Lock()
        self._holder: int | None = None
        self.notes: dict[str, None] = {}

    def watch_namespace(self, namespace: dict[str, Any]) -> None:
        """Look after the names in a namespace that compiles add to."""
        if id(namespace) not in self._namespaces:
            self._namespaces[id(namespace)] = _Namespace(namespace, _torch.dynamo_names(namespace))

    def run_on_copies(self, functions: Iterable[FunctionType]) -> None:
        """Let these run on copies of their code while Dynamo's state is ours, from now on."""
        if other_threads_busy():
            return
        for function in functions:
            known = self._compiled.get(id(function))
            if known is None or known.function() is not function:
                swap = self._compiled[id(function)] = self._swap(function)
                if self._theirs is not None:
                    swap.lay()

    def _swap(self, function: FunctionType) -> _Swap:
        original = function.__code__
        return _Swap(weakref.ref(function), original, _copy_code(original, self._copies))

    # --- whose Dynamo's state is -------------------------------------------------------------------------------------

    def enter(self) -> bool:
        """Begin a compiled call apart from the user's caches; return whether it is to be ended with `leave`."""
        me = threading.get_ident()
        # Held by this thread, it is left over from an interrupt. Held by another one, that has exchanged the state.
        if not self._lock.acquire(blocking=False) and self._holder != me:
            return False
        self._holder = me
        self._take_over()
        return True

    def leave(self) -> None:
        """End the compiled call and give the user's state back."""
        self._give_back()
        if self._holder == threading.get_ident():
            self._holder = None
            self._lock.release()

    def step_aside(self) -> bool:
        """Give the user's state back for a compiled region of his; return whether `step_back` is to end that."""
        if self._theirs is None or self._holder != threading.get_ident():
            return False
        self._give_back()
        return True

    def step_back(self) -> None:
        """Take over again after `step_aside`."""
        self._take_over()

    def _take_over(self) -> None:
        # Remembered first and changed afterwards, so that an interrupt in between can be undone.
        self._give_back()
        traces = self._traces()
        if self._as_of != traces:
            self._look_at_theirs()
        theirs = self._theirs = _Theirs(
            errors=_torch.suppresses_errors(),
            shapes=self._process.shapes(),
            tallies=self._process.tallies(),
            traces=traces,
        )
        if theirs.errors != self._suppress:
            # A part that can't be compiled then runs in eager and raises what it raises in a plain cell.
            _torch.suppress_errors(value=self._suppress)
        if self._shapes is None:
            self._shapes = (None, set()) if self._fresh else (copy.deepcopy(theirs.shapes[0]), set(theirs.shapes[1]))
        self._process.set_shapes(self._shapes)
        for swap in (*self._compiled.values(), *self._swaps):
            swap.lay()
        for namespace in self._namespaces.values():
            namespace.lay()

    def _give_back(self) -> None:
        # Forgotten only when all is undone, and each step may be done twice: an interrupt can come in between.
        theirs = self._theirs
        if theirs is None:
            return
        for swap in (*self._compiled.values(), *self._swaps):
            swap.lift()
        if theirs.errors != self._suppress:
            _torch.suppress_errors(value=theirs.errors)
        now = self._traces()
        if self._process.shapes()[0] is not theirs.shapes[0]:
            self._shapes = self._process.shapes()
        self._process.set_shapes((None, theirs.shapes[1]) if now.frame < theirs.traces.frame else theirs.shapes)
        if now != theirs.traces:
            self._note_compiled(theirs.traces, now)
        for namespace in self._namespaces.values():
            namespace.lift()
        self._process.set_tallies(theirs.tallies)
        self._as_of = now
        self._theirs = None

    def _traces(self) -> _Traces:
        return _Traces(*self._heard(), _torch.output_count(), _torch.seen_count(), _torch.frame_count())

    def _look_at_theirs(self) -> None:
        """Look which functions, names and compiled code objects are the user's now."""
        self._known_outputs = _torch.outputs()
        for namespace in self._namespaces.values():
            namespace.look()
        self._swaps = self._find_swaps()

    def _note_compiled(self, before: _Traces, now: _Traces) -> None:
        made = _torch.outputs_since(self._known_outputs)
        start = before.seen if now.seen >= before.seen else 0
        self._codes.update((id(code), code) for code in _torch.seen_codes(start))
        self._note_frames(before.frame, now.frame)
        self._known_outputs = _torch.outputs()
        self._outputs += made
        _torch.tolerate_lost_names(made)
        for names in _torch.scopes(made):
            if id(names) not in self._namespaces:
                # Found only now, after a break had led there. What compiles of the user's may use there stays.
                used = _torch.owners_in(names) - {id(reference()) for reference in self._outputs}
                self._namespaces[id(names)] = _Namespace(names, _torch.dynamo_names(names) if used else frozenset())
        for namespace in self._namespaces.values():
            namespace.note_ours()

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
        return tuple(self._swap(function) for function in _functions_of(codes))

    def _is_theirs(self, code: CodeType) -> bool:
        return id(code) not in self._codes and bool(_torch.entries(code))

    # --- the end -----------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Put back what our compiles left in the process. Call it once, after the last region."""
        self._give_back()
        for swap in (*self._compiled.values(), *self._swaps):
            # After an interrupt one may still be in place.
            swap.lift()
        self._note_lost_entries()
        self._codes.update((id(code), code) for code in _torch.resume_codes(list(self._codes.values())))
        mine = [code for code in self._codes.values() if not self._shared(code)]
        self._codes.clear()
        _torch.forget_names(self._outputs)
        for namespace in self._namespaces.values():
            # Those of an attempt that Dynamo has started over belong to no compiled code.
            _torch.forget_unowned(namespace.names, namespace.ours - set(namespace.shared))
        for code in mine:
            _torch.forget_code(code)
        _torch.forget_seen(mine)
        _torch.forget_backend(self._backend)
        self._forget_frames()
        self._swaps = ()
        self._compiled.clear()
        self._copies.clear()
        self._namespaces.clear()

    def _note_lost_entries(self) -> None:
        # A thread of the user's that compiles at the same moment can get in between a look for live entries and ours.
        for code in _torch.seen_codes():
            if id(code) not in self._codes and any(
                _torch.is_backend(getattr(e, "backend", None), self._backend) for e in _torch.entries(code)
            ):
                self._codes[id(code)] = code

    def _shared(self, code: CodeType) -> bool:
        backends = [_torch.entry_backend(entry) for entry in _torch.entries(code)]
        # Before 2.11 torch doesn't tell; then what was first compiled in our time is ours.
        backends = [backend for backend in backends if backend is not None]
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


def _copy_code(code: CodeType, memo: dict[int, tuple[CodeType, CodeType]]) -> CodeType:
    """Return an equal code object that Dynamo has never seen, with the code of inner functions copied as well."""
    if id(code) not in memo:
        consts = tuple(_copy_code(c, memo) if isinstance(c, CodeType) else c for c in code.co_consts)
        memo[id(code)] = (code, code.replace(co_consts=consts))
    return memo[id(code)][1]
