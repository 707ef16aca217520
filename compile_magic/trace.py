"""What was recorded while a cell ran: an immutable value that round-trips through JSON lines.

A capture needs neither torch nor the notebook again, so it can be attached to a bug report and replayed in a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from compile_magic.model import Target
from compile_magic.serial import from_plain
from compile_magic.serial import to_plain


@dataclass(frozen=True)
class Record:
    """One thing that torch, or our counting backend, said.

    `kind` is torch's record type; for an artifact, the artifact's name. Kinds of our own: "backend_graph" (from
    the counting backend), "paths" (what the user's code refers to), "call" (an intercepted call ended), "log" (a
    warning on a torch logger).
    `epoch` grows with each `torch._dynamo.reset()`, which starts compile ids at 0/0 again. `call` numbers the
    intercepted call in which it was said, None outside of one: then it belongs to the user's own compiled code.
    """

    kind: str
    compile_id: str = ""
    attempt: int = 0
    epoch: int = 0
    call: int | None = None
    thread: str = ""
    time: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: str | None = None


@dataclass(frozen=True)
class SourceFile:
    """A source file that a record names; for a notebook cell, `cell` is its execution count.

    `offset` is what has to be added to a line of `text` to get the line that the editor shows.
    """

    file: str
    text: str
    cell: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Roots:
    """Folders that tell whose a file is: torch's, the standard library's, an installed package's, ours."""

    torch: str = ""
    stdlib: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    tool: str = ""


@dataclass(frozen=True)
class Capture:
    """Everything that was heard while a cell ran, in order.

    The first `past` records were heard earlier: they tell what was compiled before, and are not counted again.
    """

    mode: str = "calls"
    backend: str = "eager"
    targets: tuple[Target, ...] = ()
    records: tuple[Record, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    roots: Roots = field(default_factory=Roots)
    recompile_limit: int | None = None
    torch_version: str = ""
    python_version: str = ""
    notes: tuple[str, ...] = ()
    error: str | None = None
    origin: str = ""
    past: int = 0

    def to_jsonl(self) -> str:
        """Return a header line, then one line for each record."""
        header = to_plain(self)
        records = header.pop("records")
        return "".join(json.dumps(line) + "\n" for line in (header, *records))

    @classmethod
    def from_jsonl(cls, lines: Iterable[str]) -> Capture:
        """Build a capture from the lines of `to_jsonl`.

        A line that can't be read becomes a record of kind "unreadable": it is counted, not lost.

        Raises:
            ValueError: there is no header line.
        """
        numbered = iter(lines)
        header = json.loads(next(numbered, "null"))
        records = tuple(_records(numbered))
        return from_plain(cls, {**header, "records": [to_plain(r) for r in records]} if header else header)


def _records(lines: Iterable[str]) -> Iterator[Record]:
    return map(_record, lines)


def _record(line: str) -> Record:
    try:
        record = from_plain(Record, json.loads(line))
        return record if isinstance(record.data, Mapping) else Record(kind="unreadable", payload=line)
    except (ValueError, AttributeError, TypeError):
        return Record(kind="unreadable", payload=line)
