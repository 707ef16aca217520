"""Bars of block characters, which stand in a text, in a page without its styles, and in what is copied from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

WIDTH = 10
SPLIT_WIDTH = 24
# Told apart without colour; after these they begin again.
FILLS = "█▓▒░▚"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = WIDTH) -> str:
    """Return a share between 0 and 1 as a bar, in eighths of a character; what isn't nought is never invisible."""
    if not math.isfinite(share) or share <= 0:
        return ""
    eighths = max(1, round(min(share, 1.0) * width * 8))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def pieces(amounts: Sequence[float], most: float, width: int = SPLIT_WIDTH) -> list[str]:
    """Return a piece of a bar for each amount; `most` fills the width. Pieces end where the sums so far do."""
    ends, so_far = [0], 0.0
    for amount in amounts:
        so_far += amount
        ends.append(round(min(1.0, so_far / most) * width) if most > 0 else 0)
    return [FILLS[at % len(FILLS)] * (end - start) for at, (start, end) in enumerate(pairwise(ends))]
