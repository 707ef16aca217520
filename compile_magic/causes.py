"""Why a guard failed, in plain English. CAUSES: the text that torch prints of a failed guard -> the change."""

from __future__ import annotations

import re

from compile_magic.changes import Change
from compile_magic.changes import Facts
from compile_magic.changes import cause
from compile_magic.changes import plural
from compile_magic.changes import was
from compile_magic.guards import plain
from compile_magic.tensor_causes import TENSOR_CAUSES

MODES = {"True": "train()", "False": "eval()"}
# The last part of a type's name -> what a thing of it is, where the type's own name says little.
IDENTITIES = {"code": "another function (its code differs)", "function": "another function"}

_COMPILER = re.compile(r"compiler='(?P<name>[^']+)'")


def understand(expression: str, old: Facts, new: Facts) -> Change:
    """Return why a guard of `old` failed; `new` is what the frame was compiled for instead."""
    for entry in CAUSES:
        match = entry.pattern.search(expression)
        if match:
            return entry.read(match, old, new)
    return Change("unknown", words=f"this no longer held: {plain(expression)}")


def _training(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    after = "False" if m["old"] == "True" else "True"
    words = f"the model went from {MODES[m['old']]} to {MODES[after]} (guard on {plain(m['x'])}.training)"
    return Change("training", f"{m['x']}.training", m["old"], after, words)


def _dict_length(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    keys = new.keys_of(m["x"])
    now = f"{len(keys)}: {', '.join(keys[:5])}" if keys else "another number"
    words = f"the dict {plain(m['x'])} had {plural(m['old'], 'key')}, now {now}"
    return Change("keys", m["x"], m["old"], str(len(keys)) if keys else "", words)


def _dict_key(m: re.Match[str], old: Facts, new: Facts) -> Change:
    after = new.get(f"list(dict.keys({m['x']}))[{m['index']}]")
    before, now = sorted(old.keys_of(m["x"])), sorted(new.keys_of(m["x"]))
    how = "are in another order" if before and before == now else "changed"
    words = f"the dict keys of {plain(m['x'])} {how}: key {m['index']} was {m['old']}, now {after or 'another'}"
    return Change("keys", m["x"], m["old"], after, words)


def _contains(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = f"{plain(m['x'])} {'now' if m['no'] else 'no longer'} has the key {m['old']}"
    return Change("keys", m["x"], m["old"], words=words)


def _length(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after = new.get(f"len({m['x']})")
    return Change("length", m["x"], m["old"], after, was(f"len({plain(m['x'])})", m["old"], after))


def _empty(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("length", m["x"], "0", words=f"{plain(m['x'])} was empty, now it is not")


def _identity(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    kind = (m["type"] or "object").rsplit(".", 1)[-1]
    owner = plain(m["x"].removesuffix(".__code__"))
    return Change("identity", m["x"], words=f"{owner} is {IDENTITIES.get(kind, f'another {kind}')}")


def _type(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    kind = m["type"] or ""
    words = f"{plain(m['x'])} was of type {kind}, now of another" if kind else f"{plain(m['x'])} is of another type"
    return Change("type", m["x"], kind, words=words)


def _none(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ("not None", "None") if m["no"] else ("None", "not None")
    words = f"{plain(m['x'])} was {'a value, now None' if m['no'] else 'None, now a value'}"
    return Change("python_value", m["x"], before, after, words)


def _same_object(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = f"{plain(m['x'])} and {plain(m['old'])} are {'now' if m['no'] else 'no longer'} the same object"
    return Change("aliasing", m["x"], m["old"], words=words)


def _value(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after = new.get(m["x"])
    return Change("python_value", m["x"], m["old"], after, was(plain(m["x"]), m["old"], after))


def _attribute(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = f"{plain(m['x'])} {'now' if m['no'] else 'no longer'} has the attribute {m['old']}"
    return Change("attribute", m["x"], m["old"], words=words)


def _backend(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = _backend_name(m["old"] or ""), _backend_name(m["new"] or "")
    named = f"it was compiled with backend {before}, now with {after}"
    return Change("backend", "", before, after, named if before else "it was compiled with another backend")


def _backend_name(described: str) -> str:
    match = _COMPILER.search(described)
    return match["name"] if match else described.partition(" (id=")[0]


CAUSES = (
    *TENSOR_CAUSES,
    cause(
        "backend",
        r"^BACKEND_MATCH failure(?:.*?Cached backend: (?P<old>.*?)\. New backend: (?P<new>.*?)\. If)?",
        _backend,
    ),
    cause("training", r"^(?P<x>.+)\.training == (?P<old>True|False)$", _training),
    cause("keys", r"^len\((?P<x>.+)\) != (?P<old>\d+)$", _dict_length),
    cause("keys", r"^list\(dict\.keys\((?P<x>.+)\)\)\[(?P<index>\d+)\] == (?P<old>.+)$", _dict_key),
    cause("keys", r"^(?P<no>not )?___dict_contains\((?P<old>.+?), (?P<x>.+)\)$", _contains),
    cause("length", r"^len\((?P<x>.+)\) == (?P<old>\d+)$", _length),
    cause("length", r"^not (?P<x>[\w.\[\]']+)$", _empty),
    cause("attribute", r"^(?P<no>not )?hasattr\((?P<x>.+), '(?P<old>\w+)'\)", _attribute),
    cause("identity", r"^___check_obj_id\((?P<x>.+?), \d+\)(?:, type=<class '(?P<type>[^']+)'>)?", _identity),
    cause("type", r"^___check_type_id\((?P<x>.+?), \d+\)(?:, type=<class '(?P<type>[^']+)'>)?", _type),
    cause("python_value", r"^(?P<x>\S+) is (?P<no>not )?None$", _none),
    cause("aliasing", r"^(?P<x>\S+) is (?P<no>not )?(?P<old>\S+)$", _same_object),
    cause("python_value", r"^(?P<x>.+?) == (?P<old>.+)$", _value),
)
