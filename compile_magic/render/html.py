"""HTML for notebooks and for a saved page, in the form that survives every front end's sanitizer.

One style sheet, inline styles for the layout, `align` for where these are stripped; no ids, no scripts, no svg.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from compile_magic.render import style
from compile_magic.render.bars import FILLS
from compile_magic.render.bars import pieces
from compile_magic.render.details import draw_folded
from compile_magic.render.details import draw_table
from compile_magic.render.markup import Html
from compile_magic.render.markup import advised
from compile_magic.render.markup import breakable
from compile_magic.render.markup import escaped
from compile_magic.render.markup import joined
from compile_magic.render.markup import link
from compile_magic.render.markup import prose
from compile_magic.render.markup import tag
from compile_magic.render.markup import toned
from compile_magic.show.blocks import Alarm
from compile_magic.show.blocks import Alarms
from compile_magic.show.blocks import Block
from compile_magic.show.blocks import CellLine
from compile_magic.show.blocks import CellView
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Line
from compile_magic.show.blocks import Lines
from compile_magic.show.blocks import Pointer
from compile_magic.show.blocks import Share
from compile_magic.show.blocks import Shares
from compile_magic.show.blocks import SourceView
from compile_magic.show.blocks import Split
from compile_magic.show.blocks import Summary
from compile_magic.show.blocks import Table

MOST_CHARS = 190_000
MOST_ALARMS = 8
MOST_ITEMS = 15
MOST_ROWS = 30
MOST_SOURCE_LINES = 60
MOST_SPLITS = 8


def fragment(blocks: Sequence[Block], *, extra_sheet: str = "", foot: str = "") -> str:
    """Return the blocks as HTML to put under a cell."""
    sheet = Html(f"<style>{style.SHEET}{extra_sheet}</style>")
    drawn = _within(blocks, MOST_CHARS - len(sheet))
    last = [tag("p", toned("dim", escaped(foot)), style=style.LINE)] if foot else []
    return tag("div", sheet, *drawn, *last, class_=style.NAME, style="overflow-x:auto;padding:2px 0")


def document(blocks: Sequence[Block], *, foot: str = "") -> str:
    """Return the blocks as a self-contained page."""
    title = next((block.sentence for block in blocks if isinstance(block, Summary)), "compile_magic")
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(title)}</title></head><body>\n"
    )
    return f"{head}{fragment(blocks, extra_sheet=style.PAGE_SHEET, foot=foot)}\n</body></html>\n"


def _within(blocks: Sequence[Block], room: int) -> list[Html]:
    """Draw the blocks; those that are folded come last and get the room that the others leave, one by one."""
    drawn = [DRAW[type(block)](block) for block in blocks if not isinstance(block, Folded)]
    room -= sum(map(len, drawn))
    for block in blocks:
        if isinstance(block, Folded):
            drawn.append(draw_folded(block, room))
            room -= len(drawn[-1])
    return drawn


def _summary(block: Summary) -> Html:
    edge = f"margin:0 0 4px 0;padding:3px 0 3px 10px;border-left:4px solid {style.EDGES[block.tone]}"
    answer, *rest = block.sentence.split(" · ")
    words = [tag("b", prose(answer)), *(toned("dim", prose(one)) for one in rest)]
    details = (tag("div", prose(one)) for one in block.details)
    return tag("div", tag("div", joined(words, " · ")), *details, style=edge)


def _alarms(block: Alarms) -> Html:
    shown = (_alarm(item) for item in block.items[:MOST_ALARMS])
    return tag("div", *shown, _rest(len(block.items) - MOST_ALARMS, block.more))


def _alarm(item: Alarm) -> Html:
    box = "margin:4px 0;padding:3px 10px;border-left:4px solid #d84343;background-color:rgba(216,67,67,.10)"
    words = tag("div", toned("bad", Html("⚠ "), bold=True), prose(item.text))
    return tag("div", words, *(advised(one) for one in item.advice), style=box)


def _source(block: SourceView) -> Html:
    return tag("div", *(_cell(view, block.more) for view in block.cells))


def _cell(view: CellView, more: str) -> Html:
    rows = [row for line in view.lines[:MOST_SOURCE_LINES] for row in _source_rows(line)]
    left = sum(bool(line.note) for line in view.lines[MOST_SOURCE_LINES:])
    table = tag("table", tag("tbody", *rows), style=style.TABLE)
    return tag("div", tag("div", escaped(view.title), style=style.TITLE), table, _rest(left, more))


def _source_rows(line: CellLine) -> list[Html]:
    gutter = "" if line.number is None else str(line.number)
    cells = (
        _source_cell(toned("dim", escaped(gutter)), "right"),
        _source_cell(toned("bad", escaped(line.mark), bold=True) if line.mark else Html("")),
        _source_cell(tag("code", breakable(escaped(line.code, 400)), style=style.CODE)),
    )
    bare = line.number is None and bool(line.note)
    rows = [] if bare else [_source_row(*cells, hit=bool(line.mark))]
    return [*rows, _finding(line)] if line.note else rows


def _source_cell(inner: Html, align: str = "left") -> Html:
    name = "num" if align == "right" else ""
    return tag("td", inner, align=align, class_=name, style=style.SOURCE.format(align=align))


def _finding(line: CellLine) -> Html:
    pieces = [toned("bad", prose(line.note), bold=True)]
    pieces += [link(line.url, line.ref)] if line.ref else []
    pieces += [toned("dim", escaped(line.seen))] if line.seen else []
    advice = (advised(one) for one in line.advice)
    inner = tag("div", tag("div", joined(pieces, " · ")), *advice, style="padding:1px 0 5px 0")
    empty = Html("<td></td>")
    return _source_row(empty, empty, _source_cell(inner))


def _source_row(*cells: Html, hit: bool = False) -> Html:
    return tag("tr", *cells, class_="hit" if hit else "", style=style.HIT_ROW if hit else style.SOURCE_ROW)


def _table(block: Table) -> Html:
    return tag("div", draw_table(block, MOST_ROWS))


def _shares(block: Shares) -> Html:
    most = max((sum(part.amount for part in row.parts) for row in block.rows), default=0.0)
    rows = (_split(row, most) for row in block.rows[:MOST_SPLITS])
    table = tag("table", tag("tbody", *rows), style=style.TABLE)
    title = tag("div", escaped(block.title), style=style.TITLE)
    return tag("div", title, table, _rest(len(block.rows) - MOST_SPLITS, block.more))


def _split(row: Split, most: float) -> Html:
    drawn = pieces([part.amount for part in row.parts], most)
    shown = (_filled(at, Html(piece)) for at, piece in enumerate(drawn) if piece)
    legend = joined([_legend(at, part) for at, part in enumerate(row.parts)], " · ")
    head = joined([escaped(row.title), *([toned("dim", escaped(row.note))] if row.note else [])], " · ")
    bar = tag("code", *shown, style=style.UNBROKEN)
    unbroken = (
        tag("td", cell, align="left", class_="num", style=style.SOURCE.format(align="left")) for cell in (head, bar)
    )
    return tag("tr", *unbroken, _source_cell(legend))


def _legend(at: int, part: Share) -> Html:
    return tag("span", _filled(at, Html(FILLS[at % len(FILLS)] + " ")), escaped(part.words), style=style.UNBROKEN)


def _filled(at: int, inner: Html) -> Html:
    return tag("span", inner, style=f"color:{style.PARTS[at % len(style.PARTS)]}")


def _line(block: Line) -> Html:
    return tag("p", prose(block.text), style=style.LINE)


def _lines(block: Lines) -> Html:
    shown = (tag("p", prose(one), style=style.LINE) for one in block.items[:MOST_ITEMS])
    return tag("div", *shown, _rest(len(block.items) - MOST_ITEMS, block.more))


def _rest(count: int, more: str) -> Html:
    return tag("p", toned("dim", escaped(f"… and {count} more in {more}")), style=style.LINE) if count > 0 else Html("")


def _nothing(block: Pointer) -> Html:
    del block  # what it points to is folded below
    return Html("")


DRAW: dict[type, Callable[[Any], Html]] = {
    Summary: _summary,
    Alarms: _alarms,
    SourceView: _source,
    Table: _table,
    Shares: _shares,
    Line: _line,
    Lines: _lines,
    Pointer: _nothing,
}
