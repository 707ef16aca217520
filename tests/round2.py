"""Cells that broke the promise once, each with its neighbours: what a plain run leaves is what is right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions.grammar import Cell
from sessions.grammar import Session
from sessions.grammar import Statement

FILE = Path(__file__).with_name("cases") / "round2.jsonl"
DRIVERS = {"%%compile_explain": "explained", "%%compile_bench": "benched", "%compile_watch": "watched"}
X = "import torch\nx = torch.ones(3)\n"
EXPLAIN = "%%compile_explain -q"
BENCH = "%%compile_bench --backends eager --budget 0.01 -q"


@dataclass(frozen=True)
class Case:
    """Cells before, the cell, what stands on the magic's line, and cells afterwards."""

    setup: tuple[str, ...]
    cell: str
    first: str = EXPLAIN
    after: tuple[str, ...] = ()

    @property
    def session(self) -> Session:
        """The cells in order, the tried one under its magic."""
        watched = self.first.startswith("%compile_watch")
        driver = DRIVERS[self.first.split()[0]]
        cells = [_cell(each) for each in self.setup]
        cells += [_cell(self.cell, "-" if watched else self.first), *(_cell(each) for each in self.after)]
        return Session(tuple(cells), driver)


def _cell(text: str, first: str = "") -> Cell:
    return Cell((Statement("case", text),), first)


def _setup(read: Mapping[str, Any]) -> tuple[str, ...]:
    # The files of a case stand in a folder of its own, which its first cell writes.
    files = {name.removeprefix("site-packages/"): text for name, text in (read.get("files") or {}).items()}
    if not files:
        return tuple(read["setup"])
    write = (
        "import pathlib, tempfile\nSITE = tempfile.mkdtemp()\n"
        f"for name, text in {files!r}.items():\n    path = pathlib.Path(SITE, name)\n"
        "    path.parent.mkdir(parents=True, exist_ok=True)\n    path.write_text(text)\n"
        "del pathlib, tempfile, name, text, path"
    )
    return (write, *read["setup"])


def _flags(read: Mapping[str, Any]) -> str:
    flags, driver = read.get("flags") or "", read["driver"]
    if driver == "%%compile_bench":
        # How long it is timed is no matter here.
        flags = re.sub(r"--budget \S+", "", flags) + " --budget 0.01"
    if driver == "%%compile_bench" and "--backends" not in flags:
        flags += " --backends aot_eager"
    return " ".join(f"{driver} {flags}".split())


def cases() -> dict[str, Case]:
    """Return the cases of the file that can be run on a CPU, by their ids."""
    read = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return {
        each["id"]: Case(_setup(each), each["cell"], _flags(each), tuple(each.get("after") or ()))
        for each in read
        if each["driver"] in DRIVERS and not each.get("gpu_only") and not each.get("prose")
    }


def _of_cells(setup: str, cells: Mapping[str, str], *after: str, first: str = EXPLAIN) -> dict[str, Case]:
    return {name: Case((X + setup,), cell, first, after) for name, cell in cells.items()}


def _of_setups(setups: Mapping[str, str], cell: str, *after: str, first: str = EXPLAIN) -> dict[str, Case]:
    return {name: Case((X + setup,), cell, first, after) for name, setup in setups.items()}


_READS = "level = 1.0\ndef scale(t):\n    return t * level\n"
CALLBACKS = _of_cells(
    _READS,
    {
        "sorted": "level = -1.0\ny = sorted([x, -x, 2 * x], key=lambda t: scale(t).sum().item())",
        "reduce": "import functools\nlevel = 3.0\ny = functools.reduce(lambda a, b: a + scale(b), [x, x])",
        "apply_": "level = 4.0\ny = x.clone().apply_(lambda v: v * level)",
        "checkpoint": "from torch.utils.checkpoint import checkpoint\nlevel = 5.0\n"
        "y = checkpoint(scale, x, use_reentrant=False)",
        "defaultdict": "import collections\nlevel = 6.0\ny = collections.defaultdict(lambda: scale(x))['k']",
        "vmap": "level = 7.0\ny = torch.vmap(scale)(x)",
        "filter": "level = -2.0\ny = list(filter(lambda t: scale(t).sum() > 0, [x, -x]))",
        "a loop's variable": "for level in (1.0, 2.0):\n    y = list(map(scale, [x]))",
        "deleted and bound": "del level\nlevel = 9.0\ny = list(map(scale, [x]))",
        "deleted": "del level\ntry:\n    y = list(map(scale, [x]))\nexcept NameError as e:\n    y = str(e)",
    },
)
REACHED = _of_setups(
    {
        "a property": "class K:\n    @property\n    def p(self):\n        return x * level\nread = lambda k: k.p\nk = K()\n",
        "an operator": "class K:\n    def __add__(self, o):\n        return x * level + o\nk = K()\nread = lambda k: k + 1\n",
        "an item": "class K:\n    def __getitem__(self, i):\n        return x * level\nk = K()\nread = lambda k: k[0]\n",
        "an iterator": "class K:\n    def __iter__(self):\n        yield x * level\nk = K()\nread = lambda k: next(iter(k))\n",
        "a hook": "k = torch.nn.Identity()\nk.register_forward_hook(lambda m, a, o: o * level)\nread = lambda k: k(x)\n",
        "a context": "class K:\n    def __enter__(self):\n        return x * level\n    def __exit__(self, *a):\n        pass\n"
        "k = K()\ndef read(k):\n    with k as y:\n        return y\n",
        "a descriptor": "class D:\n    def __get__(self, o, t=None):\n        return x * level\nclass K:\n    d = D()\nk = K()\n"
        "read = lambda k: k.d\n",
    },
    "level = 10.0\ny = list(map(read, [k]))\nz = read(k)",
)
BARE = {
    name: Case((X + setup,), cell)
    for name, (setup, cell) in {
        "a bare property": (
            "class K:\n    @property\n    def p(self):\n        return x * level\nk = K()\nlevel = 1.0",
            "level = 10.0\ny = k.p",
        ),
        "a bare operator": (
            "class K:\n    def __mul__(self, o):\n        return x * level * o\nk = K()\nlevel = 1.0",
            "level = 10.0\ny = k * 2",
        ),
        "a bare item": (
            "class K:\n    def __getitem__(self, i):\n        return x * level\nk = K()\nlevel = 1.0",
            "level = 10.0\ny = k[0]",
        ),
        "a bare comparison": (
            "class K:\n    def __lt__(self, o):\n        return level > 5\nk = K()\nlevel = 1.0",
            "level = 10.0\ny = k < 2",
        ),
        "a bare hook of a tensor": (
            "w = torch.ones(3, requires_grad=True)\nw.register_hook(lambda g: g * level)\nlevel = 1.0",
            "level = 10.0\n(w * x).sum().backward()\ng = w.grad.clone()",
        ),
        "a bare subclass": (
            "class T(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
            "        seen.append(level)\n        return super().__torch_function__(f, types, args, kwargs or {})\n"
            "t = torch.ones(3).as_subclass(T)\nseen = []\nlevel = 1.0",
            "level = 10.0\ny = t + 1",
        ),
        "a data set": (
            "class D(torch.utils.data.Dataset):\n    def __len__(self):\n        return 2\n    def __getitem__(self, i):\n"
            "        return torch.full((2,), i * level)\nloader = torch.utils.data.DataLoader(D(), batch_size=2)\nlevel = 1.0",
            "level = 10.0\ny = [b for b in loader]",
        ),
        "a format": (
            "class K:\n    def __format__(self, spec):\n        return str(level)\nk = K()\nlevel = 1.0",
            "level = 10.0\ny = f'{k}'",
        ),
    }.items()
}
FRAMES = {
    name: Case(("import torch, pandas as pd\ndf = pd.DataFrame({'a': [1, 5, 9]})\nlevel = 1",), cell)
    for name, cell in {
        "eval @": "level = 4\nbig = df.eval('a > @level')",
        "map": "level = 4\nbig = df['a'].map(lambda v: v * level)",
        "apply": "level = 4\nbig = df.apply(lambda r: r * level, axis=1)",
        "groupby": "level = 4\nbig = df.groupby(lambda i: i > level - 3).sum()",
        "assign": "level = 4\nbig = df.assign(b=lambda d: d.a * level)",
        "pipe": "level = 4\nbig = df.pipe(lambda d: d * level)",
    }.items()
}
DISPLAYS = {
    f"{mode}: {name}": Case((X, f"get_ipython().ast_node_interactivity = {mode!r}"), cell, first)
    for mode in ("all", "last_expr_or_assign", "none")
    for name, (cell, first) in {
        "by itself": ("x * 2\n1 + 1\ny = x + 1", EXPLAIN),
        "--cell": ("x * 2\n1 + 1\ny = x + 1\ny.sum();", "%%compile_explain --cell -q"),
        "a function": ("def f(t):\n    return t + 1\nf(x)\nf(x);\ny = f(x)", EXPLAIN),
        "benched": ("x * 2\n1 + 1\ny = x + 1", BENCH),
    }.items()
}
NAMES = {
    f"{name}{' --cell' if '--cell' in first else ''}": Case((X + "n = 1\ndef f(t):\n    return t * n",), cell, first)
    for first in (EXPLAIN, "%%compile_explain --cell -q")
    for name, cell in {
        "annotated": "k: int = 3\ny = x * k\nq = list(__annotations__)",
        "annotated only": "k: float\ny = x + 1\nq = dict(__annotations__)",
        "annotated attribute": "class K:\n    pass\nK.a: int = 2\ny = x * K.a",
        "del": "z = x + 1\ny = z * 2\ndel z",
        "walrus": "y = (w := x + 1) * w\nq = [v := k for k in range(3)]",
        "globals()": "n = 5\nq = globals()['n']\ny = f(x)",
        # As one function a cell can't have exec, and the magic says so.
        **({} if "--cell" in first else {"exec": "exec('n = 7')\ny = f(x)"}),
        "star": "from math import *\ny = x * pi",
        "class": "class K:\n    v = x + 1\n    def get(self):\n        return self.v * n\nn = 4\ny = K().get()",
        "late function": "n = 3\ndef g(t):\n    return t * n\nn = 6\ny = g(x)",
        "_": "x * 3\ny = _ if '_' in globals() else 0",
        "an error half way": "n = 8\ny = x + 1\nx @ torch.ones(7)\nz = 1",
    }.items()
}
_BRANCHY = {
    "a branch": "    if t.sum() > 0:\n        t = t + 1\n",
    "item": "    t = t * t.sum().item()\n",
    "print": "    print('in')\n",
    "disabled": "    t = off(t)\n",
    "nonzero": "    t = t * t.nonzero().sum()\n",
    "no break": "    t = t + 1\n",
    "random": "    t = t * random.random()\n",
}
OWN = {
    f"{how} {name}": Case(
        (
            f"import random\n{X}@torch.compiler.disable\ndef off(t):\n    return t * 2\n"
            f"@torch.compile(backend='eager')\ndef own(t):\n{body}    return t * 3\n"
            "def step(t):\n    return own(t) + 1\nrandom.seed(3)",
        ),
        "y = step(x)",
        first,
        ("z = step(x)", "w = own(x)", "v = own(torch.ones(5))"),
    )
    for how, first in {"explained": EXPLAIN, "benched": BENCH, "watched": "%compile_watch"}.items()
    for name, body in _BRANCHY.items()
}
_MODULE = (
    "class M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = torch.nn.Linear(3, 3)\n"
    "        self.register_buffer('n', torch.zeros(()))\n    def forward(self, t):\n        self.n += 1\n        return self.l(t)\n"
    "net = M()\n"
)
OWN |= {
    f"its own module, {name}": Case(
        (X + _MODULE + more,), "y = x.clone()\ny = netc(x).detach() + y", first, ("z = netc(x)",)
    )
    for name, (more, first) in {
        "wrapped": ("netc = torch.compile(net, backend='eager')", "%%compile_explain net --fullgraph -q"),
        "with a hook": (
            "net.register_forward_hook(lambda m, a, o: o + 1)\nnetc = torch.compile(net, backend='eager')",
            "%%compile_explain net -q",
        ),
        "in place": ("net.compile(backend='eager')\nnetc = net", EXPLAIN),
        "its part": ("net.l.compile(backend='eager')\nnetc = net", EXPLAIN),
        "warm": ("netc = torch.compile(net, backend='eager')\nnetc(x)", "%%compile_explain net -q"),
        "benched": ("netc = torch.compile(net, backend='eager')", BENCH),
    }.items()
}
_CONTAINERS = {
    "dataclass": "B(x)",
    "OrderedDict": "collections.OrderedDict(x=x)",
    "defaultdict": "collections.defaultdict(int, x=x)",
    "UserDict": "collections.UserDict(x=x)",
    "deque": "collections.deque([x])",
    "subclass of dict": "D(x=x)",
    "subclass of list": "L([x])",
    "namespace": "types.SimpleNamespace(x=x)",
}
OWN |= {
    f"{name} after an explain{' --fresh' if '--fresh' in first else ''}": Case(
        (
            f"import collections, dataclasses, types\nfrom torch._dynamo.testing import CompileCounter\n{X}"
            "@dataclasses.dataclass\nclass B:\n    x: torch.Tensor\nclass D(dict):\n    pass\nclass L(list):\n    pass\n"
            "def first(b):\n    if isinstance(b, (collections.deque, list)):\n        return b[0]\n"
            "    return b['x'] if hasattr(b, 'keys') else b.x\n"
            "def loss(b):\n    return first(b).sum()\ncnt = CompileCounter()\nfast = torch.compile(loss, backend=cnt, fullgraph=True)",
            f"b = {made}",
        ),
        "y = loss(b)",
        first,
        ("z = fast(b)\nn = int(cnt.frame_count), int(cnt.op_count)\ncnt = fast = None",),
    )
    for first in (EXPLAIN, "%%compile_explain --fresh -q")
    for name, made in list(_CONTAINERS.items())[: 3 if "--fresh" in first else None]
}
_WRITTEN = {
    "a lambda": "y = torch.compile(lambda t: t * 3, backend='eager')(x)",
    "a function of the cell": "z = 1\ndef h(t):\n    return t * 3\ny = torch.compile(h, backend='eager')(x)",
    "a definition at the head": "def h(t):\n    return t * 3\ny = torch.compile(h, backend='eager')(x)",
    "reset before": "torch._dynamo.reset()\ny = warm(x)",
    "reset after": "y = warm(x)\ntorch._dynamo.reset()",
}
OWN |= {
    f"of the cell's own code, {name}": Case(
        (
            f"{X}def g(t):\n    return t * 2\nwarm = torch.compile(g, backend='eager')\n"
            "_ = torch.compile(lambda t: t + 1, backend='eager')(x), warm(x)",
        ),
        cell,
        BENCH,
        ("z = warm(x)",),
    )
    for name, cell in _WRITTEN.items()
}
_LIN = "torch.manual_seed(0)\nlin = torch.nn.Linear(3, 1)\nhits = []\n"
BENCHED = _of_setups(
    {
        "a step in a post-accumulate hook": "opts = {p: torch.optim.SGD([p], lr=0.1) for p in lin.parameters()}\n"
        "def hook(p):\n    opts[p].step()\n    opts[p].zero_grad()\n"
        "for p in lin.parameters():\n    p.register_post_accumulate_grad_hook(hook)\n",
        "a list in a tensor hook": "lin.weight.register_hook(lambda g: hits.append(1))\n",
        "a module's backward hook": "lin.register_full_backward_hook(lambda m, i, o: hits.append(len(o)))\n",
        "a module's forward hook": "lin.register_forward_hook(lambda m, a, o: hits.append(tuple(o.shape)))\n",
        "a global module hook": "torch.nn.modules.module.register_module_forward_hook(lambda m, a, o: hits.append('g'))\n",
        "a closure of a hook": "def make():\n    n = [0]\n    def hook(g):\n        n[0] += 1\n        hits.append(n[0])\n"
        "    return hook\nlin.weight.register_hook(make())\n",
        "a bound method as a hook": "class Meter:\n    n = 0\n    def __call__(self, g):\n        self.n += 1\nmeter = Meter()\n"
        "lin.weight.register_hook(meter)\n",
    },
    "y = lin(x).sum()\ny.backward()",
    "n = len(hits)",
    first=BENCH,
)
_LIBRARY = """import tempfile, pathlib, sys
folder = tempfile.mkdtemp()
pathlib.Path(folder, 'kept_state.py').write_text('''calls, seen = 0, []
class Meter:
    total = 0
    def add(self, t):
        Meter.total += 1
        return t * 2
def scaled(t):
    global calls
    calls += 1
    return t * calls
def noted(t):
    seen.append(1)
    return t + 1
''')
sys.path.insert(0, folder)
import kept_state
sys.path.remove(folder)
meter = kept_state.Meter()
def f(t):
    return t * 2 + 1
"""
BENCHED |= {
    name: Case((X + _LIBRARY,), cell, BENCH, ("left = kept_state.calls, len(kept_state.seen), kept_state.Meter.total",))
    for name, cell in {
        "a counter of a package": "y = kept_state.scaled(x)",
        "a list of a package": "y = kept_state.noted(x)",
        "a counter of a class": "y = meter.add(x)",
        "all of them in a function": "def g(t):\n    return kept_state.noted(kept_state.scaled(meter.add(t)))\ny = g(x)",
        "set by the cell": "kept_state.calls = 7\ny = kept_state.scaled(x)",
    }.items()
}
BENCHED |= {
    name: Case((X + "def f(t):\n    return t + 1\n" + setup,), cell, BENCH, after)
    for name, (setup, cell, after) in {
        "showwarning": (
            "import warnings\nshown = []\nwarnings.showwarning = lambda *a, **k: shown.append(str(a[0]))",
            "warnings.warn('w')\ny = f(x)",
            ("n = len(shown)",),
        ),
        "gc callbacks": (
            "import gc\nn = 0\ndef count(phase, info):\n    global n\n    n = 1",
            "gc.callbacks.append(count)\ngc.collect()\ny = f(x)\ngc.callbacks.remove(count)",
            ("n",),
        ),
        "a pipe": (
            "import multiprocessing\na, b = multiprocessing.Pipe()",
            "b.send(1)\nk = a.recv()\ny = f(x)",
            ("more = a.poll()",),
        ),
        "a queue": ("import queue\nq = queue.Queue()", "q.put(1)\nk = q.get()\ny = f(x)", ("n = q.qsize()",)),
        "a queue that was filled": (
            "import queue\nq = queue.Queue()\nq.put(1)",
            "k = q.get()\ny = f(x)",
            ("n = q.qsize()",),
        ),
        "an event": (
            "import threading\ne = threading.Event()",
            "e.set()\nk = e.wait(1)\ny = f(x)",
            ("n = e.is_set()",),
        ),
        "sqlite in memory": (
            "import sqlite3\ndb = sqlite3.connect(':memory:')\n_ = db.execute('create table t (v real)')",
            "y = f(x)\n_ = db.execute('insert into t values (1)')",
            ("n = db.execute('select count(*) from t').fetchone()[0]",),
        ),
        "a data frame": (
            "import pandas as pd\ndf = pd.DataFrame({'a': [1.0, 2.0]})",
            "df.loc[len(df)] = [3.0]\ny = f(x)",
            ("n = len(df)",),
        ),
        "a plot": (
            "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt",
            "y = f(x)\n_ = plt.figure()\n_ = plt.plot(y.numpy())\nlines = len(plt.gca().lines)",
            ("figs = plt.get_fignums()",),
        ),
        "a logger's handlers": (
            "import logging\nlogger = logging.getLogger('users.own')",
            "logger.addHandler(logging.NullHandler())\ny = f(x)",
            ("n = len(logger.handlers)",),
        ),
        "a cache that walks on": (
            "k = torch.zeros(4, 3)\npos = [0]\ndef decode(t):\n    k[pos[0]] = t\n    pos[0] += 1\n    return k[:pos[0]].sum(0)",
            "y = decode(x)",
            ("p = pos[0]",),
        ),
    }.items()
}
_DEPTH = (
    "def depth(e):\n    tb, n = e.__traceback__, 0\n    while tb is not None:\n        tb, n = tb.tb_next, n + 1\n"
    "    return n, type(e.__cause__), type(e.__context__), e.__suppress_context__, list(getattr(e, '__notes__', ()))\n"
)
BENCHED |= {
    f"a kept exception, {name}": Case(
        (X + _DEPTH + f"kept = ValueError('kept')\nheld = [kept]\ndef f(t):\n    {body}\n    return t + 1\n" + setup,),
        "y = f(x)",
        BENCH,
        ("left = depth(kept)",),
    )
    for name, (setup, body) in {
        "raised": ("", "raise kept"),
        "raised by its class's method": ("", "raise held[0].with_traceback(held[0].__traceback__)"),
        "caught": ("", "try:\n        raise kept\n    except ValueError:\n        t = t * 2"),
        "raised before": (
            "try:\n    raise kept\nexcept ValueError:\n    pass\n",
            "try:\n        raise kept\n    except ValueError:\n        t = t * 2",
        ),
        "given a cause": ("", "try:\n        raise kept from KeyError('k')\n    except ValueError:\n        t = t * 2"),
        "given a context": (
            "",
            "try:\n        try:\n            1 / 0\n        except ZeroDivisionError:\n            raise kept\n"
            "    except ValueError:\n        t = t * 2",
        ),
        "given a note": ("", "kept.__notes__ = [*getattr(kept, '__notes__', ()), 'n']"),
    }.items()
}
_UNRAISED = {
    "from a call": "raise KeyError('k') from ValueError('v')",
    "from a kept error": "raise KeyError('k') from kept",
    "from None": "raise KeyError('k') from None",
    "from a class": "raise KeyError('k') from ValueError",
    "context": "try:\n        1 / 0\n    except ZeroDivisionError:\n        raise KeyError('k')",
    "a chain of causes": "e = ValueError('a')\n    e.__cause__ = TypeError('b')\n    raise KeyError('k') from e",
    "no traceback": "raise KeyError('k').with_traceback(None)",
    "a cycle": "e = ValueError('a')\n    e.__cause__ = e\n    raise KeyError('k') from e",
    "a group": "import sys\n    raise (ExceptionGroup('g', [ValueError('a'), KeyError('b')]) "
    "if sys.version_info > (3, 11) else ValueError('a'))",
    "after a break": "print('here')\n    raise KeyError('k') from ValueError('v')",
    "a closure across a break": "d = lambda v: v * 2\n    print('a')\n    return d(t).view(7, 7)",
    "an assertion": "assert t.sum() > 1e6, 'small'",
}
ERRORS = {
    f"{name}, {how}": Case((X + f"kept = LookupError('kept')\ndef f(t):\n    t = t + 1\n    {body}",), cell, first)
    for how, (cell, first) in {
        "explained": ("y = f(x)", EXPLAIN),
        "named": ("y = f(x)", "%%compile_explain f -q"),
        "--cell": ("y = f(x)", "%%compile_explain --cell -q"),
        "benched": ("y = f(x)", BENCH),
        "caught": ("try:\n    f(x)\nexcept BaseException as e:\n    got = e", EXPLAIN),
    }.items()
    for name, body in list(_UNRAISED.items())[: None if how in ("explained", "--cell") else 5]
}
_GO = "    def go(self, t):\n        return t\n"
_HOSTILE = {
    "a half-made module": "class B(torch.nn.Module):\n    def __init__(self):\n        pass\n",
    "a half-made optimizer": "class B(torch.optim.Optimizer):\n    def __init__(self):\n        pass\n",
    "__getattr__ that raises": "class B:\n    def __getattr__(self, n):\n        raise ValueError('ga ' + n)\n",
    "__getattribute__ that notes": "class B:\n    def __getattribute__(self, n):\n        seen.append(n)\n"
    "        return object.__getattribute__(self, n)\n",
    "__class__ that lies": "class B:\n    @property\n    def __class__(self):\n        seen.append('class')\n        return dict\n",
    "comparisons that raise": "class B:\n    def __eq__(self, o):\n        raise RuntimeError('eq')\n    __hash__ = None\n"
    "    def __bool__(self):\n        raise RuntimeError('bool')\n    def __repr__(self):\n        raise RuntimeError('repr')\n",
    "a mapping that raises": "class B(dict):\n    def items(self):\n        raise RuntimeError('items')\n",
    "a metaclass that notes": "class Meta(type):\n    def __getattribute__(c, n):\n        seen.append(n)\n"
    "        return super().__getattribute__(n)\nclass B(metaclass=Meta):\n",
    "__len__ that raises": "class B:\n    def __len__(self):\n        raise RuntimeError('len')\n",
}
# When what is compiled reaches one of these, Dynamo looks at it itself.
HOSTILE = {
    f"{name}, {how}": Case((X + f"seen = []\n{made}{_GO}b = B()\nseen.clear()",), cell, first)
    for how, (cell, first) in {
        "beside": ("def f(t):\n    return t + 1\ny = f(x)\nprint(1)", EXPLAIN),
        "used": ("y = b.go(x)", EXPLAIN),
        "benched": ("y = b.go(x)", BENCH),
    }.items()
    for name, made in _HOSTILE.items()
    if how != "used" or name not in ("__getattribute__ that notes", "__class__ that lies", "a metaclass that notes")
}
_G = "import functools\ndef g(t):\n    return t + 1\n"
KEPT = _of_cells(
    _G,
    {
        "partial": "pt = functools.partial(g, x)\ny = pt()\nsame = pt.func is g",
        "tuple": "kept = (g,)\ny = kept[0](x)\nsame = kept[0] is g",
        "set": "kept = {g}\ny = g(x)\nsame = g in kept",
        "default": "def h(t, f=g):\n    return f(t)\ny = h(x)\nsame = h.__defaults__[0] is g",
        "attribute": "class K:\n    pass\nk = K()\nk.f = g\ny = k.f(x)\nsame = k.f is g",
        "key": "kept = {g: 1}\ny = g(x)\nsame = kept[g]",
        "closure": "def make(f):\n    return lambda t: f(t)\nc = make(g)\ny = c(x)\nsame = c.__closure__[0].cell_contents is g",
        "wraps": "@functools.wraps(g)\ndef h(t):\n    return g(t)\ny = h(x)\nsame = h.__wrapped__ is g",
        "its name": "import pickle\ny = g(x)\nd = g.__name__, g.__code__.co_name, g.__qualname__",
        "stored by what it calls": "kept = []\ndef keep(f):\n    kept.append(f)\n    return f\ny = keep(g)(x)\n"
        "same = kept[0] is g",
    },
    "still = g(x)",
    first="%%compile_explain g -q",
)
_FREED = "import weakref\nclass M(torch.nn.Linear):\n    pass\nm = M(3, 3)\nw = weakref.ref(m)\ndef f(t):\n    return t + 1\n"
KEPT |= _of_cells(
    _FREED,
    {
        "del a model": "y = m(x)\ndel m\ndead = w() is None",
        "rebind a model": "y = m(x)\nm = None\ndead = w() is None",
        "del a function": "def h(t):\n    return t * 2\nw = weakref.ref(h)\ny = h(x)\ndel h\ndead = w() is None",
        "del a tensor": "t = torch.ones(3)\nw = weakref.ref(t)\ny = f(t)\ndel t\ndead = w() is None",
        "an argument": "class Big:\n    def __init__(self):\n        self.t = x\ndef h(b):\n    return b.t * 2\nb = Big()\n"
        "w = weakref.ref(b)\ny = h(b)\ndel b\ndead = w() is None",
        "after the cell": "y = m(x)",
    },
    "m = None\ngone = w() is None",
)
_WARNS = {
    "stacklevel=2": "warnings.warn('old', FutureWarning, stacklevel=2)",
    "stacklevel=1": "warnings.warn('old')",
    "stacklevel=3": "warnings.warn('old', stacklevel=3)",
    "warn_explicit": "warnings.warn_explicit('old', UserWarning, 'file', 3)",
    "in a helper": "helper()",
    "a DeprecationWarning": "warnings.warn('old', DeprecationWarning, stacklevel=2)",
}
WARNS = {
    f"{name}, {how}": Case(
        (
            f"import warnings\n{X}def helper():\n    warnings.warn('old', stacklevel=2)\n"
            f"def g(t):\n    t = t + 1\n    {body}\n    return t * 2",
        ),
        cell,
        first,
    )
    for how, (cell, first) in {
        "recorded": (
            "with warnings.catch_warnings(record=True) as got:\n    warnings.simplefilter('always')\n    y = g(x)\n"
            "got = [(str(w.message), w.category.__name__) for w in got]",
            EXPLAIN,
        ),
        "an error": ("with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    y = g(x)", EXPLAIN),
        "benched": ("y = g(x)", BENCH),
    }.items()
    for name, body in list(_WARNS.items())[: 2 if how == "benched" else None]
}
_CALLER = {
    "a warning": "warnings.warn('old', FutureWarning, stacklevel=2)",
    "a warning of a helper": "helper()",
    "a log record": "logger.warning('old', stacklevel=2)",
    "a frame": "f = sys._getframe(1); got.append((f.f_lineno, f.f_code.co_name, f.f_code.co_filename, f.f_globals is globals()))",
    "the stack": "one = inspect.stack()[1]; got.append((one.lineno, one.function, one.code_context))",
    "a module's name": "got.append(sys._getframe(1).f_globals['__name__'])",
}
CALLERS = {
    f"{name}, {how}": Case(
        (
            f"import inspect, logging, sys, warnings\n{X}got = []\nlogger = logging.Logger('l')\n"
            "class H(logging.Handler):\n    def emit(self, r):\n        got.append((r.lineno, r.funcName, r.filename))\n"
            "logger.addHandler(H())\ndef note(message, category, filename, lineno, file=None, line=None):\n"
            "    got.append((str(message), filename, lineno))\nwarnings.showwarning = note\n"
            f"def helper():\n    warnings.warn('old', stacklevel=3)\ndef g(t):\n    {body}\n    return t * 2",
        ),
        cell,
        first,
    )
    for how, (cell, first) in {
        "explained": ("y = x\ny = g(y)\nfor _ in range(3):\n    y = g(\n        y)", EXPLAIN),
        "in a function of its own": ("y = x\ndef h(t):\n    return g(t)\ny = h(y)", EXPLAIN),
        "named": ("y = x\nfor _ in range(3):\n    y = (lambda t: g(t))(y)", "%%compile_explain g -q"),
    }.items()
    for name, body in _CALLER.items()
}
_F = "def f(t):\n    return t * 2"
TYPED = {
    f"{name} under {first.split()[0]}": Case((X + _F,), cell, first)
    for first in (EXPLAIN, BENCH)
    for name, cell in {
        "indented": "    y = f(x)\n    z = y + 1",
        "comments alone": "# y = f(x)",
        "%%time below": "%%time\ny = f(x)",
        "%%capture below": "%%capture got\nprint(f(x))",
        "a semicolon": "f(x);",
        "a docstring": "'a text'",
    }.items()
}
TYPED |= {
    "a target twice": Case((X + _F,), "y = f(x)", "%%compile_explain f f -q"),
    **{
        f"a stance, {name}": Case((f"{X}@torch.compiler.set_stance('{stance}')\n{_F}",), "y = f(x)", first)
        for name, (stance, first) in {
            "force_eager": ("force_eager", EXPLAIN),
            "eager_on_recompile": ("eager_on_recompile", EXPLAIN),
            "named": ("force_eager", "%%compile_explain f -q"),
            "--cell": ("force_eager", "%%compile_explain --cell -q"),
            "benched": ("force_eager", BENCH),
        }.items()
    },
}
NEIGHBOURS: dict[str, Mapping[str, Case]] = {
    "a callback": CALLBACKS,
    "reached": REACHED,
    "bare": BARE,
    "a data frame": FRAMES,
    "displays": DISPLAYS,
    "names": NAMES,
    "own compile": OWN,
    "repeated": BENCHED,
    "error": ERRORS,
    "hostile": HOSTILE,
    "kept": KEPT,
    "warns": WARNS,
    "caller": CALLERS,
    "typed": TYPED,
}
