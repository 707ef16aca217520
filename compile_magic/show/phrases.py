"""Small pieces of wording: counts, times, lists and cuts."""

from __future__ import annotations

from collections.abc import Sequence

# Up to which number of seconds a time is given in this unit and with these digits.
# Below how many seconds a time is shown in which unit, by which factor and with which digits.
SCALES = (
    (1e-3, (1e6, ".0f", "µs")),
    (0.1, (1e3, ".0f", "ms")),
    (10.0, (1.0, ".2f", "s")),
    (float("inf"), (1.0, ".0f", "s")),
)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return "1 graph", "2 graphs" or "no graphs"."""
    if count == 1:
        return f"1 {singular}"
    return f"{count or 'no'} {plural or singular + 's'}"


def seconds(value: float) -> str:
    """Return a time with two or three digits that count, in the unit that suits it."""
    factor, digits, unit = next(scale for most, scale in SCALES if value < most)
    return f"{value * factor:{digits}} {unit}"


def listed(names: Sequence[str], most: int, where: str = "") -> str:
    """Return the first names, and how many more there are in `where`."""
    kept = ", ".join(names[:most])
    rest = len(names) - most
    if rest <= 0:
        return kept
    return f"{kept} and {rest} more" + (f" in {where}" if where else "")


def one_line(text: str) -> str:
    """Return the text with every run of white space as one blank."""
    return " ".join(text.split())


def shorten(text: str, most: int) -> str:
    """Return the text on one line of at most `most` characters, cut at a word where there is one."""
    line = one_line(text)
    if len(line) <= most:
        return line
    head = line[: most - 1]
    word_end = head.rfind(" ")
    return (head[:word_end] if word_end > most // 2 else head).rstrip(" .,;:") + "…"


def sentence(text: str) -> str:
    """Return the text on one line with a full stop at its end, unless it ends in a mark of its own."""
    line = one_line(text)
    return line if not line or line[-1] in ".:?…" else f"{line}."


def named(function: str) -> str:
    """Return a function's name as it stands in a sentence."""
    return f"`{one_line(function)}`"
