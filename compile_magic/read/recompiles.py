"""Recompiles and refused recompiles: which entry was the nearest, what changed, and which of them have one root."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass

from compile_magic.model import FailedGuard
from compile_magic.model import LimitHit
from compile_magic.model import Recompile
from compile_magic.read.causes import understand
from compile_magic.read.changes import Change
from compile_magic.read.changes import Facts
from compile_magic.read.changes import facts
from compile_magic.read.compiles import WRAPPERS
from compile_magic.read.compiles import Compile
from compile_magic.read.frames import MACHINERY
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places
from compile_magic.read.frames import folded
from compile_magic.read.frames import resumed_at
from compile_magic.read.guard_places import made_at
from compile_magic.read.guard_places import read_place
from compile_magic.read.guards import BEFORE_BREAK
from compile_magic.read.recompile_fixes import fix_for

LIMIT_TYPES = frozenset(
    {"RecompileLimitExceeded", "CacheLimitExceeded", "FailOnRecompileLimitHit", "FailOnCacheLimitHit"}
)
LIMIT_TEXTS = ("Dynamo recompile limit exceeded", "Dynamo cache limit exceeded")

_ENTRY = re.compile(r"^(?P<entry>!?[\d/]+/\d+|None): ?(?P<rest>.*)$", re.DOTALL)
_CURRENT = re.compile(r"currently set to (?P<limit>\d+)")
# What torch calls a module of its own and its arguments in the function that it puts around it.
_WRAPPED = re.compile(r"\bfn\b|\bargs\[(?P<number>\d+)\]")
_LOGGED = re.compile(
    r"recompile_limit \((?P<limit>\d+)\)\s+function: '(?P<name>[^']+)' \((?P<file>.+):(?P<line>\d+)\)", re.DOTALL
)


@dataclass(frozen=True)
class Event:
    """A compile that a failed guard led to: the compile, each entry's failed guard, and what the nearest entry says."""

    compiled: Compile
    failed: tuple[FailedGuard, ...]
    change: Change


@dataclass
class _Group:
    """Recompiles of one function with one root."""

    events: list[Event]

    def takes(self, event: Event) -> bool:
        first, compiled = self.events[0], event.compiled
        return (
            first.compiled.call == compiled.call
            and first.change.cause == event.change.cause
            and _function(first.compiled) == _function(compiled)
            and compiled.frame_id not in {member.compiled.frame_id for member in self.events}
        )


def is_limit(compiled: Compile) -> bool:
    """Return whether a compile was refused at the recompile limit."""
    reason = str(compiled.metrics.get("fail_reason") or "")
    return compiled.fail_type in LIMIT_TYPES or reason.startswith(LIMIT_TEXTS)


class Reasons:
    """Reads the recompile reasons of a capture; it knows what each compile was made for."""

    def __init__(self, compiles: Iterable[Compile], places: Places) -> None:
        self._compiles = {(each.epoch, each.compile_id): each for each in compiles}
        self._places = places
        self._facts: dict[tuple[int, str], Facts] = {}

    def event(self, compiled: Compile) -> Event:
        """Return a recompile with what changed, as seen from the entry that was nearest to holding."""
        read = [self._failed(compiled, reason) for reason in compiled.reasons]
        # Torch names the newest entry first; of equally near ones that is the one that the last call used.
        nearest = min(read, key=lambda pair: self._distance(compiled, pair[0].entry), default=None)
        return Event(compiled, tuple(guard for guard, _ in read), nearest[1] if nearest else Change("unknown"))

    def _failed(self, compiled: Compile, reason: str) -> tuple[FailedGuard, Change]:
        match = _ENTRY.match(reason.strip())
        entry, rest = (match["entry"], match["rest"]) if match else ("", reason.strip())
        first = rest.partition("\nUser stack trace:")[0].rstrip(" ,\n")
        expression, mark, place = first.partition("  # ")
        change = understand(expression.strip(), self._known(compiled.epoch, entry), self._known_of(compiled))
        made = self._compiles.get((compiled.epoch, entry))
        where = read_place(mark + place, self._places) or made_at(made, expression, change.source, self._places)
        return FailedGuard(entry, expression.strip(), change.source, change.expected, change.actual, where), change

    def _distance(self, compiled: Compile, entry: str) -> int:
        old, new = self._known(compiled.epoch, entry), self._known_of(compiled)
        return old.distance(new) if old.values and new.values else 0

    def _known_of(self, compiled: Compile) -> Facts:
        return self._known(compiled.epoch, compiled.compile_id)

    def _known(self, epoch: int, compile_id: str) -> Facts:
        key = (epoch, compile_id)
        if key not in self._facts:
            found = self._compiles.get(key)
            self._facts[key] = facts(found.leaves, found.symbols) if found else Facts()
        return self._facts[key]


def recompiles(events: Iterable[Event], places: Places) -> tuple[Recompile, ...]:
    """Return the recompiles, those of a function and its resume functions with one root as one."""
    groups: list[_Group] = []
    for event in events:
        group = next((group for group in reversed(groups) if group.takes(event)), None)
        if group is None:
            groups.append(_Group([event]))
        else:
            group.events.append(event)
    return tuple(_recompile(group.events, places) for group in groups)


def _recompile(events: list[Event], places: Places) -> Recompile:
    first = events[0]
    frame = first.compiled.frame or Frame("", 0, "")
    return Recompile(
        compile_id=first.compiled.compile_id,
        function=folded(frame.name),
        location=places.shown(first.compiled.callers or (frame,)),
        failed=tuple(guard for event in events for guard in event.failed),
        cause=first.change.cause,
        words=said(first.change.words, frame, places),
        count=len(events),
        fix=fix_for(first.change),
        raw="\n".join(reason for event in events for reason in event.compiled.reasons),
    )


def said(words: str, frame: Frame, places: Places) -> str:
    """Return the words without the names that only Dynamo knows."""
    if frame.file.endswith(WRAPPERS):
        words = _WRAPPED.sub(lambda match: f"argument {match['number']}" if match["number"] else "the module", words)
    line = resumed_at(frame.name)
    if line is None:
        return words
    shown = places.location(Frame(frame.file, line, frame.name)).line
    return words.replace(BEFORE_BREAK, f"the value after the break on line {shown}")


def _function(compiled: Compile) -> tuple[str, str]:
    frame = compiled.frame
    return (frame.file, folded(frame.name)) if frame else ("", compiled.compile_id)


class Namer:
    """Names the functions of refused compiles. One that was compiled before the cell has its name in a warning only."""

    def __init__(self, logs: Iterable[str], places: Places) -> None:
        self.places = places
        self._logged = [match for match in map(_LOGGED.search, logs) if match]

    def frame(self, compiled: Compile) -> Frame:
        """Return the function whose recompile was refused."""
        if compiled.frame is not None:
            return compiled.frame
        if self._logged:
            match = self._logged.pop(0)
            return Frame(match["file"], int(match["line"]), match["name"])
        return Frame("", 0, "a function compiled earlier")


def limit_hits(refused: Iterable[Compile], reasons: Reasons, namer: Namer, limit: int | None) -> Iterator[LimitHit]:
    """Return the functions whose recompile was refused, each once."""
    seen: set[tuple[str, str]] = set()
    for compiled in refused:
        frame = namer.frame(compiled)
        function = (frame.file, folded(frame.name))
        if function not in seen and namer.places.owner(frame.file or "?") not in MACHINERY:
            seen.add(function)
            yield _limit_hit(reasons.event(compiled), frame, namer.places, limit)


def _limit_hit(event: Event, frame: Frame, places: Places, limit: int | None) -> LimitHit:
    stated = _CURRENT.search(str(event.compiled.metrics.get("fail_reason") or ""))
    return LimitHit(
        function=folded(frame.name),
        location=places.shown(event.compiled.callers or (frame,)),
        limit=int(stated["limit"]) if stated else limit,
        reason=said(event.change.words, frame, places),
        failed=event.failed,
    )
