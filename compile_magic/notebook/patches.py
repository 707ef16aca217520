"""Send the calls of a run's targets to the run, wherever they are called from, and leave the targets themselves."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any
from typing import Protocol

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.errors import TargetError
from compile_magic.run.detours import Detour
from compile_magic.run.targets import check
from compile_magic.run.targets import decide
from compile_magic.run.targets import resolve


class Explains(Protocol):
    """What patches are made for: a run, or a lane of a bench."""

    # Whether what is compiled already is exchanged too, and not only listened to.
    replaces_compiled: bool

    def explained(self, candidate: Any, name: str) -> Any:
        """Return what is called instead of a target; asked for each call."""

    def intercept(self, candidate: Any, name: str = "") -> Any:
        """Take note of a target that is only listened to."""

    def note(self, text: str) -> None:
        """Take a remark for the report."""


class Patches:
    """Makes the calls of each target explained ones.

    Nothing is bound to another object: a function's code is exchanged, and a module is told what its call runs, as
    `module.compile()` does it. While a target runs all is as it was, so that Dynamo sees the user's code alone.
    """

    def __init__(self, run: Explains, namespace: dict[str, Any]) -> None:
        self._run = run
        self._namespace = namespace
        self._patches: dict[int, _Function | _Module] = {}
        self._lock = threading.Lock()
        # How many explained calls are running; meanwhile nothing is in place.
        self._inside = 0

    def add(self, name: str, *, bound_later: frozenset[str] = frozenset()) -> None:
        """Explain the target of this name.

        Raises:
            TargetError: there is no such target, or it can't be compiled.
        """
        self._add(name, resolve(name, self._namespace, bound_later=bound_later))

    def _add(self, name: str, value: Any) -> None:
        if looks.is_a(value, functools.partial):
            self._add(name, looks.partial_parts(value)[0])
        elif decide(value).how == "observe" and not self._run.replaces_compiled:
            self._run.intercept(value, name)
        elif looks.is_a(value, torch.nn.Module):
            known = self._patches.get(id(value))
            if known is None or known.target() is not value:
                self._patches[id(value)] = _Module(value, name, self.call)
        else:
            self._add_function(name, value)
        self.lay()

    def _add_function(self, name: str, value: Any) -> None:
        # An lru_cache calls what it keeps the results of, an object a function of its class.
        inner = looks.static(value, "__wrapped__") if looks.function_of(value) is None else None
        function = inner if type(inner) is types.FunctionType else looks.function_of(value)
        if function is None:
            raise TargetError(
                f"`{name}` is a {looks.class_name(value)} without Python code: name a function of yours that calls it"
            )
        patch = self._patches.get(id(function))
        if not isinstance(patch, _Function) or patch.target() is not function:
            patch = _Function(function, self.call)
            if patch.runs_in_another_thread():
                self._run.note(f"`{name}` was not explained: another thread is running it")
                return
            self._patches[id(function)] = patch
        if type(value) is types.FunctionType or inner is not None:
            patch.name = name
        else:
            patch.add_owner(value.__self__ if type(value) is types.MethodType else value, name)

    def rebind(self, name: str) -> None:
        """Explain what the cell has just bound to a target's name; a value that can't be compiled is left alone."""
        if name not in self._namespace:
            # A plain `del`.
            return
        try:
            self._add(name, check(name, self._namespace[name]))
        except ValueError as error:
            self._run.note(f"not explained any more: {error}")

    def call(self, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call of a target as the run has it made."""
        __tracebackhide__ = True
        with self._lock:
            self._inside += 1
        try:
            self.lift()
            explained = self._run.explained(target, name)
            return explained(*args, **kwargs)
        finally:
            with self._lock:
                self._inside -= 1
            self.lay()

    def step_aside(self) -> Callable[[], None]:
        """Let all targets be as without us, and return what puts the patches in place again."""
        self.lift()
        return self.lay

    def lift(self) -> None:
        """Let all targets be as without us, until `lay`."""
        for patch in self._patches.values():
            patch.lift()

    def lay(self) -> None:
        """Put all patches in place again, unless an explained call is running."""
        if not self._inside:
            for patch in self._patches.values():
                patch.lay()

    def undo(self) -> None:
        """Take the patches off for good."""
        for patch in self._patches.values():
            patch.end()
        self._patches.clear()


# Makes the call of the target with this name: its arguments and keywords follow.
_Calls = Callable[[str, Any, tuple[Any, ...], dict[str, Any]], Any]


class _Module:
    """What a module's call runs while it is a target. `torch.compile(module)` calls it, too: with the patch lifted.

    `module.compile()` would not do: with a container of torch's own, such as nn.Sequential, it compiles nothing at all
    (torch 2.13).
    """

    def __init__(self, module: torch.nn.Module, name: str, calls: _Calls) -> None:
        self.target = weakref.ref(module)
        self._name = name
        self._calls: _Calls | None = calls
        own, place = _torch.place_of_call(module)
        self._before = own.get(place, looks.MISSING)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        module: Any = self.target()
        if self._calls is None:
            return _torch.uncompiled(module)(*args, **kwargs)
        return self._calls(self._name, module, args, kwargs)

    def lay(self) -> None:
        self._exchange(self._before, self)

    def lift(self) -> None:
        self._exchange(self, self._before)

    def _exchange(self, there: Any, value: Any) -> None:
        module = self.target()
        if module is None:
            return
        own, place = _torch.place_of_call(module)
        if own.get(place, looks.MISSING) is not there:
            # The cell has called module.compile().
            return
        if value is looks.MISSING:
            del own[place]
        else:
            own[place] = value

    def end(self) -> None:
        self.lift()
        self._calls = None


class _Function:
    """A function that is a target, wherever it is called, or the method of objects that are.

    `name` is that of the function itself as a target, "" if only some of its objects are.
    """

    def __init__(self, function: types.FunctionType, calls: _Calls) -> None:
        self.target = weakref.ref(function)
        self.name = ""
        self._calls = calls
        # By id; an object that can't be referred to weakly is known by its id alone.
        self._owners: dict[int, tuple[str, Callable[[], Any]]] = {}
        self._detour = Detour(function, self._call)
        self.lay, self.lift, self.end = self._detour.lay, self._detour.lift, self._detour.end
        self.runs_in_another_thread = self._detour.runs_in_another_thread

    def add_owner(self, owner: Any, name: str) -> None:
        """Explain the function as a method of this object, too."""
        try:
            self._owners[id(owner)] = name, weakref.ref(owner)
        except TypeError:
            self._owners[id(owner)] = name, lambda: None

    def _call(self, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        function = self.target()
        if function is None:
            return self._detour.original(*args, **kwargs)
        if self.name:
            return self._calls(self.name, function, args, kwargs)
        name, owner = self._owners.get(id(args[0]), ("", None)) if args else ("", None)
        if owner is None or not (owner() is None or owner() is args[0]):
            return self._detour.original(*args, **kwargs)
        return self._calls(name, types.MethodType(function, args[0]), args[1:], kwargs)
