"""Loggers: their handlers, filters and levels, which a cell that sets up its logging adds to in each run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

from compile_magic import _torch
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.names import is_user_class

_PARTS = ("handlers", "filters", "level", "propagate", "disabled")


class LoggersKept(Kept):
    """All loggers of the process, and which there are. A library that is imported meanwhile may add its own."""

    path = "logging"

    def __init__(self) -> None:
        self._then = _all()

    def changed(self) -> bool:
        """Return whether one is different now."""
        now = _all()
        return any(now.get(name) != parts for name, parts in self._then.items()) or any(self._new(now))

    def put_back(self) -> None:
        """Make them what they were."""
        now = _all()
        for name in [*self._new(now)]:
            logging.root.manager.loggerDict.pop(name)
        for name, parts in self._then.items():
            if now.get(name) != parts:
                _write(logging.getLogger(name), parts)

    def _new(self, now: dict[str, Any]) -> Iterator[str]:
        return (name for name in now if name not in self._then and not _is_librarys(name))


def _all() -> dict[str, dict[str, Any]]:
    known = {"root": logging.root, **logging.root.manager.loggerDict}
    # Torch's trace has handlers that come and go as it is used.
    named = {name: logger for name, logger in known.items() if name != _torch.TRACE_LOGGER}
    return {name: _read(logger) for name, logger in named.items() if isinstance(logger, logging.Logger)}


def _read(logger: logging.Logger) -> dict[str, Any]:
    parts = {name: getattr(logger, name) for name in _PARTS}
    return {name: list(part) if isinstance(part, list) else part for name, part in parts.items()}


def _write(logger: logging.Logger, parts: dict[str, Any]) -> None:
    logger.handlers[:], logger.filters[:] = parts["handlers"], parts["filters"]
    logger.propagate, logger.disabled = parts["propagate"], parts["disabled"]
    logger.setLevel(parts["level"])


def _is_librarys(name: str) -> bool:
    return name.partition(".")[0] in sys.modules


def handlers() -> Iterator[logging.Handler]:
    """Yield the handlers of all loggers, each once."""
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    every = (handler for logger in known if isinstance(logger, logging.Logger) for handler in logger.handlers)
    yield from {id(handler): handler for handler in every}.values()


def _is_users(handler: Any) -> bool:
    kind: Any = type(handler)
    return is_user_class(kind)


def users_handlers() -> dict[str, logging.Handler]:
    """Return the handlers of classes of the user's: what they do with a message is his code, and may keep it."""
    mine = [handler for handler in handlers() if _is_users(handler)]
    return {f"the {type(handler).__name__} of a logger{n or ''}": handler for n, handler in enumerate(mine)}
