"""The blocks that a report is shown as, before anything is decided about how they look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Summary:
    """The first line, which answers the question. `tone` ("good", "warn", "bad") only repeats what it says."""

    sentence: str
    details: tuple[str, ...] = ()
    tone: str = "good"


@dataclass(frozen=True)
class Alarm:
    """A costly thing that happened silently, with what to do about it."""

    text: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alarms:
    """All alarms; `more` names the fields that hold those which find no room."""

    items: tuple[Alarm, ...]
    more: str = "_compile_report"


@dataclass(frozen=True)
class CellLine:
    """A line of source. `number` is None for a gap, and for a second finding on the line above."""

    number: int | None
    mark: str = ""
    code: str = ""
    note: str = ""
    ref: str = ""
    url: str = ""
    seen: str = ""
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellView:
    """The lines of one cell or file around its findings."""

    title: str
    lines: tuple[CellLine, ...]


@dataclass(frozen=True)
class SourceView:
    """The user's own source with the findings on it."""

    cells: tuple[CellView, ...]
    more: str = "_compile_report.breaks"


@dataclass(frozen=True)
class Column:
    """A column of a table; `code` asks for a fixed-width font.

    Text that is too narrow for all columns loses the one of the highest `spare` first; one of 0 always stays.
    """

    title: str
    align: str = "left"
    code: bool = False
    spare: int = 0


@dataclass(frozen=True)
class Bar:
    """A cell that shows a share between 0 and 1 as a bar; `words` say the same to those who can't see it."""

    share: float
    words: str


@dataclass(frozen=True)
class Row:
    """A row of short cells, with longer words that stand below them."""

    cells: tuple[str | Bar, ...]
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows under a title; `more` names the field that holds those which find no room.

    A table of a higher `weight` gets more room where there is too little for all. What stands below a row belongs
    to its last cell, or with `spread` to the row as a whole.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    more: str = "_compile_report"
    weight: int = 1
    spread: bool = False


@dataclass(frozen=True)
class Share:
    """A part of a whole with its words; `amount` is in the unit of its neighbours."""

    amount: float
    words: str


@dataclass(frozen=True)
class Split:
    """A whole that is split into parts, in their order."""

    title: str
    parts: tuple[Share, ...]
    note: str = ""


@dataclass(frozen=True)
class Shares:
    """Bars that are split into parts, all to one scale, under a title."""

    title: str
    rows: tuple[Split, ...]
    more: str = "_compile_report"


@dataclass(frozen=True)
class Line:
    """A sentence or two on a line of their own."""

    text: str


@dataclass(frozen=True)
class Lines:
    """Sentences of one sort, of which there may be too many."""

    items: tuple[str, ...]
    more: str = "_compile_report"


@dataclass(frozen=True)
class Pointer:
    """Where the detail is, for a reader who can't unfold it."""

    text: str


@dataclass(frozen=True)
class Code:
    """Fixed-width text under a title; `whole` names the field that holds all of it."""

    title: str
    text: str
    whole: str


@dataclass(frozen=True)
class Folded:
    """Detail that is out of sight until somebody asks for it, by a click or by `key`."""

    key: str
    title: str
    parts: tuple[Table | Code, ...]
    opened: bool = False


Block: TypeAlias = Summary | Alarms | SourceView | Table | Shares | Line | Lines | Pointer | Folded
