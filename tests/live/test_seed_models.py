"""Rows 20 and 32 of the seed facts: training with a compiled loss, and a machine without a C++ compiler.

The figures are torch's own, measured with CompileCounterWithBackend and aot_autograd's compilers on torch 2.13.
"""

from __future__ import annotations

import pytest

MODELS = """
import copy
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
twin = copy.deepcopy(model)
x, y = torch.randn(5, 8), torch.randn(5, 4)
"""

TRAINING = """
def loss_of(x, y):
    return ({model}(x) - y).pow(2).mean()

opt = torch.optim.SGD({model}.parameters(), lr=0.1)
for _ in range(5):
    loss = loss_of(x, y)
    loss.backward()
    opt.step()
    opt.zero_grad()
"""

WITHOUT_A_COMPILER = """
def f(x):
    return (x.sin() * 2).sum()

with torch._inductor.config.patch({"cpp.cxx": (None, "/nonexistent/c++"), "force_disable_caches": True}):
    y = f(torch.zeros(8))
"""


def only(found):
    assert len(found) == 1, found
    return found[0]


def said(ran):
    """Return the text of the report as one line, without the marks of wrapped lines."""
    return " ".join(ran.displays[-1]["text/plain"].replace("┃", " ").split())


# --- row 20 ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def trained(notebook):
    """A notebook in which `model` was trained under the magic with aot_eager, and `twin` alike in a plain cell."""
    notebook.ok(MODELS)
    notebook.explain(TRAINING.format(model="model"), "--backend aot_eager")
    notebook.ok(TRAINING.format(model="twin"))
    return notebook


def test_a_compiled_loss_trains_as_eager_does(trained) -> None:
    """Row 20: five steps of eager SGD on a loss compiled with aot_eager give the parameters of an eager twin."""
    model, twin = trained.get("model"), trained.get("twin")
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    differences = [float((ours - eager).detach().abs().max()) for ours, eager in pairs]

    assert differences == [0.0] * 4


def test_a_compiled_loss_is_one_graph_and_one_backward_graph(trained) -> None:
    """Row 20: five steps compile the forward once, to 6 ops, and the backward once, to 19.

    Counted with aot_autograd's own compilers and the partitioner of aot_eager (min-cut); the default one gives 20.
    """
    report = trained.report

    assert (report.graph_count, report.graph_break_count, report.recompile_count) == (1, 0, 0)
    assert (report.op_count, only(report.backward_graphs).op_count) == (6, 19)


def test_the_backward_graph_is_shown(trained) -> None:
    """Row 20: the report has the code of the backward graph, and its text has a row for it."""
    report = trained.report

    assert "gelu_backward" in only(report.backward_graphs).code
    assert "1 backward graph, 19 ops" in str(report)


def test_a_backward_graph_needs_aotautograd(notebook) -> None:
    """Row 20: under the eager backend autograd runs the backward itself, and no backward graph is claimed."""
    notebook.ok(MODELS)
    report = notebook.explain(TRAINING.format(model="model"))

    assert (report.graph_count, report.backward_graphs) == (1, ())


# --- row 32 ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(notebook, monkeypatch):
    """A notebook on a machine whose C++ compiler isn't there."""
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    notebook.ok("import torch\nimport torch._inductor.config")
    return notebook


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_most_backends_need_no_compiler(bare, backend) -> None:
    """Row 32: without a C++ compiler, eager and aot_eager give the full report: one graph of 3 ops."""
    report = bare.explain(WITHOUT_A_COMPILER, f"--backend {backend}")

    assert (report.graph_count, report.op_count, report.failures) == (1, 3, ())


def test_inductors_failure_is_a_row_with_its_reason(bare) -> None:
    """Row 32: without a C++ compiler, Inductor's failure is a row with its reason, and the cell ends well."""
    ran = bare.ok(f"%%compile_explain --backend inductor\n{WITHOUT_A_COMPILER}")
    report = bare.report
    failure = only(report.failures)

    # The counter too is handed the graph before Inductor fails: 1 frame of 3 ops.
    assert (report.graph_count, report.op_count) == (1, 3)
    assert (failure.kind, failure.function, failure.ran_eager) == ("InductorError", "f", True)
    assert "No working C++ compiler" in failure.reason
    assert "No working C++ compiler" in said(ran)
    assert bare.get("y").item() == 0.0
