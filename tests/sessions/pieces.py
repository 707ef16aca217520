"""What random sessions are made of: parts of notebooks, as people write them.

In a text `_N` is the piece's number, `_C` a number and `BODY` some lines that work on the tensor `x`. A new kind of code
is a new entry here; no kind is here whose results torch.compile itself changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHARED = """import asyncio, collections, contextlib, copy, dataclasses, enum, functools, gc, itertools, logging, math, os
import pathlib, pickle, queue, random, sqlite3, sys, tempfile, types, warnings, weakref
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
torch.manual_seed(0); random.seed(0); np.random.seed(0)
x = torch.arange(6.0).reshape(2, 3) / 4
log, counts, scale = [], {}, 1.5
def helper(t):
    return t * 2 - 1"""

BODIES = (
    "x = x.sin() + _C",
    "x = x * scale",
    "x = F.relu(x - _C)",
    "x = torch.where(x > 0, x, -x)",
    "print('in f', tuple(x.shape))",
    "x = x + x.sum().item() * 0.1",
    "if x.sum() > _C:\n    x = x + 1",
    "log.append(float(x.sum()))",
    "log.append(tuple(x.shape))",
    "counts['f'] = counts.get('f', 0) + 1",
    "for i in range(2):\n    x = x + i",
    "for i in range(2):\n    print('loop', i)\n    x = x * 1.5",
    "with torch.no_grad():\n    x = x * 1.5",
    "x = [x, x + 1][-1]",
    "x = sum([x * k for k in (1, 2)])",
    "h = lambda v: v * _C\nx = h(x)",
    "k = lambda v: v + _C\nprint('k')\nx = k(x)",
    "try:\n    x = x / {}['missing']\nexcept KeyError:\n    x = x + 1",
    "try:\n    print('tried')\n    x = x + 1\nfinally:\n    log.append('f')",
    "warnings.warn('careful')",
    "x = torch.stack([x, x]).mean(0)",
    "x = x.clone()\nx[0] += 1",
    "d = dict(a=x)\nd['b'] = d['a'] * 2\nx = d['b']",
    "x = helper(x)",
    "x = x + torch.as_tensor(np.ones(3, dtype=np.float32))",
    "x = x + torch.rand(3)",
    "x = F.dropout(x, 0.5)",
    "assert x.shape[-1] == 3, 'columns'",
    "torch._dynamo.graph_break()",
    "x = sum((x * k for k in (1, 2)), x)",
    "x = checkpoint(lambda v: v * 2, x, use_reentrant=False)",
    "x = x + len(log) * 0.1",
    "def inner():\n    nonlocal x\n    x = x + 1\ninner()",
    "scaled = functools.partial(torch.mul, x)\nx = scaled(_C)",
    "x = x + (lambda a, *b, **c: a)(1, 2, z=3)",
    "a, *b = x.unbind(-1)\nx = x + a.unsqueeze(-1)",
    "with contextlib.suppress(ZeroDivisionError):\n    x = x + 1 / 0",
    "x = x.detach().clone().requires_grad_().tanh()",
    "logging.getLogger('user').warning('f %d', 1)",
    "kept = getattr(x, 'mark', None)",
    "x = next(iter([x + 1, x]))",
    "x = x + math.sqrt(4) + random.choice((1, 1))",
)

GLUE = (
    "x = x + 0.5",
    "x += 1",
    "x = x.clone(); x[0, 0] = 3",
    "scale = scale * 2",
    "before, scale = scale, 2.5",
    "(w := x.sum())",
    "squares = [k * k for k in range(3)]",
    "total = sum(v.sum().item() for v in [x, x * 2])",
    "a, *rest = x",
    "n: int = 3",
    "kept = {k: x * k for k in (1, 2)}; del kept[1]",
    "for row in x:\n    last = row.sum()",
    "print('glue', x.shape)",
    "class Plain:\n    size = x.numel()\n    def get(self):\n        return self.size\nsize = Plain().get()",
    "r = random.random(), torch.rand(2), np.random.rand()",
    "previous = x; del previous",
    "log.append(len(log))",
    "with torch.no_grad():\n    frozen = x * 2",
    "match x.shape:\n    case (rows, columns):\n        pass",
    "global made; made = 3",
    "import math as maths\nroot = maths.sqrt(4)",
    "from math import pi",
    "hm = x if scale > 2 else -x",
    "assert len(log) >= 0",
    "%time t = x * 2",
    "out = !echo shell",
    "await asyncio.sleep(0)",
    "was = Out, _ if '_' in globals() else None; was = len(was)",
    "def fresh(t):\n    return t * scale\nfr = fresh(x)",
    "x = x.double().float()",
    "helper = lambda t: t * 3",
    "import sys as system; print('err', file=system.stderr)",
    "v = (lambda t: t + 1)(x)",
    "it = (t * 2 for t in x); first = next(it)",
    "torch.manual_seed(3); drawn = torch.randn(2)",
)


@dataclass(frozen=True)
class Piece:
    """A kind of code: one of its setups, statements that use it, and what a person would name as targets."""

    setups: tuple[str, ...]
    uses: tuple[str, ...]
    targets: tuple[str, ...] = ()


def _piece(*setups: str, uses: tuple[str, ...], targets: tuple[str, ...] = ()) -> Piece:
    return Piece(setups, uses, targets)


_FUNCTION = "def f_N(x):\n    BODY\n    return x"
_CALLS = (
    "y_N = f_N(x)",
    "f_N(x)",
    "f_N(x);",
    "y_N = [f_N(t) for t in (x, x + 1)]",
    "y_N = f_N(f_N(x))",
    "print(f_N(x).sum().item())",
    "for size in (1, 2, 3):\n    y_N = f_N(torch.ones(size, 3))",
    "z_N = y_N = f_N(x) + 1",
)
_NET = """class Net_N(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer('seen', torch.zeros(()))
        self.calls = 0
        self.shapes = []
    def forward(self, x):
        EXTRA
        return self.lin(x).relu()
net_N = Net_N()"""
_NET_CALLS = (
    "y_N = net_N(x)",
    "net_N(x)",
    "y_N = net_N.forward(x)",
    "with torch.no_grad():\n    y_N = net_N(x)",
    "net_N(x).sum().backward()",
    "y_N = [net_N(t) for t in (x, x * 2)]",
    "net_N.eval(); y_N = net_N(x); net_N.train()",
    "g_N = torch.autograd.grad(net_N(x).sum(), net_N.parameters())",
)
_EXTRAS = (
    "pass",
    "self.calls += 1",
    "self.seen += 1",
    "self.shapes.append(tuple(x.shape))",
    "self.seen.add_(x.detach().sum())",
    "self.last = x.detach()",
    "print('forward')",
    "x = F.dropout(x, 0.5, self.training)",
    "if x.sum() > 0:\n            x = x + 1",
    "self.seen = self.seen * 0.9 + x.detach().mean()",
)
_TRAIN = """torch.manual_seed(7)
model_N = nn.Sequential(nn.Linear(3, 4), MIDDLE, nn.Linear(4, 1))
opt_N = OPTIMIZER
losses_N = []
def step_N(x):
    opt_N.zero_grad()
    loss = model_N(x).pow(2).mean()
    loss.backward()
    opt_N.step()
    return loss.detach()"""
_STEPS = (
    "losses_N.append(step_N(x).item())",
    "l_N = step_N(x)",
    "for batch in (x, x * 2):\n    losses_N.append(step_N(batch))",
    "opt_N.zero_grad()\nl_N = model_N(x).mean()\nl_N.backward()\nopt_N.step()",
    "l_N = model_N(x).sum()\nl_N.backward()\nnorm_N = nn.utils.clip_grad_norm_(model_N.parameters(), 0.1)\nopt_N.step()",
    "model_N.eval(); y_N = model_N(x); model_N.train();",
    "saved_N = copy.deepcopy(model_N.state_dict()), copy.deepcopy(opt_N.state_dict())",
    "sched_N = torch.optim.lr_scheduler.StepLR(opt_N, 1)\nstep_N(x)\nsched_N.step()\nrate_N = sched_N.get_last_lr()",
)
_OPTIMIZERS = (
    "torch.optim.SGD(model_N.parameters(), lr=0.1, momentum=0.9)",
    "torch.optim.Adam(model_N.parameters(), lr=0.1)",
    "torch.optim.AdamW(model_N.parameters(), lr=0.1, foreach=False)",
)
_RAISES = (
    "raise KeyError('k') from ValueError('v')",
    "raise ValueError('plain')",
    "try:\n        1 / 0\n    except ZeroDivisionError as e:\n        raise Own_N('in f', x.shape[0]) from e",
    "try:\n        {}['a']\n    except KeyError:\n        raise Own_N('while handling')",
    "try:\n        [][0]\n    except IndexError:\n        raise Own_N('from none') from None",
    "e = Own_N('noted')\n    if hasattr(e, 'add_note'): e.add_note('a note')\n    raise e",
    "return x.view(5, 5)",
    "return x @ torch.ones(7, 7)",
    "assert x.sum() > 1e6, 'too small'",
    "print('about to')\n    return helper(x) + missing_N",
    "d = lambda v: v * 2\n    print('a')\n    return d(x).view(7, 7)",
    "raise cause_N",
    "raise ValueError('with kept') from cause_N",
    "raise (ExceptionGroup('g', [ValueError('a'), KeyError('b')]) if sys.version_info > (3, 11) else ValueError('a'))",
    "for i in range(3):\n        x = x + 1\n        if i == 1: raise StopIteration(i)",
    "with torch.no_grad():\n        return x / 'text'",
    "raise SystemExit(3)",
    "raise Own_N from Own_N('cause') if len(log) else RuntimeError('other')",
)
_LIBRARY = """folder_N = tempfile.mkdtemp()
pathlib.Path(folder_N, 'lib_N.py').write_text('''import logging
import torch
calls, seen, cache = 0, [], {}
log = logging.getLogger('lib_N')
class Meter:
    total = 0
    made = []
    def __init__(self):
        Meter.made.append(len(Meter.made))
    def __call__(self, t):
        Meter.total += 1
        return t * 2
def scaled(t):
    global calls
    calls += 1
    return t * calls
def noted(t):
    seen.append(tuple(t.shape))
    return t + len(seen)
def cached(t):
    return cache.setdefault('k', len(cache) + 1) * t
def apply(f, t):
    return f(t) + 1
def fit(model, data):
    for t in data:
        model.zero_grad()
        model(t).sum().backward()
    return len(data)
class Trainer:
    epochs = 0
    def __init__(self):
        self.history = []
    def fit(self, f, t):
        Trainer.epochs += 1
        self.history.append(float(f(t).sum()))
        return self
''')
sys.path.insert(0, folder_N)
import lib_N
sys.path.remove(folder_N)
meter_N = lib_N.Meter()
trainer_N = lib_N.Trainer()
def f_N(x):
    BODY
    return lib_N.scaled(x)"""


def _variants(text: str, mark: str, options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.replace(mark, option) for option in options)


PIECES: Mapping[str, Piece] = {
    "function": _piece(_FUNCTION, _FUNCTION, f"factor_N = 2.0\n{_FUNCTION} * factor_N", uses=_CALLS, targets=("f_N",)),
    "lambda and default": _piece(
        "f_N = lambda x, k=scale: x * k + 1",
        "def f_N(x, *, k=[]):\n    k.append(1)\n    return x + len(k)",
        uses=(*_CALLS, "y_N = f_N(x, k=[1])"),
        targets=("f_N",),
    ),
    "global that the cell binds": _piece(
        "level_N = 1.0\ndef f_N(t):\n    BODY\n    return t * level_N".replace("BODY", "t = t + 1"),
        "level_N = 1.0\ndef f_N(t):\n    global level_N\n    level_N = level_N + 1\n    return t * level_N",
        uses=(
            "level_N = 10.0\ny_N = f_N(x)",
            "level_N = 3.0\ny_N = list(map(f_N, [x, x]))",
            "level_N += 1\ny_N = sorted([x, -x], key=lambda t: f_N(t).sum().item())",
            "del level_N\nlevel_N = 4.0\ny_N = f_N(x)",
            "for level_N in (1.0, 2.0):\n    y_N = f_N(x)",
            "level_N = 5.0\ny_N = functools.reduce(lambda a, b: a + f_N(b), [x, x])",
            "level_N = 6.0\ny_N = checkpoint(f_N, x, use_reentrant=False)",
            "level_N = 7.0\ny_N = x.clone().apply_(lambda v: v * level_N)",
            "level_N = 8.0\ny_N = torch.vmap(f_N)(x)",
            "level_N = 2.0\ny_N = torch.func.grad(lambda t: f_N(t).sum())(x)",
            "level_N = 9.0\ny_N = max([x, -x], key=lambda t: float(f_N(t).sum()))",
            "level_N = 2.5\ny_N = list(filter(lambda t: f_N(t).sum() > 0, [x, -x]))",
        ),
        targets=("f_N",),
    ),
    "closure": _piece(
        "def make_N():\n    n = 0\n    kept = []\n    def f_N(x):\n        nonlocal n\n        n += 1\n"
        "        kept.append(n)\n        BODY\n        return x * n\n    return f_N\nf_N = make_N()",
        uses=(*_CALLS, "f_N = make_N()\ny_N = f_N(x)", "n_N = f_N.__closure__[1].cell_contents"),
        targets=("f_N",),
    ),
    "partials and registries": _piece(
        "registry_N = {}\ndef register_N(f):\n    registry_N[f.__name__] = f\n    return f\n@register_N\n"
        "def g_N(x):\n    BODY\n    return x\npart_N = functools.partial(g_N, x)",
        uses=(
            "y_N = part_N()",
            "pt_N = functools.partial(g_N, x)\ny_N = pt_N()",
            "y_N = registry_N['g_N'](x)",
            "kept_N = (g_N, {g_N}, [g_N])\ny_N = g_N(x)",
            "@register_N\ndef h_N(t):\n    return g_N(t) + 1\ny_N = h_N(x)",
            "def late_N(t, f=g_N):\n    return f(t)\ny_N = late_N(x)",
            "x.fn_N = g_N\ny_N = x.fn_N(x)",
            "same_N = registry_N['g_N'] is g_N, part_N.func is g_N\ng_N(x)",
            "data_N = pickle.dumps(functools.partial(helper, 1)), g_N.__name__\ny_N = g_N(x)",
            "g_N.calls = getattr(g_N, 'calls', 0) + 1\ny_N = g_N(x)",
        ),
        targets=("g_N", "part_N"),
    ),
    "decorators": _piece(
        "def noisy_N(f):\n    @functools.wraps(f)\n    def wrapper(*args):\n        log.append(f.__name__)\n"
        "        return f(*args)\n    return wrapper\n@noisy_N\ndef f_N(x):\n    BODY\n    return x",
        "@torch.no_grad()\ndef f_N(x):\n    BODY\n    return x",
        "@torch.inference_mode()\ndef f_N(x):\n    BODY\n    return x",
        "@torch.compiler.disable\ndef f_N(x):\n    BODY\n    return x",
        "@torch.compiler.set_stance('force_eager')\ndef f_N(x):\n    BODY\n    return x",
        "@functools.lru_cache\ndef f_N(x):\n    BODY\n    return x",
        "@functools.singledispatch\ndef f_N(x):\n    BODY\n    return x",
        "@torch.autocast('cpu', enabled=False)\ndef f_N(x):\n    BODY\n    return x",
        uses=_CALLS,
        targets=("f_N",),
    ),
    "class": _piece(
        "class K_N:\n    made = 0\n    def __init__(self, v=1):\n        K_N.made += 1\n        self.v = v\n"
        "    def __call__(self, x):\n        self.v += 1\n        BODY\n        return x * self.v\n"
        "    def method(self, x):\n        BODY\n        return x\n    @staticmethod\n    def static(x):\n"
        "        return x + 1\n    @classmethod\n    def klass(cls, x):\n        cls.made += 1\n        return x\n"
        "    @property\n    def prop(self):\n        log.append('prop')\n        return self.v * scale\nk_N = K_N()",
        uses=(
            "y_N = k_N(x)",
            "y_N = k_N.method(x)",
            "y_N = K_N.static(x)",
            "y_N = K_N.klass(x)",
            "y_N = k_N.prop * x",
            "scale = 3.0\ny_N = x * k_N.prop",
            "k_N = K_N(2)\ny_N = k_N.method(x)",
            "m_N = k_N.method\ny_N = m_N(x)",
            "class Sub_N(K_N):\n    def method(self, x):\n        return super().method(x) + 1\ny_N = Sub_N().method(x)",
        ),
        targets=("k_N.method", "k_N"),
    ),
    "operators": _piece(
        "class V_N:\n    def __init__(self, t):\n        self.t = t\n        self.used = 0\n"
        "    def __add__(self, other):\n        self.used += 1\n        return V_N(self.t * scale + other.t)\n"
        "    def __matmul__(self, other):\n        log.append('@')\n        return self.t * other\n"
        "    def __getitem__(self, i):\n        self.used += 1\n        return self.t[i] * scale\n"
        "    def __len__(self):\n        return len(self.t)\n    def __contains__(self, v):\n        log.append('in')\n"
        "        return v in counts\n    def __iter__(self):\n        yield from self.t * scale\n"
        "    def __enter__(self):\n        log.append('enter')\n        return self\n"
        "    def __exit__(self, *args):\n        log.append('exit')\n    def __eq__(self, other):\n"
        "        log.append('eq')\n        return scale > 2\n    def __bool__(self):\n        log.append('bool')\n"
        "        return True\n    def __repr__(self):\n        return f'V({self.used}, {scale})'\nv_N = V_N(x.clone())",
        uses=(
            "scale = 4.0\ny_N = (v_N + v_N).t",
            "y_N = v_N @ 3",
            "scale = 5.0\ny_N = v_N[0]",
            "y_N = len(v_N), 1 in v_N",
            "scale = 2.0\ny_N = [t.sum() for t in v_N]",
            "with v_N as w_N:\n    y_N = w_N[0]",
            "y_N = v_N == 3",
            "y_N = 1 if v_N else 2",
            "v_N",
            "scale = 7.0\nprint(v_N, f'{v_N!r}')",
            "v_N += v_N",
            "a_N, b_N = v_N",
        ),
    ),
    "module": _piece(
        *_variants(_NET, "EXTRA", _EXTRAS), uses=_NET_CALLS, targets=("net_N", "net_N.forward", "net_N.lin")
    ),
    "module hooks": _piece(
        *(
            _NET.replace("EXTRA", "pass") + "\n" + hook
            for hook in (
                "hook_N = net_N.register_forward_hook(lambda m, a, o: log.append('fwd'))",
                "hook_N = net_N.lin.register_forward_hook(lambda m, a, o: o * scale)",
                "hook_N = net_N.register_forward_pre_hook(lambda m, a: (a[0] + 1,))",
                "hook_N = net_N.register_full_backward_hook(lambda m, i, o: log.append('bwd'))",
                "hook_N = net_N.lin.register_full_backward_pre_hook(lambda m, o: log.append('pre'))",
                "def note_N(m, a, o):\n    print('hook', scale)\n    m.calls = getattr(m, 'calls', 0) + 1\n"
                "hook_N = net_N.register_forward_hook(note_N)",
                "hook_N = net_N.register_state_dict_post_hook(lambda *a: log.append('sd'))",
            )
        ),
        uses=(*_NET_CALLS, "hook_N.remove()", "scale = 3.0\ny_N = net_N(x)", "sd_N = net_N.state_dict()"),
        targets=("net_N",),
    ),
    "global module hooks": _piece(
        "net_N = nn.Linear(3, 3)\nhook_N = nn.modules.module.register_module_forward_hook(lambda m, a, o: log.append('g'))",
        "net_N = nn.Linear(3, 3)\n"
        "hook_N = nn.modules.module.register_module_forward_pre_hook(lambda m, a: log.append('gp'))",
        "net_N = nn.Linear(3, 3)\n"
        "hook_N = nn.modules.module.register_module_full_backward_hook(lambda m, i, o: log.append('gb'))",
        uses=(*_NET_CALLS, "hook_N.remove()", "y_N = nn.Sequential(net_N, nn.ReLU())(x)"),
        targets=("net_N",),
    ),
    "tensor hooks": _piece(
        "w_N = torch.ones(3, requires_grad=True)\nhits_N = []\nhook_N = w_N.register_hook(lambda g: hits_N.append(1))",
        "w_N = torch.ones(3, requires_grad=True)\nhits_N = []\nhook_N = w_N.register_hook(lambda g: g * scale)",
        "w_N = torch.ones(3, requires_grad=True)\nhits_N = []\n"
        "hook_N = w_N.register_post_accumulate_grad_hook(lambda p: hits_N.append(p.grad.sum().item()))",
        "w_N = torch.ones(3, requires_grad=True)\nhits_N = []\nown_N = torch.optim.SGD([w_N], lr=0.1)\n"
        "def hook_(p):\n    own_N.step()\n    own_N.zero_grad()\nhook_N = w_N.register_post_accumulate_grad_hook(hook_)",
        uses=(
            "(w_N * x).sum().backward()",
            "loss_N = (w_N * x).pow(2).sum()\nloss_N.backward()",
            "scale = 3.0\n(w_N * x).sum().backward()",
            "y_N = w_N * x\ny_N.register_hook(lambda g: log.append('mid'))\ny_N.sum().backward()",
            "def loss_f_N(w):\n    return (w * x).sum()\nloss_f_N(w_N).backward()",
            "y_N = (w_N * 2).sum()\ny_N.grad_fn.register_hook(lambda *a: log.append('node'))\ny_N.backward()",
            "hook_N.remove()",
            "g_N = torch.autograd.grad((w_N * x).sum(), w_N)",
        ),
    ),
    "optimizer hooks": _piece(
        _TRAIN.replace("MIDDLE", "nn.Tanh()").replace("OPTIMIZER", _OPTIMIZERS[0])
        + "\nhook_N = opt_N.register_step_post_hook(lambda *a: log.append('step'))",
        _TRAIN.replace("MIDDLE", "nn.Tanh()").replace("OPTIMIZER", _OPTIMIZERS[1])
        + "\nhook_N = opt_N.register_step_pre_hook(lambda *a: counts.update(pre=counts.get('pre', 0) + 1))",
        uses=(*_STEPS, "hook_N.remove()"),
        targets=("step_N", "model_N"),
    ),
    "training": _piece(
        *(
            _TRAIN.replace("MIDDLE", middle).replace("OPTIMIZER", optimizer)
            for middle in ("nn.Tanh()", "nn.BatchNorm1d(4)", "nn.Dropout(0.5)")
            for optimizer in _OPTIMIZERS
        ),
        uses=_STEPS,
        targets=("step_N", "model_N"),
    ),
    "lbfgs": _piece(
        "w_N = torch.zeros(3, requires_grad=True)\nopt_N = torch.optim.LBFGS([w_N], max_iter=2)\ngoal_N = 0.0\n"
        "def closure_N():\n    opt_N.zero_grad()\n    loss = ((w_N - goal_N) ** 2).sum()\n    loss.backward()\n"
        "    log.append(loss.item())\n    return loss",
        uses=(
            "goal_N = 2.0\nloss_N = opt_N.step(closure_N)",
            "loss_N = opt_N.step(closure_N)",
            "for goal_N in (1.0, 2.0):\n    opt_N.step(closure_N)",
            "goal_N += 1\nopt_N.step(lambda: closure_N())\nr_N = w_N.detach().clone()",
        ),
        targets=("closure_N",),
    ),
    "callbacks": _piece(
        _FUNCTION,
        uses=(
            "y_N = list(map(f_N, [x, x + 1]))",
            "y_N = sorted([x, -x], key=lambda t: f_N(t).sum().item())",
            "y_N = x.clone().apply_(lambda v: v * scale)",
            "scale = 3.0\ny_N = x.clone().map_(x, lambda a, b: a * scale + b)",
            "y_N = checkpoint(f_N, x, use_reentrant=False)",
            "scale = 2.0\ny_N = next(map(f_N, [x]))",
            "nn.Sequential(nn.Linear(3, 3), nn.ReLU()).apply(lambda m: log.append(type(m).__name__))",
            "j_N = torch.autograd.functional.jacobian(lambda t: (t * scale).sum(0), x)",
            "scale = 0.5\ny_N = functools.reduce(lambda a, t: a + f_N(t), [x, x])",
            "y_N = collections.defaultdict(lambda: f_N(x))['k']",
            "y_N = [*itertools.starmap(lambda a, b: f_N(a) + b, [(x, 1)])]",
            "y_N = torch.utils._pytree.tree_map(f_N, {'a': x, 'b': [x]})",
        ),
        targets=("f_N",),
    ),
    "data": _piece(
        "class Data_N(Dataset):\n    def __init__(self):\n        self.read = []\n    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, i):\n        if i >= 4: raise IndexError(i)\n        self.read.append(i)\n"
        "        return torch.full((3,), i * scale)\ndata_N = Data_N()\n"
        "loader_N = DataLoader(data_N, batch_size=2, shuffle=True)\nnet_N = nn.Linear(3, 3)",
        "class Data_N(IterableDataset):\n    def __iter__(self):\n        for i in range(4):\n            log.append(i)\n"
        "            yield torch.full((3,), i * scale)\n    def __getitem__(self, i):\n        return torch.full((3,), scale)\n"
        "data_N = Data_N()\nloader_N = DataLoader(data_N, batch_size=2)\nnet_N = nn.Linear(3, 3)",
        uses=(
            "scale = 2.0\ny_N = data_N[1]",
            "for b_N in loader_N:\n    y_N = net_N(b_N)",
            "y_N = next(iter(loader_N))",
            "scale = 3.0\ny_N = torch.stack(list(itertools.islice(data_N, 3)))",
            "it_N = iter(loader_N)\ny_N = net_N(next(it_N))",
            "y_N = [net_N(b).sum().item() for b in DataLoader(TensorDataset(x), batch_size=1) for b in b]",
            "total_N = sum(b.sum() for b in loader_N)",
            "y_N = torch.utils.data.default_collate([data_N[0], data_N[1]])",
        ),
        targets=("net_N",),
    ),
    "the user's own compile": _piece(
        "@torch.compile(backend='eager')\ndef f_N(x):\n    BODY\n    return x\ndef outer_N(x):\n    return f_N(x) + 1",
        "def g_N(x):\n    BODY\n    return x\nf_N = torch.compile(g_N, backend='eager')\n"
        "def outer_N(x):\n    BODY\n    return f_N(x)",
        "def g_N(x):\n    return x * scale\nf_N = torch.compile(g_N, backend='eager', fullgraph=True)\n"
        "def outer_N(x):\n    return f_N(x) + 1",
        "def g_N(x):\n    if x.sum() > 0:\n        x = x + 1\n    return x * 2\n"
        "f_N = torch.compile(g_N, backend='eager', dynamic=False)\nf_N(x)\ndef outer_N(x):\n    return f_N(x) + g_N(x)",
        "class M_N(nn.Module):\n    def forward(self, x):\n        BODY\n        return x\nf_N = M_N()\n"
        "f_N.compile(backend='eager')\ndef outer_N(x):\n    return f_N(x) * 2",
        "class M_N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n"
        "    def forward(self, x):\n        BODY\n        return self.l(x)\nm_N = M_N()\n"
        "f_N = torch.compile(m_N, backend='eager')\ndef outer_N(x):\n    return f_N(x) * 2",
        uses=(
            *_CALLS,
            "y_N = outer_N(x)",
            "outer_N(x); y_N = f_N(x)",
            "y_N = outer_N(torch.ones(5, 3))",
            "f_N(x).sum(); z_N = outer_N(x)",
            "own_N = torch.compile(helper, backend='eager')\ny_N = own_N(x)",
            "torch._dynamo.reset()\ny_N = f_N(x)",
            "y_N = torch.compile(lambda t: t * 3, backend='eager')(x)",
        ),
        targets=("outer_N",),
    ),
    "library state": _piece(
        _LIBRARY,
        uses=(
            "y_N = lib_N.scaled(x)",
            "y_N = f_N(x)",
            "y_N = lib_N.noted(x)\nn_N = len(lib_N.seen)",
            "y_N = meter_N(x)\nt_N = lib_N.Meter.total",
            "meter_N = lib_N.Meter()\nmade_N = list(lib_N.Meter.made)",
            "y_N = lib_N.apply(f_N, x)",
            "y_N = lib_N.cached(x)",
            "trainer_N.fit(f_N, x)\nh_N = list(trainer_N.history), lib_N.Trainer.epochs",
            "n_N = lib_N.fit(nn.Linear(3, 3), [x, x]), lib_N.calls, dict(lib_N.cache), lib_N.seen[:]",
            "lib_N.calls = 5\ny_N = lib_N.scaled(x)",
            "y_N = lib_N.apply(lambda t: t * scale, x)",
        ),
        targets=("f_N", "lib_N.scaled"),
    ),
    "exceptions": _piece(
        *(
            "class Own_N(Exception):\n    pass\ncause_N = LookupError('kept')\ndef f_N(x):\n    x = x + 1\n    " + each
            for each in _RAISES
        ),
        uses=(
            "y_N = f_N(x)",
            "f_N(x)",
            "try:\n    f_N(x)\nexcept BaseException as e:\n    kept_N = e, e.__cause__, e.__context__, e.args",
            "try:\n    f_N(x)\nexcept Exception as e:\n    raise RuntimeError('in the cell') from e",
            "try:\n    f_N(x)\nfinally:\n    log.append('cleaned')",
            "def call_N(t):\n    return f_N(t)\nlog.append(1)\ncall_N(x)",
            "with contextlib.suppress(Exception):\n    f_N(x)\nlog.append('after')",
            "y_N = [f_N(t) for t in (x, x)]",
            "raise Own_N('in the cell') from cause_N",
            "import traceback\ntry:\n    f_N(x)\nexcept BaseException:\n    traceback.print_exc()",
            "list(map(f_N, [x]))",
        ),
        targets=("f_N",),
    ),
    "warnings": _piece(
        "def f_N(x):\n    x = x + 1\n    warnings.warn('old_N', FutureWarning, stacklevel=2)\n    return x",
        "def f_N(x):\n    warnings.warn('here_N')\n    return x * 2",
        "def f_N(x):\n    warnings.warn_explicit('made_N', UserWarning, 'file', 3)\n    return x * 2",
        "shown_N = []\nkept_N = warnings.showwarning\n"
        "warnings.showwarning = lambda *a, **k: shown_N.append(str(a[0]))\n"
        "def f_N(x):\n    warnings.warn(f'w{len(shown_N)}')\n    return x * 2",
        "def f_N(x):\n    logging.getLogger('lib').error('logged %s', tuple(x.shape))\n    return x - 1",
        uses=(
            "y_N = f_N(x)",
            "with warnings.catch_warnings(record=True) as got_N:\n    warnings.simplefilter('always')\n    y_N = f_N(x)\n"
            "got_N = [str(w.message) for w in got_N]",
            "warnings.simplefilter('always')\nfor _i in range(2):\n    y_N = f_N(x)",
            "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    y_N = f_N(x)",
            "warnings.warn('from the cell')\ny_N = f_N(x)",
            "warnings.filterwarnings('ignore', message='old')\ny_N = f_N(x)",
        ),
        targets=("f_N",),
    ),
    "hostile objects": _piece(
        "class Bad_N(nn.Module):\n    def __init__(self):\n        pass\nbad_N = Bad_N()\n" + _FUNCTION,
        "class Bad_N:\n    def __getattr__(self, name):\n        raise ValueError('ga ' + name)\n"
        "    def __call__(self, x):\n        return x\nbad_N = Bad_N()\n" + _FUNCTION,
        "class Bad_N:\n    def __getattribute__(self, name):\n        log.append(name)\n"
        "        return object.__getattribute__(self, name)\n    def __call__(self, x):\n        return x\n"
        "bad_N = Bad_N()\n" + _FUNCTION,
        "class Bad_N:\n    @property\n    def __class__(self):\n        log.append('class')\n        return dict\n"
        "    def __call__(self, x):\n        return x\nbad_N = Bad_N()\n" + _FUNCTION,
        "class Bad_N:\n    def __eq__(self, other):\n        raise RuntimeError('eq')\n    __hash__ = None\n"
        "    def __bool__(self):\n        raise RuntimeError('bool')\n    def __len__(self):\n        raise RuntimeError('len')\n"
        "    def __repr__(self):\n        raise RuntimeError('repr')\n    def __call__(self, x):\n        return x\n"
        "bad_N = Bad_N()\n" + _FUNCTION,
        "class Bad_N(torch.optim.Optimizer):\n    def __init__(self):\n        pass\n    def __call__(self, x):\n"
        "        return x\nbad_N = Bad_N()\n" + _FUNCTION,
        "class Bad_N(dict):\n    def __getitem__(self, key):\n        log.append(key)\n        return dict.__getitem__(self, key)\n"
        "    def __iter__(self):\n        log.append('iter')\n        return dict.__iter__(self)\n"
        "    def items(self):\n        raise RuntimeError('items')\n    def __call__(self, x):\n        return x\n"
        "bad_N = Bad_N(a=1)\n" + _FUNCTION,
        "class Meta_N(type):\n    def __getattribute__(cls, name):\n        log.append('meta ' + name)\n"
        "        return super().__getattribute__(name)\nclass Bad_N(metaclass=Meta_N):\n    def __call__(self, x):\n"
        "        return x\nbad_N = Bad_N()\n" + _FUNCTION,
        "class Lazy_N(types.ModuleType):\n    def __getattr__(self, name):\n        log.append('lazy ' + name)\n"
        "        raise AttributeError(name)\nbad_N = Lazy_N('lazy')\nsys.modules['lazy_N'] = bad_N\n" + _FUNCTION,
        uses=(*_CALLS[:4], "y_N = bad_N(x)", "held_N = [bad_N]\ny_N = f_N(x)", "x.bad = bad_N\ny_N = f_N(x)"),
        targets=("f_N",),
    ),
    "lifetime": _piece(
        "class M_N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n"
        "    def forward(self, x):\n        BODY\n        return self.l(x)\nm_N = M_N()\nw_N = weakref.ref(m_N)\n"
        "class Big_N:\n    def __init__(self, t):\n        self.t = t\n    def __del__(self):\n        log.append('freed')\n"
        "def use_N(b):\n    return b.t * 2\nbig_N = Big_N(x)",
        uses=(
            "y_N = m_N(x)\ndel m_N\ndead_N = w_N() is None",
            "y_N = use_N(big_N)\ndel big_N\nn_N = list(log)",
            "y_N = use_N(Big_N(x))\nn_N = list(log)",
            "m_N = M_N()\nw_N = weakref.ref(m_N)\ny_N = m_N(x)\nm_N = None\ndead_N = w_N() is None",
            "t_N = torch.ones(2, 3)\nr_N = weakref.ref(t_N)\ny_N = helper(t_N)\ndel t_N\ndead_N = r_N() is None",
            "def tmp_N(t):\n    return t + 1\nr_N = weakref.ref(tmp_N)\ny_N = tmp_N(x)\ndel tmp_N\ndead_N = r_N() is None",
            "count_N = sys.getrefcount(use_N)\ny_N = use_N(Big_N(x))\nsame_N = count_N == sys.getrefcount(use_N)",
        ),
        targets=("use_N",),
    ),
    "names and scopes": _piece(
        "a_N, b_N = 1, [1, 2]\ndef set_N(v):\n    global a_N\n    a_N = v\n    return x * a_N\n"
        "def read_N(t):\n    return t * a_N + len(b_N)",
        uses=(
            "y_N = set_N(3)\nz_N = x * a_N",
            "a_N = 5\ny_N = read_N(x)",
            "class C_N:\n    a_N = 3\n    y = read_N(x)\ny_N = C_N.y",
            "y_N = [read_N(x) for a_N in (1, 2)]",
            "y_N = (w_N := read_N(x)) + w_N",
            "del a_N\na_N = 2\ny_N = read_N(x)",
            "del b_N",
            "a_N: float = 2.5\ny_N = read_N(x)\nk_N = dict(__annotations__)",
            "exec('a_N = 9')\ny_N = read_N(x)",
            "globals()['a_N'] = 11\ny_N = read_N(x)",
            "here_N = sorted(k for k in globals() if k.endswith('_N'))\ny_N = read_N(x)",
            "for a_N in range(2):\n    if a_N: break\nelse:\n    never_N = 1\ny_N = read_N(x)",
            "try:\n    undefined_N\nexcept NameError as e:\n    m_N = str(e)\ny_N = read_N(x)",
            "with open(os.devnull) as file_N:\n    y_N = read_N(x)",
            "a_N = eval('a_N + 1')\ny_N = read_N(x)",
            "if False:\n    unset_N = 1\ny_N = read_N(x)\nset_ = 'unset_N' in globals()",
            "import os.path as p_N, math\ny_N = read_N(x) * math.pi",
        ),
        targets=("read_N", "set_N"),
    ),
    "displays": _piece(
        _FUNCTION + "\nclass R_N:\n    def __init__(self):\n        self.n = 0\n    def _repr_html_(self):\n"
        "        self.n += 1\n        return f'<b>{self.n}</b>'\n    def __repr__(self):\n        return f'R({self.n})'\n"
        "r_N = R_N()\nfrom IPython.display import display, HTML, clear_output",
        uses=(
            "f_N(x)",
            "f_N(x);",
            "f_N(x)  # a comment",
            "display(f_N(x))",
            "r_N",
            "display(r_N, HTML('<i>i</i>'))",
            "y_N = f_N(x)\n_",
            "_ if '_' in globals() else 0",
            "Out[max(Out)] if Out else None",
            "get_ipython().ast_node_interactivity = 'all'\nx\nf_N(x)",
            "print('a'); f_N(x); print('b')",
            "h_N = display(1, display_id='d_N')\nf_N(x)\nh_N.update(2)",
            "None",
            "'text'",
            "sys.stdout.write('raw\\n');",
        ),
        targets=("f_N",),
    ),
    "draws": _piece(
        "def f_N(x):\n    return x + torch.randn(3)\ngen_N = torch.Generator().manual_seed(5)\n"
        "rng_N = np.random.default_rng(3)\nown_N = random.Random(4)",
        uses=(
            "y_N = f_N(x)",
            "r_N = random.random(), np.random.rand(), torch.rand(1)\ny_N = f_N(x)",
            "y_N = f_N(x)\nr_N = random.random(), np.random.rand(), torch.rand(1)",
            "y_N = F.dropout(f_N(x), 0.5)",
            "y_N = torch.rand(2, generator=gen_N)\nz_N = f_N(x)",
            "y_N = rng_N.random(), own_N.random()\nz_N = f_N(x)",
            "random.seed(1); np.random.seed(1); torch.manual_seed(1)\ny_N = f_N(x)",
            "random.shuffle(log)\ny_N = torch.randperm(4)",
            "state_N = torch.get_rng_state()\ny_N = f_N(x)\ntorch.set_rng_state(state_N)",
            "with torch.random.fork_rng():\n    torch.manual_seed(2)\n    y_N = f_N(x)",
        ),
        targets=("f_N",),
    ),
    "in place": _piece(
        "def f_N(t):\n    t.mul_(2)\n    return t.sum()\nbuf_N = torch.zeros(2, 3)\nview_N = buf_N[0]\narr_N = np.zeros(3)\n"
        "shared_N = torch.from_numpy(arr_N)",
        uses=(
            "y_N = f_N(buf_N)",
            "buf_N += 1\ny_N = f_N(buf_N)",
            "view_N.add_(1)\ny_N = buf_N.sum()",
            "f_N(x)",
            "buf_N[0] = x[1]\ny_N = helper(buf_N)",
            "torch.add(x, 1, out=buf_N)\ny_N = f_N(buf_N)",
            "arr_N += 1\ny_N = helper(shared_N)",
            "buf_N.copy_(x).clamp_(max=1)\ny_N = f_N(view_N)",
            "x.mul_(1.5)\ny_N = helper(x)",
            "buf_N = torch.ones(2, 3)\nview_N = buf_N[:, 0]\ny_N = f_N(view_N)",
            "buf_N.resize_(1, 3)\ny_N = buf_N.sum()",
            "buf_N.data = torch.ones(2, 3)\ny_N = f_N(buf_N)",
        ),
        targets=("f_N",),
    ),
    "kv cache": _piece(
        "class Att_N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.p = nn.Linear(3, 3)\n"
        "        self.register_buffer('k', torch.zeros(8, 3))\n        self.pos = 0\n    def forward(self, x):\n"
        "        self.k[self.pos] = self.p(x)\n        self.pos += 1\n        return (self.k[:self.pos] @ x).softmax(0).sum()\n"
        "att_N = Att_N().eval()\ncache_N = {'k': [], 'n': 0}\ndef decode_N(x):\n    cache_N['k'].append(x * 2)\n"
        "    cache_N['n'] += 1\n    return torch.stack(cache_N['k']).sum(0)",
        uses=(
            "with torch.no_grad():\n    o_N = att_N(x[0])",
            "o_N = decode_N(x[0])",
            "for t in x:\n    o_N = decode_N(t)",
            "with torch.no_grad():\n    o_N = [att_N(t) for t in x]",
            "att_N.pos = 0\natt_N.k.zero_()\nwith torch.inference_mode():\n    o_N = att_N(x[0])",
        ),
        targets=("att_N", "decode_N"),
    ),
    "generators": _piece(
        "def gen_N(x):\n    for i in range(4):\n        log.append(i)\n        yield x * i\ng_N = gen_N(x)\n"
        "@contextlib.contextmanager\ndef scope_N():\n    log.append('in')\n    yield scale\n    log.append('out')\n"
        "async def aw_N(x):\n    await asyncio.sleep(0)\n    return x * scale\nit_N = itertools.count()",
        uses=(
            "y_N = next(g_N)",
            "y_N = list(gen_N(x))",
            "with scope_N() as s_N:\n    y_N = helper(x) * s_N",
            "y_N = await aw_N(x)",
            "y_N = helper(x) * next(it_N)",
            "g_N = gen_N(helper(x))\ny_N = next(g_N)",
            "y_N = [v.sum() for v in gen_N(x)]",
            "async def more_N():\n    return await aw_N(x)\ny_N = await more_N()",
        ),
        targets=("helper",),
    ),
    "values of the user's types": _piece(
        "@dataclasses.dataclass\nclass P_N:\n    t: torch.Tensor\n    n: int = 1\nPair_N = collections.namedtuple('Pair_N', 'a b')\n"
        "class Mode_N(enum.Enum):\n    A = 1\n    B = 2\ndef f_N(p, mode=Mode_N.A):\n"
        "    return p.t * p.n + 1 if mode is Mode_N.A else p.t\ndef g_N(pair):\n    return pair.a + pair.b\n"
        "def d_N(d):\n    return sum(d.values())\nclass D_N(dict):\n    pass",
        uses=(
            "y_N = f_N(P_N(x))",
            "y_N = f_N(P_N(x, 2), Mode_N.B)",
            "y_N = g_N(Pair_N(x, 1))",
            "y_N = d_N(collections.OrderedDict(a=x, b=x))",
            "y_N = d_N(collections.defaultdict(int, a=x))",
            "y_N = d_N(D_N(a=x))",
            "own_N = torch.compile(d_N, backend='eager')\ny_N = own_N(D_N(a=x))",
            "p_N = P_N(x); y_N = f_N(p_N); p_N.n += 1; z_N = f_N(p_N)",
            "y_N = f_N(types.SimpleNamespace(t=x, n=2))",
        ),
        targets=("f_N", "d_N"),
    ),
    "autograd": _piece(
        "class Fn_N(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, k):\n        ctx.k = k\n"
        "        log.append('fw')\n        return x * k\n    @staticmethod\n    def backward(ctx, g):\n"
        "        log.append('bw')\n        return g * ctx.k, None\np_N = torch.ones(3, requires_grad=True)\n"
        "def f_N(p):\n    BODY\n    return (p * x).sum()".replace("BODY", "p = p * scale"),
        uses=(
            "y_N = Fn_N.apply(p_N, 2.0).sum()\ny_N.backward()",
            "f_N(p_N).backward()\ng_N = p_N.grad.clone()",
            "p_N.grad = None\nf_N(p_N).backward()",
            "with torch.enable_grad(), torch.autograd.graph.save_on_cpu():\n    f_N(p_N).backward()",
            "with torch.autograd.graph.saved_tensors_hooks(lambda t: (log.append('pack'), t)[1], lambda t: t):\n"
            "    y_N = f_N(p_N)\ny_N.backward()",
            "y_N = torch.func.grad(f_N)(p_N.detach())",
            "h_N = torch.autograd.functional.hessian(lambda p: f_N(p) ** 2, p_N.detach())",
            "p_N.requires_grad_(False)\ny_N = f_N(p_N)\np_N.requires_grad_()",
            "loss_N = f_N(p_N) + Fn_N.apply(p_N, 3.0).sum()\nloss_N.backward(retain_graph=True)\nloss_N.backward()",
        ),
        targets=("f_N",),
    ),
    "tensor subclass": _piece(
        # Dynamo calls __torch_function__ when it traces, so it does nothing that could be seen.
        "class T_N(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        return super().__torch_function__(func, types, args, kwargs or {})\n"
        "t_N = torch.ones(3).as_subclass(T_N)\nclass Mode_N(torch.overrides.TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n        counts['mode'] = counts.get('mode', 0) + 1\n"
        "        return func(*args, **(kwargs or {}))",
        uses=(
            "y_N = t_N + 1",
            "y_N = torch.sin(t_N)\nn_N = len(log)",
            "with Mode_N():\n    y_N = x * 2",
            "y_N = t_N.sum().item()",
        ),
    ),
    "process": _piece(
        "db_N = sqlite3.connect(':memory:')\n_ = db_N.execute('create table t (v real)')\nq_N = queue.Queue()\n"
        "path_N = pathlib.Path(tempfile.mkdtemp(), 'out.txt')\nfile_N = open(path_N, 'a')\n" + _FUNCTION,
        uses=(
            "y_N = f_N(x)\n_ = db_N.execute('insert into t values (?)', (float(y_N.sum()),))\n"
            "n_N = db_N.execute('select count(*) from t').fetchone()[0]",
            "q_N.put(f_N(x))\nn_N = q_N.qsize()",
            "y_N = f_N(x)\nwith open(path_N, 'a') as o_N:\n    o_N.write('line')\nn_N = path_N.stat().st_size",
            "os.environ['SESSION_N'] = str(len(os.environ.get('SESSION_N', '')))\ny_N = f_N(x)",
            "y_N = f_N(x)\nfile_N.write('w'); file_N.flush()\nn_N = path_N.read_text()",
            "logging.getLogger('own_N').addHandler(logging.NullHandler())\ny_N = f_N(x)\n"
            "n_N = len(logging.getLogger('own_N').handlers)",
            "here_N = os.getcwd() == os.getcwd()\ny_N = f_N(x)",
            "q_N.put(1)\nk_N = q_N.get()\ny_N = f_N(x)",
            "sys.setrecursionlimit(sys.getrecursionlimit() + 1)\ny_N = f_N(x)",
        ),
        targets=("f_N",),
    ),
    "copies": _piece(
        "net_N = nn.Sequential(nn.Linear(3, 3), nn.ReLU())\n" + _FUNCTION,
        uses=(
            "copy_N = copy.deepcopy(net_N)\ny_N = copy_N(x)",
            "y_N = net_N(x)\ncopy_N = copy.deepcopy(net_N)",
            "data_N = pickle.dumps(net_N)\ny_N = pickle.loads(data_N)(x)",
            "y_N = net_N(x)\nsame_N = len(pickle.dumps(net_N)) == len(pickle.dumps(pickle.loads(pickle.dumps(net_N))))",
            "net_N[0] = nn.Linear(3, 3)\ny_N = net_N(x)",
            "net_N.append(nn.Tanh())\ny_N = net_N(x)",
            "y_N = torch.func.functional_call(net_N, dict(net_N.named_parameters()), (x,))",
            "net_N.load_state_dict(copy.deepcopy(net_N.state_dict()))\ny_N = net_N(x)",
            "net_N.forward = lambda t: t * 2\ny_N = net_N(x)",
            "nn.init.ones_(net_N[0].weight)\ny_N = net_N(x)",
            "nn.utils.parametrizations.weight_norm(net_N[0])\ny_N = net_N(x)",
            "net_N.double(); y_N = net_N(x.double()); net_N.float();",
        ),
        targets=("net_N", "f_N"),
    ),
    "redefined": _piece(
        _FUNCTION,
        uses=(
            "def f_N(x):\n    return x * 3\ny_N = f_N(x)",
            "y_N = f_N(x)\ndef f_N(x):\n    return x - 1\nz_N = f_N(x)",
            "old_N = f_N\nf_N = lambda t: old_N(t) + 1\ny_N = f_N(x)",
            "f_N, g_N = (lambda t: t), f_N\ny_N = f_N(g_N(x))",
            "f_N.__code__ = (lambda x: x * 4).__code__\ny_N = f_N(x)",
            "f_N.__defaults__ = None\ny_N = f_N(x)",
            "for f_N in (helper, torch.sin):\n    y_N = f_N(x)",
            "class f_N(nn.Module):\n    def forward(self, x):\n        return x + 1\ny_N = f_N()(x)",
            "from operator import neg as f_N\ny_N = f_N(x)",
        ),
        targets=("f_N",),
    ),
    "modes": _piece(
        _FUNCTION,
        uses=(
            "torch.set_grad_enabled(False)\ny_N = f_N(x)\ntorch.set_grad_enabled(True);",
            "with torch.autocast('cpu', dtype=torch.bfloat16):\n    y_N = f_N(x)",
            "torch.set_default_dtype(torch.float64)\ny_N = f_N(x)\ntorch.set_default_dtype(torch.float32)",
            "with torch.device('cpu'):\n    y_N = f_N(torch.ones(2, 3))",
            "with torch.inference_mode():\n    y_N = f_N(x)",
            "with torch.compiler.set_stance('force_eager'):\n    y_N = f_N(x)",
            "torch._dynamo.config.cache_size_limit = 4\ny_N = f_N(x)",
            "with torch.autograd.set_detect_anomaly(True):\n    y_N = f_N(x)",
            "np.seterr(all='warn'); np.set_printoptions(precision=3); y_N = f_N(x)",
            "torch.use_deterministic_algorithms(True)\ny_N = f_N(x)\ntorch.use_deterministic_algorithms(False)",
            "torch._dynamo.mark_dynamic(y_N := x.clone(), 0)\nz_N = f_N(y_N)",
        ),
        targets=("f_N",),
    ),
    "numpy": _piece(
        "a_N = np.arange(6.0).reshape(2, 3)\ndef f_N(a):\n    return a * scale + 1\ndef g_N(t):\n    return t.numpy().sum()",
        uses=(
            "y_N = f_N(a_N)",
            "y_N = np.vectorize(lambda v: v * scale)(a_N)",
            "a_N[0] = 5\ny_N = f_N(a_N)",
            "y_N = np.apply_along_axis(lambda r: r * scale, 0, a_N)",
            "y_N = torch.from_numpy(a_N).sum() + np.float32(2)",
            "a_N += 1\nz_N = np.mean(a_N), a_N.T @ a_N",
            "b_N = np.stack([a_N, a_N]); b_N[0, 0, 0] = -1",
        ),
        targets=("f_N",),
    ),
    "frames": _piece(
        "def where_N(x):\n    log.append(sys._getframe().f_code.co_name)\n    return x + 1\nclass Slots_N:\n    __slots__ = ('t',)\n"
        "    def __init__(self, t):\n        self.t = t\n    def go(self):\n        return self.t * 2\nclass Desc_N:\n"
        "    def __get__(self, obj, owner=None):\n        log.append('get')\n        return lambda t: t * 2\n"
        "class Holder_N:\n    call = Desc_N()\n    lazy = functools.cached_property(lambda self: (log.append('lazy'), x * 2)[1])\n"
        "h_N = Holder_N()\ns_N = Slots_N(x)",
        uses=(
            "y_N = s_N.go()",
            "y_N = h_N.call(x)",
            "y_N = h_N.lazy + 1",
            "y_N = Holder_N.call(x)",
            "s_N.t = x * 3\ny_N = s_N.go()",
            "y_N = getattr(h_N, 'call')(x)",
            "h_N.extra = helper\ny_N = h_N.extra(x)",
            "y_N = vars(h_N).setdefault('k', helper(x))",
        ),
    ),
}
