"""What a process is like that a cell runs in: everything that an import could move."""

from __future__ import annotations

import contextlib
import hashlib
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any


def fingerprint() -> dict[str, Any]:
    """Return the state of each part of the process, without those that aren't imported yet."""
    return {**_generators(), **_python(), **_warnings(), **_loggers()}


def moved(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what was there before and is different now."""
    return {name: (state, after.get(name)) for name, state in before.items() if after.get(name) != state}


def _generators() -> dict[str, Any]:
    found: dict[str, Any] = {"random": _short(random.getstate())}
    numpy: Any = sys.modules.get("numpy.random")
    torch: Any = sys.modules.get("torch")
    if hasattr(numpy, "get_state"):
        found["numpy"] = _short([part.tolist() if hasattr(part, "tolist") else part for part in numpy.get_state()])
    if hasattr(torch, "default_generator"):
        found["torch"] = _short(torch.get_rng_state().tolist())
    return found


def _short(state: Any) -> str:
    return hashlib.sha256(repr(state).encode()).hexdigest()[:12]


def _python() -> dict[str, Any]:
    return {
        **{f"variable {name}": value for name, value in os.environ.items()},
        "variables": len(os.environ),
        "sys.path": list(sys.path),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": [str(signal.getsignal(number)) for number in signal.valid_signals()],
        "hooks": [str(hook) for hook in (sys.excepthook, sys.displayhook, threading.excepthook)],
        "recursion limit": sys.getrecursionlimit(),
        "folder": str(Path.cwd()),
    }


def _warnings() -> dict[str, Any]:
    # Whether a warning that is shown once is still remembered as shown.
    registry: dict[Any, Any] = {}
    with contextlib.suppress(ImportWarning):
        warnings.warn_explicit("w", ImportWarning, "f", 1, registry=registry)
    return {
        "filters": [str(one) for one in warnings.filters],
        "version of the filters": registry.get("version"),
        "showwarning": str(warnings.showwarning),
    }


def _loggers() -> dict[str, Any]:
    named = {"": logging.root, **logging.root.manager.loggerDict}
    own = {name: one for name, one in named.items() if isinstance(one, logging.Logger)}
    states = {
        f"logger {name}": (one.level, len(one.handlers), len(one.filters), one.propagate, one.disabled)
        for name, one in own.items()
        if not name.startswith("torch")
    }
    return {**states, "logging.disable": logging.root.manager.disable}
