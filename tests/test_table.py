"""What a report shows: the sections, their order and their words."""

from __future__ import annotations

from dataclasses import replace

import pytest
import reports

from compile_magic.model import ExplainReport
from compile_magic.model import Fix
from compile_magic.model import GraphBreak
from compile_magic.model import SkippedFrame
from compile_magic.model import SourceLines
from compile_magic.model import Target
from compile_magic.show import cellview
from compile_magic.show import table
from compile_magic.show.alarms import alarms
from compile_magic.show.blocks import CellLine
from compile_magic.show.blocks import Code
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Line
from compile_magic.show.blocks import Lines
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import SourceView
from compile_magic.show.blocks import Summary
from compile_magic.show.blocks import Table
from compile_magic.show.findings import advice
from compile_magic.show.findings import fix_words
from compile_magic.show.findings import label
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import seconds
from compile_magic.show.phrases import shorten
from compile_magic.show.summary import summary


def test_a_clean_report_reads_as_good_news() -> None:
    """A report without findings says so in its first line."""
    expected = "compile_explain: 1 graph, no breaks, no recompiles · backend eager · compiled: f (calls) · 0.41 s"

    assert summary(reports.clean()) == Summary(expected, (), "good")


def test_the_first_line_counts_what_went_wrong() -> None:
    """The first line names every count that isn't nought, in the singular or the plural as it should be."""
    found = summary(reports.everything())

    assert found.sentence == (
        "compile_explain: 3 graphs, 3 break sites, 1 function left in eager, 1 recompile"
        " · backend eager · compiled: model, head (calls) · 0.41 s"
    )
    assert found.tone == "bad"


def test_a_warm_function_is_not_a_clean_one() -> None:
    """A cell in which nothing was compiled says so and what to do, and doesn't claim that there were no breaks."""
    found = summary(ExplainReport("observed", (Target("step", "observed"),), "inductor"))

    assert found.sentence == "compile_explain: nothing was compiled · backend inductor · observed: step"
    assert found.details == (
        "`step` was compiled before this cell, and torch recorded no compile in it. --fresh explains it anyway.",
    )


def test_nothing_to_compile_is_said_with_the_next_step() -> None:
    """A cell with no callable that can be compiled leads to the way to name one."""
    found = summary(ExplainReport("calls", (Target("Net", "eager", "a class"),), "eager"))

    assert found.sentence == "compile_explain: nothing was compiled · backend eager"
    assert found.details == ("No callable of this cell can be compiled. Name one to compile: %%compile_explain NAME.",)


def test_a_note_that_explains_an_empty_report_is_not_said_twice() -> None:
    """Where a note says why nothing was compiled, the first line doesn't guess at it."""
    report = ExplainReport("observed", (Target("f", "observed"),), "eager", notes=("Nothing was compiled: warm",))

    assert summary(report).details == ()


def test_a_whole_cell_is_said_to_have_false_breaks() -> None:
    """A cell compiled as one function warns of the breaks that only this shape has."""
    found = summary(replace(reports.clean(), mode="cell"))

    assert "compiled: the cell as one function" in found.sentence
    assert "false breaks" in found.details[0]


def test_a_skipped_frame_names_the_line_that_skipped_it() -> None:
    """The alarm of a function left in eager says what on which line did it, and why Dynamo gave up."""
    found = alarms(reports.skipped())

    assert found is not None
    assert [item.text for item in found.items] == [
        "`Block.forward` ran wholly in eager: the print on line 12 is in a loop, and Dynamo can't resume there."
    ]


def test_a_skipped_frame_without_a_cause_gives_torchs_reason() -> None:
    """A skipped frame that no break explains is still an alarm."""
    frame = SkippedFrame("g", reports.at(2), "the code object is a generator", count=3)
    found = alarms(replace(reports.clean(), skipped_frames=(frame,)))

    assert found is not None
    assert found.items[0].text == "`g` ran wholly in eager: the code object is a generator. Seen 3 times."


def test_a_cause_in_another_file_is_named_with_its_file() -> None:
    """A line number stands alone only for a line of the same file."""
    cause = replace(reports.print_in_loop(), location=reports.at(120, file="/home/me/helpers.py", cell=None))
    found = alarms(replace(reports.skipped(), skipped_frames=(SkippedFrame("g", reports.at(2), "", cause),)))

    assert found is not None
    assert "the print in helpers.py:120 is in a loop" in found.items[0].text


def test_failures_and_limit_hits_are_alarms() -> None:
    """A failed compile says what became of the call, a limit hit that the function is eager from then on."""
    found = alarms(reports.limit())

    assert found is not None
    assert [item.text for item in found.items] == [
        (
            "`tail` failed to compile (Cell In[3], line 9): BackendCompilerFailed: no C++ compiler. "
            "The call was made in eager."
        ),
        (
            "`rollout` (Cell In[3], line 4) reached its limit of 8 compiled versions and runs in eager from now on, "
            "silently. The guard of its newest version that failed: len(history): expected 7, found 8."
        ),
    ]


def test_no_alarm_without_a_cause() -> None:
    """A report with breaks only has no alarm."""
    assert alarms(reports.broken()) is None


def test_the_break_stands_on_its_own_line() -> None:
    """The cell view shows two lines around a break, the function's first line, and what to do."""
    view = cellview.source_view(reports.broken())

    assert view is not None
    assert view.cells[0].title == "Cell In[3]"
    assert view.cells[0].lines == (
        CellLine(16, code="def head(h):"),
        CellLine(
            17,
            "✗",
            "    if h.mean() > 0:",
            "Data-dependent branching",
            "GB0170",
            reports.GB_PAGE,
            "seen 1×",
            ("→ Use `torch.cond` to express dynamic control flow.",),
        ),
        CellLine(18, code="        h = h.relu()"),
        CellLine(19, code="    return h"),
    )


def _breaks_at(lines: tuple[int, ...]) -> tuple[GraphBreak, ...]:
    return tuple(GraphBreak(reports.at(line), "f", "some kind") for line in lines)


def _shown(breaks: tuple[int, ...], lines: tuple[str, ...]) -> list[tuple[int | None, str]]:
    source = SourceLines(reports.FILE, 1, lines, 3)
    found = cellview.source_view(ExplainReport("calls", (), "eager", breaks=_breaks_at(breaks), sources=(source,)))
    assert found is not None
    return [(line.number, line.code) for line in found.cells[0].lines]


def test_gaps_are_shown_and_the_def_line_is_kept() -> None:
    """Lines left out are a ⋯, but for a single one, which is shown."""
    lines = ("def f(x):", *(f"    x = x + {n}" for n in range(2, 21)))
    numbers = [number for number, _ in _shown((9, 15), lines)]

    assert numbers == [1, None, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]


def test_the_nearest_enclosing_def_is_kept() -> None:
    """A nested function's own first line is kept and not that of a function beside it."""
    lines = (
        "def f():",
        "    def g():",
        "        return 1",
        "    a = 1",
        "    b = 2",
        "    c = 3",
        "    d = 4",
        "    e = 5",
    )

    assert [number for number, _ in _shown((8,), lines)] == [1, None, 6, 7, 8]


def test_two_breaks_on_a_line_show_the_line_once() -> None:
    """A second break on a line follows it without repeating the code."""
    assert _shown((1, 1), ("print(a, b)",)) == [(1, "print(a, b)"), (None, "")]


def test_two_pieces_of_one_file_are_one_view() -> None:
    """The source of a file may come in pieces and is still shown in one view."""
    sources = (SourceLines("a.py", 1, ("a", "b")), SourceLines("a.py", 50, ("c",)))
    breaks = tuple(GraphBreak(reports.at(line, file="a.py", cell=None), "f", "kind") for line in (1, 50))
    found = cellview.source_view(ExplainReport("calls", (), "eager", breaks=breaks, sources=sources))

    assert found is not None
    assert [view.title for view in found.cells] == ["a.py"]
    assert [line.code for line in found.cells[0].lines] == ["a", "b", "⋯", "c"]


def test_a_break_without_source_is_in_a_table() -> None:
    """A break of the user's whose source is not at hand is shown with its place."""
    found = table.other_own_breaks(replace(reports.broken(), sources=()))

    assert found is not None
    assert found.rows == (
        Row(
            ("1×", "Cell In[3], line 17", "head", "Data-dependent branching · GB0170"),
            ("→ Use `torch.cond` to express dynamic control flow.",),
        ),
    )


def test_every_break_is_shown_exactly_once() -> None:
    """No break is left out, and none is shown in two places."""
    report = reports.huge()
    view, other, outside = cellview.source_view(report), table.other_own_breaks(report), table.outside_breaks(report)

    assert isinstance(view, SourceView)
    assert other is not None
    assert outside is not None
    on_lines = [line for cell in view.cells for line in cell.lines if line.ref]
    assert len(on_lines) + len(other.rows) + len(outside.rows) == len(report.breaks)


def test_a_cause_that_is_no_break_of_the_report_is_marked_too() -> None:
    """The line that skipped a function is marked even where only the skipped frame knows of it."""
    report = replace(reports.skipped(), breaks=())

    assert cellview.own_breaks(report) == [reports.print_in_loop()]


def test_library_breaks_name_the_line_of_the_cell_that_led_there() -> None:
    """A break in a library says from which line of the cell it was reached."""
    found = table.outside_breaks(reports.everything())

    assert found is not None
    words = "Attempted to call function marked as skipped · GB0007 · library"
    assert found.rows[0].cells == ("4×", "einops.py:40", "rearrange", words)
    assert found.rows[0].below == ("called from Cell In[3], line 22", "→ Upgrade einops to 0.8 or newer.")


def test_recompiles_say_what_changed_and_what_was_tried() -> None:
    """A recompile has its words, or else what the guard expected and found, and its fix with what came of it."""
    found = table.recompiles(reports.recompiles())

    assert found is not None
    assert found.title == "recompiles: 2"
    assert [row.cells for row in found.rows] == [
        ("2×", "2", "f", "Cell In[3], line 8", "size"),
        ("1×", "2", "f", "Cell In[3], line 8", "python value"),
    ]
    assert [row.below for row in found.rows] == [
        (
            "x.size(0) went from 8 to 9 (guard made by line 9). It is dynamic from now on.",
            (
                "✓ before the first call: `torch._dynamo.mark_dynamic(x, 0)` "
                "(verified: graphs 2 → 1, recompiles 1 → 0, outputs equal)"
            ),
        ),
        ("self.scale: expected 0.5, found 0.25.",),
    ]


def test_graphs_are_listed_with_their_most_frequent_ops() -> None:
    """A graph has its compile id, its ops and the four most frequent of them."""
    found = table.graphs(reports.everything())

    assert found is not None
    assert found.title == "3 graphs, 17 ops"
    top_ops = "6 linear, 3 layer_norm, 2 mul, 1 add"
    assert found.rows[0].cells == ("0/0", "12", "Block.norm", "Cell In[3], line 9", top_ops)
    assert found.rows[2].cells[2] == "head, after a break"


def test_guards_are_told_apart_by_whether_the_user_can_change_them() -> None:
    """The line on guards counts those that speak of the user's values apart from torch's own."""
    assert table.guards(reports.everything()) == Line("23 guards: 4 you can change, 19 internal")


def test_compile_time_is_split_by_phase() -> None:
    """The longest phase comes first, and it is said that phases overlap."""
    assert table.compile_time(reports.everything()) == Line(
        "compile time 0.41 s: dynamo 0.38 s, build_guards 84 ms, backend_compile 12 ms (phases overlap)"
    )


def test_what_was_left_eager_is_said_with_the_reason() -> None:
    """Callables that the first line doesn't name are listed with why."""
    assert table.targets(reports.limit()) == Lines(("left eager: Net (a class)",), "_compile_report.targets")
    assert table.targets(reports.clean()) is None


def test_unread_records_are_counted() -> None:
    """Records that could not be read are counted with their kind and reason."""
    assert table.unread(reports.limit()) == Line(
        "2 of the trace records could not be read (dynamo_guards: unexpected format). What is shown may be incomplete."
    )


def test_the_answer_comes_first_then_alarms_then_the_source() -> None:
    """Blocks come in reading order, and all that is folded comes last."""
    kinds = [type(block).__name__ for block in table.blocks(reports.everything())]

    assert kinds[:3] == ["Summary", "Alarms", "SourceView"]
    assert kinds.index("Folded") == len(kinds) - kinds.count("Folded")


def test_folded_blocks_open_by_key() -> None:
    """Asking for the guards opens the guards only."""
    folded = [block for block in table.blocks(reports.everything(), opened=("guards",)) if isinstance(block, Folded)]

    assert [block.key for block in folded if block.opened] == ["guards"]


def test_guards_that_can_be_changed_come_first() -> None:
    """In a frame's table of guards, those that the user can change stand before the internal ones."""
    folded = next(one for one in table.blocks(reports.everything()) if isinstance(one, Folded) and one.key == "guards")
    first = folded.parts[0]

    assert isinstance(first, Table)
    assert [row.cells[0] for row in first.rows[:5]] == ["TENSOR_MATCH"] * 4 + ["GLOBAL_STATE"]


def test_code_says_where_the_whole_of_it_is() -> None:
    """Each graph's code names the field of the report that holds it."""
    folded = next(one for one in table.blocks(reports.everything()) if isinstance(one, Folded) and one.key == "graphs")

    assert [part.whole for part in folded.parts if isinstance(part, Code)] == [
        "_compile_report.graphs[0].code",
        "_compile_report.graphs[1].code",
        "_compile_report.graphs[2].code",
        "_compile_report.backward_graphs[0].code",
    ]


@pytest.mark.parametrize("section", table.SECTIONS, ids=lambda section: section.__name__)
def test_a_section_with_nothing_to_say_is_absent(section: table.Section) -> None:
    """An empty report has a first line and nothing else."""
    found = section(ExplainReport("calls", (), "eager"))

    assert (found is None) == (section is not summary)


def test_the_words_for_a_break_are_short_and_torchs_own() -> None:
    """A long kind of break has a short name; an unknown one keeps torch's."""
    unknown = GraphBreak(reports.at(1), "f", "Failed to trace builtin operator")

    assert label(reports.print_in_loop()) == "builtin print in a loop: function skipped"
    assert label(unknown) == "Failed to trace builtin operator"
    assert label(replace(unknown, kind="Some new kind", in_loop=True)) == "Some new kind in a loop"


def test_the_first_hint_that_helps_is_the_advice() -> None:
    """Hints that say only that it is hard are passed over, unless there is no other."""
    empty = "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code."

    assert advice((empty, "Use `torch.cond`")) == ("→ Use `torch.cond`.",)
    assert advice((empty,)) == (f"→ {empty}",)
    assert advice(()) == ()


@pytest.mark.parametrize(
    ("status", "equal", "expected"),
    [
        ("verified", True, "✓ use where: `a` (verified: breaks 2 → 1, outputs equal)"),
        ("failed", False, "✗ use where: `a` (tried, doesn't help: breaks 2 → 1, outputs differ)"),
        ("not tried", None, "→ use where: `a` (not tried: breaks 2 → 1)"),
    ],
)
def test_a_fix_says_whether_it_was_tried(status: str, *, equal: bool | None, expected: str) -> None:
    """A fix has the outcome of trying it, with the counts before and after."""
    before, after = {"graph_break_count": 2, "graph_count": 1}, {"graph_break_count": 1, "graph_count": 1}

    assert fix_words(Fix("use where", "rewrite", "a", status, before, after, equal)) == expected


def test_counts_and_times_read_well() -> None:
    """Singular and plural are right, and a time has the unit that suits it."""
    assert [counted(n, "graph") for n in range(3)] == ["no graphs", "1 graph", "2 graphs"]
    expected = ["18 µs", "12 ms", "0.41 s", "4.10 s", "65 s"]
    assert [seconds(value) for value in (18e-6, 0.0123, 0.41, 4.1, 65.2)] == expected


def test_lists_and_cuts_say_what_is_left_out() -> None:
    """A list counts what it leaves out, and a cut text ends in an ellipsis at a word."""
    assert listed(["a", "b"], 2, "x") == "a, b"
    assert listed(["a", "b", "c"], 2, "x") == "a, b and 1 more in x"
    assert shorten("one two  three\nfour", 12) == "one two…"
    assert shorten("x" * 20, 10) == "xxxxxxxxx…"
