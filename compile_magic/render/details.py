"""Tables, and the folded detail below them, within bounds: what is cut is counted and says where the whole is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compile_magic.render import style
from compile_magic.render.bars import bar
from compile_magic.render.markup import Html
from compile_magic.render.markup import advised
from compile_magic.render.markup import breakable
from compile_magic.render.markup import escaped
from compile_magic.render.markup import prose
from compile_magic.render.markup import tag
from compile_magic.render.markup import toned
from compile_magic.show.blocks import Bar
from compile_magic.show.blocks import Code
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Table

MOST_FOLDED_ROWS = 200
MOST_OF_A_CELL = 400
MOST_OF_A_SLIM_CELL = 140
# Characters of a name that is not to be broken over two lines, and of what is not in the tables with much code.
MOST_UNBROKEN = 20
MOST_UNBROKEN_SLIM = 12
MOST_OF_A_CODE = 20_000
# Characters of all that is folded under a key, and of a long row of guards with its tags.
MOST_CHARS = {
    "breaks": 15_000,
    "guards": 100_000,
    "targets": 12_000,
    "graphs": 100_000,
    "variants": 60_000,
    "checks": 30_000,
    "roofline": 30_000,
}
CHARS_OF_A_ROW = 450


def draw_folded(block: Folded, room: int) -> Html:
    """Return the parts behind a line to click on, in about `room` characters or what is allowed for its key."""
    room = min(room, MOST_CHARS.get(block.key, 10_000))
    summary = tag("summary", escaped(block.title), style="padding:1px 0")
    opened = Html(" open") if block.opened else Html("")
    inner = "".join((*_tables(block, room), *_codes(block, room)))
    return Html(f'<details{opened} style="{style.DETAILS}">{summary}{inner}</details>')


def _tables(block: Folded, room: int) -> Iterator[Html]:
    most = max(0, min(MOST_FOLDED_ROWS, room // CHARS_OF_A_ROW))
    left = 0
    for table in (part for part in block.parts if isinstance(part, Table)):
        shown = min(most, len(table.rows))
        most -= shown
        left += len(table.rows) - shown
        if shown:
            yield draw_table(replace(table, rows=table.rows[:shown]), shown, slim=True)
    if left:
        yield _cut(f"… and {left} more in _compile_report.{block.key}")


def _codes(block: Folded, room: int) -> Iterator[Html]:
    codes = [part for part in block.parts if isinstance(part, Code)]
    for at, code in enumerate(codes):
        if room <= 0:
            yield _cut(f"… and {len(codes) - at} more, the first in {code.whole}")
            return
        kept = code.text[: min(room, MOST_OF_A_CODE)]
        room -= len(kept) + 200
        yield tag("div", escaped(code.title, 300), style=style.TITLE)
        yield tag("pre", escaped(kept, len(kept) + 1), style=style.PRE)
        if len(kept) < len(code.text):
            yield _cut(f"cut, the whole is in {code.whole}")


def _cut(words: str) -> Html:
    return tag("p", toned("dim", escaped(words)), style=style.LINE)


def draw_table(block: Table, most: int, *, slim: bool = False) -> Html:
    """Return a table of at most `most` rows under its title."""
    title = tag("div", escaped(block.title), style=style.TITLE) if block.title else Html("")
    head = tag("thead", tag("tr", *(_heading(column, slim=slim) for column in block.columns)))
    rows = (_row(row, block.columns, slim=slim, spread=block.spread) for row in block.rows[:most])
    table = tag("table", head, tag("tbody", *rows), style=style.TABLE)
    left = len(block.rows) - most
    return Html(title + table + (_cut(f"… and {left} more in {block.more}") if left > 0 else ""))


def _heading(column: Column, *, slim: bool) -> Html:
    return tag("th", escaped(column.title), scope="col", align=column.align, style=_style(column, slim=slim))


def _row(row: Row, columns: tuple[Column, ...], *, slim: bool, spread: bool) -> Html:
    most = MOST_OF_A_SLIM_CELL if slim else MOST_OF_A_CELL
    *short, last = (_inner(words, column, most) for words, column in zip(row.cells, columns, strict=True))
    below = Html("".join(advised(words) for words in row.below))
    last = last if spread else Html(last + below)
    cells = (_cell(one, column, slim=slim) for one, column in zip((*short, last), columns, strict=True))
    drawn = tag("tr", *cells, style="" if slim else style.ROW)
    if not (spread and below):
        return drawn
    return Html(drawn + tag("tr", tag("td", below, colspan=str(len(columns)), align="left", style=style.BELOW)))


def _inner(words: str | Bar, column: Column, most: int) -> Html:
    if isinstance(words, Bar):
        return _meter(words)
    if not column.code or not words:
        return prose(words, most)
    if most <= MOST_OF_A_SLIM_CELL:
        return tag("code", breakable(escaped(words, most), MOST_UNBROKEN_SLIM))
    # The front ends' own rules for code are nearer to it than those of its cell.
    if len(words) <= MOST_UNBROKEN:
        return tag("code", escaped(words), style=style.NAME_CODE)
    return tag("code", breakable(escaped(words, most), MOST_UNBROKEN_SLIM), style=style.CODE)


def _meter(cell: Bar) -> Html:
    # Where the element is unknown or stripped, its content shows.
    inner = escaped(bar(cell.share))
    return tag("meter", inner, value=f"{cell.share:.4f}", min="0", max="1", title=cell.words, style=style.METER)


def _cell(inner: Html, column: Column, *, slim: bool) -> Html:
    # The slim tables have so many columns that figures too have to give way where it is narrow.
    if slim or column.align != "right":
        return tag("td", inner, align=column.align, style=_style(column, slim=slim))
    styles = f"{_style(column, slim=False)};{style.UNBROKEN_CELL}"
    return tag("td", inner, align=column.align, class_="num", style=styles)


def _style(column: Column, *, slim: bool) -> str:
    return style.SLIM if slim else style.CELL.format(align=column.align)
