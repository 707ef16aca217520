"""Whose code the first run enters, looked at before that code runs.

What names lead to is remembered before the run. Code of the user's can be reached in other ways (a hook on a node of a
graph, a callback that a library holds), and libraries have state of their own: both are remembered when their code is
first entered. What an object of C's does can be neither seen nor put back, and is refused unless it is known.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from types import CodeType
from types import FrameType
from types import FunctionType
from typing import Any
from typing import Protocol

from compile_magic.measure.state.cobjects import is_harmless
from compile_magic.measure.state.cobjects import refusal
from compile_magic.measure.state.effects import is_asked_by_user
from compile_magic.measure.state.effects import is_users
from compile_magic.measure.state.libraries import is_watched
from compile_magic.measure.state.writes import UnrepeatableError

# Looking for the functions of a code object takes Python tens of milliseconds. Code that is entered later than this is
# all but surely made by the run.
_MOST_LOOKS = 50
_MOST_SECONDS = 3.0
_A_MODULE = "<module>"
LIBRARYS = (
    "the cell changes `{}`, which belongs to a library and can't be put back. Do that in a cell of its own and bench "
    "the rest"
)


class Watcher(Protocol):
    """Is told what a run enters, before that runs."""

    @property
    def counters(self) -> Mapping[str, str]:
        """The counters of libraries that nobody can set: path by name."""

    def knows(self, value: object) -> bool:
        """Return whether an object is remembered already, or is a plain value."""

    def knows_code(self, code: CodeType) -> bool:
        """Return whether a function with this code is."""

    def found_function(self, function: FunctionType) -> None:
        """Remember what a function of the user's leads to."""

    def found_library(self, name: str) -> None:
        """Remember the state of the modules of a package."""

    def found_module(self, name: str) -> None:
        """Remember the state of one module, which has just been imported."""


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Return a context for a run, in which `watcher` is told what it enters. A profiler of the user's goes on.

    Raises:
        UnrepeatableError: inside the context, before what can't be shown to be repeatable; at its end, if the run has
            put a profiler of its own in the place of what looks on here.
    """
    before: Any = sys.getprofile()
    entered = _Entered(watcher, before if callable(before) else None)
    look = entered.look
    sys.setprofile(look)
    try:
        yield
        if sys.getprofile() is not look and not UnrepeatableError.since:
            raise UnrepeatableError(
                "the cell sets a profiler of its own, and what it calls can't be seen then. Take that out of the cell"
            )
    finally:
        sys.setprofile(before if callable(before) else None)
        if before is not None and not callable(before):
            # Python's cProfile, which has no other way back (up to Python 3.11).
            before.enable()


class _Entered:
    def __init__(self, watcher: Watcher, chained: Callable[..., Any] | None) -> None:
        self._watcher = watcher
        self._chained = chained
        # By `id`, with the code itself: its id would go to another one. True where each call has to be looked at.
        self._codes: dict[int, tuple[CodeType, bool]] = {}
        self._made: set[int] = set()
        self._harmless: set[Any] = set()
        self._libraries: set[str] = set()
        self._looks = 0
        self._deadline = time.perf_counter() + _MOST_SECONDS

    def look(self, frame: FrameType, event: str, arg: Any) -> None:
        """Take a call before it is made; this is a function for `sys.setprofile`."""
        if event == "c_call":
            kind = type(arg.__self__)
            if kind not in self._harmless or arg is next:
                self._check_call(frame, arg, kind)
        elif event == "call":
            known = self._codes.get(id(frame.f_code))
            if known is None:
                self._first(frame)
            elif known[1]:
                self._check_closure(frame)
        elif event == "return" and frame.f_code.co_name == _A_MODULE:
            self._imported(frame)
        if self._chained is not None:
            self._chained(frame, event, arg)

    def _check_call(self, frame: FrameType, function: Any, kind: Any) -> None:
        if function is next:
            self._check_counters(frame.f_code)
        elif is_harmless(kind):
            self._harmless.add(kind)
        else:
            words = refusal(function, frame.f_code.co_filename, self._watcher.knows)
            if words is not None:
                raise UnrepeatableError(words)

    def _check_counters(self, code: CodeType) -> None:
        """Refuse the next number of a counter that the caller names; what is asked for it can't be seen."""
        counters = self._watcher.counters
        name = next((name for name in code.co_names if name in counters), None) if counters else None
        # What counts while it is imported does so once.
        if name is not None and is_asked_by_user():
            raise UnrepeatableError(LIBRARYS.format(counters[name]))

    def _first(self, frame: FrameType) -> None:
        code, mine = frame.f_code, is_users(frame)
        made = id(code) in self._made or code.co_name == _A_MODULE
        self._codes[id(code)] = (code, mine and bool(code.co_freevars) and not made)
        if not mine:
            self._enter_library(frame)
            return
        # Functions that are made in this run are new in each.
        self._made.update(id(const) for const in code.co_consts if isinstance(const, CodeType))
        if not made and not self._watcher.knows_code(code):
            self._find(code)
        elif not made:
            self._check_closure(frame)

    def _check_closure(self, frame: FrameType) -> None:
        """Look for the function if this is another one with the same code: its closure is unknown then."""
        code = frame.f_code
        values = [frame.f_locals[name] for name in code.co_freevars if name in frame.f_locals]
        if not all(map(self._watcher.knows, values)):
            self._find(code)

    def _find(self, code: CodeType) -> None:
        if self._looks >= _MOST_LOOKS or time.perf_counter() > self._deadline:
            return
        self._looks += 1
        for function in gc.get_referrers(code):
            if type(function) is FunctionType and function.__code__ is code and not self._watcher.knows(function):
                self._watcher.found_function(function)

    def _enter_library(self, frame: FrameType) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        package = name.partition(".")[0]
        # What the compiler calls is its own.
        if package in self._libraries or not is_watched(package) or not is_asked_by_user():
            return
        self._libraries.add(package)
        self._watcher.found_library(package)

    def _imported(self, frame: FrameType) -> None:
        if frame.f_code.co_filename.startswith("<"):
            # What a module runs of a text while it is imported: the methods of a dataclass.
            return
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] in self._libraries and vars(sys.modules.get(name, sys)) is frame.f_globals:
            self._watcher.found_module(name)
