"""Fit drawn blocks into a number of lines: long blocks give way first, and what is cut is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEPS = 4


@dataclass(frozen=True)
class Item:
    """Lines that stay together, how many findings they hold, and their short form for when room is scarce."""

    lines: tuple[str, ...]
    findings: int = 1
    brief: tuple[str, ...] | None = None

    def short(self) -> tuple[str, ...]:
        """Return the short form, or all lines where there is none."""
        return self.lines if self.brief is None else self.brief


@dataclass(frozen=True)
class Drawn:
    """A block as lines. `more` names the rest, `weight` says how many times its share of the room it gets.

    `undrawn` is how many findings come after the items, which find no room however it is shared; `apart` puts
    an empty line before the block.
    """

    items: tuple[Item, ...]
    head: tuple[str, ...] = ()
    more: str = ""
    weight: int = 1
    undrawn: int = 0
    apart: bool = True

    def lines(self) -> list[str]:
        """Return all lines."""
        return [*self.head, *(line for item in self.items for line in item.lines)]


def fit(drawn: Sequence[Drawn], room: int) -> list[str]:
    """Return the lines of all blocks, none longer than the greatest share at which all fit into `room`."""
    shares = (step / STEPS for step in range(room * STEPS, 0, -1))
    tries = (_joined(drawn, share) for share in shares)
    return next((lines for lines in tries if len(lines) <= room), _joined(drawn, 0)[:room])


def _joined(drawn: Sequence[Drawn], share: float) -> list[str]:
    lines: list[str] = []
    for block in drawn:
        kept = _cut(block, max(1, int(share * block.weight)))
        lines += ["", *kept] if block.apart and lines and kept else kept
    return lines


def _cut(block: Drawn, most: int) -> list[str]:
    """Return at most `most` lines: as many items as fit in short, and of these the first ones whole."""
    whole = block.lines()
    if len(whole) + bool(block.undrawn) <= most or not block.more:
        return [*whole, *_rest(block, len(block.items))][:most]
    head = block.head if most >= len(block.head) + 2 else block.head[: max(0, most - 2)]
    kept = _fitting(block.items, most - len(head) - 1)
    room = most - len(head) - 1 - sum(map(len, kept))
    for at, short in enumerate(kept):
        room -= len(block.items[at].lines) - len(short)
        if room < 0:
            break
        kept[at] = block.items[at].lines
    return [*head, *(line for lines in kept for line in lines), *_rest(block, len(kept))]


def _fitting(items: Sequence[Item], room: int) -> list[tuple[str, ...]]:
    kept: list[tuple[str, ...]] = []
    for item in items:
        room -= len(item.short())
        if room < 0:
            break
        kept.append(item.short())
    return kept


def _rest(block: Drawn, at: int) -> list[str]:
    left = sum(item.findings for item in block.items[at:]) + block.undrawn
    words = f"… and {left} more" if any(item.findings for item in block.items[:at]) else f"… {left}"
    return [f"  {words} in {block.more}"] if left else []
