"""What saves a recompile, by its cause. None of them has been tried on the user's code: `status` is "not tried".

To add one: append a `RecompileFix` with a small program that it helps, and that program with the fix in it; a test runs
both and checks that there are fewer compiles with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from compile_magic.model import Fix
from compile_magic.read import fix_fits
from compile_magic.read.changes import Change
from compile_magic.read.changes import double
from compile_magic.read.changes import scaled
from compile_magic.read.guards import plain

_SIZE = re.compile(r"(?P<x>\S+)\.size\((?P<dim>\d+)\)")


@dataclass(frozen=True)
class RecompileFix:
    """A way to save the recompiles of a cause, for the changes that `fits` takes.

    `snippet` has {x} for the thing that changed, as it is written in Python, {owner} and {name} for its two parts where
    it is an attribute, {old} for what it was, and {marks} for a call of mark_dynamic for each size that changed.
    `before` and `after` are programs.
    """

    cause: str
    title: str
    kind: str
    snippet: str
    fits: Callable[[Change], bool]
    before: str
    after: str


def fix_for(change: Change) -> Fix | None:
    """Return what would save this recompile, None where nothing is known to."""
    found = next((each for each in FIXES if each.cause == change.cause and each.fits(change)), None)
    if found is None:
        return None
    return Fix(found.title, found.kind, found.snippet.format_map(_names(change)))


def _names(change: Change) -> dict[str, str]:
    name = plain(fix_fits.GLOBAL.sub(r"\1", change.source))
    owner, _, last = name.rpartition(".")
    marks = "; ".join(f"torch._dynamo.mark_dynamic({x}, {dim})" for x, dim in _SIZE.findall(change.words))
    return {"x": name, "owner": owner, "name": last, "old": change.expected, "marks": marks}


_MODEL = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {make}

    def forward(self, x):
        return x * self.k

net = Net()
f = compiled(net)
for k in ({values}):
    {change}
    f(torch.ones(3))
"""
_FLOATS = {"values": "0.5, 0.6, 0.7"}
_BUFFER = {"make": "self.register_buffer('k', torch.tensor(0.5))", "change": "net.k.fill_(k)"}
_COUNTS = _MODEL.format(make="self.k = 2", values="2, 3, 4, 5", change="net.k = k")
_STEPS = """\
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr={lr})
schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)

@compiled
def f():
    opt.step()

for _ in range(4):
    net(torch.ones(4, 3)).sum().backward()
    f()
    schedule.step()
"""
_ITEM = "@compiled\ndef f(x):\n    return x * x.max().item()\n\nfor n in (1, 2, 3):\n    f(torch.ones(3) * n)\n"
_RULE = "@compiled\ndef f(x, rule):\n    return rule(x) * 2\n\nx = torch.ones(3)\n"
_SUM = "@compiled\ndef f(parts):\n    return {how}\n\nfor n in (2, 3, 4):\n    f({parts})\n"
_BATCH = "@compiled\ndef f(batch):\n    return sum(batch.values())\n\nx = torch.ones(3)\n"
_BACKENDS = "def f(x):\n    return x * 2\n\ndef backend():\n    return lambda graph, inputs: graph\n\n"
_MARK = "for n in (3, 4, 5):\n    x = torch.ones(n)\n    torch._dynamo.mark_dynamic(x, 0)\n    f(x)"
_LATE = "x = torch.ones(3)\ntorch._dynamo.mark_dynamic(x, 0)\n"
_INFERENCE = "with torch.inference_mode():\n    x = torch.ones(3)\n"
_COMPLEX = "x = torch.ones(3, dtype=torch.complex64)\n"
_NEW_OPTIMIZER = """\
p = torch.nn.Parameter(torch.ones(3))

@compiled
def f(opt):
    opt.step()

{outside}
for _ in range(2):
    p.grad = torch.ones(3)
    f({opt})
    opt = None
"""

FIXES: tuple[RecompileFix, ...] = (
    RecompileFix(
        "size",
        "mark what changes as dynamic before the first call",
        "annotation",
        "{marks}",
        fix_fits.size,
        before=double("for n in (3, 4, 5):\n    f(torch.ones(n))"),
        after=double(_MARK),
    ),
    RecompileFix(
        "python_value",
        "make the learning rate a tensor",
        "rewrite",
        "lr=torch.tensor({old})",
        fix_fits.learning_rate,
        before=_STEPS.format(lr="0.1"),
        after=_STEPS.format(lr="torch.tensor(0.1)"),
    ),
    RecompileFix(
        "python_value",
        "keep the value a tensor, or let Dynamo put .item() into the graph",
        "config",
        "torch._dynamo.config.capture_scalar_outputs = True",
        fix_fits.after_break,
        before=_ITEM,
        after=_ITEM.replace("for n", "torch._dynamo.config.capture_scalar_outputs = True\nfor n"),
    ),
    RecompileFix(
        "python_value",
        "make the attribute a buffer and fill it in place",
        "rewrite",
        "self.register_buffer('{name}', torch.tensor({old}))  # then {owner}.{name}.fill_(value)",
        fix_fits.float_attribute,
        before=_MODEL.format(make="self.k = 0.5", change="net.k = k", **_FLOATS),
        after=_MODEL.format(**_BUFFER, **_FLOATS),
    ),
    RecompileFix(
        "python_value",
        "let int attributes of modules be symbolic",
        "config",
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
        fix_fits.int_attribute,
        before=_COUNTS,
        after="torch._dynamo.config.allow_unspec_int_on_nn_module = True\n" + _COUNTS,
    ),
    RecompileFix(
        "python_value",
        "pass the number as a tensor",
        "rewrite",
        "torch.tensor({old})  # for {x}",
        fix_fits.float_argument,
        before=scaled("for a in (0.5, 0.6, 0.7):\n    f(x, a)"),
        after=scaled("for a in (0.5, 0.6, 0.7):\n    f(x, torch.tensor(a))"),
    ),
    RecompileFix(
        "stride",
        "give the tensor one memory layout before the call",
        "rewrite",
        "{x} = {x}.contiguous()",
        fix_fits.argument,
        before=double("f(torch.ones(3, 3))\nf(torch.ones(3, 3).t())"),
        after=double("f(torch.ones(3, 3))\nf(torch.ones(3, 3).t().contiguous())"),
    ),
    RecompileFix(
        "conj",
        "resolve the lazy conjugate before the call",
        "rewrite",
        "{x} = {x}.resolve_conj()",
        fix_fits.became("True"),
        before=double(f"{_COMPLEX}f(x)\nf(x.conj())"),
        after=double(f"{_COMPLEX}f(x)\nf(x.conj().resolve_conj())"),
    ),
    RecompileFix(
        "requires_grad",
        "call it with tensors of one kind: detach where no gradient is needed",
        "rewrite",
        "{x} = {x}.detach()",
        fix_fits.became("True"),
        before=double("f(torch.ones(3))\nf(torch.ones(3, requires_grad=True))"),
        after=double("f(torch.ones(3))\nf(torch.ones(3, requires_grad=True).detach())"),
    ),
    RecompileFix(
        "grad_mode",
        "make all calls in one grad mode",
        "rewrite",
        "with torch.no_grad():  # around every call, or around none",
        fix_fits.always,
        before=double("f(torch.ones(3))\nwith torch.no_grad():\n    f(torch.ones(3))"),
        after=double("with torch.no_grad():\n    f(torch.ones(3))\n    f(torch.ones(3))"),
    ),
    RecompileFix(
        "inference_mode",
        "make a normal tensor of it: clone it outside of inference_mode",
        "rewrite",
        "{x} = {x}.clone()",
        fix_fits.became("an inference tensor"),
        before=double(f"{_INFERENCE}f(torch.ones(3))\nf(x)"),
        after=double(f"{_INFERENCE}f(torch.ones(3))\nf(x.clone())"),
    ),
    RecompileFix(
        "inference_mode",
        "make all calls in one mode",
        "rewrite",
        "with torch.inference_mode():  # around every call, or around none",
        fix_fits.mode,
        before=double("x = torch.ones(3)\nf(x)\nwith torch.inference_mode():\n    f(x)"),
        after=double("x = torch.ones(3)\nwith torch.inference_mode():\n    f(x)\n    f(x)"),
    ),
    RecompileFix(
        "identity",
        "define the function once, outside of the loop, and pass what differs as an argument",
        "rewrite",
        "",
        fix_fits.function,
        before=f"{_RULE}f(x, lambda v: v + 1)\nf(x, lambda v: v + 1)\n",
        after=f"{_RULE}rule = lambda v: v + 1\nf(x, rule)\nf(x, rule)\n",
    ),
    RecompileFix(
        "identity",
        "make the object once and keep it",
        "rewrite",
        "",
        fix_fits.gone,
        before=_NEW_OPTIMIZER.format(outside="", opt="torch.optim.SGD([p], lr=0.1)"),
        after=_NEW_OPTIMIZER.format(outside="kept = torch.optim.SGD([p], lr=0.1)", opt="kept"),
    ),
    RecompileFix(
        "length",
        "stack parts of one shape into a tensor: its first size becomes dynamic",
        "rewrite",
        "torch.stack({x})",
        fix_fits.sequence,
        before=_SUM.format(how="sum(parts)", parts="[torch.ones(3)] * n"),
        after=_SUM.format(how="parts.sum(0)", parts="torch.stack([torch.ones(3)] * n)"),
    ),
    RecompileFix(
        "order",
        "pass the keys in one order",
        "rewrite",
        "{x} = dict(sorted({x}.items()))",
        fix_fits.argument,
        before=f"{_BATCH}f({{'a': x, 'b': x + 1}})\nf({{'b': x + 1, 'a': x}})\n",
        after=f"{_BATCH}f({{'a': x, 'b': x + 1}})\nf(dict(sorted({{'b': x + 1, 'a': x}}.items())))\n",
    ),
    RecompileFix(
        "backend",
        "make the backend once and pass the same object each time",
        "rewrite",
        "",
        fix_fits.same_name,
        before=f"{_BACKENDS}for _ in range(2):\n    torch.compile(f, backend=backend())(torch.ones(3))\n",
        after=f"{_BACKENDS}kept = backend()\nfor _ in range(2):\n    torch.compile(f, backend=kept)(torch.ones(3))\n",
    ),
    RecompileFix(
        "dynamic_mark",
        "mark the dimension before the first call",
        "annotation",
        "torch._dynamo.mark_dynamic(x, 0)",
        fix_fits.always,
        before=double(f"f(torch.ones(3))\n{_LATE}f(x)"),
        after=double(f"{_LATE}f(x)\nf(torch.ones(3))"),
    ),
)
