"""What the compiles of a capture cost, from torch's own metrics."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

# A torch name of a phase -> a shorter one; others keep theirs.
PHASES = {"inductor_code_gen": "code_gen"}

_CUMULATIVE = "_cumulative_compile_time_us"


def seconds(metrics: Iterable[Mapping[str, Any]]) -> float:
    """Return the wall time of the compiles."""
    return sum(_seconds(each) for each in metrics)


def _seconds(metrics: Mapping[str, Any]) -> float:
    microseconds = _number(metrics.get("duration_us"))
    return microseconds / 1e6 if microseconds else _number(metrics.get("entire_frame_compile_time_s"))


def phases(metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the wall time of each phase that took any. They aren't disjoint: "dynamo" is the whole of a frame."""
    total: dict[str, float] = {}
    for name, took in (phase for each in metrics for phase in _phases(each)):
        total[name] = total.get(name, 0.0) + took
    return {name: round(took, 6) for name, took in total.items() if took}


def _phases(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield "backend", _number(metrics.get("backend_compile_time_s"))
    for name, value in metrics.items():
        if name.endswith(_CUMULATIVE):
            phase = name.removesuffix(_CUMULATIVE)
            yield PHASES.get(phase, phase), _number(value) / 1e6


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
