"""Cells that a bench must not bend: after each, the notebook is what a plain run in a twin notebook leaves."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from typing import NamedTuple

import pytest
from side_by_side import both

from compile_magic.bench_model import BenchReport
from compile_magic.run.files import is_user_file
from compile_magic.run.files import roots

LINE = "-q --budget 0.01 --backends eager"


class Case(NamedTuple):
    """A cell with the cells around it, and, where it can't be measured, words of the reason that is given."""

    cell: str
    setup: str = ""
    then: str = ""
    why: str = ""


def twins(case: Case, line: str = LINE) -> tuple[Any, Any, BenchReport]:
    """Return what a plain run leaves, what a bench leaves, and its report."""
    plain, benched, report = both(case.cell, setup=case.setup, then=case.then, line=line, magic="compile_bench")
    return plain, benched, report


DEFINES = {
    "a function": Case("def g(x):\n    return x * 2\ny = g(x)"),
    "a module": Case("class M(nn.Module):\n    def forward(self, x):\n        return x + 1\nm = M()\ny = m(x)"),
    "a dataclass": Case(
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int = 1\np = P(2)\ny = f(x) * p.a"
    ),
    "under no_grad": Case("@torch.no_grad()\ndef g(x):\n    return net(x)\ny = g(x)"),
    "a registry": Case(
        "@reg\ndef g(x):\n    return x + 1\ny = g(x)",
        "known = []\ndef reg(f):\n    known.append(f.__name__)\n    return f\n",
    ),
    "a class that prints": Case("class K:\n    print('body')\n    a = 1\ny = f(x)"),
    "subclasses that register": Case(
        "class Sub(Base):\n    pass\ny = f(x)\nn = len(Base.reg), len(Base.__subclasses__())",
        "class Base:\n    reg = []\n    def __init_subclass__(cls):\n        Base.reg.append(cls.__name__)\n",
    ),
    "a star import": Case("from math import *\ny = f(x) * pi"),
    "a custom op": Case(
        "@torch.library.custom_op('cmh::foo', mutates_args=())\ndef foo(t: torch.Tensor) -> torch.Tensor:\n"
        "    return t + 1\n@foo.register_fake\ndef _(t):\n    return torch.empty_like(t)\ny = f(foo(x))",
        then="torch.ops.cmh.foo(x)",
    ),
    "a future import": Case("from __future__ import annotations\ndef g(a: Nowhere):\n    return a + 1\ny = g(x)"),
    "a generator that is kept": Case("g = (f(x) for _ in range(3))\ny = next(g)\nz = f(x)"),
    "a compiled function": Case("def g(x):\n    return x + 2\nc = torch.compile(g, backend='eager')\ny = c(x)"),
}
BINDS = {
    "x from x": Case("x = x + 1\nx += 1\nn += 1\ny = f(x)", "n = 0\n"),
    "walrus": Case("(y := f(x))\nz = [w := f(x) for _ in range(2)]"),
    "global": Case("global y\ny = f(x)"),
    "del of its own": Case("z = f(x)\ny = z + 1\ndel z"),
    "try and finally": Case(
        "try:\n    y = f(x)\n    raise ValueError\nexcept ValueError:\n    z = f(x)\nfinally:\n    w = 1"
    ),
    "the last value": Case("f(x)"),
    "a semicolon": Case("f(x);"),
    "None at the end": Case("y = f(x)\nNone"),
    "_": Case("f(_)", "x\n"),
    "a whole number and a text": Case("b += 1\ns += 'é'\ny = f(x)", "b = 2**200\ns = 'é'\n"),
    "the last report": Case("was = '_compile_report' in globals()\ny = f(x)"),
}
STATE = {
    "eval and train": Case("net.train(not net.training)\ny = net(x)"),
    "no_grad left open": Case("c = torch.no_grad()\nc.__enter__()\ny = net(x)", then="torch.set_grad_enabled(True)"),
    "a mode left open": Case("m = torch.device('cpu')\nm.__enter__()\ny = f(x)", then="m.__exit__(None, None, None)"),
    "the default dtype": Case(
        "a = torch.ones(2)\ntorch.set_default_dtype(torch.float64)\ny = f(a)",
        then="torch.set_default_dtype(torch.float32)",
    ),
    "a seed": Case("torch.manual_seed(5)\ny = f(torch.randn(3))"),
    "draws": Case("import random\nr = random.random(), torch.rand(1)\ny = f(x)"),
    "in place through a view": Case("x[1:].add_(1)\ny = f(x)"),
    "in place on a parameter": Case("with torch.no_grad():\n    net.linear.weight.add_(1)\ny = net(x)"),
    "a list that grows": Case("found.append(f(x))\ny = f(torch.stack(found).sum(0))", "found = []\n"),
    "a class that counts": Case(
        "K.n += 1\nk = K()\ny = f(x)",
        "class K:\n    n = 0\n    made = []\n    def __init__(self):\n        K.made.append(1)\n",
        then="K.n, K.made",
    ),
    "hooks that append": Case("y = net(x)", "seen = []\nh = net.register_forward_hook(lambda *a: seen.append(1))\n"),
    "a hook more": Case(
        "h = net.register_forward_pre_hook(lambda *a: None)\nq = h.id\ny = net(x)",
        "torch.utils.hooks.RemovableHandle.next_id = 0\n",
    ),
    "a context variable": Case(
        "v.set(v.get() + 1)\ny = f(x)",
        "import contextvars\nv = contextvars.ContextVar('v')\nv.set(5)\n",
        then="v.get()",
    ),
    "a library's function exchanged": Case(
        "old = nn.functional.relu\nnn.functional.relu = lambda t, o=old, **more: o(t) + 1\ny = f(x)",
        then="r = nn.functional.relu(torch.ones(1))\nnn.functional.relu = old\nr",
    ),
    "a cache": Case(
        "y = g(3)\nz = f(x)",
        "import functools\n@functools.lru_cache\ndef g(n):\n    print('loads', n)\n    return torch.rand(n)\n",
        then="g.cache_info()",
    ),
    "a cache without a limit that holds something": Case(
        "y = g(3)\nz = f(x)",
        "import functools\n@functools.cache\ndef g(n):\n    print('loads', n)\n    return torch.rand(n)\nw = g(2)\n",
        then="g.cache_info().currsize",
    ),
    "a signal's handler": Case(
        "old = signal.signal(signal.SIGUSR1, signal.SIG_IGN)\ny = f(x)",
        "import signal\n",
        then="signal.signal(signal.SIGUSR1, old)",
    ),
    "sparse and complex": Case(
        "s.mul_(2)\nc.mul_(1j)\ny = f((s @ torch.ones(3, 1)).flatten()) + f(c).real",
        "s = torch.eye(3).to_sparse()\nc = torch.ones(3, dtype=torch.complex64)\n",
        then="s = s.to_dense()",
    ),
}
SHOWS = {
    "a log": Case(
        "logging.warning('hey')\ny = f(x)",
        "import logging\nlogging.root.handlers.clear()\n",
        then="logging.root.handlers.clear()",
    ),
    "a handler more": Case(
        "import logging\nlog = logging.getLogger('cmh')\nlog.addHandler(logging.NullHandler())\ny = f(x)",
        then="n = len(log.handlers)\nlog.handlers.clear()\nn",
    ),
    "a handler that keeps": Case(
        "log.warning('hi')\ny = f(x)",
        "import logging\nclass Keeps(logging.Handler):\n    def emit(self, record):\n"
        "        self.__dict__.setdefault('got', []).append(record.getMessage())\n"
        "keeps = Keeps()\nlog = logging.getLogger('cmh2')\nlog.addHandler(keeps)\n",
        then="log.handlers.clear()\nkeeps.got",
    ),
    "a warning": Case("import warnings\nwarnings.warn('hey')\ny = f(x)"),
    "a stream of its own": Case(
        "import io, sys\nold, sys.stdout = sys.stdout, io.StringIO()\nsys.stdout = old\ny = f(x)"
    ),
    "much": Case("print('z' * 200_000)\ny = f(x)"),
    "a display": Case("from IPython.display import display\ndisplay({'text/plain': 'd'}, raw=True)\ny = f(x)"),
}
_HITS = "hits = []\nlin = nn.Linear(3, 1)\n"
_BACKWARD = "y = lin(x).sum()\ny.backward()"
_ADAM = "opts = {p: torch.optim.Adam([p], lr=0.1) for p in lin.parameters()}\n"
HOOKS = {
    "an optimizer's step in a hook on gradients": Case(
        "loss = lin(x).pow(2).sum()\nloss.backward()",
        _HITS + _ADAM + "def hook(p):\n    opts[p].step()\n    opts[p].zero_grad()\n"
        "for p in lin.parameters():\n    handle = p.register_post_accumulate_grad_hook(hook)\n",
        then="[o.state[p]['exp_avg'].tolist() for p, o in opts.items()]",
    ),
    "a hook on a tensor": Case(_BACKWARD, _HITS + "h = lin.weight.register_hook(lambda g: hits.append(1))\n"),
    "a bound method on a tensor": Case(
        _BACKWARD,
        "class Keep:\n    def __init__(self):\n        self.n = 0\n    def see(self, g):\n        self.n += 1\n"
        "keep = Keep()\n" + _HITS + "h = lin.weight.register_hook(keep.see)\n",
        then="keep.n",
    ),
    "a default argument of a hook": Case(
        _BACKWARD,
        _HITS + "def see(g, seen=[]):\n    seen.append(1)\nh = lin.weight.register_hook(see)\n",
        then="see.__defaults__",
    ),
    "a hook on a leaf that a graph leads to": Case(
        "loss.backward(retain_graph=True)\ny = f(x)",
        _HITS + "h = lin.weight.register_hook(lambda g: hits.append(1))\nloss = lin(x).sum()\ndel lin\n",
    ),
    "a hook on a node of a graph": Case(
        "loss.backward(retain_graph=True)\ny = f(x)",
        _HITS + "loss = lin(x).sum()\nh = loss.grad_fn.register_hook(lambda *a: hits.append(1))\n",
    ),
    "a hook on a tensor inside of a graph": Case(
        "loss.backward(retain_graph=True)\ny = f(x)",
        _HITS + "mid = lin(x)\nh = mid.register_hook(lambda g: hits.append(1))\nloss = mid.sum()\ndel mid\n",
    ),
    "what a function of autograd keeps": Case(
        "loss.backward(retain_graph=True)\ny = f(x)",
        "class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n        ctx.seen = []\n"
        "        return t * 2\n    @staticmethod\n    def backward(ctx, g):\n        ctx.seen.append(1)\n"
        "        return g * len(ctx.seen)\nw = torch.ones(3, requires_grad=True)\nloss = Twice.apply(w).sum()\n",
        then="w.grad",
    ),
    "a hook on all modules": Case(
        "y = net(x)",
        "hits = []\nh = nn.modules.module.register_module_forward_hook(lambda *a: hits.append(1))\n",
        then="h.remove()",
    ),
    "a hook on all modules, made in the cell": Case(
        "h = nn.modules.module.register_module_forward_hook(lambda *a: None)\ny = net(x)",
        then="n = len(nn.modules.module._global_forward_hooks)\nh.remove()\nn",
    ),
    "a hook on all optimizers": Case(
        "net(x).sum().backward()\nopt.step()",
        "hits = []\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "from torch.optim.optimizer import register_optimizer_step_post_hook as register\n"
        "h = register(lambda *a: hits.append(1))\n",
        then="h.remove()",
    ),
    "a hook on an optimizer": Case(
        "net(x).sum().backward()\nopt.step()",
        "hits = []\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "h = opt.register_step_pre_hook(lambda *a: hits.append(1))\n",
    ),
    "a hook on what autograd saves": Case(
        "y = net(x)",
        "hits = []\ndef pack(t):\n    hits.append(1)\n    return t\n"
        "saving = torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)\nsaving.__enter__()\n",
        then="saving.__exit__()\ndel saving",
    ),
}
CALLED = {
    "a callback of the garbage collector": Case(
        "y = f(x)\ngc.collect()\nn = len(hits)",
        "import gc\nhits = []\ngc.collect()\ngc.disable()\ngc.callbacks.append(lambda *a: hits.append(1))\n",
        then="gc.callbacks.pop()\ngc.enable()",
    ),
    "what shows a warning": Case(
        "warnings.warn('hey')\ny = f(x)",
        "import warnings\nhits, old = [], warnings.showwarning\nwarnings.showwarning = lambda *a: hits.append(1)\n",
        then="warnings.showwarning = old\ndel old",
    ),
    "warnings that the cell records": Case(
        "with warnings.catch_warnings(record=True) as got:\n    warnings.simplefilter('always')\n"
        "    warnings.warn('hey')\nn = len(got)\nassert n == 1\ndel got\ny = f(x)",
        "import warnings\n",
    ),
    "what is told of an error in a __del__": Case(
        "K()\ny = f(x)",
        "import sys\nhits, old = [], sys.unraisablehook\nsys.unraisablehook = lambda e: hits.append(1)\n"
        "class K:\n    def __del__(self):\n        raise ValueError\n",
        then="sys.unraisablehook = old\ndel old",
    ),
    "a handler of a logger": Case(
        "log.warning('hi')\ny = f(x)",
        "import logging\nhits = []\nclass Tells(logging.Handler):\n    def emit(self, record, hits=hits):\n"
        "        hits.append(record.getMessage())\nlog = logging.getLogger('cmh3')\nlog.addHandler(Tells())\n",
        then="log.handlers.clear()",
    ),
    "a handler that the cell itself adds": Case(
        "h = logging.handlers.MemoryHandler(9)\nlog.addHandler(h)\nlog.warning('hi')\nn = len(h.buffer)\n"
        "assert n == 1\ny = f(x)",
        "import logging.handlers\nlog = logging.getLogger('cmh4')\n",
        then="log.handlers.clear()",
    ),
    "a memory handler of the library's": Case(
        "log.warning('hi')\ny = f(x)",
        "import logging.handlers\nh = logging.handlers.MemoryHandler(9)\nlog = logging.getLogger('cmh5')\n"
        "log.addHandler(h)\n",
        then="log.handlers.clear()\nlen(h.buffer)",
    ),
}
# A library as pip installs it, with state at every level.
_LIBRARY = """import itertools
count, items, table, ids = 0, [], {}, itertools.count()
class Registry:
    entries, calls = {}, 0
    @classmethod
    def add(cls, value):
        cls.calls += 1
        cls.entries[cls.calls] = Held(value)
        return len(cls.entries)
class Held:
    def __init__(self, value):
        self.values = [value]
default = Held(0)
listeners = []
def step(value, seen=[]):
    global count
    count += 1
    seen.append(value)
    return count, len(seen)
def append(value):
    items.append(value)
    table.setdefault('all', []).append(value)
    return len(items), len(table['all'])
def keep(value):
    default.values.append(value)
    return len(default.values)
def make():
    state = [0]
    def again():
        state[0] += 1
        return state[0]
    return again
again = make()
def number():
    return next(ids)
def tell(value):
    for listener in listeners:
        listener(value)
def lazy():
    import cmh_library.later
    return cmh_library.later.more()
def counted():
    import cmh_library.counting
    return cmh_library.counting.first
def read(value):
    return value * len(items)
"""
_LATER = "made = []\ndef more():\n    made.append(1)\n    return len(made)\n"
# The dataclass's methods are made of a text without a file.
_COUNTING = (
    "import dataclasses, itertools\nids = itertools.count()\n@dataclasses.dataclass\nclass Kept:\n"
    "    value: int = 1\ndef number():\n    return next(ids)\nfirst = number() + Kept().value\n"
)
# Each notebook imports it for the first time.
_IMPORTED = (
    "import sys\nlist(map(sys.modules.pop, [n for n in sys.modules if n.startswith('cmh_library')]))\n"
    "import cmh_library\n"
)
LIBRARIES = {
    "a global that counts": Case("n = cmh_library.step(1)\ny = f(x)", _IMPORTED, "cmh_library.step(1)"),
    "a list and a table": Case("n = cmh_library.append(1)\ny = f(x)", _IMPORTED, "cmh_library.append(1)"),
    "a class": Case("n = cmh_library.Registry.add(1)\ny = f(x)", _IMPORTED, "cmh_library.Registry.add(1)"),
    "an object of a module": Case("n = cmh_library.keep(1)\ny = f(x)", _IMPORTED, "cmh_library.keep(1)"),
    "a closure": Case("n = cmh_library.again()\ny = f(x)", _IMPORTED, "cmh_library.again()"),
    "imported in the run": Case("n = cmh_library.lazy()\ny = f(x)", _IMPORTED, "cmh_library.lazy()"),
    "counts when imported": Case("n = cmh_library.counted()\ny = f(x)", _IMPORTED, "cmh_library.counted()"),
    "counts when the cell imports it": Case(
        "import cmh_library.counting\nn = cmh_library.counting.first\ny = f(x)", _IMPORTED
    ),
    "a callback of the user's that it holds": Case(
        "cmh_library.tell(1)\ny = f(x)",
        _IMPORTED + "def make():\n    hits = []\n    cmh_library.listeners.append(hits.append)\n"
        "    cmh_library.listeners.append(lambda v: hits.append(v))\n    return lambda: len(hits)\ncount = make()\n",
        "count()",
    ),
    "nothing changed": Case("n = cmh_library.read(3)\ny = f(x)", _IMPORTED),
    "a counter of C's": Case(
        "n = cmh_library.number()\ny = f(x)", _IMPORTED, why="`cmh_library.ids`, which belongs to a library"
    ),
}
_PLOT = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nplt.close('all')\n"
_FIGURES = "n = plt.get_fignums()\nplt.close('all')\nn"
PLOTS = {
    "a line": Case("y = f(x)\nplt.plot(y.numpy())\nlines = len(plt.gca().lines)", _PLOT, _FIGURES),
    "in a figure from before": Case(
        "y = f(x)\nplt.plot(y.numpy())", _PLOT + "plt.plot([1, 2])\n", "n = len(plt.gca().lines)\nplt.close('all')\nn"
    ),
    "by its axes": Case(
        "y = f(x)\nax.plot(y.numpy())\nax.set_title('y')",
        _PLOT + "fig, ax = plt.subplots()\n",
        "n = len(ax.lines), ax.get_title()\nplt.close('all')\ndel fig, ax\nn",
        "is an iterator",
    ),
    "a figure in each run": Case("y = f(x)\nfig = plt.figure()\nn = fig.number\ndel fig", _PLOT, _FIGURES),
    "closed again": Case("y = f(x)\nplt.plot([1])\nplt.close()", _PLOT, _FIGURES),
    "a setting": Case(
        "y = f(x)\nw = plt.rcParams['lines.linewidth'] + 1\nplt.rcParams['lines.linewidth'] = w",
        _PLOT + "plt.rcdefaults()\n",
        "n = plt.rcParams['lines.linewidth']\nplt.rcdefaults()\nn",
    ),
}
_PIPE = "import multiprocessing\na, b = multiprocessing.Pipe()\n"
_DATABASE = "import sqlite3\ndb = sqlite3.connect(':memory:')\nc = db.execute('create table t (v real)')\n"
_ROWS = "n = db.execute('select count(*) from t').fetchone()[0]\ndb.close()\ndel db, c\nn"
OUTSIDE = {
    "a database": Case("db.execute('insert into t values (1)')\ny = f(x)", _DATABASE, _ROWS, "`db` works on"),
    "a cursor": Case(
        "c.executemany('insert into t values (?)', [(1,), (2,)])\ny = f(x)",
        _DATABASE,
        _ROWS,
        "`c` works on",
    ),
    "a database that a function of the user's finds": Case(
        "find()('insert into t values (1)')\ny = f(x)",
        _DATABASE + "import gc\ndef find():\n"
        "    return next(o for o in gc.get_objects() if type(o).__name__ == 'Keeps').execute\n"
        "class Keeps:\n    def execute(self, text):\n        self.db.execute(text)\n"
        "Keeps.db, keeps = db, Keeps()\nkept = [keeps]\n",
        "kept.clear()\ndel keeps, Keeps.db\n" + _ROWS,
        "database",
    ),
    "a pipe": Case("b.send(1)\nk = a.recv()\ny = f(x)", _PIPE, "a.close()\nb.close()\ndel a, b", "works on"),
    "a pipe in a function": Case(
        "k = get()\ny = f(x)",
        _PIPE + "def get():\n    b.send(1)\n    return a.recv()\n",
        "a.close()\nb.close()\ndel a, b",
        "works on",
    ),
    "a queue of C's": Case(
        "q.put(1)\nk = q.get()\ny = f(x)", "import queue\nq = queue.SimpleQueue()\n", "q.qsize()", "`q` works on"
    ),
    "a checksum": Case(
        "h.update(b'1')\ny = f(x)", "import hashlib\nh = hashlib.sha256()\n", "h.hexdigest()", "implemented in C"
    ),
    "a checksum of its own": Case(
        "h = hashlib.sha256(b'1')\nh.update(b'2')\nk = h.hexdigest()\ndel h\ny = f(x)", "import hashlib\n"
    ),
    "a mapped file": Case(
        "m.write(b'1')\ny = f(x)",
        "import mmap\nm = mmap.mmap(-1, 9)\n",
        "n = m.tell()\nm.close()\ndel m\nn",
        "`m` works",
    ),
    "an executor": Case(
        "k = pool.submit(found.append, 1).result()\ny = f(x)",
        "import concurrent.futures\nfound, pool = [], concurrent.futures.ThreadPoolExecutor(1)\n",
        "pool.shutdown()\ndel pool",
        "`pool` works on",
    ),
    "a queue with something in it": Case(
        "k = q.get()\nq.put(k + 1)\ny = f(x)", "import queue\nq = queue.Queue()\nq.put(1)\n", "q.qsize(), q.get()"
    ),
    "a queue that runs empty": Case(
        "k = q.get(timeout=9)\ny = f(x)", "import queue\nq = queue.Queue()\nq.put(1)\n", "q.qsize()", "that is empty"
    ),
    "an event that is not set": Case(
        "k = e.wait(0.01)\ny = f(x)", "import threading\ne = threading.Event()\n", why="waits for an event"
    ),
    "a lock that is taken": Case(
        "k = lock.acquire(timeout=0.01)\ny = f(x)",
        "import threading\nlock = threading.Lock()\n_ = lock.acquire()\n",
        why="waits for a lock",
    ),
    "a profiler of its own": Case(
        "sys.setprofile(lambda *a: None)\ny = f(x)\nsys.setprofile(None)", "import sys\n", why="a profiler of its own"
    ),
}
COMPILES = {
    "sizes": Case("for n in range(2, 5):\n    y = f(torch.ones(n))"),
    "a graph break": Case("def b(x):\n    x = x + 1\n    print('in b')\n    return x * 2\ny = b(x)"),
    "reset": Case("y = f(x)\ntorch.compiler.reset()"),
    "vmap and grad": Case("y = torch.func.vmap(f)(torch.ones(2, 3))\nz = torch.func.grad(lambda t: f(t).sum())(x)"),
    "cond": Case("y = g(x)", "def g(t):\n    return torch.cond(t.sum() > 0, lambda t: t + 1, lambda t: t - 1, (t,))\n"),
    "LBFGS": Case(
        "opt.step(closure)\ny = net(x)",
        "opt = torch.optim.LBFGS(net.parameters(), max_iter=2)\ndef closure():\n    opt.zero_grad()\n"
        "    loss = net(x).sum()\n    loss.backward()\n    return loss\n",
    ),
    "an autograd function": Case(
        "class S(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n        return t * 2\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return g * 2\ny = S.apply(net(x)).sum()\ny.backward()"
    ),
    "a graph that is retained": Case("loss.backward(retain_graph=True)\ny = net(x)", "loss = net(x).sum()\n"),
}
_WRITES = "from pathlib import Path\nimport tempfile\nout = Path(tempfile.gettempdir(), 'cm_hostile.txt')\nn = 0\n"
_COUNTS = "n += 1\nif n % {} == 0:\n    out.write_text('x')\ny = f(x)"
_GONE = "there = out.exists()\nout.unlink(missing_ok=True)\nthere"
REFUSED = {
    "raises": Case("log.append(1)\ny = f(x)\nraise ValueError('no')", "log = []\n", why="ValueError: no"),
    "StopIteration": Case("log.append(1)\nraise StopIteration", "log = []\n", why="StopIteration"),
    "SystemExit": Case("log.append(1)\ny = f(x)\nraise SystemExit(3)", "log = []\n", why="SystemExit: 3"),
    "its own KeyboardInterrupt": Case(
        "log.append(1)\ny = f(x)\nraise KeyboardInterrupt", "log = []\n", why="KeyboardInterrupt"
    ),
    "no Exception": Case("class Odd(BaseException):\n    pass\ny = f(x)\nraise Odd('q')", why="Odd: q"),
    "inference mode left open": Case(
        "c = torch.inference_mode()\nc.__enter__()\ny = net(x)",
        then="c.__exit__(None, None, None)\ndel c\ntorch.zeros(2) + 1",
        why="leaves inference mode",
    ),
    "writes on the third run": Case(_COUNTS.format(3), _WRITES, _GONE, "cm_hostile.txt"),
    "writes on the fiftieth run": Case(_COUNTS.format(50), _WRITES, _GONE, "cm_hostile.txt"),
    "writes, and catches all": Case(
        "try:\n    out.write_text('x')\nexcept BaseException:\n    n = 1\ny = f(x)", _WRITES, _GONE, "cm_hostile.txt"
    ),
    "a descriptor": Case(
        "import os\nos.write(fd, b'x')\ny = f(x)",
        "import os\nr, fd = os.pipe()\n",
        "got = os.read(r, 9)\nos.close(r)\nos.close(fd)\ndel r, fd\ngot",
        "writes to an open",
    ),
    "a thread": Case(
        "t = threading.Thread(target=found.append, args=(1,))\nt.start()\ny = f(x)",
        "import threading\nfound = []\n",
        "t.join()\nfound",
        "starts a thread",
    ),
    "atexit": Case(
        "atexit.register(print, end='')\ny = f(x)",
        "import atexit\nbefore = atexit._ncallbacks()\n",
        "n = atexit._ncallbacks() - before\natexit.unregister(print)\ndel before\nn",
        "at the end of the kernel",
    ),
    "a cell in the cell": Case("ip = get_ipython()\nr = ip.run_cell('w = 1;')\ny = f(x)", why="in IPython"),
    "a command": Case("!true\ny = f(x)", why="!true"),
    "backward twice": Case("loss.backward()\ny = f(x)", "loss = net(x).sum()\n", why="which an earlier cell made"),
    "a mode that counts, open before": Case(
        "y = net(x)",
        "from torch.overrides import TorchFunctionMode\nhits = []\nclass Counts(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n        hits.append(1)\n"
        "        return func(*args, **(kwargs or {}))\nmode = Counts()\nmode.__enter__()\n",
        then="mode.__exit__(None, None, None)\ndel mode",
        why="a mode that an earlier cell has entered",
    ),
    "awaits": Case("import asyncio\nawait asyncio.sleep(0)\ny = f(x)", why="awaits at its top level"),
    "return": Case("y = f(x)\nreturn 3", why="Python refuses the cell"),
    "only imports": Case("import math", why="only defines and imports"),
}
# What a second run in a row can't do, or does otherwise, so that each begins with the state that was put back.
PAIRED = {
    "raises on the third run": Case("n += 1\nif n % 3 == 0:\n    raise ValueError(n)\ny = f(x)", "n = 0\n"),
    "SystemExit on the third run": Case("n += 1\ny = f(x)\nif n == 3:\n    raise SystemExit(n)", "n = 0\n"),
    "a text that doubles": Case("s *= 2\ny = f(x)", "s = 'é'\n"),
    "a tensor that doubles": Case("x = torch.cat([x, x])\ny = f(x)"),
    "a list of tensors that grows": Case("kept.append(f(x))\ny = torch.stack(kept).sum()", "kept = []\n"),
    "a cache that is written further on": Case(
        "cache[pos] = f(x)[0]\npos += 1\ny = cache[:pos].sum()", "cache = torch.zeros(2, 3)\npos = 0\n"
    ),
    "a cache that gets longer": Case("cache = torch.cat([cache, f(x)])\ny = cache @ cache.T", "cache = x[:1]\n"),
    "a cache in an object": Case(
        "y = step(x)",
        "class Cache:\n    def __init__(self):\n        self.k, self.n = torch.zeros(2, 3), 0\ncache = Cache()\n"
        "def step(t):\n    cache.k[cache.n] = t[0]\n    cache.n += 1\n    return cache.k[:cache.n].sum(0)\n",
        then="cache.n, cache.k",
    ),
    "del of a name from before": Case("y = f(x)\ndel x"),
    "a pop": Case("y = f(batches.pop())", "batches = [x]\n"),
    "a class is entered into torch's tables": Case(
        "pt.register_pytree_node(Q, lambda q: ([], None), lambda c, _: Q())\ny = f(x)",
        "import torch.utils._pytree as pt\nclass Q:\n    pass\n",
    ),
}
ALL = {
    "defines": DEFINES,
    "binds": BINDS,
    "state": STATE,
    "hooks": HOOKS,
    "shows": SHOWS,
    "called": CALLED,
    "libraries": LIBRARIES,
    "outside": OUTSIDE,
    "compiles": COMPILES,
    "refused": REFUSED,
    "paired": PAIRED,
}
if find_spec("matplotlib") is not None:
    ALL["plots"] = PLOTS
CASES = [pytest.param(case, id=f"{group}: {name}") for group, cases in ALL.items() for name, case in cases.items()]


@pytest.fixture
def _library(tmp_path_factory, monkeypatch):
    """A library that the notebooks can import, each for the first time."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "cmh_library").mkdir()
    (folder / "cmh_library" / "__init__.py").write_text(_LIBRARY)
    (folder / "cmh_library" / "later.py").write_text(_LATER)
    (folder / "cmh_library" / "counting.py").write_text(_COUNTING)
    known = roots()
    monkeypatch.setattr(
        "compile_magic.run.files.roots", lambda: replace(known, packages=(*known.packages, str(folder)))
    )
    monkeypatch.syspath_prepend(str(folder))
    is_user_file.cache_clear()
    yield
    is_user_file.cache_clear()


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("case", CASES)
def test_the_notebook_is_as_after_a_plain_run(case: Case) -> None:
    """Values, errors, output, variables, history and process are those of a plain run, and what can't be is said."""
    plain, benched, report = twins(case)

    assert benched == plain
    # Where the cell itself can't be repeated, what it calls is measured alone, and the first note says why.
    why = report.error or (report.notes[0] if report.mode == "function" else "")
    assert case.why in why
    assert bool(why) == bool(case.why)
    if not case.why:
        assert report.variant("eager backend").error == ""
        assert [check.words for check in report.checks if check.name == "state" and not check.passed] == []


@pytest.mark.parametrize("case", PAIRED.values(), ids=PAIRED)
def test_runs_that_cannot_follow_each_other_are_timed_each_from_the_state_that_was_put_back(case: Case) -> None:
    """Where a second run in a row raises or gives something else, the report says so and has figures all the same."""
    _, _, report = twins(case)

    assert any("paired restore, not timed" in note for note in report.notes)
    assert all(one.median_s and not one.error for one in report.variants)
