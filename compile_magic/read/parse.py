"""Turn a capture into what happened. The same capture gives the same report, without torch and without a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from compile_magic.model import CompiledFrame
from compile_magic.model import ExplainReport
from compile_magic.model import Failure
from compile_magic.model import GraphBreak
from compile_magic.model import Guard
from compile_magic.model import LimitHit
from compile_magic.model import Location
from compile_magic.model import Recompile
from compile_magic.model import SkippedFrame
from compile_magic.read import breaks
from compile_magic.read import graphs
from compile_magic.read import outcomes
from compile_magic.read import recompiles
from compile_magic.read import times
from compile_magic.read.compiles import Compile
from compile_magic.read.dimensions import dimensions
from compile_magic.read.excerpts import excerpts
from compile_magic.read.frames import MACHINERY
from compile_magic.read.frames import USERS
from compile_magic.read.frames import Places
from compile_magic.read.frames import folded
from compile_magic.read.graphs import compiled_frame
from compile_magic.read.guards import Reader
from compile_magic.read.records import hear
from compile_magic.read.remarks import differences
from compile_magic.read.remarks import remarks
from compile_magic.read.shapes import shape_guards
from compile_magic.trace import Capture

Key = tuple[int, str]


def parse(capture: Capture) -> ExplainReport:
    """Return what torch.compile made of the captured cell.

    Nothing is raised: what can't be read is counted in `unread`.
    """
    read = _Reading(capture)
    forward = tuple(graph for each in read.counted for graph in graphs.forward(each, read.places))
    return ExplainReport(
        mode=capture.mode,
        targets=capture.targets,
        backend=capture.backend,
        graph_count=len(forward),
        graph_break_count=len(read.breaks),
        op_count=sum(graph.op_count for graph in forward),
        recompile_count=sum(each.count for each in read.recompiles),
        skipped_frame_count=len(read.skipped_frames),
        limit_hit_count=len(read.limit_hits),
        graphs=forward,
        breaks=read.breaks,
        skipped_frames=read.skipped_frames,
        guards=tuple(read.guards()),
        recompiles=read.recompiles,
        limit_hits=read.limit_hits,
        failures=read.failures,
        backward_graphs=tuple(graph for each in read.counted for graph in graphs.backward(each, read.places)),
        compile_time_s=times.seconds(read.metrics()),
        phases=times.phases(read.metrics()),
        notes=(*capture.notes, *read.notes()),
        error=capture.error,
        torch_version=capture.torch_version,
        sources=excerpts(read.findings(), read.places),
        unread=read.heard.unread,
        compiled=tuple(read.compiled()),
        recompile_limit=capture.recompile_limit,
        dimensions=tuple(size for each in read.counted if each.op_counts for size in dimensions(each, read.places)),
    )


class _Reading:
    """One capture while it is read; each part of the report is worked out once."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.heard = hear(capture.records)
        self.places = Places(capture.roots, capture.sources)
        self.places.learn(self._files())
        now = (each for each in self.heard if each.order >= capture.past)
        self.compiles = [each for each in now if not self._is_machinery(each)]
        self.reasons = recompiles.Reasons(self.heard, self.places)

    def _files(self) -> Iterator[str]:
        yield from (source.file for source in self.capture.sources)
        for compiled in self.heard:
            yield from (frame.file for frame in compiled.stack)
            yield from (frame.file for frame in (compiled.graph.frames if compiled.graph else ()))
            yield from (frame.file for _, text in compiled.breaks for frame in text.stack)

    def _is_machinery(self, compiled: Compile) -> bool:
        """Return whether a compile without a graph is the notebook's: a print in a live kernel compiles 17 of them."""
        frame = compiled.frame
        if frame is None or compiled.op_counts or self.places.is_user(frame.file):
            return False
        owners = [self.places.owner(each.file) for each in compiled.stack] or [self.places.owner(frame.file)]
        after_user = owners[len(owners) - owners[::-1].index("user") :] if "user" in owners else owners[-1:]
        return owners[-1] in MACHINERY or "notebook" in after_user

    # --- which compiles count ----------------------------------------------------------------------------------------

    @cached_property
    def foreign(self) -> frozenset[Key]:
        """Compiles in an intercepted call that were not made by its counting backend."""
        inside = (each for each in self.compiles if each.call is not None and each.code is not None)
        return frozenset(each.key for each in inside if not each.handed)

    @cached_property
    def own(self) -> list[Compile]:
        """The compiles that the cell's targets led to."""
        return [each for each in self.compiles if each.key not in self.foreign]

    @cached_property
    def counted(self) -> list[Compile]:
        """Those that gave a graph, wherever their code lies, and those of the user's and his packages' functions."""
        return [each for each in self.own if each.op_counts or self._in_user_code(each)]

    def _in_user_code(self, compiled: Compile) -> bool:
        return compiled.frame is None or self.places.owner(compiled.frame.file) in USERS

    def compiled(self) -> Iterator[CompiledFrame]:
        """Return the compiles that gave code."""
        for each in self.counted:
            if each.frame is not None and not each.fail_type and each.started:
                yield compiled_frame(each, each.frame, self.places)

    def metrics(self) -> Iterator[Mapping[str, Any]]:
        """Return torch's metrics of each compile and of the backward compiles that belong to it."""
        for compiled in self.own:
            yield compiled.metrics
            yield from compiled.backward_metrics

    def guards(self) -> Iterator[Guard]:
        """Return the guards of the frames that gave a graph, and those that were live before the cell."""
        reader = Reader(self.places)
        for compiled in self.counted:
            if compiled.op_counts:
                yield from reader.guards(compiled.compile_id, compiled.leaves)
                yield from shape_guards(compiled, self.places)
        for compile_id, leaves in self.heard.live:
            yield from reader.guards(compile_id, leaves)

    # --- what happened -----------------------------------------------------------------------------------------------

    @cached_property
    def _break_events(self) -> list[tuple[int, Key, GraphBreak]]:
        found = ((order, each.key, seen) for each in self.compiles for order, seen in self._breaks_of(each))
        return sorted(found, key=lambda event: event[0])

    def _breaks_of(self, compiled: Compile) -> Iterator[tuple[int, GraphBreak]]:
        for order, text in compiled.breaks:
            yield order, breaks.graph_break(text, self.places, compiled.frame)
        unrecorded = outcomes.unrecorded_break(compiled, self.places)
        if unrecorded is not None:
            yield compiled.failed_at or compiled.order, unrecorded

    @cached_property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """The break sites."""
        return breaks.sites(found for _, _, found in self._break_events)

    @cached_property
    def _failed(self) -> list[Compile]:
        return [each for each in self.compiles if outcomes.is_failure(each, self.capture)]

    @cached_property
    def skipped_frames(self) -> tuple[SkippedFrame, ...]:
        """The functions that ran wholly in eager."""
        by_site = {breaks.site(each): each for each in self.breaks}
        causes = {key: by_site[breaks.site(found)] for _, key, found in self._break_events}
        skips = [each for each in self.counted if outcomes.is_skip(each, self.places) and each not in self._failed]
        return outcomes.skipped_frames(skips, causes, self.places)

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The compiles that ended with an error."""
        return tuple(outcomes.failures(self._failed, self.heard.lone_calls, self.places))

    @cached_property
    def recompiles(self) -> tuple[Recompile, ...]:
        """The further compiles, by root."""
        again = (self.reasons.event(each) for each in self.counted if each.reasons and each.started)
        return recompiles.recompiles(again, self.places)

    @cached_property
    def limit_hits(self) -> tuple[LimitHit, ...]:
        """The refused compiles, one for each function."""
        namer = recompiles.Namer(self.heard.logs, self.places)
        refused = [each for each in self.compiles if recompiles.is_limit(each)]
        return tuple(recompiles.limit_hits(refused, self.reasons, namer, self.capture.recompile_limit))

    def findings(self) -> Iterator[Location]:
        """Return the places that the report speaks of."""
        yield from (each.location for each in self.skipped_frames)
        yield from (each.location for each in self.breaks)
        yield from (each.location for each in self.recompiles)
        yield from (each.location for each in self.limit_hits)
        yield from (each.location for each in self.failures)
        yield from (guard.location for each in self.recompiles for guard in each.failed if guard.location is not None)

    def notes(self) -> Iterator[str]:
        """Return where torch's sources disagree, and what was left out."""
        left_out = {folded(each.frame.name) for each in self.compiles if each.key in self.foreign and each.frame}
        if left_out:
            names = ", ".join(sorted(left_out))
            yield f"{names}: compiled inside the call by a backend of its own; left out of the counts."
        for compiled in self.counted:
            yield from graphs.disagreements(compiled)
        ops = {name for each in self.own for handed in each.handed for name in handed}
        yield from differences(ops | self.heard.inputs, self.heard.traced, self.heard.callers, self.capture.error)
        yield from remarks(self.heard.logs)
        for missed in self.heard.unread:
            records = f"{missed.count} {missed.kind} record{'s' * (missed.count != 1)}"
            yield f"{records} could not be read: {missed.why}"
