"""What the user has Python call by itself is not called for the runs of a bench, which nobody asked for.

A callback for the garbage collector, a `warnings.showwarning`, a handler of a logger: they are set aside for the time
of a bench, and what the benched cell puts in their places is called in its runs as in a notebook.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import ExitStack
from contextlib import contextmanager
from typing import Any

from compile_magic import _torch
from compile_magic.measure.state.loggers import handlers
from compile_magic.measure.state.loggers import users_handlers
from compile_magic.measure.state.patching import patched

# Called by Python itself, as (module, name). What shows a warning comes twice: `warnings.catch_warnings(record=True)`
# puts a list in the place of the second, and the first back to Python's own.
_CALLED: tuple[tuple[Any, str], ...] = (
    (sys, "excepthook"),
    (sys, "unraisablehook"),
    (threading, "excepthook"),
    (warnings, "showwarning"),
    (warnings, "_showwarnmsg_impl"),
)


@contextmanager
def set_aside() -> Iterator[None]:
    """Return a context in which no callback of the user's from before it is called by Python or by a logger."""
    mine, torchs = users_handlers().values(), _torch.log_handlers()
    mute = {id(handler): handler for handler in handlers() if handler not in torchs or handler in mine}
    callbacks = [*gc.callbacks]
    gc.callbacks.clear()
    try:
        with ExitStack() as stack:
            for holder, name in _CALLED:
                if hasattr(holder, name):
                    stack.enter_context(patched(holder, name, lambda _: _nothing))
            stack.enter_context(patched(logging.Logger, "callHandlers", lambda _: _without(mute)))
            yield
    finally:
        gc.callbacks[:] = callbacks


def _nothing(*_: Any) -> None:
    """Take what nobody is to be told."""


def _without(mute: dict[int, logging.Handler]) -> Callable[[logging.Logger, logging.LogRecord], None]:
    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        """Hand a record to the handlers that were added since, as `logging.Logger.callHandlers` does to all."""
        logger: logging.Logger | None = self
        while logger is not None:
            for handler in logger.handlers:
                if id(handler) not in mute and record.levelno >= handler.level:
                    handler.handle(record)
            logger = logger.parent if logger.propagate else None

    return call_handlers
