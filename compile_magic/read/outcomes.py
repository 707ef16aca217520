"""Compiles that ended badly: functions left in eager, and compiles that failed with an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compile_magic.model import Failure
from compile_magic.model import GraphBreak
from compile_magic.model import SkippedFrame
from compile_magic.read.breaks import MOST_RAW
from compile_magic.read.breaks import RAISES
from compile_magic.read.breaks import Told
from compile_magic.read.breaks import from_metrics
from compile_magic.read.breaks import masked
from compile_magic.read.breaks import raised
from compile_magic.read.breaks import read_reasons
from compile_magic.read.causes import understand
from compile_magic.read.changes import Facts
from compile_magic.read.compiles import Compile
from compile_magic.read.frames import USERS
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places
from compile_magic.read.frames import as_line
from compile_magic.read.frames import folded
from compile_magic.read.frames import read_frames
from compile_magic.read.frames import resumed_at
from compile_magic.read.hints import advice
from compile_magic.read.recompiles import is_limit
from compile_magic.trace import Capture

# The frame can't be resumed here. What torch calls it -> how a person would say it.
UNRESUMABLE = {
    "graph break in loop": "in a loop",
    "Graph break under GenericContextWrappingVariable": "inside a `with` block",
}

# Errors of a compile after which Dynamo runs the function in eager; any other reaches the caller.
PASSED_OVER = frozenset({"Unsupported", "UserError", "SkipFrame"})

_FROM_USER_CODE = "from user code:"
_GOT = re.compile(r"\bgot (?P<name>\w+)\((?P<quote>['\"])(?P<text>.*?)(?P=quote)\)", re.DOTALL)
_REFUSED = re.compile(r"^\s*- \S+: (?P<guard>.+)$", re.MULTILINE)
_BACKEND = re.compile(r"^backend=.* raised:\n(?P<text>.*)", re.MULTILINE)


def is_skip(compiled: Compile, places: Places) -> bool:
    """Return whether a function of the user's, or of a package he uses, was left wholly in eager."""
    frame = compiled.frame
    ended = compiled.fail_type and not is_limit(compiled) and compiled.outcome is None
    return bool(ended and frame is not None and places.owner(frame.file) in USERS)


def is_failure(compiled: Compile, capture: Capture) -> bool:
    """Return whether a compile ended with an error."""
    if compiled.outcome is not None:
        return True
    return bool(compiled.fail_type) and not is_limit(compiled) and _reached_the_user(compiled, capture)


def _reached_the_user(compiled: Compile, capture: Capture) -> bool:
    """Return whether a failed compile ended in an error rather than in eager, where no call record says so.

    Dynamo leaves a function in eager only for a break, and torch 2.11 and newer have a record of each break that they
    let pass. Where an older torch has none, the error that ended the cell decides.
    """
    if compiled.fail_type not in PASSED_OVER:
        return True
    if compiled.call is not None or compiled.breaks:
        return False
    first = str(compiled.metrics.get("fail_reason") or "").partition("\n")[0]
    return _records_all_breaks(capture.torch_version) or bool(first and first in (capture.error or ""))


def _records_all_breaks(version: str) -> bool:
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= (2, 11)


def unrecorded_break(compiled: Compile, places: Places) -> GraphBreak | None:
    """Return the break that a compile failed with where torch has no record of it.

    That is so of a fullgraph error, and before torch 2.11 of any break that can't be resumed.
    """
    if compiled.fail_type != "Unsupported" or compiled.breaks or is_limit(compiled):
        return None
    stack = _user_stack(str((compiled.outcome or {}).get("message") or ""))
    return from_metrics(compiled.metrics, places, compiled.frame, stack)


def skipped_frames(
    skips: Iterable[Compile], cause: Mapping[tuple[int, str], GraphBreak], places: Places
) -> tuple[SkippedFrame, ...]:
    """Return the functions that ran wholly in eager, each once, counted."""
    found: dict[tuple[str, int, str], SkippedFrame] = {}
    for compiled in skips:
        skip = _skipped(compiled, cause.get((compiled.epoch, compiled.compile_id)), places)
        site = (skip.location.file, skip.location.line, skip.function)
        count = found[site].count + 1 if site in found else 1
        found[site] = replace(skip, count=count)
    return tuple(found.values())


def _skipped(compiled: Compile, cause: GraphBreak | None, places: Places) -> SkippedFrame:
    frame = compiled.frame or Frame("", 0, "")
    told, *further = read_reasons(str(compiled.metrics.get("fail_reason") or ""))
    location = places.location(places.definition(frame))
    after = resumed_at(frame.name)
    shown = places.location(Frame(frame.file, after, frame.name)).line if after is not None else None
    return SkippedFrame(folded(frame.name), location, _why(told, further, cause), cause, after_line=shown)


def _why(told: Told, further: Iterable[Told], cause: GraphBreak | None) -> str:
    if told.kind == RAISES:
        return f"it raised {raised(told) or 'an exception'}"
    how = next((f" {words}" for words in (UNRESUMABLE.get(f.kind) for f in further) if words), "")
    where = f" on line {cause.location.line}" if cause else ""
    return f"{told.kind or 'a break that cannot be resumed'}{where}{how}"


def failures(compiles: Iterable[Compile], lone: Iterable[Mapping[str, Any]], places: Places) -> Iterator[Failure]:
    """Return the compiles that ended with an error: those of intercepted calls, and those that no record explains."""
    for compiled in compiles:
        yield _failure(_told_whole(compiled), compiled.metrics, compiled.frame, places)
    for call in lone:
        yield _failure(call, {}, None, places)


def _told_whole(compiled: Compile) -> Mapping[str, Any]:
    """Return the end of a call; torch keeps the place in the user's code to the error's own text."""
    call = compiled.outcome or {}
    message = str(call.get("message") or compiled.metrics.get("fail_reason") or "")
    _, found, place = compiled.error.rpartition(_FROM_USER_CODE)
    return {**call, "message": f"{message}\n{found}{place}"} if found and _FROM_USER_CODE not in message else call


def _failure(call: Mapping[str, Any], metrics: Mapping[str, Any], compiled: Frame | None, places: Places) -> Failure:
    message = str(call.get("message") or metrics.get("fail_reason") or "")
    told = read_reasons(message)[0]
    frame = compiled or _called(call)
    return Failure(
        function=folded(frame.name),
        location=places.location(_failed_frame(message, metrics, frame, places)),
        kind=str(call.get("error") or metrics.get("fail_type") or "error"),
        reason=_reason(message, told),
        hints=told.hints,
        advice=advice(told.gb_id, message),
        ran_eager=call.get("outcome") == "ran_eager",
        raw=message[:MOST_RAW],
    )


def _called(call: Mapping[str, Any]) -> Frame:
    frame = call.get("frame") or {}
    name = str(frame.get("name") or call.get("target") or "")
    return Frame(str(frame.get("file") or ""), as_line(frame.get("line")), name)


def _failed_frame(message: str, metrics: Mapping[str, Any], frame: Frame, places: Places) -> Frame:
    stack = _user_stack(message)
    own = next((each for each in reversed(stack) if places.is_user(each.file)), None)
    if own is not None:
        return own
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    return Frame(str(file), as_line(line), frame.name) if file and places.is_user(str(file)) else frame


def _user_stack(message: str) -> tuple[Frame, ...]:
    return read_frames(message.partition(_FROM_USER_CODE)[2])


def _reason(message: str, told: Told) -> str:
    backend, got = _BACKEND.search(message), _GOT.search(told.explanation)
    if backend:
        return f"the backend raised {masked(backend['text'].strip())}"
    refused = _REFUSED.search(message) if told.kind.startswith("Recompiling function") else None
    if refused:
        return f"a recompile is an error here: {understand(refused['guard'].strip(), Facts(), Facts()).words}"
    return f"{got['name']}: {got['text']}" if got else told.kind
