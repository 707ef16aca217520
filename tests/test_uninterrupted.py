"""A press of stop while something is put back is counted, not raised."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from compile_magic.measure.uninterrupted import remembered
from compile_magic.measure.uninterrupted import uninterrupted


def test_a_press_of_stop_waits_until_all_is_put_back() -> None:
    """Two presses in the middle raise nothing and are counted; afterwards one raises again."""
    handler = signal.getsignal(signal.SIGINT)
    done = []
    with uninterrupted() as presses:
        for step in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            done.append(step)

    assert done == [0, 1]
    assert presses.count == 2
    assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_on_another_thread_nothing_is_changed() -> None:
    """A thread that gets no interrupts does without, and raises nothing."""
    found: list[int] = []

    def work() -> None:
        with uninterrupted() as presses:
            found.append(presses.count)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert found == [0]


def test_a_press_that_gets_lost_is_raised_later() -> None:
    """An interrupt that Python swallows, as in a callback of a weak reference, is raised at the next look."""
    with remembered() as presses:
        presses.check()
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            presses.check()
