"""Which side is off, where one result of a variant isn't eager's."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass

from compile_magic.measure.results.distance import Distance
from compile_magic.measure.results.distance import Tolerance

# Multiplier for float16 and small tensors, the larger one for up to ten elements, and the loose tolerance of
# torch._dynamo.utils.same (torch 2.13).
FACTOR = 3.0
FACTOR_OF_FEW = 10.0
FEW = 10
LOOSE = 4e-2
# A result below the absolute tolerance is off from this far, if eager is so near to float64.
OFF = 3e-2
SURE = 1e-3
# One side alone is off if the other is so many times nearer.
CLEARLY = 10


@dataclass(frozen=True)
class Measured:
    """How far one result of a variant is from eager's, and both from float64's; None without a float64 run.

    `is_exact` holds for whole numbers and truth values, `slack` is what two eager runs allow.
    """

    gap: Distance
    off: Distance | None
    eager_off: Distance | None
    tolerance: Tolerance
    is_exact: bool = False
    slack: float = 0.0


def judge(found: Measured) -> str:
    """Return "same", "unknown", "rounding", "eager is off", "variant is off" or "both are off"."""
    hidden = _is_hidden(found)
    if not found.gap.beyond and not hidden:
        return "same"
    if found.off is None or found.eager_off is None:
        return "unknown"
    error, eager_error = _error(found, found.off), _error(found, found.eager_off)
    if not hidden and _is_within(found, found.off, found.eager_off):
        return "eager is off" if error * FACTOR < eager_error else "rounding"
    fine = eager_error <= _allowance(found, found.eager_off) or eager_error * CLEARLY < error
    return "variant is off" if fine else "both are off"


MATCHES = frozenset({"same", "rounding", "eager is off"})


def _error(found: Measured, off: Distance) -> float:
    """Return the figure that the rule goes by: how many elements differ, or the root mean square."""
    return float(off.beyond) if found.is_exact else off.rms


def _allowance(found: Measured, off: Distance) -> float:
    return 0.0 if found.is_exact else found.tolerance.absolute + found.tolerance.relative * off.scale + found.slack


def _is_within(found: Measured, off: Distance, eager_off: Distance) -> bool:
    """Return whether the variant is as near to float64 as eager lets expect."""
    eager_error = _error(found, eager_off)
    if math.isinf(eager_error):
        return off.relative <= LOOSE
    factor = FACTOR_OF_FEW if off.count <= FEW and not found.is_exact else FACTOR
    if _error(found, off) > factor * eager_error + _allowance(found, off):
        return False
    return found.is_exact or off.largest <= factor * eager_off.largest + LOOSE * off.scale + found.slack


def _is_hidden(found: Measured) -> bool:
    """Return whether the absolute tolerance would let a wrong result pass because all of it is small."""
    if found.off is None or found.eager_off is None or found.is_exact or found.off.rms <= found.slack:
        return False
    return found.eager_off.relative_rms <= SURE and found.off.relative_rms > OFF


# --- in words --------------------------------------------------------------------------------------------------------


def figures(found: Measured) -> str:
    """Return how far eager and the variant are from float64, "" if nobody knows."""
    if found.off is None or found.eager_off is None:
        return "no float64 run says which side is off"
    if found.is_exact:
        return f"eager differs from float64 in {found.eager_off.beyond}, this variant in {found.off.beyond}"
    eager, ours = found.eager_off.relative_rms, found.off.relative_rms
    return f"eager is {_size(eager)} from float64, this variant {_size(ours)}"


CONCLUSIONS: Mapping[str, Callable[[Measured], str]] = {
    "eager is off": lambda found: f"{figures(found)}: eager is the one that is off",
    "variant is off": lambda found: f"{figures(found)}: this variant is off",
    "both are off": lambda found: f"{figures(found)}: both are off",
    "unknown": figures,
}


def pair(found: complex, expected: complex) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to tell them apart."""
    for digits in () if isinstance(found, bool) else range(3, 18):
        texts = f"{found:.{digits}g}", f"{expected:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return str(found), str(expected)


def _size(error: float) -> str:
    return f"{error:.0e}" if math.isfinite(error) else "infinitely far"
