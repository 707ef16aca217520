"""What `%compile_watch` reports: a ledger of the functions that torch compiled, and the cells in which it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

from compile_magic.model import ExplainReport
from compile_magic.model import Location
from compile_magic.report import Report


@dataclass(frozen=True)
class WatchedFunction:
    """One function's compiles since the watch began.

    `compiles` counts first compiles and those of its parts after graph breaks, `recompiles` the further ones,
    `entries` is the largest number of compiled versions that one of its frames had, `limit` the number that torch
    allows. `limit_hit` names the cell or place of the first refused compile, "" if there was none; `unwatched` are the
    cells since then that call it, of which torch says nothing any more. `causes` maps a cause to how often it came,
    `last` holds the words of the newest recompiles. Times are in seconds.
    """

    function: str
    location: Location
    compiles: int = 0
    recompiles: int = 0
    breaks: int = 0
    skipped: int = 0
    failures: int = 0
    entries: int = 0
    limit: int | None = None
    limit_hit: str = ""
    unwatched: tuple[int, ...] = ()
    compile_time_s: float = 0.0
    causes: Mapping[str, int] = field(default_factory=dict)
    last: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatchReport(Report):
    """The ledger, worst function first, and the newest cells in which anything was compiled, refused or broken.

    `forgotten_functions` and `forgotten_cells` count what was left out to keep the memory bounded: the best functions,
    the oldest cells. The totals count them all the same. Times are in seconds.
    """

    functions: tuple[WatchedFunction, ...] = ()
    cells: tuple[ExplainReport, ...] = ()
    compile_count: int = 0
    recompile_count: int = 0
    graph_break_count: int = 0
    skipped_frame_count: int = 0
    limit_hit_count: int = 0
    failure_count: int = 0
    compile_time_s: float = 0.0
    forgotten_functions: int = 0
    forgotten_cells: int = 0
    torch_version: str = ""
