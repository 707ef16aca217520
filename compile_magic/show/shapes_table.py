"""How a report shows what the sizes of the inputs were to the compiler."""

from __future__ import annotations

from collections import Counter

from compile_magic.model import Dimension
from compile_magic.model import ExplainReport
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Line
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Table
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import one_line

COLUMNS = (
    Column("id", "right"),
    Column("size", "right"),
    Column("dimension", code=True),
    Column("to the compiler"),
)
# In this order, what the reader most wants to know first.
STATES = ("specialised", "automatic", "marked", "dynamic", "0/1", "static")
# Where torch's own term is longer than the state's name.
_LABELS = {"automatic": "automatic dynamic"}
MOST_NAMES = 4


def sizes(report: ExplainReport) -> Line | None:
    """Return which sizes were dynamic or forced to be constants; nothing where all were simply constants."""
    found = [each for each in report.dimensions if each.state not in ("static", "0/1")]
    if not found:
        return None
    by_state = {state: list(dict.fromkeys(_name(d) for d in found if d.state == state)) for state in STATES}
    parts = [f"{_LABELS.get(state, state)}: {listed(names, MOST_NAMES)}" for state, names in by_state.items() if names]
    return Line(f"sizes · {' · '.join(parts)}")


def _name(dimension: Dimension) -> str:
    forced = f" = {dimension.size}" if dimension.state == "specialised" else ""
    where = f" by {dimension.location}" if dimension.location is not None else ""
    return f"{one_line(dimension.source)}{forced}{where}"


def folded_sizes(report: ExplainReport) -> Folded | None:
    """Return every dimension of the inputs of every graph."""
    if not report.dimensions:
        return None
    rows = tuple(_row(each) for each in sorted(report.dimensions, key=lambda each: STATES.index(each.state)))
    counts = Counter(each.state for each in report.dimensions)
    title = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    return Folded("sizes", f"sizes of inputs: {title}", (Table("", COLUMNS, rows, "_compile_report.dimensions"),))


def _row(each: Dimension) -> Row:
    where = f" (by {each.location})" if each.location is not None else ""
    return Row((each.compile_id, each.size, one_line(each.source), f"{each.words}{where}"))
