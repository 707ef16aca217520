"""One call of an op: which tensors it reads and writes, and how much it computes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.floor.touched import view_of
from compile_magic.measure.tensors import tensors_in


@dataclass(frozen=True)
class Move:
    """A tensor that an op reads or writes, and how many bytes of it."""

    tensor: torch.Tensor
    writes: bool
    nbytes: int
    whole: bool = True


@dataclass(frozen=True, eq=False)
class Call:
    """An op, its arguments and what it gave."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any

    @cached_property
    def name(self) -> str:
        """The op's name without namespace and overload, like "add_"."""
        return _torch.op_name(self.op).rpartition("::")[2]

    @cached_property
    def arguments(self) -> list[tuple[str, bool, Any]]:
        """(name, whether it is written, value) of each argument that was given."""
        known = _torch.op_arguments(self.op) or []
        given = [(name, writes, value) for (name, writes, _), value in zip(known, self.args, strict=False)]
        return given + [(name, writes, self.kwargs[name]) for name, writes, _ in known if name in self.kwargs]

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments."""
        return [tensor for _, _, value in self.arguments for tensor in tensors_in(value)]

    @cached_property
    def made(self) -> list[torch.Tensor]:
        """The results that are on storages of their own, which none of the arguments has."""
        keys = {storage_of(tensor) for tensor in self.tensors}
        return [tensor for tensor in tensors_in(self.result) if storage_of(tensor) not in (None, *keys)]

    @cached_property
    def elements(self) -> int:
        """The elements of the largest tensor, or of all of a list that the op works through."""
        first = self.args[0] if self.args else None
        if isinstance(first, list | tuple) and self.name.startswith(("_foreach", "_fused")):
            return sum(tensor.numel() for tensor in tensors_in(first))
        return max((tensor.numel() for tensor in (*self.tensors, *tensors_in(self.result))), default=0)

    def dtype(self) -> str:
        """Return the floating dtype of the result, else of the arguments, as "float32"; "" where none is."""
        found = (tensor.dtype for tensor in (*tensors_in(self.result), *self.tensors))
        return next((short(dtype) for dtype in found if dtype.is_floating_point), "")

    def matrix_dtype(self) -> str:
        """Return the dtype of the first matrix among the arguments."""
        return next((short(tensor.dtype) for tensor in self.tensors if tensor.ndim > 1), self.dtype())

    @property
    def is_free(self) -> bool:
        """Whether the op moves no data: a view, a change of metadata, an allocation, a question about a tensor."""
        if self.name in ALLOCATES or torch.Tag.inplace_view in self.op.tags:
            return True
        if any(writes for _, writes, _ in self.arguments):
            return False
        return not self.made and self.name not in READS_ONLY

    def moves(self) -> Iterator[Move]:
        """Yield what the op reads and then what it writes; a view that it reads twice comes once."""
        if self.is_free:
            return
        reads = [move for name, writes, value in self.arguments for move in self._reads(name, writes, value)]
        yield from {(storage_of(move.tensor), view_of(move.tensor)): move for move in reads}.values()
        for name, writes, value in self.arguments:
            if writes and not (name == "grads" and self.name.startswith("_fused")):
                yield from (self._move(name, tensor, writes=True) for tensor in dense_in(value))
        yield from (Move(tensor, writes=True, nbytes=view_of(tensor).nbytes) for tensor in self.made)

    def _reads(self, name: str, writes: bool, value: Any) -> Iterator[Move]:  # noqa: FBT001 - a field of an argument
        # What is written by keyword is an out= argument. What x.new_zeros() and zeros_like(x) read is x's shape.
        overwrites = writes and (name in self.kwargs or self.name in OVERWRITES)
        if not overwrites and not self.name.startswith("new_") and not self.name.endswith("_like"):
            yield from (self._move(name, tensor, writes=False) for tensor in dense_in(value))

    def _move(self, name: str, tensor: torch.Tensor, *, writes: bool) -> Move:
        nbytes, rows = view_of(tensor).nbytes, ROWS.get(self.name)
        if rows is None or name != rows[0]:
            return Move(tensor, writes, nbytes)
        return Move(tensor, writes, min(nbytes, rows[1](self) * tensor.element_size()), whole=False)

    def flops(self) -> int:
        """Return the floating-point operations of a matrix product, convolution or attention by torch's formula."""
        formula = _torch.flop_formula(self.op)
        if formula is None or any(tensor.layout != torch.strided for tensor in self.tensors):
            return 0
        try:
            return int(formula(*self.args, **self.kwargs, out_val=self.result) * self._causal())
        except (TypeError, ValueError, AssertionError, AttributeError, RuntimeError):
            # The formula is of another version of the op.
            return 0

    def _causal(self) -> float:
        """Return which part of the attention is looked at: torch's formulas don't know of `is_causal`."""
        given = {name: value for name, _, value in self.arguments}
        if not given.get("is_causal"):
            return 1.0
        queries, keys = given["query"].shape[-2], given["key"].shape[-2]
        return float(sum(min(position + 1, keys) for position in range(queries)) / max(1, queries * keys))


ALLOCATES = frozenset(
    (
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
        "_empty_affine_quantized",
    )
)
# Ops that give no tensor and yet read one.
READS_ONLY = frozenset(("_local_scalar_dense", "equal"))
# Ops that write their first argument without reading it.
OVERWRITES = frozenset(
    ("copy_", "fill_", "zero_", "index_put_", "_index_put_impl_", "index_copy_", "scatter_", "normal_", "uniform_")
) | frozenset(
    (
        "bernoulli_",
        "random_",
        "exponential_",
        "log_normal_",
        "cauchy_",
        "geometric_",
        "_foreach_copy_",
        "_foreach_zero_",
    )
)


def _taken(call: Call) -> int:
    return max((tensor.numel() for tensor in tensors_in(call.result)), default=0)


def _bagged(call: Call) -> int:
    weight, indices = call.args[:2]
    return int(indices.numel() * weight.shape[-1])


def _source(position: int) -> Callable[[Call], int]:
    return lambda call: max((tensor.numel() for tensor in tensors_in(call.args[position:])), default=1)


# Op -> the argument of which it takes or writes only some elements, and how many.
ROWS: Mapping[str, tuple[str, Callable[[Call], int]]] = {
    "embedding": ("weight", _taken),
    **dict.fromkeys(("index_select", "gather", "index", "take"), ("self", _taken)),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), ("weight", _bagged)),
    **dict.fromkeys(("index_put_", "_index_put_impl_"), ("self", _source(2))),
    **dict.fromkeys(("index_add_", "index_copy_", "scatter_", "scatter_add_"), ("self", _source(2))),
}


def dense_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value that have bytes of their own to move."""
    return (tensor for tensor in tensors_in(value) if storage_of(tensor) is not None)


def storage_of(tensor: torch.Tensor) -> int | None:
    """Return the key of a tensor's storage, None for sparse, nested, opaque and meta tensors."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type == "meta":
        return None
    try:
        return _torch.storage_key(tensor)
    except (RuntimeError, NotImplementedError):
        return None


def short(dtype: torch.dtype) -> str:
    """Return the name of a dtype without its module."""
    return str(dtype).removeprefix("torch.")


@functools.lru_cache(maxsize=4096)
def _decomposes(op: Any, device_type: str) -> bool:
    return _torch.decomposes(op, device_type)


def in_parts(op: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an op arrived whole that runs as other ops, as in inference mode."""
    first = next(tensors_in(args), None)
    return first is not None and first.layout == torch.strided and _decomposes(op, first.device.type)
