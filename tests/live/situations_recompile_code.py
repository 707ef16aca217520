"""The same as `situations_recompile`, for code: functions, globals, modules and optimizers."""

from __future__ import annotations

from situations_recompile import GROWS
from situations_recompile import NONE
from situations_recompile import Situation
from situations_recompile import Told
from situations_recompile import body
from situations_recompile import module
from situations_recompile_python import value

CODE_SITUATIONS = {
    "closure cell": Situation(
        "def make():\n    k = 2\n\n    @compiled\n    def f(x):\n        return x * k\n\n"
        "    def put(new):\n        nonlocal k\n        k = new\n\n    return f, put\n\n"
        "f, put = make()\nf(torch.ones(3))\nput(3)\nf(torch.ones(3))\n",
        (value("k", "2", "3"),),
        "return x * k",
    ),
    "global int": body("x * K", "K = 2\nf(x)\nK = 3\nf(x)", value("the global K", "2", "3"), arguments="x"),
    "global float": body("x * K", "K = 0.5\nf(x)\nK = 0.6\nf(x)", value("the global K", "0.5", "0.6"), arguments="x"),
    "global tensor replaced": body("x * K", "K = x + 1\nf(x)\nK = x + 2\nf(x)", *NONE, arguments="x"),
    "global tensor of another dtype": body(
        "x * K",
        "K = x + 1\nf(x)\nK = K.double()\nf(x)",
        Told("dtype", "float32", "float64", "the global K was float32, now float64"),
        arguments="x",
        line="return x * K",
    ),
    "global function": body(
        "K(x) * 2",
        "def K(x): return x + 1\nf(x)\ndef K(x): return x - 1\nf(x)",
        Told("identity", "", "", "the global K is another function (its code differs)"),
        arguments="x",
    ),
    "class attribute": body(
        "x * Knobs.k",
        "class Knobs:\n    k = -0.5\n\nf(x)\nKnobs.k = 2.25\nf(x)",
        value("the global Knobs.k", "-0.5", "2.25"),
        arguments="x",
    ),
    "a lambda with another code": body(
        "a(x) * 2",
        "f(x, lambda v: v + 1)\nf(x, lambda v: v + 2)",
        Told("identity", "", "", "a is another function (its code differs)"),
    ),
    "a new lambda of the same code": body("a(x) * 2", "for _ in range(3):\n    f(x, lambda v: v + 1)", *NONE),
    "a lambda with another default": body(
        "a(x) * 2",
        "for k in (2, 3):\n    f(x, lambda v, k=k: v * k)",
        value("default argument 0 of a", "2", "3"),
    ),
    "a function with another closure": body(
        "a(x) * 2",
        "def make(k):\n    return lambda v: v * k\n\nf(x, make(2))\nf(x, make(3))",
        value("closure variable 0 of a", "2", "3"),
    ),
    "another builtin function": body(
        "a(x) * 2",
        "f(x, torch.relu)\nf(x, torch.tanh)",
        Told("identity", "", "", "a is another builtin function"),
    ),
    "a function, then a builtin one": body(
        "a(x) * 2",
        "f(x, lambda v: v + 1)\nf(x, torch.tanh)",
        Told(
            "type",
            "a function",
            "a builtin_function_or_method",
            "a was a Python function, now a builtin_function_or_method",
        ),
    ),
    "partial with another argument": body(
        "a(x) * 2",
        "from functools import partial\nf(x, partial(torch.add, other=1))\nf(x, partial(torch.add, other=2))",
        value("a.keywords['other']", "1", "2"),
    ),
    "a new module of the same kind": body(
        "a(x) * 2", "f(x, torch.nn.Linear(3, 3))\nf(x, torch.nn.Linear(3, 3))", *NONE
    ),
    "a module of another kind": body(
        "a(x) * 2",
        "f(x, torch.nn.ReLU())\nf(x, torch.nn.Tanh())",
        Told("type", "a ReLU", "a Tanh", "a was a ReLU, now a Tanh"),
    ),
    "sizes around breaks": Situation(
        "@compiled\ndef f(x):\n    x = x + 1\n    print('one')\n    x = x * 2\n    print('two')\n    return x.sin()\n\n"
        "f(torch.ones(3))\nf(torch.ones(4))\n",
        (Told("size", "3", "4", GROWS.words, 3),),
        "x = x + 1",
    ),
    "a value after a break": Situation(
        "@compiled\ndef f(x):\n    return x * x.max().item()\n\nf(torch.ones(3))\nf(torch.ones(3) * 3)\n",
        (Told("python_value", "1.0", "3.0", "the value after the break on line 7 was 1.0, now 3.0"),),
        "return x * x.max().item()",
    ),
}

MODULE_SITUATIONS = {
    "eval": module(
        "self.drop = torch.nn.Dropout(0.5)",
        "return self.drop(x)",
        "net.eval()",
        Told("training", "True", "False", "the model went from train() to eval() (guard on self.drop.training)"),
    ),
    "int attribute": module("self.k = 2", "return x * self.k", "net.k = 3", value("self.k", "2", "3")),
    "float attribute": module("self.k = 0.5", "return x * self.k", "net.k = 0.6", value("self.k", "0.5", "0.6")),
    "buffer": module(
        "self.register_buffer('k', torch.tensor(0.5))", "return x * self.k", "net.k = torch.tensor(0.6)", *NONE
    ),
    "a call counter": module(
        "self.calls = 0",
        "self.calls += 1\nreturn x * 2",
        "f(x)",
        value("self.calls", "0", "1"),
        value("self.calls", "1", "2"),
    ),
    "module list length": module(
        "self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3)])",
        "for layer in self.layers:\n    x = layer(x)\nreturn x",
        "net.layers.append(torch.nn.Linear(3, 3))",
        Told("length", "1", "2", "self.layers had 1 submodule, now 2"),
    ),
    "weight swapped": module(
        "self.lin = torch.nn.Linear(3, 3)",
        "return self.lin(x)",
        "net.lin.weight = torch.nn.Parameter(torch.zeros(3, 3))",
        *NONE,
    ),
    "weight of another size": module(
        "self.w = torch.nn.Parameter(torch.ones(3, 3))",
        "return x @ self.w",
        "net.w = torch.nn.Parameter(torch.ones(3, 4))",
        Told("size", "3", "4", "self.w.size(1) went from 3 to 4"),
    ),
    "frozen": module(
        "self.w = torch.nn.Parameter(torch.ones(3, 3))",
        "return x @ self.w",
        "net.requires_grad_(False)",
        Told("requires_grad", "True", "False", "self.w.requires_grad went from True to False"),
    ),
    "parametrized": module(
        "self.lin = torch.nn.Linear(3, 3)",
        "return self.lin(x)",
        "from torch.nn.utils.parametrize import register_parametrization\n"
        "class Half(torch.nn.Module):\n    def forward(self, w):\n        return w / 2\n"
        "register_parametrization(net.lin, 'weight', Half())",
        Told("type", "a Linear", "a ParametrizedLinear", "self.lin was a Linear, now a ParametrizedLinear"),
    ),
    "hook registered": module(
        "self.lin = torch.nn.Linear(3, 3)",
        "return self.lin(x)",
        "net.lin.register_forward_hook(lambda module, args, out: out * 2)",
        *NONE,
    ),
    "hook registered, guarded": module(
        "torch._dynamo.config.skip_nnmodule_hook_guards = False\nself.lin = torch.nn.Linear(3, 3)",
        "return self.lin(x)",
        "net.lin.register_forward_hook(lambda module, args, out: out * 2)",
        Told("hooks", "0", "", "a forward hook was registered on self.lin"),
    ),
    "learning rate": Situation(
        "net = torch.nn.Linear(3, 1)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n\n@compiled\ndef f():\n"
        "    opt.step()\n\nfor lr in (0.1, 0.05, 0.02):\n    opt.param_groups[0]['lr'] = lr\n"
        "    net(torch.ones(4, 3)).sum().backward()\n    f()\n",
        (value("self.param_groups[0]['lr']", "0.1", "0.05"),),
    ),
    "a new optimizer": Situation(
        "p = torch.nn.Parameter(torch.ones(3))\n\n@compiled\ndef f(opt):\n    opt.step()\n\nfor _ in range(2):\n"
        "    p.grad = torch.ones(3)\n    f(torch.optim.SGD([p], lr=0.1))\n",
        (
            Told("identity", "", "", "opt is another object: the one that it was compiled for no longer exists"),
            Told("identity", "", "", "self is another object: the one that it was compiled for no longer exists"),
        ),
    ),
}
