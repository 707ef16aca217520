"""Rows 7 and 8 of the seed facts: calls that torch can't look into.

The figures are torch's own, measured with CompileCounterWithBackend and TORCH_LOGS on torch 2.13.
"""

from __future__ import annotations

import pytest

DISABLED = """
@torch.compiler.disable
def helper(x):
    return x + 1

def uses_helper(x):
    return helper(x * 2) * 3

y = uses_helper(torch.ones(4))
"""

CUSTOM_OP = """
@torch.library.custom_op("seed_rows::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

def uses_op(x):
    return twice(x + 1) - 1

y = uses_op(torch.ones(3))
"""

DEFINED_OP = """
torch.library.define("seed_rows::thrice", "(Tensor x) -> Tensor")

@torch.library.impl("seed_rows::thrice", "cpu")
def thrice(x):
    return x * 3

def uses_op(x):
    return torch.ops.seed_rows.thrice(x + 1) - 1

y = uses_op(torch.ones(3))
"""

REGISTERED_OP = """
@torch.library.custom_op("seed_rows::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2

@halved.register_fake
def _(x):
    return torch.empty_like(x)

def uses_op(x):
    return halved(x + 1) - 1

y = uses_op(torch.ones(3))
"""

C_EXTENSION = """
def checksummed(x):
    y = x + 1
    return y * zlib.crc32(b"ab")

y = checksummed(torch.ones(3))
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


def test_a_disabled_helper_breaks_at_the_call(cells) -> None:
    """Row 7: a helper under torch.compiler.disable is one break on the line that calls it, named after the helper."""
    report = cells.explain(DISABLED)
    found = only(report.breaks)

    assert counted(report) == (2, 1)
    assert (found.kind, found.gb_id) == ("Skip calling `torch.compiler.disable()`d function", "GB0098")
    assert (found.location.line, found.function) == (8, "uses_helper")
    assert "helper" in found.explanation
    assert cells.get("y")[0].item() == 9.0


def test_a_custom_op_without_a_fake_kernel_is_a_failed_compile(cells) -> None:
    """Row 8: torch can't compile a custom op without a fake kernel; the report names it and register_fake."""
    ran = cells.ok(f"%%compile_explain\n{CUSTOM_OP}")
    failure = only(cells.report.failures)

    assert counted(cells.report) == (0, 0)
    assert (failure.kind, failure.function, failure.ran_eager) == ("TorchRuntimeError", "uses_op", True)
    assert "seed_rows::twice" in failure.reason
    assert "register_fake" in failure.reason
    assert "register_fake" in said(ran)
    assert cells.get("y").tolist() == [3.0] * 3


def test_a_failed_compile_is_shown_on_the_line_that_failed(cells) -> None:
    """Row 8: the failure is on the line that calls the op, where torch's own error has it."""
    failure = only(cells.explain(CUSTOM_OP).failures)

    assert failure.location.code.strip() == "return twice(x + 1) - 1"
    assert failure.location.line == 8


def test_a_defined_op_without_a_fake_kernel_breaks(cells) -> None:
    """Row 8: an op of torch.library.define without a fake kernel is one break, on its line.

    The third graph is the op's own kernel: it is Python, called from eager code, and so a frame like any other.
    """
    report = cells.explain(DEFINED_OP)
    found = only(report.breaks)

    assert counted(report) == (3, 1)
    assert [graph.function for graph in report.graphs] == ["uses_op", "thrice", "uses_op"]
    assert (found.kind, found.gb_id) == ("Operator does not support running with fake tensors", "GB0090")
    assert found.location.line == 10
    assert cells.get("y").tolist() == [5.0] * 3


def test_a_defined_op_without_a_fake_kernel_is_named_with_its_way_out(cells) -> None:
    """Row 8: where torch gives the address of a document, the report says which op it is and to register_fake it."""
    # An op is defined once a process, hence another name.
    ran = cells.ok(f"%%compile_explain\n{DEFINED_OP.replace('thrice', 'tripled')}")
    found = only(cells.report.breaks)

    assert "register_fake" in said(ran)
    assert "seed_rows.tripled" in f"{found.reason} {found.explanation} {' '.join(found.hints)}"


def test_a_custom_op_with_a_fake_kernel_is_one_graph(cells) -> None:
    """Row 8: register_fake is the way out that it is said to be."""
    report = cells.explain(REGISTERED_OP)

    assert counted(report) == (1, 0)
    assert report.op_count == 3
    assert report.failures == ()


def test_a_c_extension_is_named(cells) -> None:
    """Row 8: a call of a C function breaks on its line; the report says which function it is and what to wrap it in."""
    cells.ok("import zlib")
    report = cells.explain(C_EXTENSION)
    found = only(report.breaks)

    assert counted(report) == (2, 1)
    assert (found.kind, found.location.line) == ("Attempted to call function marked as skipped", 5)
    assert "zlib.crc32" in found.explanation
    assert "custom operator" in " ".join(found.hints)
