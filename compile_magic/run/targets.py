"""Which callables of a cell are compiled, which are only listened to, and which stay eager, and why."""

from __future__ import annotations

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
    if not isinstance(candidate, type):
        return None
    return Decision("eager", "a class") if _is_users(candidate) else LIBRARY


def _script(candidate: Any) -> Decision | None:
    return Decision("eager", "a TorchScript module") if isinstance(candidate, torch.jit.ScriptModule) else None


def _module(candidate: Any) -> Decision | None:
    return COMPILE if isinstance(candidate, torch.nn.Module) else None


def _method(candidate: Any) -> Decision | None:
    if not isinstance(candidate, types.MethodType):
        return None
    inherited = getattr(torch.nn.Module, candidate.__func__.__name__, None) is candidate.__func__
    if isinstance(candidate.__self__, torch.nn.Module) and not inherited:
        return _function(candidate.__func__) if _kind(candidate.__func__) else COMPILE
    return LIBRARY if inherited else _function(candidate.__func__)


def _partial(candidate: Any) -> Decision | None:
    return decide(candidate.func) if isinstance(candidate, functools.partial) else None


def _function(candidate: Any) -> Decision | None:
    if not isinstance(candidate, types.FunctionType):
        return None
    if not is_user_file(candidate.__code__.co_filename):
        inner = getattr(candidate, "__wrapped__", None)
        users = isinstance(inner, types.FunctionType) and decide(inner).how == "compile"
        return COMPILE if users else LIBRARY
    kind = _kind(candidate)
    return Decision("eager", kind) if kind else COMPILE


def _cached(candidate: Any) -> Decision | None:
    inner = getattr(candidate, "__wrapped__", None)
    if isinstance(inner, types.FunctionType) and is_user_file(inner.__code__.co_filename):
        return Decision("eager", f"a {type(candidate).__name__} object")
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

_KINDS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.isasyncgenfunction, "an async generator function"),
    (inspect.iscoroutinefunction, "an async function"),
    (inspect.isgeneratorfunction, "a generator function"),
)


def _kind(function: Any) -> str:
    return next((name for test, name in _KINDS if test(function)), "")


def _is_users(cls: type) -> bool:
    functions = (value for value in vars(cls).values() if isinstance(value, types.FunctionType))
    return any(is_user_file(function.__code__.co_filename) for function in functions) or cls.__module__ == "__main__"


def functions_of(candidate: Any) -> list[types.FunctionType]:
    """Return the Python functions, outside of torch, that a call is known to run: the forwards, for a module."""
    if type(candidate) is types.FunctionType:
        return [candidate]
    if type(candidate) is types.MethodType:
        return functions_of(candidate.__func__)
    return [] if not issubclass(type(candidate), torch.nn.Module) else _forwards(candidate)


def _forwards(module: torch.nn.Module) -> list[types.FunctionType]:
    todo: list[Any] = [module]
    seen: dict[int, Any] = {}
    found: dict[int, types.FunctionType] = {}
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        own = vars(each) if isinstance(each, torch.nn.Module) else {}
        forward = own.get("forward", inspect.getattr_static(type(each), "forward", None))
        found.update((id(f), f) for f in functions_of(getattr(forward, "__func__", forward)) if not _is_torchs(f))
        todo += (own.get("_modules") or {}).values()
    return list(found.values())


def _is_torchs(function: types.FunctionType) -> bool:
    return function.__code__.co_filename.startswith(_torch.torch_root())


def name_of(candidate: Any) -> str:
    """Return the name that a report shows for a callable."""
    if isinstance(candidate, functools.partial):
        return name_of(candidate.func)
    if isinstance(candidate, types.MethodType) and not isinstance(candidate.__self__, type):
        return f"{type(candidate.__self__).__name__}.{candidate.__func__.__name__}"
    return str(getattr(candidate, "__qualname__", type(candidate).__qualname__)).replace("<locals>.", "")


_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*|\[-?\w+\]|\['[^']*'\]|\[\"[^\"]*\"\])*")

# Each with what to do instead.
_REFUSED: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda v: isinstance(v, type), "is a class: name an instance of it, or one of its methods"),
    (inspect.isasyncgenfunction, "is an async generator function, which Dynamo doesn't compile: name what it calls"),
    (inspect.iscoroutinefunction, "is an async function, which Dynamo doesn't compile: name what it calls"),
    (inspect.isgeneratorfunction, "is a generator function, which Dynamo doesn't compile: name what it calls"),
    (inspect.isgenerator, "is a generator, not a callable: name the function that does the work"),
    (_torch.is_disabled, "is under torch.compiler.disable: take the decorator off to explain it"),
    (lambda v: isinstance(v, torch.jit.ScriptModule), "is TorchScript, which torch.compile doesn't take"),
)


def resolve(name: str, namespace: Mapping[str, Any], *, bound_later: frozenset[str] = frozenset()) -> Any:
    """Return the callable that a target names, such as "model", "opt.step" or "net.blocks[0]".

    Raises:
        TargetError: there is no such name, or it is nothing that torch.compile takes; the message says what to do.
    """
    if not _TARGET.fullmatch(name):
        raise TargetError(f"{name!r} is no target: give the name of a function or module, such as model or opt.step")
    root = re.split(r"[.\[]", name, maxsplit=1)[0]
    if root not in namespace:
        raise TargetError(_unknown(root, bound_later))
    try:
        value = eval(name, {"__builtins__": {}}, namespace)  # noqa: S307 - the pattern allows names and indices only
    except Exception as error:  # noqa: BLE001 - a property of the user's may raise anything
        raise TargetError(f"can't look up `{name}`: {type(error).__name__}: {error}") from None
    if isinstance(namespace[root], types.ModuleType) and root_of(namespace[root]) == "torch" and name != root:
        raise TargetError(f"`{name}` is torch's own: name a function or module of yours that calls it")
    return check(name, value)


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
    if not callable(value):
        kind = type(value).__name__
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
