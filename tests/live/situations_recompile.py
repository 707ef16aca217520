"""Programs in which something changes between two calls, with the recompiles that have to be told of it.

The figures are by reasoning on what torch guards, and torch's own count of compiles; a program that torch doesn't
compile again says so with `NONE`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Told:
    """A row of the report: the cause, from what to what, the words, and how many compiles it stands for."""

    cause: str
    expected: str
    actual: str
    words: str
    count: int = 1


@dataclass(frozen=True)
class Situation:
    """A program and its rows; `line` is the code of the line that made the guard that failed first."""

    program: str
    rows: tuple[Told, ...]
    line: str = ""


NONE: tuple[Told, ...] = ()


def double(calls: str, *rows: Told) -> Situation:
    """Return calls of a function of one tensor."""
    line = "return x * 2" if rows and rows[0].cause in TENSORS else ""
    return Situation(f"@compiled\ndef f(x):\n    return x * 2\n\nx = torch.ones(3)\n{calls}\n", rows, line)


def scaled(calls: str, *rows: Told) -> Situation:
    """Return calls of a function of a tensor and something to multiply it with."""
    return Situation(f"@compiled\ndef f(x, a):\n    return x * a\n\nx = torch.ones(3)\n{calls}\n", rows)


def body(code: str, calls: str, *rows: Told, arguments: str = "x, a", line: str = "") -> Situation:
    """Return calls of a function with this result."""
    program = f"@compiled\ndef f({arguments}):\n    return {code}\n\nx, y = torch.ones(3), torch.zeros(3)\n{calls}\n"
    return Situation(program, rows, line)


def module(init: str, forward: str, change: str, *rows: Told) -> Situation:
    """Return a call of a module, a change of it, and another call."""
    lines = (
        "class Net(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in init.splitlines()),
        "",
        "    def forward(self, x):",
        *(f"        {line}" for line in forward.splitlines()),
        "",
        "net = Net()\nf = compiled(net)\nx = torch.ones(3)\nf(x)",
        change,
        "f(x)\n",
    )
    return Situation("\n".join(lines), rows)


TENSORS = ("size", "stride", "dtype", "device", "requires_grad", "rank")
ZERO_ONE = "; sizes 0 and 1 are always specialised"
GROWS = Told("size", "3", "4", "x.size(0) went from 3 to 4")

TENSOR_SITUATIONS = {
    "size of dim 0": double("f(x)\nf(torch.ones(4))", GROWS),
    "size of dim 1": double(
        "f(torch.ones(3, 5))\nf(torch.ones(3, 6))", Told("size", "5", "6", "x.size(1) went from 5 to 6")
    ),
    "two sizes at once": double(
        "f(torch.ones(3, 5))\nf(torch.ones(4, 6))",
        Told("size", "3", "4", "x.size(0) went from 3 to 4 and x.size(1) from 5 to 6"),
    ),
    "size 1": double("f(x)\nf(torch.ones(1))", Told("size", "3", "1", "x.size(0) went from 3 to 1" + ZERO_ONE)),
    "size 0": double("f(x)\nf(torch.ones(0))", Told("size", "3", "0", "x.size(0) went from 3 to 0" + ZERO_ONE)),
    "a third size is dynamic": double("for n in (3, 4, 5, 6):\n    f(torch.ones(n))", GROWS),
    "dynamic=False": Situation(
        '@torch.compile(backend="eager", dynamic=False)\ndef f(x):\n    return x * 2\n\n'
        "for n in (3, 4, 5):\n    f(torch.ones(n))\n",
        (GROWS, Told("size", "4", "5", "x.size(0) went from 4 to 5")),
    ),
    "marked dynamic": double("torch._dynamo.mark_dynamic(x, 0)\nf(x)\nf(torch.ones(4))", *NONE),
    "marked after the first call": double(
        "f(x)\ny = torch.ones(3)\ntorch._dynamo.mark_dynamic(y, 0)\nf(y)",
        Told(
            "dynamic_mark",
            "",
            "",
            "a tensor was marked (mark_dynamic, mark_static) after the function had been compiled without the mark",
        ),
    ),
    "a branch on a size": body(
        "x + 1 if x.shape[0] > 10 else x - 1",
        "for n in (3, 4, 20):\n    f(torch.ones(n))",
        GROWS,
        Told(
            "size",
            "2 <= x.size(0) <= 10",
            "20",
            "x.size(0) is 20 now: the compiled code holds for 2 <= x.size(0) <= 10",
        ),
        arguments="x",
    ),
    "a size that was excluded": body(
        "x + 1 if x.shape[0] != 8 else x - 1",
        "for n in (4, 6, 8):\n    f(torch.ones(n))",
        Told("size", "4", "6", "x.size(0) went from 4 to 6"),
        Told("size", "x.size(0) != 8", "8", "x.size(0) is 8 now: the compiled code holds for x.size(0) != 8"),
        arguments="x",
    ),
    "two sizes that were equal": body(
        "x + a if x.shape[0] == a.shape[0] else x - 1",
        "for n, m in ((3, 3), (4, 4), (4, 5)):\n    f(torch.ones(n), torch.ones(m))",
        Told("size", "3", "4", "a.size(0) went from 3 to 4 and x.size(0) from 3 to 4"),
        Told(
            "size",
            "a.size(0) == x.size(0)",
            "5",
            "a.size(0) is 5 now: the compiled code holds for a.size(0) == x.size(0)",
        ),
    ),
    "transposed": double(
        "f(torch.ones(3, 4))\nf(torch.ones(4, 3).t())", Told("stride", "4", "1", "x.stride(0) went from 4 to 1")
    ),
    "channels_last": double(
        "x = torch.ones(2, 3, 4, 5)\nf(x)\nf(x.to(memory_format=torch.channels_last))",
        Told("stride", "20", "1", "x.stride(1) went from 20 to 1"),
    ),
    "every second element": double(
        "x = torch.ones(9)\nf(x[:3])\nf(x[:6:2])", Told("stride", "1", "2", "x.stride(0) went from 1 to 2")
    ),
    "storage offset": double("x = torch.ones(9)\nf(x[0:3])\nf(x[4:7])", *NONE),
    "rank": double("f(x)\nf(torch.ones(3, 3))", Told("rank", "1", "2", "x had 1 dimension, now 2")),
    "dtype": double("f(x)\nf(x.double())", Told("dtype", "float32", "float64", "x was float32, now float64")),
    "device": double("f(x)\nf(x.to('meta'))", Told("device", "cpu", "meta", "x was on cpu, now on meta")),
    "requires_grad": double(
        "f(x)\nf(torch.ones(3, requires_grad=True))",
        Told("requires_grad", "False", "True", "x.requires_grad went from False to True"),
    ),
    "a parameter": double(
        "f(torch.ones(3, requires_grad=True))\nf(torch.nn.Parameter(torch.ones(3)))",
        Told("type", "a tensor", "a Parameter", "x was a tensor, now a Parameter"),
    ),
    "a tensor subclass": double(
        "class Tagged(torch.Tensor):\n    pass\n\nf(x)\nf(x.as_subclass(Tagged))",
        Told("type", "a tensor", "a Tagged", "x was a tensor, now a Tagged"),
    ),
    "a lazy conjugate": double(
        "x = torch.ones(3, dtype=torch.complex64)\nf(x)\nf(x.conj())",
        Told("conj", "False", "True", "x.is_conj() went from False to True"),
    ),
    "sparse": double(
        "x = torch.ones(3, 3)\nf(x)\nf(x.to_sparse())",
        Told("layout", "strided", "sparse", "x.layout went from strided to sparse"),
    ),
    "an inference tensor": double(
        "with torch.inference_mode():\n    y = torch.ones(3)\nf(x)\nf(y)",
        Told(
            "inference_mode",
            "a normal tensor",
            "an inference tensor",
            "x was a normal tensor, now an inference tensor (made under torch.inference_mode)",
        ),
    ),
    "the same tensor twice": scaled(
        "f(x, torch.zeros(3))\nf(x, x)",
        Told("aliasing", "two tensors", "the same tensor", "a and x are the same tensor now"),
    ),
    "no longer the same tensor": scaled(
        "f(x, x)\nf(x, torch.zeros(3))",
        Told("aliasing", "the same object", "two objects", "x and a are no longer the same object"),
    ),
    "another value": double("f(x)\nf(torch.zeros(3))", *NONE),
    "a scalar tensor": scaled("f(x, torch.tensor(0.5))\nf(x, torch.tensor(0.6))", *NONE),
    "a hook on a tensor": double("x.requires_grad_()\nf(x)\nx.register_hook(lambda g: g)\nf(x)", *NONE),
    "a gradient": body(
        "x * 2 if x.grad is None else x + x.grad",
        "x.requires_grad_()\nf(x)\nx.grad = torch.ones(3)\nf(x)",
        Told("none", "None", "a tensor", "x.grad was None, now a tensor"),
        arguments="x",
    ),
}
