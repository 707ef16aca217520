"""How far repeats of the same measurement are apart: ours beside do_bench, Timer and a single synchronised shot.

    python tests/benchmarks/timing.py             # on a CPU
    python tests/benchmarks/timing.py --device cuda

Each tool measures eager and compiled, ten times over in one run, and its speed-ups are compared with one another:
spread is (largest - smallest) / median. "device" is the median device time of the compiled function, and how far it is
from do_bench's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.benchmark import Timer

import compile_magic


@dataclass(frozen=True)
class Work:
    """A function to be timed with its argument."""

    name: str
    function: Callable[..., Any]
    argument: torch.Tensor


@dataclass(frozen=True)
class Measured:
    """What a tool says: eager's time by the compiled one, and that in seconds."""

    speedup: float
    compiled_s: float


def gelu_chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = torch.nn.functional.gelu(x * 1.01 + 0.01)
    return x


def mlp(width: int, depth: int, device: str, dtype: torch.dtype) -> torch.nn.Module:
    layers = [torch.nn.Linear(width, width) for _ in range(depth)]
    return torch.nn.Sequential(*layers).to(device, dtype).requires_grad_(requires_grad=False)


def works(device: str) -> list[Work]:
    gpu = device != "cpu"
    side = 4096 if gpu else 512
    half = torch.float16 if gpu else torch.float32
    wide = mlp(4096 if gpu else 512, 3, device, half)
    return [
        Work("gelu chain", gelu_chain, torch.randn(side, side, device=device)),
        Work("wide MLP", wide, torch.randn(side, 4096 if gpu else 512, device=device, dtype=half)),
        Work("MLP 8 x 64", mlp(64, 8, device, half), torch.randn(8, 64, device=device, dtype=half)),
    ]


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.accelerator.synchronize()


def ours(work: Work, compiled: Any, device: str) -> Measured:
    del compiled, device  # it compiles by itself
    found = compile_magic.bench(work.function, work.argument).variant("default")
    if found.error:
        raise RuntimeError(found.error)
    return Measured(found.speedup or 0.0, found.device_median_s or found.median_s or 0.0)


def do_bench(work: Work, compiled: Any, device: str) -> Measured:
    from triton.testing import do_bench as timed

    eager_ms = timed(lambda: work.function(work.argument), return_mode="median")
    compiled_ms = timed(lambda: compiled(work.argument), return_mode="median")
    return Measured(eager_ms / compiled_ms, compiled_ms / 1e3)


def timer(work: Work, compiled: Any, device: str) -> Measured:
    def median(function: Any) -> float:
        return float(
            Timer("f(x)", globals={"f": function, "x": work.argument}).blocked_autorange(min_run_time=0.3).median
        )

    eager_s, compiled_s = median(work.function), median(compiled)
    return Measured(eager_s / compiled_s, compiled_s)


def single_shot(work: Work, compiled: Any, device: str) -> Measured:
    def shot(function: Any) -> float:
        synchronize(device)
        start = time.perf_counter()
        function(work.argument)
        synchronize(device)
        return time.perf_counter() - start

    eager_s, compiled_s = shot(work.function), shot(compiled)
    return Measured(eager_s / compiled_s, compiled_s)


TOOLS = {"compile_bench": ours, "do_bench": do_bench, "Timer": timer, "single shot": single_shot}


def spread(values: list[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {given.device}, {given.repeats} repeats")
    print(f"{'work':12} {'tool':14} {'speed-up':>9} {'spread':>8} {'compiled':>11} {'from do_bench':>14}")
    for work in works(given.device):
        report(work, given.device, given.repeats)


def report(work: Work, device: str, repeats: int) -> None:
    compiled = torch.compile(work.function)
    for _ in range(3):
        compiled(work.argument)
    found: dict[str, list[Measured]] = {}
    for name, tool in TOOLS.items():
        try:
            found[name] = [tool(work, compiled, device) for _ in range(repeats)]
        except ModuleNotFoundError as error:  # noqa: PERF203 - a tool that isn't there is a line of the table
            print(f"{work.name:12} {name:14} needs {error.name}")
    reference = [one.compiled_s for one in found.get("do_bench", [])]
    for name, measured in found.items():
        speedups = [one.speedup for one in measured]
        compiled_s = statistics.median(one.compiled_s for one in measured)
        away = f"{compiled_s / statistics.median(reference) - 1:+.1%}" if reference else ""
        print(
            f"{work.name:12} {name:14} {statistics.median(speedups):8.3f}x {spread(speedups):8.1%} "
            f"{compiled_s * 1e6:8.1f} µs {away:>14}",
            flush=True,
        )


if __name__ == "__main__":
    main()
