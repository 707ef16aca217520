"""The user's objects: looked at without running their code, kept as themselves, freed when the user frees them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from side_by_side import both

from compile_magic.run.detours import Detour
from compile_magic.run.run import Run

# --- looks run no code -----------------------------------------------------------------------------------------------

# Each makes `h`, which notes in LOG all of its code that runs.
_CALL = "    def __call__(self, x): return x\nh = H()"
_NOTED = "LOG = []\ndef noted(name):\n    LOG.append(name)\n    raise ValueError(name)\n"
HOSTILE = {
    "__getattr__": f"class H:\n    def __getattr__(self, name): noted('getattr ' + name)\n{_CALL}",
    "__getattribute__": (
        "class H:\n    def __getattribute__(self, name): noted('getattribute ' + name)\n"
        "    def __call__(self, x): return x\nh = H()"
    ),
    "__class__": f"class H:\n    @property\n    def __class__(self): noted('class')\n{_CALL}",
    "__dict__": f"class H:\n    @property\n    def __dict__(self): noted('dict')\n{_CALL}",
    "comparisons": (
        "class H:\n    def __call__(self, x): return x\n"
        "    __eq__ = __ne__ = lambda self, other: noted('eq')\n    __hash__ = lambda self: noted('hash')\n"
        "    __bool__ = lambda self: noted('bool')\n    __len__ = lambda self: noted('len')\n"
        "    __repr__ = __str__ = lambda self: noted('repr')\nh = H()"
    ),
    "a metaclass": (
        "class Meta(type):\n    def __getattribute__(cls, name): noted('meta ' + name)\n"
        "    def __instancecheck__(cls, other): noted('instancecheck')\n"
        "    def __subclasscheck__(cls, other): noted('subclasscheck')\n"
        "    def __eq__(cls, other): noted('eq')\n    def __hash__(cls): noted('hash')\n"
        "class H(metaclass=Meta):\n    def __call__(self, x): return x\nh = H()\nLOG.clear()"
    ),
    "properties": (
        "class H:\n    __wrapped__ = __name__ = __func__ = __self__ = property(lambda self: noted('property'))\n"
        "    forward = param_groups = _modules = func = property(lambda self: noted('property'))\n"
        "    def __call__(self, x): return x\nh = H()"
    ),
    "a module without init": (
        "class H(nn.Module):\n    def __init__(self): pass\n    def __call__(self, x): return x\nh = H()"
    ),
    "a module with __getattr__": (
        "class H(nn.Module):\n    def __getattr__(self, name): noted('getattr ' + name)\n"
        "    def __init__(self): pass\n    def __call__(self, x): return x\nh = H()"
    ),
    "a module whose parts can't be told": (
        "class H(Net):\n    modules = parameters = buffers = named_modules = lambda self, *_: noted('parts')\nh = H()"
    ),
    "an optimizer without groups": (
        "class H(torch.optim.Optimizer):\n    def __init__(self): pass\n    def __call__(self, x): return x\nh = H()"
    ),
    "a partial": (
        "import functools\nclass H(functools.partial):\n    func = property(lambda self: noted('func'))\nh = H(f)"
    ),
    "a tensor": (
        "class H(torch.Tensor):\n    def __getattribute__(self, name): noted('getattribute ' + name)\n"
        "    def __call__(self, x): return x\nh = torch.ones(3).as_subclass(H)\nLOG.clear()"
    ),
    "exceptions that aren't Exception": (
        f"class Odd(BaseException): pass\nclass H:\n    def __getattr__(self, name): raise Odd\n{_CALL}"
    ),
}


@pytest.mark.parametrize("objects", HOSTILE.values(), ids=HOSTILE)
def test_looking_at_an_object_runs_none_of_its_code(objects: str) -> None:
    """Whatever is in the notebook, the cell runs as a plain one, and no code of an object runs once more."""
    cells = {"-q": "y = f(x)\nz = h(x)\nlen(LOG)", "-q f": "y = f(x)\nz = h(x)\nlen(LOG)", "-q --cell": "y = f(x)"}
    setup, then = f"{_NOTED}{objects}\n", "del h, H\ny = f(x)\nlen(LOG), LOG"
    plain, explained, _ = both(*cells.values(), setup=setup, line=[*cells], then=then)

    assert explained == plain


@pytest.mark.parametrize(
    "kind", ["__getattr__", "__getattribute__", "properties", "a metaclass", "a module with __getattr__"]
)
def test_looking_a_target_up_runs_no_code(kind: str) -> None:
    """A target that only code of an object could tell is refused in one line, and that code doesn't run."""
    lines = ["-q h", "-q h.step", "-q h.deep[0]", "-q h['k']", "-q h.forward"]
    setup, then = f"{_NOTED}{HOSTILE[kind]}\n", "del h, H\nLOG"
    plain, explained, _ = both(*["pass"] * len(lines), setup=setup, line=lines, then=then)

    assert explained.cells[-1] == plain.cells[-1]


# --- named targets stay themselves -----------------------------------------------------------------------------------

_NAMED = """import functools, pickle, copy, inspect, weakref
def g(x, a=1, *rest, k=2, **more):
    return x.sin() + a + k
code = g.__code__
class Opt:
    def __init__(self, n): self.n = n
    def step(self, x): return x * self.n
    def __call__(self, x): return x - self.n
    @classmethod
    def made(cls, x): return x + 5
    @staticmethod
    def plain(x): return x + 6
opt, other = Opt(2), Opt(3)
seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
def bad(x):
    y = x + 1
    raise ValueError(y.shape[0])
def closed(n):
    big = torch.full((3,), float(n))
    def inner(x): return x + big
    return inner
ten = closed(10)
@functools.lru_cache
def cached(n): return torch.ones(3) * n
bound = functools.partial(g, k=7)
@torch.no_grad()
def decorated(x): return x * 3
"""

# The target, and a cell that keeps it or looks at it.
KEPT = {
    "a partial": ("g", "p = functools.partial(g, x)\ny = p()\nsame = p.func is g"),
    "a tuple": ("g", "t = (g, 1)\ny = t[0](x)"),
    "a set": ("g", "t = {g}\ny = next(iter(t))(x)\nsame = g in t"),
    "a dict": ("g", "registry = {'g': g}\nby = {g: 1}\ny = registry['g'](x)\nfound = by.pop(g)"),
    "a default": ("g", "def h(x, fn=g): return fn(x)\ny = h(x)\nsame = h.__defaults__[0] is g"),
    "an attribute": ("g", "class A: pass\na = A()\na.g = A.g = g\ny = a.g(x)"),
    "a closure": ("g", "def make(fn):\n    def inner(x): return fn(x)\n    return inner\nh = make(g)\ny = h(x)"),
    "a pickle": ("g", "p = pickle.dumps(g)\nsame = pickle.loads(p) is g\ny = g(x)"),
    "a copy": ("g", "c = copy.deepcopy([g, seq])\nsame = c[0] is g\ny = c[0](x) + c[1](x)"),
    "a weak reference": ("g", "w = weakref.ref(g)\ny = w()(x)\nsame = w() is g"),
    "a signature": ("g", "s = str(inspect.signature(g))\nd = (g.__defaults__, g.__kwdefaults__, g.__name__)\ny = g(x)"),
    "its source": ("g", "s = inspect.getsource(g)\nd = (g.__doc__, g.__qualname__, g.__module__)\ny = g(x)"),
    "all kinds of arguments": ("g", "y = [g(x), g(x, 5), g(x, 1, 2, 3), g(x, k=4, z=1), g(a=1, x=x)]"),
    "wrong arguments": ("g", "try:\n    g()\nexcept TypeError as e:\n    said = str(e)"),
    "recursion": ("rec", "def rec(x, n): return x if n == 0 else rec(x + 1, n - 1)\ny = rec(x, 4)"),
    "a new definition": ("g", "old = g\ny = g(x)\ndef g(x): return x - 1\nz = g(x)\nw = old(x)"),
    "other code": ("g", "def h(x, a=1, *rest, k=2, **more): return x - 1\ng.__code__ = h.__code__\ny = g(x)"),
    "the user's own compiled form": ("g", "c = torch.compile(g, backend='eager')\ny = g(x)"),
    "a method": (
        "opt.step",
        "steps = [opt.step, other.step, Opt.step]\ny = [steps[0](x), steps[1](x), steps[2](opt, x)]",
    ),
    "an object": ("opt", "o = [opt]\ny = [o[0](x), other(x), Opt.__call__(opt, x)]"),
    "a class method": ("opt.made", "m = opt.made\ny = [m(x), Opt.made(x)]"),
    "a static method": ("opt.plain", "m = Opt.plain\ny = [m(x), opt.plain(x)]\nsame = m is opt.plain"),
    "a closure's function": ("ten", "t = (ten,)\ny = t[0](x)\nsame = ten.__closure__[0].cell_contents.sum()"),
    "a module": (
        "net",
        "p = functools.partial(net, x)\nc = copy.deepcopy(net)\nb = pickle.dumps(net.state_dict())\ny = p() + c(x)",
    ),
    "a container": ("seq", "t = (seq, seq[0])\ny = t[0](x) + t[1](x)"),
    "a module's method": ("net.forward", "m = net.forward\ny = m(x) + net(x)\nowns = 'forward' in vars(net)"),
    "a cached function": ("cached", "y = cached(2) + cached(2)\ninfo = str(cached.cache_info())"),
    "a partial as the target": ("bound", "b = (bound,)\ny = b[0](x)\nsame = bound.func is g"),
    "a decorated function": ("decorated", "d = (decorated,)\ny = d[0](x.requires_grad_())"),
    "several": ("g seq opt.step", "def all(x): return g(opt.step(seq(x)))\ny = all(x)\nz = seq(x)"),
    "an error": (
        "bad",
        "try:\n    bad(x)\nexcept ValueError as e:\n    import traceback\n    said = traceback.format_exc()\ny = 1",
    ),
}


@pytest.mark.parametrize(("target", "cell"), KEPT.values(), ids=KEPT)
def test_a_named_target_stays_itself(target: str, cell: str) -> None:
    """What the cell stores is the user's object, which is what it was, and nothing of ours lives on in it."""
    code = "" if "g = g" in cell or "def g" in cell or "__code__ =" in cell else "\ngood = g.__code__ is code"
    setup = _NAMED + ("def rec(x, n): return x\n" if target == "rec" else "")
    plain, explained, report = both(cell, setup=setup, line=f"-q {target}", then=f"y{code}")

    assert explained == plain
    assert report.graph_count >= (target not in ("bad", "cached", "rec") and "y =" in cell and "__code__" not in cell)
    gc.collect()
    # torch remembers the stack of each compile, and with it the code of a target; that holds nothing of a run. What the
    # last error of an older test keeps, as Python does for debuggers, is not among these objects.
    assert [o for o in gc.get_objects() if type(o) is Run or (type(o) is Detour and o._instead is not None)] == []


def test_what_kept_the_exchanged_code_runs_the_functions_own() -> None:
    """A copy that the cell has made of a target's code, however it did that, works on without us."""
    cell = (
        "import types\nh = types.FunctionType(g.__code__, globals(), 'h', g.__defaults__)\ny = g(x)\nz = h(x, 1, k=2)"
    )
    plain, explained, _ = both(cell, setup=_NAMED, line="-q g", then="h(x, 1, k=3)")

    assert explained.cells == plain.cells
    assert explained.variables["z"] == plain.variables["z"]


def test_a_target_that_runs_in_another_thread_is_left_alone() -> None:
    """A function that another thread is inside of keeps its code, and the report says so."""
    setup = (
        "import threading\ngo, ready = threading.Event(), threading.Event()\ndef g(x):\n    if x is None:\n"
        "        ready.set()\n        go.wait()\n        return\n    return x + 1\n"
        "t = threading.Thread(target=g, args=(None,))\nt.start()\nready.wait()\n"
    )
    plain, explained, report = both("y = g(x)", setup=setup, line="-q g", then="go.set()\nt.join()\ndel t, go, ready")

    assert explained == plain
    assert "`g` was not explained: another thread is running it" in report.notes


def test_a_target_without_python_code_is_refused_in_one_line(notebook: Any) -> None:
    """A builtin isn't wrapped: the line says what to name instead."""
    notebook.ok("import torch\nrelu = torch.relu\nx = torch.ones(3)")
    ran = notebook.run("%%compile_explain relu\ny = relu(x)")

    assert "without Python code: name a function of yours that calls it" in str(ran.error)


_COMPILED = """class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
        self.register_buffer('n', torch.zeros(1))
    def forward(self, x):
        self.n.add_(1)
        return self.l(x)
b = B()
b.register_forward_hook(lambda m, a, o: o * 2)
from torch._dynamo.testing import CompileCounter
count = CompileCounter()
bc = torch.compile(b, backend=count)
def h(x): return x * 3
def made(): return torch.ones(2) + 1
hc = torch.compile(h, backend=count)
x = torch.ones(2, 3)
"""
OWN = {
    "a module with a hook": ("b --fullgraph", "y = x.clone()\ny[0] = bc(x)[0].detach()"),
    "before and after": ("b", "y = bc(x)\nz = b(x)\nw = bc(x)"),
    "a function": ("h --fullgraph", "y = hc(x)\nz = h(x)\nw = hc(x)"),
    "a caller of targets": (
        "b h",
        "def k(x): return h(b(x))\nkc = torch.compile(k, backend=count)\ny = kc(x)\nz = k(x)",
    ),
    "compiled by the cell": ("h", "c = torch.compile(h, backend=count)\ny = c(x)\nz = h(x)"),
    "without a tensor": ("made", "c = torch.compile(made, backend=count)\ny = c()\nz = made()"),
    "compiled in place": ("b", "b.compile(backend=count)\ny = b(x)\nz = b(x)"),
    "inside a target": ("k", "y = k(x)\nz = hc(x)"),
    "a method": ("b.forward", "y = bc(x)\nz = b.forward(x)"),
}


@pytest.mark.parametrize(("target", "cell"), OWN.values(), ids=OWN)
def test_what_the_user_compiled_traces_nothing_of_ours(target: str, cell: str) -> None:
    """The user's own compiled code is compiled as often as in a plain cell, of his code alone."""
    setup = f"{_COMPILED}def k(x):\n    y = x + 1\n    print(end='')\n    return hc(y) + 1\n"
    plain, explained, _ = both(cell, setup=setup, line=f"-q {target}", then="y, count.frame_count, count.op_count")

    assert explained == plain


# --- freed as in a plain cell ----------------------------------------------------------------------------------------

_FREED = """import weakref, functools, gc
gc.disable()
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
    def forward(self, x): return self.l(x)
class Loud(M):
    def __del__(self): told.append('del')
told = []
class Plain:
    def step(self, x): return x + 1
def make():
    big = torch.ones(3)
    def fn(x): return x + big
    fn.big = weakref.ref(big)
    return fn
m, w = M(), None
"""

FREED = {
    "a module": "w = weakref.ref(m)\ny = m(x)\ndel m\ndead = w() is None",
    "a module in a loop": "w = weakref.ref(m)\nfor _ in range(3):\n    y = m(x)\ndel m\ndead = w() is None",
    "its weights": "w = weakref.ref(m.l.weight)\nwith torch.no_grad():\n    y = m(x)\ndel m\ndead = w() is None",
    "a module with __del__": "m = Loud()\ny = m(x)\ntold.append('before')\ndel m\ntold.append('after')",
    "a temporary module": "y = Loud()(x)\ntold.append('after')",
    "a rebound module": "w = weakref.ref(m)\ny = m(x)\nm = M()\ndead = w() is None\ny = m(x)",
    "a container": "m = nn.Sequential(nn.Linear(3, 3))\nw = weakref.ref(m)\ny = m(x)\ndel m\ndead = w() is None",
    "a layer": "m = nn.Linear(3, 3)\nw = weakref.ref(m)\ny = m(x)\ndel m\ndead = w() is None",
    "a closure": "fn = make()\nw = fn.big\ny = fn(x)\ndel fn\ndead = w() is None",
    "a method's object": "m = Plain()\nw = weakref.ref(m)\ny = m.step(x)\ndel m\ndead = w() is None",
    "a partial": "m = functools.partial(f, x)\nw = weakref.ref(m)\ny = m()\ndel m\ndead = w() is None",
    "an argument": "t = torch.ones(4)\nw = weakref.ref(t)\ny = f(t)\ndel t\ndead = w() is None",
    "a result": "t = f(x)\nw = weakref.ref(t)\ndel t\ndead = w() is None",
    "an optimizer": (
        "o = torch.optim.SGD(m.parameters(), lr=0.1)\nw = weakref.ref(o)\nm(x).sum().backward()\n"
        "o.step()\ndel o\ndead = w() is None"
    ),
    "the user's compiled module": (
        "c = torch.compile(m, backend='eager')\nw = weakref.ref(c)\ny = c(x)\ndel c\ndead = w() is None"
    ),
    "a function that is defined": "def h(x): return x * 2\nw = weakref.ref(h)\ny = h(x)\ndel h\ndead = w() is None",
}


@pytest.mark.parametrize("cell", FREED.values(), ids=FREED)
def test_what_the_user_frees_is_freed_there(cell: str) -> None:
    """An object that the cell lets go of dies at the same moment as in a plain cell, without the garbage collector."""
    plain, explained, _ = both(cell, setup=_FREED, then="import gc\ngc.enable()\ndel w")
    dead = plain.variables.get("dead", True)

    assert dead is True
    assert explained == plain


NAMED_FREED = {
    "m": "w = weakref.ref(m)\ny = m(x)\ndel m\ndead = w() is None",
    "m.forward": "w = weakref.ref(m)\ny = m.forward(x)\ndel m\ndead = w() is None",
    "p.step": "w = weakref.ref(p)\ny = p.step(x)\ndel p\ndead = w() is None",
    "fn": "w = fn.big\ny = fn(x)\ndel fn\ndead = w() is None",
    "seq": "w = weakref.ref(seq)\ny = seq(x)\ndel seq\ndead = w() is None",
}


@pytest.mark.parametrize(("target", "cell"), NAMED_FREED.items(), ids=NAMED_FREED)
def test_a_named_target_is_freed_there(target: str, cell: str) -> None:
    """A target that the cell deletes dies there, as in a plain cell."""
    setup = f"{_FREED}p, fn, seq = Plain(), make(), nn.Sequential(nn.Linear(3, 3))\n"
    plain, explained, _ = both(cell, setup=setup, line=f"-q {target}", then="gc.enable()\ndel w")

    assert plain.variables["dead"] is True
    assert explained == plain


@pytest.mark.parametrize("line", ["", "m fn", "m.forward"])
def test_a_bench_keeps_nothing(line: str, notebook: Any) -> None:
    """After a bench the objects of the cell die when the user deletes them."""
    notebook.ok(
        "import torch\nfrom torch import nn\nx = torch.ones(2, 3)\n"
        + _FREED
        + "fn = make()\nw = [weakref.ref(m), fn.big]"
    )
    notebook.ok(f"%%compile_bench --backends eager --budget 0.02 {line}\ny = m(x)\nz = fn(x)")
    notebook.ok("gc.enable()\ndel m, fn, y, z\nalive = [r() is not None for r in w]")

    assert notebook.get("alive") == [False, False]


# --- hooks -----------------------------------------------------------------------------------------------------------

_HOOK = "LOG = []\nfrom torch.nn.modules import module as mm\ninner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())\n"
HOOKS = {
    "forward": "h = mm.register_module_forward_hook(lambda m, a, o: LOG.append(type(m).__name__))",
    "forward pre": "h = mm.register_module_forward_pre_hook(lambda m, a: LOG.append(type(m).__name__))",
    "backward": "h = mm.register_module_full_backward_hook(lambda m, i, o: LOG.append(type(m).__name__))",
    "backward pre": "h = mm.register_module_full_backward_pre_hook(lambda m, o: LOG.append(type(m).__name__))",
    "on a parameter": "h = mm.register_module_parameter_registration_hook(lambda m, n, p: LOG.append(n))",
    "on a submodule": "h = mm.register_module_module_registration_hook(lambda m, n, s: LOG.append(n))",
    "of one module": "h = inner.register_forward_hook(lambda m, a, o: LOG.append('own'))",
    "always called": "h = mm.register_module_forward_hook(lambda m, a, o: LOG.append('always'), always_call=True)",
}
HOOKED = {
    "a layer": ("", "y = inner[0](x)\ny.sum().backward()"),
    "a container": ("", "y = inner(x)\ny.sum().backward()"),
    "a model": ("", "y = net(x)\ny.sum().backward()"),
    "a named model": ("net", "y = net(x)\ny.sum().backward()"),
    "a named container": ("inner", "y = inner(x)\ny.sum().backward()"),
}


# Each call under a forward and a backward hook, and each hook with a call or two.
PAIRS = [(hook, call) for hook in ("forward", "backward") for call in HOOKED]
PAIRS += [(hook, call) for hook in HOOKS for call in ("a container", "a named model") if (hook, call) not in PAIRS]


@pytest.mark.parametrize(("hook", "call"), PAIRS)
def test_hooks_of_all_modules_run_as_in_a_plain_cell(hook: str, call: str) -> None:
    """A hook runs as often as in a plain cell, in the same order, and nothing of torch's warns of us."""
    line, cell = HOOKED[call]
    plain, explained, _ = both(cell, setup=f"{_HOOK}{HOOKS[hook]}\n", line=f"-q {line}", then="h.remove()\ndel h")

    assert explained == plain


# --- marks -----------------------------------------------------------------------------------------------------------

_MARKS = """import gc
gc.freeze()
opt = torch.optim.Adam(net.parameters(), lr=0.1)
bag = {'t': torch.ones(3), 'net': [Net()]}
mine, own = torch.ones(4), torch.ones(5)
torch._dynamo.mark_dynamic(mine, 0)
torch._dynamo.mark_static_address(own)
def train():
    net(x).sum().backward()
    opt.step()
    opt.zero_grad()
def use(*ts): return sum(t.sum() for t in ts)
class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer('b', torch.ones(3))
    def forward(self, x): return x * self.w + self.b
def marks():
    # Those of the cell before this one are older than the freeze.
    tensors = [o for o in gc.get_objects() if type(o) in (torch.Tensor, nn.Parameter)]
    marked = [(name, o) for o in [x, *net.parameters(), *tensors] for name in vars(o) if 'dynamo' in name]
    return sorted(f'{name} {list(o.shape)}' for name, o in marked)
"""
MARKED = {
    "a model": "y = net(x)",
    "a model in a container": "y = bag['net'][0](x)",
    "a model made in the cell": "late = Late()\ny = late(x)",
    "an attribute": "net.late = Late()\ny = net.late(x)",
    "a training step": "train()",
    "an optimizer": "net(x).sum().backward()\nopt.step()",
    "sizes that change": "ys = [f(torch.ones(n, 2)) for n in (3, 4, 5)]\nz = use(*ys)",
    "tensors of a container": "y = use(*[bag['t'] for _ in range(2)])",
    "the user's marks": "y = use(mine, own)\nsame = (mine._dynamo_dynamic_indices, own._dynamo_static_input_type)",
    "the user's own compile": "c = torch.compile(net, backend='aot_eager')\ny = c(x)",
}


# A backend that looks at parameters for itself with each, and less and more with those that it differs for.
MARKING = [(name, "--backend aot_eager") for name in MARKED]
MARKING += [(name, "") for name in ("a training step", "a model made in the cell", "sizes that change")]
_DYNAMIC = ("a training step", "sizes that change", "the user's marks")
MARKING += [(name, "--dynamic true --backend aot_eager") for name in _DYNAMIC]


@pytest.mark.parametrize(("name", "line"), MARKING)
def test_no_mark_of_ours_is_left(name: str, line: str) -> None:
    """No tensor anywhere carries a mark afterwards that it doesn't carry after the plain cell; the user's stay."""
    plain, explained, _ = both(MARKED[name], setup=_MARKS, line=f"-q {line}", then="found = marks()")

    assert explained.cells == plain.cells
    assert explained.variables["found"] == plain.variables["found"]
    assert explained.variables.get("same") == plain.variables.get("same")
