"""Measure the work in every variant, in STEPS, and put everything back. The last run, a plain one, is the caller's.

Each step adds to what is known of the lanes, and the report is made of that. Whatever happens in between, the state of
the work and of Dynamo is put back before a report is given.
"""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace

import torch

from compile_magic.bench_model import BenchReport
from compile_magic.measure import verdicts
from compile_magic.measure.closing import find_floor
from compile_magic.measure.closing import find_share
from compile_magic.measure.closing import look_again
from compile_magic.measure.facts import variant
from compile_magic.measure.first_eager import make_lanes
from compile_magic.measure.first_eager import prove_repeatable
from compile_magic.measure.first_eager import run_eager
from compile_magic.measure.first_eager import run_reference
from compile_magic.measure.first_runs import first_runs
from compile_magic.measure.proof import Expected
from compile_magic.measure.settings import Settings
from compile_magic.measure.stage import CannotBenchError
from compile_magic.measure.stage import CannotRepeatError
from compile_magic.measure.stage import Stage
from compile_magic.measure.stage import Surroundings
from compile_magic.measure.state.aside import set_aside
from compile_magic.measure.state.fingerprint import forget_views
from compile_magic.measure.state.unrepeatable import UnrepeatableError
from compile_magic.measure.state.walk import forget_classes
from compile_magic.measure.steady import steady_state
from compile_magic.measure.uninterrupted import remembered
from compile_magic.measure.uninterrupted import uninterrupted
from compile_magic.measure.work import Work

STEPS: list[Callable[[Stage], None]] = [
    run_eager,
    prove_repeatable,
    make_lanes,
    run_reference,
    first_runs,
    steady_state,
    look_again,
    find_share,
    find_floor,
]


@dataclass(frozen=True)
class Measured:
    """The report of a bench, what one run leaves as far as that was seen, and whether the work can't be repeated.

    Nothing of the user's is in it.
    """

    report: BenchReport
    expected: Expected | None = None
    once: bool = False


def measure(work: Work, settings: Settings, around: Surroundings, *, mode: str) -> Measured:
    """Measure the work, put everything back, and return what was found.

    Nothing is raised that the work raises; that is in the report. After an interrupt the report holds what was measured
    until then, with `interrupted`.

    Args:
        work: what is run.
        settings: what is measured.
        around: what the work has around it.
        mode: how the work is run, as in the report.
    """
    start = time.perf_counter()
    with _own_dispatch(), set_aside():
        stage = Stage(work, settings, around)
        try:
            _run_steps(stage)
            report = _report(stage, mode, time.perf_counter() - start)
            return Measured(report, stage.proof.expected, stage.findings.once)
        finally:
            stage.close()


@contextmanager
def _own_dispatch() -> Iterator[None]:
    """Put back at the end how torch dispatches its ops, which an inference mode that is left late would have wrong."""
    grad = torch.is_grad_enabled()
    with torch.inference_mode(mode=torch.is_inference_mode_enabled()):
        torch.set_grad_enabled(grad)
        yield


def _run_steps(stage: Stage) -> None:
    try:
        with remembered() as stage.presses:
            for step in STEPS:
                step(stage)
                stage.presses.check()
    except (CannotBenchError, UnrepeatableError) as error:
        stage.findings.error = str(error)
        stage.findings.once = isinstance(error, (CannotRepeatError, UnrepeatableError))
    except KeyboardInterrupt:
        stage.findings.interrupted = True
    finally:
        with uninterrupted() as presses:
            _put_back(stage)
        stage.findings.interrupted = stage.findings.interrupted or presses.count > 0


def _put_back(stage: Stage) -> None:
    for name, lane in reversed(stage.lanes.items()):
        # After an interrupt, a block may still be open.
        lane.end_block()
        stage.facts[name].report = lane.finish()
    left_over = stage.snapshot.restore_all()
    stage.findings.state = stage.proof.closed(left_over)
    forget_classes()
    forget_views()
    gc.collect()


def _report(stage: Stage, mode: str, duration_s: float) -> BenchReport:
    found, settings = stage.findings, stage.settings
    facts = {name: facts for name, facts in stage.facts.items() if not facts.hidden}
    if found.interrupted:
        for one in facts.values():
            one.error = one.error or ("" if one.walls else "not timed yet when the bench was interrupted")
    made = (variant(one, stage.eager) for one in facts.values())
    return BenchReport(
        variants=tuple(replace(one, percent_of_floor=found.percent(one)) for one in made) if found.begun else (),
        device=found.device_name(),
        checks=tuple(verdicts.checks(found, facts)),
        notes=tuple(verdicts.notes(found, facts)),
        error=found.error,
        mode=mode,
        targets=found.targets,
        roofline=found.floor,
        eager_spread=found.eager_spread,
        compiled_share=found.share,
        job_runs=settings.runs,
        budget_s=settings.budget_s,
        duration_s=duration_s,
        interrupted=found.interrupted,
        torch_version=torch.__version__,
        python_version=platform.python_version(),
    )
