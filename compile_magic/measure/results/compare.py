"""Does a variant give what eager gives, and if not, which side is off?

A result within the tolerances of torch.testing.assert_close of eager's matches. Beyond them a float64 run decides, by
the rule of torch's own benchmark suite (`torch._dynamo.utils.same`, torch 2.13): the variant may be three times as far
from float64 as eager is, by the root mean square of the differences and beside the tolerance, and ten times where there
are no more than ten elements; where eager is NaN or infinite and float64 is not, it must be within 4 %.

Two things that this rule would let pass don't match: one element that is off by more than three times eager's worst and
4 % of the result's scale; and a result so small that the absolute tolerance hides it, 3 % off where eager is within
0.1 % of float64.

Whole numbers and truth values have no tolerance, and how many differ from float64's takes the place of the root mean
square. How far two eager runs are apart is added, three times, to each tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from compile_magic.measure.results.distance import distance
from compile_magic.measure.results.distance import tolerance_of
from compile_magic.measure.results.judge import CONCLUSIONS
from compile_magic.measure.results.judge import FACTOR
from compile_magic.measure.results.judge import MATCHES
from compile_magic.measure.results.judge import Measured
from compile_magic.measure.results.judge import judge
from compile_magic.measure.results.judge import pair
from compile_magic.measure.results.results import Result
from compile_magic.measure.results.results import Results

# The relative root mean square error of eager above which a result is rounding noise.
NOISE = 0.1


@dataclass(frozen=True)
class Comparison:
    """How a variant's results compare with eager's.

    `differs` is one line on the worst result that doesn't match or, where all do, on the one where eager is the side
    that is off; "" if there is neither. `worst` is its path, `differing` how many results don't match, `compared` how
    many there were.

    The errors are the largest over all results: `max_abs_error` |a - b| and `max_rel_error` |a - b| / max(|b|, s), with
    s the root mean square of the finite b of a result, against eager; `error_vs_fp64` and `eager_vs_fp64` the relative
    error of the variant and of eager against the float64 run. None where there was nothing to compare, infinite where
    one side alone is NaN or infinite. Left out of them are the `noise` results in which eager itself is further than
    `NOISE` from float64, as the gradient of a bias before a batch norm: what is left of such a sum after cancelling is
    rounding, whose relative error says nothing. They are compared all the same.
    """

    matches: bool
    differs: str = ""
    worst: str = ""
    differing: int = 0
    compared: int = 0
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    error_vs_fp64: float | None = None
    eager_vs_fp64: float | None = None
    noise: int = 0


@dataclass(frozen=True)
class _Verdict:
    """What was found of one result; `badness` is larger for a worse one."""

    path: str
    matches: bool = True
    words: str = ""
    badness: float = 0.0
    measured: Measured | None = None


def compare(
    variant: Results, eager: Results, reference: Results | None = None, *, floor: Mapping[str, float] | None = None
) -> Comparison:
    """Compare what a variant gave with what eager gave.

    Args:
        variant: the results of the variant.
        eager: those of eager.
        reference: those of a float64 run, read by `Float64.value_of`.
        floor: by path how far two eager runs are apart, as `spread` gives it; a path that is infinitely far is passed.
    """
    precise = reference.found if reference is not None else {}
    slack = floor or {}
    unread = {*eager.unread, *variant.unread}
    paths = [path for path in {**eager.found, **variant.found} if path not in unread and slack.get(path) != math.inf]
    verdicts = [
        _verdict(path, variant.found.get(path), eager.found.get(path), precise.get(path), slack.get(path, 0.0))
        for path in paths
    ]
    return _together(verdicts)


def spread(first: Results, second: Results) -> dict[str, float]:
    """Return how far two runs of the same are apart: the largest |a - b| by path, for the results that differ.

    It is infinite where the results can't be compared number by number: one is missing, or NaN, or of another shape;
    and for numbers of Python's, such as a time that the cell takes itself.
    """
    return {path: gap for path, (gap, _) in _apart(first, second).items()}


def deterministic(first: Results, second: Results) -> str:
    """Return "" if two eager runs gave the same, else one line that names the result that differs most."""
    apart = _apart(first, second)
    if not apart:
        return ""
    worst = max(apart, key=lambda path: apart[path][1])
    gap, relative = apart[worst]
    how = f"by {gap:.1e} ({relative:.1e} of its size)" if math.isfinite(gap) else "and can't be compared"
    more = f", and {len(apart) - 1} more differ" if len(apart) > 1 else ""
    return f"two eager runs give different results: `{worst}` differs {how}{more}"


def _apart(first: Results, second: Results) -> dict[str, tuple[float, float]]:
    """Return the largest difference of each result that differs, absolute and relative."""
    apart = {}
    for path in {**first.found, **second.found}:
        a, b = first.found.get(path), second.found.get(path)
        if a is None or b is None or _structure(a, b):
            apart[path] = (math.inf, math.inf)
        else:
            ours, theirs = _rows([a, b])
            gap = distance(ours, theirs)
            # A number of Python's that differs is most often a time: no tolerance fits it.
            apart[path] = (math.inf if gap.largest and a.kind == "number" else gap.largest, gap.relative)
    return {path: (gap, relative) for path, (gap, relative) in apart.items() if gap}


def _together(verdicts: list[_Verdict]) -> Comparison:
    failed = [one for one in verdicts if not one.matches]
    said = failed or [one for one in verdicts if one.words]
    worst = max(said, key=lambda one: one.badness, default=_Verdict(""))
    more = f" ({len(failed) - 1} more differ)" if len(failed) > 1 else ""
    every = [one.measured for one in verdicts if one.measured is not None]
    measured = [one for one in every if not _is_noise(one)]
    return Comparison(
        matches=not failed,
        differs=worst.words + more,
        worst=worst.path,
        differing=len(failed),
        compared=len(verdicts),
        max_abs_error=_largest(one.gap.largest for one in measured),
        max_rel_error=_largest(one.gap.relative for one in measured),
        error_vs_fp64=_largest(one.off.relative for one in measured if one.off is not None),
        eager_vs_fp64=_largest(one.eager_off.relative for one in measured if one.eager_off is not None),
        noise=len(every) - len(measured),
    )


def _is_noise(found: Measured) -> bool:
    return found.eager_off is not None and not found.is_exact and found.eager_off.relative_rms > NOISE


def _largest(errors: Iterable[float]) -> float | None:
    return max(errors, default=None)


# --- one result ------------------------------------------------------------------------------------------------------


def _verdict(
    path: str, variant: Result | None, eager: Result | None, reference: Result | None, slack: float
) -> _Verdict:
    other = _structure(variant, eager)
    if other or variant is None or eager is None:
        return _Verdict(path, matches=False, words=f"`{path}` differs: {other}", badness=math.inf)
    # The size of a result may depend on its values: then float64 has nothing to say about this one.
    usable = [reference] if reference and (reference.kind, reference.shape) == (eager.kind, eager.shape) else []
    rows = _rows([variant, eager, *usable])
    found = _measured(rows, eager, slack * FACTOR)
    judgement = judge(found)
    badness = found.gap.relative if found.off is None else found.off.relative_rms
    words = _words(path, eager, rows, found, judgement)
    return _Verdict(path, judgement in MATCHES, words, badness, found)


def _measured(rows: list[torch.Tensor], eager: Result, slack: float) -> Measured:
    ours, theirs, *precise = rows
    tolerance = tolerance_of(eager.dtype)
    return Measured(
        gap=distance(ours, theirs, tolerance, slack),
        off=distance(ours, precise[0]) if precise else None,
        eager_off=distance(theirs, precise[0]) if precise else None,
        tolerance=tolerance,
        is_exact=not (theirs.is_floating_point() or theirs.is_complex()),
        slack=slack,
    )


def _words(path: str, eager: Result, rows: list[torch.Tensor], found: Measured, judgement: str) -> str:
    """Return the line about a result that isn't eager's, "" if there is nothing to say."""
    conclusion = CONCLUSIONS.get(judgement)
    if conclusion is None:
        return ""
    ours, theirs = pair(rows[0][found.gap.at].item(), rows[1][found.gap.at].item())
    gap, count = found.gap, f"{found.gap.beyond} of {found.gap.count} elements, " if found.gap.count > 1 else ""
    allowed = f"{found.tolerance.relative:.1e} and {found.tolerance.absolute + found.slack:.0e}"
    tolerance = f"{count}tolerance {allowed}" if not found.is_exact else f"{count}exact"
    where = _place(eager, gap.at)
    return f"`{path}{where}` differs: {ours} against eager's {theirs} ({tolerance}); {conclusion(found)}"


def _place(result: Result, at: int) -> str:
    """Return the index of a kept element as one writes it, "" for a single number."""
    place = int(result.positions[at]) if result.positions is not None else at
    index = []
    for size in reversed(result.shape):
        place, rest = divmod(place, size)
        index.append(rest)
    return str(index[::-1]) if index else ""


STRUCTURE: tuple[tuple[str, Callable[[Result], object]], ...] = (
    ("kind", lambda result: result.kind),
    ("dtype", lambda result: result.dtype),
    ("shape", lambda result: result.shape),
    ("device", lambda result: result.device),
)


def _structure(variant: Result | None, eager: Result | None) -> str:
    """Return what other than values differs, "" if nothing does."""
    if variant is None or eager is None:
        return "this variant doesn't give it" if variant is None else "eager doesn't give it"
    for name, read in STRUCTURE:
        if read(variant) != read(eager):
            return f"its {name} is {read(variant)} against eager's {read(eager)}"
    return ""


def _rows(results: list[Result]) -> list[torch.Tensor]:
    """Return the elements of results of one shape: where one of them is sampled, those that all have."""
    places = next((result.positions for result in results if result.positions is not None), None)
    return [_at(result, places) for result in results]


def _at(result: Result, places: torch.Tensor | None) -> torch.Tensor:
    if places is None or result.positions is not None:
        return result.values
    return result.values[places.to(result.values.device)]
