"""How a guard on a tensor, or on torch's global state, fails, and how to say it."""

from __future__ import annotations

import re

from compile_magic.changes import Change
from compile_magic.changes import Facts
from compile_magic.changes import cause
from compile_magic.changes import plural
from compile_magic.changes import was
from compile_magic.changes import went
from compile_magic.guards import device
from compile_magic.guards import plain

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
# The start of what torch says of its global state -> words.
STATES = {
    "grad_mode": "grad mode changed (no_grad or enable_grad around the call)",
    "autocast": "autocast changed (torch.autocast around the call)",
    "num_threads": "the number of threads changed (torch.set_num_threads)",
    "default_dtype": "the default dtype changed",
    "deterministic_algorithms": "use_deterministic_algorithms changed",
}
GRAD_MODES = {"true": "on", "false": "off"}

# Tensors made in inference mode lack this dispatch key; any tensor that is used inside of it lacks the autograd key.
_NORMAL = "ADInplaceOrView"
_T = r"^tensor '(?P<x>.+?)' "


# A size of 0 or 1 never becomes symbolic: it could broadcast.
ZERO_ONE = "; sizes 0 and 1 are always specialised"


def _size(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    what = f"{plain(m['x'])}.{m['what']}({m['index']})"
    special = m["what"] == "size" and {m["old"], m["new"]} & {"0", "1"}
    return Change(m["what"], m["x"], m["old"], m["new"], went(what, m["old"], m["new"]) + (ZERO_ONE if special else ""))


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


def _dispatch_keys(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    name, before, after = plain(m["x"]), device(m["old"], ""), device(m["new"], "")
    if before != after:
        return Change("device", m["x"], before, after, f"{name} was on {before}, now on {after}")
    return Change("dispatch_keys", m["x"], m["old"], m["new"], _keys_words(name, _keys(m["old"]), _keys(m["new"])))


def _keys(text: str) -> set[str]:
    return {key.strip() for key in text.split(",")}


def _keys_words(name: str, before: set[str], after: set[str]) -> str:
    changed = before ^ after
    if _NORMAL in changed:
        return f"{name} is {'an' if _NORMAL in before else 'no'} inference tensor now"
    if any(key.startswith("Autograd") for key in changed):
        entered = any(key.startswith("Autograd") for key in before)
        return f"inference_mode was switched {'on' if entered else 'off'} around the call"
    return f"{name} is another kind of tensor (dispatch keys {', '.join(sorted(changed))} changed)"


def _global_state(m: re.Match[str], old: Facts, new: Facts) -> Change:
    name = m["names"].strip()
    before, after = old.get("global grad_mode"), new.get("global grad_mode")
    if name.startswith("grad_mode"):
        known = {"expected": GRAD_MODES.get(before, ""), "actual": GRAD_MODES.get(after, "")}
        return Change("grad_mode", words=_grad_words(before, after), **known)
    words = next((words for start, words in STATES.items() if name.startswith(start)), None)
    return Change("global_state", name, words=words or f"torch's global state changed: {name}")


def _grad_words(before: str, after: str) -> str:
    if (before, after) == ("true", "false"):
        return "grad mode went from on to off (no_grad around the call)"
    if (before, after) == ("false", "true"):
        return "grad mode went from off to on (no no_grad around the call any more)"
    return STATES["grad_mode"]


def _tensor_type(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("type", m["x"], "a tensor", m["new"], f"{plain(m['x'])} was a tensor, now of type {m['new']}")


def _aliasing(_m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("aliasing", words="two arguments are the same tensor now")


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


TENSOR_CAUSES = (
    cause(
        "size",
        _T + r"(?P<what>size|stride) mismatch at index (?P<index>\d+)\. expected (?P<old>\S+), actual (?P<new>\S+)",
        _size,
    ),
    cause("rank", _T + r"rank mismatch\. expected (?P<old>\d+), actual (?P<new>\d+)", _rank),
    cause("dtype", _T + r"dtype mismatch\. expected (?P<old>\w+), actual (?P<new>\w+)", _dtype),
    cause("requires_grad", _T + r"requires_grad mismatch\. expected requires_grad=(?P<old>\w+)", _requires_grad),
    cause("device", r"'(?P<x>.+?)'.*device index mismatch\D*(?P<old>-?\d+)\D+(?P<new>-?\d+)", _device_index),
    cause(
        "dispatch_keys",
        _T
        + r"dispatch key set mismatch\. expected DispatchKeySet\((?P<old>.*?)\), actual DispatchKeySet\((?P<new>.*?)\)",
        _dispatch_keys,
    ),
    cause("grad_mode", r"^GLOBAL_STATE changed: ?(?P<names>.*)", _global_state),
    cause(
        "type",
        r"^expected type of '(?P<x>.+?)' to be a tensor type, .*?but found <class '(?P<new>[^']+)'>",
        _tensor_type,
    ),
    cause("aliasing", r"Duplicate tensors? found", _aliasing),
    cause("size", r"(?P<x>[^\s()]+)\.(?P<what>size|stride)\(\)\[(?P<index>\d+)\]", _shape),
)
