"""The report types: frozen values in torch's own words, without tensors and without user objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from compile_magic.errors import CompileBudgetExceeded
from compile_magic.report import Report


@dataclass(frozen=True)
class Location:
    """A line of source. `line` is what the editor's gutter shows, `cell` the execution count of a notebook cell."""

    file: str
    line: int
    cell: int | None = None
    code: str = ""
    function: str = ""

    def __str__(self) -> str:
        if self.cell is not None:
            return f"Cell In[{self.cell}], line {self.line}"
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True)
class Target:
    """A callable of the cell and what was done with it.

    `how` is "compiled" (we compiled it), "observed" (it was compiled already, we only listened) or "eager"
    (left alone, `why` says so).
    """

    name: str
    how: str
    why: str = ""


@dataclass(frozen=True)
class SourceLines:
    """The user's own lines around the findings, numbered as the editor numbers them."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    cell: int | None = None


@dataclass(frozen=True)
class CompiledFrame:
    """One compile that gave code: of a function, or of a part of it after a graph break.

    `location` is the function's definition, `entries` the number of its compiled versions then, `duration_s` what it
    took in seconds.
    """

    compile_id: str
    function: str
    location: Location
    entries: int = 1
    duration_s: float = 0.0
    op_count: int = 0
    after_break: bool = False
    again: bool = False


@dataclass(frozen=True)
class Graph:
    """An FX graph with at least one op that Dynamo handed to a backend. An op is a call node of any kind."""

    compile_id: str
    function: str
    location: Location
    op_count: int
    ops: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    after_break: bool = False


@dataclass(frozen=True)
class Fix:
    """A change that would remove a finding. `status`: "verified", "failed" or "not tried"."""

    title: str
    kind: str
    snippet: str = ""
    status: str = "not tried"
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    outputs_equal: bool | None = None


@dataclass(frozen=True)
class GraphBreak:
    """A break site: one user location and kind. `count` is how often torch recorded it.

    `hints` are torch's own, `advice` is ours. `owner` says whose line it is: "your code", "library" or "compiler".
    `stack` runs from the cell to the innermost frame. `cost` is a lower bound in seconds a call, None where it was not
    measured.
    """

    location: Location
    function: str
    kind: str
    reason: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    gb_id: str = ""
    url: str = ""
    stack: tuple[Location, ...] = ()
    count: int = 1
    in_loop: bool = False
    skipped: bool = False
    owner: str = "your code"
    cost: float | None = None
    fix: Fix | None = None
    raw: str = ""
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class SkippedFrame:
    """A function that ran in eager although it was to be compiled: wholly, or after the graph break on `after_line`."""

    function: str
    location: Location
    reason: str
    cause: GraphBreak | None = None
    count: int = 1
    after_line: int | None = None


@dataclass(frozen=True)
class Guard:
    """A condition that is checked before a compiled frame is used again."""

    compile_id: str
    kind: str
    source: str
    expression: str
    location: Location | None = None
    words: str = ""
    internal: bool = False


@dataclass(frozen=True)
class Dimension:
    """One dimension of a tensor that goes into a graph, such as `x.size(0)`.

    `size` is its size in that compile. `state`: "static", "0/1" (always a constant), "dynamic", "automatic" (dynamic
    since a size changed), "marked" (by `mark_dynamic`) or "specialised" (a symbol made a constant, at `location`).
    """

    compile_id: str
    source: str
    index: int
    size: str
    state: str
    words: str = ""
    location: Location | None = None


@dataclass(frozen=True)
class FailedGuard:
    """The guard of one cache entry (`entry`, a compile id) that didn't hold, with what it expected and found."""

    entry: str
    expression: str
    source: str = ""
    expected: str = ""
    actual: str = ""
    location: Location | None = None


@dataclass(frozen=True)
class Recompile:
    """A further compile of a function that had a valid entry; resume functions share the cause of their frame."""

    compile_id: str
    function: str
    location: Location
    failed: tuple[FailedGuard, ...] = ()
    cause: str = "unknown"
    words: str = ""
    count: int = 1
    fix: Fix | None = None
    raw: str = ""


@dataclass(frozen=True)
class LimitHit:
    """A compile refused at the recompile limit: from there on the function is silently eager."""

    function: str
    location: Location
    limit: int | None
    reason: str = ""
    failed: tuple[FailedGuard, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A compile that failed with an error. `ran_eager`: that part then ran in eager, and the cell went on as usual."""

    function: str
    location: Location
    kind: str
    reason: str
    hints: tuple[str, ...] = ()
    ran_eager: bool = False
    raw: str = ""
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unread:
    """Trace records of one kind that could not be read, with the reason of the first."""

    kind: str
    count: int
    why: str


@dataclass(frozen=True)
class ExplainReport(Report):
    """What torch.compile made of a cell or a call. All times are in seconds.

    `mode` is "calls", "named", "cell" or "observed"; `backward_graphs` are those that AOTAutograd made of the
    graphs; `phases` are wall times by torch's own names, not disjoint: "dynamo" is the whole of a frame.
    """

    mode: str
    targets: tuple[Target, ...]
    backend: str
    graph_count: int = 0
    graph_break_count: int = 0
    op_count: int = 0
    recompile_count: int = 0
    skipped_frame_count: int = 0
    limit_hit_count: int = 0
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    skipped_frames: tuple[SkippedFrame, ...] = ()
    guards: tuple[Guard, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    limit_hits: tuple[LimitHit, ...] = ()
    failures: tuple[Failure, ...] = ()
    backward_graphs: tuple[Graph, ...] = ()
    compile_time_s: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str | None = None
    torch_version: str = ""
    sources: tuple[SourceLines, ...] = ()
    unread: tuple[Unread, ...] = ()
    compiled: tuple[CompiledFrame, ...] = ()
    recompile_limit: int | None = None
    dimensions: tuple[Dimension, ...] = ()

    def check(
        self, *, max_breaks: int | None = None, max_recompiles: int | None = None, max_graphs: int | None = None
    ) -> None:
        """Raise CompileBudgetExceeded if there are more than the given number of any of these.

        So it does if the call ended with an error: then the figures are not those of a whole call.
        A function left wholly in eager counts as a break: it is the costlier form of one.
        """
        found = (
            ("graph break", len(self.breaks) + self._unexplained_skips(), max_breaks),
            ("recompile", self.recompile_count + self.limit_hit_count, max_recompiles),
            ("graph", self.graph_count, max_graphs),
        )
        over = [_over(*each) for each in found if each[2] is not None and each[1] > each[2]]
        over += [f"it ended with an error: {self.error}"] if self.error else []
        if over:
            raise CompileBudgetExceeded("; ".join(over))

    def _unexplained_skips(self) -> int:
        return sum(frame.cause is None for frame in self.skipped_frames)


def _over(name: str, count: int, most: int | None) -> str:
    return f"{count} {name}{'s' * (count != 1)}, allowed {'is' if most == 1 else 'are'} {most}"
