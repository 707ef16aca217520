"""What a BenchReport shows, in reading order: the answer, the alarms, the table, then what it means for a job.

A section is a function of the report that returns a block, or None if it has nothing to say. Adding one is a
function and its place in `SECTIONS`; a column of the table is a line of `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from dataclasses import dataclass
from dataclasses import replace

from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Variant
from compile_magic.show.bench_folded import folded_checks
from compile_magic.show.bench_folded import folded_roofline
from compile_magic.show.bench_folded import folded_targets
from compile_magic.show.bench_folded import folded_variants
from compile_magic.show.bench_lines import answers
from compile_magic.show.bench_lines import checks
from compile_magic.show.bench_lines import phases
from compile_magic.show.bench_lines import pointer
from compile_magic.show.bench_lines import remarks
from compile_magic.show.bench_summary import alarms
from compile_magic.show.bench_summary import name_of
from compile_magic.show.bench_summary import summary
from compile_magic.show.bench_verdict import NONE
from compile_magic.show.bench_verdict import UNSURE
from compile_magic.show.bench_verdict import eager
from compile_magic.show.bench_verdict import ends
from compile_magic.show.bench_verdict import known
from compile_magic.show.bench_verdict import never_steady
from compile_magic.show.bench_verdict import verdict
from compile_magic.show.bench_words import difference
from compile_magic.show.bench_words import duration
from compile_magic.show.bench_words import percent
from compile_magic.show.bench_words import ratio
from compile_magic.show.bench_words import size
from compile_magic.show.blocks import Bar
from compile_magic.show.blocks import Block
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Table
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten

Section = Callable[[BenchReport], "Block | None"]
Cell = str | Bar
MOST_OF_A_REASON = 300


@dataclass(frozen=True)
class Figure:
    """A column of the table with what it shows of a variant; one that shows nothing of any is left out."""

    column: Column
    of: Callable[[Variant, BenchReport], Cell]


def bench_blocks(report: BenchReport, *, opened: Collection[str] = ()) -> tuple[Block, ...]:
    """Return all that the bench has to say; `opened` holds the keys of the folded blocks to show in full."""
    made = [block for section in SECTIONS if (block := section(report)) is not None]
    return tuple(replace(one, opened=True) if isinstance(one, Folded) and one.key in opened else one for one in made)


def variants(report: BenchReport) -> Table | None:
    """Return a row for each variant; the columns are those in which any variant has a value."""
    if not report.variants:
        return None
    shown = [one for one in COLUMNS if any(one.of(variant, report) for variant in report.variants)]
    columns = tuple(one.column for one in shown)
    rows = tuple(Row(tuple(one.of(variant, report) for one in shown), _below(variant)) for variant in report.variants)
    return Table("", columns, rows, "_compile_report.variants", weight=4, spread=True)


def _below(one: Variant) -> tuple[str, ...]:
    error = f"no times: {shorten(one.error, MOST_OF_A_REASON)}" if one.error else ""
    told = one.skipped and not one.error
    skipped = f"cudagraphs were not used: {shorten(one.skipped, MOST_OF_A_REASON)}" if told else ""
    return tuple(sentence(words) for words in (error, skipped) if words)


def _time(value: float | None, digits: int = 3) -> str:
    return duration(value, digits) if value is not None and known(value) else ""


def _steady(one: Variant, report: BenchReport) -> Cell:
    return "never" if never_steady(one) else _time(one.median_s)


def _bar(one: Variant, report: BenchReport) -> Cell:
    all_of_them = [other.median_s for other in report.variants if other.median_s and known(other.median_s)]
    if not one.median_s or not known(one.median_s) or len(all_of_them) == 1:
        return ""
    share = one.median_s / max(all_of_them)
    words = "the slowest" if share == 1 else f"{percent(100 * share)} of the slowest"
    return Bar(share, f"{duration(one.median_s)} a run, {words}")


def _against(one: Variant, report: BenchReport) -> Cell:
    if one is eager(report):
        return "1.00x" if one.median_s is not None else ""
    if one.speedup is None or not known(one.speedup) or one.error:
        return ""
    if (found := verdict(one, report)) in (NONE, UNSURE):
        return found
    low, high = (ratio(end) for end in ends(one.speedup_interval) or (one.speedup, one.speedup))
    return f"{low}x" if low == high else f"{low}–{high}x"


def _result(one: Variant, report: BenchReport) -> Cell:
    if one is eager(report):
        return "reference"
    if one.matches_eager is None:
        compared = any(other.matches_eager is not None for other in report.variants)
        return "not compared" if compared and not one.error else ""
    off = one.max_rel_error
    words = "" if off is None else "equal" if off == 0 else difference(off)
    return f"{'✓' if one.matches_eager else '✗'} {words}".rstrip()


def _time_of(name: str, digits: int = 3) -> Callable[[Variant, BenchReport], Cell]:
    def of(one: Variant, report: BenchReport) -> Cell:
        return _time(getattr(one, name), digits)

    return of


def _number_of(name: str) -> Callable[[Variant, BenchReport], Cell]:
    def of(one: Variant, report: BenchReport) -> Cell:
        value = getattr(one, name)
        return "" if value is None else f"{value:,}"

    return of


def _name(one: Variant, report: BenchReport) -> Cell:
    return name_of(one)


def _peak(one: Variant, report: BenchReport) -> Cell:
    return "" if one.peak_memory_bytes is None else size(one.peak_memory_bytes)


def _thrown_out(one: Variant, report: BenchReport) -> Cell:
    return f"{one.thrown_out:,}" if one.thrown_out else ""


# Where a text is too narrow, the column of the highest `spare` goes first.
COLUMNS = (
    Figure(Column("variant"), _name),
    Figure(Column("first", "right", spare=2), _time_of("first_s", 2)),
    Figure(Column("second", "right", spare=3), _time_of("second_s", 2)),
    Figure(Column("third", "right", spare=7), _time_of("third_s", 2)),
    Figure(Column("steady", "right"), _steady),
    Figure(Column("", spare=10), _bar),
    Figure(Column("against eager"), _against),
    Figure(Column("GPU busy", "right", spare=5), _time_of("busy_s")),
    Figure(Column("kernels", "right", spare=4), _number_of("kernels_per_call")),
    Figure(Column("peak", "right", spare=8), _peak),
    Figure(Column("same result", spare=1), _result),
    Figure(Column("thrown out", "right", spare=9), _thrown_out),
)

SECTIONS: list[Section] = [
    summary,
    alarms,
    variants,
    answers,
    phases,
    remarks,
    checks,
    pointer,
    folded_variants,
    folded_checks,
    folded_roofline,
    folded_targets,
]
