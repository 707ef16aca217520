"""The first lines of a bench: is compiling this worth it, and what is wrong with the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Variant
from compile_magic.show.bench_verdict import NONE
from compile_magic.show.bench_verdict import SLOWER
from compile_magic.show.bench_verdict import UNSURE
from compile_magic.show.bench_verdict import best
from compile_magic.show.bench_verdict import compiled
from compile_magic.show.bench_verdict import eager
from compile_magic.show.bench_verdict import ends
from compile_magic.show.bench_verdict import is_a_loss
from compile_magic.show.bench_verdict import never_steady
from compile_magic.show.bench_verdict import timed
from compile_magic.show.bench_verdict import verdict
from compile_magic.show.bench_words import counts
from compile_magic.show.bench_words import difference
from compile_magic.show.bench_words import duration
from compile_magic.show.bench_words import percent
from compile_magic.show.bench_words import ratio
from compile_magic.show.bench_words import runs
from compile_magic.show.blocks import Alarm
from compile_magic.show.blocks import Alarms
from compile_magic.show.blocks import Summary
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import named
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten

MOST_NAMES = 3
# An interval whose ends are further apart than this, as a ratio, isn't worth its figures.
HOPELESS = 10
MOST_OF_A_NAME = 28
MOST_OF_A_REASON = 220
MOST_OF_AN_ERROR = 480


def name_of(one: Variant) -> str:
    """Return a variant's name at a length that a column has room for."""
    return shorten(one.name, MOST_OF_A_NAME) or "unnamed"


def summary(report: BenchReport) -> Summary:
    """Return whether compiling is worth it, for which callables, and how long the answer took."""
    failed = [one.name for one in report.checks if not one.passed]
    parts = (
        _answer(report),
        _pays(report),
        f"{counted(len(failed), 'check')} failed" if failed else "",
        _targets(report),
        _took(report),
    )
    return Summary(f"compile_bench: {' · '.join(filter(None, parts))}", _details(report), _tone(report))


def _took(report: BenchReport) -> str:
    took = duration(report.duration_s, 2) if report.duration_s else ""
    return f"interrupted{f' after {took}' if took else ''}" if report.interrupted else took


def _answer(report: BenchReport) -> str:
    found = timed(report)
    if not found:
        reference = eager(report)
        what = "nothing" if reference is None or reference.median_s is None else "no compiled variant"
        return f"{what} was timed{_why_nothing(report)}"
    top = best(report)
    told = [found[0]] if top is None or top is found[0] else [found[0], top]
    alone = len(compiled(report)) == 1
    words = ", ".join(_told(one, report, first=one is told[0], alone=alone) for one in told)
    rest = len(found) - len(told)
    none = ", none of the others is shown to be faster" if rest and top is None else ""
    first = compiled(report)[0]
    missing = f"{name_of(first)} {_why_not(first, brief=True)}, " if _why_not(first) else ""
    return missing + words + none


def _why_nothing(report: BenchReport) -> str:
    reasons = [report.error or "", *(f"{name_of(one)} {_why_not(one)}" for one in compiled(report) if _why_not(one))]
    known_ones = [reason for reason in (*reasons, *report.notes) if reason]
    why = shorten(known_ones[0], MOST_OF_A_REASON) if known_ones else ""
    return f": {why}" if why else ""


def _why_not(one: Variant, *, brief: bool = False) -> str:
    if one.error:
        return "has no times" if brief else f"has no times, {one.error}"
    return "compiles in every run" if never_steady(one) else ""


def _told(one: Variant, report: BenchReport, *, first: bool, alone: bool) -> str:
    """Return the verdict on one variant; a second one is told more briefly."""
    name, found = name_of(one), verdict(one, report)
    speedup, both = ratio(one.speedup or 0.0), ends(one.speedup_interval)
    between = _interval(both)
    wrong = ", but gives other results" if one.matches_eager is False else ""
    if found == UNSURE:
        what = "can't tell" if alone else f"can't tell about {name}"
        return f"{what}{_why_unsure(both, speedup, between)}{wrong}"
    if found == NONE:
        what = "no difference" if alone else f"{name} makes no difference"
        return f"{what}: {speedup}x{_why_none(one, report, between)}{wrong}"
    if found == SLOWER:
        return f"{name} is slower here ({between or speedup}x){wrong}"
    faster = " faster" if first else ""
    return f"{name} is {speedup}x{faster}{f' ({between})' if both else ''}{wrong}"


def _interval(both: tuple[float, float] | None) -> str:
    if both is None:
        return ""
    low, high = map(ratio, both)
    return low if low == high else f"{low} to {high}"


def _why_unsure(both: tuple[float, float] | None, speedup: str, between: str) -> str:
    if both and both[1] > HOPELESS * both[0]:
        return ", the machine is too noisy now: make it quiet, or give a larger --budget"
    return f": {speedup}x, 95 % interval {between} (a larger --budget or a quieter machine narrows it)"


def _why_none(one: Variant, report: BenchReport, between: str) -> str:
    both = ends(one.speedup_interval)
    if both and both[0] <= 1 <= both[1]:
        return f", 95 % interval {between}"
    return f", and two eager timings are {percent(100 * report.eager_spread)} apart" if report.eager_spread else ""


def _pays(report: BenchReport) -> str:
    top = best(report)
    if report.job_runs and is_a_loss(report):
        return f"a job of {runs(report.job_runs)} loses by compiling"
    after = None if top is None or top.matches_eager is False else top.break_even_calls
    return f"pays back after {counts(after)} runs" if after is not None and math.isfinite(after) else ""


def _targets(report: BenchReport) -> str:
    if report.mode == "cell":
        return "the cell as one function"
    return listed([shorten(one.name, 60) for one in report.targets if one.how == "compiled"], MOST_NAMES)


def _details(report: BenchReport) -> tuple[str, ...]:
    torch = f"torch {report.torch_version}" if report.torch_version else ""
    where = ", ".join(filter(None, (shorten(report.device, 80), torch)))
    words = sentence(shorten(report.roofline.words, 320)) if report.roofline is not None else ""
    return tuple(filter(None, (where, words)))


def _tone(report: BenchReport) -> str:
    top = best(report)
    if report.error or not timed(report) or any(one.matches_eager is False for one in compiled(report)):
        return "bad"
    doubts = report.interrupted or is_a_loss(report) or not all(one.passed for one in report.checks)
    return "warn" if top is None or doubts else "good"


def alarms(report: BenchReport) -> Alarms | None:
    """Return what makes the figures worthless or less than they seem, or None."""
    items = tuple(_all(report))
    return Alarms(items, "_compile_report.variants") if items else None


def _all(report: BenchReport) -> Iterator[Alarm]:
    if report.error and timed(report):
        yield Alarm(sentence(f"It ended with an error: {shorten(report.error, MOST_OF_AN_ERROR)}"))
    if report.interrupted:
        after = f" after {duration(report.duration_s, 2)}" if report.duration_s else ""
        yield Alarm(f"Interrupted{after}: the figures are of what was measured till then, so the intervals are wide.")
    for one in compiled(report):
        if one.matches_eager is False:
            yield _differs(one, eager(report))
        if never_steady(one):
            yield _always_compiles(one)


def _differs(one: Variant, reference: Variant | None) -> Alarm:
    why = shorten(one.differs, MOST_OF_A_REASON)
    text = f"{named(name_of(one))} gives other results than eager{f': {why}' if why else ''}"
    errors = [(who.name, who.error_vs_fp64) for who in (one, reference) if who is not None]
    off = [f"{shorten(name, MOST_OF_A_NAME)} is {difference(error)}" for name, error in errors if error is not None]
    against = (f"Against the float64 run {', '.join(off)} off.",) if off else ()
    return Alarm(sentence(text), (*against, "Its speed means nothing until that is settled."))


def _always_compiles(one: Variant) -> Alarm:
    blocks = f"all {one.thrown_out} blocks" if one.thrown_out > 1 else "its only block"
    text = f"{named(name_of(one))} compiled or recorded in {blocks}, so that it has no steady time"
    return Alarm(
        sentence(text), ("Every run pays for a compile. %%compile_explain says what changes from run to run.",)
    )
