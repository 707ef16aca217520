"""What one lane's runs gave, gathered step by step, and the variant that is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from compile_magic.bench_model import Variant
from compile_magic.measure.results.compare import Comparison
from compile_magic.measure.timing import statistics
from compile_magic.measure.timing.statistics import Ratio
from compile_magic.model import ExplainReport

FIRST_RUNS = 3


@dataclass
class Facts:
    """Filled while the bench goes on. Times are in seconds for one run."""

    name: str
    backend: str = ""
    mode: str = ""
    how: str = "compiled"
    first: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    devices: list[float] = field(default_factory=list)
    ratio: Ratio | None = None
    thrown_out: int = 0
    results: Any = None
    comparison: Comparison | None = None
    error_vs_fp64: float | None = None
    noise: int = 0
    busy_s: float | None = None
    kernels: int | None = None
    peak: int | None = None
    cache: str = ""
    skipped: str = ""
    error: str = ""
    report: ExplainReport | None = None
    own_draws: bool = False
    hidden: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        self.label = self.label or self.name

    @property
    def runs(self) -> bool:
        """Whether the lane is measured and has not failed."""
        return not self.error and not self.hidden

    @property
    def extra_s(self) -> float | None:
        """What the first runs cost beyond as many steady ones."""
        if len(self.first) < FIRST_RUNS or not self.walls:
            return None
        return max(0.0, sum(self.first) - FIRST_RUNS * statistics.median(self.walls))


def variant(facts: Facts, eager: Facts) -> Variant:
    """Return what was found out about one lane as a value."""
    first = [*facts.first, None, None, None]
    found = facts.report
    pays = _break_even(facts, eager)
    return Variant(
        name=facts.name,
        backend=facts.backend,
        mode=facts.mode,
        how=facts.how,
        first_s=first[0],
        second_s=first[1],
        third_s=first[2],
        **_steady(facts),
        device_median_s=statistics.median(facts.devices) if facts.devices else None,
        busy_s=facts.busy_s,
        speedup=facts.ratio.value if facts.ratio else None,
        speedup_interval=(facts.ratio.low, facts.ratio.high) if facts.ratio else None,
        compile_s=facts.extra_s if facts.how != "eager" else None,
        phases=found.phases if found else {},
        cache=facts.cache,
        break_even_calls=pays[0] if pays else None,
        break_even_interval=_finite(pays[1:]) if pays else None,
        kernels_per_call=facts.kernels,
        peak_memory_bytes=facts.peak,
        **_compared(facts),
        graph_count=found.graph_count if found else 0,
        graph_break_count=found.graph_break_count if found else 0,
        recompile_count=found.recompile_count if found else 0,
        thrown_out=facts.thrown_out,
        skipped=facts.skipped,
        error=facts.error,
    )


def _steady(facts: Facts) -> dict[str, Any]:
    if not facts.walls:
        return {}
    return {
        "median_s": statistics.median(facts.walls),
        "iqr_s": statistics.iqr(facts.walls),
        "min_s": min(facts.walls),
        "samples_s": tuple(facts.walls),
    }


def _compared(facts: Facts) -> dict[str, Any]:
    found = facts.comparison
    if found is None:
        return {"error_vs_fp64": facts.error_vs_fp64}
    return {
        "max_abs_error": found.max_abs_error,
        "max_rel_error": found.max_rel_error,
        "error_vs_fp64": found.error_vs_fp64,
        "matches_eager": found.matches,
        "differs": found.differs,
    }


def _break_even(facts: Facts, eager: Facts) -> tuple[float, float, float] | None:
    if facts.how == "eager" or facts.extra_s is None or facts.ratio is None or not eager.walls:
        return None
    return statistics.break_even(facts.extra_s, statistics.median(eager.walls), facts.ratio)


def _finite(ends: Sequence[float]) -> tuple[float, ...]:
    # JSON has no infinity; an interval without its upper end has only the lower one.
    return tuple(end for end in ends if math.isfinite(end))
