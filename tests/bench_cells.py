"""Cells that change what they find, each in its own way: (name, cells before, the cell)."""

from __future__ import annotations

import ast
import random
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle


def started(setup):
    """Return a notebook in which some cells have run, with all random numbers from the same start."""
    torch.manual_seed(1)
    random.seed(1)
    # Hooks are numbered through the process.
    RemovableHandle.next_id = 0
    namespace: dict[str, Any] = {"__name__": "__main__", "torch": torch}
    run(namespace, setup, "<before>")
    return namespace


def run(namespace, cell, file="<cell>"):
    """Run a cell in a notebook."""
    exec(compile(cell, file, "exec"), namespace)  # noqa: S102 - it is how a notebook runs them


def used_in(cell):
    """Return the names in a cell."""
    return {node.id for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Name)}


_NET = """
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
x, y = torch.randn(16, 4), torch.randn(16, 2)
def loss_of(net):
    return torch.nn.functional.mse_loss(net(x), y)
"""
_STEP = "opt.zero_grad(set_to_none={0})\nloss = loss_of(net)\nloss.backward()\nopt.step()\n"
_WARM = "loss_of(net).backward()\nopt.step()\n"


def _trained(optimizer: str, *, warm: bool, to_none: bool, more: str = "") -> tuple[str, str]:
    before = f"{_NET}opt = torch.optim.{optimizer}\n{more}" + (_WARM if warm else "")
    return before, _STEP.format(to_none)


CELLS: list[tuple[str, str, str]] = [
    ("pure", "x = torch.randn(8)", "y = x.sin() + 1"),
    ("in place", "x = torch.randn(8)", "x.mul_(2).add_(1)"),
    ("in place over NaN", "x = torch.tensor([float('nan'), -0.0, 1.0])", "x.mul_(-1)"),
    ("through a view", "x = torch.randn(4, 4)", "x[1:, ::2].mul_(3)\nx.t()[0] = 7"),
    ("a view that is a name", "x = torch.randn(4, 4)\nv = x[1]", "v.add_(1)"),
    ("out=", "a, b, out = torch.randn(4), torch.randn(4), torch.zeros(4)", "torch.add(a, b, out=out)"),
    ("foreach", "xs = [torch.randn(3) for _ in range(4)]", "torch._foreach_mul_(xs, 2.0)\ntorch._foreach_add_(xs, xs)"),
    ("resize_", "x = torch.randn(4)", "x.resize_(9).fill_(1)"),
    ("resize_ to less", "x = torch.randn(9)", "x.resize_(4).fill_(1)"),
    ("set_", "x, z = torch.randn(4), torch.randn(6)", "x.set_(z)\nx.add_(1)"),
    (
        "x.data=",
        "x = torch.randn(4)\nw = torch.nn.Parameter(torch.randn(3))",
        "x.data = torch.ones(7)\nw.data = torch.zeros(2)",
    ),
    ("x.data.mul_", "w = torch.nn.Parameter(torch.randn(3))", "w.data.mul_(2)"),
    ("transposed in place", "x = torch.randn(3, 5)", "x.t_()\nx.squeeze_()\nx += 1"),
    ("storage", "x = torch.randn(4)", "x.untyped_storage().fill_(1)"),
    ("grad=None", _NET + "loss_of(net).backward()", "for p in net.parameters():\n    p.grad = None"),
    ("grad added to", _NET + "loss_of(net).backward()", "loss_of(net).backward()"),
    ("grad clipped", _NET + "loss_of(net).backward()", "torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)"),
    (
        "index_put",
        "x = torch.zeros(5)",
        "x[torch.tensor([0, 3])] = torch.tensor([1.0, 2.0])\nx.index_add_(0, torch.tensor([1]), torch.ones(1))",
    ),
    ("parameter replaced", _NET, "net[0].weight = torch.nn.Parameter(torch.zeros(8, 4))\nnet[2] = torch.nn.Identity()"),
    ("requires_grad_", _NET, "net.requires_grad_(False)\nx.requires_grad_()"),
    (
        "joins a graph",
        "buf = torch.zeros(3)\nw = torch.randn(3, requires_grad=True)",
        "buf.mul_(w)\nbuf.sum().backward()",
    ),
    ("eval()", _NET, "net.eval()"),
    ("half()", _NET, "net.half()\nnet.register_buffer('seen', torch.ones(1))"),
    ("load_state_dict", _NET + "other = {k: v + 1 for k, v in net.state_dict().items()}", "net.load_state_dict(other)"),
    (
        "LSTM",
        "rnn = torch.nn.LSTM(3, 5)\nx = torch.randn(7, 2, 3)\nhidden = (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5))",
        "out, new = rnn(x, hidden)\nhidden = tuple(h.detach() for h in new)\nout.sum().backward()",
    ),
    ("SGD", *_trained("SGD(net.parameters(), lr=0.1)", warm=False, to_none=True)),
    ("momentum, cold", *_trained("SGD(net.parameters(), lr=0.1, momentum=0.9)", warm=False, to_none=True)),
    ("momentum, warm", *_trained("SGD(net.parameters(), lr=0.1, momentum=0.9)", warm=True, to_none=False)),
    *(
        (
            f"AdamW, {kind}, {'warm' if warm else 'cold'}, {to_none}",
            *_trained(f"AdamW(net.parameters(), {kind})", warm=warm, to_none=to_none),
        )
        for kind in ("foreach=False", "foreach=True", "fused=True")
        for warm in (False, True)
        for to_none in (False, True)
    ),
    (
        "LBFGS",
        _NET + "opt = torch.optim.LBFGS(net.parameters(), max_iter=3)\ndef again():\n    opt.zero_grad()\n"
        "    loss = loss_of(net)\n    loss.backward()\n    return loss\nopt.step(again)",
        "opt.step(again)",
    ),
    (
        "StepLR",
        *(
            part + "plan.step()\n" * n
            for n, part in enumerate(
                _trained(
                    "SGD(net.parameters(), lr=0.1)",
                    warm=False,
                    to_none=True,
                    more="plan = torch.optim.lr_scheduler.StepLR(opt, 1)\n",
                )
            )
        ),
    ),
    (
        "GradScaler",
        _NET
        + "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nscaler = torch.amp.GradScaler('cpu', growth_interval=1)",
        "opt.zero_grad()\nscaler.scale(loss_of(net)).backward()\nscaler.step(opt)\nscaler.update()",
    ),
    (
        "EMA",
        _NET + "from torch.optim.swa_utils import AveragedModel\nema = AveragedModel(net)\nema.update_parameters(net)",
        "ema.update_parameters(net)\nwith torch.no_grad():\n    for p in net.parameters():\n"
        "        p.lerp_(torch.ones_like(p), 0.1)",
    ),
    ("BatchNorm", "bn = torch.nn.BatchNorm2d(3)\nx = torch.randn(2, 3, 4, 4)", "z = bn(x)"),
    ("Dropout", "drop = torch.nn.Dropout(0.5)\nx = torch.ones(32)", "z = drop(x)"),
    (
        "own buffer",
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.hidden = torch.zeros(2)\n        self.calls = 0\n    def forward(self, x):\n"
        "        self.calls += 1\n        self.hidden = self.hidden + x\n"
        "        return self.hidden\nnet = Net()\nx = torch.ones(2)",
        "z = net(x)",
    ),
    ("step counter", "step = 0\nlosses = {}", "step += 1\nlosses[step] = step / 2"),
    ("list appended", "log = [[1], 2]", "log.append(3)\nlog[0].append(4)\ndel log[1]"),
    (
        "dict reordered",
        "d = {'a': 1, 'b': 2}\nfrom collections import OrderedDict\no = OrderedDict(a=1, b=2)",
        "d['a'] = d.pop('a')\no.move_to_end('a')",
    ),
    ("deque", "from collections import deque\nlast = deque([1, 2, 3], maxlen=3)", "last.append(4)"),
    ("set", "seen = {1, 2}", "seen.add(3)\nseen.discard(1)"),
    ("bytearray", "raw = bytearray(b'abc')", "raw[0] = 0\nraw.append(1)"),
    (
        "class counter",
        "class Counter:\n    made = 0\n    def __init__(self):\n        Counter.made += 1\nc = Counter()",
        "c = Counter()\nCounter.extra = 1",
    ),
    ("slots", "class Point:\n    __slots__ = ('x', 'y')\np = Point()\np.x = 1", "p.x += 1\np.y = 2"),
    (
        "dataclass",
        "import dataclasses\n@dataclasses.dataclass\nclass State:\n    n: int = 0\n"
        "    w: object = None\ns = State(0, torch.zeros(2))",
        "s.n += 1\ns.w += 1",
    ),
    (
        "nonlocal",
        "def outer():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n"
        "        return n\n    return count\ncount = outer()",
        "k = count()",
    ),
    ("mutable default", "def remember(x, seen=[]):\n    seen.append(x)\n    return len(seen)", "k = remember(1)"),
    ("function attribute", "def f():\n    f.calls += 1\nf.calls = 0", "f()"),
    (
        "global write",
        "total = 0\ncache = {}\ndef add(n):\n    global total\n    total += n\n    cache[n] = total",
        "add(3)",
    ),
    ("partial", "import functools\nbag = []\nput = functools.partial(list.append, bag)", "put(1)"),
    ("bound method of a list", "bag = []\nput = bag.append", "put(torch.ones(1))"),
    (
        "cached property",
        "import functools\nclass Lazy:\n    @functools.cached_property\n    def value(self):\n"
        "        return 3\nlazy = Lazy()",
        "k = lazy.value",
    ),
    ("names deleted and bound", "a, b = 1, 2", "del a\nb = 3\nc = 4"),
    ("torch RNG", "torch.manual_seed(3)", "a = torch.rand(3)"),
    ("torch.Generator", "g = torch.Generator().manual_seed(5)", "a = torch.rand(3, generator=g)"),
    ("random", "import random\nrandom.seed(4)", "a = random.random()"),
    ("random.Random", "import random\nr = random.Random(4)", "a = r.random()"),
    ("seeded inside", "import random", "torch.manual_seed(0)\nrandom.seed(0)\na = torch.rand(2)"),
    ("grad mode", "x = torch.ones(2)", "torch.set_grad_enabled(False)"),
    ("sparse", "s = torch.eye(3).to_sparse()", "s.mul_(2)"),
    ("sparse grown", "s = torch.eye(3).to_sparse()", "s.add_(torch.ones(3, 3).to_sparse())"),
    ("csr", "s = torch.eye(3).to_sparse_csr()", "s.values().mul_(2)"),
    ("complex, conjugate", "z = torch.randn(3, dtype=torch.complex64)\nc = z.conj()", "c.mul_(2j)"),
    ("quarter of a byte array", "q = torch.randint(0, 255, (3,), dtype=torch.uint8)", "q ^= 255"),
    ("tensor attribute", "x = torch.ones(2)", "x.note = 'seen'"),
    (
        "in nested containers",
        "state = {'a': [(torch.zeros(2), {'b': torch.zeros(3)})]}",
        "state['a'][0][0].add_(1)\nstate['a'][0][1]['b'] = torch.ones(1)",
    ),
    ("under inference mode", "x = torch.zeros(3)", "with torch.inference_mode():\n    x.add_(1)"),
    (
        "inference tensor",
        "with torch.inference_mode():\n    x = torch.zeros(3)",
        "with torch.inference_mode():\n    x.add_(1)",
    ),
    (
        "cond",
        "x = torch.ones(3)\nlog = []",
        "z = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))\nx.add_(z)",
    ),
    (
        "double backward",
        _NET,
        "g = torch.autograd.grad(loss_of(net), list(net.parameters()), create_graph=True)\n"
        "sum(t.pow(2).sum() for t in g).backward()",
    ),
    (
        "checkpoint",
        _NET + "from torch.utils.checkpoint import checkpoint",
        "checkpoint(net, x, use_reentrant=False).sum().backward()",
    ),
    (
        "retained graph from before",
        "w = torch.randn(3, requires_grad=True)\nloss = (w * w).sum()",
        "loss.backward(retain_graph=True)",
    ),
    (
        "non-leaf under no_grad",
        "w = torch.randn(3, requires_grad=True)\nh = w * 2",
        "with torch.no_grad():\n    h.add_(1)",
    ),
    ("jit", "bump = torch.jit.trace(lambda x: x.add_(1), torch.zeros(2))\nx = torch.zeros(2)", "z = bump(x)"),
    (
        "hook that counts",
        _NET + "calls = []\nhandle = net.register_forward_hook(lambda *a: calls.append(1))",
        "z = net(x)",
    ),
    ("hook added and taken off", _NET, "handle = net[0].register_forward_hook(lambda *a: None)\nz = net(x)"),
    (
        "trainer",
        (
            "class T:\n    def __init__(self):\n        self.m=torch.nn.Linear(2,2)\n"
            "        self.o=torch.optim.Adam(self.m.parameters())\n        self.h=[]\n"
            "        self.best=None\n    def step(self,x):\n        self.o.zero_grad()\n"
            "        l=self.m(x).sum()\n        l.backward()\n        self.o.step()\n"
            "        self.h.append(float(l))\n"
            "        self.best={k:v.clone() for k,v in self.m.state_dict().items()}\nt=T()\n"
            "x=torch.ones(1,2)"
        ),
        "t.step(x)",
    ),
    (
        "late register_buffer",
        (
            "class M(torch.nn.Module):\n    def forward(self,x):\n"
            "        if not hasattr(self,'k'): self.register_buffer('k', torch.zeros(2))\n"
            "        self.k.add_(x)\n        return self.k\nm=M()\nx=torch.ones(2)"
        ),
        "z=m(x)",
    ),
    (
        "tied",
        (
            "a=torch.nn.Linear(3,3)\nb=torch.nn.Linear(3,3)\nb.weight=a.weight\n"
            "m=torch.nn.Sequential(a,b)\no=torch.optim.SGD(m.parameters(),.1)"
        ),
        "o.zero_grad()\nm(torch.ones(1,3)).sum().backward()\no.step()",
    ),
    (
        "onecycle tensor lr",
        (
            "m=torch.nn.Linear(2,2)\no=torch.optim.Adam(m.parameters(),lr=torch.tensor(.1))\n"
            "s=torch.optim.lr_scheduler.OneCycleLR(o,max_lr=.2,total_steps=50)"
        ),
        "o.zero_grad()\nm(torch.ones(1,2)).sum().backward()\no.step()\ns.step()",
    ),
    (
        "dict subclass",
        (
            "class D(dict):\n    def __setitem__(self,k,v): raise ValueError\n"
            "    def clear(self): raise ValueError\nd=D(a=1)"
        ),
        "dict.__setitem__(d,'b',2)\ndict.pop(d,'a')",
    ),
    (
        "counter",
        "from collections import Counter, defaultdict\nc=Counter('aab')\nd=defaultdict(list)",
        "c.update('b')\nd['x'].append(1)",
    ),
    ("subclass tensor", "class S(torch.Tensor):\n    pass\ns=torch.ones(3).as_subclass(S)", "s.add_(1)"),
    ("swap_tensors", "a,b=torch.ones(2),torch.zeros(3)", "torch.utils.swap_tensors(a,b)"),
    ("quantized", "q=torch.quantize_per_tensor(torch.ones(3),.1,0,torch.quint8)", "q.copy_(torch.zeros(3))"),
    (
        "add_param_group",
        "m=torch.nn.Linear(2,2)\nn=torch.nn.Linear(2,2)\no=torch.optim.SGD(m.parameters(),.1)",
        "o.add_param_group({'params': list(n.parameters())})",
    ),
    (
        "module deleted",
        "m=torch.nn.Sequential(torch.nn.Linear(2,2),torch.nn.ReLU())",
        "del m[1]\nm.append(torch.nn.Tanh())\nm.train(False)",
    ),
    ("to double", "m=torch.nn.Linear(2,2)\nx=torch.ones(1,2)", "m.double()\nz=m(x.double())\nz.sum().backward()"),
    (
        "weight norm",
        ("m=torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2,2))\no=torch.optim.SGD(m.parameters(),.1)"),
        "o.zero_grad()\nm(torch.ones(1,2)).sum().backward()\no.step()",
    ),
    (
        "spectral norm",
        "m=torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4,4))\nx=torch.ones(1,4)",
        "m(x).sum().backward()",
    ),
    (
        "prune",
        "import torch.nn.utils.prune as prune\nm=torch.nn.Linear(4,4)",
        "prune.l1_unstructured(m,'weight',amount=.5)",
    ),
    (
        "custom autograd",
        (
            "class F(torch.autograd.Function):\n    n=0\n    @staticmethod\n    def forward(c,x):\n"
            "        F.n+=1\n        return x*2\n    @staticmethod\n    def backward(c,g): return g*2\n"
            "w=torch.ones(2,requires_grad=True)"
        ),
        "F.apply(w).sum().backward()",
    ),
    (
        "functional_call/vmap/grad",
        ("m=torch.nn.Linear(2,2)\nx=torch.ones(3,2)\nfrom torch.func import functional_call, grad, vmap"),
        (
            "p=dict(m.named_parameters())\n"
            "g=vmap(grad(lambda q,v: functional_call(m,q,(v,)).sum()),in_dims=(None,0))(p,x)"
        ),
    ),
    (
        "enum/property/static",
        (
            "import enum\nclass E(enum.Enum):\n    A=1\nclass K:\n    reg={}\n    @staticmethod\n"
            "    def put(k): K.reg[k]=1\n    @classmethod\n"
            "    def inc(cls): cls.n=getattr(cls,'n',0)+1\nk=K()"
        ),
        "K.put(E.A)\nk.inc()",
    ),
    (
        "closure chain",
        (
            "def make():\n    st={'n':0,'t':torch.zeros(2)}\n    def g():\n        st['n']+=1\n"
            "        st['t']+=1\n    def f(): g()\n    return f\nf=make()"
        ),
        "f()",
    ),
    (
        "decorated",
        (
            "import functools\ncalls=[]\ndef deco(fn):\n    @functools.wraps(fn)\n    def w(*a):\n"
            "        calls.append(1)\n        return fn(*a)\n    return w\n@deco\n@torch.no_grad()\n"
            "def f(x):\n    return x.add_(1)\nx=torch.zeros(1)"
        ),
        "z=f(x)",
    ),
    ("queue", "import queue\nq=queue.Queue()\nq.put(1)", "q.get()\nq.put(2)\nq.put(3)"),
    (
        "autocast",
        "m=torch.nn.Linear(4,4)\nx=torch.ones(2,4)",
        "with torch.autocast('cpu',dtype=torch.bfloat16):\n    l=m(x).sum()\nl.backward()",
    ),
]
