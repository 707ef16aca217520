"""Figures of a measurement, in plain Python: medians, the interval of a ratio, and after how many runs it pays."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

# Batches that the interval of a ratio is made of, and the least seconds of each (see `ratio`).
BATCH_S = 0.5
LEAST_BATCHES = 5
MOST_BATCHES = 8

# 97.5 % quantiles of Student's t by degrees of freedom: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2,
# "Critical Values of the Student's t Distribution", column 0.975.
STUDENT_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}

# The part of the batches' standard deviation that is taken for drift, which more batches do not average out.
DRIFT_SHARE = 0.75

# One in so many: the chance that the true value lies on one given side of a 95 % interval.
_TAIL = 40
_LEAST_ROUNDS = 2

Times = Sequence[float | None]


@dataclass(frozen=True)
class Ratio:
    """The reference's time divided by another's: above 1 the other is faster. `low` and `high` are a 95 % interval.

    `rounds` is how many rounds held both, `batches` how many batches of at least half a second they made, 0 where
    there was no time for five.
    """

    value: float
    low: float
    high: float
    rounds: int = 0
    batches: int = 0

    @property
    def width(self) -> float:
        """Return the width of the interval as a share of the ratio."""
        return (self.high - self.low) / self.value

    def is_narrow(self, width: float) -> bool:
        """Tell whether the interval is narrower than that share of the ratio, and rests on enough batches."""
        return self.batches >= LEAST_BATCHES and self.width < width


class BreakEven(NamedTuple):
    """After how many runs something is paid back, with a 95 % interval. `high` is infinite if it may never be."""

    value: float
    low: float
    high: float


class _Round(NamedTuple):
    start_s: float
    log_ratio: float


def median(times: Sequence[float]) -> float:
    """Return the middle value, the mean of the two in the middle of an even number.

    Raises:
        statistics.StatisticsError: there are no values.
    """
    return statistics.median(times)


def iqr(times: Sequence[float]) -> float:
    """Return the distance of the quartiles, interpolated between values (R's type 7, NumPy's default); 0 of one value.

    Source: Hyndman and Fan, Sample Quantiles in Statistical Packages, The American Statistician 50 (1996).

    Raises:
        statistics.StatisticsError: there are no values.
    """
    if len(times) == 1:
        return 0.0
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return high - low


def ratio(reference: Times, other: Times, starts_s: Sequence[float]) -> Ratio | None:
    """Return the median over rounds of the reference's time by the other's, with a 95 % interval.

    The median stands the blocks that something else disturbed. The interval is that of the sign test
    (`sign_interval`), or as wide as the scatter of consecutive batches of rounds asks for (`batch_half_width`), five
    to eight of at least half a second each, whichever reaches further at its end. The first alone takes rounds for
    independent, but a ratio drifts with the load of the machine: it then covers less the longer one measures (0.78,
    0.71 and 0.25 instead of 0.95 for 40, 160 and 640 pairs, measured on a loaded CPU). Where there is no time for five
    such batches they are shorter, with fewer than five rounds each round is one, and `batches` is 0.

    What no interval can hold is a change that lasts longer than the measurement, or that comes with a new process: in
    a recording whose ratio went from 0.78 to 0.71 for half a minute and back, 66 of 100 intervals held its median.

    Args:
        reference: its seconds for one run in each round, None where there is no sample.
        other: the same of the other.
        starts_s: when each round began, in seconds.

    Returns:
        The ratio, or None if fewer than two rounds hold both.

    Raises:
        ValueError: the arguments differ in length.
    """
    rounds = _rounds(reference, other, starts_s)
    if len(rounds) < _LEAST_ROUNDS:
        return None
    logs = [one.log_ratio for one in rounds]
    middle = median(logs)
    count = _batch_count(rounds)
    half = batch_half_width([median(batch) for batch in _split(logs, max(count, LEAST_BATCHES))])
    low, high = sign_interval(logs)
    return Ratio(
        value=math.exp(middle),
        low=math.exp(min(low, middle - half)),
        high=math.exp(max(high, middle + half)),
        rounds=len(rounds),
        batches=count,
    )


def sign_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median that the sign test gives: order statistics, no distribution assumed.

    It is the smallest and the largest value that remain when k are left out at each end, k the largest number for
    which a binomial B(n, 1/2) is at most k with a chance of 2.5 % or less. Of fewer than nine values none can be left
    out, and under six the ends hold the median only with a chance of 1 - 2 ** (1 - n).

    Source: Conover, Practical Nonparametric Statistics, 3rd edition (1999), 3.2.

    Raises:
        IndexError: there are no values.
    """
    ordered = sorted(values)
    out = _left_out(len(ordered))
    return ordered[out], ordered[-1 - out]


def batch_half_width(medians: Sequence[float]) -> float:
    """Return how far the 95 % interval reaches to either side of the ratio's logarithm, by the batches' medians.

    With k batches of standard deviation s it is t * s * sqrt(1 / k + 9 / 16), t being Student's quantile for k - 1
    degrees of freedom. The first term is the usual interval of a mean from batch means (Law, Simulation Modeling and
    Analysis, 5th edition (2015), 9.5.3), which holds for batches that are independent. They are not: the scatter that
    comes from drift does not shrink with the number of batches, since the long run drifts beyond them. The second
    term takes three quarters of s for such drift. It was set by recorded noise, 100 windows in each recording of
    about three minutes: the sign test alone held the long-run ratio in 60 to 100 of them and the first term in 85 to
    100 on a loaded CPU, where half of s as drift held it in 96 or more; on an H200, in a launch-bound MLP against its
    compiled form, half held it in 84 and three quarters in 93.

    Raises:
        statistics.StatisticsError: there are fewer than two.
    """
    count = len(medians)
    return STUDENT_T[count - 1] * statistics.stdev(medians) * math.sqrt(1 / count + DRIFT_SHARE**2)


def spread(twin: Ratio) -> float:
    """Return how far two timings of the same work were apart, as a share: the floor of what can be told apart."""
    return abs(twin.value - 1)


def no_difference(found: Ratio, spread: float) -> bool:
    """Tell whether a ratio may be 1: its interval holds 1, or it is nearer to 1 than an eager twin was (`spread`)."""
    return found.low <= 1 <= found.high or abs(found.value - 1) < spread


def break_even(extra_s: float, eager_s: float, speedup: Ratio) -> BreakEven | None:
    """Return after how many runs the extra seconds of the first ones are paid back; None means never.

    A run that takes `eager_s` in eager takes `eager_s / speedup` compiled, so each saves `eager_s * (1 - 1 / speedup)`.
    The ends of the interval are those of the speed-up. Where that reaches down to 1 or below, it may never be paid
    back: `high` is `math.inf`, which JSON has no number for. Store the interval without its upper end then.
    """
    if speedup.value <= 1:
        return None
    saved = [eager_s * (1 - 1 / one) for one in (speedup.value, speedup.high, speedup.low)]
    return BreakEven(*(extra_s / one if one > 0 else math.inf for one in saved))


def job(extra_s: float, first_s: Sequence[float], steady_s: float, runs: int) -> float:
    """Return the seconds that a job of so many runs takes.

    Args:
        extra_s: what is paid before the first run, 0 if that is part of the first run's time.
        first_s: the first runs, each with its own time.
        steady_s: each run after these.
        runs: how many in all; with fewer than there are first runs, only these count.
    """
    return extra_s + sum(first_s[:runs]) + max(0, runs - len(first_s)) * steady_s


def _rounds(reference: Times, other: Times, starts_s: Sequence[float]) -> list[_Round]:
    """Return the rounds in which both were timed."""
    rounds = zip(starts_s, reference, other, strict=True)
    return [_Round(start, math.log(first / second)) for start, first, second in rounds if first and second]


def _batch_count(rounds: Sequence[_Round]) -> int:
    """Return how many batches of at least `BATCH_S` the rounds make, 0 if fewer than five."""
    lasted = (rounds[-1].start_s - rounds[0].start_s) * len(rounds) / (len(rounds) - 1)
    count = min(int(lasted / BATCH_S), MOST_BATCHES, len(rounds))
    return count if count >= LEAST_BATCHES else 0


def _split(values: Sequence[float], parts: int) -> list[Sequence[float]]:
    """Return consecutive parts of about the same length, fewer if there are fewer values."""
    parts = min(parts, len(values))
    ends = [round(len(values) * part / parts) for part in range(parts + 1)]
    return [values[start:end] for start, end in pairwise(ends)]


@cache
def _left_out(count: int) -> int:
    """Return how many values are left out at each end. Whole numbers, as 2 ** count outgrows a float."""
    below = 0
    for out in range(count):
        below += math.comb(count, out)
        if below * _TAIL > 2**count:
            return max(0, out - 1)
    return 0
