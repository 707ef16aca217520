"""The contents of numpy arrays. numpy itself is never imported here."""

from __future__ import annotations

import zlib
from typing import Any

from compile_magic.measure.state.contents import MOST_BYTES
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.randomness import numpy
from compile_magic.measure.state.room import has_room

# Bytes that are compared at once.
_CHUNK = 1 << 24


class ArrayKept(Kept):
    """An array with its shape and contents; of a very large one only a checksum, which tells that it has changed."""

    def __init__(self, path: str, array: Any) -> None:
        self.path, self._array, self._shape = path, array, array.shape
        self._copy = array.copy(order="K") if can_copy(array) else None
        self._checksum = _sum_of(array) if self._copy is None else 0

    def changed(self) -> bool:
        """Return whether it is different now."""
        if self._array.shape != self._shape:
            return True
        return _sum_of(self._array) != self._checksum if self._copy is None else not _same(self._array, self._copy)

    def put_back(self) -> None:
        """Make it what it was.

        Raises:
            RuntimeError: it was too large for a copy.
        """
        if self._copy is None:
            raise RuntimeError("it was too large to be copied")
        if self._array.shape != self._shape:
            self._array.shape = self._shape
        flags = self._array.flags
        writeable = flags.writeable
        if not writeable:
            flags.writeable = True
        numpy().copyto(self._array, self._copy)
        if not writeable:
            flags.writeable = False


def can_copy(array: Any) -> bool:
    """Return whether there is room for a copy of an array."""
    return bool(array.nbytes <= MOST_BYTES or has_room(array.nbytes))


def _same(one: Any, other: Any) -> bool:
    """Return whether two arrays have the same bytes, a chunk at a time where they lie in one piece."""
    if not one.flags.forc or not other.flags.forc or one.dtype.hasobject or not one.itemsize:
        return bool(one.tobytes() == other.tobytes())
    plain = numpy().ndarray
    mine, theirs = (array.view(plain).ravel(order="K").view("u1") for array in (one, other))
    pieces = range(0, len(mine), _CHUNK)
    return all(bool((mine[n : n + _CHUNK] == theirs[n : n + _CHUNK]).all()) for n in pieces)


def _sum_of(array: Any) -> int:
    return zlib.crc32(array if array.flags.c_contiguous else array.tobytes())
