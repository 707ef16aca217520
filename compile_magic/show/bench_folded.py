"""The detail of a bench that stays folded: every figure and sample, the checks as they are, the roofline, targets."""

from __future__ import annotations

from collections.abc import Iterator

from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Interval
from compile_magic.bench_model import Roofline
from compile_magic.bench_model import Variant
from compile_magic.show.bench_summary import name_of
from compile_magic.show.bench_verdict import ends
from compile_magic.show.bench_words import difference
from compile_magic.show.bench_words import duration
from compile_magic.show.bench_words import percent
from compile_magic.show.bench_words import ratio
from compile_magic.show.bench_words import scaled
from compile_magic.show.bench_words import significant
from compile_magic.show.bench_words import size
from compile_magic.show.bench_words import trimmed
from compile_magic.show.blocks import Code
from compile_magic.show.blocks import Column
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Row
from compile_magic.show.blocks import Table
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import shorten

TIME_COLUMNS = (
    Column("variant"),
    Column("samples", "right"),
    Column("median", "right"),
    Column("IQR", "right"),
    Column("min", "right"),
    Column("device", "right"),
    Column("speed-up", "right"),
    Column("thrown out", "right"),
)
RESULT_COLUMNS = (
    Column("variant"),
    Column("compiling", "right"),
    Column("graphs", "right"),
    Column("max abs error", "right"),
    Column("max rel error", "right"),
    Column("off fp64", "right"),
    Column("of the floor", "right"),
)
CHECK_COLUMNS = (
    Column("check"),
    Column("held"),
    Column("found", "right"),
    Column("threshold", "right"),
    Column("words"),
)
ROOFLINE_COLUMNS = (Column("what"), Column("figure", "right"))
TARGET_COLUMNS = (Column("how"), Column("name", code=True), Column("why"))


def folded_variants(report: BenchReport) -> Folded | None:
    """Return every figure of each variant, its raw samples, and in full why one has none."""
    if not report.variants:
        return None
    statistic = f" · speed-up: {shorten(report.statistic, 80)}" if report.statistic else ""
    tables = (
        Table(f"steady state{statistic}", TIME_COLUMNS, tuple(map(_times, report.variants))),
        Table("compiling and results", RESULT_COLUMNS, tuple(map(_results, report.variants))),
    )
    codes = tuple(code for at, one in enumerate(report.variants) for code in _codes(at, one))
    return Folded("variants", "all figures and samples", (*tables, *codes))


def _times(one: Variant) -> Row:
    cells = (
        name_of(one),
        f"{len(one.samples_s):,}" if one.samples_s else "",
        *(_time(value) for value in (one.median_s, one.iqr_s, one.min_s, one.device_median_s)),
        _speedup(one.speedup, one.speedup_interval),
        f"{one.thrown_out:,}" if one.thrown_out else "",
    )
    return Row(cells)


def _results(one: Variant) -> Row:
    cells = (
        name_of(one),
        _time(one.compile_s),
        str(one.graph_count or ""),
        *(_error(value) for value in (one.max_abs_error, one.max_rel_error, one.error_vs_fp64)),
        "" if one.percent_of_floor is None else percent(one.percent_of_floor),
    )
    return Row(cells)


def _time(value: float | None) -> str:
    return "" if value is None else duration(value)


def _error(value: float | None) -> str:
    return "" if value is None else difference(value)


def _speedup(value: float | None, interval: Interval | None) -> str:
    both = ends(interval)
    between = f" ({ratio(both[0])} to {ratio(both[1])})" if both else ""
    return "" if value is None else f"{ratio(value)}x{between}"


def _codes(at: int, one: Variant) -> Iterator[Code]:
    where, name = f"_compile_report.variants[{at}]", name_of(one)
    if one.samples_s:
        text = ", ".join(duration(sample) for sample in one.samples_s)
        yield Code(f"{name} · {counted(len(one.samples_s), 'sample')}, in order", text, f"{where}.samples_s")
    if one.phases:
        text = "\n".join(f"{one_line(phase)} {duration(took)}" for phase, took in one.phases.items())
        yield Code(f"{name} · torch's own phases, which overlap", text, f"{where}.phases")
    for field in ("error", "differs", "skipped"):
        if text := getattr(one, field):
            yield Code(f"{name} · {field}", text, f"{where}.{field}")


def folded_checks(report: BenchReport) -> Folded | None:
    """Return each check with its figure and threshold as they were recorded."""
    rows = tuple(
        Row(
            (
                shorten(one.name, 60),
                "yes" if one.passed else "no",
                *("" if value is None else trimmed(significant(value)) for value in (one.figure, one.threshold)),
                shorten(one.words, 300),
            )
        )
        for one in report.checks
    )
    table = Table("", CHECK_COLUMNS, rows, more="_compile_report.checks")
    return (
        Folded("checks", counted(len(rows), "check on the measurement", "checks on the measurement"), (table,))
        if rows
        else None
    )


def folded_roofline(report: BenchReport) -> Folded | None:
    """Return what the floor was computed from."""
    if report.roofline is None:
        return None
    rows = tuple(Row(pair) for pair in _roofline(report.roofline))
    table = Table("", ROOFLINE_COLUMNS, rows, more="_compile_report.roofline")
    return Folded("roofline", "what the floor is made of", (table,)) if rows else None


def _roofline(roof: Roofline) -> Iterator[tuple[str, str]]:
    amounts = (
        ("inputs and results, read and written once", size(roof.bytes_moved), roof.bytes_moved),
        ("read and written by eager's ops", size(roof.eager_bytes), roof.eager_bytes),
        ("matrix products and convolutions", scaled(roof.flops, "FLOP"), roof.flops),
        ("ops", f"{roof.op_count:,}", roof.op_count),
        ("bandwidth of this device", scaled(roof.bandwidth or 0, "B/s"), roof.bandwidth),
    )
    yield from ((name, words) for name, words, there in amounts if there)
    for name, rate in roof.matmul_rate.items():
        yield f"matrix rate of this device, {shorten(name, 40)}", scaled(rate, "FLOP/s")
    for name, count in roof.pointwise.items():
        yield f"elements by {shorten(name, 40)}", scaled(count, "").rstrip()
    times = (
        ("memory", roof.memory_s),
        ("matrix products", roof.matmul_s),
        ("pointwise", roof.pointwise_s),
        ("launches", roof.launch_s),
        ("floor", roof.floor_s),
    )
    yield from ((f"time: {name}", duration(took)) for name, took in times if took is not None)


def folded_targets(report: BenchReport) -> Folded | None:
    """Return each callable of the cell with what was done with it and why."""
    rows = tuple(Row((one.how, one_line(one.name), shorten(one.why, 200))) for one in report.targets)
    table = Table("", TARGET_COLUMNS, rows, more="_compile_report.targets")
    title = counted(len(rows), "callable of the cell", "callables of the cell")
    return Folded("targets", title, (table,)) if rows else None
