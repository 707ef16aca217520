"""What one eager run moves and computes: bytes, flops, elements of pointwise ops, and how many ops it issues."""

from __future__ import annotations

from collections import Counter
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.floor.op_call import Call
from compile_magic.measure.floor.op_call import Move
from compile_magic.measure.floor.op_call import in_parts
from compile_magic.measure.floor.op_call import storage_of
from compile_magic.measure.floor.pointwise import costed
from compile_magic.measure.floor.touched import View
from compile_magic.measure.floor.touched import union
from compile_magic.measure.floor.touched import view_of
from compile_magic.measure.tensors import tensors_in


@dataclass(frozen=True)
class Counted:
    """What a run needs of one kind of device; dtypes are named as in "float32".

    `eager_bytes` is the sum over ops of the bytes that each reads and writes; views and other changes of metadata move
    nothing. `bytes_moved` is what a perfectly fused run must move: of each storage from before the run the bytes read
    and the bytes written, each once, and the bytes written of each storage that the run made and that it leaves. A
    lookup (embedding, gather, indexing) reads only the rows that it takes. `flops` are those of matrix products,
    convolutions and attention by dtype (torch's formulas), `pointwise` the elements by (op, dtype), `op_count` the ops
    that launch work, `largest` the elements of the largest of them. `unread` are ops that could not be counted.
    """

    device: str = "cpu"
    bytes_moved: int = 0
    eager_bytes: int = 0
    flops: Mapping[str, int] = field(default_factory=dict)
    pointwise: Mapping[tuple[str, str], int] = field(default_factory=dict)
    op_count: int = 0
    largest: int = 0
    unread: int = 0


@dataclass
class _Storage:
    """What happened to one storage; `overwritten` once all of it was written, so that nobody has to fetch it."""

    weak: _torch.WeakStorage
    device: str
    born: bool
    reads: set[View] = field(default_factory=set)
    writes: set[View] = field(default_factory=set)
    rows_read: int = 0
    rows_written: int = 0
    overwritten: bool = False

    def note(self, move: Move) -> None:
        """Take a read or a write into account."""
        view = view_of(move.tensor)
        if move.writes:
            self._note_write(move, view)
        elif self.born or self.overwritten:
            return
        elif move.whole:
            self.reads.add(view)
        else:
            self.rows_read = max(self.rows_read, move.nbytes)

    def _note_write(self, move: Move, view: View) -> None:
        if move.whole:
            self.writes.add(view)
            self.overwritten |= view.nbytes == move.tensor.untyped_storage().nbytes()
        else:
            self.rows_written = max(self.rows_written, move.nbytes)

    def least_bytes(self) -> int:
        """Return the bytes that any run has to move: those read that were there before, and those written."""
        return max(union(self.reads), self.rows_read) + max(union(self.writes), self.rows_written)


@dataclass
class _Tally:
    """The sums of one kind of device."""

    eager_bytes: int = 0
    flops: Counter[str] = field(default_factory=Counter)
    pointwise: Counter[tuple[str, str]] = field(default_factory=Counter)
    op_count: int = 0
    largest: int = 0


class Traffic(_torch.DispatchMode):
    """Counts the ops of the code inside; results are as without it.

    ::

        with Traffic() as traffic:
            run()
        traffic.finish()  # while the run's results are still held
        traffic.counted()

    Ops are seen below autograd and autocast, so a backward counts too, each op in the dtype that it really has. Ops on
    tensor subclasses are left to the subclass and counted as the ops that it makes of them. Sparse and opaque tensors
    move nothing here, as do those on the meta device. It may be stacked with other dispatch modes.
    """

    def __init__(self) -> None:
        super().__init__()
        # Looking up the first formula imports a lot: not in the middle of the run.
        _torch.flop_formula(torch.ops.aten.mm.default)
        self._storages: dict[int, _Storage] = {}
        self._tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._devices: set[str] = set()
        self._moved: Counter[str] | None = None
        self._unread = 0

    @property
    def devices(self) -> frozenset[str]:
        """The devices of the tensors that were used, as "cpu" or "cuda:0"."""
        return frozenset(self._devices)

    def finish(self, held: Iterable[torch.Tensor] | None = None) -> None:
        """Note which of the storages that the run made it leaves. The first call counts: make it with results held.

        Args:
            held: the results of the run, with gradients. Other storages that still live aren't counted then: what
                autograd keeps for a backward need not be written by a fused run. None counts all that live.
        """
        if self._moved is not None:
            return
        keys = {storage_of(tensor) for tensor in held} if held is not None else self._storages.keys()
        self._moved = Counter()
        for key, storage in self._storages.items():
            if not storage.born or (key in keys and storage.weak.lives()):
                self._moved[storage.device] += storage.least_bytes()
        self._storages.clear()

    def counted(self) -> Counted:
        """Return what was counted, on the accelerator if the run used one, else on the CPU."""
        self.finish()
        device = next((name for name in sorted(self._tallies) if name != "cpu"), "cpu")
        tally, moved = self._tallies[device], self._moved or Counter()
        return Counted(
            device=device,
            bytes_moved=moved[device],
            eager_bytes=tally.eager_bytes,
            flops=dict(tally.flops),
            pointwise=dict(tally.pointwise),
            op_count=tally.op_count,
            largest=tally.largest,
            unread=self._unread,
        )

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an op, and count what it did."""
        kwargs = kwargs or {}
        if any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented
        if _torch.op_arguments(op) is None:
            return op(*args, **kwargs)
        if in_parts(op, args):
            with self:
                return op.decompose(*args, **kwargs)
        result = op(*args, **kwargs)
        try:
            self._count(Call(op, args, kwargs, result))
        except Exception:  # noqa: BLE001 - whatever this tensor is, the run goes on as without us
            self._unread += 1
        return result

    def _count(self, call: Call) -> None:
        self._devices.update(str(tensor.device) for tensor in tensors_in((call.result, call.tensors)))
        # `torch.tensor` writes its data without an op, and shows itself by this one.
        literal = call.name == "lift_fresh"
        for tensor in call.tensors if literal else call.made:
            storage = self._storage(tensor, born=True)
            if storage is not None and literal:
                storage.writes.add(view_of(tensor))
        if not call.is_free:
            self._count_work(call)

    def _count_work(self, call: Call) -> None:
        for move in call.moves():
            self._tallies[move.tensor.device.type].eager_bytes += move.nbytes
            storage = self._storage(move.tensor, born=False)
            if storage is not None:
                storage.note(move)
        tally = self._tallies[next(tensors_in((call.result, call.tensors))).device.type]
        tally.op_count += 1
        tally.largest = max(tally.largest, call.elements)
        self._count_arithmetic(call, tally)

    def _count_arithmetic(self, call: Call, tally: _Tally) -> None:
        if flops := call.flops():
            tally.flops[call.matrix_dtype()] += flops
        name = costed(call.name, call.args, call.kwargs)
        if name is not None and call.dtype():
            tally.pointwise[name, call.dtype()] += call.elements

    def _storage(self, tensor: torch.Tensor, *, born: bool) -> _Storage | None:
        key = storage_of(tensor)
        if key is not None and key not in self._storages:
            self._storages[key] = _Storage(_torch.WeakStorage(tensor), tensor.device.type, born)
        return self._storages.get(key) if key is not None else None
