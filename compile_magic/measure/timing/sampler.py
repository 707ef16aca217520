"""Steady state: blocks of runs of every lane, in rounds of random order, until the ratios are known well enough.

One round times a block of each lane, so that what slows the machine down for a while slows all lanes alike, and the
lanes' times are compared within a round. In a block the runs follow each other for about 20 ms, the first fifth of
them untimed: with shorter blocks each lane mostly shows how it runs right after another one (measured on a CPU: a
speed-up of 1.01 with single runs, 1.07 with 16 in a block, 1.09 with 60). Longer blocks cost rounds, which the
interval needs. A run that is longer than a block is a block, without a warm-up.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from functools import partial

from compile_magic.measure.timing.block import Lane
from compile_magic.measure.timing.block import Track
from compile_magic.measure.timing.block import runs_in_a_block
from compile_magic.measure.timing.block import timed
from compile_magic.measure.timing.clock import Clock
from compile_magic.measure.timing.samples import LaneSamples
from compile_magic.measure.timing.samples import Samples
from compile_magic.measure.timing.statistics import BATCH_S
from compile_magic.measure.timing.statistics import LEAST_BATCHES
from compile_magic.measure.timing.statistics import ratio

LEAST_ROUNDS = 3
PROGRESS_S = 0.2

__all__ = ["LEAST_ROUNDS", "Lane", "LaneSamples", "Progress", "Samples", "sample"]

Progress = Callable[[float, str], object]


def sample(  # noqa: PLR0913 - four are keywords with a default or a unit
    lanes: Sequence[Lane],
    clock: Clock,
    *,
    budget_s: float,
    width: float = 0.02,
    progress: Progress | None = None,
    rng: random.Random | None = None,
) -> Samples:
    """Time all lanes in turn, until every ratio to the first is known well enough or the budget is spent.

    Args:
        lanes: the ways to run the work, the reference first.
        clock: reads the time, waits for the device.
        budget_s: seconds for all lanes together, with what `begin_block` and `end_block` take. No round is begun
            that would end later, but three are made in any case.
        width: of the 95 % interval of a ratio, relative to the ratio, at which it is known well enough.
        progress: is called with the share of the budget spent and a few words, at most five times a second.
        rng: shuffles the lanes of each round; by default one that gives the same order each time.
    """
    rng = rng or random.Random(0)  # noqa: S311 - an order of blocks is no secret
    sampling = _Sampling([Track(lane) for lane in lanes], clock, budget_s, width, progress, rng)
    with _no_collector():
        sampling.run()
    return sampling.samples()


@dataclass
class _Sampling:
    """One sampling under way."""

    tracks: Sequence[Track]
    clock: Clock
    budget_s: float
    width: float
    progress: Progress | None
    rng: random.Random
    starts_s: list[float] = field(default_factory=list)
    narrow: bool = False
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._begun = self.clock.now()
        self._rounds_begun = self._begun
        self._told = self._judged = float("-inf")

    def run(self) -> None:
        """Calibrate, then time rounds until the end."""
        try:
            self._calibrate()
            self._rounds_begun = self._elapsed()
            while self._goes_on():
                self._round()
        except KeyboardInterrupt:
            self.interrupted = True

    def samples(self) -> Samples:
        """Return what was measured."""
        lanes = tuple(track.value() for track in self.tracks)
        return Samples(lanes, tuple(self.starts_s), self._elapsed(), self.narrow, self.interrupted)

    def _elapsed(self) -> float:
        return self.clock.now() - self._begun

    def _calibrate(self) -> None:
        for track in self.tracks:
            self._tell(f"timing {track.lane.name}")
            track.count = track.block(partial(runs_in_a_block, clock=self.clock)) or 1

    def _round(self) -> None:
        self.starts_s.append(self._elapsed())
        for track in self.tracks:
            track.wall_s.append(None)
            track.device_s.append(None)
        order = [track for track in self.tracks if track.runs]
        self.rng.shuffle(order)
        for track in order:
            self._tell(f"round {len(self.starts_s)}, {track.lane.name}")
            track.add(track.block(partial(timed, clock=self.clock, count=track.count)))

    def _goes_on(self) -> bool:
        if not any(track.runs for track in self.tracks):
            return False
        if len(self.starts_s) < LEAST_ROUNDS:
            return True
        self.narrow = self._is_narrow()
        return not self.narrow and self._round_fits()

    def _round_fits(self) -> bool:
        elapsed = self._elapsed()
        return elapsed + (elapsed - self._rounds_begun) / len(self.starts_s) <= self.budget_s

    def _is_narrow(self) -> bool:
        """Tell whether every ratio is known well enough. Asked once a batch, as a long sampling has many rounds."""
        elapsed = self._elapsed()
        if elapsed - self._rounds_begun < LEAST_BATCHES * BATCH_S or elapsed - self._judged < BATCH_S:
            return False
        self._judged = elapsed
        first, *others = self.tracks
        found = [ratio(first.wall_s, track.wall_s, self.starts_s) for track in others if track.runs]
        return all(one is not None and one.is_narrow(self.width) for one in found)

    def _tell(self, words: str) -> None:
        elapsed = self._elapsed()
        if self.progress is not None and elapsed - self._told >= PROGRESS_S:
            self._told = elapsed
            self.progress(min(1.0, elapsed / self.budget_s) if self.budget_s > 0 else 1.0, words)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector from running by itself, as it would in one block and not in another."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        (gc.enable if enabled else gc.disable)()
