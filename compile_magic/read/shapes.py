"""Guards that torch adds while it works out symbolic shapes: which size was fixed, and inside which operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from compile_magic.model import Guard
from compile_magic.read.compiles import Compile
from compile_magic.read.frames import Places
from compile_magic.read.frames import start_frames
from compile_magic.read.guards import plain

_SYMBOL = re.compile(r"\b[su]\d+\b")
# What stands below the operator on torch's stack: the engine of symbolic shapes, and its wrappers.
_ENGINE = re.compile(
    r"fx/experimental|torch/_prims_common|torch/_logging|torch/_subclasses|torch/__init__\.py|torch/utils/"
)


def shape_guards(compiled: Compile, places: Places) -> Iterator[Guard]:
    """Return the guards on sizes that a compile added on its way, each once."""
    sources = compiled.symbol_sources
    seen: dict[str, Guard] = {}
    for data in compiled.shape_guards:
        guard = _guard(compiled.compile_id, data, sources, places)
        seen.setdefault(guard.expression, guard)
    yield from seen.values()


def _guard(compile_id: str, data: Mapping[str, Any], sources: Mapping[str, str], places: Places) -> Guard:
    expression = str(data["expr"])
    names = [sources.get(symbol, symbol) for symbol in _SYMBOL.findall(expression)]
    shown = _SYMBOL.sub(lambda match: plain(sources.get(match[0], match[0])), expression)
    frames = [frame for frame in start_frames(data.get("user_stack") or []) if places.is_user(frame.file)]
    inside = _operator(data)
    return Guard(
        compile_id=compile_id,
        kind="SHAPE_ENV",
        source=names[0] if names else "",
        expression=expression,
        location=places.location(frames[-1]) if frames else None,
        words=f"{shown}, added inside {inside}" if inside else shown,
    )


def _operator(data: Mapping[str, Any]) -> str:
    frames = start_frames(data.get("stack") or [])
    return next((frame.name for frame in reversed(frames) if not _ENGINE.search(frame.file)), "")
