"""A press of stop must not get lost, nor leave half done what has to be done as a whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Presses:
    """How often stop was pressed meanwhile."""

    count: int = 0

    def note(self, *_: Any) -> None:
        """Count a press; this is a signal's handler."""
        self.count += 1

    def interrupt(self, *_: Any) -> None:
        """Count a press and interrupt; this is a signal's handler."""
        self.count += 1
        raise KeyboardInterrupt

    def check(self) -> None:
        """Interrupt if there was a press.

        Raises:
            KeyboardInterrupt: there was one. Whoever gets here after a press has lost it: Python swallows what is
                raised in a callback of a weak reference, of which Dynamo has many.
        """
        if self.count:
            raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[Presses]:
    """Count interrupts instead of raising them. On another thread than the main one, where none arrive, do nothing."""
    presses = Presses()
    with _handled(presses.note):
        yield presses


@contextmanager
def remembered() -> Iterator[Presses]:
    """Count interrupts and raise them, so that one that gets lost can be raised again."""
    presses = Presses()
    with _handled(presses.interrupt):
        yield presses


# The handlers that stand in for the user's now, the innermost last, each with what was there before.
_ours: list[tuple[Callable[..., None], Any]] = []


def users_handler(handler: Any) -> Any:
    """Return the handler of interrupts that the user has, where the one that is in place may be ours."""
    return _ours[0][1] if any(handler is one for one, _ in _ours) else handler


def in_place_of(handler: Any) -> Any:
    """Return the handler of interrupts to be in place where the user has this one: ours, as long as there is one."""
    return _ours[-1][0] if _ours else handler


@contextmanager
def _handled(handler: Callable[..., None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    _ours.append((handler, before))
    try:
        yield
    finally:
        _ours.pop()
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
