"""Keep what a run prints, displays and logs from being shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import ExitStack
from contextlib import contextmanager
from typing import Any


@contextmanager
def silenced(captured: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Show nothing of what is printed, displayed or logged inside, also through a stream that was kept from before.

    Args:
        captured: takes what is printed to the shell's own streams, and what is displayed.
    """
    with ExitStack() as stack:
        for stream in _streams():
            stack.enter_context(_muted(stream))
        stack.enter_context(captured())
        yield


def _streams() -> list[Any]:
    handlers = [known() for known in list(logging._handlerList)]  # type: ignore[attr-defined]  # noqa: SLF001 - also those of no logger
    kept = [h.stream for h in handlers if type(h) is logging.StreamHandler]
    streams = [sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, *kept]
    return list({id(stream): stream for stream in streams if stream is not None}.values())


@contextmanager
def _muted(stream: Any) -> Iterator[None]:
    """Have a stream take what is written to it and drop it. One that lets nobody set its `write` is left alone."""
    own = getattr(stream, "__dict__", None)
    if not isinstance(own, dict) or "write" in own:
        yield
        return
    own["write"] = len
    try:
        yield
    finally:
        own.pop("write", None)
