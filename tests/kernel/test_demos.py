"""The notebooks in demo/ run, and say what they said when they were saved."""

from __future__ import annotations

import re
from pathlib import Path

import demos
import pytest

NOTEBOOKS = sorted(demos.DEMO.glob("*.ipynb"))
HERE = [path for path in NOTEBOOKS if not path.stem.endswith("_gpu")]
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

BENCH = """\
compile_bench: default is 1.56x faster (1.23 to 1.97) · twice · 2 s
  CPU, 2 threads, torch 2.13.0+cpu

  variant        first  second   third  steady  against eager  same result
  eager         1.8 ms  1.9 ms  1.3 ms  2.5 ms  1.00x          reference
  as written     39 ms  1.4 ms  910 µs  1.5 ms  1.23–1.97x     ✓ 4e-7
      cudagraphs were not used
  max-autotune
      no times: there is none

 pays back after: as written 44 runs
 in full: all samples and figures in _compile_report.variants
"""


@pytest.mark.kernel
@pytest.mark.parametrize("path", HERE, ids=lambda path: path.stem)
def test_a_demo_runs_and_says_what_is_saved(path: Path) -> None:
    """Run afresh, a demo ends without an error and says what is saved in it: all but times, and verdicts on times."""
    saved = demos.read(path)
    again = demos.run(saved)

    assert demos.said(again) == demos.said(saved)
    for now, then in zip(demos.benches(again), demos.benches(saved), strict=True):
        _assert_same_bench(now, then)


def _assert_same_bench(now: str, then: str) -> None:
    """Assert that a bench has the variants that it had, that all run that ran, and all that it says about them."""
    expected, found = demos.variants(then), demos.variants(now)

    assert list(found) == list(expected)
    unexpected = [why for name, why in found.items() if why and not expected[name]]
    assert [why for why in unexpected if demos.should_have_run(why)] == []
    if not unexpected:
        assert demos.sections(now) == demos.sections(then)


@each_notebook
def test_a_saved_demo_is_clean(path: Path) -> None:
    """A saved demo was run from its first cell to its last, shows no error, and nothing of the machine that ran it."""
    text = path.read_text(encoding="utf-8")
    notebook = demos.read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]

    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert demos.said(notebook) != []
    assert "\\u001b" not in text
    assert not any(output.output_type == "error" or output.get("name") == "stderr" for output in outputs)
    assert not re.search(r"/(?:home|root|opt|work|Users|tmp)/", text)


@each_notebook
def test_a_saved_demo_has_nothing_to_differ_in_by_chance(path: Path) -> None:
    """Saved again, a demo differs in its outputs alone: cells have ids of their own, and the rest is bare."""
    notebook = demos.read(path)
    stem = path.stem.removesuffix("_gpu")

    assert notebook.metadata == demos.METADATA
    assert [cell.metadata for cell in notebook.cells] == [{}] * len(notebook.cells)
    assert all(re.fullmatch(rf"(?:cell|{stem})-\d+", cell.id) for cell in notebook.cells)


@each_notebook
def test_a_report_is_saved_in_html_and_in_text(path: Path) -> None:
    """Each report of a magic is saved in both, so that it can be read wherever the notebook is opened."""
    outputs = [output for cell in demos.read(path).cells for output in cell.get("outputs", ())]
    reports = [output.data for output in outputs if "text/html" in output.get("data", {})]

    assert len(reports) >= 1
    assert all(data["text/plain"].startswith("compile_") for data in reports)


def test_a_bench_is_read_by_its_rows() -> None:
    """What is compared of a bench: its variants, with the reasons of those that have no times, and its sections."""
    assert demos.variants(BENCH) == {"eager": "", "as written": "", "max-autotune": "there is none"}
    assert demos.sections(BENCH) == ["pays back after:", "in full:"]


def test_a_bench_that_lost_a_variant_is_told() -> None:
    """The comparison fails where a variant has gone, and where one that ran has no times any more."""
    _assert_same_bench(BENCH, BENCH.replace("1.23", "0.77"))
    for now in (BENCH.replace("  max-autotune\n", ""), BENCH.replace("cudagraphs were", "no times: they were")):
        with pytest.raises(AssertionError):
            _assert_same_bench(now, BENCH)
