"""What a bench says of one variant: faster, slower or no difference, and what a job of many runs takes with it."""

from __future__ import annotations

import math

from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Interval
from compile_magic.bench_model import Variant

FASTER, SLOWER, NONE, UNSURE, UNKNOWN = "faster", "slower", "no difference", "can't tell", ""
# An interval that holds 1 and whose ends are further apart than this, as a ratio, tells nothing.
WIDE = 1.5
# A speed-up nearer to 1 than this is no reason to compile, however well it is known.
LEAST = 0.01
# Both ends of an interval.
ENDS = 2


def eager(report: BenchReport) -> Variant | None:
    """Return the reference, which is the first variant."""
    return report.variants[0] if report.variants else None


def compiled(report: BenchReport) -> tuple[Variant, ...]:
    """Return all variants but the reference."""
    return report.variants[1:]


def timed(report: BenchReport) -> list[Variant]:
    """Return the compiled variants that have a speed-up."""
    return [one for one in compiled(report) if known(one.speedup) and not one.error]


def usable(report: BenchReport) -> list[Variant]:
    """Return the timed variants that don't give other results than eager."""
    return [one for one in timed(report) if one.matches_eager is not False]


def sure(report: BenchReport) -> list[Variant]:
    """Return the usable variants of which it can be told whether they are faster."""
    return [one for one in usable(report) if verdict(one, report) != UNSURE]


def known(value: float | None) -> bool:
    """Return whether there is a figure."""
    return value is not None and not math.isnan(value)


def ends(interval: Interval | None) -> tuple[float, float] | None:
    """Return the low and the high end of an interval, or None if it isn't one."""
    if interval is None or len(interval) != ENDS or any(math.isnan(end) for end in interval):
        return None
    return interval[0], interval[1]


def verdict(one: Variant, report: BenchReport) -> str:
    """Return FASTER, SLOWER, NONE, UNSURE or UNKNOWN.

    It is no difference if the interval of the speed-up holds 1, or if the speed-up is nearer to 1 than two eager
    timings of the same thing were to each other, or than one per cent.
    """
    if one.speedup is None or math.isnan(one.speedup) or one.error:
        return UNKNOWN
    low, high = ends(one.speedup_interval) or (one.speedup, one.speedup)
    if low <= 1 <= high and high > WIDE * low:
        return UNSURE
    # An interval that only just misses 1 is read as one that holds it.
    if low <= 1 + LEAST / 2 and high >= 1 - LEAST / 2:
        return NONE
    if abs(one.speedup - 1) < max(report.eager_spread or 0.0, LEAST):
        return NONE
    return FASTER if low > 1 else SLOWER


def best(report: BenchReport) -> Variant | None:
    """Return the fastest of the variants that are faster than eager, one with eager's results if there is one."""
    faster = [one for one in timed(report) if verdict(one, report) == FASTER]
    right = [one for one in faster if one.matches_eager is not False]
    return max(right or faster, key=lambda one: one.speedup or 0.0, default=None)


def never_steady(one: Variant) -> bool:
    """Return whether something was compiled in every block, so that nothing is left to take a figure from."""
    return one.thrown_out > 0 and not one.samples_s and one.median_s is None


def job(one: Variant, runs: int) -> float | None:
    """Return the seconds of a job of that many runs, the first of which compile, or None if they are not known."""
    if one.median_s is None:
        return None
    firsts = (one.first_s, one.second_s, one.third_s)
    alone = [took for took in firsts[:runs] if took is not None]
    if runs <= len(firsts) and len(alone) == runs:
        return sum(alone)
    return None if one.compile_s is None else one.compile_s + runs * one.median_s


def eager_job(report: BenchReport, runs: int) -> float | None:
    """Return the seconds of a job of that many runs in eager."""
    reference = eager(report)
    return None if reference is None or reference.median_s is None else runs * reference.median_s


def is_a_loss(report: BenchReport) -> bool:
    """Return whether the job that was asked about takes longer with every variant than in eager."""
    plain = eager_job(report, report.job_runs) if report.job_runs else None
    took = [job(one, report.job_runs) for one in sure(report)] if report.job_runs else []
    known_ones = [one for one in took if one is not None]
    return plain is not None and bool(known_ones) and min(known_ones) >= plain
