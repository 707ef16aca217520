"""What an ExplainReport shows, in reading order: the answer, the alarms, the user's lines, then the tables.

A section is a function of the report that returns a block, or None if it has nothing to say. Adding one is a
function and its place in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace

from compile_magic.model import ExplainReport
from compile_magic.model import Graph
from compile_magic.model import GraphBreak
from compile_magic.model import Location
from compile_magic.model import Recompile
from compile_magic.model import Target
from compile_magic.show.alarms import alarms
from compile_magic.show.alarms import failed_words
from compile_magic.show.blocks import Block
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Line
from compile_magic.show.blocks import Lines
from compile_magic.show.blocks import Pointer
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Table
from compile_magic.show.cellview import breaks_without_source
from compile_magic.show.cellview import source_view
from compile_magic.show.findings import advice
from compile_magic.show.findings import label
from compile_magic.show.folded import folded_breaks
from compile_magic.show.folded import folded_fixes
from compile_magic.show.folded import folded_graphs
from compile_magic.show.folded import folded_guards
from compile_magic.show.folded import folded_targets
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import seconds
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten
from compile_magic.show.shapes_table import folded_sizes
from compile_magic.show.shapes_table import sizes
from compile_magic.show.summary import MOST_NAMES
from compile_magic.show.summary import summary

Section = Callable[[ExplainReport], "Block | None"]

BREAK_COLUMNS = (Column("seen", "right"), Column("where", code=True), Column("function", code=True), Column("break"))
RECOMPILE_COLUMNS = (
    Column("seen", "right"),
    Column("entries", "right"),
    Column("function", code=True),
    Column("where", code=True),
    Column("cause"),
)
GRAPH_COLUMNS = (
    Column("id", "right"),
    Column("ops", "right"),
    Column("function", code=True),
    Column("where", code=True),
    Column("top ops"),
)


def blocks(report: ExplainReport, *, opened: Collection[str] = ()) -> tuple[Block, ...]:
    """Return all that the report has to say; `opened` holds the keys of the folded blocks to show in full."""
    return made_of(SECTIONS, report, opened)


def made_of(sections: Sequence[Section], report: ExplainReport, opened: Collection[str]) -> tuple[Block, ...]:
    """Return what the sections have to say, with the folded blocks of these keys opened."""
    made = [block for section in sections if (block := section(report)) is not None]
    return tuple(replace(one, opened=True) if isinstance(one, Folded) and one.key in opened else one for one in made)


def other_own_breaks(report: ExplainReport) -> Table | None:
    """Return the user's own breaks on lines that the report has no source of."""
    found = breaks_without_source(report)
    return _break_table("breaks in your code, its source not at hand", found)


def outside_breaks(report: ExplainReport) -> Table | None:
    """Return the breaks in libraries and those that the compiler makes by itself."""
    found = [one for one in report.breaks if one.owner != "your code"]
    return _break_table("breaks outside your code", sorted(found, key=lambda one: one.owner, reverse=True))


def _break_table(title: str, found: Sequence[GraphBreak]) -> Table | None:
    rows = tuple(_break_row(one) for one in found)
    return (
        Table(f"{title}: {len(rows)}", BREAK_COLUMNS, rows, more="_compile_report.breaks", weight=3) if rows else None
    )


def _break_row(found: GraphBreak) -> Row:
    words = " · ".join(filter(None, (label(found), found.gb_id, _owner(found))))
    caller = _caller(found) if found.owner != "your code" else None
    called = (f"called from {caller}",) if caller is not None else ()
    cells = (f"{found.count}×", str(found.location), one_line(found.function), words)
    return Row(cells, (*called, *advice((*found.advice, *found.hints), found.fix)))


def _caller(found: GraphBreak) -> Location | None:
    """Return the innermost line of a cell that led to the break, else where its stack begins."""
    outer = [where for where in found.stack if str(where) != str(found.location)]
    return next((where for where in reversed(outer) if where.cell is not None), outer[0] if outer else None)


def _owner(found: GraphBreak) -> str:
    return "" if found.owner == "your code" else found.owner


def recompiles(report: ExplainReport) -> Table | None:
    """Return each cause of a further compile, with how often it came and how many entries there were then."""
    entries = {frame.compile_id: frame.entries for frame in report.compiled}
    rows = tuple(_recompile_row(one, entries.get(one.compile_id)) for one in report.recompiles)
    if not rows:
        return None
    title = f"recompiles: {report.recompile_count}"
    return Table(title, RECOMPILE_COLUMNS, rows, more="_compile_report.recompiles", weight=3)


def _recompile_row(one: Recompile, entries: int | None) -> Row:
    versions = entries or (len({guard.entry for guard in one.failed}) + 1 if one.failed else "")
    cause = one.cause.replace("_", " ")
    cells = (f"{one.count}×", str(versions), one_line(one.function), str(one.location), cause)
    return Row(cells, (sentence(shorten(_cause(one), 260)), *advice((), one.fix)))


def _cause(one: Recompile) -> str:
    if one.words:
        return one.words
    guard = failed_words(one.failed[-1]) if one.failed else ""
    return guard or f"cause: {one.cause}"


def graphs(report: ExplainReport) -> Table | None:
    """Return the graphs with their ops."""
    return _graph_table(counted(report.graph_count, "graph"), report.op_count, report.graphs, "graphs")


def backward_graphs(report: ExplainReport) -> Table | None:
    """Return the graphs that AOTAutograd made for the backward pass."""
    found = report.backward_graphs
    title = counted(len(found), "backward graph")
    return _graph_table(title, sum(one.op_count for one in found), found, "backward_graphs")


def _graph_table(title: str, op_count: int, found: Sequence[Graph], field: str) -> Table | None:
    rows = tuple(Row(_graph_cells(one)) for one in found)
    more = f"_compile_report.{field}"
    return Table(f"{title}, {counted(op_count, 'op')}", GRAPH_COLUMNS, rows, more=more) if rows else None


def _graph_cells(one: Graph) -> tuple[str, ...]:
    function = one_line(one.function) + (", after a break" if one.after_break else "")
    return (one.compile_id, str(one.op_count), function, str(one.location), top_ops(one.ops))


def top_ops(ops: Mapping[str, int]) -> str:
    """Return the most frequent ops, most frequent first."""
    ranked = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    return listed([f"{count} {one_line(name)}" for name, count in ranked], 4)


def guards(report: ExplainReport) -> Line | None:
    """Return how many guards there are, and how many of them speak of something that the user can change."""
    if not report.guards:
        return None
    internal = sum(guard.internal for guard in report.guards)
    total = len(report.guards)
    return Line(f"{counted(total, 'guard')}: {total - internal} you can change, {internal} internal")


def compile_time(report: ExplainReport) -> Line | None:
    """Return where the compile time went; torch's phases overlap, so that they add up to more than the whole."""
    if not report.compile_time_s:
        return None
    ranked = sorted(report.phases.items(), key=lambda item: (-item[1], item[0]))
    phases = listed([f"{one_line(name)} {seconds(spent)}" for name, spent in ranked], 6, "_compile_report.phases")
    overlap = " (phases overlap)" if len(ranked) > 1 else ""
    return Line(f"compile time {seconds(report.compile_time_s)}" + (f": {phases}{overlap}" if phases else ""))


def targets(report: ExplainReport) -> Lines | None:
    """Return what was compiled, observed and left eager and why, where the first line has not said it all."""
    kinds = {
        how: [_target(one) for one in report.targets if one.how == how] for how in ("compiled", "observed", "eager")
    }
    words = {"compiled": "compiled", "observed": "observed, compiled before", "eager": "left eager"}
    untold = {
        how: names for how, names in kinds.items() if how == "eager" or len(names) > MOST_NAMES or _reasons(report, how)
    }
    where = "_compile_report.targets"
    items = tuple(f"{words[how]}: {listed(names, 6, where)}" for how, names in untold.items() if names)
    return Lines(items, where) if items else None


def _reasons(report: ExplainReport, how: str) -> bool:
    return any(one.why for one in report.targets if one.how == how)


def _target(one: Target) -> str:
    return shorten(f"{one.name} ({one.why})" if one.why else one.name, 120)


def notes(report: ExplainReport) -> Lines | None:
    """Return what the reader has to know about the report itself."""
    items = tuple(f"note: {sentence(shorten(note, 320))}" for note in report.notes)
    return Lines(items, "_compile_report.notes") if items else None


def unread(report: ExplainReport) -> Line | None:
    """Return how many trace records could not be read, and why."""
    total = sum(one.count for one in report.unread)
    if not total:
        return None
    reasons = listed([f"{one.kind}: {shorten(one.why, 80)}" for one in report.unread], 3, "_compile_report.unread")
    return Line(f"{total} of the trace records could not be read ({reasons}). What is shown may be incomplete.")


def pointer(report: ExplainReport) -> Pointer | None:
    """Return where the detail is."""
    held = {"guards": report.guards, "graph code": report.graphs, "stacks and torch's own text": report.breaks}
    names = [name for name, there in held.items() if there]
    return Pointer(f"in full: {', '.join(names)} in _compile_report, or folded in the notebook") if names else None


SECTIONS: list[Section] = [
    summary,
    alarms,
    source_view,
    other_own_breaks,
    outside_breaks,
    recompiles,
    graphs,
    backward_graphs,
    sizes,
    guards,
    compile_time,
    targets,
    notes,
    unread,
    pointer,
    folded_fixes,
    folded_breaks,
    folded_sizes,
    folded_guards,
    folded_targets,
    folded_graphs,
]
