"""A cell that is benched as one function: whatever reads its names reads those of that run."""

from __future__ import annotations

import pytest
from bench import bench
from notebook import Notebook
from side_by_side import both

SETUP = """
alpha, target = 1.0, 0.0
xs = [x, x]

def scale(t):
    return t * alpha

def reads():
    return fresh * 2

class Data:
    def __getitem__(self, i):
        return x * alpha

    @property
    def scaled(self):
        return x * alpha

data = Data()
w = torch.zeros(1, requires_grad=True)
lbfgs = torch.optim.LBFGS([w], max_iter=3)

def closure():
    lbfgs.zero_grad()
    loss = ((w - target) ** 2).sum()
    loss.backward()
    return loss
"""
READS = {
    "map": "alpha = 10.0\nout = list(map(scale, xs))",
    "an optimizer's closure": "target = 2.0\nloss = lbfgs.step(closure)\nfinal = w.item()",
    "a name that is new": "fresh = x + 1\nout = reads()",
    "a name that is bound anew": "x = x + 1\nout = data[0]",
    "a property": "alpha = 10.0\nout = data.scaled",
}


@pytest.mark.parametrize("cell", READS.values(), ids=READS)
def test_each_run_of_a_whole_cell_reads_its_own_names(cell: str) -> None:
    """No run of a bench reads names from before it: no variant differs or raises for that, and nothing is left."""
    line = "-q --whole --budget 0.01 --backends eager"
    plain, benched, report = both(cell, setup=SETUP, line=line, magic="compile_bench")

    assert benched == plain
    assert (report.mode, report.error) == ("cell", None)
    assert [(one.error, one.skipped, one.matches_eager) for one in report.variants[1:]] == [("", "", True)]


def test_the_floor_of_a_whole_cell_is_that_of_its_work(notebook: Notebook) -> None:
    """The floor of a cell that binds the size of its work is that of the work, not of the size before the cell."""
    setup = "import torch\nn = 1\na = torch.ones(1_000_000)\ndef work():\n    return a[:n] + 1\n"
    moved = {}
    for line in ("--whole", ""):
        notebook.ok(setup)
        report = bench(notebook, "n = 1_000_000\nout = work()", f"-q --budget 0.05 --backends eager {line}")
        moved[line] = report.roofline.bytes_moved

    assert moved["--whole"] == moved[""] == 8_000_000
