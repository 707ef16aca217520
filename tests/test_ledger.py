"""The ledger adds up what cells compiled, in bounded memory, and keeps the worst."""

from __future__ import annotations

import time
import tracemalloc

from compile_magic import render
from compile_magic.ledger import MOST_CELLS
from compile_magic.ledger import MOST_FUNCTIONS
from compile_magic.ledger import Ledger
from compile_magic.model import CompiledFrame
from compile_magic.model import ExplainReport
from compile_magic.model import GraphBreak
from compile_magic.model import LimitHit
from compile_magic.model import Location
from compile_magic.model import Recompile
from compile_magic.read.merge import merged
from compile_magic.watch_model import WatchReport


def at(function: str, line: int = 1) -> Location:
    return Location(f"{function}.py", line, function=function)


def cell(function: str, *, recompiles: int = 0, limit_hit: bool = False, breaks: int = 0) -> ExplainReport:
    """Return the report of a cell that compiled one function once, and then so many times again."""
    where = at(function)
    frames = [CompiledFrame("0/0", function, where, entries=1, duration_s=0.5)]
    frames += [
        CompiledFrame(f"0/{n}", function, where, entries=n + 1, duration_s=0.25, again=True)
        for n in range(1, recompiles + 1)
    ]
    again = [Recompile(f"0/{n}", function, where, cause="size", words=f"x.size(0) went from {n} to {n + 1}")
             for n in range(1, recompiles + 1)]  # fmt: skip
    hits = (LimitHit(function, where, 8),) if limit_hit else ()
    found = tuple(GraphBreak(at(function, 5 + n), function, "a break") for n in range(breaks))
    return ExplainReport(
        mode="watched",
        targets=(),
        backend="",
        compiled=tuple(frames),
        recompiles=tuple(again),
        recompile_count=recompiles,
        limit_hits=hits,
        limit_hit_count=len(hits),
        breaks=found,
        graph_break_count=breaks,
        compile_time_s=sum(frame.duration_s for frame in frames),
        recompile_limit=8,
    )


def test_a_function_is_added_up_over_cells() -> None:
    """Compiles, recompiles, breaks, time and causes of one function are summed over the cells."""
    ledger = Ledger()
    ledger.add(cell("f", recompiles=2, breaks=1), "In[1]")
    ledger.add(cell("f", recompiles=1), "In[2]")
    report = ledger.report()
    (found,) = report.functions

    assert (found.compiles, found.recompiles, found.breaks, found.entries, found.limit) == (2, 3, 1, 3, 8)
    assert found.causes == {"size": 3}
    assert found.last[-1] == "x.size(0) went from 1 to 2"
    assert found.compile_time_s == 2 * 0.5 + 3 * 0.25
    assert (report.compile_count, report.recompile_count, report.graph_break_count) == (5, 3, 1)


def test_the_worst_function_comes_first() -> None:
    """A function that fell back to eager is worse than any number of recompiles, and those than breaks."""
    ledger = Ledger()
    ledger.add(cell("broken", breaks=3), "In[1]")
    ledger.add(cell("again", recompiles=5), "In[2]")
    ledger.add(cell("silent", limit_hit=True), "In[3]")
    ledger.add(cell("fine"), "In[4]")

    assert [found.function for found in ledger.report().functions] == ["silent", "again", "broken", "fine"]
    assert ledger.report().functions[0].limit_hit == "In[3]"


def test_cells_that_call_a_refused_function_are_noted() -> None:
    """A cell that calls a function past its limit is noted, without a count; one in which it compiled isn't."""
    ledger = Ledger()
    ledger.add(cell("f", limit_hit=True), "In[3]")
    ledger.note_calls(4, {"f", "print"}, compiled=())
    ledger.note_calls(5, {"print"}, compiled=())
    ledger.note_calls(6, {"f"}, compiled=("f",))
    (found,) = ledger.report().functions

    assert ledger.past_their_limit() == {"f"}
    assert found.unwatched == (4,)
    assert "Called since in In[4]: torch says nothing of these calls." in " ".join(
        str(ledger.report()).replace("┃", "").split()
    )


def test_ten_thousand_events_stay_small_and_draw_at_once() -> None:
    """After 10,000 compiles of 5,000 functions the ledger is bounded, draws in under a second, and kept the worst."""
    ledger = Ledger()
    ledger.add(cell("worst", recompiles=7, limit_hit=True), "In[1]")
    sizes = []
    tracemalloc.start()
    for number in range(5_000):
        ledger.add(cell(f"f{number}", recompiles=1), f"In[{number}]")
        if number in (2_500, 4_999):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    report = ledger.report()
    start = time.perf_counter()
    text, html = str(report), render.mimebundle(report)["text/html"]
    took = time.perf_counter() - start

    assert sizes[1] < 1.5 * sizes[0]
    assert took < 1
    assert len(text.splitlines()) <= 60
    assert len(html) < 200_000
    assert report.compile_count == 10_008
    assert report.functions[0].function == "worst"
    assert (len(report.functions), len(report.cells)) == (MOST_FUNCTIONS, MOST_CELLS)
    assert report.forgotten_functions == 5_001 - MOST_FUNCTIONS
    assert report.forgotten_cells == 5_001 - MOST_CELLS


def test_a_watch_report_round_trips_through_json() -> None:
    """A watch report that is loaded from its own JSON equals the one that was saved."""
    ledger = Ledger()
    ledger.add(cell("f", recompiles=2, breaks=1, limit_hit=True), "In[1]")

    assert WatchReport.from_json(ledger.report().to_json()) == ledger.report()


def test_parts_of_one_cell_are_joined() -> None:
    """A cell that was read in parts has one report: counts added up, one break site for both, all its recompiles."""
    joined = merged([cell("f", recompiles=2, breaks=1), cell("f", recompiles=1, breaks=1)])

    assert (joined.recompile_count, len(joined.recompiles), len(joined.compiled)) == (3, 3, 5)
    assert (joined.graph_break_count, [found.count for found in joined.breaks]) == (1, [2])
    assert joined.recompile_limit == 8
    assert joined.compile_time_s == 2 * 0.5 + 3 * 0.25
