"""Random notebooks: a session is a few pieces of a user's program, their setup in plain cells and their uses in others.

Everything comes from one `random.Random`, so a seed names a session. Names end with the number of their piece (`f_3`);
`x`, `log` and `counts` are shared by all pieces.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from sessions.pieces import BODIES
from sessions.pieces import GLUE
from sessions.pieces import PIECES
from sessions.pieces import SHARED
from sessions.pieces import Piece

DRIVERS = ("explained", "watched", "benched")


@dataclass(frozen=True)
class Statement:
    """One statement, of one line or more, and the kind of piece that it belongs to."""

    kind: str
    text: str


@dataclass(frozen=True)
class Cell:
    """Statements, and the magic's first line for a cell that is run under one."""

    statements: tuple[Statement, ...]
    first: str = ""

    @property
    def body(self) -> str:
        """The source without the magic's line."""
        return "\n".join(each.text for each in self.statements)


@dataclass(frozen=True)
class _Filled:
    setup: str
    uses: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Session:
    """Cells in their order, and the driver that the cells with a first line are run under."""

    cells: tuple[Cell, ...]
    driver: str

    @property
    def tried(self) -> int:
        """How many cells are run under the magic."""
        return sum(bool(cell.first) for cell in self.cells)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its pieces, without the shared names."""
        found = {each.kind for cell in self.cells for each in cell.statements}
        return tuple(sorted(found - {"shared"}))


def session(seed: int, driver: str, only: Sequence[str] = ()) -> Session:
    """Return the session of a seed for "explained", "watched" or "benched"; `only` names the kinds it is made of."""
    draw = random.Random(f"{seed} {driver}")  # noqa: S311 - a repeatable choice
    names = sorted(only or PIECES)
    kinds = draw.sample(names, min(len(names), draw.choice((1, 1, 2, 2, 3, 4))))
    pieces = [_filled(draw, kind, PIECES[kind], number) for number, kind in enumerate(kinds, 1)]
    setup = [
        [Statement("shared", SHARED)],
        *[[Statement(kind, piece.setup)] for kind, piece in zip(kinds, pieces, strict=True)],
    ]
    late = draw.random() < 0.25 and len(pieces) > 1
    tried = [_uses(draw, kinds, pieces) for _ in range(draw.choice((1, 2, 2, 3)))]
    named = [target for piece in pieces[: len(pieces) - late] for target in piece.targets]
    if late:
        # The last piece is defined in the cell that first uses it.
        tried[0][:0] = setup.pop()
    cells = [Cell(tuple(each)) for each in setup]
    cells += [Cell(tuple(each), _first(draw, driver, each, named)) for each in tried]
    return Session(tuple(cells), driver)


def _filled(draw: random.Random, kind: str, piece: Piece, number: int) -> _Filled:
    def fill(text: str) -> str:
        text = re.sub(r"^( *)BODY$", lambda found: _body(draw, found[1]), text, flags=re.MULTILINE)
        text = re.sub(r"\b_C\b", lambda _: draw.choice(("0.5", "1.25", "2.0", "-1.0")), text)
        return re.sub(r"_N(?![A-Za-z0-9])", f"_{number}", text)

    return _Filled(fill(draw.choice(piece.setups)), *(tuple(map(fill, each)) for each in (piece.uses, piece.targets)))


def _body(draw: random.Random, indent: str) -> str:
    lines = draw.choices(sorted(BODIES), k=draw.choice((1, 1, 2, 2, 3)))
    return textwrap.indent("\n".join(lines), indent)


def _uses(draw: random.Random, kinds: Sequence[str], pieces: Sequence[_Filled]) -> list[Statement]:
    found = []
    for _ in range(draw.choice((1, 2, 2, 3, 4))):
        if draw.random() < 0.2:
            found.append(Statement("glue", draw.choice(GLUE)))
        kind, piece = draw.choice(list(zip(kinds, pieces, strict=True)))
        found.append(Statement(kind, _wrapped(draw, draw.choice(piece.uses))))
    if draw.random() < 0.3:
        found.append(Statement("display", draw.choice(("x", "x.sum();", "(x + 1).mean()", "log", "None", "len(log)"))))
    return found


_AROUND: Mapping[str, str] = {
    "": "{}",
    "loop": "for i_ in range(2):\n    {}",
    "if": "if len(log) >= 0:\n    {}",
    "no_grad": "with torch.no_grad():\n    {}",
    "try": "try:\n    {}\nexcept Exception as error_:\n    caught = type(error_).__name__, str(error_)",
    "finally": "try:\n    {}\nfinally:\n    log.append('finally')",
}


def _wrapped(draw: random.Random, use: str) -> str:
    around = draw.choices(sorted(_AROUND), weights=[12 if not each else 1 for each in sorted(_AROUND)])[0]
    if use.startswith(("%", "!", " ")) or "\n%" in use or "await" in use:
        return use
    return _AROUND[around].format(textwrap.indent(use, "    ").lstrip() if around else use)


def _first(draw: random.Random, driver: str, body: Sequence[Statement], named: Sequence[str]) -> str:
    first = FIRST[driver](draw, named)
    # As one function a cell can't have these, and the magic refuses it.
    refused = any(re.search(r"^ *(%|.*\bawait\b|.*= *!)", each.text, re.MULTILINE) for each in body)
    return first.replace(" --cell", "") if refused else first


def _explain_line(draw: random.Random, named: Sequence[str]) -> str:
    options = draw.choices(
        ("", "NAMED", "--cell", "--fresh", "--backend aot_eager", "--fullgraph", "--dynamic true", "--guards --graphs"),
        weights=(60, 18, 14, 8, 5, 4, 2, 4),
    )[0]
    return " ".join(f"%%compile_explain {_targets(draw, options, named)} {draw.choice(('-q', '-q', ''))}".split())


def _bench_line(draw: random.Random, named: Sequence[str]) -> str:
    options = draw.choices(("", "NAMED", "--cell"), weights=(70, 15, 15))[0]
    backend = draw.choice(("eager", "eager", "aot_eager"))
    return f"%%compile_bench {_targets(draw, options, named)} --budget 0.05 --backends {backend} -q".replace("  ", " ")


def _targets(draw: random.Random, options: str, named: Sequence[str]) -> str:
    return " ".join(draw.sample(named, min(len(named), draw.choice((1, 2))))) if options == "NAMED" else options


FIRST: Mapping[str, Callable[[random.Random, Sequence[str]], str]] = {
    "explained": _explain_line,
    "watched": lambda *_: "-",
    "benched": _bench_line,
}
