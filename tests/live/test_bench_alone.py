"""A cell that runs once: what it calls is measured alone, and the cell itself is run as a plain one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook import Notebook

from compile_magic.notebook import alone

LINE = "%%compile_bench --budget 0.01 --backends eager\n"
SETUP = (
    "import torch\nfrom torch import nn\ntorch.manual_seed(0)\nx = torch.ones(4)\nlog = []\n"
    "def f(t):\n    return t.sin() + 1\n"
    "def step(t, *more, scale=2, **rest):\n    log.append(len(more))\n"
    "    return t.mul_(scale) + sum(more) + rest['w']\n"
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.lin = nn.Linear(4, 4)\n"
    "    def forward(self, t, n=1):\n        return self.lin(t) * n\n"
    "    def loss(self, t):\n        return self(t).sum()\n"
    "net = Net()\n"
)
# What the cell does beside, which can't be done twice, and words of the reason.
ONCES = {
    "writes a file": ("open({path!r}, 'a').write('x')\n", "open"),
    "takes from an iterator": ("n = next(it)\n", "`it` is an iterator"),
    "runs a command": ("!true\n", "!true"),
}
CALLED = {
    "a function": ("y = f(x)\n", "f"),
    "a function in a loop": ("for _ in range(3):\n    y = f(x)\n", "f"),
    "in a comprehension": ("ys = [f(x) for _ in range(2)]\n", "f"),
    "a module": ("y = net(x, n=3)\n", "net"),
    "a bound method": ("y = net.loss(x)\n", "net.loss"),
    "all kinds of arguments, written in place": ("y = step(x, 1, 2, scale=3, w=4)\n", "step"),
    "what the cell defines": ("def g(t):\n    return t * 2\ny = g(x)\n", "g"),
    "a partial": ("from functools import partial\nh = partial(f, x)\ny = h()\n", "h"),
    "what the user has compiled": ("cf = torch.compile(f, backend='eager')\ny = cf(x)\n", "cf"),
    "backward outside": ("loss = net.loss(x)\nloss.backward()\ng = net.lin.weight.grad\n", "net.loss"),
}


def played(*cells: str) -> Notebook:
    made = Notebook()
    for cell in (f"{SETUP}it = iter(range(9))\n", *cells):
        made.ok(cell)
    return made


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    made = played()
    yield made
    made.close()


def left(notebook: Notebook) -> dict[str, str]:
    """Spell out the names that a cell can have bound or changed."""
    names = ("x", "y", "ys", "n", "loss", "g", "log", "_")
    found = {name: repr(notebook.shell.user_ns.get(name)) for name in names}
    return {name: text for name, text in found.items() if " at 0x" not in text}


@pytest.mark.parametrize(("cell", "name"), CALLED.values(), ids=CALLED)
def test_a_function_is_measured_alone_where_its_cell_cannot_be_repeated(cell: str, name: str) -> None:
    """The report has the figures of what was called, says so with the line, and the notebook is as after one run."""
    whole = f"n = next(it)\n{cell}"
    plain = played(whole)
    expected = left(plain)
    plain.close()

    notebook = played(f"{LINE}{whole}")
    report, found = notebook.get("_compile_report"), left(notebook)
    notebook.close()

    assert found == expected
    line = 2 + whole[: whole.index(f"{name}(")].count("\n") if name != "g" else 5
    assert report.error is None
    assert report.notes[0].startswith("The cell runs once: `it` is an iterator")
    assert report.notes[0].endswith(f"`{name}` was measured alone, with the arguments of its call on line {line}")
    assert report.variants[0].median_s
    assert all(check.passed for check in report.checks if check.name == "state")


@pytest.mark.parametrize(("once", "why"), ONCES.values(), ids=ONCES)
def test_what_cannot_be_repeated_happens_once(once: str, why: str, notebook: Notebook, tmp_path: Path) -> None:
    """Neither the bench nor what is measured alone does it again, and the report stands below the cell's own output."""
    path = tmp_path / "log.txt"
    notebook.ok(f"{LINE}{once.format(path=str(path))}print('out')\ny = f(x)")

    assert why in notebook.get("_compile_report").notes[0]
    assert not path.exists() or path.read_text() == "x"
    assert next(notebook.get("it")) == ("next" in once)


def test_the_arguments_are_those_of_the_first_call(notebook: Notebook) -> None:
    """What the cell writes into an argument later on is not in the copy, and the copy is not the user's."""
    calls = []
    real = alone.measure_alone

    def seen(found: Any, *rest: Any) -> Any:
        calls.extend((call.args[0].tolist(), call.args[0] is notebook.get("x")) for call in found.made)
        return real(found, *rest)

    alone.measure_alone = seen
    try:
        notebook.ok(f"{LINE}n = next(it)\nfor _ in range(3):\n    y = step(x, w=1)")
    finally:
        alone.measure_alone = real

    assert calls == [([1.0] * 4, False)]
    assert notebook.get("x").tolist() == [8.0] * 4
    assert notebook.get("log") == [0, 0, 0]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("n = next(it)\ny = x + 1", "`it` is an iterator"),
        ("n = next(it)\ny = [f][0](x)", "`it` is an iterator"),
        ("def g(t):\n    return t + next(it)\ny = g(x)", "`g` alone can't be repeated either"),
        ("n = next(it)\nimport sys\nsys.setprofile(None)\ny = f(x)", "`it` is an iterator"),
    ],
    ids=["nothing of the user's", "without a name", "no more than the cell", "another profiler"],
)
def test_where_nothing_can_be_measured_alone_the_report_says_why(cell: str, words: str, notebook: Notebook) -> None:
    """The cell has run once, and the sentence says what to move out of it."""
    ran = notebook.ok(f"{LINE}{cell}")

    assert words in notebook.get("_compile_report").error
    assert len(ran.displays) == 1


def test_arguments_that_are_too_large_are_not_copied(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory for copies has a bound, and the report says that it was the reason."""
    monkeypatch.setattr(alone, "MOST_BYTES", 15)

    notebook.ok(f"{LINE}n = next(it)\ny = f(x)")

    assert "The arguments of `f` are too large to keep a copy" in notebook.get("_compile_report").error


def test_a_cell_that_raises_is_not_measured_alone(notebook: Notebook) -> None:
    """Its error is the answer, the report says why it was not repeated, and no hook is left behind."""
    ran = notebook.run(f"{LINE}n = next(it)\ny = f(x)\nraise ValueError(n)")

    assert isinstance(ran.error, ValueError)
    assert "`it` is an iterator" in notebook.get("_compile_report").error
    assert sys.getprofile() is None


def test_a_profiler_of_the_users_is_left_alone(notebook: Notebook) -> None:
    """Where Python's hook is taken, nothing is noted and the hook stays."""
    notebook.ok("import sys\nevents = []\ndef hook(*event):\n    events.append(1)\nsys.setprofile(hook)")
    try:
        notebook.ok(f"{LINE}n = next(it)\ny = f(x)\nsame = sys.getprofile() is hook")
    finally:
        sys.setprofile(None)

    assert notebook.get("same")
    assert "`it` is an iterator" in notebook.get("_compile_report").error


def test_the_slower_of_two_is_the_report_and_both_are_shown(notebook: Notebook) -> None:
    """Each callee has its own report; the bound one is that of the call that takes longest."""
    notebook.ok("def slow(t):\n    for _ in range(200):\n        t = t.sin()\n    return t")

    ran = notebook.ok(f"{LINE}n = next(it)\ny = f(x)\nz = slow(x)")

    assert notebook.get("_compile_report").targets[0].name == "slow"
    assert len(ran.displays) == 2
