"""What a run can change in the process itself, as a registry of (name, read, write).

`DRAWS` are the sources of random numbers and what else runs may well change, put back between runs; `SETTINGS` all the
others, put back in the end.
"""

from __future__ import annotations

import gc
import locale
import os
import random
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from operator import eq
from types import ModuleType
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from compile_magic import _torch
from compile_magic.measure.state.kept import StateKept
from compile_magic.measure.state.limit import is_ours
from compile_magic.measure.state.names import is_user_module
from compile_magic.measure.state.randomness import numpy
from compile_magic.measure.state.randomness import same_numpy
from compile_magic.measure.uninterrupted import in_place_of
from compile_magic.measure.uninterrupted import users_handler

# Compilers pass themselves messages in these.
_COMPILERS_OWN = ("TORCHINDUCTOR", "TRITON", "TORCH_COMPILE", "TORCHDYNAMO", "CUDA_MODULE_LOADING")


@dataclass(frozen=True)
class Aspect:
    """One thing to put back. `read` may raise where there is no such thing: then it is left out."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    same: Callable[[Any, Any], object] = eq


def kept(aspects: tuple[Aspect, ...]) -> list[StateKept]:
    """Return the state of each aspect that can be read, remembered."""
    return [found for found in map(_kept, aspects) if found is not None]


def _kept(one: Aspect) -> StateKept | None:
    try:
        return StateKept(one.name, one.read, one.write, one.same)
    except (AttributeError, RuntimeError, OSError, NotImplementedError):
        return None


# --- random numbers --------------------------------------------------------------------------------------------------


def _numpy_state() -> Any:
    module = getattr(numpy(), "random", None)
    return None if module is None else module.get_state(legacy=False)


def _set_numpy_state(state: Any) -> None:
    if state is not None:
        numpy().random.set_state(state)


def _same_numpy_state(now: Any, then: Any) -> bool:
    # Imported by the run, numpy has drawn a seed of its own; there is nothing from before to go back to.
    return then is None or same_numpy(now, then)


def device_module() -> Any:
    """Return the module of the accelerator (`torch.cuda` and the like) if it is in use, else None."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return None
    module = torch.get_device_module(accelerator)
    # Where a device needs no initialising, using it can't be told from having it.
    in_use = getattr(module, "is_initialized", torch.accelerator.is_available)
    return module if in_use() else None


def _device_states() -> list[torch.Tensor] | None:
    module = device_module()
    if module is None:
        return None
    every = getattr(module, "get_rng_state_all", None)
    return list(every()) if every is not None else [module.get_rng_state()]


def _set_device_states(states: list[torch.Tensor] | None) -> None:
    module = device_module()
    if module is None:
        return
    if states is None:
        _start_anew(module)
    elif hasattr(module, "set_rng_state_all"):
        module.set_rng_state_all(states)
    else:
        module.set_rng_state(states[0])


def _start_anew(module: Any) -> None:
    # The run was the first to use the device. Its generators then began with their seed and nothing drawn.
    for generator in getattr(module, "default_generators", ()):
        generator.manual_seed(generator.initial_seed())


def _same_device_states(now: list[torch.Tensor] | None, then: list[torch.Tensor] | None) -> bool:
    if now is None or then is None:
        return now is then
    return len(now) == len(then) and all(map(torch.equal, now, then))


DRAWS: tuple[Aspect, ...] = (
    Aspect("random", random.getstate, random.setstate),
    Aspect("numpy.random", _numpy_state, _set_numpy_state, _same_numpy_state),
    Aspect("torch's generator", torch.get_rng_state, torch.set_rng_state, torch.equal),
    Aspect("the device's generators", _device_states, _set_device_states, _same_device_states),
    Aspect("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
)


# --- settings --------------------------------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_COMPILERS_OWN)}


def _set_environment(then: Mapping[str, str]) -> None:
    now = _environment()
    for name in now.keys() - then.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in then.items() if now.get(name) != value})


def _set_path(then: list[str]) -> None:
    sys.path[:] = then


def _set_filters(then: list[Any]) -> None:
    warnings.filters[:] = then  # type: ignore[index]  # typeshed has it as a sequence, it is a list
    # Leaving this tells the module that its filters have changed.
    with warnings.catch_warnings():
        pass


_Registries = dict[str, tuple[dict[Any, Any], dict[Any, Any]]]


def _warned() -> _Registries:
    """Return which warnings each module has given and will not give again: the dict itself, and a copy."""
    modules = [(name, getattr(module, "__dict__", None)) for name, module in list(sys.modules.items())]
    found = [(name, own.get("__warningregistry__")) for name, own in modules if isinstance(own, dict)]
    return {name: (held, dict(held)) for name, held in found if isinstance(held, dict)}


def _set_warned(then: _Registries) -> None:
    for name, (held, _) in _warned().items():
        # With the number of another set of filters, Python would forget all that it has given.
        before = {**then.get(name, (held, {}))[1], **{key: held[key] for key in held if key == "version"}}
        if held != before:
            held.clear()
            held.update(before)


def _same_warned(now: _Registries, then: _Registries) -> bool:
    return _given(now) == _given(then)


def _given(registries: _Registries) -> dict[str, dict[Any, Any]]:
    # "version" is the number of the filters as of which a registry is right.
    plain = {name: {k: v for k, v in copy.items() if k != "version"} for name, (_, copy) in registries.items()}
    return {name: given for name, given in plain.items() if given}


def _device_types() -> list[str]:
    accelerator = torch.accelerator.current_accelerator()
    return ["cpu", *([accelerator.type] if accelerator is not None else [])]


def _autocast() -> list[tuple[str, bool, torch.dtype]]:
    kinds = _device_types()
    return [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]


def _set_autocast(then: list[tuple[str, bool, torch.dtype]]) -> None:
    for kind, enabled, dtype in then:
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(then: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(then[0], warn_only=then[1])


def _default_device() -> torch.device:
    return torch.get_default_device()


def _set_default_device(then: torch.device) -> None:
    torch.set_default_device(None if then.type == "cpu" else then)


def _flag(holder: Any, name: str, words: str) -> Aspect:
    return Aspect(words, lambda: getattr(holder, name), lambda then: setattr(holder, name, then))


def _users_modules() -> dict[str, Any]:
    # Those of a compiler are files of its cache.
    named = ((name, module) for name, module in list(sys.modules.items()) if not name.startswith(("torch.", "triton.")))
    return {name: one for name, one in named if isinstance(one, ModuleType) and is_user_module(one)}


def _set_users_modules(then: Mapping[str, Any]) -> None:
    for name in _users_modules().keys() - then.keys():
        module = sys.modules.pop(name)
        parent, _, last = name.rpartition(".")
        if vars(sys.modules.get(parent, sys)).get(last) is module:
            delattr(sys.modules[parent], last)
    sys.modules.update(then)


def _signals() -> dict[int, Any]:
    found = {number: signal.getsignal(number) for number in signal.valid_signals()}
    found[signal.SIGINT] = users_handler(found[signal.SIGINT])
    return {number: signal.SIG_DFL if is_ours(handler) else handler for number, handler in found.items()}


def _set_signals(then: Mapping[int, Any]) -> None:
    # A bench goes on to hear of interrupts, also where a run has set a handler of its own.
    for number, handler in {**then, signal.SIGINT: in_place_of(then[signal.SIGINT])}.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _decimal() -> Any:
    module = sys.modules.get("decimal")
    return None if module is None else (module.getcontext(), module.getcontext().copy())


def _same_decimal(now: Any, then: Any) -> bool:
    # Imported by the run, it is as it begins.
    return then is None or (now[0] is then[0] and repr(now[1]) == repr(then[1]))


def _set_decimal(then: Any) -> None:
    held, copy = then
    sys.modules["decimal"].setcontext(held)
    for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "flags", "traps"):
        setattr(held, name, getattr(copy, name))


def _set_callbacks(then: list[Any]) -> None:
    gc.callbacks[:] = then


def _set_collecting(then: bool) -> None:  # noqa: FBT001 - it is the value that was read
    (gc.enable if then else gc.disable)()


SETTINGS: tuple[Aspect, ...] = (
    Aspect("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Aspect("the default device", _default_device, _set_default_device),
    Aspect("autocast", _autocast, _set_autocast),
    Aspect("autocast's cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    Aspect("torch's threads", torch.get_num_threads, torch.set_num_threads),
    Aspect("deterministic algorithms", _deterministic, _set_deterministic),
    Aspect("matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    _flag(torch.backends.cudnn, "benchmark", "cudnn.benchmark"),
    _flag(torch.backends.cudnn, "deterministic", "cudnn.deterministic"),
    _flag(torch.backends.cudnn, "enabled", "cudnn.enabled"),
    _flag(RemovableHandle, "next_id", "the number of the next hook"),
    Aspect("the working directory", os.getcwd, os.chdir),
    Aspect("the environment", _environment, _set_environment),
    Aspect("sys.path", lambda: list(sys.path), _set_path),
    Aspect("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Aspect("garbage collection", gc.isenabled, _set_collecting),
    Aspect("warning filters", lambda: list(warnings.filters), _set_filters),
    Aspect("gc's thresholds", gc.get_threshold, lambda then: gc.set_threshold(*then)),
    Aspect("gc's callbacks", lambda: list(gc.callbacks), _set_callbacks),
    _flag(warnings, "showwarning", "warnings.showwarning"),
    _flag(warnings, "formatwarning", "warnings.formatwarning"),
    _flag(sys, "excepthook", "sys.excepthook"),
    _flag(sys, "unraisablehook", "sys.unraisablehook"),
    _flag(threading, "excepthook", "threading.excepthook"),
    Aspect("the interval of thread switches", sys.getswitchinterval, sys.setswitchinterval),
    Aspect("the sockets' timeout", socket.getdefaulttimeout, socket.setdefaulttimeout),
    Aspect("the locale", lambda: locale.setlocale(locale.LC_ALL), lambda then: locale.setlocale(locale.LC_ALL, then)),
    Aspect("the decimal context", _decimal, _set_decimal, _same_decimal),
    Aspect("signal handlers", _signals, _set_signals),
    Aspect("modules of yours that are imported", _users_modules, _set_users_modules),
    Aspect("modes of torch that are open", _torch.function_modes, _torch.set_function_modes),
    Aspect("warnings already given", _warned, _set_warned, _same_warned),
)
