"""%%compile_bench in a real kernel: people's cells, the progress line that becomes the report, and a press of stop."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from cases import Case
from cases import cases
from kernel import Kernel

pytestmark = pytest.mark.kernel

# Tells the test that rounds have been timed, so that stop is pressed in its middle: 5 %, or 50 to 59 %.
BEGUN = "steady state, 5"


@pytest.mark.parametrize("case", cases("%%compile_bench"), ids=lambda case: case.id)
def test_a_measured_cell_in_a_kernel(kernel: Kernel, case: Case) -> None:
    """A person's cell leaves the values of one plain run, and its report comes as text and HTML without colours."""
    for source in case.setup:
        kernel.ok(source)
    ran = kernel.ok(f"%%compile_bench --backends aot_eager --budget 0.2\n{case.cell}")
    state = kernel.get(f"__import__('cases').notebook_state(globals(), {sorted(case.values)})")

    assert state["values"] == case.values
    text = kernel.get("str(_compile_report)")
    assert text.startswith("compile_bench: ")
    assert "\x1b" not in text
    assert kernel.get("[v.error for v in _compile_report.variants]") == ["", ""]
    assert ran.stdout == ""


def messages_of(kernel: Kernel, source: str, *, stop_at: str = "") -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """Run a cell and return its messages and the reply; press stop once when a display says `stop_at`."""
    found: list[Mapping[str, Any]] = []
    pressed = threading.Event()

    def hear(message: Mapping[str, Any]) -> None:
        found.append(message)
        if stop_at and not pressed.is_set() and stop_at in str(message["content"]):
            pressed.set()
            threading.Timer(0.05, kernel.interrupt).start()

    reply = kernel._execute(source, output_hook=hear)
    return found, reply


SETUP = """
import torch
w = torch.zeros(4)
log = []
def work(x):
    w.add_(1)
    return torch.sin(x) + w.sum()
x = torch.ones(64)
"""


def test_the_progress_line_becomes_the_report(kernel: Kernel) -> None:
    """One display is made and then updated; its last update is the report, and the cell's own output comes after it."""
    kernel.ok(SETUP)
    source = "%%compile_bench --backends aot_eager --budget 1\nlog.append(1)\nprint('once')\nwork(x).shape"
    found, reply = messages_of(kernel, source)
    shown = [one for one in found if one["msg_type"] in ("display_data", "update_display_data")]
    identities = {one["content"]["transient"]["display_id"] for one in shown}

    assert reply["status"] == "ok"
    assert [one["msg_type"] for one in shown].count("display_data") == 1
    assert len(shown) > 2
    assert len(identities) == 1
    assert "text/html" not in shown[0]["content"]["data"]
    assert "<meter" in shown[-1]["content"]["data"]["text/html"]
    kinds = [one["msg_type"] for one in found]
    assert kinds.index("stream") > max(n for n, kind in enumerate(kinds) if kind == "update_display_data")
    assert kernel.get("log") == [1]
    assert kernel.get("w.tolist()") == [1.0] * 4


def test_a_press_of_stop_puts_all_back(kernel: Kernel) -> None:
    """Stopped in the steady state, a cell ends as interrupted, has changed nothing, and what was measured is shown."""
    kernel.ok(SETUP)
    source = "%%compile_bench --backends aot_eager --budget 20\nlog.append(1)\ny = work(x)"
    found, reply = messages_of(kernel, source, stop_at=BEGUN)

    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert kernel.get("(log, w.tolist(), 'y' in globals())") == [[], [0.0] * 4, False]
    assert kernel.get("_compile_report.interrupted") is True
    assert any("interrupted" in str(one["content"].get("data", "")) for one in found)
    assert kernel.get("_compile_report.variant('aot_eager').median_s") > 0
    assert kernel.ok("work(x).shape").status == "ok"
