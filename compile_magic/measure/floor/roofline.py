"""From what a run moves and computes, and what the device can do, to the least time of a run and what sets it."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Protocol

from compile_magic.bench_model import BenchCheck
from compile_magic.bench_model import Roofline
from compile_magic.measure.floor.ceilings import Rates
from compile_magic.measure.floor.traffic import Counted
from compile_magic.measure.settings import CUDAGRAPH_MODES

# A device that works for less than this part of a run waits for launches most of the time.
BUSY_ENOUGH = 0.5
# Where the floor is below this part of eager's run, and issuing its ops above that part, overhead is what binds.
LEAST_COMPUTING = 0.25
LEAST_ISSUING = 0.05
# So does it where eager's ops, one by one at the rates measured here, explain less than this part of its run.
LEAST_EXPLAINED = 0.1
# Cudagraphs help if they take less than this part of the time without them.
LEAST_HELP = 0.95
# The ceilings are measured, and clocks vary: a variant may be this near to them, in per cent.
MOST_PERCENT = 105.0
_HUNDRED = 100.0


class Timed(Protocol):
    """What is asked of a variant that was measured. Times are in seconds for one run; `skipped`: no cudagraphs, why."""

    @property
    def how(self) -> str:
        """How it ran: "eager" or "compiled"."""

    @property
    def mode(self) -> str:
        """The mode that it was compiled with."""

    @property
    def skipped(self) -> str:
        """Why cudagraphs were not used."""

    @property
    def walls(self) -> Sequence[float]:
        """Its wall times."""

    @property
    def busy_s(self) -> float | None:
        """How long the device worked in a run, None where that isn't known."""


@dataclass(frozen=True)
class _Parts:
    """The arithmetic of a run: seconds of each op and dtype, and the ops whose rate isn't known."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def total_s(self) -> float | None:
        """The seconds of all parts together, None where none is known."""
        return math.fsum(self.seconds.values()) if self.seconds else None


def roofline(counted: Counted, ceilings: Rates, *, measured: Sequence[Timed] = ()) -> Roofline:
    """Return the least time that one run can take, and what sets it.

    The roofline model (Williams, Waterman and Patterson, 2009): no run is faster than moving its bytes once at the
    measured bandwidth, nor than its arithmetic at the measured rates. Arithmetic whose rate isn't known takes no time
    here, so that the floor isn't too high because of it.

    Args:
        counted: what the eager run moves and computes.
        ceilings: the rates of the device; only those needed are asked for.
        measured: the variants that ran, to tell whether the time goes to launches.
    """
    products, pointwise = _products(counted, ceilings), _pointwise(counted, ceilings)
    bandwidth = ceilings.bandwidth(counted.bytes_moved) if counted.bytes_moved else None
    issuing = ceilings.launch_s() if counted.op_count else None
    elements: Counter[str] = Counter()
    for (op, _), count in counted.pointwise.items():
        elements[op] += count
    bare = Roofline(
        bytes_moved=counted.bytes_moved,
        eager_bytes=counted.eager_bytes,
        flops=sum(counted.flops.values()),
        op_count=counted.op_count,
        pointwise=dict(elements),
        bandwidth=bandwidth,
        matmul_rate={dtype: counted.flops[dtype] / took for dtype, took in products.seconds.items()},
        memory_s=counted.bytes_moved / bandwidth if bandwidth else None,
        matmul_s=products.total_s,
        pointwise_s=pointwise.total_s,
        launch_s=counted.op_count * issuing if issuing is not None else None,
    )
    return _judged(replace(bare, floor_s=_floor(bare)), counted, pointwise, measured)


def _products(counted: Counted, ceilings: Rates) -> _Parts:
    rates = {dtype: ceilings.matmul_rate(dtype) for dtype in counted.flops}
    seconds = {dtype: counted.flops[dtype] / rate for dtype, rate in rates.items() if rate}
    return _Parts(seconds, tuple(f"{dtype} matrix products" for dtype, rate in rates.items() if not rate))


def _pointwise(counted: Counted, ceilings: Rates) -> _Parts:
    seconds: Counter[str] = Counter()
    unknown = []
    for (op, dtype), count in counted.pointwise.items():
        rate = ceilings.pointwise_rate(op, dtype)
        if rate:
            seconds[op] += count / rate  # type: ignore[assignment]  # a Counter adds up seconds as well as numbers
        else:
            unknown.append(op)
    return _Parts(dict(seconds), tuple(unknown))


def _arithmetic_s(roof: Roofline) -> float | None:
    return _sum((roof.matmul_s, roof.pointwise_s))


def _floor(roof: Roofline) -> float | None:
    return max((took for took in (roof.memory_s, _arithmetic_s(roof)) if took is not None), default=None)


def _sum(parts: Iterable[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.fsum(known) if known else None


# --- what sets it ----------------------------------------------------------------------------------------------------


def _judged(roof: Roofline, counted: Counted, pointwise: _Parts, measured: Sequence[Timed]) -> Roofline:
    ran = [one for one in measured if one.walls]
    for words in (_idle(ran), _issuing(roof, counted, ran)):
        if words:
            return replace(roof, bound_by="launches", words=words)
    if not roof.floor_s:
        return replace(roof, words=_no_floor(counted))
    name = "memory" if roof.floor_s == roof.memory_s else "arithmetic"
    return replace(roof, bound_by=name, words=WORDS[name](roof, pointwise))


def _wall(one: Timed) -> float:
    return statistics.median(one.walls)


def _records(one: Timed) -> bool:
    return one.mode in CUDAGRAPH_MODES and not one.skipped


def _idle(ran: Sequence[Timed]) -> str:
    """Return the words for a device that is idle for most of the fastest variant's time, "" where it isn't."""
    best = min(ran, key=_wall, default=None)
    if best is None or best.busy_s is None or best.busy_s >= BUSY_ENOUGH * _wall(best):
        return ""
    # A variant without cudagraphs shows best what they are for.
    shown = min((one for one in ran if not _records(one) and one.busy_s is not None), key=_wall, default=best)
    busy, wall = shown.busy_s or 0.0, _wall(shown)
    share = f"the GPU is busy {seconds(busy)} of {seconds(wall)} a run ({_HUNDRED * busy / wall:.0f} %)"
    return f"This work is launch-bound: {share}. {_advice(ran)}."


def _advice(ran: Sequence[Timed]) -> str:
    """Return what helps against launches, by what was measured."""
    recorded, others = [one for one in ran if _records(one)], [one for one in ran if not _records(one)]
    if not recorded:
        return "--modes reduce-overhead tries cudagraphs, which can help; fusion can't"
    if not others:
        return "Cudagraphs are on already: larger batches would help, fusion can't"
    helped = min(map(_wall, recorded)) < LEAST_HELP * min(map(_wall, others))
    return "Cudagraphs help, fusion can't" if helped else "Cudagraphs don't help here, and fusion can't"


def _issuing(roof: Roofline, counted: Counted, ran: Sequence[Timed]) -> str:
    """Return the words for ops so small that issuing them is most of eager's time, "" where they aren't."""
    eager = next((one for one in ran if one.how == "eager"), None)
    if eager is None or eager.busy_s is not None or roof.launch_s is None:
        return ""
    wall, least = _wall(eager), roof.floor_s or 0.0
    many_small = least <= LEAST_COMPUTING * wall and roof.launch_s >= LEAST_ISSUING * wall
    if not many_small and _explained(roof) > LEAST_EXPLAINED * wall:
        return ""
    ops = "1 op of" if counted.op_count == 1 else f"{counted.op_count:,} ops of at most"
    size = "1 element" if counted.largest == 1 else f"{many(counted.largest)} elements"
    share = f"computing takes {seconds(least)} of eager's {seconds(wall)} a run"
    return f"overhead-bound: {ops} {size}; {share}, and the rest is Python and calling ops"


def _explained(roof: Roofline) -> float:
    """Return the seconds that eager's ops take at the rates measured here, one by one."""
    moving = roof.eager_bytes / roof.bandwidth if roof.bandwidth else 0.0
    return moving + (_arithmetic_s(roof) or 0.0)


def _no_floor(counted: Counted) -> str:
    return "no floor: the rates of this device could not be measured" if counted.op_count else "no floor: no op ran"


def _memory_words(roof: Roofline, pointwise: _Parts) -> str:
    moving = f"moving {amount(roof.bytes_moved, 'B')} takes {seconds(roof.memory_s or 0.0)}"
    speed = f" at {amount(roof.bandwidth or 0.0, 'B/s')}"
    arithmetic = _arithmetic_s(roof)
    rest = f"; its arithmetic takes {seconds(arithmetic)}" if arithmetic else ""
    hidden = f"; how fast {pointwise.unknown[0]} is isn't known on this device" if pointwise.unknown else ""
    return f"bound by memory: {moving}{speed}{rest}{hidden}"


def _arithmetic_words(roof: Roofline, pointwise: _Parts) -> str:
    moving = f"; moving {amount(roof.bytes_moved, 'B')} takes {seconds(roof.memory_s)}" if roof.memory_s else ""
    whole, products = _arithmetic_s(roof) or 0.0, roof.matmul_s or 0.0
    top, took = max(pointwise.seconds.items(), key=lambda pair: pair[1], default=("", 0.0))
    what = f"{many(roof.pointwise.get(top, 0))} {top}"
    if products >= took:
        what, took = f"{amount(roof.flops, 'FLOP')} of matrix products", products
    verb = "take" if took == products or roof.pointwise.get(top, 0) != 1 else "takes"
    rest = f", all arithmetic {seconds(whole)}" if whole > 1.1 * took else ""
    return f"bound by arithmetic: {what} {verb} {seconds(took)} at the rate measured here{rest}{moving}"


# What sets the floor -> the sentence about it.
WORDS: Mapping[str, Callable[[Roofline, _Parts], str]] = {"memory": _memory_words, "arithmetic": _arithmetic_words}


# --- how near a variant comes ----------------------------------------------------------------------------------------


def percent(floor_s: float | None, time_s: float | None) -> float | None:
    """Return the floor as a percentage of a time: 100 is as fast as can be, None where one of them isn't known.

    More than 100 means that the floor is wrong; it is returned all the same, and `floor_check` says so.
    """
    return _HUNDRED * floor_s / time_s if floor_s is not None and time_s else None


def floor_check(percents: Mapping[str, float | None]) -> BenchCheck | None:
    """Return the check that no variant beats the floor, None where no variant has a percentage of it.

    Args:
        percents: `percent` of each variant, by its name.
    """
    known = {name: value for name, value in percents.items() if value is not None}
    if not known:
        return None
    name = max(known, key=lambda one: known[one])
    found = f"{name} is at {known[name]:.0f} % of the floor"
    held = known[name] <= MOST_PERCENT
    above = f"above {MOST_PERCENT:.0f}: the floor is too high for this work, so don't compare with it"
    return BenchCheck("floor", held, found if held else f"{found}, {above}", known[name], MOST_PERCENT)


# --- figures in words ------------------------------------------------------------------------------------------------


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (0.0, "ns"))
_NUMBERS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def _digits(value: float) -> str:
    """Return a number with three significant digits, without noughts after its point that say nothing."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= _HUNDRED else f"{rounded:g}"


def seconds(value: float) -> str:
    """Return a time in the unit that suits it, as "17 µs"."""
    rounded = float(f"{value:.3g}")
    unit, name = next(pair for pair in _UNITS if rounded >= pair[0])
    return f"{_digits(rounded / (unit or 1e-9))} {name}"


def amount(value: float, unit: str) -> str:
    """Return an amount with its decimal prefix, as "134 MB"."""
    rounded = float(f"{value:.3g}")
    factor, prefix = next((pair for pair in _PREFIXES if rounded >= pair[0]), (1.0, ""))
    return f"{_digits(rounded / factor)} {prefix}{unit}"


def many(count: int) -> str:
    """Return a number of things, as "336 million" or "65,536"."""
    factor, name = next((pair for pair in _NUMBERS if count >= pair[0]), (1.0, ""))
    return f"{_digits(count / factor)} {name}" if name else f"{count:,}"
