"""The last steps: results of a steady run, kernels and memory, and the floor that this device sets."""

from __future__ import annotations

from compile_magic.measure.facts import FIRST_RUNS
from compile_magic.measure.facts import Facts
from compile_magic.measure.first_runs import compare_results
from compile_magic.measure.floor.kernels import peak_memory
from compile_magic.measure.floor.kernels import profile
from compile_magic.measure.lanes import Lane
from compile_magic.measure.lanes import WrittenLane
from compile_magic.measure.reasons import reason
from compile_magic.measure.share import ShareLane
from compile_magic.measure.stage import Stage

# Below this time of a run, the clock around what is compiled would count for too much of it.
LEAST_SHARED_S = 1e-3


def look_again(stage: Stage) -> None:
    """Compare the results of a steady run, count kernels and take the peak of memory."""
    stage.tell("results once more, kernels and memory")
    for lane in stage.able():
        _try(stage, lane)


def _try(stage: Stage, lane: Lane) -> None:
    try:
        _look(stage, lane, stage.facts[lane.name])
    except Exception as error:  # noqa: BLE001 - the times stand; what is missing is said
        stage.findings.note(f"{lane.name}: a run after the timing failed: {reason(error)}")


def _look(stage: Stage, lane: Lane, facts: Facts) -> None:
    with stage.on(lane):
        lane.run(1)
        if facts.how != "eager":
            compare_results(stage, facts)
    if facts is stage.eager or isinstance(lane, WrittenLane):
        stage.proof.ran(as_written=isinstance(lane, WrittenLane))
    if stage.findings.accelerator is not None:
        with stage.on(lane):
            lane.run(1)
            _count(stage, lane, facts)


def _count(stage: Stage, lane: Lane, facts: Facts) -> None:
    device = stage.findings.accelerator
    if device is None:
        return
    _restart(lane)
    facts.peak = peak_memory(lambda: lane.run(1), device)
    _restart(lane)
    profiled = profile(lambda: lane.run(1), device=device, tell=stage.findings.note)
    if profiled is not None:
        facts.kernels, facts.busy_s = profiled.kernels, profiled.busy_s


def _restart(lane: Lane) -> None:
    if lane.paired:
        lane.restart()


def find_share(stage: Stage) -> None:
    """Find how much of an eager run is spent in what is compiled."""
    if min(stage.eager.first, default=0.0) < LEAST_SHARED_S:
        return
    lane = stage.make(ShareLane, "share", synchronize=stage.findings.clock.synchronize)
    with stage.on(lane):
        took = sum((stage.again(lane) for _ in range(FIRST_RUNS)), start=0.0)
    if isinstance(lane, ShareLane):
        stage.findings.share = min(1.0, lane.inside_s / took)


def find_floor(stage: Stage) -> None:
    """Find the least time of a run on this device, and what binds it."""
    stage.tell("what this device can do at best")
    stage.findings.find_floor([stage.facts[lane.name] for lane in stage.able()])
