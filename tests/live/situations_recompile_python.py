"""The same as `situations_recompile`, for what Python keeps: values, containers and objects."""

from __future__ import annotations

from situations_recompile import NONE
from situations_recompile import Situation
from situations_recompile import Told
from situations_recompile import body
from situations_recompile import scaled


def value(source: str, before: str, after: str) -> Told:
    """Return the row of a Python value."""
    return Told("python_value", before, after, f"{source} was {before}, now {after}")


SUM = "sum(a.values())"

ARGUMENT_SITUATIONS = {
    "float argument": scaled("f(x, 0.5)\nf(x, 0.6)\nf(x, 0.7)", value("a", "0.5", "0.6")),
    "int argument": scaled("f(x, 2)\nf(x, 3)\nf(x, 4)", value("a", "2", "3")),
    "int that a loop counts to": Situation(
        "@compiled\ndef f(x, n):\n    for _ in range(n):\n        x = x + 1\n    return x\n\n"
        "for n in (2, 3, 4):\n    f(torch.ones(3), n)\n",
        (value("n", "2", "3"), value("n", "3", "4")),
        "for _ in range(n):",
    ),
    "int that a branch asks for": body(
        "x * a if a > 10 else x + a",
        "for a in (2, 3, 20):\n    f(x, a)",
        value("a", "2", "3"),
        Told("python_value", "a <= 10", "20", "a is 20 now: the compiled code holds for a <= 10"),
        line="return x * a if a > 10 else x + a",
    ),
    "int, then float": scaled("f(x, 2)\nf(x, 2.0)", Told("type", "2", "2.0", "a was the int 2, now the float 2.0")),
    "int, then tensor": scaled(
        "f(x, 2)\nf(x, torch.zeros(3))", Told("type", "2", "a tensor", "a was the int 2, now a tensor")
    ),
    "tensor, then int": body(
        "x * a",
        "f(x, y)\nf(x, 2)",
        Told("type", "a tensor", "an int", "a was a tensor, now an int"),
        line="return x * a",
    ),
    "float, then nan": scaled("f(x, 0.5)\nf(x, float('nan'))", value("a", "0.5", "nan")),
    "nan again": scaled("f(x, float('nan'))\nf(x, float('nan'))", *NONE),
    "str argument": body(
        "x * 2 if a == 'sum' else x + 1",
        "f(x, 'sum')\nf(x, 'mean')",
        value("a", "'sum'", "'mean'"),
        line="return x * 2 if a == 'sum' else x + 1",
    ),
    "bool argument": body("x * 2 if a else x + 1", "f(x, True)\nf(x, False)", value("a", "True", "False")),
    "dtype argument": body(
        "x.to(a)", "f(x, torch.float64)\nf(x, torch.float16)", value("a", "torch.float64", "torch.float16")
    ),
    "None, then tensor": body(
        "x * 2 if a is None else x + a",
        "f(x, None)\nf(x, y)",
        Told("none", "None", "a tensor", "a was None, now a tensor"),
    ),
    "None, then int": body(
        "x * 2 if a is None else x + a", "f(x, None)\nf(x, 3)", Told("none", "None", "3", "a was None, now 3")
    ),
    "tensor, then None": body(
        "x * 2 if a is None else x + a",
        "f(x, y)\nf(x, None)",
        Told("none", "a tensor", "None", "a was a tensor, now None"),
    ),
    "enum member": body(
        "x.sum() if a is Mode.SUM else x.mean()",
        "import enum\n\nclass Mode(enum.Enum):\n    SUM = 1\n    MEAN = 2\n\nf(x, Mode.SUM)\nf(x, Mode.MEAN)",
        Told("identity", "", "", "a is another instance of Mode"),
        line="return x.sum() if a is Mode.SUM else x.mean()",
    ),
    "slice argument": body("x[a] * 2", "f(x, slice(0, 2))\nf(x, slice(0, 3))", value("a.stop", "2", "3")),
    "list length": body(
        "sum(a)",
        "f([x])\nf([x, y])",
        Told("length", "1", "2", "len(a) was 1, now 2"),
        arguments="a",
        line="return sum(a)",
    ),
    "list from empty": body("x + sum(a)", "f(x, [])\nf(x, [y])", Told("length", "0", "1", "len(a) was 0, now 1")),
    "list to empty": body("x + sum(a)", "f(x, [y])\nf(x, [])", Told("length", "1", "0", "len(a) was 1, now 0")),
    "list, then tuple": body(
        "x + a[0]", "f(x, [y])\nf(x, (y,))", Told("type", "a list", "a tuple", "a was a list, now a tuple")
    ),
    "tuple content": body("x.repeat(2).reshape(a)", "f(x, (2, 3))\nf(x, (3, 2))", value("a[0]", "2", "3")),
    "set content": body(
        "x + 1 if 'a' in a else x - 1",
        "f(x, {'a'})\nf(x, {'b'})",
        Told("keys", "present", "absent", "'a' is no longer in the set a"),
    ),
    "dict length": body(
        SUM,
        "f({'x': x})\nf({'x': x, 'y': y})",
        Told("keys", "1", "2", "the dict a had 1 key, now 2: 'x', 'y'"),
        arguments="a",
    ),
    "dict keys": body(
        SUM,
        "f({'x': x})\nf({'y': x})",
        Told("keys", "'x'", "'y'", "the dict keys of a changed: key 0 was 'x', now 'y'"),
        arguments="a",
    ),
    "dict order": body(
        SUM,
        "f({'x': x, 'y': y})\nf({'y': y, 'x': x})",
        Told("order", "'x'", "'y'", "the dict keys of a are in another order: key 0 was 'x', now 'y'"),
        arguments="a",
    ),
    "a key that is not read": body("a['x'] * 2", "f({'x': x})\nf({'x': x, 'y': y})", *NONE, arguments="a"),
    "dict value": body("x * a['k']", "f(x, {'k': 2.0})\nf(x, {'k': 3.0})", value("a['k']", "2.0", "3.0")),
    "dict.get": body(
        "x * a.get('k', 1.0)",
        "f(x, {})\nf(x, {'k': 3.0})",
        Told("keys", "no key", "'k'", "a now has the key 'k'"),
    ),
    "number of *args": body("sum(a)", "f(x)\nf(x, y)", Told("length", "1", "2", "len(a) was 1, now 2"), arguments="*a"),
    "names of **kwargs": body(
        SUM,
        "f(p=x)\nf(q=x)",
        Told("keys", "'p'", "'q'", "the dict keys of a changed: key 0 was 'p', now 'q'"),
        arguments="**a",
    ),
    "order of **kwargs": body(
        SUM,
        "f(p=x, q=y)\nf(q=y, p=x)",
        Told("order", "'p'", "'q'", "the dict keys of a are in another order: key 0 was 'p', now 'q'"),
        arguments="**a",
    ),
    "dataclass field": body(
        "x * 2 if a.name == 'one' else x + 1",
        "from dataclasses import dataclass\n\n@dataclass\nclass Config:\n    name: str\n\n"
        "f(x, Config('one'))\nf(x, Config('two'))",
        value("a.name", "'one'", "'two'"),
    ),
    "namedtuple field": body(
        "x * a.k",
        "from collections import namedtuple\n\nPair = namedtuple('Pair', 'k l')\nf(x, Pair(2, 3))\nf(x, Pair(3, 3))",
        value("a.k", "2", "3"),
    ),
    "another object with the same values": body(
        "x * a.k", "class Config:\n    def __init__(self):\n        self.k = 2\n\nf(x, Config())\nf(x, Config())", *NONE
    ),
    "an object of another class": body(
        "x * a.k",
        "class One:\n    k = 2\n\nclass Two:\n    k = 2\n\nf(x, One())\nf(x, Two())",
        Told("type", "an One", "a Two", "a was an One, now a Two"),
    ),
    "another class": body(
        "x * a.k",
        "class One:\n    k = 2\n\nclass Two:\n    k = 3\n\nf(x, One)\nf(x, Two)",
        Told("identity", "One", "Two", "a was One, now Two"),
    ),
    "a new attribute": body(
        "x + 1 if hasattr(a, 'k') else x - 1",
        "class Thing:\n    pass\n\nthing = Thing()\nf(x, thing)\nthing.k = 1\nf(x, thing)",
        Told("attribute", "absent", "present", "a now has the attribute k"),
    ),
    "an attribute gone": body(
        "x + 1 if hasattr(a, 'k') else x - 1",
        "class Thing:\n    pass\n\nthing = Thing()\nthing.k = 1\nf(x, thing)\ndel thing.k\nf(x, thing)",
        Told("attribute", "present", "absent", "a no longer has the attribute k"),
    ),
}
