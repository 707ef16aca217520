"""%compile_watch in a real kernel: people's cells, and what a front end gets."""

from __future__ import annotations

import pytest
import watched_cases
from cases import Case
from kernel import Kernel

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("case", watched_cases.WATCHED, ids=lambda case: case.id)
def test_a_watched_cell_in_a_kernel(kernel: Kernel, case: Case) -> None:
    """A person's cell has eager's values under the watch, and its recompiles have the causes that they really had."""
    for source in case.setup:
        kernel.ok(source)
    kernel.ok("%compile_watch")
    ran = kernel.ok(case.cell)
    state = kernel.get(f"__import__('cases').notebook_state(globals(), {sorted(case.values)})")

    assert state["values"] == case.values
    assert set(ran.outputs[-1]) == {"text/plain", "text/html"}
    assert "\x1b" not in ran.outputs[-1]["text/plain"]
    watched_cases.check_report(case, kernel.report, ran.outputs[-1]["text/plain"])


def test_a_recompile_that_is_not_allowed_stops_the_queue(kernel: Kernel) -> None:
    """With --fail-on-recompile the reply of the cell is an error, so that Run All stops, and its report is shown."""
    kernel.ok("import torch\nf = torch.compile(lambda x: x * 2, backend='eager')")
    kernel.ok("%compile_watch on --fail-on-recompile")
    kernel.ok("f(torch.ones(3));")
    ran = kernel.run("y = f(torch.ones(4))")

    assert (ran.status, ran.ename, ran.evalue) == ("error", "CompileBudgetExceeded", "1 recompile, allowed are 0")
    assert "x.size(0) went from 3 to 4" in ran.outputs[0]["text/plain"]
    assert kernel.get("y.shape[0]") == 4
