"""What a tensor is apart from its contents: its gradient, its place in a graph, and which memory it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.state.kept import Kept


def has_storage(tensor: torch.Tensor) -> bool:
    """Return whether a tensor looks at memory of its own: not a sparse one, nor one made of others."""
    if tensor.layout != torch.strided or torch.nn.parameter.is_lazy(tensor) or _torch.inner_tensors(tensor):
        return False
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return False
    return True


class TensorKept(Kept):
    """A tensor with what can be changed without writing into its memory: by `.data =`, `set_`, `resize_`, `.grad =`."""

    def __init__(self, path: str, tensor: torch.Tensor) -> None:
        self.path, self.tensor = path, tensor
        self.node = tensor.grad_fn
        self._grad, self._requires_grad = _torch.grad_of(tensor), tensor.requires_grad
        # Looks at the same memory in the same way, and holds on to it.
        self._like = tensor.detach() if has_storage(tensor) else None
        self._look, self._class = self._looks(), type(tensor)

    def _looks(self) -> tuple[Any, ...] | None:
        tensor = self.tensor
        if self._like is None:
            return None
        if tensor.is_nested:
            # It has a shape for each part, and no op changes them in place.
            return (_torch.storage_key(tensor), tensor.dtype)
        return (_torch.storage_key(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)

    def changed(self) -> bool:
        """Return whether it is different now."""
        tensor = self.tensor
        return (
            tensor.requires_grad is not self._requires_grad
            or tensor.grad_fn is not self.node
            or _torch.grad_of(tensor) is not self._grad
            or self._looks() != self._look
            or type(tensor) is not self._class
        )

    def looks_elsewhere(self) -> bool:
        """Return whether it looks at other memory now, or in another way."""
        return self._looks() != self._look

    def put_back(self) -> None:
        """Make it what it was.

        Raises:
            RuntimeError: its place in a graph or its class has changed, which can't be undone.
        """
        tensor = self.tensor
        if type(tensor) is not self._class:
            raise RuntimeError("it has been given its shape, or another class")
        if tensor.grad_fn is not self.node:
            self._leave_graph()
        if self._like is not None and self._looks() != self._look:
            tensor.data = self._like
        if tensor.requires_grad is not self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
        if _torch.grad_of(tensor) is not self._grad:
            tensor.grad = self._grad

    def _leave_graph(self) -> None:
        if self.node is not None or _torch.base_of(self.tensor) is not None:
            raise RuntimeError("it has another place in the graph now")
        self.tensor.detach_()


class SparseKept(Kept):
    """Which indices and values a sparse tensor is made of. What is in these is put back as other memory is."""

    def __init__(self, path: str, tensor: torch.Tensor) -> None:
        self.path, self._tensor, self._like = path, tensor, tensor.detach()
        self.parts = _torch.sparse_parts(tensor)
        self._look = self._looks()

    def _looks(self) -> tuple[Any, ...]:
        tensor, parts = self._tensor, _torch.sparse_parts(self._tensor)
        joined = tensor.layout == torch.sparse_coo and tensor.is_coalesced()
        return (tensor.shape, joined, *((_torch.storage_key(part), part.shape, part.stride()) for part in parts))

    def changed(self) -> bool:
        """Return whether it is different now."""
        return self._looks() != self._look

    def put_back(self) -> None:
        """Make it what it was, in place."""
        self._tensor.data = self._like

    def replaced(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of what it holds now and did not hold then."""
        if self.changed():
            yield self.path, self._tensor
