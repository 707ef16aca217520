"""How many bytes of a storage its views touch, each byte counted once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Above these the exact union is left: it would cost more than the figure is worth.
MOST_VIEWS = 4096
MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class View:
    """Where the elements of a tensor lie in its storage, in bytes.

    `runs` are the (size, stride) of its dimensions, without those of size one or stride zero, the smallest stride
    first; the bytes of one element are the first of them.
    """

    offset: int
    runs: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """The bytes touched: those of distinct elements, at most all from the first to the last."""
        return min(math.prod(size for size, _ in self.runs), self.end - self.offset)

    @property
    def end(self) -> int:
        """The first byte after the last one touched."""
        return self.offset + sum((size - 1) * stride for size, stride in self.runs) + 1 if self.runs else self.offset

    @property
    def overlaps(self) -> bool:
        """Whether a byte may be reached in more than one way, as in windows that step by less than their length."""
        lengths = itertools.accumulate(((size - 1) * stride for size, stride in self.runs), initial=1)
        return any(stride < length for (_, stride), length in zip(self.runs, lengths, strict=False))

    def contiguous(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the length of the runs without a gap, and the (size, stride) of the dimensions outside them."""
        length = 1
        for position, (size, stride) in enumerate(self.runs):
            if stride != length:
                return length, self.runs[position:]
            length *= size
        return length, ()


def view_of(tensor: torch.Tensor) -> View:
    """Return where the elements of a strided tensor lie; a tensor without elements touches nothing."""
    width = tensor.element_size()
    if tensor.numel() == 0:
        return View(0, ())
    outer = [(int(size), int(stride) * width) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    kept = sorted((pair for pair in outer if pair[0] > 1 and pair[1]), key=lambda pair: pair[1])
    element = [(width, 1)]
    return View(int(tensor.storage_offset()) * width, tuple(element + kept))


def union(views: Collection[View]) -> int:
    """Return how many bytes these views of one storage touch together.

    Exact as long as there are at most `MOST_VIEWS` of them on at most `MOST_CELLS` granules (a granule is the largest
    run that no view starts, ends or steps inside of); else the largest view's bytes.
    """
    touching = [view for view in views if view.nbytes]
    if not touching:
        return 0
    largest = max(view.nbytes for view in touching)
    span = max(view.end for view in touching) - min(view.offset for view in touching)
    plain = not any(view.overlaps for view in touching)
    if (plain and (largest == span or len(touching) == 1)) or len(touching) > MOST_VIEWS:
        return largest
    granule = _granule(touching)
    cells = max(view.end for view in touching) // granule
    return _marked(touching, granule, cells) * granule if cells <= MOST_CELLS else largest


def _granule(views: Collection[View]) -> int:
    sizes = []
    for view in views:
        length, outer = view.contiguous()
        sizes += [view.offset, length, *(stride for _, stride in outer)]
    return math.gcd(*sizes)


def _marked(views: Collection[View], granule: int, cells: int) -> int:
    """Return how many granules are in any view."""
    import torch

    mask = torch.zeros(cells, dtype=torch.bool, device="cpu")
    for view in views:
        length, outer = view.contiguous()
        sizes = [*(size for size, _ in outer), length // granule]
        strides = [*(stride // granule for _, stride in outer), 1]
        mask.as_strided(sizes, strides, view.offset // granule).fill_(value=True)
    return int(mask.sum())
