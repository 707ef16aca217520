"""The user's own lines around the findings, numbered as the editor numbers them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator

from compile_magic.model import Location
from compile_magic.model import SourceLines
from compile_magic.read.frames import Places
from compile_magic.read.frames import functions
from compile_magic.read.frames import parsed
from compile_magic.trace import SourceFile

LONGEST_FUNCTION = 60
AROUND = 4


def excerpts(findings: Iterable[Location], places: Places) -> tuple[SourceLines, ...]:
    """Return the functions that the findings lie in; of a long one, and at a cell's top level, the lines around."""
    wanted: dict[str, set[int]] = {}
    for location in findings:
        if location.file in places.sources:
            wanted.setdefault(location.file, set()).add(location.line - places.sources[location.file].offset)
    return tuple(part for file, lines in wanted.items() for part in _parts(places.sources[file], sorted(lines)))


def _parts(source: SourceFile, lines: list[int]) -> Iterator[SourceLines]:
    text = source.text.splitlines()
    for first, last in _joined(sorted(_span(source.text, line) for line in lines)):
        shown = tuple(text[max(first, 1) - 1 : max(last, 0)])
        if shown:
            yield SourceLines(source.file, max(first, 1) + source.offset, shown, source.cell)


def _span(text: str, line: int) -> tuple[int, int]:
    tree = parsed(text)
    around = [span[:2] for span in functions(tree) if span[0] <= line <= span[1]] if tree else []
    first, last = max(around, default=(line - AROUND, line + AROUND))
    return (first, last) if last - first < LONGEST_FUNCTION else (max(first, line - AROUND), min(last, line + AROUND))


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
