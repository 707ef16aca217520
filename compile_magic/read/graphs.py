"""The graphs of a compile, and where torch's sources on them disagree."""

from __future__ import annotations

from collections.abc import Iterator

from compile_magic.model import CompiledFrame
from compile_magic.model import Graph
from compile_magic.read.compiles import Compile
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places
from compile_magic.read.frames import folded
from compile_magic.read.frames import resumed_at
from compile_magic.read.ops import Printed


def forward(compiled: Compile, places: Places) -> Iterator[Graph]:
    """Return the graphs that a compile handed to its backend: one, or more where the backend splits it."""
    for ops in compiled.op_counts:
        yield _graph(compiled, places, compiled.graph or Printed(), ops, compiled.code or "")


def backward(compiled: Compile, places: Places) -> Iterator[Graph]:
    """Return the graphs that AOTAutograd made of a compile for the backward pass."""
    for code, printed in compiled.backward.items():
        if printed.ops:
            yield _graph(compiled, places, printed, dict(printed.ops), code)


def _graph(compiled: Compile, places: Places, printed: Printed, ops: dict[str, int], code: str) -> Graph:
    frame = compiled.frame or Frame("", 0, "")
    own = next((each for each in printed.frames if places.is_user(each.file)), None)
    return Graph(
        compile_id=compiled.compile_id,
        function=folded(frame.name),
        location=places.location(own) if own else places.shown(compiled.callers or (frame,)),
        op_count=sum(ops.values()),
        ops=ops,
        shapes=printed.shapes,
        code=code,
        after_break=resumed_at(frame.name) is not None,
    )


def compiled_frame(compiled: Compile, frame: Frame, places: Places) -> CompiledFrame:
    """Return one compile that gave code."""
    size, spent = _number(compiled.metrics.get("cache_size")), _number(compiled.metrics.get("duration_us"))
    return CompiledFrame(
        compile_id=compiled.compile_id,
        function=folded(frame.name),
        location=places.shown(compiled.callers or (frame,)),
        entries=int(size) + 1,
        duration_s=spent / 1e6,
        op_count=sum(sum(ops.values()) for ops in compiled.op_counts),
        after_break=resumed_at(frame.name) is not None,
        again=bool(compiled.reasons),
    )


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) else 0


def disagreements(compiled: Compile) -> Iterator[str]:
    """Return a note with both figures where two sources count the ops of a graph differently."""
    counted = [sum(ops.values()) for ops in compiled.op_counts]
    printed = sum(compiled.graph.ops.values()) if compiled.graph else None
    stated = compiled.metrics.get("graph_op_count")
    name = f"{folded(compiled.frame.name) if compiled.frame else 'a graph'} [{compiled.compile_id}]"
    if len(counted) > 1:
        parts = ", ".join(map(str, counted))
        yield f"{name}: its backend split the graph of {printed} ops into {len(counted)} of {parts} ops."
    elif counted and printed is not None and printed != counted[0]:
        yield f"{name}: the backend was handed {counted[0]} ops, torch's trace prints {printed}; the first is counted."
    elif counted and isinstance(stated, int) and stated != counted[0]:
        yield f"{name}: {counted[0]} ops were counted, torch's own figure is {stated}; the first is shown."
