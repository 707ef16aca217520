"""How a guard on a tensor, or on torch's global state, fails, and how to say it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compile_magic.read.changes import EXTENT
from compile_magic.read.changes import Cause
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import a_thing
from compile_magic.read.changes import cause
from compile_magic.read.changes import double
from compile_magic.read.changes import plural
from compile_magic.read.changes import scaled
from compile_magic.read.changes import was
from compile_magic.read.changes import went
from compile_magic.read.guards import plain
from compile_magic.read.key_causes import keys_change
from compile_magic.read.state_causes import state_change

# What torch's C++ calls the dtypes that Python code names otherwise.
DTYPES = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Bool": "bool",
    "BFloat16": "bfloat16",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
}
_SAME = re.compile(r"(?P<x>[^\s=]+) is (?P<y>(?!None\b)[^\s=]+)")
_T = r"^tensor '(?P<x>.+?)' "


# A size of 0 or 1 never becomes symbolic: it could broadcast.
ZERO_ONE = "; sizes 0 and 1 are always specialised"


def _size(m: re.Match[str], old: Facts, new: Facts) -> Change:
    what = f"{plain(m['x'])}.{m['what']}({m['index']})"
    if m["what"] == "stride":
        return Change("stride", m["x"], m["old"], m["new"], went(what, m["old"], m["new"]))
    words = [went(what, m["old"], m["new"]), *_other_sizes(m["x"], m["index"], old, new)]
    special = ZERO_ONE if {m["old"], m["new"]} & {"0", "1"} else ""
    return Change("size", m["x"], m["old"], m["new"], " and ".join(words) + special)


def _other_sizes(name: str, index: str, old: Facts, new: Facts) -> Iterator[str]:
    """Return the words for the further sizes that changed, of this tensor and of others: torch names the first only."""
    extents = (EXTENT.fullmatch(what) for what in old.values)
    for m in extents:
        if m is None or m["what"] != "size" or (m["x"], m["index"]) == (name, index):
            continue
        before, after = old.values[m[0]], new.size(m["x"], m["index"])
        if after not in ("", before) and before != "None":
            yield f"{plain(m['x'])}.size({m['index']}) from {before} to {after}"


def _rank(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = f"{plain(m['x'])} had {plural(m['old'], 'dimension')}, now {m['new']}"
    return Change("rank", m["x"], m["old"], m["new"], words)


def _dtype(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = DTYPES.get(m["old"], m["old"]), DTYPES.get(m["new"], m["new"])
    return Change("dtype", m["x"], before, after, was(plain(m["x"]), before, after))


def _requires_grad(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ("False", "True") if m["old"] in ("0", "False") else ("True", "False")
    return Change("requires_grad", m["x"], before, after, went(f"{plain(m['x'])}.requires_grad", before, after))


def _device_index(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = went(f"the device index of {plain(m['x'])}", m["old"], m["new"])
    return Change("device", m["x"], m["old"], m["new"], words)


def _global_state(m: re.Match[str], old: Facts, new: Facts) -> Change:
    return state_change(m["names"], old, new)


def _tensor_type(m: re.Match[str], old: Facts, _new: Facts) -> Change:
    if m["new"] == "NoneType":
        return Change("none", m["x"], "a tensor", "None", was(plain(m["x"]), "a tensor", "None"))
    before = a_thing(old.get(f"{m['x']}.class")).replace("Tensor", "tensor") or "a tensor"
    return Change("type", m["x"], before, a_thing(m["new"]), was(plain(m["x"]), before, a_thing(m["new"])))


def _aliasing(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    pairs = (_SAME.fullmatch(what) for what in new.values)
    pair = next(((pair["x"], pair["y"]) for pair in pairs if pair), None)
    if pair is None:
        return Change("aliasing", words="two arguments are the same tensor now")
    one, two = sorted(pair)
    words = f"{plain(one)} and {plain(two)} are the same tensor now"
    return Change("aliasing", one, "two tensors", "the same tensor", words)


def _marked(_m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = "a tensor was marked (mark_dynamic, mark_static) after the function had been compiled without the mark"
    return Change("dynamic_mark", words=words)


def _shape(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    """Say of a condition on symbolic sizes what the size is now; the new entry knows it by number or as a symbol."""
    name = "size" if ".size()" in m.string else "stride"
    needed = re.sub(r"\.(size|stride)\(\)\[(\d+)\]", r".\1(\2)", plain(m.string))
    after = new.get(f"{m['x']}.{m['what']}()[{m['index']}]") or new.get(f"{m['x']}.{m['what']}({m['index']})")
    words = (
        f"{plain(m['x'])}.{m['what']}({m['index']}) is {after or 'another'} now: the compiled code holds for {needed}"
    )
    special = name == "size" and after in ("0", "1")
    return Change(name, m["x"], needed, after, words + (ZERO_ONE if special else ""))


_MARKED = """\
f(torch.ones(3))
x = torch.ones(3)
torch._dynamo.mark_dynamic(x, 0)
f(x)"""
_CONDITION = """\
@torch.compile(backend="eager", dynamic=True)
def f(x):
    return x + 1 if x.shape[0] > 10 else x - 1

f(torch.ones(3))
f(torch.ones(20))
"""

TENSOR_CAUSES: tuple[Cause, ...] = (
    cause(
        "size",
        _T + r"(?P<what>size) mismatch at index (?P<index>\d+)\. expected (?P<old>\d+), actual (?P<new>\d+)",
        _size,
        double("f(torch.ones(3))\nf(torch.ones(4))"),
        "x.size(0) went from 3 to 4",
    ),
    cause(
        "stride",
        _T + r"(?P<what>stride) mismatch at index (?P<index>\d+)\. expected (?P<old>\d+), actual (?P<new>\d+)",
        _size,
        double("f(torch.ones(3, 3))\nf(torch.ones(3, 3).t())"),
        "x.stride(0) went from 3 to 1",
    ),
    cause(
        "rank",
        _T + r"rank mismatch\. expected (?P<old>\d+), actual (?P<new>\d+)",
        _rank,
        double("f(torch.ones(3))\nf(torch.ones(3, 3))"),
        "x had 1 dimension, now 2",
    ),
    cause(
        "dtype",
        _T + r"dtype mismatch\. expected (?P<old>\w+), actual (?P<new>\w+)",
        _dtype,
        double("f(torch.ones(3))\nf(torch.ones(3, dtype=torch.int64))"),
        "x was float32, now int64",
    ),
    cause(
        "requires_grad",
        _T + r"requires_grad mismatch\. expected requires_grad=(?P<old>\w+)",
        _requires_grad,
        double("f(torch.ones(3))\nf(torch.ones(3, requires_grad=True))"),
        "x.requires_grad went from False to True",
    ),
    cause("device", r"'(?P<x>.+?)'.*device index mismatch\D*(?P<old>-?\d+)\D+(?P<new>-?\d+)", _device_index),
    cause(
        "device",
        _T
        + r"dispatch key set mismatch\. expected DispatchKeySet\((?P<old>.*?)\), actual DispatchKeySet\((?P<new>.*?)\)",
        keys_change,
        double("f(torch.ones(3))\nf(torch.ones(3, device='meta'))"),
        "x was on cpu, now on meta",
    ),
    cause(
        "grad_mode",
        r"^GLOBAL_STATE changed: ?(?P<names>.*)",
        _global_state,
        double("x = torch.ones(3)\nf(x)\nwith torch.no_grad():\n    f(x)"),
        "grad mode went from on to off (no_grad around the call)",
    ),
    cause(
        "type",
        r"^expected type of '(?P<x>.+?)' to be a tensor type, .*?but found <class '(?P<new>[^']+)'>",
        _tensor_type,
        "@compiled\ndef f(x, a):\n    return x + a\n\nf(torch.ones(3), torch.zeros(3))\nf(torch.ones(3), 2)\n",
        "a was a tensor, now an int",
    ),
    cause(
        "aliasing",
        r"Duplicate tensors? found",
        _aliasing,
        scaled("f(x, torch.ones(3))\nf(x, x)"),
        "a and x are the same tensor now",
    ),
    cause(
        "dynamic_mark",
        r"^_has_dynamo_dim_marking|_dynamo_(?:weak_|strict_)?(?:dynamic|static|unbacked)_indices",
        _marked,
        double(_MARKED),
        "a tensor was marked (mark_dynamic, mark_static) after the function had been compiled without the mark",
    ),
    cause(
        "size",
        r"(?P<x>[^\s()]+)\.(?P<what>size|stride)\(\)\[(?P<index>\d+)\]",
        _shape,
        _CONDITION,
        "x.size(0) is 20 now: the compiled code holds for 2 <= x.size(0) <= 10",
    ),
)
