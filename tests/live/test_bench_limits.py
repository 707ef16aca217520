"""No bench hangs, and none takes memory that is not there; what a run was ended for is said."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest
import torch
from bench_cells import run
from bench_cells import started
from bench_cells import used_in

import compile_magic
from compile_magic.measure.state import contents
from compile_magic.measure.state import limit
from compile_magic.measure.state import room
from compile_magic.measure.state.effects import guarded
from compile_magic.measure.state.snapshot import Snapshot
from compile_magic.measure.state.unrepeatable import UnrepeatableError
from compile_magic.measure.work import AsItIs
from compile_magic.measure.work import CellWork


@pytest.fixture
def _quick(monkeypatch):
    """Limits of half a second, with ticks that find them."""
    monkeypatch.setattr(limit, "TICK_S", 0.1)
    monkeypatch.setattr(limit, "MOST_WAIT_S", 0.4)
    # Which the tests' own time limit uses.
    handler, timer = signal.signal(signal.SIGALRM, signal.SIG_DFL), signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


def worked(setup, cell):
    """Return a cell as a bench runs it."""
    work = CellWork(compile(cell, "<cell>", "exec"), started(setup), frozenset(), {})
    work.enter(AsItIs())
    return work


WAITS = {
    "a lock": ("import threading\nlock = threading.Lock()\nlock.acquire()", "with lock:\n    pass"),
    "sleep": ("import time", "time.sleep(60)"),
    "a condition of a library's": (
        "import threading, concurrent.futures\nfuture = concurrent.futures.Future()",
        "future.result(60)",
    ),
    "a pipe's end": (
        "import os\nr, w = os.pipe()\nread = os.fdopen(r, 'rb', buffering=0)",
        "read.readinto(bytearray(1))",
    ),
    "a socket": ("import socket\na, b = socket.socketpair()\nf = a.makefile('rb', 0)", "f.readinto(bytearray(1))"),
    "one that catches all": (
        "import time",
        "try:\n    time.sleep(60)\nexcept BaseException:\n    pass\n",
    ),
}


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("name", WAITS)
def test_a_run_that_waits_is_ended(name):
    """A run that waits for something is ended after a while, and the user's timer and handler stay."""
    work = worked(*WAITS[name])
    begun = time.monotonic()
    with pytest.raises(UnrepeatableError, match="a run waits for more than"), guarded():
        work.run()
    work.leave()

    assert time.monotonic() - begun < 30
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.usefixtures("_quick")
def test_a_run_that_never_ends_is_ended():
    """A run that takes over twenty times what the first one took is ended, however busy it is."""
    work = worked("", "while True:\n    pass")
    with pytest.raises(UnrepeatableError, match="times what the first one took"), guarded(first_s=lambda: 0.001):
        work.run()
    work.leave()


@pytest.mark.usefixtures("_quick")
def test_a_long_first_run_goes_on():
    """A run that works for long is left alone, while nobody knows how long it takes."""
    work = worked("import time", "end = time.monotonic() + 1\nwhile time.monotonic() < end:\n    pass")
    with guarded():
        work.run()
    work.leave()


@pytest.mark.usefixtures("_quick")
def test_many_short_runs_go_on():
    """What is limited is a run, and not how many of them follow each other."""
    work = worked("import time", "time.sleep(0.05)")
    with guarded(first_s=lambda: 0.001):
        for _ in range(20):
            work.run()
    work.leave()


@pytest.mark.usefixtures("_quick")
def test_an_alarm_of_the_users_stays():
    """Where the user's own alarm is set, it comes, and a run that waits is ended all the same."""
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    work = worked("import time", "time.sleep(60)")
    try:
        with pytest.raises(UnrepeatableError, match="waits for more than"), guarded():
            work.run()
    except KeyboardInterrupt:
        pytest.fail("the user has not pressed stop")
    finally:
        work.leave()
        handler = signal.signal(signal.SIGALRM, before)

    assert rung == [1]
    assert handler is not signal.SIG_DFL
    assert not [
        t for t in threading.enumerate() if t.name == "compile_magic's clock" and t.join(1) is None and t.is_alive()
    ]


def test_what_waits_in_a_function_is_said(monkeypatch):
    """A function that waits gets a report that says so, and is not called again."""
    monkeypatch.setattr(limit, "TICK_S", 0.1)
    monkeypatch.setattr(limit, "MOST_WAIT_S", 0.4)
    calls = []

    def wait(x):
        calls.append(1)
        time.sleep(60)
        return x

    report = compile_magic.bench(wait, torch.ones(3))

    assert "a run waits for more than" in (report.error or "")
    assert calls == []


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def free(monkeypatch):
    """How many bytes the host has free, as the bench is told."""
    told = {"bytes": 1 << 40}
    monkeypatch.setattr(contents, "limit", lambda _: -1)
    monkeypatch.setattr(room, "free_bytes", lambda _: told["bytes"])
    monkeypatch.setattr(room, "SMALL", 0)
    return told


WRITES = {
    "a tensor": ("x = torch.ones(1000)", "x.add_(1)"),
    "a view": ("x = torch.ones(1000)", "x[3:].mul_(2)"),
    "a parameter": ("x = torch.nn.Linear(10, 100)", "with torch.no_grad():\n    x.weight.zero_()"),
    "out=": ("x = torch.ones(1000)", "torch.add(x, 1, out=x)"),
    "foreach": ("x = [torch.ones(1000), torch.ones(1000)]", "torch._foreach_add_(x, 1.0)"),
    "a buffer": ("x = torch.nn.BatchNorm1d(1000)", "x(torch.randn(4, 1000))"),
}


@pytest.mark.parametrize("name", WRITES)
def test_no_write_without_room(name, free):
    """What there is no room to remember is not written at all; with room it is written and put back."""
    setup, cell = WRITES[name]
    namespace, twin = started(setup), started(setup)
    values = lambda names: [t.tolist() for t in _tensors(names["x"])]  # noqa: E731 - before and after
    snapshot = Snapshot(namespace, used_in(cell))
    free["bytes"] = 7000
    with pytest.raises(UnrepeatableError, match="no room for a copy"), snapshot.watching():
        run(namespace, cell)
    # The figures are those of a function of ours here, so they are state as well.
    snapshot.restore_all()
    refused = values(namespace)
    free["bytes"] = 1 << 30
    snapshot = Snapshot(namespace, used_in(cell))
    with snapshot.watching():
        run(namespace, cell)
    written = values(namespace)

    assert refused == values(twin)
    assert written != values(twin)
    assert snapshot.restore_all() == ()
    assert values(namespace) == values(twin)


def _tensors(value):
    if isinstance(value, torch.nn.Module):
        return [*value.state_dict().values()]
    return value if isinstance(value, list) else [value]


class Device:
    """The type of a device that has its memory apart from the host's."""

    type = "cuda"


def test_copies_that_a_device_has_no_room_for_go_to_the_host(monkeypatch):
    """A copy stays on its device up to a quarter of what is free, all copies together, and goes to the host then."""
    found = contents.Contents()
    stored = [contents.Stored("x", torch.ones(25)) for _ in range(3)]
    device = Device()
    monkeypatch.setattr(contents, "free_bytes", lambda one: 600 if one is device else 1 << 40)
    monkeypatch.setattr(found, "_copied_on", lambda _: sum(100 for one in stored if one.written))
    places = []
    for one in stored:
        one.device = device
        places.append(found._place(one))
        one.written = places[-1] is device

    assert places == [device, torch.device("cpu"), torch.device("cpu")]


@pytest.mark.parametrize("size", [0, 1, 7, contents._CHUNK, contents._CHUNK + 9, 2 * contents._CHUNK])
def test_memory_is_compared_in_chunks(size):
    """Bytes are compared whole, whatever their number, and the last one counts."""
    one = torch.zeros(size, dtype=torch.uint8)
    other = one.clone()

    assert contents._equal(one, other)
    if size:
        other[-1] = 1
        assert not contents._equal(one, other)


def test_a_copy_on_the_host_is_compared_by_its_checksum(monkeypatch):
    """Memory whose copy lies elsewhere is compared without the copy, and put back from it."""
    tensor = torch.arange(1000.0)
    stored = contents.Stored("x", tensor)
    stored.keep_checksum()
    stored.keep(torch.device("cpu"))
    before = stored.differs()
    stored.device = torch.device("meta")
    monkeypatch.setattr(contents, "_equal", lambda *_: pytest.fail("no copy on the device to compare with"))
    same = stored.differs()
    tensor[-1] = 5
    changed = stored.differs()
    stored.put_back()

    assert (before, same, changed) == (False, False, True)
    assert tensor[-1] == 999


def test_the_hosts_free_memory():
    """The figure is above nothing and below what the machine has."""
    free = room.free_bytes(torch.device("cpu"))

    assert free is None or 0 < free < 1 << 50
    assert room.has_room(0)
    if sys.platform == "linux":
        assert not room.has_room(1 << 50)
