"""What stands before all tables: the costly things that otherwise happen in silence."""

from __future__ import annotations

from collections.abc import Iterator

from compile_magic.model import ExplainReport
from compile_magic.model import FailedGuard
from compile_magic.model import Failure
from compile_magic.model import LimitHit
from compile_magic.model import SkippedFrame
from compile_magic.show.blocks import Alarm
from compile_magic.show.blocks import Alarms
from compile_magic.show.findings import advice
from compile_magic.show.findings import noun
from compile_magic.show.findings import place
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import named
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten

MOST_OF_A_REASON = 220
MOST_VALUES = 8
# The cell's own error stands in full above the report; but torch puts the failing guard last in its.
MOST_OF_AN_ERROR = 480


def alarms(report: ExplainReport) -> Alarms | None:
    """Return failures, functions that ran wholly in eager and limit hits, or None."""
    items = tuple(_all(report))
    fields = [name for name in ("failures", "skipped_frames", "limit_hits") if getattr(report, name)]
    return Alarms(items, f"_compile_report.{', .'.join(fields)}" if fields else "_compile_report") if items else None


def _all(report: ExplainReport) -> Iterator[Alarm]:
    if report.error:
        yield Alarm(sentence(f"It ended with an error: {shorten(report.error, MOST_OF_AN_ERROR)}"))
    for failure in report.failures:
        yield _failed(failure)
    for frame in report.skipped_frames:
        yield _skipped(frame, explained=frame.cause in report.breaks)
    for hit in report.limit_hits:
        yield _limit(hit)


def _failed(failure: Failure) -> Alarm:
    reason = shorten(failure.reason, MOST_OF_A_REASON)
    after = "The call was made in eager." if failure.ran_eager else "The error went to the notebook."
    what = sentence(f"{one_line(failure.kind)}: {reason}" if reason else failure.kind)
    text = f"{named(failure.function)} failed to compile ({failure.location}): {what} {after}"
    return Alarm(text, advice((*failure.advice, *failure.hints)))


def _skipped(frame: SkippedFrame, *, explained: bool) -> Alarm:
    """Build the alarm of a skipped frame; a cause that is `explained` further down brings no advice here."""
    times = f" Seen {frame.count} times." if frame.count > 1 else ""
    how = "ran wholly in eager" if frame.after_line is None else f"ran in eager after line {frame.after_line}"
    text = sentence(f"{named(frame.function)} {how}: {_why(frame)}") + times
    return Alarm(
        text,
        () if explained or frame.cause is None else advice((*frame.cause.advice, *frame.cause.hints), frame.cause.fix),
    )


def _why(frame: SkippedFrame) -> str:
    cause = frame.cause
    if cause is None:
        return shorten(frame.reason, MOST_OF_A_REASON) or f"torch gave no reason ({frame.location})"
    what = f"the {noun(cause)} {_at(place(cause.location, frame.location))}"
    if cause.in_loop:
        return f"{what} is in a loop, and Dynamo can't resume there"
    reason = shorten(frame.reason, MOST_OF_A_REASON)
    return f"{what} can't be resumed" + (f" ({reason})" if reason else "")


def _at(where: str) -> str:
    return f"on {where}" if where.startswith("line ") else f"in {where}"


def _limit(hit: LimitHit) -> Alarm:
    limit = f"its limit of {hit.limit} compiled versions" if hit.limit else "its limit of compiled versions"
    text = f"{named(hit.function)} ({hit.location}) reached {limit} and runs in eager from now on, silently."
    why = _difference(hit)
    return Alarm(f"{text} {sentence(why)}" if why else text)


def _difference(hit: LimitHit) -> str:
    """Return what the compiled versions differ in, if it is one thing, else the guard that failed of the newest."""
    if not hit.failed:
        return shorten(hit.reason, MOST_OF_A_REASON)
    subjects = {_subject(guard) for guard in hit.failed}
    values = list(dict.fromkeys(guard.expected for guard in reversed(hit.failed)))
    if len(hit.failed) > 1 and len(subjects) == 1 and all(values):
        return f"Its versions differ only in {subjects.pop()}: {listed(values, MOST_VALUES)}"
    return f"The guard of its newest version that failed: {failed_words(hit.failed[0])}"


def _subject(guard: FailedGuard) -> str:
    """Return the left side of a comparison with the value that was expected, else the whole guard."""
    return one_line(guard.expression).removesuffix(f" == {guard.expected}")


def failed_words(guard: FailedGuard) -> str:
    """Return what a guard expected and what it found, else the guard itself."""
    if not (guard.expected and guard.actual):
        return shorten(guard.expression, MOST_OF_A_REASON)
    return shorten(
        f"{guard.source or guard.expression}: expected {guard.expected}, found {guard.actual}", MOST_OF_A_REASON
    )
