"""The bytes of the memory that the user's tensors look at: copied, compared, put back.

All of it is copied at the start where it is small, which covers a write that only the tenth run makes, or one that
torch doesn't see. Otherwise memory is copied when a watched run is about to write it, and a checksum of the rest tells
at the end whether another run has written it, too.

A copy lies on the device while copies take no more than a part of what is free there, so that a run has the rest, else
in the host's memory. Where that has no room either, the write is refused. To compare and to put back takes no memory
but a chunk of fixed size.

Everything goes through tensors of bytes of our own on the same memory, so that torch counts no write of the user's
tensors, and NaNs are compared as what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator

import torch

from compile_magic import _torch
from compile_magic.measure.state.room import SHARE_OF_HOST
from compile_magic.measure.state.room import free_bytes
from compile_magic.measure.state.room import has_room

# Copies of this much take less than half a second, and no more of a device than a run can do without.
MOST_BYTES = 1 << 30
SHARE_OF_FREE = 0.25
# Bytes that are compared or summed up at once.
_CHUNK = 1 << 24
_WORD = 8
# 2**64 divided by the golden ratio, as Knuth's multiplicative hashing has it, read as a signed number.
_MULTIPLIER = -7046029254386353131
_HOST = torch.device("cpu")


class Stored:
    """The memory of one or more tensors."""

    def __init__(self, path: str, tensor: torch.Tensor) -> None:
        self.path = path
        self.storage = tensor.untyped_storage()
        self.nbytes = self.storage.nbytes()
        self.device = self.storage.device
        self.written = False
        self.copy: torch.Tensor | None = None
        self.checksum: torch.Tensor | None = None
        with torch.inference_mode(mode=False):
            self._live = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self.storage)

    def keep(self, where: torch.device) -> None:
        """Copy the bytes as they are now.

        Raises:
            MemoryError, torch.OutOfMemoryError: there is no room. Nothing is kept then.
        """
        if self.copy is not None:
            return
        if where != self.device:
            self.keep_checksum()
        with torch.inference_mode(mode=False):
            copy = torch.empty(self.nbytes, dtype=torch.uint8, device=where)
            self.copy = copy.copy_(self._live)

    def keep_checksum(self) -> None:
        """Remember enough to tell whether the bytes are others."""
        if self.checksum is None:
            self.checksum = checksum(self._live)

    def differs(self) -> bool:
        """Return whether the bytes are not those of the copy, or of the checksum where there is no copy beside them."""
        if self.storage.nbytes() != self.nbytes:
            return True
        if self.copy is not None and self.copy.device == self.device:
            return not _equal(self._live, self.copy)
        return self.checksum is not None and bool((checksum(self._live) != self.checksum).item())

    def put_back(self) -> None:
        """Write the copied bytes to where they were; the address stays the same unless the memory was resized."""
        if self.storage.nbytes() != self.nbytes:
            self.storage.resize_(self.nbytes)
        if self.copy is not None:
            self._live.copy_(self.copy)


class Contents:
    """The memory of the tensors that a walk has found."""

    def __init__(self) -> None:
        self._stored: dict[int, Stored] = {}
        # Known to be written, as (number, memory): what is put back between runs.
        self._written: dict[int, Stored] = {}

    def add(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Remember the memory of more tensors."""
        new: dict[int, Stored] = {}
        for path, tensor in tensors:
            key = _torch.storage_key(tensor)
            if key not in self._stored and key not in new and tensor.device.type != "meta":
                new[key] = Stored(path, tensor)
        for device in {stored.device for stored in new.values()}:
            self._begin(device, [stored for stored in new.values() if stored.device == device])
        self._stored.update(new)

    def _begin(self, device: torch.device, there: list[Stored]) -> None:
        # What was copied before counts, too: tensors are found in the middle of a run as well.
        small = self._copied_on(device) + sum(stored.nbytes for stored in there) <= limit(device)
        for stored in there:
            if small:
                stored.keep(device)
            else:
                stored.keep_checksum()

    def _copied_on(self, device: torch.device) -> int:
        copies = (stored.copy for stored in self._stored.values() if stored.copy is not None)
        return sum(copy.numel() for copy in copies if copy.device == device)

    @property
    def copied_bytes(self) -> int:
        """Return how many bytes the copies take."""
        return sum(stored.nbytes for stored in self._stored.values() if stored.copy is not None)

    def before_write(self, path: str, tensor: torch.Tensor) -> None:
        """Copy the memory of a tensor that is about to be written.

        Raises:
            MemoryError, torch.OutOfMemoryError: there is no room for the copy.
        """
        key = _torch.storage_key(tensor)
        if key in self._written or tensor.device.type == "meta":
            return
        stored = self._stored.get(key) or Stored(path, tensor)
        if stored.copy is None:
            stored.keep(self._place(stored))
        self._stored[key] = stored
        self._note(key, stored)

    def _place(self, stored: Stored) -> torch.device:
        """Return where there is room for a copy.

        Raises:
            MemoryError: nowhere.
        """
        device, size = stored.device, stored.nbytes
        if device.type != "cpu":
            copied = self._copied_on(device)
            free = free_bytes(device)
            if free is None or copied + size <= SHARE_OF_FREE * (free + copied):
                return device
        if not has_room(size):
            raise MemoryError
        return _HOST

    def _note(self, key: int, stored: Stored) -> None:
        stored.written = True
        self._written[key] = stored

    def knows(self, tensor: torch.Tensor) -> bool:
        """Return whether the memory of a tensor was there before the run."""
        return _torch.storage_key(tensor) in self._stored

    def is_written(self, tensor: torch.Tensor) -> bool:
        """Return whether the memory of a tensor is known to be written by the runs."""
        return _torch.storage_key(tensor) in self._written

    @property
    def any_written(self) -> bool:
        """Return whether any memory is known to be written by the runs."""
        return bool(self._written)

    def look(self) -> None:
        """Find memory that was written without a sign of it. What has no copy is looked at in the end only."""
        for key, stored in self._stored.items():
            known = stored.written or (stored.copy is None and stored.storage.nbytes() == stored.nbytes)
            if not known and stored.differs():
                self._note(key, stored)

    def put_back(self) -> None:
        """Put back the memory that runs are known to write."""
        for stored in self._written.values():
            stored.put_back()

    def put_back_all(self) -> Iterator[str]:
        """Put back each byte that is another one now; yield the paths of what has no copy, or no room any more."""
        yield from (stored.path for stored in self._stored.values() if not _is_back(stored))


def _is_back(stored: Stored) -> bool:
    try:
        if not stored.differs():
            return True
        stored.put_back()
    except (MemoryError, RuntimeError):
        return False
    return stored.copy is not None


def limit(device: torch.device) -> int:
    """Return how many bytes on a device are copied at the start: 1 GiB, or a quarter of an accelerator's free ones."""
    free = free_bytes(device)
    if device.type == "cpu":
        return MOST_BYTES if free is None else min(MOST_BYTES, int(SHARE_OF_HOST * free))
    return int(free * SHARE_OF_FREE) if free is not None else MOST_BYTES


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return all(map(torch.equal, torch.split(one, _CHUNK), torch.split(other, _CHUNK)))


def checksum(live: torch.Tensor) -> torch.Tensor:
    """Return a number, on the same device, that all but surely is another one if any byte or their order is."""
    words, most = live[: live.numel() // _WORD * _WORD].view(torch.int64), _CHUNK // _WORD
    total = live[words.numel() * _WORD :].sum(dtype=torch.int64)
    weights = torch.arange(1, min(most, words.numel()) + 1, device=live.device) * _MULTIPLIER | 1
    for chunk in torch.split(words, most):
        total = total * _MULTIPLIER + (chunk * weights[: chunk.numel()]).sum()
    return total
