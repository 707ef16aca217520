"""The user's own lines with the findings marked on them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path

from compile_magic.model import ExplainReport
from compile_magic.model import GraphBreak
from compile_magic.model import Location
from compile_magic.show.blocks import CellLine
from compile_magic.show.blocks import CellView
from compile_magic.show.blocks import SourceView
from compile_magic.show.findings import advice
from compile_magic.show.findings import label
from compile_magic.show.findings import seen

CONTEXT = 2
BAD = "✗"
GAP = "⋯"
_DEF = re.compile(r"\s*(async\s+def|def)\s")


@dataclass(frozen=True)
class _File:
    title: str
    lines: dict[int, str] = field(default_factory=dict)


def source_view(report: ExplainReport) -> SourceView | None:
    """Return the cells and files with findings on lines that the report has the source of."""
    files = _files(report)
    marks = [(where, mark) for where, mark in _marks(report) if _has(files, where)]
    by_file = {name: _on_lines(name, marks) for name in files}
    views = tuple(_view(file, by_file[name]) for name, file in files.items() if by_file[name])
    return SourceView(views) if views else None


def own_breaks(report: ExplainReport) -> list[GraphBreak]:
    """Return the breaks on the user's own lines, the causes of skipped frames among them."""
    causes = (frame.cause for frame in report.skipped_frames)
    extra = [cause for cause in causes if cause is not None and cause not in report.breaks]
    return [found for found in (*report.breaks, *extra) if found.owner == "your code"]


def breaks_without_source(report: ExplainReport) -> list[GraphBreak]:
    """Return the user's own breaks that no cell view can show."""
    files = _files(report)
    return [found for found in own_breaks(report) if not _has(files, found.location)]


def _files(report: ExplainReport) -> dict[str, _File]:
    files: dict[str, _File] = {}
    for source in report.sources:
        title = Path(source.file).name if source.cell is None else f"Cell In[{source.cell}]"
        file = files.setdefault(source.file, _File(title))
        file.lines.update(enumerate(source.lines, source.first_line))
    return files


def _has(files: Mapping[str, _File], where: Location) -> bool:
    return where.file in files and where.line in files[where.file].lines


def _marks(report: ExplainReport) -> Iterator[tuple[Location, CellLine]]:
    for found in own_breaks(report):
        note = CellLine(None, BAD, "", label(found), found.gb_id, found.url, seen(found))
        yield found.location, replace(note, advice=advice((*found.advice, *found.hints), found.fix))
    for failure in report.failures:
        yield failure.location, CellLine(None, BAD, "", f"failed to compile: {failure.kind}")
    for frame in report.skipped_frames:
        if frame.cause is None:
            yield frame.location, CellLine(None, BAD, "", "ran wholly in eager", seen=f"seen {frame.count}×")


def _on_lines(name: str, marks: Iterable[tuple[Location, CellLine]]) -> dict[int, list[CellLine]]:
    by_line: dict[int, list[CellLine]] = {}
    for where, mark in marks:
        if where.file == name:
            by_line.setdefault(where.line, []).append(mark)
    return by_line


def _view(file: _File, marks: Mapping[int, list[CellLine]]) -> CellView:
    shown = _shown(file.lines, marks)
    code = dict(zip(shown, _dedented([file.lines[number] for number in shown]), strict=True))
    lines: list[CellLine] = []
    for before, number in zip([None, *shown], shown, strict=False):
        if before is not None and number > before + 1:
            lines.append(CellLine(None, "", GAP))
        lines.extend(_numbered(number, code[number], marks.get(number, [])))
    return CellView(file.title, tuple(lines))


def _numbered(number: int, code: str, marks: list[CellLine]) -> Iterator[CellLine]:
    first = marks[0] if marks else CellLine(None)
    yield replace(first, number=number, code=code)
    yield from marks[1:]


def _dedented(lines: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(one.expandtabs(4).replace("\n", " ") for one in lines)).split("\n")


def _shown(lines: Mapping[int, str], marks: Iterable[int]) -> list[int]:
    """Return the numbers around the marks, with the line of each function and without gaps of a single line."""
    near = {number for mark in marks for number in range(mark - CONTEXT, mark + CONTEXT + 1)}
    heads = {head for mark in marks if (head := _head(lines, mark)) is not None}
    kept = {number for number in near | heads if number in lines}
    kept |= {number + 1 for number in kept if number + 2 in kept and number + 1 in lines}
    return _without_blank_ends(sorted(kept), lines)


def _head(lines: Mapping[int, str], mark: int) -> int | None:
    """Return the line of the `def` around a line, if it is there."""
    depth = _indent(lines[mark])
    above = (number for number in range(mark, min(lines) - 1, -1) if number in lines)
    heads = (number for number in above if _DEF.match(lines[number]))
    return next((number for number in heads if number == mark or _indent(lines[number]) < depth), None)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_blank_ends(numbers: list[int], lines: Mapping[int, str]) -> list[int]:
    written = [at for at, number in enumerate(numbers) if lines[number].strip()]
    return numbers[written[0] : written[-1] + 1] if written else numbers
