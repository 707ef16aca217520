"""Stop is pressed at random moments of a cell: it ends, and all that a magic has moved is put back."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from round2 import Case
from sessions.play import Left
from sessions.play import differences

# A press at once, and one in the middle of a compile or of the measuring.
DELAYS = (0.01, random.Random(0).uniform(0.3, 1.0))  # noqa: S311 - the same each time
SETUP = """import torch, random, numpy as np
x = torch.ones(3)
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
opt = torch.optim.SGD(net.parameters(), lr=0.0)
kept = {'f': None}
def helper(t):
    torch._dynamo.graph_break()
    return t * 2
def f(t):
    return helper(t).sin() + 1
kept['f'] = f
own = torch.compile(lambda t: t * 3, backend='eager')
def step():
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
"""
COMPILES = "while True:\n    exec('def made(t):\\n    return f(t) + 1')\n    y = made(x)\n    z = net(x)"
OWN_COMPILES = "while True:\n    own = torch.compile(lambda t: t * 3, backend='eager')\n    y = own(x)"
CELLS = {
    "compiles for ever": ("%%compile_explain -q", COMPILES),
    "the user's own": ("%%compile_explain -q", OWN_COMPILES),
    "watched": ("%compile_watch", OWN_COMPILES),
    "named": ("%%compile_explain f net -q", "while True:\n    torch._dynamo.reset_code_caches()\n    y = f(net(x))"),
    "benched": ("%%compile_bench -q --backends aot_eager --budget 60", "step()\ny = f(x)"),
    "benched by name": ("%%compile_bench f -q --backends eager --budget 60", "y = f(net(x))"),
}


@pytest.mark.parametrize("delay", DELAYS, ids="{:.2f}".format)
@pytest.mark.parametrize("name", CELLS)
def test_a_press_ends_the_cell_and_all_is_put_back(name: str, delay: float, play: Callable[..., list[Left]]) -> None:
    """The cell ends with KeyboardInterrupt, and the process, functions, modules and marks are as if it had not run.

    torch can lose a press in a compile, with and without us: the second one has to do then.
    """
    first, cell = CELLS[name]
    after = ("w = f(net(x)).shape, kept['f'] is f",)
    (pressed,) = play(Case((SETUP,), cell, first, after).session, "magic", press=delay)
    (plain,) = play(Case((SETUP,), "raise KeyboardInterrupt", first, after).session, "plain")

    assert pressed.failure == ""
    assert (pressed.cells[1]["error"] or [None])[0] == "KeyboardInterrupt"
    for cells in (plain.cells, pressed.cells):
        # Where it was stopped, and what the cell had bound by then, is no matter.
        cells[1].update(dict.fromkeys(("stdout", "stderr", "error")))
    for left in (plain, pressed):
        left.names = {key: value for key, value in left.names.items() if key not in {"y", "z", "made", "own"}}
        if "own(" in cell:
            # These the user's own compiles leave.
            left.dynamos, left.entries = {}, {}
    assert list(differences(plain, pressed)) == []
