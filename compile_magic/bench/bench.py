"""Measure the work in every variant, in steps, and put everything back. The last run, a plain one, is the caller's.

Each step adds to the facts of the lanes; `BenchReport` is made of these. Whatever happens in between, the state of the
work and of Dynamo is put back before a report is given.
"""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.bench import verdicts
from compile_magic.bench.clock import DeviceClock
from compile_magic.bench.compare import compare
from compile_magic.bench.compare import deterministic
from compile_magic.bench.compare import spread
from compile_magic.bench.facts import FIRST_RUNS
from compile_magic.bench.facts import Facts
from compile_magic.bench.facts import variant
from compile_magic.bench.findings import Findings
from compile_magic.bench.float64 import Float64
from compile_magic.bench.kernels import peak_memory
from compile_magic.bench.kernels import profile
from compile_magic.bench.lanes import CompiledLane
from compile_magic.bench.lanes import EagerLane
from compile_magic.bench.lanes import Lane
from compile_magic.bench.lanes import ShareLane
from compile_magic.bench.lanes import WrittenLane
from compile_magic.bench.reasons import reason
from compile_magic.bench.results import Results
from compile_magic.bench.results import kept
from compile_magic.bench.sampler import Samples
from compile_magic.bench.sampler import sample
from compile_magic.bench.settings import NoProgress
from compile_magic.bench.settings import Progress
from compile_magic.bench.settings import Settings
from compile_magic.bench.snapshot import Snapshot
from compile_magic.bench.traffic import Traffic
from compile_magic.bench.unrepeatable import UnrepeatableError
from compile_magic.bench.unrepeatable import guarded
from compile_magic.bench.variants import specs
from compile_magic.bench.work import Work
from compile_magic.bench.writes import tensors_in
from compile_magic.bench_model import BenchReport
from compile_magic.run.run import Options

EAGER = "eager"
# Below this time of a run, the clock around what is compiled would count for too much of it.
LEAST_SHARED_S = 1e-4
TWIN = "eager again"


class CannotBenchError(Exception):
    """There is nothing to measure; the message says why and what to do."""


class Bench:
    """One bench of one piece of work. `run` it once.

    Args:
        work: what is run.
        settings: what is measured.
        mode: how the work is run, as in the report.
        used: the names of the notebook that the work uses.
        extra: more objects that it uses, by name.
        silenced: keeps what the work prints and displays from being shown.
        progress: is told what is going on.
    """

    def __init__(
        self,
        work: Work,
        settings: Settings,
        *,
        mode: str,
        used: Iterable[str] = (),
        extra: Mapping[str, Any] | None = None,
        silenced: Callable[[], AbstractContextManager[Any]] = nullcontext,
        progress: Progress | None = None,
    ) -> None:
        self._work = work
        self._settings = settings
        self._mode = mode
        self._silenced = silenced
        self._progress = progress or NoProgress()
        self._snapshot = Snapshot(work.namespace, used, extra or {})
        self._eager = Facts(EAGER, how="eager")
        self._lanes: dict[str, Lane] = {}
        self._facts: dict[str, Facts] = {EAGER: self._eager}
        self._options: dict[str, Options] = {}
        self.findings = Findings()

    def run(self) -> BenchReport:
        """Measure, put everything back, and return what was found.

        Raises nothing that the work raises; that is in the report. After an interrupt the report holds what was
        measured until then, with `interrupted`.
        """
        start = time.perf_counter()
        try:
            self._measure()
        except (CannotBenchError, UnrepeatableError) as error:
            self.findings.error = str(error)
        except KeyboardInterrupt:
            self.findings.interrupted = True
        finally:
            self._put_back()
        return self._report(time.perf_counter() - start)

    def _measure(self) -> None:
        self._run_eager()
        self._make_lanes()
        self._run_reference()
        for lane in list(self._lanes.values()):
            self._first_runs(lane)
        self._steady_state()
        self._look_again()
        self._find_floor()

    # --- one lane at a time ------------------------------------------------------------------------------------------

    def _lane(self, kind: Callable[..., Lane], name: str, **more: Any) -> Lane:
        targets = () if kind is WrittenLane else self._settings.targets
        return kind(name, self._work, self._snapshot.restore, targets=targets, silenced=self._silenced, **more)

    @contextmanager
    def _on(self, lane: Lane) -> Iterator[None]:
        try:
            lane.begin_block()
            yield
        finally:
            lane.end_block()

    def _timed(self, lane: Lane) -> float:
        clock = self.findings.clock
        clock.synchronize()
        start = clock.now()
        lane.run(1)
        clock.synchronize()
        return clock.now() - start

    def _results(self) -> Results:
        return kept({**self._work.results(), **self._snapshot.written()})

    # --- the steps ---------------------------------------------------------------------------------------------------

    def _run_eager(self) -> None:
        """Run once in eager, watched: what it writes, moves and computes, and whether it can be run again."""
        lane = self._lanes[EAGER] = self._lane(EagerLane, EAGER)
        self._progress.tell("compile_bench: one eager run, to see what the cell reads and writes")
        with self._on(lane):
            with guarded(), self._snapshot.watching(), Traffic() as traffic:
                try:
                    lane.run(1)
                except Exception as error:  # noqa: BLE001 - the plain run raises it again, where it belongs
                    raise CannotBenchError(f"the cell raises in eager: {reason(error)}") from None
            # Outside of the modes: reading the generators' states would count as well.
            values = {**self._work.results(), **self._snapshot.written()}
            traffic.finish(tensors_in(values))
            self.findings.devices = traffic.devices
            self.findings.clock = DeviceClock(traffic.devices)
            self._eager.results = kept(values)
        self.findings.counted = traffic.counted()
        self.findings.targets = tuple(lane.found) if isinstance(lane, EagerLane) else ()
        if not self.findings.targets:
            raise CannotBenchError(
                "the cell calls nothing that torch.compile takes: a function or module of yours, or --whole for the "
                "body as one function"
            )

    def _make_lanes(self) -> None:
        settings, hows = self._settings, {target.how for target in self.findings.targets}
        for spec in specs(
            modes=settings.modes,
            backends=settings.backends,
            dynamic=settings.dynamic,
            fullgraph=settings.fullgraph,
            observed="observed" in hows,
            others="compiled" in hows,
        ):
            if spec.options is None:
                self._facts[spec.name] = Facts(spec.name, how="observed")
                self._lanes[spec.name] = self._lane(WrittenLane, spec.name)
            else:
                self._options[spec.name] = spec.options
                self._facts[spec.name] = Facts(spec.name, spec.options.backend, spec.options.mode or "")
                self._lanes[spec.name] = self._lane(CompiledLane, spec.name, options=spec.options)

    def _run_reference(self) -> None:
        """Run once in float64, so that "different" can say which side is off."""
        lane, mode = self._lanes[EAGER], Float64()
        self._progress.tell("compile_bench: a float64 run for reference")
        try:
            with self._on(lane):
                with mode:
                    lane.run(1)
                values = {**self._work.results(), **self._snapshot.written()}
                self.findings.reference = kept(values, read=mode.value_of)
        except Exception as error:  # noqa: BLE001 - without a reference the bench goes on
            self.findings.note(f"no float64 run to compare with: {reason(error)}")
        self.findings.fallbacks = mode.fallbacks

    def _first_runs(self, lane: Lane) -> None:
        """Run three times, one after the other, and compare what the first gave."""
        facts = self._facts[lane.name]
        if facts.how == "compiled":
            self._progress.tell(f"compile_bench: the first run of {lane.name}, which compiles")
        try:
            with self._on(lane), self._cache(lane):
                facts.first.append(self._timed(lane))
                self._compare(facts)
                facts.first += [self._timed(lane) for _ in range(FIRST_RUNS - 1)]
        except Exception as error:  # noqa: BLE001 - the variant's row says so, the others go on
            facts.error = reason(error)
        self.findings.note_first_runs(lane, facts)
        self._compare_draws(facts)

    def _compare_draws(self, facts: Facts) -> None:
        """Where a variant of Inductor's differs and random numbers were drawn, compare with eager's draws in it."""
        options = self._options.get(facts.name)
        differs = facts.comparison is not None and not facts.comparison.matches
        if not differs or options is None or options.backend != "inductor" or not self._snapshot.drawn:
            return
        self._progress.tell(f"compile_bench: {facts.name} once more, with eager's random numbers")
        alike = replace(options, patches=(("fallback_random", True),))
        lane = self._lanes[f"{facts.name}, eager's draws"] = self._lane(CompiledLane, facts.name, options=alike)
        self._facts[f"{facts.name}, eager's draws"] = again = Facts(facts.name, hidden=True)
        try:
            with self._on(lane):
                lane.run(1)
                self._compare(again)
        except Exception as error:  # noqa: BLE001 - then it stays a difference
            again.error = reason(error)
        if again.comparison is not None and again.comparison.matches:
            facts.comparison, facts.own_draws = again.comparison, True
            self.findings.note(
                f"{facts.name} draws other random numbers than eager: Inductor has a generator of its own. With "
                "torch._inductor.config.fallback_random = True it draws eager's, and gives the same results"
            )

    def _cache(self, lane: Lane) -> AbstractContextManager[Any]:
        cold = self._settings.cold and isinstance(lane, CompiledLane)
        return _torch.fresh_cache() if cold else nullcontext()

    def _compare(self, facts: Facts) -> None:
        found = self._results()
        if facts.how == "eager":
            self.findings.unsteady = deterministic(self._eager.results, found)
            self.findings.slack = spread(self._eager.results, found)
            if self.findings.reference is not None:
                against = compare(found, self._eager.results, self.findings.reference)
                facts.error_vs_fp64, facts.noise = against.error_vs_fp64, against.noise
            return
        comparison = compare(found, self._eager.results, self.findings.reference, floor=self.findings.slack)
        if not facts.own_draws and (facts.comparison is None or facts.comparison.matches):
            facts.comparison = comparison

    def _steady_state(self) -> None:
        able = self._able()
        lanes = [able[0], self._lane(EagerLane, TWIN), *able[1:]]
        self._tell_duration(len(lanes))
        samples = sample(
            lanes,
            self.findings.clock,
            budget_s=self._settings.budget_s * len(able),
            progress=lambda fraction, words: self._progress.tell(
                f"compile_bench: steady state, {fraction:.0%} · {words}"
            ),
        )
        for lane in able:
            self._take(samples, self._facts[lane.name])
        self.findings.take_samples(samples, TWIN)
        if samples.interrupted:
            raise KeyboardInterrupt

    def _tell_duration(self, lanes: int) -> None:
        run_s = min(self._eager.first, default=0.0)
        if run_s > self._settings.budget_s:
            self._progress.tell(
                f"compile_bench: one eager run takes {run_s:.0f} s, so the steady state takes about "
                f"{run_s * lanes * 3:.0f} s; interrupt to stop it and see what there is"
            )

    def _take(self, samples: Samples, facts: Facts) -> None:
        found = samples.lane(facts.name)
        facts.walls, facts.devices = list(found.times_s), list(found.device_times_s)
        facts.thrown_out = found.thrown_out
        facts.ratio = samples.ratio(facts.name) if facts.how != "eager" else None
        if found.error is not None:
            facts.error = reason(found.error)
        elif found.given_up:
            facts.error = found.given_up

    def _look_again(self) -> None:
        """Compare the results of a steady run, count kernels and take the peak of memory."""
        self._progress.tell("compile_bench: results once more, kernels and memory")
        for lane in self._able():
            facts = self._facts[lane.name]
            try:
                with self._on(lane):
                    lane.run(1)
                    if facts.how != "eager":
                        self._compare(facts)
                with self._on(lane):
                    self._count(lane, facts)
            except Exception as error:  # noqa: BLE001 - the times stand; what is missing is said
                self.findings.note(f"{lane.name}: its kernels could not be counted: {reason(error)}")

    def _able(self) -> list[Lane]:
        return [lane for name, lane in self._lanes.items() if self._facts[name].runs]

    def _count(self, lane: Lane, facts: Facts) -> None:
        device = self.findings.accelerator
        if device is None:
            return
        lane.run(1)
        facts.peak = peak_memory(lambda: lane.run(1), device)
        profiled = profile(lambda: lane.run(1), device=device, tell=self.findings.note)
        if profiled is not None:
            facts.kernels, facts.busy_s = profiled.kernels, profiled.busy_s

    def _find_floor(self) -> None:
        if min(self._eager.first) > LEAST_SHARED_S:
            self._find_share()
        self._progress.tell("compile_bench: what this device can do at best")
        self.findings.find_floor([self._facts[lane.name] for lane in self._able()])

    def _find_share(self) -> None:
        lane = self._lane(ShareLane, "share", synchronize=self.findings.clock.synchronize)
        with self._on(lane):
            took = sum((self._timed(lane) for _ in range(FIRST_RUNS)), start=0.0)
        if isinstance(lane, ShareLane):
            self.findings.share = min(1.0, lane.inside_s / took)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _put_back(self) -> None:
        for name, lane in reversed(self._lanes.items()):
            # After an interrupt, a block may still be open.
            lane.end_block()
            self._facts[name].report = lane.finish()
        self.findings.left_over = self._snapshot.restore_all()
        gc.collect()

    def _report(self, duration_s: float) -> BenchReport:
        found = self.findings
        facts = {name: facts for name, facts in self._facts.items() if not facts.hidden}
        made = tuple(variant(one, self._eager) for one in facts.values())
        return BenchReport(
            variants=tuple(replace(one, percent_of_floor=found.percent(one)) for one in made) if found.begun else (),
            device=found.device_name(),
            checks=tuple(verdicts.checks(found, facts)),
            notes=tuple(verdicts.notes(found, facts)),
            error=found.error,
            mode=self._mode,
            targets=found.targets,
            roofline=found.floor,
            eager_spread=found.eager_spread,
            compiled_share=found.share,
            job_runs=self._settings.runs,
            budget_s=self._settings.budget_s,
            duration_s=duration_s,
            interrupted=found.interrupted,
            torch_version=torch.__version__,
            python_version=platform.python_version(),
        )
