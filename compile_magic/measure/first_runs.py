"""The first three runs of each lane, which compile and record, and the comparison of what they give."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from compile_magic import _torch
from compile_magic.measure.facts import FIRST_RUNS
from compile_magic.measure.facts import Facts
from compile_magic.measure.growth import growing
from compile_magic.measure.lanes import CompiledLane
from compile_magic.measure.lanes import Lane
from compile_magic.measure.reasons import reason
from compile_magic.measure.results.compare import compare
from compile_magic.measure.results.compare import deterministic
from compile_magic.measure.results.compare import spread
from compile_magic.measure.results.results import kept
from compile_magic.measure.stage import CannotBenchError
from compile_magic.measure.stage import CannotRepeatError
from compile_magic.measure.stage import Stage

_OWN_DRAWS = (
    "{} draws other random numbers than eager: Inductor has a generator of its own. With "
    "torch._inductor.config.fallback_random = True it draws eager's, and gives the same results"
)
_ONCE = "the cell raises when it is run again from the state that it began with: {}"


def first_runs(stage: Stage) -> None:
    """Run each lane three times, one after the other and, where that can be, without putting back in between.

    Raises:
        CannotRepeatError: eager raises in one of them.
    """
    for lane in list(stage.lanes.values()):
        facts = stage.facts[lane.name]
        if facts.how == "compiled":
            stage.tell(f"the first run of {lane.name}, which compiles")
        _run(stage, lane, facts)
        if facts is stage.eager and facts.error:
            raise CannotRepeatError(_ONCE.format(facts.error))
        stage.findings.note_first_runs(lane, facts)
        if _draws_otherwise(stage, facts):
            _compare_draws(stage, facts)


def _run(stage: Stage, lane: Lane, facts: Facts) -> None:
    try:
        with _cache(stage, lane), stage.on(lane):
            facts.first.append(stage.timed(lane))
            compare_results(stage, facts)
            if facts is stage.eager:
                why = _apart(stage, lane)
                if why:
                    del facts.first[1:]
                    stage.pair(why)
            while len(facts.first) < FIRST_RUNS:
                facts.first.append(stage.again(lane))
    except CannotBenchError:
        raise
    except Exception as error:  # noqa: BLE001 - the variant's row says so, the others go on
        facts.error = reason(error)


def _apart(stage: Stage, lane: Lane) -> str:
    """Return why a second and a third run can't follow, "" if they can. They are timed."""
    first, sizes = _looks(stage), [stage.sizes()]
    try:
        for _ in range(FIRST_RUNS - 1):
            stage.eager.first.append(stage.timed(lane))
            sizes.append(stage.sizes())
            other = next((path for path, look in {**first, **_looks(stage)}.items() if first.get(path) != look), "")
            if other:
                return f"a second run in a row gives another size or kind of `{other}`"
    except Exception as error:  # noqa: BLE001 - whatever it raises, the first run did not
        return f"a second run in a row raises {reason(error)}"
    grown = growing(sizes)
    return f"each run in a row makes `{grown}` larger by more than the run before" if grown else ""


def _looks(stage: Stage) -> dict[str, object]:
    found = kept(stage.given(), most_bytes=0).found
    return {path: (one.kind, one.dtype, one.shape) for path, one in found.items()}


def _cache(stage: Stage, lane: Lane) -> AbstractContextManager[Any]:
    cold = stage.settings.cold and isinstance(lane, CompiledLane)
    return _torch.fresh_cache() if cold else nullcontext()


def compare_results(stage: Stage, facts: Facts) -> None:
    """Compare what the last run gave with eager's; of two comparisons the one that differs is kept."""
    given, found = kept(stage.given()), stage.findings
    if facts.how == "eager":
        _compare_eager(stage, given)
        return
    comparison = compare(given, stage.eager.results, found.reference, floor=found.slack)
    if not facts.own_draws and (facts.comparison is None or facts.comparison.matches):
        facts.comparison = comparison


def _compare_eager(stage: Stage, given: Any) -> None:
    first, found = stage.eager.results, stage.findings
    found.unsteady, found.slack = deterministic(first, given), spread(first, given)
    if found.reference is not None:
        against = compare(given, first, found.reference)
        stage.eager.error_vs_fp64, stage.eager.noise = against.error_vs_fp64, against.noise


def _draws_otherwise(stage: Stage, facts: Facts) -> bool:
    """Return whether a variant of Inductor's differs where random numbers were drawn."""
    options = stage.options.get(facts.name)
    differs = facts.comparison is not None and not facts.comparison.matches
    return differs and options is not None and options.backend == "inductor" and stage.snapshot.drawn


def _compare_draws(stage: Stage, facts: Facts) -> None:
    """Compile once more, with eager's random numbers, and take the comparison of that if the results are the same."""
    stage.tell(f"{facts.name} once more, with eager's random numbers")
    alike = replace(stage.options[facts.name], patches=(("fallback_random", True),))
    again = Facts(facts.name, label=f"{facts.name} with eager's draws", hidden=True)
    lane = stage.make(CompiledLane, facts.name, options=alike)
    stage.add(lane, again)
    try:
        with stage.on(lane):
            lane.run(1)
            compare_results(stage, again)
    except Exception as error:  # noqa: BLE001 - then it stays a difference
        again.error = reason(error)
    if again.comparison is not None and again.comparison.matches:
        facts.comparison, facts.own_draws = again.comparison, True
        stage.findings.note(_OWN_DRAWS.format(facts.name))
