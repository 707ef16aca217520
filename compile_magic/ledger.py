"""The ledger of a watch: adds the reports of cells up by function, in bounded memory, and keeps the worst."""

from __future__ import annotations

from collections import Counter
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace

from compile_magic.model import ExplainReport
from compile_magic.model import Location
from compile_magic.watch_model import WatchedFunction
from compile_magic.watch_model import WatchReport

# Functions and cells that are kept, and of each function the newest recompiles and the cells that call it in vain.
MOST_FUNCTIONS = 500
MOST_CELLS = 100
MOST_WORDS = 3
MOST_UNWATCHED = 20

_Key = tuple[str, int, str]


@dataclass
class _Entry:
    function: str
    location: Location
    limit: int | None
    compiles: int = 0
    recompiles: int = 0
    breaks: int = 0
    skipped: int = 0
    failures: int = 0
    entries: int = 0
    limit_hit: str = ""
    compile_time_s: float = 0.0
    unwatched: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_UNWATCHED))
    causes: Counter[str] = field(default_factory=Counter)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_WORDS))

    def badness(self) -> tuple[bool, int, int, int, float]:
        """Return what functions are ranked by: silent eager first, then what costs most."""
        silent = self.failures + self.skipped
        return bool(self.limit_hit), self.recompiles, silent, self.breaks, self.compile_time_s

    def value(self) -> WatchedFunction:
        """Return the entry as a value."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        causes = dict(self.causes.most_common())
        return WatchedFunction(**plain, causes=causes, last=tuple(self.last), unwatched=tuple(self.unwatched))


_PLAIN = (
    "function", "location", "limit", "compiles", "recompiles", "breaks", "skipped", "failures", "entries",
    "limit_hit", "compile_time_s",
)  # fmt: skip


class Ledger:
    """Sums of what was compiled, by function."""

    def __init__(self) -> None:
        self._entries: dict[_Key, _Entry] = {}
        self._cells: deque[ExplainReport] = deque(maxlen=MOST_CELLS)
        self._totals: Counter[str] = Counter()
        self._seconds = 0.0
        self._forgotten = 0
        self._torch_version = ""

    def add(self, report: ExplainReport, where: str) -> None:
        """Add what was heard in one cell. `where` names the cell, for the place of a limit hit."""
        self._torch_version = report.torch_version
        self._seconds += report.compile_time_s
        self._totals.update({name: count(report) for name, count in _TOTALS.items()})
        self._cells.append(_slim(report))
        for add in (_add_compiles, _add_recompiles, _add_limits, _add_others):
            add(self._entry, report, where)
        self._shrink()

    def _entry(self, function: str, location: Location, limit: int | None = None) -> _Entry:
        key = (location.file, location.line, function)
        if key not in self._entries:
            self._entries[key] = _Entry(function, location, limit)
        entry = self._entries[key]
        entry.limit = limit if limit is not None else entry.limit
        return entry

    def _shrink(self) -> None:
        if len(self._entries) <= 2 * MOST_FUNCTIONS:
            return
        ranked = sorted(self._entries.items(), key=lambda item: item[1].badness(), reverse=True)
        self._forgotten += len(ranked) - MOST_FUNCTIONS
        self._entries = dict(ranked[:MOST_FUNCTIONS])

    def note_calls(self, cell: int, names: Iterable[str], compiled: Iterable[str]) -> None:
        """Note that a cell calls functions past their limit: torch says nothing of these calls."""
        silent = set(names) - set(compiled)
        for entry in self._entries.values():
            if entry.limit_hit and entry.function in silent:
                entry.unwatched.append(cell)

    def past_their_limit(self) -> set[str]:
        """Return the names of the functions whose compiles torch refuses."""
        return {entry.function for entry in self._entries.values() if entry.limit_hit}

    def report(self) -> WatchReport:
        """Return the ledger as a value, worst function first."""
        ranked = sorted(self._entries.values(), key=_Entry.badness, reverse=True)
        kept = tuple(entry.value() for entry in ranked[:MOST_FUNCTIONS])
        return WatchReport(
            functions=kept,
            cells=tuple(self._cells),
            compile_time_s=self._seconds,
            forgotten_functions=self._forgotten + len(ranked) - len(kept),
            forgotten_cells=self._totals["cells"] - len(self._cells),
            torch_version=self._torch_version,
            **{name: self._totals[name] for name in _TOTALS if name != "cells"},
        )


_Find = Callable[..., _Entry]

_TOTALS: dict[str, Callable[[ExplainReport], int]] = {
    "cells": lambda _: 1,
    "compile_count": lambda report: len(report.compiled),
    "recompile_count": lambda report: report.recompile_count,
    "graph_break_count": lambda report: report.graph_break_count,
    "skipped_frame_count": lambda report: report.skipped_frame_count,
    "limit_hit_count": lambda report: report.limit_hit_count,
    "failure_count": lambda report: len(report.failures),
}


def _add_compiles(entry_of: _Find, report: ExplainReport, where: str) -> None:
    for frame in report.compiled:
        entry = entry_of(frame.function, frame.location, report.recompile_limit)
        entry.compiles += not frame.again
        entry.recompiles += frame.again
        entry.entries = max(entry.entries, frame.entries)
        entry.compile_time_s += frame.duration_s


def _add_recompiles(entry_of: _Find, report: ExplainReport, where: str) -> None:
    for again in report.recompiles:
        entry = entry_of(again.function, again.location)
        entry.causes[again.cause] += again.count
        entry.last.append(again.words or again.cause)


def _add_limits(entry_of: _Find, report: ExplainReport, where: str) -> None:
    for hit in report.limit_hits:
        entry = entry_of(hit.function, hit.location, hit.limit)
        entry.limit_hit = entry.limit_hit or where


def _add_others(entry_of: _Find, report: ExplainReport, where: str) -> None:
    for skipped in report.skipped_frames:
        entry_of(skipped.function, skipped.location).skipped += skipped.count
    by_name = {frame.function: frame.location for frame in report.compiled}
    for found in report.breaks:
        if found.function in by_name and not found.skipped:
            entry_of(found.function, by_name[found.function]).breaks += 1
    for failure in report.failures:
        entry_of(failure.function, by_name.get(failure.function, failure.location)).failures += 1


def _slim(report: ExplainReport) -> ExplainReport:
    """Return the report without what makes it large: the newest cell's report has it in full."""
    graphs = tuple(replace(graph, code="", shapes={}) for graph in report.graphs)
    recompiles = tuple(replace(again, raw="") for again in report.recompiles)
    breaks = tuple(replace(found, raw="") for found in report.breaks)
    return replace(
        report,
        guards=(),
        graphs=graphs,
        backward_graphs=(),
        breaks=breaks,
        recompiles=recompiles,
        sources=(),
        dimensions=(),
    )
