"""Whatever Python and IPython let a cell contain, the magic changes nothing of what it does."""

from __future__ import annotations

from typing import Any

import pytest
from side_by_side import both

# What is in the cell, and how many graphs come of it. `f`, `net` and `x` are there.
PYTHON = {
    "last expression": ("y = f(x)\ny", 1),
    "semicolon": ("f(x);", 1),
    "comment and blank lines first": ("# first\n\n\ny = f(x)", 1),
    "windows line ends": ("y = f(x)\r\nz = f(y)\r\n", 1),
    "tabs": ("if True:\n\ty = f(x)", 1),
    "docstring": ("'a docstring'\ny = f(x)", 1),
    "future import": ("from __future__ import annotations\ndef h(a: Undefined): return f(a)\ny = h(x)", 1),
    "docstring and future import": ("'doc'\nfrom __future__ import annotations\ny = f(x)", 1),
    "star import": ("from math import *\ny = f(x) * pi", 1),
    "global": ("global q\nq = f(x)", 1),
    "class body": ("class A:\n    y = f(x)\n    n = [f(x).sum().item() for _ in range(2)]", 1),
    "match": ("match f(x).shape[0]:\n    case 3:\n        z = f(x)\n    case _:\n        z = 0", 1),
    "try": ("try:\n    y = f(x)\nexcept ValueError:\n    y = 2\nelse:\n    z = 1\nfinally:\n    w = f(y)", 1),
    "comprehensions": ("s = [(h := f(x)) for _ in range(2)]\nt = {n: f(x) for n in 'ab'}", 1),
    "generators": ("s = sum(f(x).sum().item() for _ in range(3))\ny = f(x)", 1),
    "a generator that runs later": ("g = (f(x) for _ in range(3))\ny = f(x)", 1),
    "del of the function": ("y = f(x)\ndel f", 1),
    "a builtin's name": ("print = f\ny = print(x)\ndel print", 1),
    "recursion": ("def rec(x, n): return x if n == 0 else rec(x + 1, n - 1)\ny = rec(x, 4)", 1),
    "async functions": ("async def co(): return f(x)\ny = await co()\nz = f(y)", 1),
    "async for": ("async def gen():\n    yield f(x)\nasync for v in gen(): pass\ny = f(x)", 1),
    "exec and eval": ("exec('y = f(x)')\nz = eval('f(x)')\nw = f(z)", 1),
    "identity": ("def apply(g, x): return g(x), g is f\nsame = apply(f, x)[1]", 1),
    "two thousand lines": ("".join(f"v{n} = f(x) + {n}\n" for n in range(2000)), 1),
}

TORCH = {
    "input written in place": ("def mu(x):\n    x.add_(1)\n    return x\ny = mu(x)\nsame = y is x", 1),
    "random numbers": ("def r(x): return x + torch.rand(3)\ny = r(x)\nz = torch.rand(3)", 1),
    "dropout": ("y = nn.Dropout(0.5)(torch.ones(99))\nz = torch.rand(3)", 1),
    "no_grad": ("with torch.no_grad():\n    y = net(x)\nz = net(x)", 2),
    "inference_mode": ("with torch.inference_mode():\n    y = f(x)\n    i = y.is_inference()", 1),
    "autocast": ("with torch.autocast('cpu'):\n    y = net(x)", 1),
    "decorated": ("@torch.no_grad()\ndef h(x): return net(x)\ny = h(x)", 1),
    "training": (
        (
            "opt = torch.optim.SGD(net.parameters())\nfor _ in range(3):\n    opt.zero_grad()\n"
            "    net(x).sum().backward()\n    opt.step()\ndel opt"
        ),
        1,
    ),
    "module list": ("y = x\nfor m in nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)]):\n    y = m(y)\ndel m", 2),
    "module with a counter": (
        (
            "class C(nn.Module):\n    n = 0\n    def forward(self, x):\n        self.n += 1\n        return x+1\n"
            "c = C()\ny = c(x)\nn = c.n"
        ),
        1,
    ),
    "module with __getattr__": (
        (
            "class G(Net):\n    def __getattr__(self, name):\n"
            "        return 7 if name == 'seven' else super().__getattr__(name)\n"
            "    def forward(self, x): return self.linear(x) * self.seven\ng = G()\ny = g(x)"
        ),
        1,
    ),
    "hooks": (
        (
            "seen = []\nnet.register_forward_pre_hook(lambda m, a: seen.append('pre'))\n"
            "net.register_forward_hook(lambda m, a, o: seen.append('post'))\ny = net(x)"
        ),
        1,
    ),
    "partial": ("import functools\np = functools.partial(f, x)\ny = p()", 1),
    "vmap": ("y = torch.vmap(f)(torch.ones(2, 3))", 1),
    "methods": (
        (
            "class A:\n    @classmethod\n    def c(cls, x): return -x\n    @staticmethod\n    def s(x): return x + 2\n"
            "    @property\n    def p(self): return x + 3\n    def __call__(self, x): return x + 4\n"
            "a = A()\ny = [A.c(x), A.s(x), a.p, a(x)]"
        ),
        2,
    ),
    "compiled by the cell": ("g = torch.compile(f, backend='eager')\ny = g(x)\nz = f(x)", 2),
    "compiled in place": ("net.compile(backend='eager')\ny = net(x)", 1),
    "an OptimizedModule": ("om = torch.compile(net, backend='eager')\ny = om(x)", 1),
}


@pytest.mark.parametrize(("cell", "graphs"), [*PYTHON.values(), *TORCH.values()], ids=[*PYTHON, *TORCH])
def test_a_cell_does_what_it_does_without_the_magic(cell: str, graphs: int) -> None:
    """Variables, value, `_`, Out, streams and process are those of the plain cell, and what it calls is compiled."""
    plain, explained, report = both(cell)

    assert explained == plain
    assert report.graph_count == graphs
    assert report.unread == ()


BODIES = {
    "names and value": "y = x + 1\nz = y * 2\nz",
    "a name that is bound in no case that happens": "if x.sum() > 99:\n    u = 1\ny = x + 1\nprint(u)",
    "a loop that doesn't run": "for i in range(0):\n    pass\ny = x + 1\nprint(i)",
    "the name of a handler": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    y = x + 1\nprint(error)",
    "an exception that is suppressed": (
        "from contextlib import suppress\nwith suppress(ZeroDivisionError):\n    y = 1 / 0\nprint(y)"
    ),
    "a generator": "y = x + sum(n for n in range(3))",
    "definitions": "k = lambda a: a + 1\ndef h(a): return a\nclass Q: v = 1\ny = x + 1",
    "deletion": "y = x + 1\ndel x",
    "an error": "y = x + 1\nz = 1 / 0\nw = 2",
    "an error after a break": "y = x + 1\nprint('here')\nz = 1 / 0",
    "imports": "import math\nfrom math import *\ny = x * pi",
    "loop": "y = x\nfor i in range(3):\n    y = y + i\ny",
}


@pytest.mark.parametrize("cell", BODIES.values(), ids=BODIES)
def test_a_body_that_is_compiled_as_one_function_is_still_a_cell(cell: str) -> None:
    """Names that may be unbound raise NameError, tracebacks have one frame, and names are where a cell leaves them."""
    plain, explained, report = both(cell, line="-q --cell")

    assert explained == plain
    assert report.mode == "cell"
    assert both(cell)[0] == both(cell)[1]


@pytest.mark.parametrize("cell", ["exec('y = 1')", "locals()['y'] = 1", "vars()['y'] = 1", "y = len(dir()) > 0"])
def test_what_looks_at_its_frame_is_not_put_into_a_function(cell: str) -> None:
    """A cell with exec, locals, vars or dir isn't made a function by itself, where they would see something else."""
    plain, explained, _ = both(cell)

    assert explained == plain


@pytest.mark.parametrize("cell", ["exec('y = 1')", "locals()['y'] = 1", "vars()['y'] = 1", "y = len(dir()) > 0"])
def test_what_looks_at_its_frame_is_refused_as_one_function(cell: str, notebook: Any) -> None:
    """--cell refuses exec, locals, vars and dir instead of changing what they mean."""
    refused = notebook.run(f"%%compile_explain --cell\n{cell}")

    assert "means something else in a function" in str(refused.error)


def test_a_generator_that_runs_later_is_not_made_in_compiled_code(notebook: Any) -> None:
    """A generator that outlives the cell stays one: Dynamo would run it at once and give an iterator over a tuple."""
    refused = notebook.run("%%compile_explain --cell\ng = (n for n in range(3))")
    notebook.explain("g = (print(n) for n in range(3))", "-q")

    assert "no generator that runs later" in str(refused.error)
    assert notebook.ok("list(g)").stdout.startswith("0\n1\n2\n")


def test_a_cached_function_keeps_its_cache() -> None:
    """An lru_cache is hit in an explained cell as in a plain one: Dynamo, which ignores it, isn't let at it."""
    setup = "import functools\n@functools.lru_cache\ndef ones(n): return torch.ones(n)\n"
    plain, explained, report = both("same = ones(3) is ones(3)\nhits = ones.cache_info().hits", setup=setup)

    assert explained == plain
    assert [(target.name, target.how) for target in report.targets] == [("ones", "eager")]


NAMED = {
    "redefinition": ("def f(x): return x * 3\ny = f(x)", "f"),
    "deletion": ("y = f(x)\ndel f", "f"),
    "kept in containers": (
        "d = {'f': f}\nl = [f]\nclass A: pass\na = A(); a.f = f\ng = lambda: f\nh = f\ny = f(x)",
        "f",
    ),
    "pickled": ("import pickle\nn = len(pickle.dumps(f))", "f"),
    "module": ("y = net(x)", "net"),
    "method": ("y = net.forward(x)", "net.forward"),
    "training": (
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nnet(x).sum().backward()\nopt.step()\ndel opt",
        "net",
    ),
}


@pytest.mark.parametrize(("cell", "target"), NAMED.values(), ids=NAMED)
def test_named_targets_are_put_back(cell: str, target: str) -> None:
    """After a cell with named targets each name, container, attribute and closure holds the user's own object."""
    kept = "[v is f for v in (d['f'], l[0], a.f, g(), h)] if 'd' in globals() else net(x)"
    plain, explained, _ = both(cell, line=f"-q {target}", then=kept)

    assert explained == plain
