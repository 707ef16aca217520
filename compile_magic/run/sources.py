"""The text of the user's files that the records name, and which of them are cells of the notebook."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import TYPE_CHECKING

from compile_magic.run.files import is_user_file

# Loading the extension comes through here, and the report's types would take a third of its time.
if TYPE_CHECKING:
    from compile_magic.trace import Record
    from compile_magic.trace import SourceFile

_IN_TRACEBACK = re.compile(r'^  File "([^"\n]+)", line \d+', re.MULTILINE)
_IN_GRAPH = re.compile(r"^\s*# File: (.+?):\d+ in ", re.MULTILINE)
_IN_NAME = re.compile(r"<ipython-input-(\d+)-")

# What a file is in the notebook: the execution count of its cell, and how many leading lines IPython cut off.
CellOf = Callable[[str], "tuple[int, int] | None"]


def cell_by_name(file: str) -> tuple[int, int] | None:
    """Return the cell that a terminal IPython writes into its file names, None for other files."""
    match = _IN_NAME.match(file)
    return (int(match[1]), 0) if match else None


def collect(records: Iterable[Record], cell_of: CellOf = cell_by_name) -> tuple[SourceFile, ...]:
    """Return the source of each user file that a record names. Call it before the cell's text is forgotten."""
    files = dict.fromkeys(name for record in records for name in _names(record) if is_user_file(name))
    return tuple(_source(name, cell_of(name)) for name in files)


def _names(record: Record) -> Iterator[str]:
    yield from (str(frame.get("filename")) for frame in record.data.get("stack", ()) if isinstance(frame, dict))
    if record.kind == "dynamo_graph_break_reason":
        yield from _IN_TRACEBACK.findall(record.payload or "")
    if record.kind == "dynamo_output_graph":
        yield from _IN_GRAPH.findall(record.payload or "")
    if record.kind == "compilation_metrics" and record.data.get("fail_user_frame_filename"):
        yield str(record.data["fail_user_frame_filename"])


def _source(file: str, cell: tuple[int, int] | None) -> SourceFile:
    from compile_magic.trace import SourceFile

    number, offset = cell or (None, 0)
    return SourceFile(file=file, text="".join(linecache.getlines(file)), cell=number, offset=offset)
