"""The sentences below the table of a bench: when compiling pays, the floor, the compile time, checks and notes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Mapping

from compile_magic.bench_model import BenchCheck
from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Interval
from compile_magic.bench_model import Roofline
from compile_magic.bench_model import Variant
from compile_magic.show.bench_summary import name_of
from compile_magic.show.bench_verdict import FASTER
from compile_magic.show.bench_verdict import NONE
from compile_magic.show.bench_verdict import UNSURE
from compile_magic.show.bench_verdict import compiled
from compile_magic.show.bench_verdict import eager
from compile_magic.show.bench_verdict import eager_job
from compile_magic.show.bench_verdict import is_a_loss
from compile_magic.show.bench_verdict import job
from compile_magic.show.bench_verdict import known
from compile_magic.show.bench_verdict import sure
from compile_magic.show.bench_verdict import usable
from compile_magic.show.bench_verdict import verdict
from compile_magic.show.bench_words import counts
from compile_magic.show.bench_words import duration
from compile_magic.show.bench_words import percent
from compile_magic.show.bench_words import runs
from compile_magic.show.bench_words import scaled
from compile_magic.show.bench_words import significant
from compile_magic.show.bench_words import size
from compile_magic.show.bench_words import trimmed
from compile_magic.show.blocks import Lines
from compile_magic.show.blocks import Pointer
from compile_magic.show.blocks import Share
from compile_magic.show.blocks import Shares
from compile_magic.show.blocks import Split
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import seconds
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten

MOST_VARIANTS = 4
MOST_OF_A_NOTE = 320
# From which share of the compile time on what is not the compiler's own is worth a word.
LEAST_REST = 0.2
# Below this part of what the first runs cost, what the compiler does not tell of is not shown.
LEAST_WARM_UP = 0.05
# How many times a fused run's bytes eager must move, and which share of the floor the flops must be, to be told.
TELLING = 1.2
LEAST_FLOPS = 0.2


def answers(report: BenchReport) -> Lines | None:
    """Return what the times mean: when compiling pays back, what a job takes, and how near the device's floor is."""
    found = (pays_back(report), a_job(report), floor(report), compiled_share(report))
    items = tuple(filter(None, found))
    return Lines(items) if items else None


def pays_back(report: BenchReport) -> str:
    """Return after how many runs each variant has paid for its compile."""
    told = [f"{name_of(one)} {_break_even(one, report)}" for one in usable(report)]
    words = " · ".join(told[:MOST_VARIANTS])
    rest = f" · {len(told) - MOST_VARIANTS} more in _compile_report.variants" if len(told) > MOST_VARIANTS else ""
    return f"pays back after: {words}{rest}" if told else ""


def _break_even(one: Variant, report: BenchReport) -> str:
    after = one.break_even_calls
    if verdict(one, report) == UNSURE:
        return "not known (can't tell)"
    if verdict(one, report) == NONE:
        return "never (no difference)"
    if after is None or not math.isfinite(after):
        return "not known" if verdict(one, report) == FASTER and after is None else "never"
    between = _between(one.break_even_interval or ())
    reference = eager(report)
    spent = f"{duration(after * reference.median_s, 2)} in eager" if reference and reference.median_s else ""
    aside = "; ".join(filter(None, (between, spent)))
    return f"{counts(after)} {'run' if counts(after) == '1' else 'runs'}{f' ({aside})' if aside else ''}"


def _between(interval: Interval) -> str:
    """Return an interval of counts; one without its upper end has the lower one alone."""
    known_ones = [end for end in interval if math.isfinite(end)]
    if not known_ones:
        return ""
    return " to ".join(map(counts, known_ones)) if len(known_ones) > 1 else f"{counts(known_ones[0])} or more"


def a_job(report: BenchReport) -> str:
    """Return what the job that was asked about takes in eager and compiled, and whether that is a loss."""
    count = report.job_runs
    plain = eager_job(report, count) if count else None
    if not count or plain is None:
        return ""
    told = [_job(one, took, plain) for one in sure(report) if (took := job(one, count)) is not None]
    where = "_compile_report.variants"
    end = ". Compiling is a loss here." if is_a_loss(report) else ""
    return f"a job of {runs(count)}: {listed([f'eager {duration(plain)}', *told], MOST_VARIANTS + 1, where)}{end}"


def _job(one: Variant, took: float, plain: float) -> str:
    apart = duration(abs(plain - took), 2)
    words = f"saves {apart}" if took < plain else f"a loss of {apart}" if took > plain else "the same"
    return f"{name_of(one)} {duration(took)} ({words})"


def floor(report: BenchReport) -> str:
    """Return the least time that this device allows, what sets it, and how near each variant comes to it."""
    roof = report.roofline
    if roof is None or not known(roof.floor_s) or not roof.floor_s:
        return ""
    means = "; ".join(_means(roof))
    bound = f" · bound by {roof.bound_by}" if roof.bound_by else ""
    near = [f"{name_of(one)} {percent(one.percent_of_floor)}" for one in report.variants if one.percent_of_floor]
    # Launches aren't in the floor, so how near a launch-bound run comes to it says nothing.
    tells = near and roof.bound_by != "launches"
    reached = f" · reached: {listed(near, MOST_VARIANTS, '_compile_report.variants')}" if tells else ""
    return f"floor: {duration(roof.floor_s, 2)} a run{f' ({means})' if means else ''}{bound}{reached}"


def _means(roof: Roofline) -> Iterator[str]:
    if roof.bytes_moved and roof.bandwidth:
        yield f"{size(roof.bytes_moved)} at {scaled(roof.bandwidth, 'B/s')}"
    if roof.eager_bytes > TELLING * roof.bytes_moved > 0:
        yield f"eager moves {size(roof.eager_bytes)}"
    if roof.flops and (roof.matmul_s or 0.0) > LEAST_FLOPS * (roof.floor_s or 0.0):
        rates = [f"{scaled(rate, 'FLOP/s')} {shorten(name, 20)}" for name, rate in roof.matmul_rate.items()]
        yield f"{scaled(roof.flops, 'FLOP')}{f' at {listed(rates, 2)}' if rates else ''}"


def compiled_share(report: BenchReport) -> str:
    """Return how much of a run is in what is compiled, where that isn't nearly all of it."""
    share = report.compiled_share
    if share is None or not 0 <= share < 1 - LEAST_REST:
        return ""
    part = f"{percent(100 * share)} of an eager run"
    return (
        f"{part} is spent in what is compiled and in backward passes: the rest stays as it is and bounds the speed-up"
    )


def phases(report: BenchReport) -> Shares | None:
    """Return where the compile time of each variant went, in parts that add up."""
    found = [(one, disjoint(one.phases, _behind(one))) for one in compiled(report)]
    rows = tuple(_split(one, parts) for one, parts in found if parts)
    title = "compiling, by phase" if len(rows) == 1 else "compiling, by phase, to one scale"
    return Shares(title, rows, "_compile_report.variants") if rows else None


def _behind(one: Variant) -> str:
    """Return what calls itself AOTAutograd in torch's metrics, which a backend of another kind does too."""
    own = one.backend in ("", "inductor") or one.backend.startswith("aot") or "inductor" in one.phases
    return "AOTAutograd" if own else "backend"


def disjoint(recorded: Mapping[str, float], behind: str = "AOTAutograd") -> dict[str, float]:
    """Return the seconds of each phase without those of the phases inside it.

    torch nests them: dynamo > backend or aot_autograd > inductor > code_gen. "backward" is what was compiled at the
    first backward pass, outside of dynamo; AOTAutograd does it and calls inductor in it. Other phases are left out,
    since they are inside of one of these.
    """
    whole = {name: took for name, took in recorded.items() if math.isfinite(took) and took > 0}
    generated = whole.get("code_gen", 0.0)
    inductor = max(whole.get("inductor", 0.0), generated)
    backward = whole.get("backward", 0.0)
    forward = max(whole.get("aot_autograd", 0.0), whole.get("backend", 0.0))
    parts = {
        "Dynamo": whole.get("dynamo", 0.0) - forward,
        behind: forward + backward - inductor,
        "Inductor": inductor - generated,
        "code generation": generated,
    }
    return {name: took for name, took in parts.items() if took > 0}


def _split(one: Variant, parts: Mapping[str, float]) -> Split:
    spent = sum(parts.values())
    rest = one.compile_s - spent if one.compile_s is not None and math.isfinite(one.compile_s) else 0.0
    whole = {**parts, "warm-up and recording": rest} if rest > LEAST_WARM_UP * spent else dict(parts)
    shares = tuple(Share(took, f"{name} {seconds(took)}") for name, took in whole.items())
    note = f"{shorten(one.cache, 20)} cache" if one.cache and not one.error else ""
    return Split(f"{name_of(one)} {seconds(sum(whole.values()))}", shares, note)


def remarks(report: BenchReport) -> Lines | None:
    """Return the breaks and recompiles of each variant, and what the reader has to know about the report."""
    items = (
        *_breaks(report),
        *(f"note: {sentence(shorten(note, MOST_OF_A_NOTE))}" for note in report.notes if note.strip()),
    )
    return Lines(items, "_compile_report.notes") if items else None


def _breaks(report: BenchReport) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for one in compiled(report):
        parts = (
            counted(one.graph_break_count, "graph break") if one.graph_break_count else "",
            counted(one.recompile_count, "recompile") if one.recompile_count else "",
        )
        alike.setdefault(" and ".join(filter(None, parts)), []).append(name_of(one))
    for words, names in alike.items():
        if words:
            yield f"{listed(names, MOST_VARIANTS)}: {words}; explain it with %%compile_explain"


def checks(report: BenchReport) -> Lines | None:
    """Return the checks on the measurement: each that failed on a line of its own, then those that held in one."""
    failed = tuple(f"✗ check failed: {_failed(one)}" for one in report.checks if not one.passed)
    held = [_check(one, 100) for one in report.checks if one.passed]
    passed = (f"✓ checks held: {' · '.join(held[:8])}{' and more' if len(held) > 8 else ''}",) if held else ()  # noqa: PLR2004
    return Lines((*failed, *passed), "_compile_report.checks") if failed or passed else None


def _check(one: BenchCheck, most: int) -> str:
    return shorten(one.words or one.name or "unnamed", most).rstrip(".")


def _failed(one: BenchCheck) -> str:
    figures = ((one.figure, "found"), (one.threshold, "threshold"))
    told = ", ".join(f"{what} {trimmed(significant(value))}" for value, what in figures if value is not None)
    words = _check(one, MOST_OF_A_NOTE)
    # Words with a figure in them have it in its own unit.
    return sentence(f"{words} ({told})" if told and not any(map(str.isdigit, words)) else words)


def pointer(report: BenchReport) -> Pointer | None:
    """Return where the detail is."""
    if not report.variants:
        return None
    return Pointer("in full: all samples and figures in _compile_report.variants, or folded in the notebook")
