"""A rich console that writes lines into a list, with everything that rich would interpret switched off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.console import RenderableType
from rich.text import Text

from compile_magic.render.clean import clean_line

LONGEST_CELL = 400


@dataclass(frozen=True)
class Pen:
    """Draws cleaned text in a given width."""

    console: Console
    width: int

    @classmethod
    def of(cls, width: int, *, color: bool) -> Pen:
        """Make a pen of that width, with ANSI colours or without."""
        console = Console(
            file=StringIO(),
            width=width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            force_jupyter=False,
            force_interactive=False,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )
        return cls(console, width)

    def lines(self, renderable: RenderableType) -> tuple[str, ...]:
        """Return what rich draws, line by line, without blanks at the ends."""
        with self.console.capture() as capture:
            self.console.print(renderable)
        return tuple(line.rstrip() for line in capture.get().removesuffix("\n").split("\n"))

    def cell(self, words: str, style: str = "") -> Text:
        """Return text that stays on one line and ends in an ellipsis where it finds no room."""
        return Text(_bounded(words, LONGEST_CELL), style, no_wrap=True, overflow="ellipsis", end="")

    def whole_cell(self, words: str) -> Text:
        """Return text that takes as many lines as it needs."""
        return Text(_bounded(words, LONGEST_CELL), overflow="fold", end="")

    def packed(self, parts: Sequence[str], first: str, *, rest: str, style: str, most: int) -> tuple[str, ...]:
        """Return the parts with dots between them, each line broken between two parts where that can be."""
        between = " · "
        rows = [parts[0]]
        for at, part in enumerate(parts[1:], 2):
            longer = rows[-1] + between + part
            dot = 0 if at == len(parts) else len(between.rstrip())
            fits = cell_len(clean_line(longer)) + dot <= self.width - len(rest)
            rows[-1:] = [longer] if fits else [rows[-1] + between.rstrip(), part]
        starts = (first, *[rest] * (len(rows) - 1))
        lines: list[str] = []
        for start, row in zip(starts, rows, strict=True):
            lines += self.wrap(row, start, rest=rest, style=style, most=2)
        return tuple(lines[:most])

    def cut(self, line: str) -> str:
        """Return a line without styles, such as a count of what was cut, within the width."""
        return line if len(line) <= self.width or "\x1b" in line else line[: self.width - 1] + "…"

    def wrap(self, words: str, first: str, *, rest: str | None = None, style: str = "", most: int) -> tuple[str, ...]:
        """Return text wrapped into at most `most` lines, `first` before the first and `rest` before the others."""
        rest = first if rest is None else rest
        room = max(1, self.width - max(len(first), len(rest)))
        bounded = _bounded(words, most * self.width * 2)
        if cell_len(bounded) <= room and not (style and self.console.color_system):
            return ((first + bounded).rstrip(),)
        text = Text(bounded, style)
        wrapped = list(text.wrap(self.console, room, overflow="fold", tab_size=1))
        kept = wrapped[:most] or [Text("")]
        if len(wrapped) > most:
            kept[-1].truncate(room - 1)
            kept[-1].append("…")
        starts = (first, *[rest] * (len(kept) - 1))
        return tuple(self.lines(Text(start) + piece)[0] for start, piece in zip(starts, kept, strict=True))


def _bounded(words: str, most: int) -> str:
    # A bound in characters: text of zero width has no end in columns.
    line = clean_line(words[: most + 1])
    return line if len(line) <= most else line[: most - 1] + "…"
