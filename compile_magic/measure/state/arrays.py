"""The contents of numpy arrays. numpy itself is never imported here."""

from __future__ import annotations

import zlib
from typing import Any

from compile_magic.measure.state.contents import MOST_BYTES
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.randomness import numpy


class ArrayKept(Kept):
    """An array with its shape and contents; of a very large one only a checksum, which tells that it has changed."""

    def __init__(self, path: str, array: Any) -> None:
        self.path, self._array, self._shape = path, array, array.shape
        self._copy = array.copy(order="K") if array.nbytes <= MOST_BYTES else None
        self._checksum = _bytes_of(self._copy) if self._copy is not None else _sum_of(array)

    def changed(self) -> bool:
        """Return whether it is different now."""
        now = _bytes_of(self._array) if self._copy is not None else _sum_of(self._array)
        return self._array.shape != self._shape or now != self._checksum

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


def _bytes_of(array: Any) -> bytes:
    return bytes(array.tobytes())


def _sum_of(array: Any) -> int:
    return zlib.crc32(array if array.flags.c_contiguous else array.tobytes())
