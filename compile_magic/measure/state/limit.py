"""No run of a bench lasts for ever: one that waits, or takes far longer than the first did, is ended.

A clock ticks every few seconds and looks at what the main thread is doing. What compiles is left alone, however long
it takes, and so is what we do ourselves between the runs.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import suppress
from types import FrameType
from types import MethodType
from typing import Any

from compile_magic.measure.state.writes import UnrepeatableError

# A run that uses less than a tenth of the time on the processor for so long waits for something.
MOST_WAIT_S = 30.0
_IDLE_SHARE = 0.1
# A run that takes so many times the first one, and more than a wait, does not end as that did.
MOST_TIMES = 20
TICK_S = 10.0
CLOCK = "compile_magic's clock"

FirstS = Callable[[], float | None]
RunOf = Callable[[FrameType | None], FrameType | None]


class _Clock:
    """Ticks. `look` gets the innermost frame of the main thread, and raises if its run has to end."""

    def __init__(self, run_of: RunOf, first_s: FirstS) -> None:
        self._run_of = run_of
        self._first_s = first_s
        self._run: FrameType | None = None
        self._begun = self._cpu = 0.0

    def look(self, frame: FrameType | None) -> None:
        run = self._run_of(frame)
        if run is None or run is not self._run:
            self._run, self._begun, self._cpu = run, time.monotonic(), time.process_time()
            return
        # At the tick before this run was under way already.
        took = time.monotonic() - self._begun
        idle = time.process_time() - self._cpu < _IDLE_SHARE * took
        if idle and took >= MOST_WAIT_S:
            raise UnrepeatableError(
                f"a run waits for more than {took:.0f} s, and nobody knows for what: put what it waits for (a queue, a "
                "lock, an answer) in a cell of its own and bench the rest"
            )
        first_s = self._first_s()
        if first_s is not None and took >= max(MOST_WAIT_S, MOST_TIMES * first_s):
            raise UnrepeatableError(
                f"a run takes more than {took:.0f} s, over {MOST_TIMES} times what the first one took, and may never "
                "end. Let the cell do the same in each run"
            )


@contextmanager
def limited(run_of: RunOf, first_s: FirstS) -> Iterator[None]:
    """Return a context in which each run of the user's is ended that waits for long or takes far too long.

    Timers and signal handlers of the user's stay: where SIGALRM is in use, a thread ticks instead. On another thread
    than the main one nothing can be interrupted, and nothing is done.

    Args:
        run_of: gives the frame in which the run began that a frame is part of, None if that is to be left alone.
        first_s: gives the seconds that the first run took, None if there was none yet.

    Raises:
        UnrepeatableError: inside the context, in the middle of the run.
    """
    clock = _Clock(run_of, first_s)
    if threading.current_thread() is not threading.main_thread():
        yield
    elif _alarm_is_free():
        with _alarms(clock):
            yield
    else:
        with _interrupts(clock):
            yield


def _alarm_is_free() -> bool:
    if not hasattr(signal, "setitimer"):
        return False
    return signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def is_ours(handler: Any) -> bool:
    """Return whether a signal's handler is the one of a clock."""
    return isinstance(handler, MethodType) and isinstance(handler.__self__, _Alarm)


class _Alarm:
    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def tick(self, _: int, frame: FrameType | None) -> None:
        self._clock.look(frame)


@contextmanager
def _alarms(clock: _Clock) -> Iterator[None]:
    tick = _Alarm(clock).tick
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        yield
    finally:
        # A run may have set an alarm of its own, and that is put back with all else.
        if signal.getsignal(signal.SIGALRM) == tick:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextmanager
def _interrupts(clock: _Clock) -> Iterator[None]:
    """Tick in a thread, which interrupts the main one as a press of stop would. The refusal itself stands."""
    ended, main = threading.Event(), threading.main_thread().ident or 0

    def tick() -> None:
        while not ended.wait(TICK_S):
            with suppress(UnrepeatableError):
                clock.look(sys._current_frames().get(main))  # noqa: SLF001 - the only way to another thread's frames
                continue
            _interrupt(main)

    thread = threading.Thread(target=tick, daemon=True, name=CLOCK)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _interrupt(main: int) -> None:
    if hasattr(signal, "pthread_kill"):
        # Also wakes a thread that waits.
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
