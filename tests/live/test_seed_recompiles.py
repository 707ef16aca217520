"""Rows 9 to 12 and 17 of the seed facts: what is compiled again, and what keeps it from being.

The figures are torch's own, measured with CompileCounterWithBackend and TORCH_LOGS=recompiles on torch 2.13.
"""

from __future__ import annotations

import pytest

DTYPE_THEN_GRAD = """
def f(x):
    return x.sin() + 1

f(torch.ones(3))
f(torch.ones(3, dtype=torch.float64))
y = f(torch.ones(3, dtype=torch.float64, requires_grad=True))
"""

DROPOUT = """
for mode in (True, False, True):
    model.train(mode)
    y = model(torch.ones(3))
"""

OVER_THE_LIMIT = """
def f(x):
    return x.sin() + 1

with torch._dynamo.config.patch(recompile_limit=2):
    for n in (2, 3, 4, 5, 6):
        y = f(torch.zeros(n))
"""

SCALED = """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5

    def forward(self, x):
        return x * self.scale

model = Scaled()
for value in (0.5, 0.6, 0.7, 0.8):
    model.scale = value
    y = model(torch.ones(3))
"""

SCALED_BY_A_BUFFER = """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        return x * self.scale

model = Scaled()
for value in (0.5, 0.6, 0.7, 0.8):
    model.scale.fill_(value)
    y = model(torch.ones(3))
"""

STANCE = """
def f(t):
    return t.cos() * 2

{before}
with torch.compiler.set_stance("{stance}"):
    y = f(torch.zeros(5))
"""

FAIL_ON_RECOMPILE = STANCE.format(before="f(torch.zeros(4))", stance="fail_on_recompile")


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


# --- rows 9 to 11 -----------------------------------------------------------------------------------------------------


def test_a_new_dtype_and_a_new_requires_grad_recompile(cells) -> None:
    """Row 9: dtype, then requires_grad, compile three frames, and each recompile says in words what changed."""
    report = cells.explain(DTYPE_THEN_GRAD)
    dtype, grad = report.recompiles

    assert counted(report) == (3, 2)
    assert (dtype.cause, grad.cause) == ("dtype", "requires_grad")
    assert "float32" in dtype.words
    assert "float64" in dtype.words
    assert "requires_grad" in grad.words or "gradient" in grad.words
    assert report.graph_break_count == 0


def test_a_recompile_names_the_failing_guard_of_every_entry(cells) -> None:
    """Row 9: the second recompile failed a guard of both entries that there were, the nearest one first."""
    dtype, grad = cells.explain(DTYPE_THEN_GRAD).recompiles

    assert [guard.entry for guard in dtype.failed] == ["0/0"]
    assert {"0/0", "0/1"} == {guard.entry for guard in grad.failed}
    assert ["requires_grad" in guard.expression for guard in grad.failed] == [True, False]


def test_train_and_eval_are_two_frames(cells) -> None:
    """Row 10: a Dropout model in train, eval, train is compiled twice: the third call finds the first entry."""
    cells.ok("model = torch.nn.Dropout(0.5)")
    report = cells.explain(DROPOUT)
    found = only(report.recompiles)

    assert counted(report) == (2, 1)
    assert found.cause == "training"
    assert "training" in only(found.failed).expression


def test_the_recompile_limit_is_an_alarm(cells) -> None:
    """Row 11: at a limit of 2, five sizes compile two frames; then the alarm says that `f` is silently eager."""
    ran = cells.ok(f"%%compile_explain --dynamic false\n{OVER_THE_LIMIT}")
    report = cells.report
    hit = only(report.limit_hits)
    text = said(ran)

    assert counted(report) == (2, 1)
    assert (report.limit_hit_count, report.skipped_frame_count) == (1, 0)
    assert (hit.function, hit.location.line, hit.limit) == ("f", 3, 2)
    assert "silently" in text
    assert "2 compiled versions" in text
    assert len(cells.get("y")) == 6


def test_the_refused_compile_names_its_guards(cells) -> None:
    """Row 11: the alarm says which sizes the two entries wanted and which one came."""
    hit = only(cells.explain(OVER_THE_LIMIT, "--dynamic false").limit_hits)

    assert {("2", "4"), ("3", "4")} == {(guard.expected, guard.actual) for guard in hit.failed}


# --- row 12 -----------------------------------------------------------------------------------------------------------


def test_a_float_attribute_turns_symbolic(cells) -> None:
    """Row 12: four values of a float attribute compile twice, the second time as a symbol (1, then 2 ops)."""
    report = cells.explain(SCALED)
    found = only(report.recompiles)
    guard = only(found.failed)

    assert counted(report) == (2, 1)
    assert [graph.op_count for graph in report.graphs] == [1, 2]
    assert (found.cause, found.function, guard.expected) == ("python_value", "forward", "0.5")
    assert "self.scale" in guard.expression
    assert guard.location.line == 9


def test_a_static_float_attribute_is_compiled_for_each_value(cells) -> None:
    """Row 12: with --dynamic false each of the four values is a frame, and the last recompile failed three entries."""
    report = cells.explain(SCALED, "--dynamic false")

    assert counted(report) == (4, 3)
    assert {"python_value"} == {each.cause for each in report.recompiles}
    assert {"0/0", "0/1", "0/2"} == {guard.entry for guard in report.recompiles[-1].failed}


def test_a_buffer_is_compiled_once(cells) -> None:
    """Row 12: Dynamo guards what a buffer is, never what it holds."""
    report = cells.explain(SCALED_BY_A_BUFFER)

    assert counted(report) == (1, 0)
    assert pytest.approx([0.8] * 3) == cells.get("y").tolist()


# --- row 17 -----------------------------------------------------------------------------------------------------------


def test_force_eager_compiles_nothing(cells) -> None:
    """Row 17: under force_eager there is no graph, and the report names the stance."""
    report = cells.explain(STANCE.format(before="", stance="force_eager"))

    assert counted(report) == (0, 0)
    assert "force_eager" in " ".join(report.notes)
    assert cells.get("y").tolist() == [2.0] * 5


def test_force_eager_is_the_only_reason_given(cells) -> None:
    """Row 17: where the stance is the reason, the text doesn't guess that `f` was not called or has no tensor op."""
    ran = cells.ok(f"%%compile_explain\n{STANCE.format(before='', stance='force_eager')}")

    assert "not called" not in said(ran)


def test_eager_on_recompile_keeps_one_frame(cells) -> None:
    """Row 17: under eager_on_recompile a new size runs in eager and is neither a graph nor a recompile."""
    report = cells.explain(STANCE.format(before="f(torch.zeros(4))", stance="eager_on_recompile"))

    assert counted(report) == (1, 0)
    assert (report.skipped_frame_count, len(report.failures)) == (0, 0)
    assert cells.get("y").tolist() == [2.0] * 5


def test_eager_on_recompile_is_named(cells) -> None:
    """Row 17: torch has no record of a call that stays eager under eager_on_recompile: the notes name the stance."""
    report = cells.explain(STANCE.format(before="f(torch.zeros(4))", stance="eager_on_recompile"))

    assert "eager_on_recompile" in " ".join(report.notes)


def test_fail_on_recompile_reaches_the_notebook(cells) -> None:
    """Row 17: under fail_on_recompile a new size ends the cell with torch's error, which the report has in full."""
    ran = cells.run(f"%%compile_explain\n{FAIL_ON_RECOMPILE}")

    assert type(ran.error) is RuntimeError
    assert "Detected recompile when torch.compile stance is 'fail_on_recompile'" in str(ran.error)
    assert counted(cells.report) == (1, 0)
    assert str(ran.error) in cells.report.error


def test_fail_on_recompile_says_which_guard_failed(cells) -> None:
    """Row 17: the text of the report has the reason of the error too: the guard that failed, with both sizes."""
    ran = cells.run(f"%%compile_explain\n{FAIL_ON_RECOMPILE}")

    assert "expected 4, actual 5" in said(ran)
