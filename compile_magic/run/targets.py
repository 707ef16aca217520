"""Which callables of a cell are compiled, which are only listened to, and which stay eager, and why."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.errors import TargetError
from compile_magic.run.files import is_user_file


@dataclass(frozen=True)
class Decision:
    """What to do with a callable: "compile", "observe", "eager" (the user's, left alone: `why`) or "library"."""

    how: str
    why: str = ""


LIBRARY = Decision("library")
COMPILE = Decision("compile")
OBSERVE = Decision("observe")


def decide(candidate: Any) -> Decision:
    """Return what happens to a callable that the cell calls."""
    for rule in RULES:
        decision = rule(candidate)
        if decision is not None:
            return decision
    return LIBRARY


def _disabled(candidate: Any) -> Decision | None:
    return Decision("eager", "torch.compiler.disable keeps it in eager") if _torch.is_disabled(candidate) else None


def _stance(candidate: Any) -> Decision | None:
    why = "torch.compiler.set_stance is on it, and torch.compile refuses what sets a stance"
    return Decision("eager", why) if _torch.sets_stance(candidate) else None


def _compiled(candidate: Any) -> Decision | None:
    return OBSERVE if _torch.compiled_original(candidate) is not None else None


def _class(candidate: Any) -> Decision | None:
    if not looks.is_a(candidate, type):
        return None
    return Decision("eager", "a class") if _is_users(candidate) else LIBRARY


def _script(candidate: Any) -> Decision | None:
    return Decision("eager", "a TorchScript module") if looks.is_a(candidate, torch.jit.ScriptModule) else None


def _module(candidate: Any) -> Decision | None:
    return COMPILE if looks.is_a(candidate, torch.nn.Module) else None


def _method(candidate: Any) -> Decision | None:
    if type(candidate) is not types.MethodType:
        return None
    function = candidate.__func__
    named = function.__name__ if type(function) is types.FunctionType else ""
    inherited = looks.of_class(torch.nn.Module, named, looks.MISSING) is function
    if looks.is_a(candidate.__self__, torch.nn.Module) and not inherited:
        return _function(function) if _kind(function) else COMPILE
    return LIBRARY if inherited else _function(function)


def _partial(candidate: Any) -> Decision | None:
    is_partial = looks.is_a(candidate, functools.partial)
    return decide(looks.partial_parts(candidate)[0]) if is_partial else None


def _function(candidate: Any) -> Decision | None:
    if type(candidate) is not types.FunctionType:
        return None
    if not is_user_file(candidate.__code__.co_filename):
        inner = looks.own(candidate, "__wrapped__")
        users = type(inner) is types.FunctionType and decide(inner).how == "compile"
        return COMPILE if users else LIBRARY
    kind = _kind(candidate)
    return Decision("eager", kind) if kind else COMPILE


def _cached(candidate: Any) -> Decision | None:
    inner = looks.static(candidate, "__wrapped__")
    if type(inner) is types.FunctionType and is_user_file(inner.__code__.co_filename):
        return Decision("eager", f"a {looks.class_name(candidate)} object")
    return None


def _instance(candidate: Any) -> Decision | None:
    return Decision("eager", "an object with __call__") if _is_users(type(candidate)) else None


# The first rule with an answer decides.
RULES: tuple[Callable[[Any], Decision | None], ...] = (
    _disabled,
    _stance,
    _compiled,
    _class,
    _script,
    _module,
    _method,
    _partial,
    _function,
    _cached,
    _instance,
)

# What the flag of a code object says of its function.
_KINDS = (
    (inspect.CO_ASYNC_GENERATOR, "an async generator function"),
    (inspect.CO_COROUTINE, "an async function"),
    (inspect.CO_GENERATOR, "a generator function"),
)


# Most of what a cell calls; none of it can be the user's.
_PYTHONS = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType)


def is_pythons(candidate: Any) -> bool:
    """Return whether this is a function that C implements."""
    return any(type(candidate) is kind for kind in _PYTHONS)


def compiled_function(candidate: Any) -> types.FunctionType | None:
    """Return the function whose frame Dynamo compiles of a callable: of a module, its forward."""
    is_module = looks.is_a(candidate, torch.nn.Module)
    return looks.function_of(looks.attribute(candidate, "forward") if is_module else candidate)


def _kind(candidate: Any) -> str:
    function = looks.function_of(candidate)
    flags = function.__code__.co_flags if function is not None else 0
    return next((name for flag, name in _KINDS if flags & flag), "")


def _is_users(cls: type) -> bool:
    own = looks.class_attributes(cls)
    functions = (value for value in own.values() if type(value) is types.FunctionType)
    if any(is_user_file(function.__code__.co_filename) for function in functions):
        return True
    module = own.get("__module__")
    return type(module) is str and module == "__main__"


def functions_of(candidate: Any) -> list[types.FunctionType]:
    """Return the Python functions, outside of torch, that a call is known to run: the forwards, for a module."""
    if type(candidate) is types.FunctionType:
        return [candidate]
    if type(candidate) is types.MethodType:
        return functions_of(candidate.__func__)
    return _forwards(candidate) if looks.is_a(candidate, torch.nn.Module) else []


def _forwards(module: torch.nn.Module) -> list[types.FunctionType]:
    todo: list[Any] = [module]
    seen: dict[int, Any] = {}
    found: dict[int, types.FunctionType] = {}
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        forward = looks.function_of(looks.attribute(each, "forward"))
        if forward is not None and not _is_torchs(forward):
            found[id(forward)] = forward
        todo += dict.values(looks.own(each, "_modules") or {})
    return list(found.values())


def _is_torchs(function: types.FunctionType) -> bool:
    return function.__code__.co_filename.startswith(_torch.torch_root())


def name_of(candidate: Any) -> str:
    """Return the name that a report shows for a callable."""
    if looks.is_a(candidate, functools.partial):
        return name_of(looks.partial_parts(candidate)[0])
    if type(candidate) is types.MethodType and not looks.is_a(candidate.__self__, type):
        function = candidate.__func__
        named = function.__name__ if type(function) is types.FunctionType else looks.class_name(function)
        return f"{looks.class_name(candidate.__self__)}.{named}"
    return looks.qualified_name(candidate).replace("<locals>.", "")


_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*|\[-?\w+\]|\['[^']*'\]|\[\"[^\"]*\"\])*")

# Each with what to do instead.
_REFUSED: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda v: looks.is_a(v, type), "is a class: name an instance of it, or one of its methods"),
    (lambda v: type(v) is types.GeneratorType, "is a generator, not a callable: name the function that does the work"),
    (_torch.is_disabled, "is under torch.compiler.disable: take the decorator off to explain it"),
    (lambda v: looks.is_a(v, torch.jit.ScriptModule), "is TorchScript, which torch.compile doesn't take"),
)


def resolve(name: str, namespace: Mapping[str, Any], *, bound_later: frozenset[str] = frozenset()) -> Any:
    """Return the callable that a target names, such as "model", "opt.step" or "net.blocks[0]".

    Raises:
        TargetError: there is no such name, or it is nothing that torch.compile takes; the message says what to do.
    """
    if not _TARGET.fullmatch(name):
        raise TargetError(f"{name!r} is no target: give the name of a function or module, such as model or opt.step")
    root, *steps = _STEP.findall(name)
    if root not in namespace:
        raise TargetError(_unknown(root, bound_later))
    value = namespace[root]
    for step in steps:
        owner, value = value, _step(value, step, namespace)
        if value is looks.MISSING:
            kind = "AttributeError" if step[0] == "." else "LookupError"
            raise TargetError(
                f"can't look up `{name}`: {kind}: a {looks.class_name(owner)} keeps no `{step.strip('.')}`; if code of "
                "its gives it, bind the result to a name in an earlier cell"
            )
    if type(namespace[root]) is types.ModuleType and root_of(namespace[root]) == "torch" and name != root:
        raise TargetError(f"`{name}` is torch's own: name a function or module of yours that calls it")
    return check(name, value)


_STEP = re.compile(r"""^[^\W\d]\w*|\.[^\W\d]\w*|\['[^']*'\]|\["[^"]*"\]|\[-?\w+\]""")


def _step(value: Any, step: str, namespace: Mapping[str, Any]) -> Any:
    if step[0] == "[":
        key = step[1:-1]
        return _item(value, namespace.get(key) if key.isidentifier() else ast.literal_eval(key))
    name = step[1:]
    found = looks.attribute(value, name, looks.MISSING)
    if found is not looks.MISSING or not looks.is_a(value, torch.nn.Module):
        return found
    parts = (looks.own(value, part) for part in _torch.MODULE_PARTS)
    held = [dict.get(part, name) for part in parts if looks.is_a(part, dict) and dict.__contains__(part, name)]
    original = _torch.compiled_original(value)
    if not held and original is not None and original is not value:
        return _step(original, step, namespace)
    return held[0] if held else looks.MISSING


_CONTAINERS = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)


def _item(value: Any, key: Any) -> Any:
    if looks.is_a(value, *_CONTAINERS):
        children = looks.own(value, "_modules") or {}
        value = dict(children) if type(key) is str else list(children.values())
    getters: tuple[tuple[type, type, Any], ...] = (
        (list, int, list.__getitem__),
        (tuple, int, tuple.__getitem__),
        (dict, object, dict.__getitem__),
    )
    for kind, keys, get in getters:
        if looks.is_a(value, kind) and looks.is_a(key, keys):
            try:
                return get(value, key)
            except LookupError:
                break
    return looks.MISSING


def root_of(module: types.ModuleType) -> str:
    """Return the package that a module belongs to."""
    return module.__name__.partition(".")[0]


def check(name: str, value: Any) -> Any:
    """Return `value` if torch.compile takes it.

    Raises:
        TargetError: it doesn't; the message says why and what to do.
    """
    for test, words in _REFUSED:
        if test(value):
            raise TargetError(f"`{name}` {words}")
    if _kind(value):
        raise TargetError(f"`{name}` is {_kind(value)}, which Dynamo doesn't compile: name what it calls")
    if not callable(value):
        kind = looks.class_name(value)
        article = "an" if kind[0].lower() in "aeiou" else "a"
        raise TargetError(f"`{name}` is {article} {kind}, not a callable: name a function or a module")
    return value


def _unknown(root: str, bound_later: frozenset[str]) -> str:
    if root in bound_later:
        return (
            f"`{root}` doesn't exist before this cell: define it in an earlier one, or leave the targets out, "
            "since what this cell calls is found by itself"
        )
    return f"there is no `{root}` in the notebook: define it in an earlier cell, or correct the name"
