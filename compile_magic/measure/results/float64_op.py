"""One op of a float64 run: its arguments as written and in float64, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import nullcontext
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.results.shadows import Shadows
from compile_magic.measure.results.shadows import has_shadow
from compile_magic.measure.results.shadows import is_inexact
from compile_magic.measure.results.shadows import wide
from compile_magic.measure.results.twins import TWINS
from compile_magic.measure.results.twins import can_draw
from compile_magic.measure.tensors import tensors_in

# Written without a word in the schema (torch 2.13: Normalization.cpp takes running statistics as plain arguments).
_UNDECLARED = frozenset(f"aten::{name}_batch_norm" for name in ("native", "cudnn", "miopen"))
_RUNNING = frozenset({"running_mean", "running_var"})
# Arguments that kernels want in the dtype they have: counters and scales of fused optimizers and GradScaler.
_AS_THEY_ARE = ("state_steps", "grad_scale", "found_inf", "inv_scale")
# They read the shape of their argument, not its values.
_TEMPLATES = frozenset(
    f"aten::{name}"
    for name in ("empty_like", "new_empty", "new_empty_strided", "rand_like", "randn_like", "randint_like")
)
# Nothing in them needs float64, and they take none.
_EXACT = frozenset({"aten::_amp_update_scale_"})
# They change what a tensor is a view of, and no values.
_GEOMETRY = frozenset({"aten::set_", "aten::resize_", "aten::resize_as_"})
# They choose a library's kernel inside and have no buffers of its layout.
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::convolution_backward"})
# Ops between processes: run once, or the other processes get one too many.
_BETWEEN_PROCESSES = ("c10d::", "_c10d_functional::")


class Op:
    """One op and its arguments.

    Args:
        op: what torch calls.
        args: its arguments as the program has them.
        kwargs: those given by name.
        shadows: the float64 values beside the program's tensors.
    """

    def __init__(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shadows: Shadows) -> None:
        kinds = _torch.op_arguments(op)
        self._op, self._args, self._kwargs, self._shadows = op, args, kwargs, shadows
        self._given = {**dict(zip([name for name, _, _ in kinds or ()], args, strict=False)), **kwargs}
        self.name = _torch.op_name(op)
        self.tensors = list(tensors_in([args, kwargs]))
        written = {name for name, is_written, _ in kinds or () if is_written}
        written |= _RUNNING if self.name in _UNDECLARED else set()
        self.written = [one for name in sorted(written) for one in tensors_in(self._given.get(name))]
        self.is_view = self.name in _GEOMETRY or (not written and any(viewed for _, _, viewed in kinds or ()))
        self.is_convolution = self.name in _CONVOLUTIONS
        self.is_opaque = kinds is None or self.name.startswith(_BETWEEN_PROCESSES)
        self._keys = {_torch.storage_key(one) for one in self.tensors if one.layout == torch.strided}
        self._precise_keys: set[int] = set()
        self._copies: dict[int, torch.Tensor] = {}

    @property
    def computes(self) -> bool:
        """Whether results depend on the values of tensors in a way that float64 makes more exact."""
        return bool(self.tensors) and self.name not in _TEMPLATES | _EXACT

    @property
    def is_inexact(self) -> bool:
        """Whether floating-point values go into it."""
        return any(is_inexact(one) for one in self.tensors)

    @property
    def reads(self) -> bool:
        """Whether floating-point values go into it that it doesn't overwrite."""
        kept = [one for one in self.tensors if not _is_among(one, self.written)]
        return self.computes and any(is_inexact(one) for one in kept)

    def run_as_written(self) -> Any:
        """Run the op on the tensors themselves."""
        return self._op(*self._args, **self._kwargs)

    def prepare(self) -> None:
        """Remember what the op will overwrite: floating-point numbers in their shadow, others as a copy."""
        for one in self.written:
            if has_shadow(one):
                self._shadows.write(one)
            elif not is_inexact(one):
                self._copies[id(one)] = one.clone()

    def run_precisely(self, out: Any) -> Any:
        """Run the op on the float64 values of its arguments, after it has run as written.

        Raises:
            Exception: whatever the op raises if it has no float64 form.
        """
        precise = {name: self._precise(value, name) for name, value in self._given.items()}
        self._precise_keys = {_torch.storage_key(one) for one in tensors_in(precise) if one.layout == torch.strided}
        with nullcontext() if self.is_inexact else _float64_by_default():
            if self.name not in TWINS:
                values = [precise[name] for name in list(precise)[: len(self._args)]]
                return self._op(*values, **{name: precise[name] for name in self._kwargs})
            if can_draw(precise):
                raise NotImplementedError(f"{self.name} drops weights by a mask of its own")
            return TWINS[self.name](precise, out)

    def write_back(self) -> None:
        """Give the tensors that the op has written what it has written in float64."""
        kept = [one for name in _AS_THEY_ARE for one in tensors_in(self._given.get(name))]
        for one in self.written:
            if _is_among(one, kept):
                self._shadows.forget(one)
            elif id(one) in self._copies:
                one.copy_(self._copies[id(one)])
                self._shadows.forget(one)
            else:
                rounded(one, self._shadows.read(one))

    def forget(self) -> None:
        """Let what the op has written in its own dtype be the exact values."""
        for one in self.tensors if self.is_opaque else self.written:
            self._shadows.forget(one)

    def settle(self, face: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return a new result of the op, rounded from its float64 values, which are kept beside it."""
        if face.layout == torch.strided and _torch.storage_key(face) in self._keys:
            return face
        if face.shape != value.shape or (is_inexact(face) and not has_shadow(face)):
            # How many values there are depends on values, and float64 has the last word; or no shadow can be.
            face = value.to(face.dtype, copy=True)
        if has_shadow(face):
            shared = _torch.storage_key(value) in self._precise_keys
            self._shadows.adopt(face, value.clone() if shared else value)
        return rounded(face, value)

    def random_states(self) -> list[torch.Tensor]:
        """Return where the random numbers stand that the op may draw from, none if it draws none."""
        if torch.Tag.nondeterministic_seeded not in getattr(self._op, "tags", ()):
            return []
        given = self._kwargs.get("generator")
        devices = {one.device for one in self.tensors if one.device.type not in ("cpu", "meta")}
        states = [torch.get_device_module(device).get_rng_state(device) for device in sorted(devices, key=str)]
        return [torch.get_rng_state(), *states, *([given.get_state()] if given is not None else [])]

    def _precise(self, value: Any, name: str) -> Any:
        if name in _AS_THEY_ARE:
            return value
        if name == "half_to_float":
            # A softmax that makes float32 of half precision on its way, and takes nothing else.
            return False
        if isinstance(value, torch.dtype):
            return wide(value)
        if isinstance(value, torch.Tensor):
            return self._precise_tensor(value)
        return type(value)(self._precise(one, name) for one in value) if isinstance(value, (list, tuple)) else value

    def _precise_tensor(self, value: torch.Tensor) -> torch.Tensor:
        if not _is_among(value, self.written):
            return self._shadows.read(value)
        if has_shadow(value):
            return self._shadows.write(value)
        if is_inexact(value):
            raise NotImplementedError(f"{self.name} writes to a tensor that float64 values can't stand beside")
        return self._copies[id(value)]


def merged(out: Any, precise: Any, settle: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Any:
    """Return an op's results as they were written, with `settle` of each tensor and its float64 values."""
    if out is None or precise is None:
        return out
    if isinstance(out, torch.Tensor):
        return settle(out, precise)
    if isinstance(out, (list, tuple)):
        return type(out)(merged(one, value, settle) for one, value in zip(out, precise, strict=True))
    # A number or a truth value read from a tensor.
    return precise


def rounded(face: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return `face` with `value` written to it, unless elements of it share memory."""
    if face.layout != torch.strided or face.is_nested:
        return face
    shares = any(stride == 0 and size > 1 for size, stride in zip(face.shape, face.stride(), strict=True))
    return face if shares else face.copy_(value)


def _is_among(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> bool:
    return any(tensor is one for one in tensors)


@contextmanager
def _float64_by_default() -> Iterator[None]:
    """Make whole numbers become float64 where they become floating-point."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
