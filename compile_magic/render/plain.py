"""Plain text, by rich: at most 60 lines of at most 120 columns, however big the report is."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from compile_magic.render.bars import FILLS
from compile_magic.render.bars import SPLIT_WIDTH
from compile_magic.render.bars import bar
from compile_magic.render.bars import pieces
from compile_magic.render.fit import Drawn
from compile_magic.render.fit import Item
from compile_magic.render.fit import fit
from compile_magic.render.pen import Pen
from compile_magic.render.source import draw_source
from compile_magic.show.blocks import Alarm
from compile_magic.show.blocks import Alarms
from compile_magic.show.blocks import Bar
from compile_magic.show.blocks import Block
from compile_magic.show.blocks import Code
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Line
from compile_magic.show.blocks import Lines
from compile_magic.show.blocks import Pointer
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Shares
from compile_magic.show.blocks import SourceView
from compile_magic.show.blocks import Split
from compile_magic.show.blocks import Summary
from compile_magic.show.blocks import Table

MOST_LINES = 60
MOST_COLUMNS = 120
LEAST_COLUMNS = 40
TONES = {"good": "bold green", "warn": "bold yellow", "bad": "bold red"}


def render(blocks: Sequence[Block], *, width: int, color: bool) -> str:
    """Return the blocks as text; folded ones only where they are opened, and then whole."""
    pen = Pen.of(max(LEAST_COLUMNS, min(width, MOST_COLUMNS)), color=color)
    shown = [block for block in blocks if not isinstance(block, Folded)]
    drawn = [_drawn(pen, before, block) for before, block in zip([None, *shown], shown, strict=False)]
    lines = [pen.cut(line) for line in fit(drawn, MOST_LINES)]
    for block in blocks:
        if isinstance(block, Folded) and block.opened:
            lines += _unfolded(pen, block)
    return "\n".join(lines)


def _drawn(pen: Pen, before: Block | None, block: Block) -> Drawn:
    drawn: Drawn = DRAW[type(block)](pen, block)
    return replace(drawn, apart=_apart(before, block))


def _apart(before: Block | None, block: Block) -> bool:
    """Return whether an empty line stands between two blocks: not between two sentences, nor before the alarms."""
    sentences = (Line, Lines, Pointer)
    return not (isinstance(block, Alarms) or (isinstance(block, sentences) and isinstance(before, sentences)))


def _summary(pen: Pen, block: Summary) -> Drawn:
    parts = block.sentence.split(" · ")
    lines = pen.packed(parts, "", rest="  ", style=TONES.get(block.tone, ""), most=4)
    details = [line for words in block.details for line in pen.wrap(words, "  ", most=2)]
    return Drawn((Item((*lines, *details), 0),), weight=8)


def _alarms(pen: Pen, block: Alarms) -> Drawn:
    items = tuple(_alarm(pen, item) for item in block.items[:MOST_LINES])
    return Drawn(items, more=block.more, weight=3, undrawn=len(block.items) - len(items))


def _alarm(pen: Pen, item: Alarm) -> Item:
    lines = pen.wrap(item.text, "┃ ", style="red", most=5)
    advice = (line for words in item.advice for line in pen.wrap(words, "┃ ", rest="┃   ", most=2))
    return Item((*lines, *advice), brief=pen.wrap(item.text, "┃ ", style="red", most=1))


def _line(pen: Pen, block: Line | Pointer) -> Drawn:
    return Drawn((Item(pen.wrap(block.text, " ", rest="   ", most=2), 0),), weight=4)


def _lines(pen: Pen, block: Lines) -> Drawn:
    items = tuple(_sentence(pen, words) for words in block.items[:MOST_LINES])
    return Drawn(items, more=block.more, weight=2, undrawn=len(block.items) - len(items))


def _sentence(pen: Pen, words: str) -> Item:
    return Item(pen.wrap(words, " ", rest="   ", most=3), brief=pen.wrap(words, " ", most=1))


def _table(pen: Pen, block: Table) -> Drawn:
    shown, left_out = _narrowed(pen, replace(block, rows=block.rows[:MOST_LINES]))
    header, *cells = pen.lines(_grid(shown.columns, shown.rows, pen.cell))
    items = [_row(pen, line, row) for line, row in zip(cells, shown.rows, strict=True)]
    if left_out:
        words = f"no room here for {', '.join(left_out)}: see {block.more}"
        items.append(Item(pen.wrap(words, " ", style="dim", most=2), 0))
    title = pen.wrap(block.title, " ", style="bold", most=1) if block.title else ()
    return Drawn(tuple(items), (*title, header), block.more, block.weight, undrawn=len(block.rows) - len(shown.rows))


def _narrowed(pen: Pen, block: Table) -> tuple[Table, list[str]]:
    """Return the table without the columns that it has no room for but can spare, and the titles of these."""
    left_out: list[str] = []
    while (at := _most_spare(block)) is not None and _width(pen, block) > pen.width:
        left_out[:0] = [block.columns[at].title] * bool(block.columns[at].title)
        rows = tuple(replace(row, cells=row.cells[:at] + row.cells[at + 1 :]) for row in block.rows)
        block = replace(block, columns=block.columns[:at] + block.columns[at + 1 :], rows=rows)
    return block, left_out


def _most_spare(block: Table) -> int | None:
    ranks = [column.spare for column in block.columns]
    return ranks.index(max(ranks)) if any(ranks) else None


def _width(pen: Pen, block: Table) -> int:
    grid = _grid(block.columns, block.rows, pen.cell)
    return Measurement.get(pen.console, pen.console.options.update(width=10_000), grid).maximum


def _row(pen: Pen, line: str, row: Row) -> Item:
    return Item((line, *(below for words in row.below for below in pen.wrap(words, "      ", most=2))), brief=(line,))


def _grid(columns: Sequence[Column], rows: Sequence[Row], cell: Callable[[str], Text]) -> RichTable:
    """Build a table; made of `Pen.cell` every row gets one line, so that what belongs below a row can be put there."""
    grid = RichTable(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("")
    for column in columns:
        grid.add_column(column.title, justify="right" if column.align == "right" else "left", overflow="ellipsis")
    for row in rows:
        grid.add_row("", *(cell(bar(one.share) if isinstance(one, Bar) else one) for one in row.cells))
    return grid


def _shares(pen: Pen, block: Shares) -> Drawn:
    rows = block.rows[:MOST_LINES]
    most = max((sum(part.amount for part in row.parts) for row in block.rows), default=0.0)
    items = tuple(_split(pen, row, most) for row in rows)
    title = pen.wrap(block.title, " ", style="bold", most=1)
    return Drawn(items, title, block.more, 2, undrawn=len(block.rows) - len(rows))


def _split(pen: Pen, row: Split, most: float) -> Item:
    width = min(SPLIT_WIDTH, pen.width // 4)
    drawn = "".join(pieces([part.amount for part in row.parts], most, width)).ljust(width)
    parts = [f"{FILLS[at % len(FILLS)]} {part.words}" for at, part in enumerate(row.parts)]
    head = pen.wrap(" · ".join(filter(None, (row.title, row.note))), f"  {drawn}  ", most=1)
    return Item((*head, *pen.packed(parts, "      ", rest="      ", style="", most=6)), brief=head)


def _unfolded(pen: Pen, block: Folded) -> list[str]:
    lines = ["", *pen.wrap(block.title, " ", style="bold", most=1)]
    for part in block.parts:
        lines += ["", *(_code(pen, part) if isinstance(part, Code) else _whole_table(pen, part))]
    return lines


def _whole_table(pen: Pen, part: Table) -> tuple[str, ...]:
    grid = pen.lines(_grid(part.columns, part.rows, pen.whole_cell))
    return (*pen.wrap(part.title, " ", style="bold", most=1), *grid)


def _code(pen: Pen, part: Code) -> list[str]:
    body = [line for code in part.text.rstrip().split("\n") for line in pen.wrap(code, "   ", most=8)]
    return [*pen.wrap(part.title, " ", style="bold", most=1), *body]


DRAW: dict[type, Callable[[Pen, Any], Drawn]] = {
    Summary: _summary,
    Alarms: _alarms,
    SourceView: draw_source,
    Table: _table,
    Shares: _shares,
    Line: _line,
    Lines: _lines,
    Pointer: _line,
}
