"""What the steps of a bench work on: the work, its state, the lanes that run it, and what was found so far."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from compile_magic import _torch
from compile_magic.measure.facts import Facts
from compile_magic.measure.findings import Findings
from compile_magic.measure.growth import sizes
from compile_magic.measure.lanes import Lane
from compile_magic.measure.lanes import WrittenLane
from compile_magic.measure.proof import Proof
from compile_magic.measure.settings import NoProgress
from compile_magic.measure.settings import Progress
from compile_magic.measure.settings import Settings
from compile_magic.measure.state.effects import compiled_names
from compile_magic.measure.state.effects import guarded
from compile_magic.measure.state.fingerprint import Looker
from compile_magic.measure.state.snapshot import Snapshot
from compile_magic.measure.uninterrupted import Presses
from compile_magic.measure.work import Work
from compile_magic.run.run import Options

EAGER = "eager"


class CannotBenchError(Exception):
    """There is nothing to measure; the message says why and what to do."""


class CannotRepeatError(CannotBenchError):
    """The work can't be run again and again; the message says why and what to do."""


@dataclass(frozen=True)
class Surroundings:
    """What the work has around it.

    `look` takes a fingerprint of all that it reaches; `silenced` keeps what it prints and displays from being shown,
    and `progress` is told what is going on.
    """

    look: Looker
    silenced: Callable[[], AbstractContextManager[Any]] = nullcontext
    progress: Progress = field(default_factory=NoProgress)


class Stage:
    """The work with its lanes. Each lane has its facts; those of a lane that only helps are hidden."""

    def __init__(self, work: Work, settings: Settings, around: Surroundings) -> None:
        self.work = work
        self.settings = settings
        self.proof = Proof(around.look)
        self.snapshot = Snapshot(around.look.namespace, around.look.used, around.look.extra)
        self.findings = Findings()
        self.eager = Facts(EAGER, how="eager")
        self.lanes: dict[str, Lane] = {}
        self.facts: dict[str, Facts] = {EAGER: self.eager}
        self.options: dict[str, Options] = {}
        self.presses = Presses()
        self._around = around
        _torch.know_builtins()
        self._compiled = compiled_names()

    def close(self) -> None:
        """Let go of all that was remembered, also where somebody keeps the error that ended the bench."""
        self.lanes.clear()
        vars(self.snapshot).clear()
        self.proof.forget()
        self.findings.reference = self.eager.results = None

    def tell(self, words: str) -> None:
        """Say what is going on.

        Raises:
            KeyboardInterrupt: stop was pressed before, and the interrupt got lost.
        """
        self.presses.check()
        self._around.progress.tell(f"compile_bench: {words}")

    def pair(self, why: str) -> None:
        """Have the state put back before each run from now on, as runs can't follow each other."""
        self.findings.paired = why
        for lane in self.lanes.values():
            lane.paired = True

    def make(self, kind: Callable[..., Lane], name: str, **more: Any) -> Lane:
        """Return a lane that runs the work in one way."""
        targets = () if kind is WrittenLane else self.settings.targets
        lane = kind(name, self.work, self.snapshot.restore, targets=targets, silenced=self._calm, **more)
        lane.paired = bool(self.findings.paired)
        return lane

    @contextmanager
    def _calm(self) -> Iterator[None]:
        with self._around.silenced(), guarded(self._compiled, lambda: min(self.eager.first, default=None)):
            yield

    def add(self, lane: Lane, facts: Facts) -> None:
        """Add a lane and what will be found out about it."""
        self.lanes[facts.label], self.facts[facts.label] = lane, facts

    def able(self) -> list[Lane]:
        """Return the lanes that are measured and have not failed."""
        return [lane for name, lane in self.lanes.items() if self.facts[name].runs]

    @contextmanager
    def on(self, lane: Lane) -> Iterator[None]:
        """Put the state back and run the work through one lane."""
        try:
            lane.begin_block()
            yield
        finally:
            lane.end_block()

    def again(self, lane: Lane) -> float:
        """Run once more, as `timed` does; where runs can't follow each other, from the state that was put back."""
        if lane.paired:
            lane.restart()
        return self.timed(lane)

    def timed(self, lane: Lane) -> float:
        """Run once and return the seconds that it took, the device's work included."""
        clock = self.findings.clock
        clock.synchronize()
        start = clock.now()
        lane.run(1)
        clock.synchronize()
        return clock.now() - start

    def sizes(self) -> dict[str, int]:
        """Return how large the values of the names that the work uses are now."""
        return sizes(self.work.namespace, self._around.look.used)

    def given(self) -> dict[str, Any]:
        """Return what the last run gave and what it has changed, by path."""
        return {**self.work.results(), **self.snapshot.written()}
