"""What torch's global state is, and how to say that a part of it is another now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from compile_magic.read.changes import Cause
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import cause
from compile_magic.read.changes import double
from compile_magic.read.changes import went

# torch's numbers of the dtypes that autocast, or the default, can have.
SCALAR_TYPES = {5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"}
INFERENCE = "inference_mode was switched {} around the call"


def state_change(names: str, old: Facts, new: Facts) -> Change:
    """Return the change for the names that torch lists; the first decides on the cause, and all are told."""
    found = list(_changes(names.split(), old, new))
    if not found:
        return Change(
            "global_state", names, words=f"torch's global state changed: {names.strip() or 'it says no more'}"
        )
    first, *others = found
    words = "; ".join(dict.fromkeys(each.words for each in found))
    return Change(first.cause, first.source, first.expected, first.actual, words) if others else first


def _changes(names: list[str], old: Facts, new: Facts) -> Iterator[Change]:
    for name in names:
        matches = ((entry, entry.pattern.search(name)) for entry in STATES)
        yield next(entry.read(match, old, new) for entry, match in matches if match)


def _known(facts: Facts, name: str) -> Any:
    text = facts.get(f"global {name}")
    return json.loads(text) if text else None


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else "" if value is None else str(value)


def in_inference_mode(facts: Facts) -> bool:
    """Return whether a frame was compiled under inference_mode: then no tensor has an autograd key, nor gradients."""
    keys = [value for what, value in facts.values.items() if what.endswith(".keys")]
    return bool(keys) and _known(facts, "grad_mode") is False and not any("Autograd" in value for value in keys)


def _grad_mode(m: re.Match[str], old: Facts, new: Facts) -> Change:
    before, after = _shown(_known(old, "grad_mode")), _shown(_known(new, "grad_mode"))
    if in_inference_mode(old) != in_inference_mode(new) and {before, after} == {"on", "off"}:
        return Change("inference_mode", expected=after, actual=before, words=INFERENCE.format(before))
    return Change("grad_mode", expected=before, actual=after, words=GRAD_WORDS.get((before, after), GRAD_UNKNOWN))


GRAD_UNKNOWN = "grad mode changed (no_grad or enable_grad around the call)"
GRAD_WORDS = {
    ("on", "off"): "grad mode went from on to off (no_grad around the call)",
    ("off", "on"): "grad mode went from off to on (no no_grad around the call any more)",
}


def _autocast(m: re.Match[str], old: Facts, new: Facts) -> Change:
    which = m["what"]
    lists = ((_known(facts, "autocast_state") or {}).get(which) or [] for facts in (old, new))
    changed = next((pair for pair in zip(*lists, strict=False) if pair[0] != pair[1]), (None, None))
    before, after = (SCALAR_TYPES.get(each or 0, "") if which == "dtype" else _shown(each) for each in changed)
    name = f"autocast on {m['device']}" if which == "enabled" else f"the dtype of autocast on {m['device']}"
    words = went(name, before, after) if before else f"{name} changed"
    return Change("autocast", f"autocast({m['device']})", before, after, f"{words} (torch.autocast around the call)")


def _autocast_cache(m: re.Match[str], old: Facts, new: Facts) -> Change:
    known = ((_known(facts, "autocast_state") or {}).get("cached_enabled") for facts in (old, new))
    before, after = (_shown(each) for each in known)
    return _said("autocast", "the weight cache of autocast", before, after, "torch.autocast(cache_enabled=...)")


def _default_dtype(m: re.Match[str], old: Facts, new: Facts) -> Change:
    before, after = (SCALAR_TYPES.get(_known(facts, "default_dtype") or 0, "") for facts in (old, new))
    return _said("global_state", "the default dtype", before, after, "torch.set_default_dtype")


def _setting(m: re.Match[str], old: Facts, new: Facts) -> Change:
    what, how = SETTINGS.get(m["name"], (m["name"], ""))
    before, after = (_shown(_known(facts, m["name"])) for facts in (old, new))
    return _said("global_state", what, before, after, how)


def _said(name: str, what: str, before: str, after: str, how: str) -> Change:
    words = went(what, before, after) if before else f"{what} changed"
    return Change(name, what, before, after, f"{words} ({how})" if how else words)


# A setting by torch's name for it -> what it is, and what sets it.
SETTINGS = {
    "num_threads": ("the number of threads", "torch.set_num_threads"),
    "deterministic_algorithms": ("deterministic algorithms", "torch.use_deterministic_algorithms"),
    "deterministic_algorithms_warn_only": (
        "warn_only of deterministic algorithms",
        "torch.use_deterministic_algorithms",
    ),
    "allow_tf32": ("TF32 in matrix products", "torch.set_float32_matmul_precision, allow_tf32"),
    "allow_fp16_reduce": ("reduced-precision sums of float16 products", "torch.backends.cuda.matmul"),
    "allow_bf16_reduce": ("reduced-precision sums of bfloat16 products", "torch.backends.cuda.matmul"),
    "torch_function": ("__torch_function__ of tensor subclasses", "DisableTorchFunctionSubclass around the call"),
    "torch_function_all_disabled": ("all of __torch_function__", "DisableTorchFunction around the call"),
}

_X = "x = torch.ones(3)\n"
_THREADS = """\
x = torch.ones(3)
number = torch.get_num_threads()
torch.set_num_threads(1)
f(x)
torch.set_num_threads(2)
f(x)
torch.set_num_threads(number)"""
_DEFAULT = """\
x = torch.ones(3)
f(x)
torch.set_default_dtype(torch.float64)
f(x)
torch.set_default_dtype(torch.float32)"""

# What torch calls a part of its global state -> the change. The last takes any other.
STATES: tuple[Cause, ...] = (
    cause(
        "inference_mode",
        r"^grad_mode$",
        _grad_mode,
        double(f"{_X}f(x)\nwith torch.inference_mode():\n    f(x)"),
        "inference_mode was switched on around the call",
    ),
    cause(
        "grad_mode",
        r"^grad_mode",
        _grad_mode,
        double(f"{_X}f(x)\nwith torch.no_grad():\n    f(x)"),
        GRAD_WORDS["on", "off"],
    ),
    cause(
        "autocast",
        r"^autocast\((?P<device>\w+)\)_(?P<what>enabled)",
        _autocast,
        double(f"{_X}f(x)\nwith torch.autocast('cpu'):\n    f(x)"),
        "autocast on cpu went from off to on (torch.autocast around the call)",
    ),
    cause(
        "autocast",
        r"^autocast\((?P<device>\w+)\)_(?P<what>dtype)",
        _autocast,
        double(f"{_X}for dtype in (torch.bfloat16, torch.half):\n    with torch.autocast('cpu', dtype):\n        f(x)"),
        "the dtype of autocast on cpu went from bfloat16 to float16 (torch.autocast around the call)",
    ),
    cause(
        "autocast",
        r"^autocast_cache",
        _autocast_cache,
        double(f"{_X}for keep in (True, False):\n    with torch.autocast('cpu', cache_enabled=keep):\n        f(x)"),
        "the weight cache of autocast went from on to off (torch.autocast(cache_enabled=...))",
    ),
    cause(
        "global_state",
        r"^default_dtype",
        _default_dtype,
        double(_DEFAULT),
        "the default dtype went from float32 to float64 (torch.set_default_dtype)",
    ),
    cause(
        "global_state",
        r"^(?P<name>\w+)",
        _setting,
        double(_THREADS),
        "the number of threads went from 1 to 2 (torch.set_num_threads)",
    ),
    cause("global_state", r"(?P<name>.+)", _setting),
)
