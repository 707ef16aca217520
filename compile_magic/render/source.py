"""The user's lines with their findings, in plain text: beside the line where there is room, else under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace
from itertools import islice

from rich.cells import cell_len
from rich.text import Text

from compile_magic.render.clean import clean_line
from compile_magic.render.fit import Drawn
from compile_magic.render.fit import Item
from compile_magic.render.pen import Pen
from compile_magic.show.blocks import CellLine
from compile_magic.show.blocks import CellView
from compile_magic.show.blocks import SourceView

GUTTER = 8
INDENT = " " * GUTTER
LEAST_CODE = 24
# Far more than find room: a finding brings at most eight lines of context.
MOST_ITEMS = 400


def draw_source(pen: Pen, block: SourceView) -> Drawn:
    """Draw the cells one after the other; the context of what finds no room goes with it."""
    items = tuple(islice((item for view in block.cells for item in _view(pen, view)), MOST_ITEMS))
    findings = sum(bool(line.note) for view in block.cells for line in view.lines)
    return Drawn(items, more=block.more, weight=6, undrawn=findings - sum(item.findings for item in items))


@dataclass(frozen=True)
class _Layout:
    code: int
    note: int
    seen: int
    beside: bool


def _layout(pen: Pen, view: CellView) -> _Layout:
    marked = [line for line in view.lines if line.note]
    code, note, seen = (
        max((cell_len(clean_line(words)) for words in column), default=0)
        for column in ([line.code for line in marked], [_note(line) for line in marked], [line.seen for line in marked])
    )
    room = pen.width - GUTTER - note - seen - 4
    return _Layout(min(code, room), note, seen, beside=room >= min(code, LEAST_CODE))


def _view(pen: Pen, view: CellView) -> Iterator[Item]:
    layout = _layout(pen, view)
    yield Item(pen.wrap(view.title, " ", style="bold", most=1), 0)
    for line in view.lines:
        advice = (below for words in line.advice for below in pen.wrap(words, INDENT, rest=f"{INDENT}  ", most=2))
        marked = _marked(pen, line, layout)
        # Context gives way before findings do.
        yield Item((*marked, *advice), int(bool(line.note)), brief=_brief(pen, line))


def _marked(pen: Pen, line: CellLine, layout: _Layout) -> tuple[str, ...]:
    if line.note and layout.beside:
        return pen.lines(_beside(pen, line, layout))
    words = [part for part in (line.note, line.ref, *line.seen.split(" · ")) if part]
    below = pen.packed(words, f"{INDENT}└ ", rest=f"{INDENT}  ", style="red", most=3) if words else ()
    code = () if line.number is None and line.note else pen.lines(_code(pen, line, pen.width - GUTTER))
    return (*code, *below)


def _brief(pen: Pen, line: CellLine) -> tuple[str, ...]:
    if not line.note:
        return ()
    code = pen.width // 3
    short = replace(line, seen=line.seen.split(" · ")[-1])
    room = pen.width - GUTTER - code - cell_len(short.seen) - 4
    return pen.lines(_beside(pen, short, _Layout(code, room, cell_len(short.seen), beside=True)))


def _beside(pen: Pen, line: CellLine, layout: _Layout) -> Text:
    text = _code(pen, line, layout.code, pad=True)
    note = pen.cell(_note(line), "red")
    note.truncate(layout.note, pad=True)
    text.append("  ").append_text(note)
    return text.append("  ").append(clean_line(line.seen).rjust(layout.seen), "dim")


def _code(pen: Pen, line: CellLine, room: int, *, pad: bool = False) -> Text:
    number = "" if line.number is None else str(line.number)
    text = Text.assemble((f"{number:>5} ", "dim"), (f"{line.mark or ' '} ", "bold red"))
    code = pen.cell(line.code)
    code.truncate(room, overflow="ellipsis", pad=pad)
    return text.append_text(code)


def _note(line: CellLine) -> str:
    return " · ".join(filter(None, (line.note, line.ref)))
