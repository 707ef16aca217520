"""Put explained callables under the names of a run's targets, and take them off again."""

from __future__ import annotations

import functools
import gc
import re
import sys
import types
from collections.abc import Callable
from typing import Any
from typing import Protocol

import torch

from compile_magic import _torch
from compile_magic.run.targets import check
from compile_magic.run.targets import decide
from compile_magic.run.targets import resolve

_LAST = re.compile(r"^(?P<owner>.+)\.(?P<attribute>[^\W\d]\w*)$")


class Explains(Protocol):
    """What patches are made for: a run, or a lane of a bench."""

    # Whether what is compiled already is exchanged too, and not only listened to.
    replaces_compiled: bool

    def explained(self, candidate: Any, name: str) -> Any:
        """Return what is called instead of a target."""

    def intercept(self, candidate: Any, name: str = "") -> Any:
        """Take note of a target that is only listened to."""

    def note(self, text: str) -> None:
        """Take a remark for the report."""


class Patches:
    """Makes each target's name call the explained target, wherever it is called from."""

    def __init__(self, run: Explains, namespace: dict[str, Any]) -> None:
        self._run = run
        self._namespace = namespace
        self._undo: list[Callable[[], None]] = []

    def add(self, name: str, *, bound_later: frozenset[str] = frozenset()) -> None:
        """Explain the target of this name.

        Raises:
            TargetError: there is no such target, or it can't be compiled.
        """
        value = resolve(name, self._namespace, bound_later=bound_later)
        if decide(value).how == "observe" and not self._run.replaces_compiled:
            self._run.intercept(value, name)
        elif isinstance(value, torch.nn.Module) and _torch.compiled_original(value) in (None, value):
            self._undo.append(_torch.compile_in_place(value, self._run.explained(value, name)))
        else:
            self._add_function(name, value)

    def rebind(self, name: str) -> None:
        """Explain what the cell has just bound to a target's name; a value that can't be compiled is left alone."""
        if name not in self._namespace:
            # A plain `del`.
            return
        try:
            check(name, self._namespace[name])
        except ValueError as error:
            self._run.note(f"not explained any more: {error}")
        else:
            self.add(name)

    def _add_function(self, name: str, value: Any) -> None:
        wrapper = _named(value, self._run.explained(value, name))
        match = _LAST.match(name)
        if match is None:
            self._namespace[name] = wrapper
            self._undo.append(functools.partial(_restore_names, self._namespace, wrapper, value))
        else:
            owner = resolve_owner(match["owner"], self._namespace)
            self._undo.append(_set_attribute(owner, match["attribute"], wrapper, value))

    def undo(self) -> None:
        """Put everything back; a name that the cell has bound to something else meanwhile stays as the cell left it."""
        while self._undo:
            self._undo.pop()()


def resolve_owner(expression: str, namespace: dict[str, Any]) -> Any:
    """Return the object that holds an attribute named as a target; `resolve` has checked the expression."""
    return eval(expression, {"__builtins__": {}}, namespace)  # noqa: S307 - checked before


def _named(original: Any, explained: Any) -> Any:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return explained(*args, **kwargs)

    # Where other explained code calls it, Dynamo shall trace the original and not this.
    _torch.inline_as(wrapper, _torch.uncompiled(original))
    return wrapper


def _restore_names(namespace: dict[str, Any], wrapper: Any, value: Any) -> None:
    for name in [name for name, bound in list(namespace.items()) if bound is wrapper]:
        namespace[name] = value
    replace_kept(wrapper, value)


# The references to a wrapper that nobody but us holds: of the step that undoes, of its arguments, of the question.
_OUR_REFERENCES = 4


def replace_kept(wrapper: Any, value: Any) -> None:
    """Put `value` where the cell has stored `wrapper`: into dicts, lists, attributes and closures.

    A tuple or a set keeps it; it calls the original then.
    """
    if sys.getrefcount(wrapper) <= _OUR_REFERENCES:
        return
    for holder in gc.get_referrers(wrapper):
        if isinstance(holder, types.CellType):
            holder.cell_contents = value
        elif isinstance(holder, list):
            _replace_items(holder, dict(enumerate(holder)), wrapper, value)
        elif not isinstance(holder, (types.FunctionType, types.FrameType, types.ModuleType)):
            own = holder if isinstance(holder, dict) else getattr(holder, "__dict__", None)
            if isinstance(own, dict):
                _replace_items(own, dict(own), wrapper, value)


def _replace_items(holder: Any, items: dict[Any, Any], wrapper: Any, value: Any) -> None:
    # No comprehension here or above: it would hold `wrapper` in a cell, which is then replaced as well.
    for key, kept in items.items():
        if kept is wrapper:
            holder[key] = value


def _set_attribute(owner: Any, name: str, wrapper: Any, value: Any) -> Callable[[], None]:
    own = vars(owner)
    had, before = name in own, own.get(name)
    setattr(owner, name, wrapper)

    def undo() -> None:
        if vars(owner).get(name) is wrapper:
            delattr(owner, name)
            if had:
                setattr(owner, name, before)
        replace_kept(wrapper, value)

    return undo
