"""Code that sets the stance of the compiler runs as in a plain cell, and the report says what was left in eager."""

from __future__ import annotations

import pytest
import torch
from side_by_side import both

_STANCE = "torch.compiler.set_stance"
_INNER = "mine = torch.compile(lambda x: x * 2, backend='eager')\n"

SETUPS = {
    "a decorator": f"@{_STANCE}('force_eager')\ndef s(x):\n    return x * 2\n",
    "a decorator with words": f"@{_STANCE}('default', force_backend='eager')\ndef s(x):\n    return x * 2\n",
    "a block": f"def s(x):\n    with {_STANCE}('force_eager'):\n        y = f(x) * 2\n    return y + f(y)\n",
    "a block in a block": (
        f"def s(x):\n    with {_STANCE}('force_eager'):\n        with {_STANCE}('eager_on_recompile'):\n"
        "            y = f(x) * 2\n        z = f(y)\n    return f(z)\n"
    ),
    "a helper": f"@{_STANCE}('force_eager')\ndef inner(x):\n    return x * 2\ndef s(x):\n    return inner(x) + 1\n",
    "a forward": (
        f"class S(nn.Module):\n    @{_STANCE}('force_eager')\n    def forward(self, x):\n        return x * 3\n"
        "s = S()\n"
    ),
    "a part of a module": (
        f"class S(nn.Module):\n    @{_STANCE}('force_eager')\n    def forward(self, x):\n        return x * 3\n"
        "class T(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.s = S()\n"
        "    def forward(self, x):\n        return self.s(x) + 1\ns = T()\n"
    ),
    "calls of the function": (
        f"def s(x):\n    {_STANCE}('force_eager')\n    y = x + 1\n    {_STANCE}('default')\n    return y * 2\n"
    ),
    "left set": f"def s(x):\n    {_STANCE}('force_eager')\n    return x + 1\n",
    "an error inside": (
        f"def s(x):\n    try:\n        with {_STANCE}('force_eager'):\n            raise ValueError('v')\n"
        "    except ValueError:\n        return f(x)\n"
    ),
    "around the user's own": (
        f"{_INNER}def s(x):\n    with {_STANCE}('force_eager'):\n        y = mine(x)\n    return y + 1\n"
    ),
}


@pytest.fixture(autouse=True)
def _default() -> None:
    torch.compiler.set_stance("default")


@pytest.mark.parametrize("how", SETUPS)
def test_what_sets_a_stance_runs_as_plain(how: str) -> None:
    """Values, errors and the stance afterwards are the plain cell's, and a note or a target says that it was eager."""
    after = "stance = str(torch._dynamo.eval_frame._stance)\ntorch.compiler.set_stance('default')\nz = f(x)"
    plain, explained, report = both("y = s(x)\nz = f(y)", setup=SETUPS[how], then=after)
    eager = [target.why for target in report.targets if target.how == "eager"]

    assert explained == plain
    assert any("stance" in said for said in [*eager, *report.notes])
    assert torch._dynamo.decorators._set_stance.__module__ == "torch._dynamo.eval_frame"


@pytest.mark.parametrize("call", ["torch._dynamo.mark_dynamic(x, 0)", "torch._dynamo.maybe_mark_dynamic(x, 0)"])
def test_what_dynamo_refuses_for_another_reason_is_not_said_to_set_a_stance(call: str) -> None:
    """Functions of torch's own that can't be traced are no targets of the cell."""
    _, _, report = both(f"{call}\ny = f(x)")

    assert [target.name for target in report.targets] == ["f"]


def test_what_comes_after_a_stance_is_compiled_again() -> None:
    """When the block has ended, the functions that are called after it are compiled."""
    setup = f"def s(x):\n    with {_STANCE}('force_eager'):\n        y = x * 2\n    return f(y)\n"
    _, _, report = both("y = s(x)", setup=setup)

    assert [graph.function for graph in report.graphs] == ["f"]
