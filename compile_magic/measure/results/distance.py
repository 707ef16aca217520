"""How far two rows of numbers are apart, a piece at a time, so that memory stays small."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

# 32 MB in float64, some five times over.
_PIECE = 2**22


@dataclass(frozen=True)
class Tolerance:
    """What may lie between a number and the expected one: `relative` * |expected| + `absolute`."""

    relative: float = 0.0
    absolute: float = 0.0


# The defaults of torch.testing.assert_close (torch 2.13, table in its documentation); a type that isn't here is exact.
_HALF = Tolerance(1e-3, 1e-5)
_SINGLE = Tolerance(1.3e-6, 1e-5)
_DOUBLE = Tolerance(1e-7, 1e-7)
TOLERANCES = {
    "float16": _HALF,
    "complex32": _HALF,
    "bfloat16": Tolerance(1.6e-2, 1e-5),
    "float32": _SINGLE,
    "complex64": _SINGLE,
    "float64": _DOUBLE,
    "complex128": _DOUBLE,
    # The value of a Python number comes from a tensor, mostly of float32.
    "float": _SINGLE,
    "complex": _SINGLE,
    # assert_close compares quantized tensors by the numbers they stand for, as float32.
    **dict.fromkeys(("quint8", "qint8", "qint32", "quint4x2", "quint2x4"), _SINGLE),
    # Not in that table: half a step of the format, as 1e-3 is two of float16 and 1.6e-2 four of bfloat16.
    "float8_e4m3fn": Tolerance(6.25e-2, 1e-5),
    "float8_e4m3fnuz": Tolerance(6.25e-2, 1e-5),
    "float8_e5m2": Tolerance(1.25e-1, 1e-5),
    "float8_e5m2fnuz": Tolerance(1.25e-1, 1e-5),
}
EXACT = Tolerance()


def tolerance_of(dtype: str) -> Tolerance:
    """Return the tolerance for a dtype by its name, that of the elements for a NumPy array ("numpy float32")."""
    return TOLERANCES.get(dtype.removeprefix("numpy "), EXACT)


@dataclass(frozen=True)
class Distance:
    """How far numbers are from the expected ones.

    `largest` is the largest |a - b|, `relative` the largest |a - b| / max(|b|, s) with s the root mean square of the
    finite b, or |a - b| itself where all b are 0. `rms` is the root mean square of |a - b|, `scale` is s. `beyond`
    counts the elements further apart than the tolerance, `at` is the place of the one that is furthest beyond it.
    Equal elements are 0 apart, also two NaN or two infinities; another NaN or infinity is infinitely far.
    """

    count: int = 0
    largest: float = 0.0
    relative: float = 0.0
    rms: float = 0.0
    scale: float = 0.0
    beyond: int = 0
    at: int = 0

    @property
    def relative_rms(self) -> float:
        """The root mean square of the differences beside that of the expected numbers."""
        return self.rms / self.scale if self.scale else self.rms


def distance(found: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance = EXACT, slack: float = 0.0) -> Distance:
    """Return how far the numbers of one row are from those of another of the same length.

    Args:
        found: one row, of any dtype.
        expected: one row.
        tolerance: what `beyond` counts by.
        slack: is added to the tolerance.
    """
    if not expected.numel():
        return Distance()
    scale = _root_mean_square(expected)
    pieces = [_of_piece(a, b, tolerance, slack, scale) for a, b in _pieces(found, expected)]
    worst = max(range(len(pieces)), key=lambda number: pieces[number][3])
    return Distance(
        count=expected.numel(),
        largest=max(piece[0] for piece in pieces),
        relative=max(piece[1] for piece in pieces),
        rms=math.sqrt(sum(piece[2] for piece in pieces) / expected.numel()),
        scale=scale,
        beyond=sum(piece[4] for piece in pieces),
        at=worst * _PIECE + pieces[worst][5],
    )


def _of_piece(
    found: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance, slack: float, scale: float
) -> tuple[float, float, float, float, int, int]:
    """Return the largest gap, absolute and relative, the sum of squares, the worst excess, the count beyond, where."""
    gap, size = _gap(found, expected), _inexact(expected).abs()
    relative = gap / size.clamp(min=scale) if scale else gap
    relative = torch.where(gap.isfinite(), torch.where(gap == 0, 0.0, relative), gap)
    allowed = (tolerance.absolute + slack + tolerance.relative * size).nan_to_num(nan=0.0, posinf=0.0)
    excess = gap - allowed
    at = int(excess.argmax())
    beyond = int((excess > 0).sum())
    return float(gap.max()), float(relative.max()), float(gap.square().sum()), float(excess[at]), beyond, at


def _gap(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return |found - expected|, 0 where both are the same or NaN, infinite where one is NaN or infinite."""
    same = (found == expected) | (found.isnan() & expected.isnan())
    gap = (_inexact(found) - _inexact(expected)).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    # Whole numbers from 2**53 on may be the same in float64 and yet differ.
    gap = gap if expected.is_floating_point() or expected.is_complex() else gap.clamp(min=1)
    return torch.where(same, 0.0, gap)


def _root_mean_square(values: torch.Tensor) -> float:
    squares, count = 0.0, 0
    for piece, _ in _pieces(values, values):
        size = _inexact(piece).abs()
        finite = size[size.isfinite()]
        squares, count = squares + float(finite.square().sum()), count + finite.numel()
    return math.sqrt(squares / count) if count else 0.0


def _pieces(found: torch.Tensor, expected: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for start in range(0, expected.numel(), _PIECE):
        piece = _exact(expected[start : start + _PIECE])
        yield _exact(found[start : start + _PIECE]).to(piece.device), piece


def _exact(values: torch.Tensor) -> torch.Tensor:
    # Apple's GPUs have no float64.
    values = values.cpu() if values.device.type == "mps" else values
    return _inexact(values) if values.is_floating_point() or values.is_complex() else values.to(torch.int64)


def _inexact(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.complex128 if values.is_complex() else torch.float64)
