"""How a guard on a list, a dict, a set, a module's parts or its hooks fails, and how to say it."""

from __future__ import annotations

import re

from compile_magic.read.changes import Cause
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import cause
from compile_magic.read.changes import plural
from compile_magic.read.changes import was
from compile_magic.read.guards import plain

# A dict that every module has -> what is in it.
PARTS = {"modules": "submodule", "parameters": "parameter", "buffers": "buffer"}


def _hooks(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    kind = m["kind"].strip("_").replace("_", " ").removesuffix("s")
    owner, before = plain(m["x"]), m["count"] or "0"
    if before == "0":
        words = f"a {kind} was registered on {owner}"
    else:
        words = f"{owner} had {plural(before, kind)}, now another number"
    return Change("hooks", m["x"], before, new.length(f"{m['x']}.{m['kind']}"), words)


def _parts(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after = str(len(new.keys_of(f"{m['x']}._{m['what']}")) or "")
    words = f"{plain(m['x'])} had {plural(m['old'], PARTS[m['what']])}, now {after or 'another number'}"
    return Change("length", m["x"], m["old"], after, words)


def _dict_length(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    keys = new.keys_of(m["x"])
    now = f"{len(keys)}: {', '.join(keys[:5])}" if keys else "another number"
    words = f"the dict {plain(m['x'])} had {plural(m['old'], 'key')}, now {now}"
    return Change("keys", m["x"], m["old"], str(len(keys)) if keys else "", words)


def _dict_key(m: re.Match[str], old: Facts, new: Facts) -> Change:
    after = new.get(f"list(dict.keys({m['x']}))[{m['index']}]")
    before, now = sorted(old.keys_of(m["x"])), sorted(new.keys_of(m["x"]))
    reordered = bool(before) and before == now
    how = "are in another order" if reordered else "changed"
    words = f"the dict keys of {plain(m['x'])} {how}: key {m['index']} was {m['old']}, now {after or 'another'}"
    return Change("order" if reordered else "keys", m["x"], m["old"], after, words)


def _contains(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ("no key", m["old"]) if m["no"] else (m["old"], "no key")
    words = f"{plain(m['x'])} {'now' if m['no'] else 'no longer'} has the key {m['old']}"
    return Change("keys", m["x"], before, after, words)


def _member(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ("absent", "present") if m["no"] else ("present", "absent")
    words = f"{m['old']} is {'now' if m['no'] else 'no longer'} in the set {plain(m['x'])}"
    return Change("keys", m["x"], before, after, words)


def _length(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after = new.length(m["x"])
    return Change("length", m["x"], m["old"], after, was(f"len({plain(m['x'])})", m["old"], after))


def _empty(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    after = new.length(m["x"])
    words = was(f"len({plain(m['x'])})", "0", after) if after else f"{plain(m['x'])} was empty, now it is not"
    return Change("length", m["x"], "0", after, words)


_SUM = "@compiled\ndef f(parts):\n    return sum(parts)\n\nx = torch.ones(3)\n"
_VALUES = "@compiled\ndef f(batch):\n    return sum(batch.values())\n\nx, y = torch.ones(3), torch.zeros(3)\n"
_MEMBERS = "@compiled\ndef f(x, names):\n    return x + 1 if 'a' in names else x - 1\n\nx = torch.ones(3)\n"
_HOOK = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)

net = Net()
f = compiled(net)
with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
    f(torch.ones(3))
    net.layer.register_forward_hook(lambda module, args, out: out * 2)
    f(torch.ones(3))
"""
_LAYERS = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

net = Net()
f = compiled(net)
f(torch.ones(3))
net.layers.append(torch.nn.Linear(3, 3))
f(torch.ones(3))
"""

CONTAINER_CAUSES: tuple[Cause, ...] = (
    cause(
        "hooks",
        r"^(?:not |len\()(?P<x>.+)\.(?P<kind>_\w*hooks\w*?)(?:\) [!=]= (?P<count>\d+))?$",
        _hooks,
        _HOOK,
        "a forward hook was registered on self.layer",
    ),
    cause(
        "length",
        r"^len\((?P<x>.+)\._(?P<what>modules|parameters|buffers)\) [!=]= (?P<old>\d+)$",
        _parts,
        _LAYERS,
        "self.layers had 1 submodule, now 2",
    ),
    cause(
        "keys",
        r"^len\((?P<x>.+)\) != (?P<old>\d+)$",
        _dict_length,
        _VALUES + "f({'x': x})\nf({'x': x, 'y': y})\n",
        "the dict batch had 1 key, now 2: 'x', 'y'",
    ),
    cause(
        "order",
        r"^list\(dict\.keys\((?P<x>.+)\)\)\[(?P<index>\d+)\] == (?P<old>.+)$",
        _dict_key,
        _VALUES + "f({'x': x, 'y': y})\nf({'y': y, 'x': x})\n",
        "the dict keys of batch are in another order: key 0 was 'x', now 'y'",
    ),
    cause(
        "keys",
        r"^(?P<no>not )?___dict_contains\((?P<old>.+?), (?P<x>(?!.*\.__dict__\)$).+)\)$",
        _contains,
        _MEMBERS + "f(x, {'a': 1})\nf(x, {'b': 1})\n",
        "names no longer has the key 'a'",
    ),
    cause(
        "keys",
        r"^(?P<no>not )?set\.__contains__\((?P<x>.+?), (?P<old>.+)\)$",
        _member,
        _MEMBERS + "f(x, {'a'})\nf(x, {'b'})\n",
        "'a' is no longer in the set names",
    ),
    cause(
        "length",
        r"^len\((?P<x>.+)\) == (?P<old>\d+)$",
        _length,
        _SUM + "f([x])\nf([x, x + 1])\n",
        "len(parts) was 1, now 2",
    ),
    cause(
        "length",
        r"^not (?P<x>[\w.\[\]']+)$",
        _empty,
        "@compiled\ndef f(x, parts):\n    return x + sum(parts)\n\nx = torch.ones(3)\nf(x, [])\nf(x, [x + 1])\n",
        "len(parts) was 0, now 1",
    ),
)
