"""The user's line that made a guard, where the reason of a recompile doesn't tell it: the guard's own tree does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compile_magic.model import Location
from compile_magic.read.changes import bare
from compile_magic.read.compiles import Compile
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places
from compile_magic.read.frames import start_frames
from compile_magic.read.guards import PLACE

_EXTENT = re.compile(r"(?P<x>[^\s()]+\.(?:size|stride)\(\)\[\d+\])")
_TENSOR = re.compile(r"^check_tensor\((?P<x>.+?), \w+, DispatchKeySet")
_SYMBOL = re.compile(r"\b[su]\d+\b")


def read_place(text: str, places: Places) -> Location | None:
    """Return the place that torch printed behind a guard."""
    match = PLACE.search(text)
    if match is None:
        return None
    file = places.full_name(match["file"].strip())
    return places.location(Frame(file, int(match["line"]), match["name"], (match["code"] or "").strip()))


def made_at(entry: Compile | None, expression: str, source: str, places: Places) -> Location | None:
    """Return where a guard of `entry` was made: of a condition on sizes or a tensor's properties, else None."""
    if entry is None:
        return None
    sizes = set(_EXTENT.findall(expression))
    return _condition_place(entry, sizes, places) if sizes else _tensor_place(entry, source, places)


def _tensor_place(entry: Compile, source: str, places: Places) -> Location | None:
    for leaf in entry.leaves:
        match = _TENSOR.match(bare(leaf.expression)) if leaf.kind == "TENSOR_MATCH" else None
        if match is not None and match["x"] == source:
            return read_place(leaf.place, places)
    return None


def _condition_place(entry: Compile, sizes: set[str], places: Places) -> Location | None:
    names = {symbol: bare(source) for symbol, source in entry.symbol_sources.items()}
    for data in entry.shape_guards:
        if {names.get(symbol) for symbol in _SYMBOL.findall(str(data.get("expr")))} == sizes:
            return _user_place(data, places)
    return None


def _user_place(data: Mapping[str, Any], places: Places) -> Location | None:
    frames = [frame for frame in start_frames(data.get("user_stack") or []) if places.is_user(frame.file)]
    return places.location(frames[-1]) if frames else None
