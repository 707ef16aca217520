"""One block: a lane switched on, run for about 20 ms, timed, and switched off again whatever happens."""

from __future__ import annotations

import gc
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from typing import NamedTuple
from typing import Protocol
from typing import TypeVar

from compile_magic.measure.timing.clock import Clock
from compile_magic.measure.timing.samples import LaneSamples
from compile_magic.measure.timing.statistics import median

BLOCK_S = 0.02
# One run in so many of a block is its warm-up.
WARM_UP_SHARE = 5
# Blocks thrown out in a row, without a clean one before, after which a lane is given up.
MOST_THROWN_OUT = 8

# A first run may be slow because its data left the caches. It is run again, unless that would cost this much.
_LONG_RUN_S = 0.5
# The runs of a block are set by the median of so many clean blocks before it (see `Track.add`).
_RECENT = 15
# A clock that stands still must not double the runs for ever.
_MOST_RUNS = 1 << 20
# Putting back between runs isn't timed, and must not make a block last much longer than others.
_MOST_PAIRED = 16
_MOST_CAUSES = 20

_T = TypeVar("_T")


class Lane(Protocol):
    """One way to run the work."""

    @property
    def name(self) -> str:
        """What the lane is called."""

    @property
    def paired(self) -> bool:
        """Whether each run begins with the state that was put back; with the clock stopped."""

    def restart(self) -> None:
        """Put the state back in the middle of a block. What `end_block` returns is of the whole block."""

    def begin_block(self) -> None:
        """Put the state back that the work starts from, and switch this way of running it on. Not timed."""

    def run(self, count: int) -> None:
        """Run the work `count` times, one after the other."""

    def end_block(self) -> bool:
        """Switch it off. Called after every `begin_block`, also when that or `run` raised or was interrupted.

        Returns:
            False if anything was compiled or recorded in this block: it is thrown out.
        """


class Timed(NamedTuple):
    """Seconds for one run."""

    wall_s: float
    device_s: float | None


@dataclass
class Track:
    """A lane and what was measured of it so far."""

    lane: Lane
    count: int = 1
    wall_s: list[float | None] = field(default_factory=list)
    device_s: list[float | None] = field(default_factory=list)
    thrown_out: int = 0
    error: Exception | None = None
    given_up: str = ""
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @property
    def runs(self) -> bool:
        """Tell whether the lane is still timed."""
        return self.error is None and not self.given_up

    @property
    def was_clean(self) -> bool:
        """Tell whether any block of it could be used."""
        return any(time is not None for time in self.wall_s)

    def block(self, measure: Callable[[Lane], _T]) -> _T | None:
        """Return what `measure` says of one block, None if it is not to be used."""
        gc.disable()
        gc.collect(1)
        found = None
        clean = False
        try:
            self.lane.begin_block()
            found = measure(self.lane)
        except Exception as error:  # noqa: BLE001 - whatever the work raises, the other lanes go on
            self._drop(error)
        finally:
            clean = self._end()
        return found if clean else None

    def add(self, timed: Timed | None) -> None:
        """Enter the block of this round. The lists have a None for the round already.

        The next block is fitted to the last ones, not to the calibration alone. That may fall into a slow moment, and
        like lanes with unlike blocks are not alike on a loaded machine: in three minutes eager and its twin came out
        4 % apart (six standard errors) with runs set once, and within one standard error like this.
        """
        if timed is not None:
            self.wall_s[-1], self.device_s[-1] = timed
            self._refit(timed.wall_s)
        elif self.error is None:
            self._throw_out()

    def value(self) -> LaneSamples:
        """Return it as a value."""
        return LaneSamples(
            name=self.lane.name,
            wall_s=tuple(self.wall_s),
            device_s=tuple(self.device_s),
            thrown_out=self.thrown_out,
            count=self.count,
            error=self.error,
            given_up=self.given_up,
        )

    def _end(self) -> bool:
        try:
            clean = self.lane.end_block()
        except Exception as error:  # noqa: BLE001 - as in block
            self._drop(error)
        return clean if self.error is None else False

    def _drop(self, error: Exception) -> None:
        """Keep the first error, but not the tensors in its frames, which the other lanes may need the memory of."""
        self.error = self.error or error
        _forget_locals(error)

    def _throw_out(self) -> None:
        self.thrown_out += 1
        if self.thrown_out >= MOST_THROWN_OUT and not self.was_clean:
            self.given_up = (
                f"Something was compiled or recorded in each of its first {self.thrown_out} blocks: "
                "it has no steady state."
            )

    def _refit(self, run_s: float) -> None:
        self._recent.append(run_s)
        self.count = _fitting(median(self._recent), self.lane)


def runs_in_a_block(lane: Lane, clock: Clock) -> int:
    """Return how many runs fill a block: doubled until they take half of one."""
    took = _took(lane, clock, 1).wall_s
    count = 1
    while took < _LONG_RUN_S and count < _most(lane):
        took = _took(lane, clock, count).wall_s
        if took >= BLOCK_S / 2:
            break
        count *= 2
    return _fitting(took / count, lane)


def _most(lane: Lane) -> int:
    return _MOST_PAIRED if lane.paired else _MOST_RUNS


def _fitting(run_s: float, lane: Lane) -> int:
    return min(_most(lane), max(1, round(BLOCK_S / max(run_s, BLOCK_S / _MOST_RUNS))))


def timed(lane: Lane, clock: Clock, count: int) -> Timed:
    """Return the seconds for one run, over the later four fifths of a block."""
    warm = max(1, count // WARM_UP_SHARE) if count > 1 else 0
    if warm and lane.paired:
        _took(lane, clock, warm)
    elif warm:
        lane.run(warm)
    took = _took(lane, clock, count - warm)
    return Timed(took.wall_s / (count - warm), None if took.device_s is None else took.device_s / (count - warm))


def _took(lane: Lane, clock: Clock, count: int) -> Timed:
    """Return the seconds that so many runs take together, without what is done between runs that can't follow."""
    if not lane.paired:
        return _stretch(lane, clock, count)
    found = []
    for _ in range(count):
        found.append(_stretch(lane, clock, 1))
        lane.restart()
    devices = [one.device_s for one in found if one.device_s is not None]
    return Timed(sum(one.wall_s for one in found), sum(devices) if len(devices) == count else None)


def _stretch(lane: Lane, clock: Clock, count: int) -> Timed:
    clock.synchronize()
    first, start = clock.event(), clock.now()
    lane.run(count)
    last = clock.event()
    clock.synchronize()
    wall_s = clock.now() - start
    return Timed(wall_s, clock.elapsed_s(first, last))


def _forget_locals(error: BaseException | None) -> None:
    """Drop the local variables of the frames that an error came through, and those of its causes."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            return
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
