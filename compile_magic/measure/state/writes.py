"""See each write of a run before it happens, and refuse the ones that can't be undone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any
from typing import ClassVar
from typing import Protocol

import torch

from compile_magic import _torch
from compile_magic.measure.tensors import tensors_in


class UnrepeatableError(BaseException):  # an `except Exception` of the user's must not swallow it
    """The work has begun to do what can't be done twice, or can't be undone; it has not been done.

    The message is a line that says what, and what to do.
    """

    # Those since the last look, as a bare `except` of the user's takes one away.
    since: ClassVar[list[UnrepeatableError]] = []

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.since.append(self)


@contextmanager
def refusals_stand() -> Iterator[None]:
    """Raise at the end what was refused inside, also where the user's code has gone on or raised something else.

    Raises:
        UnrepeatableError: the first of them.
    """
    UnrepeatableError.since.clear()
    try:
        yield
    finally:
        refused = [*UnrepeatableError.since]
        UnrepeatableError.since.clear()
        if refused:
            raise refused[0]


class Watcher(Protocol):
    """Is told of writes before they happen."""

    def before_write(self, tensor: torch.Tensor, *, joins_graph: bool) -> None:
        """Get ready for a write into a tensor; `joins_graph` says that it becomes part of a graph by that."""

    def taken(self, tensor: torch.Tensor) -> None:
        """Take note of a tensor that an op is about to read or write."""

    def given(self, tensor: torch.Tensor) -> None:
        """Take note of a tensor that an op has given, a new one or a view."""


# Ops that write arguments without saying so in their schema: the running statistics of batch norm, and the weights of
# cudnn's RNNs, which are moved into one piece of memory.
_STATISTICS = ("running_mean", "running_var")
UNSAID = {
    "aten::native_batch_norm": _STATISTICS,
    "aten::cudnn_batch_norm": _STATISTICS,
    "aten::miopen_batch_norm": _STATISTICS,
    "aten::batch_norm_gather_stats": _STATISTICS,
    "aten::batch_norm_gather_stats_with_counts": _STATISTICS,
    "aten::batch_norm_update_stats": _STATISTICS,
    "aten::_batch_norm_impl_index": _STATISTICS,
    "aten::batch_norm": _STATISTICS,
    "aten::instance_norm": _STATISTICS,
    "aten::_cudnn_rnn_flatten_weight": ("weight_arr",),
}


class Writes(_torch.DispatchMode):
    """While it is on, `watcher` is told of each write into a tensor before it happens."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self._watcher = watcher

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Tell of what the op writes, then run it."""
        kwargs = kwargs or {}
        arguments = list(tensors_in((args, kwargs)))
        for tensor in arguments:
            self._watcher.taken(tensor)
        targets = list(written(op, args, kwargs))
        joins = bool(targets) and _joins_graph(op, arguments)
        for target in targets:
            self._watcher.before_write(target, joins_graph=joins)
        result = op(*args, **kwargs)
        for tensor in tensors_in(result):
            self._watcher.given(tensor)
        return result


def _joins_graph(op: Any, arguments: Sequence[torch.Tensor]) -> bool:
    # Autograd differentiates writes of the kind `x.add_(y)` only, not statistics and not `out=`.
    in_place = _torch.op_name(op).endswith("_")
    return in_place and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in arguments)


def written(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments of an op that it writes; all, where it doesn't say."""
    places = _places(op)
    if places is None:
        yield from tensors_in((args, kwargs))
        return
    for position, name in places:
        yield from tensors_in(args[position] if position < len(args) else kwargs.get(name))


@functools.cache
def _places(op: Any) -> tuple[tuple[int, str], ...] | None:
    arguments = _torch.op_arguments(op)
    if arguments is None:
        return None
    unsaid = UNSAID.get(_torch.op_name(op), ())
    return tuple((n, name) for n, (name, writes, _) in enumerate(arguments) if writes or name in unsaid)
