"""Float64 values beside the tensors of a program: one shadow for each storage that anything was written to."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from compile_magic import _torch

# Shadows of storages that are gone are looked for after so many new ones, or so many bytes of them.
_SWEEP_COUNT = 256
_SWEEP_BYTES = 64 * 2**20


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return float64 for a floating-point dtype, complex128 for a complex one, and others as they are."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def is_inexact(value: object) -> bool:
    """Return whether this is a tensor of floating-point or complex numbers."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def has_shadow(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's values can stand in a storage of ours: not those of a sparse or nested one."""
    return _is_plain(tensor) and not tensor.is_neg()


def _is_plain(tensor: torch.Tensor) -> bool:
    strided = tensor.layout == torch.strided and not tensor.is_nested and tensor.device.type != "meta"
    return strided and is_inexact(tensor)


@dataclass(frozen=True)
class _Shadow:
    """The float64 values of a storage, `unit` being the real dtype that its elements have."""

    storage: _torch.WeakStorage
    unit: torch.dtype
    values: torch.Tensor


class Shadows:
    """Float64 values by storage, so that every view of a tensor and `x.data` see the same ones.

    A storage has no shadow until something is written to it: its own values are then exact. An element of a
    complex tensor takes two of the shadow, so that `torch.view_as_real` keeps working.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Shadow] = {}
        self._new_count = self._new_bytes = self._bytes = 0

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor's values in float64: a view of its shadow, or a cast where it has none."""
        if not is_inexact(tensor):
            return tensor
        found = self._find(tensor) if _is_plain(tensor) else None
        if found is None:
            return tensor.to(wide(tensor.dtype))
        # There is no public way to make the lazy negative that torch makes of `x.conj().imag`.
        return -_view(found.values, tensor) if tensor.is_neg() else _view(found.values, tensor)

    def write(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a view of a tensor's shadow to write to; the shadow is made if there is none."""
        found = self._find(tensor) or self._add(tensor, _whole(tensor).to(torch.float64))
        return _view(found.values, tensor)

    def adopt(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Make `value`, a new tensor that nothing else holds, the float64 value of a new tensor."""
        same = value.stride() == tensor.stride() and value.storage_offset() == tensor.storage_offset() == 0
        length = _length(tensor)
        real = _whole(value)
        if same and self._find(tensor) is None and real.numel() == length:
            self._add(tensor, real)
        else:
            self.write(tensor).copy_(value)

    def forget(self, tensor: torch.Tensor) -> None:
        """Let a tensor's own values be the exact ones."""
        if tensor.layout == torch.strided and not tensor.is_nested:
            self._kept.pop(_torch.storage_key(tensor), None)

    def _find(self, tensor: torch.Tensor) -> _Shadow | None:
        found = self._kept.get(_torch.storage_key(tensor))
        if found is None or found.unit != tensor.dtype.to_real():
            return None
        missing = _length(tensor) - found.values.numel()
        if missing > 0:
            values = torch.cat([found.values, _whole(tensor)[-missing:].to(torch.float64)])
            return self._add(tensor, values)
        return found

    def _add(self, tensor: torch.Tensor, values: torch.Tensor) -> _Shadow:
        made = _Shadow(_torch.WeakStorage(tensor), tensor.dtype.to_real(), values)
        self._kept[_torch.storage_key(tensor)] = made
        self._new_count += 1
        self._new_bytes += values.nbytes
        if self._new_count > _SWEEP_COUNT or self._new_bytes > max(_SWEEP_BYTES, self._bytes / 4):
            self._sweep()
        return made

    def _sweep(self) -> None:
        self._kept = {key: shadow for key, shadow in self._kept.items() if shadow.storage.lives()}
        self._new_count, self._new_bytes = 0, 0
        self._bytes = sum(shadow.values.nbytes for shadow in self._kept.values())


def _length(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.dtype.to_real().itemsize


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all real numbers of a tensor's storage, as one row."""
    empty = torch.empty(0, dtype=tensor.dtype.to_real(), device=tensor.device)
    return empty.set_(tensor.untyped_storage(), 0, (_length(tensor),), (1,))


def _view(values: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        values = torch.view_as_complex(values[: values.numel() // 2 * 2].view(-1, 2))
    seen = values.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return seen.conj() if tensor.is_conj() else seen
