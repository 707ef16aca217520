"""Programs of which torch._dynamo.explain gives wrong counts, with its counts beside ours.

Each test asserts torch's figures too: when one of them fails there, torch has been mended.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.backends.debugging import ExplainWithBackend

PRINT_IN_A_LOOP = """
def f(x):
    for _ in range(3):
        print("step")
        x = x.sin()
    return x

y = f(torch.ones(3))
"""

FOUR_SIZES = """
def f(x):
    return x.sin() + 1

for n in (2, 3, 4, 5):
    y = f(torch.ones(n))
"""

BREAK_BEFORE_THE_FIRST_OP = """
def f(x):
    print("before")
    return x.sin()

y = f(torch.ones(3))
"""

NO_TENSOR_OP = """
def f(n):
    return n + 1

y = f(1)
"""

METHODS = """
def f(x):
    return x.sum().sin() + x.mean().cos()

y = f(torch.ones(3))
"""


@pytest.fixture
def cells(notebook):
    """A notebook in which torch is imported, as a user's first cell does it."""
    notebook.ok("import torch")
    return notebook


@pytest.fixture
def torch_explains(cells, capsys):
    """What torch._dynamo.explain says of the notebook's `f`."""

    def explain(*args):
        output = torch._dynamo.explain(cells.get("f"))(*args)
        capsys.readouterr()
        return numbers(output)

    return explain


def numbers(output):
    return SimpleNamespace(
        graphs=output.graph_count,
        breaks=output.graph_break_count,
        ops=output.op_count,
        reasons=len(output.break_reasons),
    )


def test_a_print_in_a_loop(cells, torch_explains) -> None:
    """A print in a loop is one break and a function left in eager; torch says minus one break without a reason."""
    report = cells.explain(PRINT_IN_A_LOOP)
    torchs = torch_explains(torch.ones(3))

    assert (report.graph_count, report.graph_break_count, report.skipped_frame_count) == (0, 1, 1)
    assert (torchs.graphs, torchs.breaks, torchs.reasons) == (0, -1, 0)


def test_three_recompiles(cells) -> None:
    """Four sizes are four graphs, three recompiles and no break; torch calls them three breaks without a reason."""
    report = cells.explain(FOUR_SIZES, "--dynamic false")
    backend = ExplainWithBackend("eager")
    compiled = torch.compile(cells.get("f"), backend=backend, dynamic=False)
    for n in (2, 3, 4, 5):
        compiled(torch.ones(n))
    torchs = numbers(backend.output())

    assert (report.graph_count, report.graph_break_count, report.recompile_count) == (4, 0, 3)
    assert (torchs.graphs, torchs.breaks, torchs.reasons) == (4, 3, 0)


def test_a_break_before_the_first_op(cells, torch_explains) -> None:
    """A print before the first op is one break and one graph; torch says no break."""
    report = cells.explain(BREAK_BEFORE_THE_FIRST_OP)
    torchs = torch_explains(torch.ones(3))

    assert (report.graph_count, report.graph_break_count) == (1, 1)
    assert (report.skipped_frame_count, [found.location.line for found in report.breaks]) == (0, [4])
    assert (torchs.graphs, torchs.breaks, torchs.reasons) == (1, 0, 0)


def test_no_tensor_op(cells, torch_explains) -> None:
    """A function without a tensor op has no graph and no break; torch says minus one break."""
    report = cells.explain(NO_TENSOR_OP)
    torchs = torch_explains(1)

    assert (report.graph_count, report.graph_break_count, report.skipped_frame_count) == (0, 0, 0)
    assert (torchs.graphs, torchs.breaks) == (0, -1)
    assert "-1" not in str(report)


def test_method_calls_are_ops(cells, torch_explains) -> None:
    """`x.sum().sin() + x.mean().cos()` is 5 ops, as CompileCounter counts them; torch's explain says 1."""
    report = cells.explain(METHODS)
    torchs = torch_explains(torch.ones(3))

    assert (report.graph_count, report.op_count) == (1, 5)
    assert dict(report.graphs[0].ops) == {"sum": 1, "sin": 1, "mean": 1, "cos": 1, "add": 1}
    assert (torchs.graphs, torchs.ops) == (1, 1)
