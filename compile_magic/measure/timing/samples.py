"""What the steady state of all lanes came to: raw times by round, and the ratios that they give."""

from __future__ import annotations

from dataclasses import dataclass

from compile_magic.measure.timing.statistics import Ratio
from compile_magic.measure.timing.statistics import ratio


@dataclass(frozen=True)
class LaneSamples:
    """What was measured of one lane.

    `wall_s` and `device_s` hold seconds for one run, the mean of a block, for each round; None where the lane's block
    was thrown out or not run, in `device_s` also where the device has no timing events. `thrown_out` counts blocks,
    `count` is how many runs its last block had, the untimed ones included. `error` is what a run raised, after which
    the lane was not run again; `given_up` says why it was stopped without an error.
    """

    name: str
    wall_s: tuple[float | None, ...] = ()
    device_s: tuple[float | None, ...] = ()
    thrown_out: int = 0
    count: int = 1
    error: Exception | None = None
    given_up: str = ""

    @property
    def times_s(self) -> tuple[float, ...]:
        """Return the clean wall times, in the order they were taken."""
        return tuple(time for time in self.wall_s if time is not None)

    @property
    def device_times_s(self) -> tuple[float, ...]:
        """Return the device's times that there are, in the order they were taken."""
        return tuple(time for time in self.device_s if time is not None)


@dataclass(frozen=True)
class Samples:
    """What was measured of all lanes. The first lane is the reference.

    `starts_s` are when the rounds began, in seconds since the sampling did; `duration_s` is how long it took.
    `narrow` tells that it ended because every ratio was known well enough, `interrupted` that the user stopped it.
    """

    lanes: tuple[LaneSamples, ...]
    starts_s: tuple[float, ...] = ()
    duration_s: float = 0.0
    narrow: bool = False
    interrupted: bool = False

    def lane(self, name: str) -> LaneSamples:
        """Return the lane of that name.

        Raises:
            KeyError: there is none.
        """
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(f"no lane {name!r}; there are {', '.join(lane.name for lane in self.lanes)}")

    def ratio(self, name: str) -> Ratio | None:
        """Return the first lane's wall time divided by this one's, None with fewer than two rounds of both."""
        return ratio(self.lanes[0].wall_s, self.lane(name).wall_s, self.starts_s)
