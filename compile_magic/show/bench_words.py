"""Figures of a bench in words: times, sizes, ratios and counts, each with the digits that mean something."""

from __future__ import annotations

import math

# From how many seconds on a time is given in which unit, which is how many seconds.
TIMES = (
    (172_800.0, 86_400.0, "days"),
    (7200.0, 3600.0, "h"),
    (120.0, 60.0, "min"),
    (1.0, 1.0, "s"),
    (1e-3, 1e-3, "ms"),
    (1e-7, 1e-6, "µs"),
    (0.0, 1e-9, "ns"),
)
THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def significant(value: float, digits: int = 3) -> str:
    """Return a number with that many digits that count, thousands separated and without an exponent."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    after = digits - 1 - math.floor(math.log10(abs(rounded)))
    # A number too small for a column has no digits that a reader could use.
    return f"{rounded:,.{min(max(0, after), 9)}f}"


def duration(value: float, digits: int = 3) -> str:
    """Return a time in the unit that suits it, as "3.10 µs", "179 µs" or "2.11 ms"."""
    if not math.isfinite(value) or value == 0:
        return f"{significant(value)} s"
    rounded = float(f"{value:.{digits - 1}e}")
    unit, name = next((unit, name) for least, unit, name in TIMES if abs(rounded) >= least)
    return f"{significant(rounded / unit, digits)} {name}"


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """Return an amount with the decimal prefix that suits it, as "128 kB" or "4.22 TB/s"."""
    if not math.isfinite(value):
        return f"{significant(value)} {unit}"
    rounded = float(f"{value:.{digits - 1}e}")
    factor, prefix = next((pair for pair in THOUSANDS if abs(rounded) >= pair[0]), (1.0, ""))
    return f"{trimmed(significant(rounded / factor, digits))} {prefix}{unit}"


def size(value: float) -> str:
    """Return a number of bytes, as "18 MB"."""
    return scaled(value, "B")


def trimmed(number: str) -> str:
    """Return a number without the noughts at its end that follow its point."""
    return number.rstrip("0").rstrip(".") if "." in number else number


def counts(value: float) -> str:
    """Return a number of runs in three digits that count, as "88,000"."""
    return trimmed(significant(max(1.0, math.ceil(value)) if math.isfinite(value) else value))


def runs(value: int) -> str:
    """Return exactly how many runs, as "1 run" or "1,000 runs"."""
    return "1 run" if value == 1 else f"{value:,} runs"


def ratio(value: float) -> str:
    """Return a speed-up without its sign, with two digits after the point unless it is very large or small."""
    return f"{value:.2f}" if 0.1 <= value < 10 else significant(value)  # noqa: PLR2004 - where two digits are right


def percent(value: float) -> str:
    """Return a percentage as "96 %", below ten with a digit after the point."""
    return f"{trimmed(significant(value, 2 if abs(value) < 10 else 3))} %"  # noqa: PLR2004 - where two digits are enough


def difference(value: float) -> str:
    """Return a relative error in one digit that counts, as "2e-4"."""
    if not math.isfinite(value):
        return significant(value)
    if value == 0 or value >= 0.01:  # noqa: PLR2004 - from one per cent on it reads better without an exponent
        return trimmed(significant(value, 2))
    digit, exponent = f"{value:.0e}".split("e")
    return f"{digit}e{int(exponent)}"
