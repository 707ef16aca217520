"""What a bench has found out about the work as a whole, gathered step by step."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch

from compile_magic.bench_model import BenchCheck
from compile_magic.bench_model import Roofline
from compile_magic.bench_model import Variant
from compile_magic.measure.facts import Facts
from compile_magic.measure.floor.ceilings import Ceilings
from compile_magic.measure.floor.roofline import percent
from compile_magic.measure.floor.roofline import roofline
from compile_magic.measure.floor.traffic import Counted
from compile_magic.measure.lanes import Lane
from compile_magic.measure.results.results import Results
from compile_magic.measure.settings import CUDAGRAPH_MODES
from compile_magic.measure.timing import statistics
from compile_magic.measure.timing.clock import Clock
from compile_magic.measure.timing.clock import DeviceClock
from compile_magic.measure.timing.samples import Samples
from compile_magic.model import Target


@dataclass
class Findings:
    """Filled while the bench goes on; every field says "not found out" until then."""

    clock: Clock = field(default_factory=lambda: DeviceClock(()))
    devices: frozenset[str] = frozenset()
    targets: tuple[Target, ...] = ()
    counted: Counted | None = None
    reference: Results | None = None
    fallbacks: int = 0
    unsteady: str = ""
    slack: dict[str, float] = field(default_factory=dict)
    samples: Samples | None = None
    eager_spread: float | None = None
    share: float | None = None
    floor: Roofline | None = None
    # Why each run begins with the state that was put back.
    paired: str = ""
    state: BenchCheck | None = None
    error: str | None = None
    once: bool = False
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """Whether anything was timed."""
        return self.counted is not None and bool(self.targets)

    @property
    def accelerator(self) -> torch.device | None:
        """The accelerator that the work uses, None for work on the CPU."""
        found = sorted(name for name in self.devices if name.split(":")[0] not in ("cpu", "meta"))
        return torch.device(found[0]) if found else None

    def note_first_runs(self, lane: Lane, facts: Facts) -> None:
        """Keep what torch said while a lane compiled."""
        recorder = lane.recorder
        if recorder is not None:
            facts.cache = cache_state(recorder.records())
            facts.skipped = skipped(facts, lane.skips.reasons, self.accelerator)

    def note(self, text: str) -> None:
        """Add a sentence to the report's notes."""
        if text not in self.notes:
            self.notes.append(text)

    def take_samples(self, samples: Samples, twin: str) -> None:
        """Keep the steady state, and how far two timings of eager were apart."""
        self.samples = samples
        ratio = samples.ratio(twin)
        self.eager_spread = statistics.spread(ratio) if ratio is not None else None

    def find_floor(self, facts: Sequence[Facts]) -> None:
        """Work out the least time of a run on this device, and what binds it."""
        if self.counted is not None:
            device = self.accelerator or torch.device("cpu")
            self.floor = roofline(self.counted, Ceilings.of(device), measured=facts)

    def percent(self, variant: Variant) -> float | None:
        """Return the floor as a percentage of a variant's time."""
        time_s = variant.device_median_s or variant.median_s
        return percent(self.floor.floor_s, time_s) if self.floor is not None else None

    def device_name(self) -> str:
        """Return the name of the device that the work ran on, with the number of threads on a CPU."""
        device = self.accelerator
        if device is None:
            threads = torch.get_num_threads()
            return f"CPU, {threads} thread{'s' if threads > 1 else ''}"
        return str(getattr(torch, device.type).get_device_name(device)) if device.type == "cuda" else str(device)


def skipped(facts: Facts, reasons: Iterable[str], accelerator: torch.device | None) -> str:
    """Return why a variant that asks for cudagraphs uses none, "" if it does."""
    asks = facts.mode in CUDAGRAPH_MODES
    if asks and (accelerator is None or accelerator.type != "cuda"):
        return "there are none without a CUDA device: this is what the mode does otherwise"
    told = next(iter(reasons), "")
    first = next((line.strip() for line in told.splitlines() if line.strip()), "")
    return re.sub(r"^skipping cudagraphs due to ", "", first)


def cache_state(records: Sequence[Any]) -> str:
    """Return "warm" if Inductor's caches had all that was compiled, "cold" if not, "" if they were not asked."""
    kinds = [record.kind for record in records if record.kind.startswith(("fx_graph_cache_", "aotautograd_cache_"))]
    if not kinds:
        return ""
    return "cold" if any(kind.endswith("_miss") for kind in kinds if kind.startswith("fx")) else "warm"
