"""People's situations with the driver %%compile_bench, each as it would be typed."""

from __future__ import annotations

import pytest
from bench import ran
from cases import Case
from cases import cases
from notebook import Notebook

CASES = cases("%%compile_bench")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_case(notebook: Notebook, case: Case, backend: str) -> None:
    """The cell leaves what one plain run leaves, and no variant is called different without being so."""
    for source in case.setup:
        notebook.ok(source)

    result, report = ran(notebook, case.cell, f"--backends {backend}")

    assert result.error is None
    assert report.error is None
    for name, expected in case.values.items():
        assert notebook.get(name).tolist() == pytest.approx(expected["tensor"], abs=1e-4)
    found = report.variant(backend)
    assert found.error == ""
    assert found.matches_eager
    assert tuple(target.name for target in report.targets) == case.targets
    assert found.graph_count == case.truth["graphs"]
    assert (found.graph_break_count, found.recompile_count) == (0, 0)


def test_a_tiny_op_is_slower_and_why_is_said(notebook: Notebook) -> None:
    """Where calling the compiled function costs more than the work, it is slower, never pays, and overhead is named."""
    case = next(case for case in CASES if case.id == "tim-tiny-op")
    for source in case.setup:
        notebook.ok(source)

    _, report = ran(notebook, case.cell, "--backends aot_eager --budget 0.5")

    found = report.variant("aot_eager")
    assert found.speedup_interval[-1] < 1
    assert found.break_even_calls is None
    assert report.roofline.bound_by == "launches"
    assert "overhead" in report.roofline.words
