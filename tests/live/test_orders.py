"""What the user has compiled himself is his, in whatever order he and compile_magic are at work."""

from __future__ import annotations

from typing import Any

import orders
import pytest
import torch

from compile_magic import Bencher
from compile_magic import _torch
from compile_magic import explain
from compile_magic import watch

INSIDE = """
@torch.compile(backend=counter('inner'))
def inner(x):
    {body}
def step(x):
    return inner(x)
x = torch.ones(4)
"""
BODIES = {
    "branch": "return x + 1 if x.sum() > 0 else x",
    "item": "return x * x.sum().item()",
    "print": "print(end='')\n    return x + 1",
    "disabled helper": "return off(x) + 1",
    "nonzero": "return x[x > 0].sum()",
    "random": "y = x + 0 * random.random()\n    print(end='')\n    return y * 2",
    "warning": "warnings.warn('mine')\n    return x + 1",
    "nothing": "return x + 1",
}
FIRST = """
import random, warnings, torch
warnings.simplefilter('ignore')
@torch.compiler.disable
def off(x):
    return x * 3
"""
MAGICS = ("%%compile_explain -q", "%%compile_explain -q step", "%%compile_bench -q --backends eager --budget 0.01")


# A bench with those that differ in how a part after the break is compiled: by torch itself, by a call of it, or not.
FIRST_COMPILES = [(magic, name) for magic in MAGICS[:2] for name in BODIES]
FIRST_COMPILES += [(MAGICS[2], name) for name in ("branch", "disabled helper", "random", "warning", "nothing")]


@pytest.mark.parametrize(("magic", "name"), FIRST_COMPILES)
def test_what_the_user_compiled_first_in_our_call_goes_on(notebook: Any, name: str, magic: str) -> None:
    """A function of the user's whose first compile falls into our call works afterwards, and compiles once in all."""
    body = BODIES[name]
    notebook.shell.user_ns["counter"] = orders.counter
    notebook.ok(FIRST + INSIDE.format(body=body))
    orders.asked()
    notebook.ok(f"{magic}\ny = step(x)")
    notebook.ok("z = step(x)\nw = inner(x)")
    with_us = orders.asked()
    torch.compiler.reset()
    notebook.ok(FIRST + INSIDE.format(body=body) + "y2 = step(x)\nz2 = step(x)\nw2 = inner(x)")

    if body != BODIES["random"]:
        # Where a number is drawn, torch compiles anew for each.
        assert with_us == orders.asked()
        assert notebook.get("w").tolist() == notebook.get("w2").tolist()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("way", [explain, Bencher(backends=("eager",), budget_s=0.01)], ids=["explain", "bench"])
def test_the_python_api_leaves_it_as_well(body: str, way: Any) -> None:
    """The same from Python, without a notebook, and while a watch is on."""
    torch.compiler.reset()
    names: dict[str, Any] = {"counter": orders.counter, "__name__": "a_module"}
    exec(FIRST + INSIDE.format(body=body), names)  # noqa: S102 - a module of the user's
    with watch():
        way(names["step"], names["x"])
        first = len(orders.asked())
        names["step"](names["x"])
        names["inner"](names["x"])

    if body not in (BODIES["random"], BODIES["nothing"]):
        assert first
        assert orders.asked() == []
    torch.compiler.reset()


ARGUMENTS = {
    "dataclass": "Box(t)",
    "OrderedDict": "collections.OrderedDict(x=t)",
    "defaultdict": "collections.defaultdict(list, x=t)",
    "UserDict": "collections.UserDict(x=t)",
    "deque": "collections.deque([t])",
    "subclass of dict": "D(x=t)",
    "subclass of list": "L([t])",
}
HOLDERS = """
import collections, dataclasses, torch
@dataclasses.dataclass
class Box:
    x: torch.Tensor
class D(dict): pass
class L(list): pass
t = torch.ones(3)
def total(held):
    x = held.x if hasattr(held, 'x') else held['x'] if hasattr(held, 'keys') else held[0]
    return x.sum() * 2
"""


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("argument", ARGUMENTS.values(), ids=ARGUMENTS)
def test_what_the_user_is_going_to_compile_is_compiled(argument: str, fullgraph: bool) -> None:
    """A torch.compile of the user's that was not called before an explain compiles when it is called after it."""
    torch.compiler.reset()
    names: dict[str, Any] = {"__name__": "a_module"}
    exec(HOLDERS, names)  # noqa: S102 - a module of the user's
    fast = torch.compile(names["total"], backend=orders.counter("total"), fullgraph=fullgraph)
    held = eval(argument, names)  # noqa: S307 - from the table above
    explain(names["total"], held)
    orders.asked()
    outcome = _outcome(fast, held)
    with_us = orders.asked(), outcome
    torch.compiler.reset()
    exec(HOLDERS, names)  # noqa: S102 - as above
    fast = torch.compile(names["total"], backend=orders.counter("total"), fullgraph=fullgraph)
    outcome = _outcome(fast, eval(argument, names))  # noqa: S307 - as above

    assert with_us == (orders.asked(), outcome)
    torch.compiler.reset()


def _outcome(fast: Any, held: Any) -> str:
    try:
        return str(fast(held))
    except RuntimeError as error:
        return type(error).__name__


def test_the_same_function_explained_and_compiled_in_one_cell_is_the_users(notebook: Any) -> None:
    """Explaining a function beside the user's own compile of it leaves one entry, his, with all of its headroom."""
    notebook.shell.user_ns["counter"] = orders.counter
    notebook.ok("import torch\ndef f(x):\n    return x * 2\ndef f2(x):\n    return x * 2")
    orders.asked()
    report = notebook.explain(
        "y = f(torch.ones(3))\nfast = torch.compile(f, backend=counter('f'))\nz = fast(torch.ones(3))"
    )

    assert orders.asked() == [("f", ["torch.Size([3])"])]
    assert len(_torch.entries(notebook.get("f").__code__)) == 1
    assert not [note for note in report.notes if "keeps a cache entry" in note]


def test_a_region_of_the_users_is_told_from_ours_also_where_torch_returns_early() -> None:
    """The switch between his and our state is paired with frames: a wrapper that only ends opens nothing for good."""
    switch = torch._dynamo.eval_frame._maybe_set_eval_frame
    entered: list[Any] = []
    left: list[int] = []

    def region(callback: Any) -> Any:
        entered.append(callback)
        return lambda: left.append(1)

    stop = _torch.regions.listen(region)
    try:
        fast = torch.compile(lambda x: x + 1, backend="eager")
        for _ in range(3):
            torch.compiler.disable(lambda x: fast(x) + 0)(torch.ones(2))
        with torch.compiler.set_stance("force_eager"):
            fast(torch.ones(2))
        with pytest.raises(ZeroDivisionError):
            torch.compile(lambda x: x / (1 // 0), backend="eager")(torch.ones(2))
    finally:
        stop()

    assert len(entered) == len(left) == 4
    assert torch._dynamo.eval_frame._maybe_set_eval_frame is switch


# As many as take half a minute; `python tests/live/orders.py` runs hundreds.
@pytest.mark.parametrize("seed", range(12))
def test_an_order_leaves_what_it_leaves_without_us(seed: int) -> None:
    """Whatever the order of compiles, calls, explains, benches, watches, resets and changes: all is as without us."""
    _warm()
    assert orders.difference(orders.order(seed)) == ""


def _warm() -> None:
    if not vars(orders).get("warm"):
        orders.warm_up()
        vars(orders)["warm"] = True


@pytest.mark.parametrize("magic", MAGICS[1:])
def test_a_named_target_is_itself_in_what_the_user_compiled(notebook: Any, magic: str) -> None:
    """In the user's own compiled region a target that is named in the same cell is his function, in code and result."""
    notebook.ok(FIRST)
    notebook.shell.user_ns["counter"] = orders.counter
    notebook.ok(
        "def step(x):\n    return x * 2\nfast = torch.compile(step, backend=counter('fast'))\n"
        "@torch.compile(backend=counter('outer'))\ndef outer(x):\n    print(end='')\n    return step(x) + 1\n"
        "x = torch.ones(3)\ncode = step.__code__"
    )
    orders.asked()
    notebook.ok(f"{magic}\nfor _ in range(2):\n    y = step(x)\n    z = fast(x)\n    w = outer(x)")

    assert orders.asked() == [("fast", ["torch.Size([3])"]), ("outer", ["torch.Size([3])"])]
    assert notebook.get("step").__code__ is notebook.get("code")
    assert [notebook.get(name).tolist() for name in "yzw"] == [[2.0] * 3, [2.0] * 3, [3.0] * 3]
