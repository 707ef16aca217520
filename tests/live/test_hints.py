"""Each piece of advice is given for what it is about, by the smallest program that shows it."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

from compile_magic import explain
from compile_magic.read.hints import HINTS
from compile_magic.read.hints import BreakHint

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
EXAMPLES = [hint for hint in HINTS if hint.example]


def function_of(body: str) -> Any:
    """Return a function of `x` with this body, whose source torch can read."""
    source = "def f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    linecache.cache["example.py"] = (len(source), None, source.splitlines(keepends=True), "example.py")
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, "example.py", "exec"), namespace)  # noqa: S102 - an example of ours
    return namespace["f"]


@pytest.mark.parametrize("hint", EXAMPLES, ids=lambda hint: min(hint.gb_ids))
def test_an_example_gets_exactly_its_own_advice(hint: BreakHint) -> None:
    """The smallest function that breaks in a way is given the advice for that way, and no other."""
    (found,) = explain(function_of(hint.example), torch.ones(3, requires_grad=True)).breaks

    assert found.gb_id in hint.gb_ids
    assert found.advice == (hint.advice,)


FIXED = {
    "GB0170": "return torch.where(x.sum() > 0, x * 2, x - 1)",
    "GB0036": "return (torch.where(x > 0, x, 0) * 2).sum()",
    "GB0123": "return (x * x).sum()",
}
SETTINGS = {
    "GB0059": {"reorderable_logging_functions": {print}},
    "GB0124": {"capture_scalar_outputs": True},
    "GB0036": {"capture_dynamic_output_shape_ops": True},
}


@pytest.mark.parametrize("gb_id", FIXED)
def test_the_advised_rewrite_has_no_break(gb_id: str) -> None:
    """The rewrite that the advice speaks of compiles to one graph without a break."""
    report = explain(function_of(FIXED[gb_id]), torch.ones(3, requires_grad=True))

    assert (report.graph_count, report.graph_break_count) == (1, 0)


@pytest.mark.parametrize("gb_id", SETTINGS)
def test_the_advised_setting_has_no_break(gb_id: str) -> None:
    """The setting that the advice names makes the example one graph without a break."""
    (hint,) = (hint for hint in EXAMPLES if gb_id in hint.gb_ids)
    with torch._dynamo.config.patch(SETTINGS[gb_id]):
        report = explain(function_of(hint.example), torch.ones(3))

    assert all(f"torch._dynamo.config.{name}" in hint.advice for name in SETTINGS[gb_id])
    assert (report.graph_count, report.graph_break_count) == (1, 0)
