"""Why a guard failed, in plain English. CAUSES: the text that torch prints of a failed guard -> the change."""

from __future__ import annotations

import re

from compile_magic.read.changes import Cause
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import cause
from compile_magic.read.changes import double
from compile_magic.read.changes import went
from compile_magic.read.container_causes import CONTAINER_CAUSES
from compile_magic.read.guards import plain
from compile_magic.read.key_causes import KEY_CHANGES
from compile_magic.read.state_causes import STATES
from compile_magic.read.tensor_causes import TENSOR_CAUSES
from compile_magic.read.value_causes import VALUE_CAUSES

MODES = {"True": "train()", "False": "eval()"}
NO_REASON = "torch gave no reason"

_COMPILER = re.compile(r"compiler='(?P<name>[^']+)'")
_OPTIONS = re.compile(r"\b(?P<name>\w+)=(?P<value>[^,()]+)")


def understand(expression: str, old: Facts, new: Facts) -> Change:
    """Return why a guard of `old` failed; `new` is what the frame was compiled for instead."""
    for entry in CAUSES:
        match = entry.pattern.search(expression)
        if match:
            return entry.read(match, old, new)
    return Change("unknown", words=f"this no longer held: {plain(expression)}")


def _no_reason(_m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("unknown", words=NO_REASON)


def _unexpected(_m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("unknown", words="a guard failed in the call and held when torch looked for the reason")


def _training(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    after = "False" if m["old"] == "True" else "True"
    words = f"the model went from {MODES[m['old']]} to {MODES[after]} (guard on {plain(m['x'])}.training)"
    return Change("training", f"{m['x']}.training", m["old"], after, words)


def _backend(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = _backend_name(m["old"] or ""), _backend_name(m["new"] or "")
    if not before:
        return Change("backend", words="it was compiled with another backend")
    if before != after:
        words = f"it was compiled with backend {before}, now with {after}"
        return Change("backend", "", before, after, words)
    return _backend_options(before, dict(_OPTIONS.findall(m["old"])), dict(_OPTIONS.findall(m["new"])))


def _backend_options(name: str, old: dict[str, str], new: dict[str, str]) -> Change:
    """Return the change between two backends of one name: another option, or another object."""
    option = next((key for key in old if key not in ("id", "compiler") and old[key] != new.get(key)), None)
    if option is None:
        words = f"it was compiled with another backend that is called {name} as well: a new one is made each time"
        return Change("backend", "", name, name, words)
    before, after = old[option], new.get(option, "")
    words = went(f"torch.compile's {option}", before, after)
    return Change("backend", option, before, after, f"{words} (backend {name})")


def _backend_name(described: str) -> str:
    match = _COMPILER.search(described)
    return match["name"] if match else described.partition(" (id=")[0]


def _mode_stack(_m: re.Match[str], old: Facts, new: Facts) -> Change:
    before, after = (facts.get("utils_device.CURRENT_DEVICE") for facts in (old, new))
    if before != after:
        return _default_device_change(before, after)
    words = (
        "the torch function modes around the call changed "
        "(torch.set_default_device, with torch.device(...), or a TorchFunctionMode)"
    )
    return Change("global_state", "torch function modes", words=words)


def _default_device(m: re.Match[str], _old: Facts, new: Facts) -> Change:
    return _default_device_change(m["old"], new.get("utils_device.CURRENT_DEVICE"))


def _default_device_change(before: str, after: str) -> Change:
    words = went("the default device", before, after)
    return Change("global_state", "default device", before, after, f"{words} (torch.set_default_device)")


def _transform(_m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("transform", words="the torch.func transforms around the call changed (vmap, grad, jvp)")


def _forward_ad(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    words = f"the level of forward-mode AD around the call was {m['old']}, now another"
    return Change("transform", "forward_ad", m["old"], words=words)


def _saved_hooks(_m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    return Change("hooks", words="the saved-tensor hooks around the call changed (torch.autograd.graph)")


_TRAIN_EVAL = """\
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x

net = Net()
f = compiled(net)
f(torch.ones(3))
net.eval()
f(torch.ones(3))
"""
_TWO_BACKENDS = """\
def f(x):
    return x * 2

torch.compile(f, backend="eager")(torch.ones(3))
torch.compile(f, backend="aot_eager")(torch.ones(3))
"""

# Read before the others: what torch says of itself, of the backend and of the modes around a call.
AROUND_CAUSES: tuple[Cause, ...] = (
    cause("unknown", r"^\s*$", _no_reason),
    cause("unknown", r"^Unexpected recompilation", _unexpected),
    cause(
        "backend",
        r"^BACKEND_MATCH failure(?:.*?Cached backend: (?P<old>.*?)\. New backend: (?P<new>.*?)\. If)?",
        _backend,
        _TWO_BACKENDS,
        "it was compiled with backend eager, now with aot_eager",
    ),
    cause(
        "global_state",
        r"___check_torch_function_mode_stack\(\)",
        _mode_stack,
        double("x = torch.ones(3)\nf(x)\nwith torch.device('meta'):\n    f(x)"),
        "the torch function modes around the call changed "
        "(torch.set_default_device, with torch.device(...), or a TorchFunctionMode)",
    ),
    cause("global_state", r"CURRENT_DEVICE == (?P<old>.+)$", _default_device),
    cause("transform", r"compare_functorch_state", _transform),
    cause("transform", r"forward_ad\._current_level == (?P<old>-?\d+)", _forward_ad),
    cause("hooks", r"saved_tensors_hooks", _saved_hooks),
    cause(
        "training",
        r"^(?P<x>.+)\.training == (?P<old>True|False)$",
        _training,
        _TRAIN_EVAL,
        "the model went from train() to eval() (guard on self.training)",
    ),
)

CAUSES: tuple[Cause, ...] = (*AROUND_CAUSES, *TENSOR_CAUSES, *CONTAINER_CAUSES, *VALUE_CAUSES)

# All entries with an example: those of the registries behind an entry of CAUSES as well.
EXAMPLES: tuple[Cause, ...] = tuple(entry for entry in (*CAUSES, *STATES, *KEY_CHANGES) if entry.example)
