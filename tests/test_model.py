"""Reports and captures are values: they compare, round-trip, load from newer files, and check budgets."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import reports

from compile_magic.errors import CompileBudgetExceeded
from compile_magic.model import ExplainReport
from compile_magic.model import Location
from compile_magic.model import Target
from compile_magic.trace import Capture
from compile_magic.trace import Record
from compile_magic.trace import SourceFile


@pytest.mark.parametrize("name", reports.REPORTS)
def test_a_report_round_trips_through_json(name: str) -> None:
    """A report that is loaded from its own JSON equals the one that was saved."""
    report = reports.REPORTS[name]()

    assert ExplainReport.from_json(report.to_json()) == report


def test_a_report_from_a_newer_version_loads() -> None:
    """Fields that this version doesn't know are ignored, also in nested values."""
    plain = reports.REPORTS["broken"]().to_dict()
    plain["invented_later"] = {"x": 1}
    plain["breaks"][0]["also_new"] = 2

    assert ExplainReport.from_dict(plain) == reports.REPORTS["broken"]()


def test_a_file_that_is_no_report_is_refused_in_one_line() -> None:
    """Loading something else says which field is missing."""
    with pytest.raises(ValueError, match=r"no ExplainReport.*mode"):
        ExplainReport.from_json("{}")
    with pytest.raises(ValueError, match="expected the fields of ExplainReport, got list"):
        ExplainReport.from_json("[1]")


def test_saved_files(tmp_path: Path) -> None:
    """A report is saved as JSON that loads again, or as one HTML file that needs no other."""
    report = reports.REPORTS["broken"]()

    assert ExplainReport.from_json(report.save(tmp_path / "x.json").read_text(encoding="utf-8")) == report
    page = report.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert not any(outside in page for outside in ("<script", "<link", 'src="http'))
    with pytest.raises(ValueError, match=r"\.json or \.html"):
        report.save(tmp_path / "x.txt")


def test_a_location_is_written_as_ipython_writes_it() -> None:
    """A line of a cell reads `Cell In[3], line 4`, one of a file `helpers.py:120`."""
    assert str(Location("/tmp/ipykernel_1/2.py", 4, cell=3)) == "Cell In[3], line 4"  # noqa: S108 - a name, no file
    assert str(Location("/home/me/helpers.py", 120)) == "helpers.py:120"


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"max_breaks": 0}, "1 graph break, allowed are 0"),
        ({"max_graphs": 1}, "2 graphs, allowed is 1"),
        ({"max_breaks": 0, "max_graphs": 1}, "1 graph break, allowed are 0; 2 graphs, allowed is 1"),
    ],
)
def test_a_budget_that_is_exceeded_says_by_how_much(budget: dict[str, int], words: str) -> None:
    """Each figure over its budget is named with what is allowed."""
    found = dataclasses.replace(reports.REPORTS["broken"](), graph_count=2, recompile_count=0)
    report = dataclasses.replace(found, breaks=found.breaks[:1], skipped_frames=(), limit_hits=())

    with pytest.raises(CompileBudgetExceeded, match=f"^{words}$"):
        report.check(**budget)


def test_a_budget_that_is_kept_is_silent() -> None:
    """A report within its budget passes, and one without a budget always does."""
    report = reports.REPORTS["clean"]()
    report.check(max_breaks=0, max_recompiles=0, max_graphs=report.graph_count)
    reports.REPORTS["broken"]().check()


def test_a_skipped_function_counts_as_a_break_once() -> None:
    """A function left in eager exceeds a budget of no breaks, whether or not torch recorded its break."""
    skipped = reports.REPORTS["skipped"]()
    alone = dataclasses.replace(
        skipped, breaks=(), skipped_frames=(dataclasses.replace(skipped.skipped_frames[0], cause=None),)
    )
    for report in (skipped, alone):
        with pytest.raises(CompileBudgetExceeded, match=r"^1 graph break, allowed are 0$"):
            report.check(max_breaks=0)


CAPTURE = Capture(
    targets=(Target("f", "compiled"),),
    records=(
        Record("dynamo_start", "0/0", call=0, data={"stack": [{"name": "f", "line": 3}]}),
        Record("log", payload="two\nlines", time=1.5),
    ),
    sources=(SourceFile("<ipython-input-1-x>", "def f(): pass\n", cell=1, offset=2),),
    recompile_limit=8,
    torch_version="2.13.0",
)


def test_a_capture_round_trips_through_json_lines() -> None:
    """A capture that is read from its own lines equals the one that was written: a header, then a line a record."""
    lines = CAPTURE.to_jsonl().splitlines()

    assert len(lines) == 1 + len(CAPTURE.records)
    assert "records" not in json.loads(lines[0])
    assert Capture.from_jsonl(lines) == CAPTURE


@pytest.mark.parametrize("line", ["not json", "[1]", '{"compile_id": "0/0"}', '{"kind": "x", "data": 5}', "null", ""])
def test_a_line_that_cannot_be_read_is_kept(line: str) -> None:
    """A broken line of a saved capture becomes a record of its own kind with its text, and the others still load."""
    lines = [*CAPTURE.to_jsonl().splitlines(), line]
    last = Capture.from_jsonl(lines).records[-1]

    assert (last.kind, last.payload) == ("unreadable", line)
    assert Capture.from_jsonl(lines).records[:-1] == CAPTURE.records
