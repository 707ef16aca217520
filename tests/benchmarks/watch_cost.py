"""What watching costs while nothing compiles: the time of a compiled call with the watch on and off, from one run.

    python tests/benchmarks/watch_cost.py [pairs]

Blocks of about 20 ms are timed in pairs, on and off in random order. Printed is the median of the pairs' ratios with
its 95 % interval: the wider of the sign interval of the median and a t interval over ten consecutive batches of pairs.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch

from compile_magic.watching import Watch

BLOCK_S = 0.02
BATCHES = 10
# The 97.5 % point of Student's t with 9 degrees of freedom: NIST/SEMATECH e-Handbook, table 1.3.6.7.2.
T_9 = 2.262


def block(call: Callable[[], object], number: int) -> float:
    """Return the time of one call in a block of `number` calls, in seconds."""
    for _ in range(number // 5):
        call()
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def pair(call: Callable[[], object], watch: Watch, number: int) -> float:
    """Return the time of a call with the watch on over that with it off."""
    took = {}
    for on in random.sample((True, False), 2):
        (watch.start if on else watch.stop)()
        took[on] = block(call, number)
    watch.stop()
    return took[True] / took[False]


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median ratio."""
    ranked, count = sorted(ratios), len(ratios)
    reach = math.ceil(1.96 * math.sqrt(count) / 2)
    low, high = ranked[max(count // 2 - reach, 0)], ranked[min(count // 2 + reach, count - 1)]
    size = count // BATCHES
    means = [statistics.fmean(ratios[n * size : (n + 1) * size]) for n in range(BATCHES)]
    half = T_9 * statistics.stdev(means) / math.sqrt(BATCHES)
    return min(low, statistics.fmean(means) - half), max(high, statistics.fmean(means) + half)


def main(pairs: int) -> None:
    """Measure, and print one line for each figure."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    x = torch.ones(64, 64)
    compiled = torch.compile(lambda x: (x @ x).relu() + 1, backend="eager")
    compiled(x)
    number = max(int(BLOCK_S / block(lambda: compiled(x), 200)), 10)
    watch = Watch()
    ratios = [pair(lambda: compiled(x), watch, number) for _ in range(pairs)]
    low, high = interval(ratios)
    print(f"torch {torch.__version__}, {pairs} pairs of blocks of {number} calls")
    print(
        f"a call with the watch on over one with it off: {statistics.median(ratios):.4f}, 95 % {low:.4f} to {high:.4f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
