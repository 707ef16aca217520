"""How a guard on a Python object fails: its value, its type, its identity, its attributes. How to say it."""

from __future__ import annotations

import ast
import re

from compile_magic.read.changes import Cause
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import a_thing
from compile_magic.read.changes import cause
from compile_magic.read.changes import scaled
from compile_magic.read.changes import was
from compile_magic.read.guards import plain

# The last part of a type's name -> what a thing of it is, where the type's own name says little.
IDENTITIES = {
    "code": "another function (its code differs)",
    "function": "another function",
    "builtin_function_or_method": "another builtin function",
    "module": "another module",
    "object": "another object",
}

_HASATTR = re.compile(r"(?:not )?hasattr\((?P<x>.+), '(?P<name>\w+)'\)")


def _attribute(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ("absent", "present") if m["no"] else ("present", "absent")
    words = f"{plain(m['x'])} {'now' if m['no'] else 'no longer'} has the attribute {m['old']}"
    return Change("attribute", f"{m['x']}.{m['old']}", before, after, words)


def _attribute_gone(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    names = (_HASATTR.match(what) for what in new.values)
    name = next((match["name"] for match in names if match and match["x"] == m["x"]), "")
    which = f"the attribute {name}" if name else "an attribute that the compiled code reads"
    source = f"{m['x']}.{name}" if name else m["x"]
    return Change("attribute", source, "present", "absent", f"{plain(m['x'])} no longer has {which}")


def _identity(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    kind, after = m["type"] or "object", new.get(f"type({m['x']})")
    owner = plain(m["x"].removesuffix(".__code__"))
    if after and m["type"] and after != kind:
        return Change("identity", m["x"], _short(kind), _short(after), was(owner, _short(kind), _short(after)))
    short = _short(kind)
    return Change("identity", m["x"], words=f"{owner} is {IDENTITIES.get(short, f'another instance of {short}')}")


def _short(kind: str) -> str:
    return kind.rsplit(".", 1)[-1]


def _gone(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = f"{plain(m['x'])} is another object: the one that it was compiled for no longer exists"
    return Change("identity", m["x"], words=words)


def _not_a_function(m: re.Match[str], old: Facts, new: Facts) -> Change:
    name = m["x"].removesuffix(".__code__")
    after = new.told(name)
    return Change("type", name, "a function", after, was(plain(name), "a Python function", after))


def _type(m: re.Match[str], old: Facts, new: Facts) -> Change:
    before = a_thing(m["type"] or old.get(f"type({m['x']})"))
    after = "a tensor" if new.is_tensor(m["x"]) else new.get(m["x"]) or a_thing(new.get(f"type({m['x']})"))
    if not before:
        return Change("type", m["x"], "", after, f"{plain(m['x'])} is of another type" + f", {after}" * bool(after))
    return Change("type", m["x"], before, after, was(plain(m["x"]), before, after or "of another type"))


def _none(m: re.Match[str], old: Facts, new: Facts) -> Change:
    known = (old if m["no"] else new).told(m["x"])
    value = known if known not in ("", "None") else "a value"
    before, after = (value, "None") if m["no"] else ("None", value)
    return Change("none", m["x"], before, after, was(plain(m["x"]), before, after))


def _same_object(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ("two objects", "the same object") if m["no"] else ("the same object", "two objects")
    words = f"{plain(m['x'])} and {plain(m['old'])} are {'now' if m['no'] else 'no longer'} the same object"
    return Change("aliasing", m["x"], before, after, words)


def _value(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after, name = new.told(m["x"]), plain(m["x"])
    kinds = _literal_type(m["old"]), "tensor" if new.is_tensor(m["x"]) else _literal_type(after)
    if "" in kinds or kinds[0] == kinds[1]:
        return Change("python_value", m["x"], m["old"], after, was(name, m["old"], after))
    if "NoneType" in kinds:
        return Change("none", m["x"], m["old"], after, was(name, m["old"], after))
    told = after if kinds[1] == "tensor" else f"the {kinds[1]} {after}"
    return Change("type", m["x"], m["old"], after, was(name, f"the {kinds[0]} {m['old']}", told))


def _literal_type(text: str) -> str:
    if text in ("nan", "inf", "-inf"):
        return "float"
    try:
        return type(ast.literal_eval(text)).__name__
    except (ValueError, SyntaxError):
        return ""


def _nan(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after = new.told(m["x"])
    return Change("python_value", m["x"], "nan", after, was(plain(m["x"]), "nan", after))


def _range(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after, needed = new.told(m["x"]), plain(m.string)
    words = f"{plain(m['x'])} is {after or 'another'} now: the compiled code holds for {needed}"
    return Change("python_value", m["x"], needed, after, words)


_CALLED = "@compiled\ndef f(x, g):\n    return g(x) * 2\n\nx = torch.ones(3)\n"
_NONE = "@compiled\ndef f(x, a=None):\n    return x * 2 if a is None else x + a\n\nx = torch.ones(3)\n"
_CACHED = "@compiled\ndef f(x, c):\n    return x + 1 if hasattr(c, 'cache') else x - 1\n\nx = torch.ones(3)\n"
_THING = "class Thing:\n    pass\n\nthing = Thing()\n"
_BRANCH = """\
@torch.compile(backend="eager", dynamic=True)
def f(x, n):
    return x * n if n > 10 else x + n

f(torch.ones(3), 3)
f(torch.ones(3), 20)
"""

VALUE_CAUSES: tuple[Cause, ...] = (
    cause(
        "attribute",
        r"^(?P<no>not )?hasattr\((?P<x>.+), '(?P<old>\w+)'\)",
        _attribute,
        _CACHED + _THING + "f(x, thing)\nthing.cache = 1\nf(x, thing)\n",
        "c now has the attribute cache",
    ),
    cause("attribute", r"^(?P<no>not )?___dict_contains\('(?P<old>.+?)', (?P<x>.+)\.__dict__\)$", _attribute),
    cause(
        "attribute",
        r"^getattr failed on source (?P<x>\S+)",
        _attribute_gone,
        _CACHED + _THING + "thing.cache = 1\nf(x, thing)\ndel thing.cache\nf(x, thing)\n",
        "c no longer has the attribute cache",
    ),
    cause(
        "identity",
        r"^___check_obj_id\((?P<x>.+?), \d+\)(?:, type=<class '(?P<type>[^']+)'>)?",
        _identity,
        _CALLED + "f(x, lambda v: v + 1)\nf(x, lambda v: v + 2)\n",
        "g is another function (its code differs)",
    ),
    cause("identity", r"^Cache line invalidated because (?P<x>.+?) got deallocated", _gone),
    cause(
        "type",
        r"^CodeGuardAccessor: Not a function on (?P<x>\S+)",
        _not_a_function,
        _CALLED + "f(x, lambda v: v + 1)\nf(x, torch.neg)\n",
        "g was a Python function, now a builtin_function_or_method",
    ),
    cause(
        "type",
        r"^(?:___check_type_id|___check_fake_script_type)\((?P<x>.+?), \d+\)(?:, type=<class '(?P<type>[^']+)'>)?",
        _type,
        "@compiled\ndef f(parts):\n    return parts[0] * 2\n\nx = torch.ones(3)\nf([x])\nf((x,))\n",
        "parts was a list, now a tuple",
    ),
    cause(
        "type",
        r"^TYPE_MISMATCH\((?P<x>.+)\)(?P<type>(?!))?",
        _type,
        "from collections import OrderedDict\n\n@compiled\ndef f(batch):\n    return batch['x'] * 2\n\n"
        "x = torch.ones(3)\nf(OrderedDict(x=x))\nf({'x': x})\n",
        "batch was an OrderedDict, now a dict",
    ),
    cause(
        "none",
        r"^(?P<x>\S+) is (?P<no>not )?None$",
        _none,
        _NONE + "f(x)\nf(x, torch.zeros(3))\n",
        "a was None, now a tensor",
    ),
    cause(
        "aliasing",
        r"^(?P<x>\S+) is (?P<no>not )?(?P<old>\S+)$",
        _same_object,
        scaled("f(x, x)\nf(x, torch.zeros(3))"),
        "x and a are no longer the same object",
    ),
    cause(
        "python_value",
        r"__math_isnan\((?P<x>.+?)\)\)",
        _nan,
        scaled("f(x, float('nan'))\nf(x, 0.5)"),
        "a was nan, now 0.5",
    ),
    cause(
        "python_value",
        r"^(?:-?\d+ [<>]=? )?(?P<x>[A-Za-z_][^\s()]*) (?:[<>]=?|!=) -?\d+$",
        _range,
        _BRANCH,
        "n is 20 now: the compiled code holds for n <= 10",
    ),
    cause(
        "python_value",
        r"^(?P<x>.+?) == (?P<old>.+)$",
        _value,
        scaled("f(x, 0.5)\nf(x, 0.6)"),
        "a was 0.5, now 0.6",
    ),
)
