"""Whatever reads the names of a notebook while a cell runs, reads what a plain cell would have bound by then."""

from __future__ import annotations

import ast
import types
from typing import Any

import pytest
import torch
from side_by_side import both

from compile_magic import _torch
from compile_magic.notebook.plan import Ways
from compile_magic.notebook.plan import plan

SETUP = """
import functools
import numpy as np
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

alpha, target = 1.0, 0.0
xs = [x, x]
w = torch.zeros(1, requires_grad=True)
lbfgs = torch.optim.LBFGS([w], max_iter=3)
hooked = torch.ones(3, requires_grad=True)

def scale(t):
    return t * alpha

def closure():
    lbfgs.zero_grad()
    loss = ((w - target) ** 2).sum()
    loss.backward()
    return loss

class Data(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError
        return x * alpha

class Reader:
    @property
    def scaled(self):
        return x * alpha

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return x * alpha

    def __add__(self, other):
        return other * alpha

    def __bool__(self):
        return alpha > 5

    def __iter__(self):
        return iter([x * alpha])

    def __contains__(self, other):
        return alpha > 5

    def __format__(self, spec):
        return str(alpha)

    def __enter__(self):
        return x * alpha

    def __exit__(self, *error):
        return False

hooked.register_hook(lambda g: g * alpha)
seq = nn.Sequential(nn.Linear(3, 3))
seq.register_forward_hook(lambda m, a, o: o * alpha)
data, reader = Data(), Reader()
"""

# How a cell that has just bound a name reaches code of the user's that reads it.
READS = {
    "an optimizer's closure": "target = 2.0\nloss = lbfgs.step(closure)\nw.item()",
    "map": "alpha = 10.0\nout = list(map(scale, xs))",
    "filter": "alpha = 0.0\nout = list(filter(scale, [1.0, 2.0]))",
    "reduce": "alpha = 3.0\nout = functools.reduce(lambda a, b: a + b * alpha, [1.0, 2.0])",
    "the key of sorted": "alpha = -10.0\nout = sorted([1.0, 2.0], key=scale)",
    "the key of max": "alpha = -10.0\nout = max([1.0, 2.0], key=lambda t: t * alpha)",
    "apply_": "alpha = 10.0\nout = torch.ones(2, dtype=torch.float64)\nout.apply_(scale)",
    "checkpoint": "alpha = 10.0\nout = checkpoint(scale, x, use_reentrant=False)",
    "vectorize": "alpha = 10.0\nout = np.vectorize(scale)(np.ones(2)).tolist()",
    "vmap": "alpha = 10.0\nout = torch.vmap(scale)(torch.ones(2, 3))",
    "an item of a data set": "alpha = 10.0\nout = data[0]",
    "a loader": "alpha = 10.0\nout = [b for b in DataLoader(data)]",
    "a loop over a data set": "alpha = 10.0\nout = 0\nfor b in data:\n    out = out + b",
    "a property": "alpha = 10.0\nout = reader.scaled",
    "an attribute that is made up": "alpha = 10.0\nout = reader.anything",
    "an operator": "alpha = 10.0\nout = reader + x",
    "the truth of an object": "alpha = 10.0\nout = 1 if reader else 0",
    "iteration": "alpha = 10.0\nout = list(reader)",
    "in": "alpha = 10.0\nout = 3 in reader",
    "a format": "alpha = 10.0\nout = f'{reader}'",
    "a context": "alpha = 10.0\nwith reader as q:\n    out = q + 1",
    "a hook on a tensor": "alpha = 10.0\n(hooked * 2).sum().backward()\nout = hooked.grad",
    "a hook on a module": "alpha = 10.0\nout = seq(x)",
    "a name that is new": "def reads():\n    return fresh * 2\nfresh = x + 1\nout = list(map(lambda _: reads(), [1]))",
}


@pytest.mark.parametrize("line", ["-q", "-q --cell"])
@pytest.mark.parametrize("cell", READS.values(), ids=READS)
def test_a_name_is_seen_at_once(cell: str, line: str) -> None:
    """A name that the cell binds is seen by all that the cell reaches, in whichever way; later cells see it too."""
    plain, explained, report = both(cell, setup=SETUP, line=line, then="after = scale(x)")

    assert explained == plain
    assert (report.mode == "cell") is ("--cell" in line)


HALFWAY = {
    "raise": "y = x + 1\nraise ValueError('no')",
    "an error of Python's": "y = x + 1\nz = 1 / 0\nw = 2",
    "a name that isn't there": "y = x + 1\nz = y * undefined",
    "a shape that doesn't fit": "y = x + 1\nz = y @ torch.ones(4)\nw = 2",
    "an index that is too large": "y = x + 1\nz = y[7]\nw = 2",
    "an op that fails on the values": (
        "x = x + 1\ny = x.sum().item()\nx = x + torch.rand(3)\nz = x.gather(0, torch.tensor([9]))"
    ),
    "a class that is too high": "y = torch.rand(3)\nz = nn.functional.nll_loss(torch.ones(1, 3), torch.tensor([5]))",
    "a matrix that isn't positive": "y = x * 2\nz = torch.linalg.cholesky(-torch.eye(3))\ny = y + 1",
    "in a loop": "total = 0\nfor i in range(5):\n    total = total + x\n    z = x.gather(0, torch.tensor([i]))",
    "an assertion": "y = x + 1\nassert y.sum() > 99, 'too small'\nz = 2",
    "a handler for something else": (
        "try:\n    y = x.gather(0, torch.tensor([9]))\nexcept ValueError:\n    z = 1\nfinally:\n    w = 2"
    ),
}


@pytest.mark.parametrize("line", ["-q", "-q --cell"])
@pytest.mark.parametrize("cell", HALFWAY.values(), ids=HALFWAY)
def test_an_error_leaves_what_was_bound_before_it(cell: str, line: str) -> None:
    """A cell that raises half way, also inside a graph, has bound and drawn what the plain cell has."""
    plain, explained, _ = both(cell, line=line, then="after = torch.rand(2)")

    assert explained == plain
    assert plain.cells[0][1] is not None


ONE_FUNCTION = {
    "names and value": ("y = x + 1\nz = y * 2\nz", 1),
    "a name that is bound anew": ("x = x + 1\ny = x * 2\nx = y", 1),
    "names that change places": ("a, b = x, x + 1\na, b = b, a", 1),
    "item": ("y = x + 1\nz = y.sum().item()\nw = y * z", 2),
    "a loop": ("y = x\nfor i in range(3):\n    y = y + i\ny", 1),
    "a list of the cell's": ("q = []\nfor i in range(3):\n    q.append(x * i)\nq", 1),
    "a number that becomes a tensor": ("total = 0\nfor i in range(3):\n    total += x.sum()\ntotal", 1),
    "functions of torch": ("import torch.nn.functional as F\ny = F.softmax(torch.stack([x, x.sin()]), dim=-1)", 1),
    "a clock": ("import time\nt = time.perf_counter()\ny = x * 2\nt = 0 * (time.perf_counter() - t)", 1),
    "math and builtins": ("import math\ny = x * math.sqrt(len([1, 2])) + max(1, 2)", 1),
    "no_grad": ("with torch.no_grad():\n    y = x + 1\nz = y * 2", 1),
    "random numbers": ("y = torch.rand(3)\nz = y + torch.randn(3)", 1),
}


@pytest.mark.parametrize(("cell", "graphs"), ONE_FUNCTION.values(), ids=ONE_FUNCTION)
def test_a_cell_of_torchs_ops_is_one_function(cell: str, graphs: int) -> None:
    """A cell that reaches torch's ops and builtins alone is compiled as one function, without a break by our making."""
    plain, explained, report = both(cell)

    assert explained == plain
    assert (report.mode, report.graph_count) == ("cell", graphs)
    assert report.skipped_frame_count == 0


IN_A_FUNCTION = {
    "annotations": "class A: pass\na = A()\na.b: int = 3\n(c): int = 4\nd = {}\nd['k']: int = 5",
    "an annotation after an error": "y = x + 1\n1 / 0\nn: int = 3",
    "an annotation of an unknown name": "m: int = 2\nn: Undefined = 3",
    "annotations that are texts": "from __future__ import annotations\nn: Undefined = 3\ny = f(x)",
    "global": "y = f(x)\nglobal z\nz = y + 1",
    "nonlocal": "nonlocal y\ny = 1",
    "definitions": "class Q:\n    def m(self): return late\nlate = x + 1\nq = Q().m()\nn = Q.m.__qualname__",
    "a lambda": "k = lambda: late\nlate = x + 1\nq = k()\nn = k.__qualname__",
    "names in patterns": "match x.shape[0]:\n    case 3 as k:\n        y = x * k\n    case {**rest}:\n        y = 0",
    "del": "y = x + 1\ndel y\ntry:\n    y\nexcept NameError as e:\n    t = str(e)",
    "an error that is caught": (
        "try:\n    y = x + 1\n    z = x.gather(0, torch.tensor([9]))\nexcept (RuntimeError, KeyError):\n    w = 1"
    ),
    "a name that the user's function binds": "def binds():\n    global made\n    made = x + 1\nbinds()\ny = made * 2",
}


@pytest.mark.parametrize("cell", IN_A_FUNCTION.values(), ids=IN_A_FUNCTION)
def test_a_body_in_a_function_means_what_it_means_in_a_cell(cell: str) -> None:
    """What means something else in a function than at the top of a cell is put so that it means the same."""
    plain, explained, _ = both(cell, line="-q --cell")

    assert explained == plain


@pytest.mark.parametrize("cell", ["%time y = x + 1", "%%time\ny = x + 1", "y = 1\n%timeit -n1 -r1 y"])
def test_a_magic_is_not_put_into_a_function(cell: str, notebook: Any) -> None:
    """A magic, which reads and binds the names of the frame that it is called from, is refused under --cell."""
    notebook.ok("import torch\nx = torch.ones(3)")

    refused = notebook.run(f"%%compile_explain --cell\n{cell}")

    assert "a magic in it sees other names in a function" in str(refused.error)


def test_names_that_an_error_in_a_graph_loses_are_said(notebook: Any) -> None:
    """Where an op of a graph raises and the cell can't be run anew, a note says that names are missing."""
    notebook.ok("import torch\nx = torch.ones(3)")
    notebook.run("%%compile_explain -q --cell\nx.add_(1)\ny = x * 2\nz = x.gather(0, torch.tensor([9]))")

    assert any("names that the cell had bound since the last break" in note for note in notebook.report.notes)


# Each would show that the body is a function, or has done more than bind names if the body fails and runs anew.
NOT_ONE = {
    "a write into a tensor": "x.add_(1)\ny = x * 2",
    "a write into an item": "x[0] = 7.0\ny = x * 2",
    "an augmented tensor": "x += 1\ny = x * 2",
    "an op with out": "torch.add(x, 1, out=x)\ny = x * 2",
    "an op in place by position": "y = nn.functional.relu(x, True)",
    "a list that was there": "kept.append(x + 1)",
    "print": "y = x + 1\nprint(y)",
    "a class of the user's": "y = Net",
    "a tensor with a hook": "y = watched * 2",
    "a tensor with an attribute": "y = named * 2",
    "a subclass": "y = sub * 2",
    "a list with one of them": "y = torch.stack(mixed)",
    "an array": "y = torch.from_numpy(array)",
    "numpy's random numbers": "y = x * np.random.rand()",
    "an import of another package": "import json\ny = x + len(json.dumps([1]))",
    "a seed": "torch.manual_seed(3)\ny = torch.rand(2)",
    "a name with an object": "obj = x + 1",
    "a patched op": "y = torch.relu(x)",
    "a builtin of the user's": "y = len([1]) + x",
    "an annotation": "n: int = 3\ny = x * n",
    "an error under a name": "try:\n    y = x + 1\nexcept ValueError as e:\n    pass",
    "an error of the user's": "try:\n    y = x + 1\nexcept Mine:\n    pass",
    "backward": "leaf.sum().backward()",
    "an import on the way": "y = x + 1\nimport math",
}
FOUND_BEFORE = """
import numpy as np
np.random.seed(0)
relu, kept, array, obj = torch.relu, [], np.ones(3), object()
watched, leaf = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
watched.register_hook(lambda g: g)
named = torch.ones(3)
named.note = print
class Sub(torch.Tensor):
    pass
class Mine(Exception):
    pass
sub = torch.ones(3).as_subclass(Sub)
mixed = [x, sub]
"""
PATCHED = {
    "a patched op": "torch.relu = lambda t: relu(t)\n",
    "a builtin of the user's": "def len(v): return 7\n",
}


@pytest.mark.parametrize("name", NOT_ONE)
def test_what_could_see_the_difference_is_not_made_one_function(name: str) -> None:
    """Where a cell reaches more than torch's ops, or writes more than names, a sentence says that none was compiled."""
    then = "torch.relu = relu\n"
    plain, explained, report = both(NOT_ONE[name], setup=FOUND_BEFORE + PATCHED.get(name, ""), then=then)

    assert explained == plain
    assert report.mode == "calls"
    if not report.targets:
        assert [note for note in report.notes if "nothing was compiled" in note and "--cell" in note] != []


def test_a_mode_of_the_users_sees_each_op_of_a_cell() -> None:
    """Under a torch function mode that a cell has opened, a later cell isn't made one function."""
    setup = (
        "seen = []\nclass Mode(torch.overrides.TorchFunctionMode):\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n"
        "        seen.append(f.__name__)\n        return f(*a, **(k or {}))\n"
        "mode = Mode()\nmode.__enter__()\n"
    )
    closes = "mode.__exit__(None, None, None)\nn = len(seen)"
    try:
        plain, explained, report = both("y = x + 1", setup=setup, then=closes)
    finally:
        _torch.set_function_modes([])

    assert (explained.variables["n"], report.mode) == (plain.variables["n"], "calls")


def test_looking_at_a_cell_runs_nothing_of_the_users() -> None:
    """Properties, __getattr__, __class__, __eq__, __hash__ and __len__ of what a cell names aren't run by the look."""
    ran: list[str] = []

    class Sly:
        def __getattribute__(self, name: str) -> Any:
            ran.append(name)
            raise RuntimeError(name)

        def __eq__(self, other: object) -> bool:
            ran.append("==")
            raise RuntimeError

        def __hash__(self) -> int:
            ran.append("hash")
            raise RuntimeError

        def __len__(self) -> int:
            ran.append("len")
            raise RuntimeError

    names = {"torch": torch, "sly": Sly(), "held": [Sly()], "module": types.ModuleType("module")}
    vars(names["module"]).update(sly=Sly(), __getattr__=ran.append)
    for use in (
        "sly.part",
        "sly[0]",
        "held[0]",
        "len(sly)",
        "sly.part(sly)",
        "module.sly",
        "module.missing",
        "sly + 1",
    ):
        body = ast.parse(f"if torch.rand(1) > 2:\n    y = {use}\nsly = 3").body

        assert plan(body, names, Ways()).mode == "calls"
    assert ran == []
