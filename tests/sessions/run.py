"""Play random sessions plainly and under a magic, and show what a user would be left with otherwise.

    python tests/sessions/run.py --explained 2000 --watched 500 --benched 300 --seed 0

The numbers count cells. Printed is a table of what differed by kind, and for each kind the smallest session that was
found. What differs in the same way when the callables are compiled by hand with torch.compile is counted apart.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sessions.grammar import DRIVERS
from sessions.grammar import Cell
from sessions.grammar import Session
from sessions.grammar import Statement
from sessions.grammar import session
from sessions.pieces import PIECES
from sessions.play import Difference
from sessions.play import Left
from sessions.play import Stage
from sessions.play import differences
from sessions.play import source

# A compile by hand leaves marks and entries too, so it excuses only what the cells compute and show.
EXCUSED_BY_HAND = frozenset({"value", "error", "stdout", "stderr", "shown", "generators", "names"})


@dataclass(frozen=True)
class Tried:
    """A session that was played: what is otherwise by our doing, and what by torch's."""

    session: Session
    seed: int
    ours: tuple[Difference, ...]
    torchs: tuple[Difference, ...]

    @property
    def kind(self) -> tuple[str, ...]:
        """What is otherwise, in short."""
        return tuple(dict.fromkeys(each.sort for each in self.ours))


def tried(play: Callable[..., list[Left]], played: Session, seed: int = 0) -> Tried:
    """Play a session plainly and under its magic, and where that differs, compiled by hand.

    Where `--cell` is refused, as it may be with one sentence that says so, the cell is tried without it.
    """
    plain, magic = play(played, "plain", "magic")
    allowed = tuple(map(_unless_refused, played.cells, magic.cells or [{}] * len(played.cells)))
    if allowed != played.cells:
        return tried(play, replace(played, cells=allowed), seed)
    found = list(differences(plain, magic))
    torchs: set[tuple[str, str]] = set()
    if played.driver == "explained" and any(each.aspect in EXCUSED_BY_HAND for each in found):
        (hand,) = play(played, "by hand")
        still = {(each.aspect, each.place) for each in differences(hand, magic)}
        torchs = {(each.aspect, each.place) for each in found if each.aspect in EXCUSED_BY_HAND} - still
    ours = tuple(each for each in found if (each.aspect, each.place) not in torchs)
    return Tried(played, seed, ours, tuple(each for each in found if each not in ours))


def _unless_refused(cell: Cell, ran: Mapping[str, Any]) -> Cell:
    kind, words = ran.get("error") or ("", "")
    refused = kind == "UsageError" and "leave --cell out" in words and "--cell" in cell.first
    return replace(cell, first=cell.first.replace(" --cell", "")) if refused else cell


def sessions(driver: str, cells: int, seed: int, only: Sequence[str] = ()) -> Iterator[tuple[int, Session]]:
    """Yield seeds with their sessions until as many cells are tried."""
    while cells > 0:
        made = session(seed, driver, only)
        yield seed, made
        cells -= made.tried
        seed += 1


def smallest(play: Callable[..., list[Left]], found: Tried, runs: int = 80) -> Tried:
    """Return the smallest session in which the same aspect is otherwise: without statements, then without lines."""
    sorts = set(found.kind)
    best, left = found, runs
    for split in (_without_statement, _without_options, _without_line):
        shrunk = True
        while shrunk and left > 0:
            shrunk = False
            for smaller in split(best.session):
                left -= 1
                again = tried(play, smaller, found.seed)
                if again.ours and sorts >= set(again.kind):
                    best, shrunk = again, True
                    break
                if left <= 0:
                    break
    return best


def _without_statement(whole: Session) -> Iterator[Session]:
    for c, cell in reversed(list(enumerate(whole.cells))[1:]):
        if len(whole.cells) > 2:
            yield replace(whole, cells=whole.cells[:c] + whole.cells[c + 1 :])
        for s in range(len(cell.statements)) if len(cell.statements) > 1 else ():
            yield _with(whole, c, replace(cell, statements=cell.statements[:s] + cell.statements[s + 1 :]))


def _without_options(whole: Session) -> Iterator[Session]:
    for c, cell in enumerate(whole.cells):
        words = cell.first.split()
        for w in range(1, len(words)):
            if words[w] in ("-q", "--cell", "--fresh", "--guards", "--graphs", "--fullgraph") or words[w][0] != "-":
                yield _with(whole, c, replace(cell, first=" ".join(words[:w] + words[w + 1 :])))
        if cell.first and cell.first != "-" and whole.tried > 1:
            yield _with(whole, c, replace(cell, first=""))


def _without_line(whole: Session) -> Iterator[Session]:
    for c, cell in list(enumerate(whole.cells))[1:]:
        for s, statement in enumerate(cell.statements):
            lines = statement.text.split("\n")
            for n in range(len(lines)) if len(lines) > 1 else ():
                less = Statement(statement.kind, "\n".join(lines[:n] + lines[n + 1 :]))
                statements = (*cell.statements[:s], less, *cell.statements[s + 1 :])
                yield _with(whole, c, replace(cell, statements=statements))


def _with(whole: Session, at: int, cell: Cell) -> Session:
    return replace(whole, cells=(*whole.cells[:at], cell, *whole.cells[at + 1 :]))


def shown(found: Tried) -> str:
    """Return a session that differs and how, to be read and typed."""
    cells = [source(cell, "magic") for cell in found.session.cells[1:]]
    lines = [
        f"seed {found.seed}, {found.session.driver}: {', '.join(found.session.kinds)}",
        *(f"In:  {_indented(each)}" for each in cells),
    ]
    for each in found.ours[:6]:
        lines += [f"  {each.aspect} {each.place}", f"    plain {each.plain!r}", f"    magic {each.magic!r}"]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n     ")


def main() -> int:
    """Play as many cells as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for driver in DRIVERS:
        parser.add_argument(f"--{driver}", type=int, default=0, metavar="CELLS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], choices=sorted(PIECES), help="pieces to make them of")
    parser.add_argument("--shrink", type=int, default=3, help="how many of a kind to make small (default 3)")
    arguments = parser.parse_args()
    stage = Stage()
    failed = 0
    for driver in DRIVERS:
        cells = getattr(arguments, driver)
        if cells:
            failed += _played(stage.play, driver, cells, arguments)
    return int(failed > 0)


def _played(play: Callable[..., list[Left]], driver: str, cells: int, arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    number = count = torchs = 0
    kinds: Counter[tuple[str, ...]] = Counter()
    found: list[Tried] = []
    for seed, made in sessions(driver, cells, arguments.seed, arguments.only):
        each = tried(play, made, seed)
        number, count = number + 1, count + made.tried
        torchs += bool(each.torchs) and not each.ours
        if each.ours:
            failing = each.kind
            kinds[failing] += 1
            small = smallest(play, each) if kinds[failing] <= arguments.shrink else each
            found.append(small)
            print(shown(small) if small is not each else f"seed {seed}: again {failing}", flush=True)
    seconds = time.perf_counter() - began
    print(
        f"\n{driver}: {count} cells in {number} sessions, {len(found)} sessions otherwise, "
        f"{torchs} as by hand; {number / seconds:.1f} sessions/s"
    )
    for failing, times in kinds.most_common():
        print(f"  {times:5d}  {', '.join(failing)}")
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
