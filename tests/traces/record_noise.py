"""Record how block times vary on this machine: `python record_noise.py cpu [seconds]` writes `noise/noise_cpu.json`.

The intervals of a speed-up are tested against real noise (`test_bench_statistics.py`), which has drift, bursts and
neighbours that no formula has. The device is "cpu", "cuda" or what `torch.accelerator` calls its own. Each work below
is timed by the package's own sampler for that many seconds (200 by default), without an early end. To be run by hand,
on a machine that does what such machines do meanwhile. A third argument is another name for the file, a fourth is how
the only work to record is called. Nothing in the file comes from the package's statistics.

A recording's lanes hold whole numbers: a block's time for one run in units of `unit_s`, null where there was none.
`after_ms` is how long after the one before each round began, in milliseconds.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from compile_magic.measure.timing.clock import DeviceClock
from compile_magic.measure.timing.sampler import sample
from compile_magic.measure.timing.samples import LaneSamples
from compile_magic.measure.timing.samples import Samples

FOLDER = Path(__file__).parent / "noise"
SECONDS = 200.0
# The median of a recording's first lane in units: fine enough that rounding is far below the noise.
UNITS = 20_000

Work = Callable[[], object]


class Plain:
    """A lane that runs one function, and compiles nothing after its first runs."""

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self.work = work

    def begin_block(self) -> None:
        """There is no state to put back."""

    def run(self, count: int) -> None:
        """Call the function so many times."""
        for _ in range(count):
            self.work()

    def end_block(self) -> bool:
        """Nothing was compiled."""
        return True


def gelu_chain(device: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(10):
            x = torch.nn.functional.gelu(x) * 1.01
        return x

    return chain


def tiny_mlp(device: str) -> torch.nn.Module:
    half = torch.half if device != "cpu" else torch.float
    layers = [torch.nn.Linear(64, 64, device=device, dtype=half) for _ in range(8)]
    return torch.nn.Sequential(*layers)


def works(device: str) -> dict[str, tuple[Any, torch.Tensor, str]]:
    """Return what is timed: a function, its input, and the backend of the compiled lane."""
    big = device != "cpu"
    mlp = tiny_mlp(device)
    x = torch.randn(1 << 24 if big else 1 << 15, device=device)
    small = torch.randn(8, 64, device=device, dtype=next(mlp.parameters()).dtype)
    backend = "inductor" if big else "aot_eager"
    return {"gelu chain": (gelu_chain(device), x, backend), "8 linear layers of 64": (mlp, small, backend)}


def lanes(function: Any, x: torch.Tensor, backend: str) -> list[Plain]:
    """Return eager, eager once more, and compiled."""
    compiled = torch.compile(function, backend=backend)
    found = [
        Plain("eager", lambda: function(x)),
        Plain("twin", lambda: function(x)),
        Plain(backend, lambda: compiled(x)),
    ]
    for lane in found:
        lane.run(5)
    return found


def finished(samples: Samples) -> Samples:
    """Return the samples. Raises what a lane did."""
    for lane in samples.lanes:
        if lane.error is not None:
            raise lane.error
    return samples


def recording(work: str, samples: Samples) -> dict[str, Any]:
    """Return the samples of one work as whole numbers."""
    unit_s = float(f"{statistics.median(samples.lanes[0].times_s) / UNITS:.3g}")
    starts_ms = [round(start * 1000) for start in samples.starts_s]
    return {
        "work": work,
        "unit_s": unit_s,
        "after_ms": [later - earlier for earlier, later in pairwise([0, *starts_ms])],
        "lanes": {lane.name: in_units(lane, unit_s) for lane in samples.lanes},
    }


def in_units(lane: LaneSamples, unit_s: float) -> list[int | None]:
    return [None if time is None else round(time / unit_s) for time in lane.wall_s]


def device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return device if device != "cpu" else f"cpu, one thread, {platform.machine()}"


def record(device: str, seconds: float, only: str) -> dict[str, Any]:
    """Return the recordings of all works, or of the only one, one after the other."""
    made = {"torch": torch.__version__, "device": device_name(device), "date": time.strftime("%Y-%m-%d")}
    found = []
    with torch.no_grad():
        for work, (function, x, backend) in works(device).items():
            if only not in work:
                continue
            samples = sample(lanes(function, x, backend), DeviceClock([device]), budget_s=seconds, width=0.0)
            found.append(recording(work, finished(samples)))
    return {**made, "recordings": found}


def main() -> None:
    # Threads of one op wait for each other, which on a shared machine makes some runs 30 times slower than others:
    # that is another machine in each minute, and has no long-run ratio.
    torch.set_num_threads(1)
    device, seconds, name, only = [*sys.argv[1:], *["cpu", SECONDS, "", ""][len(sys.argv) - 1 :]]
    path = FOLDER / f"noise_{name or device}.json"
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(record(device, float(seconds), only), separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
