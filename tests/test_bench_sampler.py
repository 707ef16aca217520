"""Blocks are counted, paired, thrown out and ended exactly as promised, on a clock with set costs."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

from compile_magic.measure.timing.clock import DeviceClock
from compile_magic.measure.timing.sampler import Samples
from compile_magic.measure.timing.sampler import sample

MS = 1e-3
# What the fake device takes for a run, as a share of the wall time.
DEVICE_SHARE = 0.25


class FakeClock:
    """A clock that goes only when a lane runs, and writes down what was asked of it."""

    def __init__(self, *, events: bool = False) -> None:
        self.time = 100.0
        self.events = events
        self.log: list[str] = []

    def synchronize(self) -> None:
        """Write it down."""
        self.log.append("wait")

    def now(self) -> float:
        """Return the set time."""
        return self.time

    def event(self) -> float | None:
        """Write it down, and return the set time as a stamp if there are stamps."""
        self.log.append("event")
        return self.time if self.events else None

    def elapsed_s(self, start: Any, end: Any) -> float | None:
        """Return the device's part of the time between two stamps."""
        return None if start is None else (end - start) * DEVICE_SHARE


class FakeLane:
    """A lane whose run takes `cost_s`, a number or a function of the clock's time."""

    paired = False

    def __init__(self, clock: FakeClock, cost_s: float | Callable[[float], float] = MS, name: str = "lane") -> None:
        self.name = name
        self.clock = clock
        self.cost_s = cost_s if callable(cost_s) else lambda _, cost=cost_s: cost
        self.begun = 0
        self.ended = 0
        self.on = False
        self.switching_s = 0.0
        self.in_block: Callable[[FakeLane], None] = lambda _: None
        self.is_clean: Callable[[FakeLane], bool] = lambda _: True

    def restart(self) -> None:
        """Put the state back, which takes a while."""
        self.clock.log.append("restart")
        self.clock.time += 7 * MS

    def begin_block(self) -> None:
        """Switch on. A lane that is on already would have missed an `end_block`."""
        assert not self.on
        self.on = True
        self.begun += 1
        self.clock.log.append(f"begin {self.name}")
        self.clock.time += self.switching_s

    def run(self, count: int) -> None:
        """Let the clock go on by what so many runs cost."""
        self.clock.log.append(f"run {count}")
        self.clock.time += count * self.cost_s(self.clock.time)
        self.in_block(self)

    def end_block(self) -> bool:
        """Switch off."""
        self.on = False
        self.ended += 1
        self.clock.log.append("end")
        return self.is_clean(self)


def lanes(clock: FakeClock, *costs_s: float | Callable[[float], float]) -> list[FakeLane]:
    return [FakeLane(clock, cost, f"lane {number}") for number, cost in enumerate(costs_s)]


def blocks(log: list[str]) -> list[list[str]]:
    """Return what each block asked of the lane and the clock."""
    found: list[list[str]] = []
    for entry in log:
        if entry.startswith("begin"):
            found.append([])
        else:
            found[-1].append(entry)
    return found


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    """The garbage collector is on before and after each test."""
    gc.enable()
    yield
    gc.enable()


def test_a_block_is_20_ms_with_a_fifth_untimed() -> None:
    """Work of 1 ms runs 20 times in a block: 4 untimed, then 16 between two waits and two events."""
    clock = FakeClock()
    (lane,) = lanes(clock, MS)
    found = sample([lane], clock, budget_s=0.2).lane("lane 0")
    calibration, *rounds = blocks(clock.log)
    expected = ["run 4", "wait", "event", "run 16", "event", "wait", "end"]

    assert calibration.count("run 16") == 1
    assert rounds == [expected] * len(rounds)
    assert found.count == 20
    assert found.wall_s == pytest.approx([MS] * len(rounds))
    assert found.device_s == (None,) * len(rounds)


def test_the_device_has_its_own_time() -> None:
    """With timing events, the time for one run is also told by the device's clock."""
    clock = FakeClock(events=True)
    found = sample(lanes(clock, MS), clock, budget_s=0.1).lane("lane 0")

    assert found.device_times_s == pytest.approx([MS * DEVICE_SHARE] * len(found.wall_s))


@pytest.mark.parametrize(("cost_s", "timed"), [(3.0, ["run 1"]), (0.3, ["run 1"]), (0.009, ["run 1", "run 1"])])
def test_a_long_run_is_a_block(cost_s: float, timed: list[str]) -> None:
    """A run longer than a block is one without a warm-up; two runs in a block are one untimed and one timed."""
    clock = FakeClock()
    sample(lanes(clock, cost_s), clock, budget_s=0.1)

    for block in blocks(clock.log)[1:]:
        assert [entry for entry in block if entry.startswith("run")] == timed


def test_a_run_of_seconds_is_not_run_for_nothing() -> None:
    """A lane that takes 3 s a run is run once to calibrate and three times to time it, even past the budget."""
    clock = FakeClock()
    found = sample(lanes(clock, 3.0), clock, budget_s=1.0)

    assert clock.log.count("run 1") == 4
    assert found.lane("lane 0").wall_s == (3.0, 3.0, 3.0)
    assert found.duration_s == 12.0


def test_the_warm_up_is_not_timed() -> None:
    """What is slow right after another lane, or after its state was put back, is in no sample."""
    clock = FakeClock()
    slow = [False]

    def cost(time: float) -> float:
        was, slow[0] = slow[0], False
        return 2 * MS if was else MS

    lane = FakeLane(clock, cost)
    begin = lane.begin_block
    lane.begin_block = lambda: (begin(), slow.__setitem__(0, True))[0]  # type: ignore[method-assign]
    found = sample([lane], clock, budget_s=1.0).lane("lane")

    assert found.wall_s == pytest.approx([MS] * len(found.wall_s))


def test_runs_in_a_block_are_mended() -> None:
    """A lane that was slow when it was calibrated gets the runs that fill its blocks, once a block showed it."""
    clock = FakeClock()
    sample(lanes(clock, lambda time: 0.6 if time < 100.5 else MS), clock, budget_s=2.0)
    first, second, *_ = blocks(clock.log)[1:]

    assert "run 1" in first
    assert "run 16" in second


def test_a_slow_moment_does_not_set_the_runs() -> None:
    """A lane that was three times slower for its calibration and first rounds ends with the runs that its twin has."""
    clock = FakeClock()
    slow, twin = lanes(clock, MS, MS)
    slow.cost_s = lambda _: 3 * MS if slow.begun <= 4 else MS
    found = sample([slow, twin], clock, budget_s=2.0)

    assert [lane.count for lane in found.lanes] == [20, 20]


def test_lanes_of_a_round_are_paired() -> None:
    """Drift that hits a whole round leaves the ratio exactly alone."""
    clock = FakeClock()
    begun = [0]

    def drift(time: float) -> float:
        return 1 + (begun[0] // 2) % 7

    slow, fast = lanes(clock, lambda time: 6 * MS * drift(time), lambda time: 3 * MS * drift(time))
    for lane in (slow, fast):
        lane.is_clean = lambda _: (begun.__setitem__(0, begun[0] + 1), True)[1]
    found = sample([slow, fast], clock, budget_s=4.0)
    ratio = found.ratio("lane 1")

    assert max(found.lanes[0].times_s) > 5 * min(found.lanes[0].times_s)
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((2, 2, 2))
    assert len(found.lanes[0].wall_s) == len(found.lanes[1].wall_s) == len(found.starts_s)


def compiles_in(*rounds: int) -> Callable[[FakeLane], bool]:
    """Return an `is_clean` that is False in these rounds. Block 1 is the calibration."""
    return lambda lane: lane.begun - 1 not in rounds


def test_a_block_with_a_compile_enters_no_statistic() -> None:
    """The second and fourth block compiled for a second: they are counted, and neither time nor ratio shows them."""
    clock = FakeClock()
    eager, compiled = lanes(clock, 2 * MS, MS)
    compiled.is_clean = compiles_in(2, 4)
    compiled.cost_s = lambda _: MS if compiled.begun - 1 not in (2, 4) else 1.0
    found = sample([eager, compiled], clock, budget_s=60.0)
    lane = found.lane("lane 1")
    ratio = found.ratio("lane 1")

    assert lane.thrown_out == 2
    assert [number for number, time in enumerate(lane.wall_s, 1) if time is None] == [2, 4]
    assert lane.times_s == pytest.approx([MS] * (len(lane.wall_s) - 2))
    assert found.lane("lane 0").times_s == pytest.approx([2 * MS] * len(lane.wall_s))
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((2, 2, 2))
    assert ratio.rounds == len(lane.wall_s) - 2


def test_a_lane_that_always_compiles_is_given_up() -> None:
    """After eight blocks thrown out and no clean one a lane is timed no more, and that is said; others go on."""
    clock = FakeClock()
    eager, compiled = lanes(clock, MS, MS)
    compiled.is_clean = lambda _: False
    found = sample([eager, compiled], clock, budget_s=2.0)

    assert compiled.begun == 1 + 8
    assert found.lane("lane 1").thrown_out == 8
    assert "8 blocks" in found.lane("lane 1").given_up
    assert found.lane("lane 1").times_s == ()
    assert found.ratio("lane 1") is None
    assert len(found.lane("lane 0").times_s) > 8


def test_a_lane_with_a_clean_block_is_not_given_up() -> None:
    """Eight thrown out after a clean one are counted, and the lane goes on."""
    clock = FakeClock()
    (lane,) = lanes(clock, MS)
    lane.is_clean = compiles_in(*range(2, 12))
    found = sample([lane], clock, budget_s=2.0).lane("lane 0")

    assert (found.thrown_out, found.given_up) == (10, "")
    assert len(found.times_s) == len(found.wall_s) - 10


def failing_in(number: int, error: BaseException) -> Callable[[FakeLane], None]:
    """Return an `in_block` that raises in that round."""

    def fail(lane: FakeLane) -> None:
        if lane.begun - 1 == number:
            raise error

    return fail


def test_a_lane_that_raises_is_dropped() -> None:
    """Its exception and its times until then are kept, it is switched off, and the other lanes go on."""
    clock = FakeClock()
    eager, compiled = lanes(clock, MS, MS)
    error = RuntimeError("out of memory")
    compiled.in_block = failing_in(3, error)
    found = sample([eager, compiled], clock, budget_s=2.0)
    lane = found.lane("lane 1")

    assert lane.error is error
    assert (compiled.begun, compiled.ended, compiled.on) == (4, 4, False)
    assert lane.times_s == pytest.approx([MS] * 2)
    assert set(lane.wall_s[2:]) == {None}
    assert lane.thrown_out == 0
    assert found.lane("lane 0").times_s == pytest.approx([MS] * len(found.starts_s))
    assert not found.interrupted


@pytest.mark.parametrize("part", ["begin_block", "end_block"])
def test_a_lane_that_cannot_be_switched_is_dropped(part: str) -> None:
    """An error in `begin_block` or `end_block` drops the lane as one in a run does, and `end_block` was called."""
    clock = FakeClock()
    eager, broken = lanes(clock, MS, MS)
    whole = getattr(broken, part)

    def raising() -> None:
        whole()
        raise ValueError("no")

    setattr(broken, part, raising)
    found = sample([eager, broken], clock, budget_s=1.0)

    assert repr(found.lane("lane 1").error) == "ValueError('no')"
    assert (broken.begun, broken.ended) == (1, 1)
    assert len(found.lane("lane 0").times_s) >= 3


def test_all_lanes_failing_ends_it() -> None:
    """When no lane is left, the sampling ends at once instead of waiting for its budget."""
    clock = FakeClock()
    (lane,) = lanes(clock, MS)
    lane.in_block = failing_in(1, ValueError("no"))
    found = sample([lane], clock, budget_s=1e9)

    assert lane.begun == 2
    assert found.lane("lane 0").wall_s == (None,)


class Big:
    """Stands for a tensor."""


def test_a_failed_lane_frees_its_locals() -> None:
    """The kept exception does not keep the tensors of the frames that it came through."""
    clock = FakeClock()
    eager, broken = lanes(clock, MS, MS)
    refs: list[weakref.ref[Big]] = []

    def fail(lane: FakeLane) -> None:
        big = Big()
        refs.append(weakref.ref(big))
        try:
            {}["first"]
        except KeyError as error:
            raise RuntimeError("out of memory") from error

    broken.in_block = fail
    found = sample([eager, broken], clock, budget_s=0.5)

    assert isinstance(found.lane("lane 1").error, RuntimeError)
    assert refs[0]() is None


def test_an_interrupt_keeps_what_was_measured() -> None:
    """Ctrl-C in a run: the lane is switched off, the rounds before are returned, and `interrupted` says so."""
    clock = FakeClock()
    eager, compiled = lanes(clock, MS, MS)
    compiled.in_block = failing_in(5, KeyboardInterrupt())
    found = sample([eager, compiled], clock, budget_s=1e9)

    assert found.interrupted
    assert (compiled.begun, compiled.ended) == (6, 6)
    assert compiled.on is eager.on is False
    assert found.lane("lane 1").times_s == pytest.approx([MS] * 4)
    assert found.lane("lane 1").error is None
    assert len(found.starts_s) == 5
    assert gc.isenabled()


def test_another_way_out_is_not_swallowed() -> None:
    """A SystemExit leaves the sampling as it is, but the lane is switched off and the collector put back."""
    clock = FakeClock()
    (lane,) = lanes(clock, MS)
    lane.in_block = failing_in(1, SystemExit(3))

    with pytest.raises(SystemExit):
        sample([lane], clock, budget_s=1.0)

    assert (lane.begun, lane.ended) == (2, 2)
    assert gc.isenabled()


def uneven(clock: FakeClock, seed: int = 0) -> list[FakeLane]:
    """Return two lanes whose times vary by half from block to block."""
    noise = random.Random(seed)  # noqa: S311 - noise is no secret
    return lanes(clock, *[lambda _: MS * (1 + noise.random())] * 2)


def test_the_budget_is_kept() -> None:
    """Noisy lanes are timed until the next round would not fit, switching included, and no longer."""
    clock = FakeClock()
    both = uneven(clock)
    for lane in both:
        lane.switching_s = 0.01
    found = sample(both, clock, budget_s=4.0)
    longest = max(end - start for start, end in zip(found.starts_s, [*found.starts_s[1:], 4.0], strict=True))

    assert not found.narrow
    assert 4.0 - 2 * longest < found.duration_s < 4.0 + longest


def test_switching_is_in_no_sample() -> None:
    """A second to put the state back counts to the budget, but the samples are the work's 1 ms."""
    clock = FakeClock()
    (lane,) = lanes(clock, MS)
    lane.switching_s = 1.0
    found = sample([lane], clock, budget_s=10.0)

    assert found.lane("lane 0").wall_s == pytest.approx([MS] * len(found.starts_s))
    assert found.duration_s == pytest.approx(lane.begun * 1.02, abs=0.05)
    assert found.duration_s <= 10.0


def test_it_ends_once_the_ratios_are_known() -> None:
    """Steady lanes need five batches of half a second, and not the whole budget."""
    clock = FakeClock()
    found = sample(lanes(clock, 2 * MS, MS), clock, budget_s=1000.0)
    ratio = found.ratio("lane 1")

    assert found.narrow
    assert 2.5 < found.duration_s < 3.5
    assert ratio is not None
    assert ratio.batches >= 5


def test_one_wide_ratio_keeps_all_lanes_going() -> None:
    """It ends only when every lane's interval is narrow, also if another's has long been so."""
    clock = FakeClock()
    noise = random.Random(1)  # noqa: S311 - noise is no secret
    wide = sample(lanes(clock, MS, MS, lambda _: MS * noise.uniform(0.2, 5)), clock, budget_s=6.0)

    assert not wide.narrow
    assert wide.duration_s > 5.5
    assert wide.ratio("lane 1").is_narrow(0.02)  # type: ignore[union-attr]


def orders(rng: random.Random | None) -> list[tuple[str, ...]]:
    """Return the lanes of each round, in the order they were run."""
    clock = FakeClock()
    sample(lanes(clock, MS, MS, MS), clock, budget_s=2.0, rng=rng)
    begun = [entry for entry in clock.log if entry.startswith("begin")][3:]
    return [tuple(begun[at : at + 3]) for at in range(0, len(begun), 3)]


def test_rounds_are_in_random_order() -> None:
    """Each round has each lane once, all six orders occur, and a seed gives the same ones again."""
    seeded = orders(random.Random(3))  # noqa: S311 - an order is no secret

    assert {tuple(sorted(order)) for order in seeded} == {("begin lane 0", "begin lane 1", "begin lane 2")}
    assert len(set(seeded)) == 6
    assert orders(random.Random(3)) == seeded  # noqa: S311 - an order is no secret
    assert orders(random.Random(4)) != seeded  # noqa: S311 - an order is no secret


def test_the_users_random_numbers_are_left_alone() -> None:
    """The order of the lanes draws nothing from the generator of the `random` module."""
    random.seed(5)
    before = random.getstate()
    orders(None)

    assert random.getstate() == before


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_in_blocks_and_put_back(enabled: bool) -> None:
    """No collection of garbage falls into a block, also if the work turns it on; afterwards it is as it was."""
    clock = FakeClock()
    (lane,) = lanes(clock, MS)
    seen: set[bool] = set()
    begin = lane.begin_block
    lane.begin_block = lambda: (begin(), seen.add(gc.isenabled()))[0]  # type: ignore[method-assign]
    lane.in_block = lambda _: gc.enable()
    (gc.enable if enabled else gc.disable)()
    sample([lane], clock, budget_s=0.5)

    assert seen == {False}
    assert gc.isenabled() is enabled


def test_progress_is_told_now_and_then() -> None:
    """Progress comes at most five times a second, with a growing share of the budget and the lane's name."""
    clock = FakeClock()
    told: list[tuple[float, float, str]] = []
    sample(uneven(clock), clock, budget_s=4.0, progress=lambda share, words: told.append((clock.now(), share, words)))
    times = [time for time, _, _ in told]
    shares = [share for _, share, _ in told]

    assert 10 <= len(told) <= 20
    assert all(later - earlier >= 0.2 - 1e-9 for earlier, later in pairwise(times))
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    assert all("lane" in words for _, _, words in told)


def test_one_lane_alone_is_timed() -> None:
    """With eager alone there is no ratio to wait for: five batches, and it ends."""
    clock = FakeClock()
    found = sample(lanes(clock, MS), clock, budget_s=1000.0)

    assert 2.5 < found.duration_s < 3.5


def test_a_clock_that_stands_still_ends() -> None:
    """Work that takes no time at all does not make calibration double its runs for ever."""
    clock = FakeClock()
    (lane,) = lanes(clock, 0.0)
    lane.switching_s = 0.1
    found = sample([lane], clock, budget_s=1.0)

    assert found.lane("lane 0").count <= 1 << 20


def test_an_unknown_lane_is_named() -> None:
    """Asking for a lane that was not timed says which ones were."""
    clock = FakeClock()
    found = sample(lanes(clock, MS), clock, budget_s=0.1)

    with pytest.raises(KeyError, match="no lane 'lane 7'; there are lane 0"):
        found.lane("lane 7")


def test_samples_are_values() -> None:
    """Samples can't be changed after they were taken."""
    with pytest.raises(AttributeError):
        Samples(()).interrupted = True  # type: ignore[misc]


class FakeEvent:
    """An event of a device that needs 3 ms between any two."""

    def __init__(self, device: torch.device, *, enable_timing: bool) -> None:
        assert device.type == "cuda"
        assert enable_timing

    def record(self, stream: Any) -> None:
        """Take the current stream of the first device only."""
        assert stream == "stream of cuda:1"

    def elapsed_time(self, other: FakeEvent) -> float:
        """Return milliseconds, as torch does."""
        assert other is not self
        return 3.0


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A torch.accelerator that has a CUDA device, and the list of the devices that were waited for."""
    waited: list[str] = []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: waited.append(str(device)))
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(torch, "Event", FakeEvent)
    return waited


def test_an_accelerator_is_waited_for_and_stamped(fake_cuda: list[str]) -> None:
    """Each accelerator device named is waited for once, and events are set on the first one's current stream."""
    clock = DeviceClock(["cuda:1", "cpu", torch.device("cuda:1"), "cuda"])
    clock.synchronize()

    assert fake_cuda == ["cuda:1", "cuda"]
    assert clock.elapsed_s(clock.event(), clock.event()) == pytest.approx(3 * MS)


def test_work_on_the_cpu_leaves_the_accelerator_alone(fake_cuda: list[str]) -> None:
    """A clock for the CPU neither waits for the GPU nor sets events on it, so it is not initialised."""
    clock = DeviceClock(["cpu"])
    clock.synchronize()

    assert fake_cuda == []
    assert clock.event() is None
    assert clock.elapsed_s(None, None) is None


@pytest.mark.usefixtures("fake_cuda")
def test_a_device_without_timing_events_has_wall_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where events can't be timed there are none, and nothing is raised."""

    def refuse(device: Any, *, enable_timing: bool) -> None:
        raise RuntimeError("this device has no timing events")

    monkeypatch.setattr(torch, "Event", refuse)
    clock = DeviceClock(["cuda"])

    assert clock.event() is None
    assert clock.elapsed_s(clock.event(), clock.event()) is None


def test_the_real_clock_goes_forward() -> None:
    """`now` is in seconds and never goes back."""
    clock = DeviceClock(["cpu"])
    times = [clock.now() for _ in range(100)]

    assert times == sorted(times)
    assert clock.now() - times[0] < 60
