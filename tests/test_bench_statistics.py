"""The figures of a bench agree with hand computation and tables, and their intervals hold on recorded noise."""

from __future__ import annotations

import gc
import json
import math
import random
from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from compile_magic.measure.timing.sampler import sample
from compile_magic.measure.timing.samples import Samples
from compile_magic.measure.timing.statistics import STUDENT_T
from compile_magic.measure.timing.statistics import Ratio
from compile_magic.measure.timing.statistics import break_even
from compile_magic.measure.timing.statistics import iqr
from compile_magic.measure.timing.statistics import job
from compile_magic.measure.timing.statistics import median
from compile_magic.measure.timing.statistics import no_difference
from compile_magic.measure.timing.statistics import ratio
from compile_magic.measure.timing.statistics import sign_interval
from compile_magic.measure.timing.statistics import spread

NOISE = Path(__file__).parent / "traces" / "noise"
# What %%compile_bench spends by default: 3 s for eager and 3 s for one variant, the twin of eager included.
BUDGET_S = 6.0
WINDOWS = 100


@pytest.mark.parametrize(("values", "expected"), [([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 3.0, 2.0], 2.5), ([7.0], 7.0)])
def test_median(values: list[float], expected: float) -> None:
    """The median is the middle value, or the mean of the two in the middle."""
    assert median(values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    # Type 7 puts the quartiles at positions 1 + (n - 1) / 4 and 1 + 3 (n - 1) / 4: 1.75 and 3.25, 2 and 4.
    [([4.0, 1.0, 3.0, 2.0], 1.5), ([10.0, 20.0, 30.0, 40.0, 50.0], 20.0), ([7.0], 0.0), ([1.0, 2.0], 0.5)],
)
def test_iqr(values: list[float], expected: float) -> None:
    """The quartiles are interpolated as R and NumPy do by default; one value has no spread."""
    assert iqr(values) == pytest.approx(expected)


def student_probability(t: float, degrees: int, steps: int = 20_000) -> float:
    """Return the chance that Student's t is at most `t`, by Simpson's rule over its density from 0."""
    scale = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
    width = t / steps
    weights = (1 if at in (0, steps) else 4 if at % 2 else 2 for at in range(steps + 1))
    heights = ((1 + (at * width) ** 2 / degrees) ** (-(degrees + 1) / 2) for at in range(steps + 1))
    return 0.5 + scale * width / 3 * sum(weight * height for weight, height in zip(weights, heights, strict=True))


@pytest.mark.parametrize("degrees", range(1, 8))
def test_student_table(degrees: int) -> None:
    """Each tabled quantile leaves 2.5 % above it, by integrating the density."""
    assert student_probability(STUDENT_T[degrees], degrees) == pytest.approx(0.975, abs=2e-5)


@pytest.mark.parametrize(
    ("count", "first"),
    # Which order statistic is the lower end, from the table of 95 % intervals of the median by the sign test in
    # Conover, Practical Nonparametric Statistics: (1, 6), (1, 8), (2, 8), (2, 9), (6, 15), (8, 18) and (40, 61).
    [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (25, 8), (100, 40)],
)
def test_sign_interval_by_table(count: int, first: int) -> None:
    """The interval of the median is between the tabled order statistics, whatever the order of the values."""
    values = [float(value) for value in range(1, count + 1)]
    random.Random(count).shuffle(values)  # noqa: S311 - an order is no secret

    assert sign_interval(values) == (first, count + 1 - first)


@pytest.mark.parametrize("count", [6, 7, 17, 60, 333, 2000])
def test_sign_interval_is_the_narrowest(count: int) -> None:
    """It holds the median with at least 95 %, and the next narrower one does not, by exact binomial sums."""
    low, _ = sign_interval([float(value) for value in range(count)])
    below = [sum(math.comb(count, k) for k in range(int(low) + more)) for more in (1, 2)]
    wide, narrow = (1 - 2 * Fraction(some, 2**count) for some in below)

    assert narrow < Fraction(95, 100) <= wide


def rounds(logs: list[float], every_s: float) -> tuple[list[float], list[float], list[float]]:
    """Return times of a reference and of another of 1 ms, with these logarithms of their ratios, and the starts."""
    return [1e-3 * math.exp(log) for log in logs], [1e-3] * len(logs), [every_s * at for at in range(len(logs))]


def test_ratio_by_batches() -> None:
    """Forty rounds in five steps: the interval is t(4) s sqrt(1/5 + 9/16), s the standard deviation of the steps."""
    steps = [0.00, 0.04, -0.04, 0.02, -0.02]
    found = ratio(*rounds([math.log(2) + step for step in steps for _ in range(8)], 0.065))
    # s^2 = (0 + 16 + 16 + 4 + 4) e-4 / 4 = 1e-3
    half = 2.776 * math.sqrt(1e-3) * math.sqrt(1 / 5 + 9 / 16)

    assert found is not None
    assert found.value == pytest.approx(2)
    assert math.log(found.low / 2) == pytest.approx(-half)
    assert math.log(found.high / 2) == pytest.approx(half)
    assert (found.rounds, found.batches) == (40, 5)


def test_ratio_by_the_sign_test() -> None:
    """Where the batches agree, the order statistics are wider: of ten rounds the second and the ninth."""
    logs = [-0.05, 0.05, -0.04, 0.04, -0.03, 0.03, -0.02, 0.02, -0.01, 0.01]
    found = ratio(*rounds(logs, 0.26))

    assert found is not None
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((-0.04, 0.04))
    assert found.value == pytest.approx(1)


def test_ratio_of_three_rounds() -> None:
    """With three rounds each is a batch: t(2) s sqrt(1/3 + 9/16), and no claim to enough batches."""
    found = ratio(*rounds([-0.01, 0.0, 0.01], 4.0))
    half = 4.303 * 0.01 * math.sqrt(1 / 3 + 9 / 16)

    assert found is not None
    assert math.log(found.high) == pytest.approx(half)
    assert math.log(found.low) == pytest.approx(-half)
    assert found.batches == 0
    assert not found.is_narrow(1.0)


@pytest.mark.parametrize(("every_s", "expected"), [(0.01, 0), (0.062, 0), (0.063, 5), (0.08, 6), (0.101, 8), (9.0, 8)])
def test_batches_are_half_a_second(every_s: float, expected: int) -> None:
    """Forty rounds make five to eight batches of at least half a second, none where that takes more time."""
    found = ratio(*rounds([0.0] * 40, every_s))

    assert found is not None
    assert found.batches == expected


def test_rounds_without_both_are_left_out() -> None:
    """A round in which either block was thrown out is in no ratio, whatever the other one's time."""
    found = ratio([2.0, None, 2.0, 99.0, 2.0], [1.0, 50.0, 1.0, None, 1.0], [0.0, 1.0, 2.0, 3.0, 4.0])

    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((2, 2, 2))
    assert found.rounds == 3


@pytest.mark.parametrize("other", [[None, None, None], [1.0, None, None]])
def test_one_round_is_no_ratio(other: list[float | None]) -> None:
    """Fewer than two rounds with both give no ratio."""
    assert ratio([1.0, 1.0, 1.0], other, [0.0, 1.0, 2.0]) is None


def test_disturbed_blocks_do_not_move_the_ratio() -> None:
    """Three of forty blocks a hundred times too long leave the ratio and its interval where they were."""
    logs = [0.001 * (-1) ** at for at in range(40)]
    quiet = ratio(*rounds(logs, 0.1))
    for at in (3, 17, 31):
        logs[at] = math.log(100)
    disturbed = ratio(*rounds(logs, 0.1))

    assert quiet is not None
    assert disturbed is not None
    assert disturbed.value == pytest.approx(quiet.value, abs=0.003)
    assert disturbed.width < quiet.width + 0.01


def test_exchanging_the_two_inverts_the_ratio() -> None:
    """The ratio of the other to the reference is the inverse, with the inverse interval."""
    noise = random.Random(1)  # noqa: S311 - noise is no secret
    reference, other, starts = rounds([noise.gauss(0.5, 0.1) for _ in range(80)], 0.05)
    there, back = ratio(reference, other, starts), ratio(other, reference, starts)

    assert there is not None
    assert back is not None
    assert (1 / back.value, 1 / back.high, 1 / back.low) == pytest.approx((there.value, there.low, there.high))


def test_narrow_needs_batches() -> None:
    """An interval is narrow if it is below that share of the ratio and rests on five batches."""
    assert Ratio(2.0, 1.99, 2.01, batches=5).width == pytest.approx(0.01)
    assert Ratio(2.0, 1.99, 2.01, batches=5).is_narrow(0.011)
    assert not Ratio(2.0, 1.99, 2.01, batches=5).is_narrow(0.009)
    assert not Ratio(2.0, 1.99, 2.01, batches=0).is_narrow(0.011)


def test_break_even() -> None:
    """Of 2 s a run, 2.0x saves 1 s, 2.5x 1.2 s and 1.6x 0.75 s: 12 s are paid back after 12 (10 to 16) runs."""
    assert break_even(12.0, 2.0, Ratio(2.0, 1.6, 2.5)) == pytest.approx((12, 10, 16))


@pytest.mark.parametrize("low", [1.0, 0.9])
def test_break_even_may_be_never(low: float) -> None:
    """Where the speed-up may be 1 or less, the number of runs has no upper end."""
    found = break_even(12.0, 2.0, Ratio(2.0, low, 2.5))

    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((12, 10, math.inf))


@pytest.mark.parametrize("value", [1.0, 0.84])
def test_slower_never_breaks_even(value: float) -> None:
    """What is not faster than eager never pays back."""
    assert break_even(12.0, 2.0, Ratio(value, 0.5, 2.0)) is None


@pytest.mark.parametrize(("runs", "expected"), [(0, 1.0), (1, 11.0), (2, 13.0), (3, 14.0), (4, 14.5), (103, 64.0)])
def test_job(runs: int, expected: float) -> None:
    """A job of N runs takes the extra second, 10, 2 and 1 s for the first three, and half a second for each other."""
    assert job(1.0, (10.0, 2.0, 1.0), 0.5, runs) == expected


@pytest.mark.parametrize(
    ("found", "floor", "expected"),
    [
        (Ratio(1.02, 0.97, 1.06), 0.0, True),
        (Ratio(1.02, 1.01, 1.03), 0.006, False),
        (Ratio(1.02, 1.01, 1.03), 0.03, True),
        (Ratio(0.98, 0.97, 0.99), 0.03, True),
        (Ratio(0.98, 0.97, 0.99), 0.006, False),
        (Ratio(1.84, 1.81, 1.88), 0.03, False),
    ],
)
def test_no_difference(found: Ratio, floor: float, expected: bool) -> None:
    """There is no difference if the interval holds 1, or if an eager twin was further from eager."""
    assert no_difference(found, floor) is expected


@pytest.mark.parametrize("value", [1.006, 0.994])
def test_spread_of_the_twin(value: float) -> None:
    """The twin's spread is its distance from 1, to either side."""
    assert spread(Ratio(value, 0.9, 1.1)) == pytest.approx(0.006)


def test_white_noise_is_covered() -> None:
    """Of 200 measurements with independent noise of 5 % at least 95 % hold the true ratio."""
    noise = random.Random(7)  # noqa: S311 - noise is no secret
    found = [ratio(*rounds([noise.gauss(0, 0.05) for _ in range(100)], 0.06)) for _ in range(200)]

    assert sum(one is not None and one.low <= 1 <= one.high for one in found) >= 190


class Replay:
    """A recording: plays the rounds from one on, as a clock and as lanes whose runs take what they took."""

    def __init__(self, recording: dict[str, Any]) -> None:
        self.starts_s = [start / 1000 for start in accumulate(recording["after_ms"])]
        self.lanes = {
            name: [None if time is None else time * recording["unit_s"] for time in times]
            for name, times in recording["lanes"].items()
        }
        self.time = 0.0
        self.first = self.begun = 0

    def sampled(self, begin_s: float) -> Samples:
        """Return what the sampler makes of the rounds from that time on."""
        self.first = bisect_left(self.starts_s, begin_s)
        self.time = self.starts_s[self.first]
        self.begun = 0
        return sample([ReplayedLane(self, name) for name in self.lanes], self, budget_s=BUDGET_S)

    def begin(self) -> None:
        """Go on to the round's start if that is still to come. The first block of each lane is its calibration."""
        self.begun += 1
        self.time = max(self.time, self.starts_s[self.round])

    @property
    def round(self) -> int:
        """Return which round of the recording is played."""
        return self.first + max(0, (self.begun - 1) // len(self.lanes) - 1)

    def synchronize(self) -> None:
        """Nothing is to be waited for."""

    def now(self) -> float:
        """Return the recording's time."""
        return self.time

    def event(self) -> None:
        """There are no events in a recording."""

    def elapsed_s(self, start: None, end: None) -> None:
        """There are no events in a recording."""


class ReplayedLane:
    """A lane of a recording."""

    paired = False

    def __init__(self, replay: Replay, name: str) -> None:
        self.name = name
        self.replay = replay
        self.times_s = replay.lanes[name]

    def begin_block(self) -> None:
        """Go on in the recording."""
        self.replay.begin()

    def run(self, count: int) -> None:
        """Let the clock go on by what so many runs took in this round."""
        self.replay.time += count * (self.times_s[self.replay.round] or 0.0)

    def restart(self) -> None:
        """Nothing is put back in a recording."""

    def end_block(self) -> bool:
        """Tell whether the recording has this block."""
        return self.times_s[self.replay.round] is not None


def recordings() -> list[Any]:
    """Return every recording with each of its lanes beside the first."""
    found = []
    for path in sorted(NOISE.glob("noise_*.json")):
        for recording in json.loads(path.read_text())["recordings"]:
            _, *others = recording["lanes"]
            found += [pytest.param(recording, name, id=f"{path.stem}-{recording['work']}-{name}") for name in others]
    return found


def long_run_ratio(replay: Replay, name: str) -> float:
    """Return the median ratio over the whole recording."""
    first, *_ = replay.lanes.values()
    return median([a / b for a, b in zip(first, replay.lanes[name], strict=True) if a is not None and b is not None])


@pytest.mark.parametrize(("recording", "name"), recordings())
def test_intervals_hold_on_recorded_noise(
    recording: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 measurements at the default budget within a recording, at least 90 intervals hold its long-run ratio."""
    monkeypatch.setattr(gc, "collect", lambda *_: 0)
    replay = Replay(recording)
    truth = long_run_ratio(replay, name)
    last_s = replay.starts_s[-1] - BUDGET_S - 1
    found = [replay.sampled(last_s * at / (WINDOWS - 1)).ratio(name) for at in range(WINDOWS)]
    held = sum(one is not None and one.low <= truth <= one.high for one in found)

    assert held >= 90


def test_recordings_say_where_they_are_from() -> None:
    """Each file of noise names its torch, device and date, lasts minutes, and all of them together stay small."""
    paths = list(NOISE.glob("noise_*.json"))
    made = [json.loads(path.read_text()) for path in paths]

    assert made
    assert all(one["torch"] and one["device"] and one["date"] for one in made)
    assert all(sum(recording["after_ms"]) > 180_000 for one in made for recording in one["recordings"])
    assert sum(path.stat().st_size for path in paths) < 300_000
