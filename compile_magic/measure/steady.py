"""The steady state: all lanes in turn, with an eager twin whose distance from eager is what can't be told apart."""

from __future__ import annotations

from compile_magic import _torch
from compile_magic.measure.facts import Facts
from compile_magic.measure.lanes import EagerLane
from compile_magic.measure.reasons import reason
from compile_magic.measure.stage import Stage
from compile_magic.measure.timing.sampler import LEAST_ROUNDS
from compile_magic.measure.timing.sampler import sample
from compile_magic.measure.timing.samples import Samples

TWIN = "eager again"
# Seconds that the timing waits for Inductor's worker processes to be up.
MOST_WAIT_S = 10.0


def steady_state(stage: Stage) -> None:
    """Sample all lanes in turn until the speed-ups are known well enough or the budget is spent.

    Raises:
        KeyboardInterrupt: the user has stopped it. What was sampled until then is kept.
    """
    able = stage.able()
    _torch.wait_for_compile_workers(MOST_WAIT_S)
    lanes = [able[0], stage.make(EagerLane, TWIN), *able[1:]]
    _tell_duration(stage, len(lanes))
    samples = sample(
        lanes,
        stage.findings.clock,
        budget_s=stage.settings.budget_s * len(able),
        progress=lambda fraction, words: stage.tell(f"steady state, {fraction:.0%} · {words}"),
    )
    for lane in able:
        _take(samples, stage.facts[lane.name])
    stage.findings.take_samples(samples, TWIN)
    if samples.interrupted:
        raise KeyboardInterrupt


def _tell_duration(stage: Stage, lanes: int) -> None:
    run_s = min(stage.eager.first, default=0.0)
    if run_s > stage.settings.budget_s:
        stage.tell(
            f"one eager run takes {run_s:.0f} s, so the steady state takes about "
            f"{run_s * lanes * (LEAST_ROUNDS + 1):.0f} s; interrupt to stop it and see what there is"
        )


def _take(samples: Samples, facts: Facts) -> None:
    found = samples.lane(facts.name)
    facts.walls, facts.devices = list(found.times_s), list(found.device_times_s)
    facts.thrown_out = found.thrown_out
    facts.ratio = samples.ratio(facts.name) if facts.how != "eager" else None
    facts.error = reason(found.error) if found.error is not None else found.given_up
