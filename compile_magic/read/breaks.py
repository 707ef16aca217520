"""What torch's text on a graph break says: which break, why, on whose line, and what torch would do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from itertools import groupby
from typing import Any

from compile_magic.model import GraphBreak
from compile_magic.model import Location
from compile_magic.read.cellcode import is_cells_own
from compile_magic.read.frames import USERS
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places
from compile_magic.read.frames import as_line
from compile_magic.read.frames import folded
from compile_magic.read.frames import read_frames
from compile_magic.read.hints import advice

MOST_RAW = 4000
OWNERS = ("your code", "library", "compiler")
IN_LOOP = "graph break in loop"
# A frame whose compile failed with this raises in eager as well.
RAISES = "Observed exception"

_HEAD = re.compile(r"^Graph break in user code at (?P<file>.*):(?P<line>\d+)$", re.MULTILINE)
_REASON = re.compile(r"^Graph Break Reason: ?(?P<first>.*)$", re.MULTILINE)
_NEXT = re.compile(r"^\*\*\* While handling this graph break, another graph break occurred: \*\*\*$", re.MULTILINE)
_URL = re.compile(r"(?P<url>https?://\S*/gb/gb(?P<number>\d+)\.html)")
_PART = re.compile(
    r"^ {1,2}(?P<part>Explanation|Hint|Developer debug context|For more details about this graph break)[:,] ?",
    re.MULTILINE,
)
_END = re.compile(r"^(?:Stack variable source attribution:|User code traceback:|from user code:)", re.MULTILINE)
_STACK = "User code traceback:"
_TRACEBACK = re.compile(r"^(?:Traceback \(most recent call last\):|NoneType: None)$", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_SKIPPED = "Failed to handle graph break gracefully"
_RAISED = re.compile(r"raised exception (?:<class ')?(?:[\w.]*\.)?(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class Told:
    """One block of torch's text: the name of a break, and what is said of it."""

    kind: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    gb_id: str = ""
    url: str = ""


@dataclass(frozen=True)
class BreakText:
    """A break payload, read: the break that started it, those that happened while it was handled, and the stack."""

    told: Told
    further: tuple[Told, ...]
    stack: tuple[Frame, ...]
    skipped: bool
    raw: str


def read_break(payload: str) -> BreakText:
    """Read the payload of a `dynamo_graph_break_reason` record.

    Raises:
        ValueError: it names no reason.
    """
    raw = _cut(payload, _TRACEBACK)
    reason = _REASON.search(raw)
    if reason is None:
        raise ValueError("a break record without a reason")
    before, _, stack = raw.partition(_STACK)
    kind, *further = read_reasons(_without_header(before[reason.start("first") :]))
    frames = read_frames(stack) or _head_frame(raw)
    return BreakText(kind, tuple(further), frames, reason["first"].startswith(_SKIPPED), raw.strip()[:MOST_RAW])


def unread_break(payload: str) -> BreakText:
    """Return what is left of a break whose text can't be read: that there was one, and the text."""
    return BreakText(Told("unknown"), (), (), skipped=False, raw=payload.strip()[:MOST_RAW])


def read_reasons(text: str) -> tuple[Told, ...]:
    """Read the reason of a break, or the `fail_reason` of a compile: one entry for each break that it names."""
    return tuple(_told(block) for block in _NEXT.split(_cut(text, _END))) or (Told(""),)


def _without_header(text: str) -> str:
    # "Failed to ... Graph break encountered:" or "Encountered graph break when ...:", an empty line, then the break.
    first, _, rest = text.partition("\n")
    return rest if first.rstrip().endswith(":") and rest.startswith("\n") else text


def _told(block: str) -> Told:
    pieces = _PART.split(block)
    parts = list(zip(pieces[1::2], (masked(_dedent(piece)) for piece in pieces[2::2]), strict=True))
    url = _URL.search(block)
    return Told(
        kind=masked(next((line.strip() for line in pieces[0].splitlines() if line.strip()), "")),
        explanation="\n".join(text for name, text in parts if name == "Explanation"),
        hints=tuple(text for name, text in parts if name == "Hint"),
        context=" ".join(text for name, text in parts if name == "Developer debug context"),
        gb_id=f"GB{url['number']}" if url else "",
        url=url["url"] if url else "",
    )


def _dedent(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    least = min((len(line) - len(line.lstrip()) for line in lines[1:] if line), default=0)
    return "\n".join([*lines[:1], *(line[least:] for line in lines[1:])])


def _head_frame(raw: str) -> tuple[Frame, ...]:
    head = _HEAD.search(raw)
    return (Frame(head["file"], int(head["line"]), ""),) if head else ()


def _cut(text: str, end: re.Pattern[str]) -> str:
    match = end.search(text)
    return text[: match.start()] if match else text


def masked(text: str) -> str:
    """Return the text without object addresses, which differ from run to run."""
    return _ADDRESS.sub("0x…", text)


def raised(told: Told) -> str:
    """Return the name of the exception that a function raises in eager as well, "" if it isn't that."""
    match = _RAISED.search(told.context) if told.kind == RAISES else None
    return match["name"] if match else ""


def graph_break(text: BreakText, places: Places, compiled: Frame | None) -> GraphBreak:
    """Build the break that a record tells of, on the user's own line."""
    stack = text.stack or ((compiled,) if compiled else ())
    shown = user_stack(stack, places)
    here = (
        next((frame for frame in reversed(stack) if places.is_user(frame.file)), None)
        or (stack or (Frame("", 0, ""),))[-1]
    )
    told = text.told
    return GraphBreak(
        location=places.location(here),
        function=folded(here.name or (compiled.name if compiled else "")),
        kind=told.kind,
        reason=_reason(text),
        explanation=told.explanation or told.context,
        hints=told.hints,
        advice=advice(told.gb_id, text.raw),
        gb_id=told.gb_id,
        url=told.url,
        stack=shown,
        in_loop=any(further.kind == IN_LOOP for further in text.further),
        skipped=text.skipped,
        owner=_owner(stack, places),
        raw=text.raw,
    )


def _reason(text: BreakText) -> str:
    name = raised(text.told)
    return f"it raises {name}" if name else "; then: ".join(told.kind for told in (text.told, *text.further))


def user_stack(stack: Iterable[Frame], places: Places) -> tuple[Location, ...]:
    """Return the user's and his packages' frames from the cell on, and the innermost frame whosever it is."""
    frames = list(stack)
    kept = [frame for frame in frames[_start(frames, places) : -1] if places.owner(frame.file) in USERS] + frames[-1:]
    # A comprehension is a frame of its own before Python 3.12, on the line of the frame that it stands in.
    lines = groupby(kept, key=lambda frame: (frame.file, frame.line))
    return tuple(places.location(next(same)) for _, same in lines)


def _start(frames: list[Frame], places: Places) -> int:
    """Return where the cell's own run begins: a cell that runs another (a `%%` line) stands below it on the stack."""
    cells = [number for number, frame in enumerate(frames) if places.is_cell(frame.file)]
    modules = [number for number in cells if is_cells_own(frames[number].name)]
    users = (number for number, frame in enumerate(frames) if places.is_user(frame.file))
    return modules[-1] if modules else next(iter(cells), next(users, len(frames) - 1))


def _owner(stack: tuple[Frame, ...], places: Places) -> str:
    innermost = places.owner(stack[-1].file) if stack else "user"
    by_library = {"torch": "library", "package": "library", "compiler": "compiler"}
    return by_library.get(innermost, "your code")


def from_metrics(
    metrics: Mapping[str, Any], places: Places, compiled: Frame | None, stack: tuple[Frame, ...] = ()
) -> GraphBreak | None:
    """Build the break of a refused compile from its metrics, where torch has no break record of it."""
    reason = str(metrics.get("fail_reason") or "")
    told, *further = read_reasons(reason)
    if not told.kind:
        return None
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    name = compiled.name if compiled else ""
    frames = stack or ((Frame(str(file), as_line(line), name),) if file else ())
    text = BreakText(told, tuple(further), frames, skipped=True, raw=_cut(reason, _TRACEBACK).strip()[:MOST_RAW])
    return graph_break(text, places, compiled)


def site(found: GraphBreak) -> tuple[str, int, str]:
    """Return what tells a break site from others: the user's line, and the kind of break."""
    return found.location.file, found.location.line, found.kind


def sites(found: Iterable[GraphBreak]) -> tuple[GraphBreak, ...]:
    """Return one break for each user location and kind, counted; the user's own first, then by first occurrence."""
    merged: dict[tuple[str, int, str], GraphBreak] = {}
    for each in found:
        here = site(each)
        merged[here] = _merged(merged[here], each) if here in merged else each
    return tuple(sorted(merged.values(), key=lambda each: OWNERS.index(each.owner)))


def _merged(first: GraphBreak, again: GraphBreak) -> GraphBreak:
    skipped, in_loop = first.skipped or again.skipped, first.in_loop or again.in_loop
    reason = again.reason if again.in_loop and not first.in_loop else first.reason
    return replace(first, count=first.count + again.count, skipped=skipped, in_loop=in_loop, reason=reason)
