"""The first steps: one eager run that is looked at, the lanes that come of it, and a float64 run for reference."""

from __future__ import annotations

import torch

from compile_magic import _torch
from compile_magic.measure.facts import Facts
from compile_magic.measure.floor.traffic import Traffic
from compile_magic.measure.lanes import CompiledLane
from compile_magic.measure.lanes import EagerLane
from compile_magic.measure.lanes import Lane
from compile_magic.measure.lanes import WrittenLane
from compile_magic.measure.proof import told
from compile_magic.measure.reasons import reason
from compile_magic.measure.results.float64 import Float64
from compile_magic.measure.results.results import kept
from compile_magic.measure.stage import EAGER
from compile_magic.measure.stage import CannotBenchError
from compile_magic.measure.stage import CannotRepeatError
from compile_magic.measure.stage import Stage
from compile_magic.measure.state.unrepeatable import guarded
from compile_magic.measure.tensors import tensors_in
from compile_magic.measure.timing.clock import DeviceClock
from compile_magic.measure.uninterrupted import uninterrupted
from compile_magic.measure.variants import Spec
from compile_magic.measure.variants import specs

_LEFT_OPEN = (
    "the cell leaves inference mode switched, and what is entered and left at other places can't be put back: write "
    "`with torch.inference_mode():` around what it is for"
)

_NOT_BACK = (
    "what a run changes could not be put back: {}. A bench repeats only what it can put back: make what changes anew "
    "in the cell, or put that part in a cell of its own"
)
_ONCE = "the cell raises when it is run again from the state that it began with: {}"
_APART = (
    "two runs from the same state leave it otherwise: {}. A bench repeats only what it can put back: put what counts "
    "or collects there in a cell of its own"
)


def run_eager(stage: Stage) -> None:
    """Run once in eager and see what it writes, moves and computes, and whether it may be run again.

    Raises:
        CannotBenchError: it raises, or there is nothing in it to compile.
        UnrepeatableError: it can't be run twice; what would have shown that has not happened.
    """
    lane = stage.make(EagerLane, EAGER)
    stage.tell("one eager run, to see what the cell reads and writes")
    stage.add(lane, stage.eager)
    with stage.on(lane):
        traffic = _watched_run(stage, lane)
        # Outside of the modes: reading the generators' states would count as well.
        values = stage.given()
        traffic.finish(tensors_in(values))
        stage.eager.results = kept(values)
    stage.proof.ran()
    stage.snapshot.settle()
    found = stage.findings
    found.devices, found.counted, found.targets = traffic.devices, traffic.counted(), tuple(lane.found)
    found.clock = DeviceClock(traffic.devices)
    if not found.targets:
        raise CannotBenchError(
            "the cell calls nothing that torch.compile takes: call a function or module of yours, or give --whole to "
            "compile the body as one function"
        )


def prove_repeatable(stage: Stage) -> None:
    """Put the state back and compare it with what it was before; run once more, and compare what the two runs leave.

    Raises:
        CannotRepeatError: it is another one, or a run leaves another size or kind of something: state that was not
            seen has changed. The cell is not run again.
    """
    stage.snapshot.restore()
    stage.proof.restored()
    if stage.proof.left:
        raise CannotRepeatError(_NOT_BACK.format(told([*stage.proof.left])))
    lane = stage.lanes[EAGER]
    try:
        with stage.on(lane):
            lane.run(1)
    except Exception as error:  # noqa: BLE001 - the first run did not raise it
        raise CannotRepeatError(_ONCE.format(reason(error))) from None
    stage.proof.ran()
    if stage.proof.sizes_apart:
        raise CannotRepeatError(_APART.format(told([*map(str, stage.proof.sizes_apart)])))


def _watched_run(stage: Stage, lane: Lane) -> Traffic:
    traffic, inferred = Traffic(), torch.is_inference_mode_enabled()
    with guarded(), stage.snapshot.watching(), traffic:
        try:
            lane.run(1)
        except Exception as error:  # noqa: BLE001 - the plain run raises it again, where it belongs
            raise CannotBenchError(f"the cell raises in eager: {reason(error)}") from None
        if torch.is_inference_mode_enabled() is not inferred:
            raise CannotBenchError(_LEFT_OPEN)
    return traffic


def make_lanes(stage: Stage) -> None:
    """Add a lane for each variant."""
    # Stopped in the middle of being imported, the compiler would be broken for good.
    with uninterrupted() as presses:
        _torch.preload(inductor="inductor" in stage.settings.backends or not stage.settings.backends)
    presses.check()
    hows = {target.how for target in stage.findings.targets}
    for spec in specs(stage.settings, observed="observed" in hows, others="compiled" in hows):
        _add(stage, spec)


def _add(stage: Stage, spec: Spec) -> None:
    if spec.options is None:
        stage.add(stage.make(WrittenLane, spec.name), Facts(spec.name, how="observed"))
        return
    stage.options[spec.name] = spec.options
    facts = Facts(spec.name, spec.options.backend, spec.options.mode or "")
    stage.add(stage.make(CompiledLane, spec.name, options=spec.options), facts)


def run_reference(stage: Stage) -> None:
    """Run once in float64, so that "different" can say which side is off."""
    lane, mode = stage.lanes[EAGER], Float64()
    stage.tell("a float64 run for reference")
    try:
        with stage.on(lane):
            with mode:
                lane.run(1)
            stage.findings.reference = kept(stage.given(), read=mode.value_of)
    except Exception as error:  # noqa: BLE001 - without a reference the bench goes on
        stage.findings.note(f"no float64 run to compare with: {reason(error)}")
    stage.findings.fallbacks = mode.fallbacks
