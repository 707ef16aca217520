"""What a change of a tensor's dispatch keys means: a device, inference mode, a layout, a lazy view or a transform."""

from __future__ import annotations

import re

from compile_magic.read.changes import Cause
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import cause
from compile_magic.read.changes import double
from compile_magic.read.changes import went
from compile_magic.read.guards import device
from compile_magic.read.guards import plain
from compile_magic.read.state_causes import INFERENCE
from compile_magic.read.state_causes import in_inference_mode

# Tensors made in inference mode lack this key in it; any tensor that is used there lacks the autograd key.
_NORMAL = "ADInplaceOrView"
_INFERENCE_TENSOR = "an inference tensor"
_NORMAL_TENSOR = "a normal tensor"
_LAYOUTS = (("SparseCsr", "sparse_csr"), ("Sparse", "sparse"), ("Mkldnn", "mkldnn"))
_TRANSFORMS = (("FuncTorchBatched", "vmap"), ("FuncTorchGradWrapper", "grad"), ("FuncTorchDynamicLayer", "transform"))


def keys_change(m: re.Match[str], old: Facts, new: Facts) -> Change:
    """Return the change behind a dispatch key set mismatch."""
    changed = ", ".join(sorted({*m["old"].split(", ")} ^ {*m["new"].split(", ")}))
    return next(entry.read for entry in KEY_CHANGES if entry.pattern.search(changed))(m, old, new)


def _first(pairs: tuple[tuple[str, str], ...], keys: str, default: str) -> str:
    return next((name for key, name in pairs if key in keys), default)


def _device(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = device(m["old"], ""), device(m["new"], "")
    return Change("device", m["x"], before, after, f"{plain(m['x'])} was on {before}, now on {after}")


def _layout(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = (_first(_LAYOUTS, keys, "strided") for keys in (m["old"], m["new"]))
    return Change("layout", m["x"], before, after, went(f"{plain(m['x'])}.layout", before, after))


def _lazy(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    how = "conj" if "Conjugate" in f"{m['old']}, {m['new']}" else "neg"
    key = "Conjugate" if how == "conj" else "Negative"
    before, after = (str(key in keys) for keys in (m["old"], m["new"]))
    return Change(how, m["x"], before, after, went(f"{plain(m['x'])}.is_{how}()", before, after))


def _transform(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = (_first(_TRANSFORMS, keys, "none") for keys in (m["old"], m["new"]))
    words = f"torch.func around the call went from {before} to {after} (it wraps {plain(m['x'])})"
    return Change("transform", m["x"], before, after, words)


def _inference(m: re.Match[str], old: Facts, new: Facts) -> Change:
    """Tell an inference tensor from inference mode: outside of the mode gradients may be on, and others have them."""
    entered = m["new"].count("Autograd") < m["old"].count("Autograd")
    if _NORMAL not in m["old"] or _NORMAL not in m["new"] or not in_inference_mode(new if entered else old):
        return _inference_tensor(m, became=_lacks(m["new"]) > _lacks(m["old"]))
    before, after = ("off", "on") if entered else ("on", "off")
    words = INFERENCE.format(after)
    alone = sum(what.endswith(".keys") for what in (new if entered else old).values) == 1
    hedge = f", or {plain(m['x'])} {'was' if entered else 'is no longer one that was'} made under it" if alone else ""
    return Change("inference_mode", m["x"], before, after, words + hedge)


def _lacks(keys: str) -> int:
    return (_NORMAL not in keys) + ("Autograd" not in keys)


def _inference_tensor(m: re.Match[str], *, became: bool) -> Change:
    before, after = (_NORMAL_TENSOR, _INFERENCE_TENSOR) if became else (_INFERENCE_TENSOR, _NORMAL_TENSOR)
    words = f"{plain(m['x'])} was {before}, now {after} (made under torch.inference_mode)"
    return Change("inference_mode", m["x"], before, after, words if became else words.partition(" (")[0])


def _other(m: re.Match[str], _old: Facts, _new: Facts) -> Change:
    before, after = ({*m[which].split(", ")} for which in ("old", "new"))
    changed = ", ".join(sorted(before ^ after))
    words = f"{plain(m['x'])} is another kind of tensor (dispatch keys {changed} changed)"
    return Change("dispatch_keys", m["x"], m["old"], m["new"], words)


_COMPLEX = "x = torch.ones(3, dtype=torch.complex64)\n"

# The dispatch keys that only one of the two tensors has -> the change.
KEY_CHANGES: tuple[Cause, ...] = (
    cause(
        "layout",
        r"Sparse|Mkldnn",
        _layout,
        double("x = torch.ones(3, 3)\nf(x)\nf(x.to_sparse())"),
        "x.layout went from strided to sparse",
    ),
    cause(
        "device",
        r"(?:^|, )(?:CPU|CUDA|Meta|XPU|MPS|HPU)\b",
        _device,
        double("f(torch.ones(3))\nf(torch.ones(3, device='meta'))"),
        "x was on cpu, now on meta",
    ),
    cause("conj", r"Conjugate", _lazy, double(f"{_COMPLEX}f(x)\nf(x.conj())"), "x.is_conj() went from False to True"),
    cause(
        "neg",
        r"Negative",
        _lazy,
        double(f"{_COMPLEX}f(x.imag)\nf(x.conj().imag)"),
        "x.is_neg() went from False to True",
    ),
    cause(
        "transform",
        r"FuncTorch",
        _transform,
        double("f(torch.ones(3))\ntorch.func.vmap(f)(torch.ones(2, 3))"),
        "torch.func around the call went from none to vmap (it wraps x)",
    ),
    cause(
        "inference_mode",
        r"ADInplaceOrView|Autograd",
        _inference,
        double("with torch.inference_mode():\n    x = torch.ones(3)\nf(torch.ones(3))\nf(x)"),
        "x was a normal tensor, now an inference tensor (made under torch.inference_mode)",
    ),
    cause("dispatch_keys", r"", _other),
)
