"""Rows 2 to 6 and 21 of the seed facts: graph breaks, and what takes them away.

The figures are torch's own, measured with CompileCounterWithBackend and TORCH_LOGS on torch 2.13.
"""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.exc import Unsupported

CHOOSY = """
def choosy(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

y = choosy(torch.ones(4))
"""

WHERE = """
def choosy(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)

y = choosy(torch.ones(4))
"""

COND = """
def choosy(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

y = choosy(torch.ones(4))
"""

GELU_CHAIN = """
def gelu_chain(x):
    for _ in range(20):
        print("hello")
        x = torch.nn.functional.gelu(x * 1.01 + 0.01)
    return x

y = gelu_chain(torch.ones(4))
"""

MASKED = """
def masked(x):
    return (x[x > 0] * 2).sum()

y = masked(torch.tensor([-1.0, 2.0, 3.0]))
"""

MASKED_CAPTURED = """
def masked(x):
    return (x[x > 0] * 2).sum()

with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
    y = masked(torch.tensor([-1.0, 2.0, 3.0]))
"""

MASKED_STATIC = """
def masked(x):
    return (torch.where(x > 0, x, 0) * 2).sum()

y = masked(torch.tensor([-1.0, 2.0, 3.0]))
"""

ITEM = """
def scaled(x):
    s = x.sum().item()
    return x * s

y = scaled(torch.ones(4))
"""

ITEM_CAPTURED = """
def scaled(x):
    s = x.sum().item()
    return x * s

with torch._dynamo.config.patch(capture_scalar_outputs=True):
    y = scaled(torch.ones(4))
"""

SLICED = """
def sliced(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k].sum()

with torch._dynamo.config.patch(capture_scalar_outputs=True):
    y = sliced(torch.ones(8), torch.tensor(3))
"""

SLICED_UNCHECKED = """
def sliced(x, n):
    k = n.item()
    return x[:k].sum()

with torch._dynamo.config.patch(capture_scalar_outputs=True):
    y = sliced(torch.ones(8), torch.tensor(3))
"""

BACKWARD_INSIDE = """
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    return loss

loss = step(torch.ones(3, 4))
"""


@pytest.fixture
def cells(notebook):
    """A notebook in which torch is imported, as a user's first cell does it."""
    notebook.ok("import torch")
    return notebook


def counted(report):
    return report.graph_count, report.graph_break_count


def only(found):
    assert len(found) == 1, found
    return found[0]


def said(ran):
    """Return the text of the report as one line, without the marks of wrapped lines."""
    return " ".join(ran.displays[-1]["text/plain"].replace("┃", " ").split())


# --- rows 2 and 3 -----------------------------------------------------------------------------------------------------


def test_a_branch_on_a_tensor_splits_the_function_in_two(cells) -> None:
    """Row 2: `if x.sum() > 0` is two graphs of 2 and 1 ops and one data-dependent break on its line."""
    report = cells.explain(CHOOSY)
    found = only(report.breaks)

    assert counted(report) == (2, 1)
    assert [graph.op_count for graph in report.graphs] == [2, 1]
    assert (found.kind, found.gb_id) == ("Data-dependent branching", "GB0170")
    assert f"Cell In[{cells.shell.execution_count - 1}], line 4" == str(found.location)
    assert found.location.code.strip() == "if x.sum() > 0:"
    assert (found.count, found.in_loop, found.owner) == (1, False, "your code")
    assert cells.get("y").tolist() == [2.0] * 4


def test_the_hints_are_torchs_own(cells) -> None:
    """Row 2: the report gives every hint of torch's `Unsupported` error, and no others."""

    def choosy(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    found = only(cells.explain(CHOOSY).breaks)
    with pytest.raises(Unsupported) as raised:
        torch.compile(choosy, backend="eager", fullgraph=True)(torch.ones(4))
    said = " ".join(str(raised.value).split())

    assert len(found.hints) == 3
    assert said.count("Hint: ") == len(found.hints)
    assert [hint for hint in found.hints if " ".join(hint.split()) not in said] == []


def test_fullgraph_names_the_same_break(cells) -> None:
    """Row 2: with --fullgraph the break is a failed compile of the same kind, line and hints; the cell ends well."""
    lax = only(cells.explain(CHOOSY).breaks)
    report = cells.explain(CHOOSY, "--fullgraph")
    strict, failure = only(report.breaks), only(report.failures)

    # CompileCounter counts no frame here: torch hands no graph to a backend before it raises.
    assert counted(report) == (0, 1)
    assert (lax.kind, lax.location.line, lax.hints) == (strict.kind, strict.location.line, strict.hints)
    assert ("Unsupported", lax.kind, lax.location.line) == (failure.kind, failure.reason, failure.location.line)
    assert (lax.hints, True) == (failure.hints, failure.ran_eager)
    assert cells.get("y").tolist() == [2.0] * 4


@pytest.mark.parametrize(("cell", "ops"), [pytest.param(WHERE, 5, id="where"), pytest.param(COND, 4, id="cond")])
def test_a_branchless_rewrite_is_one_graph(cells, cell, ops) -> None:
    """Row 3: `torch.where` and `torch.cond` in the place of the branch give one graph and no break."""
    report = cells.explain(cell)

    assert counted(report) == (1, 0)
    assert ops == report.op_count
    assert cells.get("y").tolist() == [2.0] * 4


# --- row 4 ------------------------------------------------------------------------------------------------------------


def test_a_print_in_a_loop_leaves_the_function_in_eager(cells) -> None:
    """Row 4: a print inside a loop is one break that can't be resumed, so that the whole function runs in eager."""
    ran = cells.ok(f"%%compile_explain\n{GELU_CHAIN}")
    report = cells.report
    skipped, found = only(report.skipped_frames), only(report.breaks)

    assert counted(report) == (0, 1)
    assert (report.skipped_frame_count, skipped.function, skipped.location.line) == (1, "gelu_chain", 3)
    assert found == skipped.cause
    assert (found.location.line, found.in_loop) == (5, True)
    assert "print" in found.explanation
    assert ran.stdout == "hello\n" * 20


def test_a_skipped_function_is_said_first(cells) -> None:
    """Row 4: the text names the skipped function before any line or table, and never counts minus one break."""
    text = said(cells.ok(f"%%compile_explain\n{GELU_CHAIN}"))

    assert "1 function left in eager" in text
    assert 0 < text.index("`gelu_chain` ran wholly in eager") < text.index("Cell In[")
    assert "in a loop" in text
    assert "-1" not in text


# --- rows 5 and 6 -----------------------------------------------------------------------------------------------------


def test_a_boolean_index_breaks_on_nonzero(cells) -> None:
    """Row 5: indexing with a mask is two graphs and one break, which names nonzero."""
    report = cells.explain(MASKED)
    found = only(report.breaks)

    assert counted(report) == (2, 1)
    assert [graph.op_count for graph in report.graphs] == [1, 2]
    assert (found.kind, found.gb_id, found.location.line) == ("Dynamic shape operator", "GB0036", 4)
    assert "nonzero" in found.explanation
    assert "capture_dynamic_output_shape_ops" in " ".join(found.hints)
    assert cells.get("y").item() == 10.0


@pytest.mark.parametrize(
    "cell", [pytest.param(MASKED_CAPTURED, id="captured"), pytest.param(MASKED_STATIC, id="static")]
)
def test_a_boolean_index_can_be_one_graph(cells, cell) -> None:
    """Row 5: with capture_dynamic_output_shape_ops set in the cell, or with a torch.where, there is no break."""
    report = cells.explain(cell)

    assert counted(report) == (1, 0)
    assert cells.get("y").item() == 10.0
    assert torch._dynamo.config.capture_dynamic_output_shape_ops is False


def test_item_breaks(cells) -> None:
    """Row 6: `.item()` used afterwards is two graphs and one break on its line."""
    report = cells.explain(ITEM)
    found = only(report.breaks)

    assert counted(report) == (2, 1)
    assert found.kind == "Unsupported Tensor.item() call with capture_scalar_outputs=False"
    assert (found.gb_id, found.location.line) == ("GB0124", 4)
    assert "capture_scalar_outputs" in " ".join(found.hints)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(ITEM_CAPTURED, [4.0] * 4, id="captured"),
        pytest.param(SLICED, 3.0, id="checked"),
        # The row's source (torch 2.8) asks for the two checks; torch 2.13 slices to an unbacked length without them.
        pytest.param(SLICED_UNCHECKED, 3.0, id="unchecked"),
    ],
)
def test_a_captured_item_is_one_graph(cells, cell, expected) -> None:
    """Row 6: with capture_scalar_outputs there is one graph, also where the value becomes a length."""
    report = cells.explain(cell)

    assert counted(report) == (1, 0)
    assert expected == cells.get("y").tolist()


# --- row 21 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_inside_a_compiled_function_breaks(cells, backend) -> None:
    """Row 21: `loss.backward()` inside is one break on its line; torch's own frames of the backward are not shown."""
    cells.ok("model = torch.nn.Linear(4, 1)")
    report = cells.explain(BACKWARD_INSIDE, f"--backend {backend}")
    found = only(report.breaks)

    # After the break nothing is left to compile: the function only returns the loss.
    assert counted(report) == (1, 1)
    assert (report.op_count, report.skipped_frame_count) == (3, 0)
    assert (found.kind, found.location.line) == ("Unsupported Tensor.backward() call", 5)
    assert [n for n, p in cells.get("model").named_parameters() if p.grad is not None] == ["weight", "bias"]
