"""What a user is left with, as texts that can be compared across processes.

Nothing that is looked at runs code of its own: types are read by `type`, attributes from the objects' dictionaries.
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import gc
import hashlib
import io
import logging
import os
import pickle
import random
import re
import signal
import sys
import sysconfig
import tempfile
import threading
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

DEEPEST = 9
_IPYTHONS = {"In", "Out", "exit", "quit", "get_ipython", "open", "_exit_code", "_compile_report", "__builtins__"}
_HISTORY = re.compile(r"_i+|_i?\d+|_[dio]h|__?__?")
_MADE_BY_DYNAMO = re.compile(
    r"__(compiled_fn|builtins_dict__|resume_at|import_|gen_rand_values|nested_|optimizer|numpy_|dataclass|module_|subclass)"
)
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_CELL_FILE = re.compile(r"(ipython-input-\d+|ipykernel_\d+[/\\])-?\w+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_TIMES = re.compile(r"\d[\d.e+]* *(?:[mµμun]?s|min)\b")
_TMP = re.compile(re.escape(tempfile.gettempdir()) + r"/\w+")
# torch's own per-process numbers.
_NUMBERED = re.compile(r"(__compiled_fn_|__resume_at_|torch_dynamo_resume_in_|__builtins_dict__|lifted_)\w*\d+\w*")


def same_text(text: str) -> str:
    """Return a text without what differs between two runs of the same program."""
    for pattern, put in ((_CELL_FILE, r"\1"), (_ADDRESS, "0x"), (_TIMES, "TIME"), (_TMP, "TMP")):
        text = pattern.sub(put, text)
    return _NUMBERED.sub(r"\1N", text)


_PLAIN: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((int, bool, type(None), complex), repr),
    # A pickle names storages by their addresses.
    bytes: "{0.__class__.__name__}".format,
    str: same_text,
    float: "{:.5g}".format,
}


class Looker:
    """Describes objects; one that has been described before is named by the place where it was."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._places: dict[int, str] = {}
        self._kept: list[Any] = []
        self.marks: Counter[str] = Counter()
        self.entries: dict[str, int] = {}

    def look(self, value: Any, place: str, depth: int = 0) -> Any:
        """Return what an object is, as nested lists of texts."""
        kind = type(value)
        if kind in _PLAIN:
            return _PLAIN[kind](value)
        if id(value) in self._places:
            return f"is {self._places[id(value)]}"
        if depth > DEEPEST:
            return f"<{kind.__name__}>"
        self._places[id(value)] = place
        self._kept.append(value)
        try:
            return self._looked(value, place, depth)
        except Exception as error:  # noqa: BLE001 - a hostile object
            return f"<{kind.__name__}: {type(error).__name__}>"

    def _looked(self, value: Any, place: str, depth: int) -> Any:
        if _named(type(value)).startswith("torch._dynamo."):
            return _named(type(value))
        for base in _mro(value):
            if base in _LOOKS:
                return _LOOKS[base](self, value, place, depth)
            if base in _TEXTS:
                return _TEXTS[base](value)
        return [_named(type(value)), self.attributes(value, place, depth), self._type(value, place, depth)]

    def _type(self, value: Any, place: str, depth: int) -> Any:
        kind = type(value)
        return self.look(kind, f"type({place})", depth + 1) if _is_users(kind) else ""

    def attributes(self, value: Any, place: str, depth: int) -> Any:
        """Return what is in the object's own dictionary and slots."""
        try:
            own = dict(object.__getattribute__(value, "__dict__"))
        except Exception:  # noqa: BLE001 - it has none
            own = {}
        for base in _mro(value):
            for slot in vars(base).get("__slots__", ()) if _is_users(base) else ():
                if isinstance(vars(base).get(slot), types.MemberDescriptorType):
                    try:
                        own[slot] = vars(base)[slot].__get__(value)
                    except AttributeError:
                        own[slot] = "<unset>"
        return self.mapping(own, place, depth, ".")

    def mapping(self, items: Mapping[Any, Any], place: str, depth: int, join: str = "[]") -> Any:
        """Return the items of a dictionary; marks of Dynamo's are counted as well."""
        found = {}
        for key, value in list(dict.items(items)):  # type: ignore[arg-type]
            name = same_text(key) if type(key) is str else str(self.look(key, f"{place} key", depth + 1))
            inside = f"{place}.{name}" if join == "." else f"{place}[{name}]"
            if name in ("_handle", "_fileno"):
                continue
            if name.startswith(("_dynamo", "_torchdynamo", "_is_torch_compile", "_compiled_call")):
                self.marks[name] += value is not None
            else:
                found[name] = self.look(value, inside, depth + 1)
        return found


def _mro(value: Any) -> tuple[type, ...]:
    return type.__getattribute__(type(value), "__mro__")


def _named(kind: type) -> str:
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"


def _is_users(kind: type) -> bool:
    module = sys.modules.get(type.__getattribute__(kind, "__module__"))
    file = getattr(module, "__file__", None) or ""
    return module is None or module.__name__ == "__main__" or not file.startswith(_LIBRARIES)


def _tensor(looker: Looker, value: torch.Tensor, place: str, depth: int) -> Any:
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        plain = value.detach()
        if plain.is_floating_point():
            values: Any = plain.double().flatten()[:64].tolist()
        else:
            values = str(plain.flatten()[:64].tolist()) if plain.layout is torch.strided else "sparse"
        node, grad = torch.Tensor.grad_fn.__get__(value), None  # type: ignore[attr-defined]
        if value.is_leaf or value.retains_grad:
            grad = torch.Tensor.grad.__get__(value)  # type: ignore[attr-defined]
        facts = (tuple(plain.shape), plain.stride(), str(plain.dtype), value.requires_grad, value.is_leaf)
    hooks = torch.Tensor._backward_hooks.__get__(value)  # type: ignore[attr-defined]
    return [
        _named(type(value)),
        values,
        str(facts),
        type(node).__name__,
        looker.look(grad, f"{place}.grad", depth + 1),
        len(hooks or ()),
        looker.attributes(value, place, depth),
    ]


def _function(looker: Looker, value: types.FunctionType, place: str, depth: int) -> Any:
    code = value.__code__
    if code.co_filename.startswith(_LIBRARIES):
        # What torch keeps on its wrapper of a compiled function is its own affair, but not what it wraps.
        kept = {"wraps": vars(value).get("__wrapped__"), "compiles": vars(value).get("_torchdynamo_orig_callable")}
        own = looker.mapping(kept, place, depth, ".")
        closed = [c.cell_contents for c in value.__closure__ or () if _has_contents(c)] if kept["wraps"] else []
        return [
            f"{value.__module__}.{value.__qualname__}",
            own,
            [looker.look(each, f"{place} closes", depth + 1) for each in closed],
        ]
    own = looker.mapping(vars(value), place, depth, ".")
    entries = len(torch._dynamo.eval_frame._debug_get_cache_entry_list(code))
    if entries:
        looker.entries[value.__qualname__] = entries
    return {
        "function": (value.__module__, value.__name__, value.__qualname__, value.__doc__),
        "code": _code(code),
        "defaults": looker.look(value.__defaults__, f"{place}.__defaults__", depth + 1),
        "keywords": looker.look(value.__kwdefaults__, f"{place}.__kwdefaults__", depth + 1),
        "closes over": [
            looker.look(c.cell_contents, f"{place} closes", depth + 1) if _has_contents(c) else "empty"
            for c in value.__closure__ or ()
        ],
        "own": own,
        "in the notebook": value.__globals__ is looker._namespace,
    }


def _has_contents(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _code(code: types.CodeType) -> Any:
    constants = [_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    text = repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_firstlineno))
    return code.co_name, same_text(code.co_filename), hashlib.sha1(text.encode()).hexdigest()[:10]  # noqa: S324


def _class(looker: Looker, value: type, place: str, depth: int) -> Any:
    if not _is_users(value):
        return _named(value)
    skipped = ("__weakref__", "__dict__", "_abc_impl", "__abstractmethods__")
    own = {k: v for k, v in type.__getattribute__(value, "__dict__").items() if k not in skipped}
    return [_named(value), looker.mapping(own, place, depth, ".")]


def _exception(looker: Looker, value: BaseException, place: str, depth: int) -> Any:
    frames, entry = [], value.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not code.co_filename.startswith(_LIBRARIES):
            frames.append((same_text(code.co_filename), code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    chain = (value.__cause__, value.__context__, value.__suppress_context__, getattr(value, "exceptions", ()))
    return [_named(type(value)), looker.look(list(value.args), place, depth + 1), frames] + [
        looker.look(each, f"{place} chain", depth + 1) for each in (*chain, dict(vars(value)))
    ]


def _items(looker: Looker, value: Any, place: str, depth: int) -> Any:
    iterate = next(base for base in _mro(value) if base in (list, tuple, collections.deque)).__iter__
    found = [looker.look(each, f"{place}[{i}]", depth + 1) for i, each in enumerate(list(iterate(value))[:60])]
    return [type(value).__name__, found, looker.attributes(value, place, depth)]


def _set(looker: Looker, value: Any, place: str, depth: int) -> Any:
    return [type(value).__name__, sorted(str(looker.look(each, f"{place} item", depth + 1)) for each in value)]


def _dict(looker: Looker, value: Any, place: str, depth: int) -> Any:
    if value is looker._namespace:
        return "<the notebook>"
    return [type(value).__name__, looker.mapping(value, place, depth), looker.attributes(value, place, depth)]


def _hashed(value: Any) -> str:
    return hashlib.sha1(pickle.dumps(value)).hexdigest()[:10]  # noqa: S324


def _module(looker: Looker, value: types.ModuleType, place: str, depth: int) -> Any:
    name = types.ModuleType.__getattribute__(value, "__name__")
    if not name.startswith("lib_"):
        return name
    own = types.ModuleType.__getattribute__(value, "__dict__").items()
    return [name, looker.mapping({key: kept for key, kept in own if not key.startswith("__")}, place, depth, ".")]


def _method(looker: Looker, value: types.MethodType, place: str, depth: int) -> Any:
    parts = (value.__func__, value.__self__)
    return ["method", *(looker.look(each, f"{place}.{i}", depth + 1) for i, each in enumerate(parts))]


def _partial(looker: Looker, value: Any, place: str, depth: int) -> Any:
    parts = (value.func, value.args, value.keywords)
    return ["partial", *(looker.look(each, f"{place}.{i}", depth + 1) for i, each in enumerate(parts))]


def _cached(looker: Looker, value: Any, place: str, depth: int) -> Any:
    return [str(value.cache_info()), looker.attributes(value, place, depth)]


def _wrapping(looker: Looker, value: Any, place: str, depth: int) -> Any:
    return looker.look((value.fget, value.fset) if type(value) is property else value.__func__, place, depth + 1)


def _proxy(looker: Looker, value: Any, place: str, depth: int) -> Any:
    return looker.mapping(dict(value), place, depth)


_LOOKS: dict[type, Callable[[Looker, Any, str, int], Any]] = {
    torch.Tensor: _tensor,
    types.FunctionType: _function,
    type: _class,
    BaseException: _exception,
    list: _items,
    tuple: _items,
    collections.deque: _items,
    set: _set,
    frozenset: _set,
    dict: _dict,
    types.ModuleType: _module,
    types.MethodType: _method,
    functools.partial: _partial,
    functools._lru_cache_wrapper: _cached,
    property: _wrapping,
    staticmethod: _wrapping,
    classmethod: _wrapping,
    types.MappingProxyType: _proxy,
}
_TEXTS: dict[type, Callable[[Any], Any]] = {
    torch.Generator: lambda value: _hashed(value.get_state().tolist()),
    random.Random: lambda value: _hashed(value.getstate()),
    np.random.Generator: lambda value: _hashed(value.bit_generator.state),
    np.ndarray: lambda value: [str(value.dtype), value.tolist()],
    np.generic: lambda value: [str(value.dtype), str(value)],
    enum.Enum: str,
    types.GeneratorType: lambda value: [value.__qualname__, value.gi_frame and value.gi_frame.f_lineno],
    weakref.ref: lambda value: "dead" if value() is None else "alive",
    types.CodeType: _code,
    logging.Logger: lambda value: value.name,
    types.MethodDescriptorType: lambda value: value.__qualname__,
    types.GetSetDescriptorType: lambda value: value.__qualname__,
    types.MemberDescriptorType: lambda value: value.__qualname__,
    types.BuiltinFunctionType: lambda value: value.__qualname__,
    **dict.fromkeys((io.IOBase, types.FrameType, types.TracebackType, threading.Thread), lambda v: type(v).__name__),
}


def names(namespace: dict[str, Any]) -> tuple[dict[str, Any], Looker]:
    """Return every name of a notebook with what it stands for, Out and `_` included, and what was seen on the way."""
    looker = Looker(namespace)
    own = {k: v for k, v in namespace.items() if k not in _IPYTHONS and not _HISTORY.fullmatch(k)}
    own = {k: v for k, v in own.items() if not _MADE_BY_DYNAMO.match(k) and k != "__warningregistry__"}
    found = {key: looker.look(own[key], key) for key in sorted(own)}
    for key in ("_", "__", "___"):
        found[key] = looker.look(namespace.get(key, "<unset>"), key)
    found["Out"] = {str(number): looker.look(value, f"Out[{number}]") for number, value in namespace["Out"].items()}
    registry = namespace.get("__warningregistry__") or {}
    found["__warningregistry__"] = sorted(str(key) for key in registry if key != "version")
    return found, looker


def dynamos(namespace: dict[str, Any]) -> Counter[str]:
    """Return how many names of each kind Dynamo has put into a notebook."""
    found = (_MADE_BY_DYNAMO.match(key) for key in namespace if isinstance(key, str))
    return Counter(match[1] for match in found if match)


def generators() -> dict[str, str]:
    """Return where the generators of random numbers are."""
    numpys = np.random.get_state()  # noqa: NPY002 - the user's global one
    return {
        "random": _hashed(random.getstate()),
        "numpy": _hashed([each.tolist() if isinstance(each, np.ndarray) else each for each in numpys]),
        "torch": hashlib.sha1(torch.get_rng_state().numpy().tobytes()).hexdigest()[:10],  # noqa: S324
    }


_LOGGERS = ("", "torch", "torch.__trace", "torch._dynamo", "torch._inductor", "torch.fx", "py.warnings")


def process(shell: Any) -> dict[str, Any]:
    """Return the state of the process that a cell can change, and a magic may not."""
    config = {name: str(value) for name, value in torch._dynamo.config.get_config_copy().items()}
    return {
        "showwarning": _where(warnings.showwarning),
        "filters": [same_text(str(each)) for each in warnings.filters],
        "builtins": sorted(name for name in vars(builtins) if "begin" not in name),
        "gc callbacks": len(gc.callbacks),
        "gc": gc.isenabled(),
        "hooks": [_where(each) for each in (sys.excepthook, sys.unraisablehook, sys.gettrace(), sys.getprofile())],
        "displayhook": _where(type(sys.displayhook)),
        "streams": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "loggers": {
            name: [
                logging.getLogger(name).level,
                [type(handler).__name__ for handler in logging.getLogger(name).handlers],
                logging.getLogger(name).propagate,
                logging.getLogger(name).disabled,
                len(logging.getLogger(name).filters),
            ]
            for name in _LOGGERS
        },
        "environment": dict(os.environ),
        "interrupt": _where(signal.getsignal(signal.SIGINT)),
        "threads": sorted(each.name for each in threading.enumerate()),
        "torch": {
            "grad": torch.is_grad_enabled(),
            "inference": torch.is_inference_mode_enabled(),
            "dtype": str(torch.get_default_dtype()),
            "autocast": torch.is_autocast_enabled("cpu"),
            "anomaly": torch.is_anomaly_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "function mode": torch._C._len_torch_function_stack(),
            "stance": str(torch._dynamo.eval_frame._stance.stance),
            "threads": torch.get_num_threads(),
            "config": config,
        },
        "recursion": sys.getrecursionlimit(),
        "folder": os.getcwd(),  # noqa: PTH109 - as a text
        "path": len(sys.path),
        "custom exceptions": [_where(each) for each in shell.custom_exceptions],
        "shell": sorted(set(vars(shell)) - {"tempfiles", "_reply_content", "configurables"}),
        "global hooks": [
            len(hooks)
            for name, hooks in sorted(vars(torch.nn.modules.module).items())
            if name.startswith("_global_") and hasattr(hooks, "__len__")
        ],
    }


def _where(value: Any) -> str:
    return same_text(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}")


_FUNCTIONS = (types.FunctionType, type, types.BuiltinFunctionType)
_CLASSES = (torch.nn.Module, torch.Tensor, torch.optim.Optimizer, torch.autograd.Function, torch.fx.Graph)


def functions() -> list[tuple[str, Mapping[str, Any], str, Any]]:
    """Return the functions and classes of all modules, and of some classes, to see which are exchanged."""
    found = []
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and not name.startswith(("compile_magic", "__main__", "sessions")):
            own = types.ModuleType.__getattribute__(module, "__dict__")
            found += [(name, own, key, value) for key, value in own.items() if type(value) in _FUNCTIONS]
    for kind in _CLASSES:
        found += [(kind.__name__, vars(kind), key, value) for key, value in vars(kind).items()]
    return found


def exchanged(before: list[tuple[str, Mapping[str, Any], str, Any]]) -> list[str]:
    """Return which of those are others now, or are gone."""
    return sorted(f"{name}.{key}" for name, own, key, value in before if own.get(key) is not value)
