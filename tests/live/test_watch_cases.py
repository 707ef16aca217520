"""People's cells under %compile_watch, and the rows of the seed documents about recompiles, with the watch on."""

from __future__ import annotations

import json
from typing import Any

import cases
import pytest
import watched_cases
from cases import Case
from notebook import Notebook
from notebook import Ran

from compile_magic.model import ExplainReport


def shown(ran: Ran) -> str:
    """Return what stands under a cell, on one line."""
    text = ran.displays[-1]["text/plain"] if ran.displays else ""
    return " ".join(text.replace("┃", " ").split())


@pytest.mark.parametrize("case", watched_cases.WATCHED, ids=lambda case: case.id)
def test_a_watched_cell_is_a_plain_cell_with_the_truth_under_it(notebook: Notebook, case: Case) -> None:
    """A person's cell has eager's values under the watch, and its recompiles have the causes that they really had."""
    for source in case.setup:
        notebook.ok(source)
    notebook.ok("%compile_watch")
    ran = notebook.ok(case.cell)
    found = {name: cases.described(notebook.get(name)) for name in case.values}

    assert found == case.values
    watched_cases.check_report(case, notebook.get("_compile_report"), ran.displays[-1]["text/plain"])


HEAD = "import torch\nfrom torch._dynamo.testing import CompileCounter\n"

# Row of the seed documents -> setup, cell, first compiles, recompiles by cause, words under the cell. The counts are
# those of torch's own CompileCounter, which the cell checks.
ROWS: dict[str, tuple[str, str, int, dict[str, int], tuple[str, ...]]] = {
    "9 dtype, then requires_grad": (
        "counter = CompileCounter()\n@torch.compile(backend=counter)\ndef f(x):\n    return x * 2\n",
        "f(torch.ones(3)); f(torch.ones(3).double()); f(torch.ones(3, requires_grad=True));",
        1,
        {"dtype": 1, "requires_grad": 1},
        ("x was float32, now float64", "x.requires_grad went from False to True"),
    ),
    "10 train, eval, train": (
        "counter = CompileCounter()\nmodel = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))\n"
        "fast = torch.compile(model, backend=counter)\n",
        "for mode in (True, False, True):\n    model.train(mode); fast(torch.ones(2, 3));",
        1,
        {"training": 1},
        ("train", "eval"),
    ),
    "12 a float attribute": (
        "counter = CompileCounter()\nclass Scale(torch.nn.Module):\n    scale = 1.0\n    def forward(self, x):\n"
        "        return x * self.scale\nmodel = Scale()\nfast = torch.compile(model, backend=counter)\n",
        "for value in (0.5, 0.25, 2.0, 4.0):\n    model.scale = value; fast(torch.ones(3));",
        1,
        {"python_value": 1},
        ("self.scale was 0.5, now 0.25",),
    ),
    "13 sizes 3, 4, 5, 6": (
        "counter = CompileCounter()\n@torch.compile(backend=counter)\ndef f(x):\n    return x * 2\n",
        "for n in (3, 4, 5, 6): f(torch.ones(n));",
        1,
        {"size": 1},
        ("x.size(0) went from 3 to 4", "automatic dynamic: x.size(0)"),
    ),
    "14 a last batch of 1": (
        "counter = CompileCounter()\n@torch.compile(backend=counter, dynamic=True)\ndef f(x):\n    return x * 2\n",
        "for n in (3, 4, 1): f(torch.ones(n));",
        1,
        {"size": 1},
        ("0 and 1 are always specialised",),
    ),
    "15 a marked length": (
        "counter = CompileCounter()\n@torch.compile(backend=counter)\ndef f(x):\n    return x * 2\n",
        "for n in (8, 16, 24):\n    x = torch.ones(n); torch._dynamo.mark_dynamic(x, 0); f(x);",
        1,
        {},
        ("marked: x.size(0)",),
    ),
    "23 a float learning rate": (
        "counter = CompileCounter()\nw = torch.nn.Parameter(torch.ones(3))\nopt = torch.optim.SGD([w], lr=0.1)\n"
        "w.grad = torch.ones(3)\nschedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)\n"
        "@torch.compile(backend=counter)\ndef step():\n    opt.step()\n",
        "for _ in range(4):\n    step(); schedule.step()",
        1,
        {"python_value": 1},
        ("param_groups[0]['lr'] was 0.1, now 0.05", "lr=torch.tensor(0.1)"),
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_seed_documents_under_the_watch(notebook: Notebook, row: str) -> None:
    """Each row about recompiles shows torch's own number of compiles, with the causes and what changed from what."""
    setup, cell, firsts, causes, words = ROWS[row]
    notebook.ok(HEAD + setup)
    notebook.ok("%compile_watch")
    ran = notebook.ok(cell)
    report: ExplainReport = notebook.get("_compile_report")
    found: dict[str, int] = {}
    for again in report.recompiles:
        found[again.cause] = found.get(again.cause, 0) + again.count

    assert notebook.get("counter").frame_count == report.graph_count
    assert (report.graph_count, found) == (firsts + sum(causes.values()), causes)
    assert [word for word in words if word not in shown(ran)] == []


def test_row_11_the_limit_under_the_watch(notebook: Notebook) -> None:
    """Row 11: at a limit of 2, five sizes are 2 compiles and an alarm: silently eager from here."""
    notebook.ok(HEAD + "counter = CompileCounter()\nf = torch.compile(lambda x: x * 2, backend=counter, dynamic=False)")
    notebook.ok("%compile_watch")
    ran = notebook.ok("with torch._dynamo.config.patch(recompile_limit=2):\n    for n in range(2, 7): f(torch.ones(n))")
    report: ExplainReport = notebook.get("_compile_report")

    assert (notebook.get("counter").frame_count, report.graph_count) == (2, 2)
    assert (report.recompile_count, report.limit_hit_count, report.limit_hits[0].limit) == (1, 1, 2)
    assert "reached its limit of 2 compiled versions and runs in eager from now on, silently" in shown(ran)


@pytest.mark.parametrize(
    ("stance", "compiles", "fails"),
    [("force_eager", 0, False), ("eager_on_recompile", 1, False), ("fail_on_recompile", 1, True)],
)
def test_row_17_stances_under_the_watch(notebook: Notebook, stance: str, compiles: int, fails: bool) -> None:
    """Row 17: under a stance the watch counts the compiles that there were, and a cell that fails fails as always."""
    notebook.ok(HEAD + "counter = CompileCounter()\nf = torch.compile(lambda x: x * 2, backend=counter)")
    notebook.ok("%compile_watch")
    if stance != "force_eager":
        notebook.ok("f(torch.ones(3));")
    ran = notebook.run(f"with torch.compiler.set_stance({json.dumps(stance)}):\n    f(torch.ones(4));")
    notebook.ok("%compile_watch report -o ledger")

    assert (ran.error is not None) is fails
    assert notebook.get("counter").frame_count == notebook.get("ledger").compile_count == compiles


def test_row_16_a_layer_norm_under_the_watch(notebook: Notebook) -> None:
    """Row 16: six lengths of a LayerNorm block with dynamic=True are one compile; its width was forced inside an op."""
    notebook.ok(
        HEAD
        + "norm = torch.nn.LayerNorm(16)\nf = torch.compile(lambda x: norm(x) * 2, backend='aot_eager', dynamic=True)"
    )
    notebook.ok("%compile_watch")
    ran = notebook.ok("with torch.no_grad():\n    for n in range(8, 49, 8): f(torch.ones(2, n, 16));")
    report: ExplainReport = notebook.get("_compile_report")
    forced = [each for each in report.dimensions if each.state == "specialised"]

    assert (report.graph_count, report.recompile_count) == (1, 0)
    assert [(each.source, each.size) for each in forced] == [("x.size(2)", "16")]
    assert "specialised: x.size(2) = 16" in shown(ran)
    assert any("native_layer_norm" in guard.words for guard in report.guards)


def test_the_watch_hears_what_any_values_hold(notebook: Notebook) -> None:
    """The report of a watched cell is a value: it round-trips through JSON, and holds no tensor."""
    notebook.ok("import torch\nf = torch.compile(lambda x: x * 2, backend='eager')\n%compile_watch")
    notebook.ok("f(torch.ones(3)); f(torch.ones(4));")
    report: Any = notebook.get("_compile_report")

    assert ExplainReport.from_json(report.to_json()) == report
