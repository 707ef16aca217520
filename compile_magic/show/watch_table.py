"""What a watch shows: a compact table under a cell, and the ledger of the notebook."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence

from compile_magic.model import CompiledFrame
from compile_magic.model import ExplainReport
from compile_magic.model import Recompile
from compile_magic.show.alarms import alarms
from compile_magic.show.blocks import Alarm
from compile_magic.show.blocks import Alarms
from compile_magic.show.blocks import Block
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Line
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Summary
from compile_magic.show.blocks import Table
from compile_magic.show.cellview import source_view
from compile_magic.show.findings import advice
from compile_magic.show.folded import folded_breaks
from compile_magic.show.folded import folded_graphs
from compile_magic.show.folded import folded_guards
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import named
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import seconds
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten
from compile_magic.show.shapes_table import folded_sizes
from compile_magic.show.shapes_table import sizes
from compile_magic.show.summary import MOST_NAMES
from compile_magic.show.table import made_of
from compile_magic.show.table import notes
from compile_magic.show.table import outside_breaks
from compile_magic.show.table import unread
from compile_magic.watch_model import WatchedFunction
from compile_magic.watch_model import WatchReport

CELL_COLUMNS = (
    Column("entries", "right"),
    Column("time", "right"),
    Column("function", code=True),
    Column("where", code=True),
    Column("compiled"),
)
LEDGER_COLUMNS = (
    Column("recompiles", "right"),
    Column("first", "right"),
    Column("entries", "right"),
    Column("breaks", "right"),
    Column("time", "right"),
    Column("function", code=True),
    Column("where", code=True),
)


def cell_blocks(report: ExplainReport, *, opened: Collection[str] = ()) -> tuple[Block, ...]:
    """Return what a watched cell has to say; `opened` holds the keys of the folded blocks to show in full."""
    return made_of(CELL_SECTIONS, report, opened)


def cell_summary(report: ExplainReport) -> Summary:
    """Return what was compiled in the cell, and what it took."""
    parts = (
        counted(report.recompile_count, "recompile") if report.recompile_count else "",
        counted(_first_compiles(report), "first compile") if _first_compiles(report) else "",
        counted(report.graph_break_count, "break site") if report.graph_break_count else "",
        counted(report.skipped_frame_count, "function left in eager", "functions left in eager")
        if report.skipped_frame_count
        else "",
        counted(report.limit_hit_count, "recompile limit reached", "recompile limits reached")
        if report.limit_hit_count
        else "",
        counted(len(report.failures), "failed compile") if report.failures else "",
    )
    what = ", ".join(filter(None, parts)) or "nothing with a graph"
    names = listed([one_line(name) for name in _functions(report)], MOST_NAMES)
    spent = seconds(report.compile_time_s) if report.compile_time_s else ""
    words = " · ".join(filter(None, (f"{what} in this cell", names, spent)))
    return Summary(f"compile_watch: {words}", tone=_tone(report))


def _first_compiles(report: ExplainReport) -> int:
    return sum(not frame.again for frame in report.compiled)


def _functions(report: ExplainReport) -> list[str]:
    names = [again.function for again in report.recompiles] + [hit.function for hit in report.limit_hits]
    names += [frame.function for frame in report.skipped_frames] + [frame.function for frame in report.compiled]
    return list(dict.fromkeys(names))


def _tone(report: ExplainReport) -> str:
    if report.limit_hits or report.skipped_frames or report.failures:
        return "bad"
    return "warn" if report.recompiles or report.breaks else "good"


def compiles(report: ExplainReport) -> Table | None:
    """Return the functions that were compiled: recompiles with their cause first, then first compiles."""
    rows = [*(_again(alike, report) for alike in _alike(report.recompiles)), *_firsts(report)]
    return Table("compiled in this cell", CELL_COLUMNS, tuple(rows), "_compile_report.compiled", 3) if rows else None


def _alike(found: Sequence[Recompile]) -> list[list[Recompile]]:
    """Return the recompiles of one function by the same cause and the same thing together, in order."""
    groups: dict[tuple[str, str, str, str], list[Recompile]] = {}
    for one in found:
        subject = one.failed[0].source if one.failed else one.words
        groups.setdefault((one.function, str(one.location), one.cause, subject), []).append(one)
    return list(groups.values())


def _again(alike: list[Recompile], report: ExplainReport) -> Row:
    last, count = alike[-1], sum(one.count for one in alike)
    frames = {frame.compile_id: frame for frame in report.compiled if frame.again}
    own = [frames[one.compile_id] for one in alike if one.compile_id in frames]
    times = f"recompiled {count}×" if count > 1 else "recompiled"
    # With one cause, every further compile of the function is of it, its parts after breaks included.
    causes = {(one.cause, one.words) for one in report.recompiles if one.function == last.function}
    alone = len(causes) == len({(one.cause, one.words) for one in alike})
    timed = [f for f in frames.values() if f.function == last.function] if alone else own
    spent = seconds(sum(frame.duration_s for frame in timed)) if timed else ""
    cells = (_entries(own[-1] if own else None, report), spent, one_line(last.function), str(last.location), times)
    return Row(cells, (sentence(shorten(_changes(alike), 260)), *advice((), last.fix)))


def _changes(alike: list[Recompile]) -> str:
    first, last = alike[0], alike[-1]
    guard = next((failed.location for failed in first.failed if failed.location is not None), None)
    made = f" (guard made by {guard})" if guard is not None else ""
    words = first.words or f"cause: {first.cause}"
    if len(alike) == 1:
        return f"{words}{made}"
    between = "; then " if alike[1] is last else " … "
    return f"{words}{between}{last.words or last.cause}{made}"


def _firsts(report: ExplainReport) -> list[Row]:
    found: dict[str, list[CompiledFrame]] = {}
    for frame in report.compiled:
        if not frame.again:
            found.setdefault(f"{frame.function} {frame.location}", []).append(frame)
    return [_first(frames, report) for frames in found.values()]


def _first(frames: list[CompiledFrame], report: ExplainReport) -> Row:
    head = frames[0]
    parts = f" in {counted(len(frames), 'part')}" if len(frames) > 1 else ""
    ops = counted(sum(frame.op_count for frame in frames), "op")
    spent = seconds(sum(frame.duration_s for frame in frames))
    what = f"first compile{parts}, {ops}"
    return Row((_entries(head, report), spent, one_line(head.function), str(head.location), what))


def _entries(frame: CompiledFrame | None, report: ExplainReport) -> str:
    if frame is None:
        return ""
    # The limit that was reached in the cell, which may be another than the one that is set after it.
    reached = next((hit.limit for hit in report.limit_hits if hit.function == frame.function), None)
    limit = reached or report.recompile_limit
    return f"{frame.entries} of {limit}" if limit else str(frame.entries)


def remaining(report: ExplainReport) -> Line:
    """Return where the rest is."""
    held = ", ".join(name for name, there in (("guards", report.guards), ("graphs", report.graphs)) if there)
    return Line(f"in full: {f'{held} in ' if held else ''}_compile_report · the notebook so far: %compile_watch report")


CELL_SECTIONS: list[Callable[[ExplainReport], Block | None]] = [
    cell_summary,
    alarms,
    source_view,
    compiles,
    sizes,
    outside_breaks,
    notes,
    unread,
    remaining,
    folded_breaks,
    folded_sizes,
    folded_guards,
    folded_graphs,
]


def ledger_blocks(report: WatchReport, *, opened: Collection[str] = ()) -> tuple[Block, ...]:
    """Return the ledger of the notebook, worst function first."""
    del opened
    made = (ledger_summary(report), ledger_alarms(report), ledger(report), forgotten(report))
    return tuple(block for block in made if block is not None)


def ledger_summary(report: WatchReport) -> Summary:
    """Return the totals."""
    if not report.compile_count and not report.functions:
        return Summary("compile_watch: nothing was compiled since the watch began")
    counts = (
        (report.compile_count, "compile", ""),
        (report.recompile_count, "of them a recompile", "of them recompiles"),
        (report.graph_break_count, "break site", ""),
        (report.skipped_frame_count, "function left in eager", "functions left in eager"),
        (report.limit_hit_count, "recompile limit reached", "recompile limits reached"),
        (report.failure_count, "failed compile", ""),
    )
    told = [counted(count, *words) for count, *words in counts if count]
    functions = counted(len(report.functions) + report.forgotten_functions, "function")
    words = " · ".join((", ".join(told), functions, seconds(report.compile_time_s)))
    bad = report.limit_hit_count or report.skipped_frame_count or report.failure_count
    return Summary(f"compile_watch: {words}", tone="bad" if bad else "warn" if report.recompile_count else "good")


def ledger_alarms(report: WatchReport) -> Alarms | None:
    """Return the functions that run in eager since they reached their limit."""
    items = tuple(Alarm(_gone(one)) for one in report.functions if one.limit_hit)
    return Alarms(items, "functions") if items else None


def _gone(one: WatchedFunction) -> str:
    since = f" in {one.limit_hit}"
    limit = f" of {one.limit} compiled versions" if one.limit else ""
    cells = listed([f"In[{number}]" for number in one.unwatched], 6)
    calls = f" Called since in {cells}: torch says nothing of these calls." if cells else ""
    return f"{named(one.function)} reached its limit{limit}{since} and runs in eager since, silently.{calls}"


def ledger(report: WatchReport) -> Table | None:
    """Return a row for each function, with its causes."""
    rows = tuple(_row(one) for one in report.functions)
    return Table("functions, worst first", LEDGER_COLUMNS, rows, "functions", 3) if rows else None


def _row(one: WatchedFunction) -> Row:
    entries = f"{one.entries} of {one.limit}" if one.limit else str(one.entries)
    counts = (str(one.recompiles), str(one.compiles), entries, str(one.breaks), seconds(one.compile_time_s))
    causes = ", ".join(f"{count}× {cause.replace('_', ' ')}" for cause, count in one.causes.items())
    newest = f"; the newest: {one.last[-1]}" if one.last else ""
    below = (sentence(shorten(f"{causes}{newest}", 260)),) if causes else ()
    skipped = (f"ran wholly in eager {counted(one.skipped, 'time')}.",) if one.skipped else ()
    return Row((*counts, one_line(one.function), str(one.location)), (*below, *skipped))


def forgotten(report: WatchReport) -> Line | None:
    """Return what was left out to keep the ledger small."""
    parts = (
        counted(report.forgotten_functions, "function") if report.forgotten_functions else "",
        counted(report.forgotten_cells, "cell") if report.forgotten_cells else "",
    )
    kept = " and ".join(filter(None, parts))
    return Line(f"{kept} left out of the ledger to keep it small; the totals count them.") if kept else None
