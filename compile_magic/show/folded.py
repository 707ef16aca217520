"""The detail of a report that stays folded: fixes, stacks and torch's own text, guards, graph code, targets."""

from __future__ import annotations

from dataclasses import replace

from compile_magic.model import ExplainReport
from compile_magic.model import Fix
from compile_magic.model import Graph
from compile_magic.model import GraphBreak
from compile_magic.model import Guard
from compile_magic.model import Location
from compile_magic.show.blocks import Code
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Table
from compile_magic.show.findings import fix_words
from compile_magic.show.findings import label
from compile_magic.show.paths import familiar
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import shorten

GUARD_COLUMNS = (
    Column("kind", code=True),
    Column("source", code=True),
    Column("expression", code=True),
    Column("words"),
)
TARGET_COLUMNS = (Column("how"), Column("name", code=True), Column("why"))


def folded_fixes(report: ExplainReport) -> Folded | None:
    """Return the fixes that are longer than a line."""
    found = [(f"breaks[{at}]", one.fix) for at, one in enumerate(report.breaks)]
    found += [(f"recompiles[{at}]", one.fix) for at, one in enumerate(report.recompiles)]
    parts = tuple(_fix(where, fix) for where, fix in found if fix is not None and "\n" in fix.snippet.strip())
    return Folded("fixes", counted(len(parts), "fix in full", "fixes in full"), parts) if parts else None


def _fix(where: str, fix: Fix) -> Code:
    return Code(fix_words(fix), fix.snippet, f"_compile_report.{where}.fix.snippet")


def folded_breaks(report: ExplainReport) -> Folded | None:
    """Return each break with its explanation, all hints, its stack and torch's own text, and each failure."""
    parts = [_break(at, found) for at, found in enumerate(report.breaks)]
    parts += [
        Code(f"{one.location} · {one_line(one.kind)}", one.raw or one.reason, f"_compile_report.failures[{at}].raw")
        for at, one in enumerate(report.failures)
    ]
    parts += [
        Code(
            f"{one.compile_id} · recompile of {one_line(one.function)}",
            one.raw,
            f"_compile_report.recompiles[{at}].raw",
        )
        for at, one in enumerate(report.recompiles)
        if one.raw
    ]
    return Folded("breaks", "stacks and torch's own text", _familiar(parts, report)) if parts else None


def _break(at: int, found: GraphBreak) -> Code:
    title = " · ".join(filter(None, (str(found.location), label(found), found.gb_id)))
    hints = "\n".join(f"- {one_line(hint)}" for hint in (*found.advice, *found.hints))
    pieces = (found.kind, found.reason, found.explanation, hints, _stack(found.stack), found.url, found.raw)
    return Code(title, "\n\n".join(filter(None, pieces)), f"_compile_report.breaks[{at}]")


def _stack(stack: tuple[Location, ...]) -> str:
    lines = [f"  {where} in {where.function or '?'}: {one_line(where.code)}" for where in stack]
    return "\n".join(["stack, the cell first:", *lines]) if lines else ""


def folded_guards(report: ExplainReport) -> Folded | None:
    """Return a table of guards for each compiled frame, those that the user can change first."""
    ids = dict.fromkeys(guard.compile_id for guard in report.guards)
    parts = tuple(_guard_table(one, [guard for guard in report.guards if guard.compile_id == one]) for one in ids)
    return Folded("guards", counted(len(report.guards), "guard"), parts) if parts else None


def _guard_table(compile_id: str, found: list[Guard]) -> Table:
    rows = tuple(_guard_row(guard) for guard in sorted(found, key=lambda guard: guard.internal))
    return Table(f"{compile_id}: {counted(len(rows), 'guard')}", GUARD_COLUMNS, rows, more="_compile_report.guards")


def _guard_row(guard: Guard) -> Row:
    made = f"made at {guard.location}" if guard.location is not None else ""
    words = "; ".join(filter(None, (one_line(guard.words) or ("internal" if guard.internal else ""), made)))
    return Row((guard.kind, one_line(guard.source), one_line(guard.expression), words))


def folded_graphs(report: ExplainReport) -> Folded | None:
    """Return the code of every graph, forward and backward, with the shapes of what goes in."""
    parts = [_graph("graphs", at, graph) for at, graph in enumerate(report.graphs)]
    parts += [_graph("backward_graphs", at, graph) for at, graph in enumerate(report.backward_graphs)]
    return Folded("graphs", f"code of {counted(len(parts), 'graph')}", _familiar(parts, report)) if parts else None


def _familiar(parts: list[Code], report: ExplainReport) -> tuple[Code, ...]:
    return tuple(replace(part, text=familiar(part.text, report.sources)) for part in parts)


def _graph(field: str, at: int, graph: Graph) -> Code:
    shapes = ", ".join(f"{name}: {shape}" for name, shape in graph.shapes.items())
    head = f"# {shorten(shapes, 400)}\n" if shapes else ""
    kind = "backward of " if field == "backward_graphs" else ""
    title = f"{graph.compile_id} · {kind}{one_line(graph.function)} · {counted(graph.op_count, 'op')}"
    return Code(title, head + (graph.code or "# no code was recorded"), f"_compile_report.{field}[{at}].code")


def folded_targets(report: ExplainReport) -> Folded | None:
    """Return each callable of the cell with what was done with it and why."""
    rows = tuple(Row((one.how, one_line(one.name), shorten(one.why, 200))) for one in report.targets)
    table = Table("", TARGET_COLUMNS, rows, more="_compile_report.targets")
    return (
        Folded("targets", counted(len(rows), "callable of the cell", "callables of the cell"), (table,))
        if rows
        else None
    )
