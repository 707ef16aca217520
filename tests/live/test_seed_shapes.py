"""Rows 13 to 16 of the seed facts: what sizes cost, static and dynamic.

The figures are torch's own, measured with CompileCounterWithBackend and TORCH_LOGS=recompiles,dynamic on torch 2.13.
"""

from __future__ import annotations

import pytest

SIZES = """
def f(x):
    return x.sin() + 1

for n in {sizes}:
    y = f(torch.zeros(n))
"""

MARKED = """
def f(x):
    return x.sin() + 1

for n in (8, 16, 24):
    t = torch.zeros(n, 4)
    torch._dynamo.mark_dynamic(t, 0)
    y = f(t)
"""

LAYER_NORM = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return x + self.linear(self.norm(x))

block = Block()
with torch.no_grad():
    for n in (8, 16, 24, 32, 40, 48):
        y = block(torch.ones(2, n, 16))
"""


@pytest.fixture
def cells(notebook):
    """A notebook in which torch is imported, as a user's first cell does it."""
    notebook.ok("import torch")
    return notebook


def counted(report):
    return report.graph_count, report.recompile_count


def only(found):
    assert len(found) == 1, found
    return found[0]


def said(ran):
    """Return the text of the report as one line, without the marks of wrapped lines."""
    return " ".join(ran.displays[-1]["text/plain"].replace("┃", " ").split())


# --- rows 13 to 15 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "line", "expected"),
    [
        pytest.param((3, 4, 5, 6), "", (2, 1), id="row 13: static, then symbolic"),
        pytest.param((3, 4, 5, 6), "--dynamic true", (1, 0), id="row 13: symbolic from the start"),
        pytest.param((3, 4, 5, 6), "--dynamic false", (4, 3), id="row 13: each size by itself"),
        pytest.param((1, 3, 4), "--dynamic true", (2, 1), id="row 14: size 1 is always special"),
        pytest.param((4, 3, 1), "--dynamic true", (2, 1), id="row 14: a last batch of 1"),
        pytest.param((8, 16, 24), "", (2, 1), id="row 15: unmarked"),
    ],
)
def test_sizes_recompile_as_torch_counts_them(cells, sizes, line, expected) -> None:
    """Rows 13 to 15: the frames that a sweep over sizes costs under each --dynamic."""
    report = cells.explain(SIZES.format(sizes=sizes), line)

    assert expected == counted(report)
    assert {"size"} >= {each.cause for each in report.recompiles}
    assert sizes[-1] == len(cells.get("y"))


def test_a_size_says_what_it_was_and_what_it_became(cells) -> None:
    """Row 13: the recompile names the tensor, the old size and the new one."""
    guard = only(only(cells.explain(SIZES.format(sizes=(3, 4, 5, 6))).recompiles).failed)

    assert (guard.entry, guard.expected, guard.actual) == ("0/0", "3", "4")
    assert "x" in guard.expression


@pytest.mark.parametrize(("sizes", "guard"), [((1, 3, 4), "size mismatch"), ((4, 3, 1), "2 <= x.size()[0]")])
def test_sizes_zero_and_one_are_said_to_be_special(cells, sizes, guard) -> None:
    """Row 14: a recompile from or to size 1 says that 0 and 1 are always specialised, dynamic shapes or not."""
    ran = cells.ok(f"%%compile_explain --dynamic true\n{SIZES.format(sizes=sizes)}")
    found = only(cells.report.recompiles)

    assert found.cause == "size"
    assert guard in only(found.failed).expression
    assert "0 and 1 are always specialised" in said(ran)


def test_a_marked_dimension_is_compiled_once(cells) -> None:
    """Row 15: mark_dynamic before lengths 8, 16 and 24 saves the static compile."""
    report = cells.explain(MARKED)

    assert counted(report) == (1, 0)
    assert len(cells.get("y")) == 24


# --- row 16 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_lengths_of_a_layer_norm_block_are_one_frame(cells, backend) -> None:
    """Row 16: six lengths through a LayerNorm block with dynamic shapes are one compile, under aot_eager too.

    The row says 2 frames under aot_eager, and so does CompileCounter in torch 2.13, but that is one compile: no guard
    fails (TORCH_LOGS=recompiles is silent) and torch starts compile 0/0 over. Its first graph holds `norm.eps` as a
    symbolic float; AOTAutograd finds it specialised, and TensorifyScalarRestartAnalysis begins anew without it.
    The counter is handed 4 ops, then 3; with specialize_float=True, or an RMS norm by hand, it counts 1 frame. Under
    the eager backend nothing starts over, and the graph keeps the fourth op, the `item` of that float.
    """
    report = cells.explain(LAYER_NORM, f"--dynamic true --backend {backend}")

    assert counted(report) == (1, 0)
    assert {"eager": 4, "aot_eager": 3}[backend] == report.op_count
    assert report.graph_break_count == 0
    assert tuple(cells.get("y").shape) == (2, 48, 16)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_layer_norm_fixes_the_width_and_not_the_length(cells, backend) -> None:
    """Row 16: the guards tell that of the input's sizes only the width was fixed, to 16, and `eps` to its value."""
    guards = cells.explain(LAYER_NORM, f"--dynamic true --backend {backend}").guards
    inputs = [guard for guard in guards if guard.kind == "TENSOR_MATCH" and guard.source == "L['x']"]

    assert "size=[None, None, 16]" in only(inputs).expression
    assert any("eps == 1e-05" in guard.expression for guard in guards)


def test_the_guard_that_a_layer_norm_adds_says_where_it_comes_from(cells) -> None:
    """Row 16: the guard on the width says that it was added in native_layer_norm, as TORCH_LOGS=dynamic does."""
    report = cells.explain(LAYER_NORM, "--dynamic true --backend aot_eager")

    assert any("native_layer_norm" in f"{guard.expression} {guard.words}" for guard in report.guards)
