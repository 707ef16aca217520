"""What to do about a graph break, in words that can be followed. They come before torch's own hints.

To add one: append a `BreakHint` with the smallest function that triggers it; a test runs each example and checks that
exactly its own hint is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class BreakHint:
    """Advice for breaks with one of these ids whose text matches `when`.

    `example` is the body of a function of a tensor `x` that breaks in this way, "" where it takes more than that.
    """

    gb_ids: frozenset[str]
    advice: str
    when: str = ""
    example: str = ""


HINTS: tuple[BreakHint, ...] = (
    BreakHint(
        frozenset({"GB0059"}),
        "Move the print out of the compiled function, or let Dynamo print after the graph: "
        "torch._dynamo.config.reorderable_logging_functions.add(print).",
        when=r"builtin (?:operator )?`?print\b",
        example="print('x')\nreturn x + 1",
    ),
    BreakHint(
        frozenset({"GB0170"}),
        "torch.where(condition, a, b) keeps both sides in the graph; torch.cond(condition, f, g, (x,)) runs one.",
        example="if x.sum() > 0:\n    return x * 2\nreturn x - 1",
    ),
    BreakHint(
        frozenset({"GB0124"}),
        "Keep the value a tensor, or set torch._dynamo.config.capture_scalar_outputs = True.",
        when=r"Tensor\.item\(\)",
        example="return x * x.sum().item()",
    ),
    BreakHint(
        frozenset({"GB0036"}),
        "torch.where(mask, x, 0) keeps the shape fixed; or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True.",
        example="return (x[x > 0] * 2).sum()",
    ),
    BreakHint(
        frozenset({"GB0098"}),
        "Take torch.compiler.disable off, or call the function outside of the compiled one.",
    ),
    BreakHint(
        frozenset({"GB0123"}),
        "Call backward() on the result outside of the compiled function.",
        example="y = (x * x).sum()\ny.backward()\nreturn y",
    ),
    BreakHint(
        frozenset({"GB0025"}),
        "torch breaks here on purpose, inside torch.optim: nothing to mend, or compile a function that only calls the "
        "optimizer's step.",
        when=r"torch/optim/",
    ),
    BreakHint(
        frozenset({"GB0007", "GB0008"}),
        "torch compiles an optimizer's step by itself, apart from what is around it: nothing to mend.",
        when=r"torch\.optim|\b\w+\.step\b",
    ),
    BreakHint(
        frozenset({"GB0354"}),
        "The name doesn't exist, or the same function has just written it as a global: make it a local of a function.",
    ),
    BreakHint(
        frozenset({"GB0090", "GB4315"}),
        "Tell torch the shape of its result: @torch.library.register_fake(name).",
        when=r"fake (?:kernel|impl)|register_fake|unsupported operator",
    ),
)


def advice(gb_id: str, text: str) -> tuple[str, ...]:
    """Return what to do about a break with this id, whose whole text is `text`; () where torch's hints have to do."""
    return tuple(hint.advice for hint in HINTS if gb_id in hint.gb_ids and re.search(hint.when, text))
