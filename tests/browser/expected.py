"""What a reader is to find in a report, taken from the report itself and not from any drawing of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from magics_shown import Shown

from compile_magic import render
from compile_magic.bench_model import BenchReport
from compile_magic.report import Report
from compile_magic.show.blocks import Bar
from compile_magic.show.blocks import Block
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Pointer
from compile_magic.show.blocks import Table

# Fields of blocks that decide how something looks, or hold what is not drawn unless it finds no room.
NOT_WORDS = {"key", "opened", "more", "whole", "tone", "url", "align", "code", "weight", "columns"}


# What a bench adds to a check once the cell has run: its report stands above the cell's own output by then.
ADDED = re.compile(r"(?:, after it as one run leaves it|; not compared with one run).*")


def load(shown: Shown, folder: Path) -> Report:
    """Return the report that the notebook saved, as it was when it was shown."""
    report = shown.loads.from_json((folder / shown.file).read_text(encoding="utf-8"))
    if not isinstance(report, BenchReport):
        return report
    return replace(report, checks=tuple(replace(one, words=ADDED.sub("", one.words)) for one in report.checks))


def unfolded_words(report: Report) -> list[str]:
    """Return all words but those that are folded."""
    return [word for block in _unfolded(report) for word in _words(block)]


def table_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the cells of all tables that are not folded; a bar has no words."""
    tables = [block for block in _unfolded(report) if isinstance(block, Table)]
    rows = [row.cells for table in tables for row in table.rows]
    return [tuple("" if isinstance(cell, Bar) else cell for cell in row) for row in rows]


def bare(text: str) -> str:
    """Return text without what is drawn and not written: spaces, and the ticks around code."""
    return re.sub(r"[\s`]+", "", text)


def _unfolded(report: Report) -> list[Block]:
    return [block for block in render._blocks(report) if not isinstance(block, Folded | Pointer)]


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, tuple):
        for one in value:
            yield from _words(one)
    if isinstance(value, Bar):
        return
    for name in getattr(value, "__dataclass_fields__", {}):
        if name not in NOT_WORDS or (name == "code" and isinstance(getattr(value, name), str)):
            yield from _words(getattr(value, name))
