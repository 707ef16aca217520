"""What the browsers are to show: a magic on a small program is one entry of `SHOWN`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import nbformat

from compile_magic.bench_model import BenchReport
from compile_magic.model import ExplainReport
from compile_magic.report import Report
from compile_magic.watch_model import WatchReport


@dataclass(frozen=True)
class Shown:
    """A magic under whose cell a report shows.

    `before` are the cells that come first and show no report, `report` is the expression for what is shown, of type
    `loads`. A reader must find the words in `promised`, and the lines in `marked` under their numbers.
    """

    name: str
    before: tuple[str, ...]
    cell: str
    loads: type[Report]
    report: str = "_compile_report"
    promised: tuple[str, ...] = ()
    marked: tuple[tuple[int, str], ...] = ()

    @property
    def file(self) -> str:
        """The file that the notebook saves the report in."""
        return f"{self.name}.json"


MODEL = """\
import torch


class Block(torch.nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.mix = torch.nn.Linear(width, width)

    def forward(self, x):
        h = self.norm(x)
        if h.abs().max() > 4:
            h = h.clamp(-4, 4)
        return x + self.mix(h).relu()


def log_norms(rows):
    for number, row in enumerate(rows):
        rows = rows / row.norm()
        print("row", number)
    return rows


block = Block()"""

HISTORY = """\
@torch.compile(backend="eager")
def remember(history):
    return torch.stack(history).mean(0)


history = []"""

SHOWN = (
    Shown(
        "explain",
        (MODEL,),
        "%%compile_explain\nfor rows in (4, 5):\n    y = block(torch.randn(rows, 64))\nz = log_norms(y[:2])",
        ExplainReport,
        promised=(
            "compile_explain: 4 graphs, 2 break sites, 1 function left in eager, 2 recompiles",
            "log_norms ran wholly in eager",
            "Data-dependent branching · GB0170",
            "→ torch.where(condition, a, b)",
            "x.size(0) went from 4 to 5.",
        ),
        marked=((12, "if h.abs().max() > 4:"), (20, 'print("row", number)')),
    ),
    Shown(
        "bench",
        ("x = torch.randn(64, 64)",),
        "%%compile_bench --backends eager,aot_eager --budget 0.3\nblock(x)",
        BenchReport,
        promised=("compile_bench: ", "aot_eager"),
    ),
    Shown(
        "watch",
        (HISTORY, "%compile_watch"),
        "for _ in range(12):\n    history.append(torch.ones(4))\n    mean = remember(history)",
        ExplainReport,
        promised=(
            "compile_watch: 7 recompiles, 1 first compile, 1 recompile limit reached in this cell",
            "reached its limit of 8 compiled versions and runs in eager from now on, silently",
            "8 of 8",
            "→ stack parts of one shape into a tensor",
        ),
    ),
    Shown(
        "ledger",
        ("mean = remember(history)",),
        "%compile_watch report -o ledger",
        WatchReport,
        report="ledger",
        promised=("8 compiles, 7 of them recompiles", "Called since in In[", "7× length"),
    ),
)


def notebook() -> nbformat.NotebookNode:
    """Return a notebook, not run yet, that shows all of `SHOWN` and saves each report beside itself."""
    cells = [nbformat.v4.new_code_cell(source) for source in _sources()]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _sources() -> Iterator[str]:
    yield "%load_ext compile_magic"
    for shown in SHOWN:
        yield from shown.before
        yield shown.cell
        yield f"{shown.report}.save({shown.file!r}).name"
