"""What the figures of a bench can be trusted for: CHECKS with figure and threshold, and notes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from compile_magic.bench_model import BenchCheck
from compile_magic.measure.facts import FIRST_RUNS
from compile_magic.measure.facts import Facts
from compile_magic.measure.findings import Findings
from compile_magic.measure.floor.roofline import floor_check
from compile_magic.measure.floor.roofline import percent
from compile_magic.measure.timing import statistics

# Two timings of the same eager work further apart than this: the machine is not quiet.
MOST_SPREAD = 0.02
# A 95 % interval of a speed-up that is wider than this, relative to it.
MOST_WIDTH = 0.05
# An interquartile range of eager's blocks above this part of their median.
MOST_IQR = 0.10

# A steady run that takes so many times a third one was disturbed.
MOST_SLOWDOWN = 5
# So far outside of a speed-up's interval the ratio of the medians may lie.
SLACK = 1.02
# From here on a share is told as how many times.
_MANY = 10

Facted = Mapping[str, Facts]


def checks(found: Findings, facts: Facted) -> Iterator[BenchCheck]:
    """Yield each check that there is something to check for."""
    for check in CHECKS:
        made = check(found, facts)
        if made is not None:
            yield made


def _share(value: float) -> str:
    """Return a share as a percentage, or as a multiple where that is easier to read."""
    return f"{value:.1%}" if value < _MANY else f"{value:,.0f} times"


def _no_compile(found: Findings, facts: Facted) -> BenchCheck | None:
    if found.samples is None:
        return None
    count = sum(one.thrown_out for one in facts.values())
    words = "no compile inside the timing"
    if count:
        names = ", ".join(one.name for one in facts.values() if one.thrown_out)
        words = f"{count} blocks of {names} were thrown out: something was compiled or recorded in them"
    return BenchCheck("compiles in timing", count == 0, words, count, 0)


def _twin(found: Findings, facts: Facted) -> BenchCheck | None:
    spread = found.eager_spread
    if spread is None:
        return None
    words = f"two timings of eager are {_share(spread)} apart (at most {MOST_SPREAD:.0%} on a quiet machine)"
    return BenchCheck("eager twin", spread <= MOST_SPREAD, words, spread, MOST_SPREAD)


def _quiet(found: Findings, facts: Facted) -> BenchCheck | None:
    walls = facts["eager"].walls
    if len(walls) < 4:  # noqa: PLR2004 - quartiles of fewer say nothing
        return None
    figure = statistics.iqr(walls) / statistics.median(walls)
    words = f"eager's blocks spread by {_share(figure)} (interquartile range; at most {MOST_IQR:.0%})"
    return BenchCheck("noise", figure <= MOST_IQR, words, figure, MOST_IQR)


def _narrow(found: Findings, facts: Facted) -> BenchCheck | None:
    widths = [(one.ratio.high - one.ratio.low) / one.ratio.value for one in facts.values() if one.ratio is not None]
    if not widths:
        return None
    words = f"the widest interval of a speed-up is {_share(max(widths))} of it"
    words += "" if max(widths) <= MOST_WIDTH else f" (over {MOST_WIDTH:.0%}): a larger --budget narrows it"
    return BenchCheck("interval", max(widths) <= MOST_WIDTH, words, max(widths), MOST_WIDTH)


def _settled(found: Findings, facts: Facted) -> BenchCheck | None:
    ran = [one for one in facts.values() if one.walls and len(one.first) == FIRST_RUNS]
    if not ran:
        return None
    ratios = {one.name: statistics.median(one.walls) / max(one.first[-1], 1e-9) for one in ran}
    name = max(ratios, key=lambda each: ratios[each])
    words = "steady runs take what third ones let expect"
    if ratios[name] > MOST_SLOWDOWN:
        words = (
            f"{name} is {ratios[name]:,.0f} times slower in its steady state than in its third run: something else "
            "uses this machine; on a CPU, torch.set_num_threads(1) keeps threads from waiting for each other"
        )
    return BenchCheck("settled", ratios[name] <= MOST_SLOWDOWN, words, ratios[name], MOST_SLOWDOWN)


def _agrees(found: Findings, facts: Facted) -> BenchCheck | None:
    """Check that medians and rounds tell the same: else the load has changed while it was timed."""
    eager = facts["eager"]
    for one in facts.values():
        if one.ratio is None or not one.walls or not eager.walls:
            continue
        apart = statistics.median(eager.walls) / statistics.median(one.walls)
        if not one.ratio.low / SLACK <= apart <= one.ratio.high * SLACK:
            words = f"the medians of {one.name} and eager say {apart:.2f}x, outside of the interval of the speed-up"
            return BenchCheck("agreement", passed=False, words=f"{words}: the load changed while they were timed")
    return None


def _alike(found: Findings, facts: Facted) -> BenchCheck | None:
    if not facts["eager"].first:
        return None
    words = found.unsteady or "eager gives the same results twice"
    return BenchCheck("deterministic", not found.unsteady, words)


def _precise(found: Findings, facts: Facted) -> BenchCheck | None:
    error, noise = facts["eager"].error_vs_fp64, facts["eager"].noise
    if error is None:
        return None
    results = f"; {noise} result{'s are' if noise > 1 else ' is'} rounding noise in eager" if noise else ""
    return BenchCheck("float64", passed=True, words=f"eager is {error:.0e} from a float64 run{results}", figure=error)


def _restored(found: Findings, facts: Facted) -> BenchCheck | None:
    return found.state or BenchCheck("state", passed=False, words="the state was not compared")


def _floor(found: Findings, facts: Facted) -> BenchCheck | None:
    floor_s = found.floor.floor_s if found.floor is not None else None
    times = {name: statistics.median(one.devices or one.walls) for name, one in facts.items() if one.walls}
    check = floor_check({name: percent(floor_s, time_s) for name, time_s in times.items()})
    # That it holds is no news.
    return None if check is None or check.passed else check


CHECKS: tuple[Callable[[Findings, Facted], BenchCheck | None], ...] = (
    _no_compile,
    _twin,
    _quiet,
    _narrow,
    _settled,
    _agrees,
    _alike,
    _precise,
    _floor,
    _restored,
)


def notes(found: Findings, facts: Facted) -> Iterator[str]:
    """Yield what a reader of the figures should know besides."""
    yield from found.notes
    if found.paired:
        yield f"{found.paired}, so each run begins with the state that was put back (paired restore, not timed)"
    if found.fallbacks:
        yield f"{found.fallbacks} ops of the float64 run have no float64 kernel and ran in their own precision"
    if any(target.how == "observed" for target in found.targets):
        names = ", ".join(f"`{target.name}`" for target in found.targets if target.how == "observed")
        yield f"{names} was compiled before this cell: `as written` runs it so, eager runs its original"
