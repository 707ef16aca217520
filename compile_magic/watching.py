"""Listen to what torch compiles while the user works, without compiling anything differently."""

from __future__ import annotations

import platform
from collections import OrderedDict
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.ledger import Ledger
from compile_magic.model import CompiledFrame
from compile_magic.model import ExplainReport
from compile_magic.read.merge import merged
from compile_magic.read.parse import parse
from compile_magic.run.capture import Recorder
from compile_magic.run.files import roots
from compile_magic.run.sources import CellOf
from compile_magic.run.sources import cell_by_name
from compile_magic.run.sources import collect
from compile_magic.trace import Capture
from compile_magic.trace import Record
from compile_magic.watch_model import WatchedFunction
from compile_magic.watch_model import WatchReport

# What later recompiles and refused compiles are explained with: which function a compile was of, and its guards.
_REMEMBERED = frozenset({"dynamo_start", "dynamo_cpp_guards_str", "compilation_metrics", "create_symbol"})
# Bounds on what is remembered: characters of guards, and records of one cell before they are digested.
MOST_CHARACTERS = 8_000_000
MOST_RECORDS = 4_000


class Watch:
    """Hears every compile of the user's own, and adds it up.

    `take` gives what was heard since the last time as a report, `report` the ledger of everything. The attributes of
    a `WatchReport` can be read from a watch as well: they are those of its ledger now.
    """

    def __init__(self, *, cell_of: CellOf = cell_by_name, only: Collection[str] = ()) -> None:
        self._cell_of = cell_of
        self._only = frozenset(only)
        self._recorder = Recorder(outside_only=True, overflow=self._digest, most=MOST_RECORDS)
        self._past: OrderedDict[tuple[int, str], list[Record]] = OrderedDict()
        self._characters = 0
        self._pending: list[ExplainReport] = []
        self._ledger = Ledger()
        self._on = False

    @property
    def on(self) -> bool:
        """Whether the watch hears anything now."""
        return self._on

    def only(self, names: Collection[str]) -> None:
        """Listen to the functions of these names from now on, to all if there are none."""
        self._digest()
        self._only = frozenset(names)

    def start(self) -> None:
        """Begin to listen; does nothing if it listens already."""
        if not self._on:
            self._on = True
            self._recorder.start(logs=True)

    def stop(self) -> None:
        """Stop listening; the ledger stays."""
        self._on = False
        self._recorder.stop()

    def clear(self) -> None:
        """Forget the ledger, but not which functions were compiled."""
        self.take()
        self._ledger = Ledger()

    def take(self, where: str = "") -> ExplainReport | None:
        """Return what was compiled, refused or broken since the last time, None if nothing was."""
        self._digest()
        reports, self._pending = self._pending, []
        if not reports:
            return None
        report = merged(reports)
        self._ledger.add(report, where)
        return report

    def _digest(self) -> None:
        records = self._recorder.drain()
        if not records:
            return
        report = self._filtered(parse(self._capture(records)))
        self._remember(records)
        if _says_anything(report):
            self._pending.append(report)

    def _capture(self, records: tuple[Record, ...]) -> Capture:
        frames = {(record.epoch, record.compile_id.rpartition("/")[0]) for record in records}
        past = [r for key, kept in self._past.items() if (key[0], key[1].rpartition("/")[0]) in frames for r in kept]
        return Capture(
            mode="watched",
            backend="",
            records=(*past, *records),
            past=len(past),
            sources=collect((*past, *records), self._cell_of),
            roots=roots(),
            recompile_limit=_torch.recompile_limit(),
            torch_version=torch.__version__,
            python_version=platform.python_version(),
        )

    def _remember(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.kind in _REMEMBERED and record.compile_id:
                self._past.setdefault((record.epoch, record.compile_id), []).append(record)
                self._characters += len(record.payload or "")
        while self._characters > MOST_CHARACTERS and self._past:
            _, oldest = self._past.popitem(last=False)
            self._characters -= sum(len(record.payload or "") for record in oldest)

    def _filtered(self, report: ExplainReport) -> ExplainReport:
        return only_functions(report, self._only) if self._only else report

    # --- the ledger --------------------------------------------------------------------------------------------------

    def note_calls(self, cell: int, names: Iterable[str], compiled: Iterable[CompiledFrame]) -> None:
        """Note that a cell calls functions that torch refuses to compile: it says nothing of these calls."""
        self._ledger.note_calls(cell, names, (frame.function for frame in compiled))

    def past_their_limit(self) -> set[str]:
        """Return the names of the functions that torch refuses to compile."""
        return self._ledger.past_their_limit()

    def report(self) -> WatchReport:
        """Return the ledger of everything heard so far, with what came since the last cell."""
        self.take()
        return self._ledger.report()

    def __repr__(self) -> str:
        report = self.report()
        figures = f"compiles: {report.compile_count}, recompiles: {report.recompile_count}"
        return f"<watch, {'on' if self.on else 'off'}, {figures}, limits reached: {report.limit_hit_count}>"

    @property
    def functions(self) -> tuple[WatchedFunction, ...]:
        """The functions that were compiled, worst first."""
        return self.report().functions

    @property
    def cells(self) -> tuple[ExplainReport, ...]:
        """What was heard, cell by cell, or call of `take` by call."""
        return self.report().cells

    @property
    def compile_count(self) -> int:
        """How many compiles gave code."""
        return self.report().compile_count

    @property
    def recompile_count(self) -> int:
        """How many compiles were further ones of a function."""
        return self.report().recompile_count

    @property
    def limit_hit_count(self) -> int:
        """How many functions reached their recompile limit."""
        return self.report().limit_hit_count


def only_functions(report: ExplainReport, names: Collection[str]) -> ExplainReport:
    """Return the part of a report that speaks of the functions of these names."""
    kept: dict[str, Any] = {
        name: tuple(one for one in getattr(report, name) if one.function in names)
        for name in ("graphs", "breaks", "skipped_frames", "recompiles", "limit_hits", "failures", "compiled")
    }
    return replace(
        report,
        **kept,
        graph_count=len(kept["graphs"]),
        op_count=sum(graph.op_count for graph in kept["graphs"]),
        graph_break_count=len(kept["breaks"]),
        skipped_frame_count=len(kept["skipped_frames"]),
        recompile_count=sum(again.count for again in kept["recompiles"]),
        limit_hit_count=len(kept["limit_hits"]),
        compile_time_s=sum(frame.duration_s for frame in kept["compiled"]),
    )


def _says_anything(report: ExplainReport) -> bool:
    told = (report.graphs, report.breaks, report.skipped_frames, report.recompiles, report.limit_hits, report.failures)
    return any(told) or bool(report.unread)


@contextmanager
def watch(*, only: Collection[str] = ()) -> Iterator[Watch]:
    """Listen to what torch compiles inside a `with` block.

        with compile_magic.watch() as log:
            train()
        assert log.recompile_count == 0

    Args:
        only: names of the functions to listen to; all, if there are none.
    """
    listening = Watch(only=only)
    listening.start()
    try:
        yield listening
    finally:
        listening.take()
        listening.stop()
