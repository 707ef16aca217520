"""What each dimension of the inputs was to the compiler: a constant, a symbol, or a symbol that became a constant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compile_magic.model import Dimension
from compile_magic.model import Location
from compile_magic.read.compiles import Compile
from compile_magic.read.frames import Places
from compile_magic.read.frames import start_frames
from compile_magic.read.guards import plain

_SIZES = re.compile(r"\bsize=\[(?P<sizes>[^\]]*)\]")
_MARKED = re.compile(
    r"\(getattr\((?P<source>.+?), '_dynamo_\w*dynamic_indices', set\(\)\)\.issubset\(\{(?P<dims>[\d, ]*)\}"
)
# What belongs to a module: its sizes are static by default, and nobody changes them from call to call.
_OWNED = re.compile(r"_parameters|_buffers|_modules|\.weight\b|\.bias\b")
_INPUT = re.compile(r"check_tensor\((?P<source>[LG]\[.+?\]), ")

WORDS = {
    "static": "a constant: another size compiles again",
    "0/1": "0 and 1 are always constants",
    "automatic": "dynamic since a size changed",
    "dynamic": "dynamic",
    "marked": "dynamic, as marked",
    "specialised": "made a constant while tracing",
}


@dataclass(frozen=True)
class _Input:
    source: str
    sizes: tuple[str, ...]


def dimensions(compiled: Compile, places: Places) -> Iterator[Dimension]:
    """Return the dimensions of each tensor that goes into a graph, parameters and buffers aside."""
    marked = _marked(compiled)
    fixed = {source: data for data in compiled.specialised for source in data.get("sources") or ()}
    for each in _inputs(compiled):
        for index, size in enumerate(each.sizes):
            source = f"{each.source}.size()[{index}]"
            state = _state(compiled, source, size, marked=index in marked.get(each.source, ()))
            place = _place(fixed[source], places) if state == "specialised" and source in fixed else None
            shown = compiled.symbols.get(source, "?") if size == "None" else size
            name = f"{plain(each.source)}.size({index})"
            yield Dimension(compiled.compile_id, name, index, shown, state, WORDS[state], place)


def _state(compiled: Compile, source: str, size: str, *, marked: bool) -> str:
    if size == "None":
        return "marked" if marked else "automatic" if compiled.reasons else "dynamic"
    if source in compiled.symbols:
        return "specialised"
    return "0/1" if size in ("0", "1") else "static"


def _inputs(compiled: Compile) -> Iterator[_Input]:
    for leaf in compiled.leaves:
        source, sizes = _INPUT.search(leaf.expression), _SIZES.search(leaf.expression)
        if leaf.kind == "TENSOR_MATCH" and source and sizes and not _OWNED.search(source["source"]):
            yield _Input(source["source"], tuple(part.strip() for part in sizes["sizes"].split(",") if part.strip()))


def _marked(compiled: Compile) -> Mapping[str, frozenset[int]]:
    found = (_MARKED.search(leaf.expression) for leaf in compiled.leaves if "MARKING" in leaf.kind)
    return {match["source"]: frozenset(map(int, re.findall(r"\d+", match["dims"]))) for match in found if match}


def _place(data: Mapping[str, Any], places: Places) -> Location | None:
    frames = [frame for frame in start_frames(data.get("user_stack") or []) if places.is_user(frame.file)]
    return places.location(frames[-1]) if frames else None
