"""Small programs for `record.py`, each as two notebook cells: definitions, then calls. Parsed by the tests, not run.

A comment `# <- NAME` marks a line whose number a test asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field


@dataclass(frozen=True)
class Situation:
    """Two cells, the names in them that are to be compiled, and what `torch.compile` and Dynamo's config are given."""

    setup: str
    cell: str
    targets: tuple[str, ...]
    options: dict[str, object] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    backend: str = "eager"


SITUATIONS = {
    "data_dependent_if": Situation(
        """\
import torch

def choosy(x):
    if x.sum() > 0:  # <- if
        return x * 2
    return x - 1
""",
        "y = choosy(torch.ones(3))\n",
        ("choosy",),
    ),
    "print_in_loop": Situation(
        """\
import torch

def chain(x):
    for i in range(3):
        print("step", i)  # <- print
        x = x * 1.01 + 0.01
    return x
""",
        "y = chain(torch.ones(3))\n",
        ("chain",),
    ),
    "break_in_with": Situation(
        """\
import torch

class Section:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

def block(q):
    q = q + 1
    with Section():
        q = q.cos()
        print("in section")  # <- print
        q = q * 3
    return q.sum()
""",
        "y = block(torch.zeros(5))\n",
        ("block",),
    ),
    "break_in_try": Situation(
        """\
import torch

def guarded(q):
    try:
        q = q.cos()
        print("trying")  # <- print
    finally:
        q = q * 3
    return q.sum()
""",
        "y = guarded(torch.zeros(5))\n",
        ("guarded",),
    ),
    "nonzero": Situation(
        """\
import torch

def positives(x):
    return (x[x > 0] * 2).sum()  # <- index
""",
        "y = positives(torch.randn(8))\n",
        ("positives",),
    ),
    "item_multiplier": Situation(
        """\
import torch

def rescale(v):
    peak = v.abs().max().item()  # <- item
    return (v / peak) * 2 + 1

v = torch.tensor([1.0, -4.0, 2.0])
""",
        "one = rescale(v)\ntwo = rescale(v * 10)\n",
        ("rescale",),
    ),
    "helper_with_print": Situation(
        """\
import torch

def helper(x):
    x = x + 1
    print("helper")  # <- print
    return x * 2

def outer(x):
    x = x.sin()
    x = helper(x)
    return x.cos()
""",
        "y = outer(torch.ones(3))\n",
        ("outer",),
    ),
    "dtype_then_grad": Situation(
        """\
import torch

def double(x):  # <- def
    return x * 2
""",
        """\
double(torch.ones(3))
double(torch.ones(3, dtype=torch.int64))
double(torch.ones(3, requires_grad=True))
""",
        ("double",),
    ),
    "five_sizes": Situation(
        """\
import torch

def double(x):  # <- def
    return x * 2
""",
        "for n in (1, 2, 3, 4, 5):\n    double(torch.ones(n))\n",
        ("double",),
        {"dynamic": False},
        {"recompile_limit": 2},
    ),
    "sizes_default": Situation(
        """\
import torch

def double(x):  # <- def
    return x * 2
""",
        "for n in (3, 4, 5, 6):\n    double(torch.ones(n))\n",
        ("double",),
    ),
    "float_attribute": Situation(
        """\
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5

    def forward(self, x):  # <- def
        return x * self.scale

model = Scaled()
""",
        "for s in (0.5, 0.6, 0.7, 0.8):\n    model.scale = s\n    model(torch.ones(3))\n",
        ("model",),
        {"dynamic": False},
    ),
    "list_length": Situation(
        """\
import torch

def fuse(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total * 2
""",
        "for n in (1, 2, 3):\n    fuse([torch.ones(2)] * n)\n",
        ("fuse",),
    ),
    "dict_keys": Situation(
        """\
import torch

def enrich(batch):
    batch["norm"] = batch["pixels"] / 4
    total = torch.zeros(())
    for name, t in batch.items():
        total = total + t.sum()
    return total

batch = {"pixels": torch.tensor([2.0, 6.0])}
""",
        """\
enrich(batch)
enrich(batch)
enrich({"norm": torch.zeros(2), "pixels": torch.tensor([2.0, 6.0])})
""",
        ("enrich",),
    ),
    "train_eval": Situation(
        """\
import torch

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.1))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x):  # <- def
        return self.drop(self.lin(x))

model = Model()
x = torch.ones(2, 4)
""",
        "model(x)\nmodel.eval()\nmodel(x)\nmodel.train()\nmodel(x)\n",
        ("model",),
    ),
    "grad_mode": Situation(
        """\
import torch

def score(a, b):
    return torch.outer(a, b).sum(0)

a = torch.ones(4)
b = torch.ones(4)
""",
        """\
score(a, b)
with torch.no_grad():
    score(a, b)
with torch.inference_mode():
    score(a, b)
    score(torch.ones(4), b)
a.requires_grad_(True)
score(a, b)
with torch.no_grad():
    score(a, b)
""",
        ("score",),
    ),
    "new_lambda": Situation(
        """\
import torch

def masked(scores, rule):
    keep = rule(torch.arange(scores.shape[0]))
    return torch.where(keep, scores, -1.0)

scores = torch.ones(6)
""",
        """\
for w in range(3):
    masked(scores, lambda i: i < w)
for _ in range(3):
    masked(scores, lambda i: i < 3)
""",
        ("masked",),
    ),
    "train_step": Situation(
        """\
import torch

net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X = torch.arange(12.0).reshape(4, 3) / 10
Y = torch.ones(4, 1)

def train_step(inp, tgt):
    opt.zero_grad()  # <- zero_grad
    loss = torch.nn.functional.mse_loss(net(inp), tgt)
    loss.backward()  # <- backward
    opt.step()  # <- step
    return loss.detach()
""",
        "losses = [train_step(X, Y) for _ in range(3)]\n",
        ("train_step",),
    ),
    "deepcopy": Situation(
        """\
import torch, copy

class Config:
    def __init__(self):
        self.temp = 2.0
        self.mask = torch.ones(4)

cfg = Config()

def sample(logits, cfg):
    local = copy.deepcopy(cfg)  # <- deepcopy
    return (logits / local.temp) * local.mask
""",
        "y = sample(torch.arange(4.0), cfg)\n",
        ("sample",),
    ),
    "fullgraph": Situation(
        """\
import torch

def choosy(x):
    if x.sum() > 0:  # <- if
        return x * 2
    return x - 1
""",
        "y = choosy(torch.ones(3))\n",
        ("choosy",),
        {"fullgraph": True},
    ),
    "backend_failure": Situation(
        """\
import torch

@torch._dynamo.register_backend
def refusing(gm, inputs):
    raise RuntimeError("this backend refuses every graph")

def double(x):  # <- def
    return x * 2
""",
        "y = double(torch.ones(3))\n",
        ("double",),
        backend="refusing",
    ),
    "mm_shapes": Situation(
        """\
import torch

def product(a, b):  # <- def
    return a @ b  # <- mm
""",
        "try:\n    product(torch.ones(2, 3), torch.ones(2, 3))\nexcept RuntimeError as error:\n    caught = error\n",
        ("product",),
    ),
    "user_exception": Situation(
        """\
import torch

def checked(x):
    if x.shape[0] != 4:
        raise ValueError("four rows are needed")  # <- raise
    return x * 2
""",
        "try:\n    checked(torch.ones(3))\nexcept ValueError as error:\n    caught = error\n",
        ("checked",),
    ),
    "backward_outside": Situation(
        """\
import torch

net = torch.nn.Linear(3, 1)
X = torch.ones(4, 3)

def loss_of(x):  # <- def
    return (net(x) ** 2).mean()
""",
        "loss = loss_of(X)\nloss.backward()\n",
        ("loss_of",),
        backend="aot_eager",
    ),
    "generator": Situation(
        """\
import torch

def pieces(x):
    for i in range(2):
        print("piece", i)
        yield x[i] * 2

def total(x):
    out = 0
    for piece in pieces(x):
        out = out + piece
    return out
""",
        "y = total(torch.ones(2, 3))\n",
        ("total",),
    ),
    "disabled_helper": Situation(
        """\
import torch

@torch.compiler.disable
def postprocess(x):
    return x.clamp(0, 1)

def scaled(x):
    x = x * 3
    x = postprocess(x)  # <- call
    return x + 1
""",
        "y = scaled(torch.ones(3))\n",
        ("scaled",),
    ),
    "class_attribute": Situation(
        """\
import torch

class Knobs:
    floor = -0.5

def squash(x):
    y = x.tanh()
    return y - Knobs.floor  # <- floor

x = torch.zeros(3)
""",
        "squash(x)\nKnobs.floor = 2.25\nsquash(x)\nsquash(x)\n",
        ("squash",),
    ),
    "logging": Situation(
        """\
import torch, logging

log = logging.getLogger("demo")

def layer(z):
    z = z.square()
    log.info(f"{z.shape[0]} rows")  # <- log
    return z.sum(dim=1)
""",
        "y = layer(torch.ones(2, 3))\n",
        ("layer",),
    ),
    "terminal_bincount": Situation(
        """\
import torch

def histogram(ids):
    ids = ids.clamp(min=0) + 1
    return torch.bincount(ids)  # <- bincount
""",
        "y = histogram(torch.tensor([0, 2, 2, 5]))\n",
        ("histogram",),
    ),
    "two_breaks_two_sizes": Situation(
        """\
import torch

def wordy(x):
    x = x + 1
    print("one")  # <- one
    x = x * 2
    print("two")  # <- two
    return x.sin()
""",
        "wordy(torch.ones(8))\nwordy(torch.ones(9))\n",
        ("wordy",),
    ),
    "observed": Situation(
        """\
import torch

@torch.compile(backend="eager")
def mine(x):
    x[0] = 1
    a, b = x.split(2)
    return a * b + x[1]
""",
        "y = mine(torch.ones(4))\n",
        (),
    ),
    "strides": Situation(
        """\
import torch

def double(x):
    return x * 2
""",
        "double(torch.ones(3, 4))\ndouble(torch.ones(4, 3).t())\n",
        ("double",),
    ),
    "inputs_of_all_kinds": Situation(
        """\
import torch

def mixed(x, flag, scale, mode, extra):
    y = x * scale
    if flag:
        y = y + 1
    if mode == "sum":
        y = y.sum()
    if extra is not None:
        y = y + extra
    return y
""",
        """\
x = torch.ones(3)
mixed(x, True, 2, "sum", None)
mixed(x, False, 2, "sum", None)
mixed(x, True, 2, "mean", None)
mixed(x, True, 3, "sum", None)
mixed(x, True, 2, "sum", x)
mixed(torch.ones(3, 3), True, 2, "sum", None)
""",
        ("mixed",),
    ),
    "inner_compiled": Situation(
        """\
import torch

@torch.compile(backend="eager")
def inner(x):
    return x.sin() + 1

def outer(x):
    for _ in range(2):
        print("again")  # <- print
        x = inner(x)
    return x
""",
        "y = outer(torch.ones(3))\n",
        ("outer",),
    ),
    "custom_op": Situation(
        """\
import torch

@torch.library.custom_op("compile_magic_traces::copy", mutates_args=())
def copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

def doubled(x):
    return copy(x * 2) + 1  # <- op
""",
        "y = doubled(torch.ones(3))\n",
        ("doubled",),
    ),
    "symbolic_condition": Situation(
        """\
import torch

def sized(x):
    if x.shape[0] > 10:
        return x + 1
    return x - 1
""",
        "for n in (3, 4, 20):\n    sized(torch.ones(n))\n",
        ("sized",),
    ),
    "two_backends": Situation(
        """\
import torch

def double(x):
    return x * 2
""",
        """\
torch.compile(double, backend="eager")(torch.ones(2))
torch.compile(double, backend="aot_eager")(torch.ones(2))
""",
        (),
    ),
    "limit_after_break": Situation(
        """\
import torch

def wordy(x):  # <- def
    x = x + 1
    print("one")
    return x * 2
""",
        "for n in (2, 3, 4, 5):\n    wordy(torch.ones(n))\n",
        ("wordy",),
        {"dynamic": False},
        {"recompile_limit": 2},
    ),
    "optimizer_step": Situation(
        """\
import torch

net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)

def step():
    opt.step()  # <- step
""",
        """\
for _ in range(4):
    net(torch.ones(4, 3)).sum().backward()
    step()
    schedule.step()
""",
        ("step",),
    ),
}
