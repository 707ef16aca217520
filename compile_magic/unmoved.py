"""Import and compile what a plain cell wouldn't, without moving anything of the user's in the process.

When they are imported, rich draws from Python's `random`, and torch's compiler sets a variable of the environment and
adds warning filters.
"""

from __future__ import annotations

import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import ExitStack
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """One part of the process: `read` gives its state, and `put_back` takes it."""

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], None]


@contextmanager
def unmoved(*, quiet: bool = True) -> Iterator[None]:
    """Leave each of `PARTS` as it was. Goes around each import of what isn't ours, and around each compile.

    What torch itself adds when it is imported for the first time stays, as if the cell had imported it.

    Args:
        quiet: show no warning either, and leave the filters of warnings as they were.
    """
    with ExitStack() as stack:
        for part in PARTS:
            stack.callback(part.put_back, part.read())
        stack.enter_context(_warnings_as_they_are(quiet=quiet))
        yield


# --- generators ------------------------------------------------------------------------------------------------------


def _numpy_state() -> Any:
    # A numpy that we are the first to import has seeded itself from the system, as it does for the user.
    numpy: Any = sys.modules.get("numpy.random")
    return numpy.get_state() if hasattr(numpy, "get_state") else None


def _put_back_numpy(state: Any) -> None:
    if state is not None:
        sys.modules["numpy.random"].set_state(state)


def _torch_state() -> Any:
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    return generator.get_state() if generator is not None else None


def _put_back_torch(state: Any) -> None:
    if state is not None:
        sys.modules["torch"].default_generator.set_state(state)


# --- what belongs to Python and the system ---------------------------------------------------------------------------


def _put_back_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _path() -> tuple[list[str], list[str]]:
    return sys.path, list(sys.path)


def _put_back_path(before: tuple[list[str], list[str]]) -> None:
    sys.path, content = before
    if sys.path != content:
        sys.path[:] = content


def _loggers() -> list[tuple[logging.Logger, dict[str, Any]]]:
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    # torch sets up its own loggers, also for parts of it that are imported later.
    theirs = [one for one in known if isinstance(one, logging.Logger) and not one.name.startswith("torch")]
    return [(logger, _setting(logger)) for logger in theirs]


def _setting(logger: logging.Logger) -> dict[str, Any]:
    lists = {"handlers": list(logger.handlers), "filters": list(logger.filters)}
    return {"level": logger.level, "propagate": logger.propagate, "disabled": logger.disabled, **lists}


def _put_back_loggers(before: list[tuple[logging.Logger, dict[str, Any]]]) -> None:
    for logger, setting in before:
        if _setting(logger) == setting:
            continue
        logger.handlers[:], logger.filters[:] = setting["handlers"], setting["filters"]
        logger.propagate, logger.disabled = setting["propagate"], setting["disabled"]
        logger.setLevel(setting["level"])


def _put_back_disabled(level: int) -> None:
    if logging.root.manager.disable != level:
        logging.disable(level)


def _put_back_locale(before: str) -> None:
    if locale.setlocale(locale.LC_ALL) != before:
        locale.setlocale(locale.LC_ALL, before)


def _signals() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _put_back_signals(before: dict[int, Any]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number, handler in before.items():
        # None is a handler that isn't Python's, and can't be set from it.
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


_HOOKS = ((sys, "excepthook"), (sys, "displayhook"), (sys, "unraisablehook"), (threading, "excepthook"))


def _hooks() -> list[Any]:
    return [getattr(module, name) for module, name in _HOOKS]


def _put_back_hooks(before: list[Any]) -> None:
    for (module, name), hook in zip(_HOOKS, before, strict=True):
        setattr(module, name, hook)


def _put_back_depth(limit: int) -> None:
    if sys.getrecursionlimit() != limit:
        sys.setrecursionlimit(limit)


def _showers() -> tuple[Any, Any]:
    return warnings.showwarning, warnings.formatwarning


def _put_back_showers(before: tuple[Any, Any]) -> None:
    warnings.showwarning, warnings.formatwarning = before


PARTS = (
    Part("random", random.getstate, random.setstate),
    Part("numpy", _numpy_state, _put_back_numpy),
    Part("torch", _torch_state, _put_back_torch),
    Part("environment", lambda: dict(os.environ), _put_back_environment),
    Part("sys.path", _path, _put_back_path),
    Part("loggers", _loggers, _put_back_loggers),
    Part("logging.disable", lambda: logging.root.manager.disable, _put_back_disabled),
    Part("locale", lambda: locale.setlocale(locale.LC_ALL), _put_back_locale),
    Part("signals", _signals, _put_back_signals),
    Part("hooks", _hooks, _put_back_hooks),
    Part("recursion limit", sys.getrecursionlimit, _put_back_depth),
    Part("showwarning", _showers, _put_back_showers),
)


# --- warnings --------------------------------------------------------------------------------------------------------


@contextmanager
def _warnings_as_they_are(*, quiet: bool) -> Iterator[None]:
    """Let Python remember which warnings it has shown, and with `quiet` ignore those of the block.

    Each change of the filters, also by `warnings.catch_warnings()`, makes it forget them, and the user's that are shown
    once would be shown again.
    """
    module, first = vars(warnings), "torch" not in sys.modules
    ignore: tuple[Any, ...] = ("ignore", None, Warning, None, 0)
    meanwhile: dict[str, Any] = {"_filters_mutated": lambda: None, **({"filters": [ignore]} if quiet else {})}
    before = {name: module[name] for name in meanwhile if name in module}
    module.update({name: meanwhile[name] for name in before})
    try:
        yield
    finally:
        added = [one for one in module["filters"] if one != ignore]
        module.update(before)
        if quiet and first and "torch" in sys.modules and added:
            module["filters"][:0] = added
            before.get("_filters_mutated", lambda: None)()
