"""What a bench shows: its answer, its table, what it means for a job, and that nothing in it can do harm."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import bench_reports
import pytest
from bench_reports import NEVER
from bench_reports import default
from bench_reports import eager
from rich.cells import cell_len
from test_render import KEPT_ATTRIBUTES
from test_render import KEPT_STYLES
from test_render import KEPT_TAGS
from test_render import Sanitized

from compile_magic import render
from compile_magic.bench_model import BenchCheck
from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Roofline
from compile_magic.bench_model import Variant
from compile_magic.model import Target
from compile_magic.render.bars import bar
from compile_magic.render.bars import pieces
from compile_magic.render.clean import clean
from compile_magic.show import bench_words
from compile_magic.show.bench_lines import a_job
from compile_magic.show.bench_lines import compiled_share
from compile_magic.show.bench_lines import disjoint
from compile_magic.show.bench_lines import floor
from compile_magic.show.bench_lines import pays_back
from compile_magic.show.bench_summary import alarms
from compile_magic.show.bench_summary import summary
from compile_magic.show.bench_table import bench_blocks
from compile_magic.show.bench_table import variants
from compile_magic.show.bench_verdict import FASTER
from compile_magic.show.bench_verdict import NONE
from compile_magic.show.bench_verdict import SLOWER
from compile_magic.show.bench_verdict import UNKNOWN
from compile_magic.show.bench_verdict import UNSURE
from compile_magic.show.bench_verdict import verdict
from compile_magic.show.blocks import Bar
from compile_magic.show.blocks import Folded
from compile_magic.show.blocks import Table

REPORTS = bench_reports.REPORTS
METER_ATTRIBUTES = {"value", "min", "max"}

GPU = """\
compile_bench: default is slower here (0.84 to 0.87x), reduce-overhead is 1.84x (1.81 to 1.88) ·
  pays back after 88,100 runs · model · 9.2 s
  NVIDIA H200, torch 2.11.0
  This work is launch-bound: the GPU is busy 17 µs of 320 µs a call (5 %). Cudagraphs help, fusion can't.

  variant           first  second   third  steady              against eager  GPU busy  kernels   peak  same result
  eager            1.1 ms  190 µs  180 µs  179 µs  █████▌      1.00x           21.0 µs        8  18 MB  reference
  default           4.1 s  350 µs  330 µs  324 µs  ██████████  0.84–0.87x      17.0 µs        8  18 MB  ✓ 2e-4
  reduce-overhead   4.3 s   11 ms  130 µs  130 µs  ████        1.81–1.88x      19.0 µs        9  20 MB  ✓ 2e-4

 pays back after: default never · reduce-overhead 88,100 runs (76,000 to 104,000; 16 s in eager)
 floor: 30 ns a run (128 kB at 4.22 TB/s) · bound by launches

 compiling, by phase, to one scale
  █████▓▓▒▒▒▒░░░░░░░░░░░░   default 4.10 s · cold cache
      █ Dynamo 0.90 s · ▓ AOTAutograd 0.30 s · ▒ Inductor 0.80 s · ░ code generation 2.10 s
  ████▓▓▒▒▒▒░░░░░░░░░░░░▚▚  reduce-overhead 4.31 s · cold cache
      █ Dynamo 0.70 s · ▓ AOTAutograd 0.30 s · ▒ Inductor 0.80 s · ░ code generation 2.10 s ·
      ▚ warm-up and recording 0.41 s

 note: max-autotune was not run: --modes max-autotune adds it (about a minute of compiling).
 ✓ checks held: nothing was compiled inside the timing · two eager timings are 0.6 % apart · eager is 2e-4 off fp64 ·
   the state is as after one run
 in full: all samples and figures in _compile_report.variants, or folded in the notebook"""


def said(report: BenchReport) -> str:
    """Return the report as text that stands on one line."""
    return " ".join(render.text(report, width=120).split())


def answer(report: BenchReport) -> str:
    """Return the first part of the first line."""
    return summary(report).sentence.removeprefix("compile_bench: ").split(" · ")[0]


def titles(report: BenchReport) -> list[str]:
    """Return the titles of the columns."""
    found = variants(report)
    return [column.title for column in found.columns] if found else []


def column(report: BenchReport, title: str) -> list[object]:
    """Return the cells under a title."""
    found = variants(report)
    assert found is not None
    at = titles(report).index(title)
    return [row.cells[at] for row in found.rows]


def test_text_is_exactly_this() -> None:
    """The text of a whole bench at a width of 120 is this."""
    assert render.text(bench_reports.gpu(), width=120) == GPU


@pytest.mark.parametrize(
    ("build", "expected", "tone"),
    [
        (bench_reports.faster, "default is 5.41x faster (5.38 to 5.44)", "good"),
        (bench_reports.no_difference, "no difference: 1.02x, 95 % interval 0.97 to 1.06", "warn"),
        (bench_reports.slower, "default is slower here (0.14 to 0.15x)", "warn"),
        (bench_reports.gpu, "default is slower here (0.84 to 0.87x), reduce-overhead is 1.84x (1.81 to 1.88)", "good"),
        (bench_reports.wrong, "default is 5.41x faster (5.38 to 5.44), but gives other results", "bad"),
        (bench_reports.no_compiler, "default has no times, aot_eager is slower here (0.94 to 0.97x)", "warn"),
        (bench_reports.interrupted, "default is 5.40x faster (4.10 to 6.90)", "warn"),
        (bench_reports.always_compiles, "no compiled variant was timed: default compiles in every run", "bad"),
        (bench_reports.empty, "nothing was timed", "bad"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_first_line_answers_the_question(build: bench_reports.Build, expected: str, tone: str) -> None:
    """The first line says whether compiling is worth it, and its tone is that of the answer."""
    assert (answer(build()), summary(build()).tone) == (expected, tone)


def test_an_error_is_the_reason_why_nothing_was_timed() -> None:
    """A cell that raised says so in the first line, and not once more below it."""
    report = bench_reports.failed()

    assert answer(report) == "nothing was timed: RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x3)"
    assert alarms(report) is None


def test_a_note_is_the_reason_where_there_is_no_error() -> None:
    """A cell with nothing to compile gives the note that says so as the reason."""
    report = BenchReport((eager(1e-3),), notes=("the cell calls nothing that can be compiled",))

    assert answer(report) == "no compiled variant was timed: the cell calls nothing that can be compiled"


def test_the_first_line_names_targets_and_time() -> None:
    """What was compiled and how long the bench took follow the answer; what stayed eager is not named."""
    report = bench_reports.faster()

    assert summary(report).sentence.split(" · ")[1:] == ["pays back after 2,380 runs", "chain", "11 s"]
    assert summary(replace(report, mode="cell")).sentence.split(" · ")[2] == "the cell as one function"


def test_the_first_line_says_that_checks_failed() -> None:
    """Doubt about the figures is said beside them."""
    assert "1 check failed" in summary(bench_reports.noisy()).sentence.split(" · ")
    assert summary(bench_reports.noisy()).tone == "warn"


def test_the_best_variant_with_right_results_is_told() -> None:
    """A variant that is faster with other results is not what the answer recommends."""
    wrong = default(1e-3, 9.0, 8.9, 9.1, name="wrong", matches_eager=False)
    right = default(2e-3, 3.0, 2.9, 3.1, name="right")
    plain = default(6e-3, 1.0, 0.99, 1.01)
    report = BenchReport((eager(6e-3), plain, wrong, right))

    assert (
        answer(report)
        == "default makes no difference: 1.00x, 95 % interval 0.99 to 1.01, right is 3.00x (2.90 to 3.10)"
    )


@pytest.mark.parametrize(
    ("speedup", "interval", "spread", "expected"),
    [
        (1.5, (1.4, 1.6), 0.01, FASTER),
        (0.7, (0.6, 0.8), 0.01, SLOWER),
        (1.02, (0.97, 1.06), None, NONE),
        (1.04, (1.03, 1.05), 0.05, NONE),
        (0.97, (0.96, 0.98), 0.05, NONE),
        (1.04, (1.03, 1.05), 0.03, FASTER),
        (1.5, None, None, FASTER),
        (1.2, (1.0, 1.4), None, NONE),
        (1.5, (1.0, 2.0), None, UNSURE),
        (1.02, (0.1, 10.0), None, UNSURE),
        (None, None, None, UNKNOWN),
        (math.nan, (math.nan, math.nan), None, UNKNOWN),
        (0.0, (0.0, 0.0), 0.1, SLOWER),
    ],
)
def test_a_difference_is_one_only_beyond_interval_and_noise(speedup, interval, spread, expected) -> None:
    """No difference is said where the interval holds 1 or eager differs as much from itself; a wide one can't tell."""
    one = Variant("default", speedup=speedup, speedup_interval=interval)

    assert verdict(one, BenchReport((eager(1.0), one), eager_spread=spread)) == expected


def test_an_interval_without_width_is_one_figure() -> None:
    """Where both ends read alike, the answer gives the figure once."""
    one = default(1e-3, 0.15, 0.1501, 0.1502)

    assert answer(BenchReport((eager(1.5e-4), one))) == "default is slower here (0.15x)"


def test_no_difference_within_the_noise_says_what_the_noise_is() -> None:
    """A ratio that is certain, but within what eager differs from itself, is explained by that figure."""
    one = default(1e-3, 1.04, 1.03, 1.05)

    assert answer(BenchReport((eager(1e-3), one), eager_spread=0.05)) == (
        "no difference: 1.04x, and two eager timings are 5 % apart"
    )


def test_the_table_has_only_columns_with_values() -> None:
    """A CPU has no columns of the GPU, and blocks that were thrown out have one only where there are any."""
    common = ["variant", "first", "second", "third", "steady", "", "against eager"]

    assert titles(bench_reports.faster()) == [*common, "same result"]
    assert titles(bench_reports.gpu()) == [*common, "GPU busy", "kernels", "peak", "same result"]
    assert titles(bench_reports.noisy()) == [*common, "same result", "thrown out"]


def test_speed_ups_are_intervals() -> None:
    """Against eager stands the interval, "no difference" where it is none, and 1.00x for eager itself."""
    assert column(bench_reports.gpu(), "against eager") == ["1.00x", "0.84–0.87x", "1.81–1.88x"]
    assert column(bench_reports.no_difference(), "against eager") == ["1.00x", "no difference"]


def test_results_say_whether_they_are_the_same() -> None:
    """Same results have a tick and the largest error, others a cross, and what was not compared says so."""
    report = bench_reports.gpu()
    off = replace(report.variants[1], matches_eager=False, max_rel_error=0.31)
    unknown = replace(report.variants[2], matches_eager=None)
    equal = replace(report.variants[2], max_rel_error=0.0)

    cells = column(replace(report, variants=(report.variants[0], off, unknown, equal)), "same result")
    assert cells == ["reference", "✗ 0.31", "not compared", "✓ equal"]


def test_a_bar_is_relative_to_the_slowest() -> None:
    """Each steady time has a bar whose words say what share of the slowest it is."""
    found = [one for one in column(bench_reports.gpu(), "") if isinstance(one, Bar)]

    assert [one.share for one in found] == pytest.approx([179 / 324, 1.0, 130 / 324])
    assert [one.words for one in found] == [
        "179 µs a run, 55.2 % of the slowest",
        "324 µs a run, the slowest",
        "130 µs a run, 40.1 % of the slowest",
    ]


def test_a_variant_without_times_has_its_reason_below() -> None:
    """A variant that failed is a row with its reason, and the other rows stand."""
    found = variants(bench_reports.no_compiler())

    assert found is not None
    assert [row.cells[0] for row in found.rows] == ["eager", "default", "aot_eager"]
    assert found.rows[1].below == (
        "no times: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++').",
    )
    assert found.rows[2].cells[4] == "2.20 ms"


def test_skipped_cudagraphs_are_said_with_their_reason() -> None:
    """Why cudagraphs were not used stands below the row."""
    assert "cudagraphs were not used: mutated inputs (1 instance)." in said(bench_reports.noisy())


def test_a_variant_that_compiles_in_every_run_is_an_alarm() -> None:
    """Where every block was thrown out there is no steady time, and the way to find out why is named."""
    found = alarms(bench_reports.always_compiles())

    assert found is not None
    assert found.items[0].text == "`default` compiled or recorded in all 12 blocks, so that it has no steady time."
    assert "%%compile_explain" in found.items[0].advice[0]
    assert column(bench_reports.always_compiles(), "steady") == ["2.11 ms", "never"]


def test_other_results_are_an_alarm_that_says_which_side_is_off() -> None:
    """A variant with other results says what differs, and how far each side is from the float64 run."""
    found = alarms(bench_reports.wrong())

    assert found is not None
    assert found.items[0].text.startswith(
        "`default` gives other results than eager: result 1 of 2 (bfloat16, 128 x 128)"
    )
    assert found.items[0].advice[0] == "Against the float64 run default is 0.31, eager is 2e-3 off."
    assert "pays back" not in said(bench_reports.wrong())


def test_an_interrupted_bench_says_what_its_figures_are() -> None:
    """After an interrupt it is said that the figures are of what was measured till then."""
    assert "┃ Interrupted after 3.2 s: the figures are of what was measured till then" in said(
        bench_reports.interrupted()
    )


def test_an_error_after_the_timing_is_an_alarm() -> None:
    """An error beside figures is told above them."""
    found = alarms(replace(bench_reports.faster(), error="RuntimeError: late"))

    assert found is not None
    assert [item.text for item in found.items] == ["It ended with an error: RuntimeError: late."]


def test_pay_back_is_a_count_with_its_interval_or_never() -> None:
    """How many runs it takes has an interval and the time in eager; a variant that isn't faster never pays back."""
    assert pays_back(bench_reports.gpu()) == (
        # 88,123 runs of 179 µs are 15.8 s.
        "pays back after: default never · reduce-overhead 88,100 runs (76,000 to 104,000; 16 s in eager)"
    )


def test_no_difference_never_pays_back() -> None:
    """Where there is no difference there is no pay-back, whatever the middle of the interval would give."""
    one = default(8.14e-3, 1.02, 0.97, 1.06, break_even_calls=25_000.0, break_even_interval=(8_000.0,))

    assert pays_back(BenchReport((eager(8.3e-3), one))) == "pays back after: default never (no difference)"
    assert "pays back" not in summary(BenchReport((eager(8.3e-3), one))).sentence


def test_pay_back_without_an_end_is_said_as_such() -> None:
    """An interval that is open at its end, and a pay-back that never comes, have words."""
    found = pays_back(bench_reports.infinite())
    report = bench_reports.infinite()
    late = replace(report.variant("late"), break_even_interval=(900.0,))

    assert found.split(" · ") == ["pays back after: default not known (can't tell)", "late 4,000 runs (900 or more)"]
    assert pays_back(replace(report, variants=(*report.variants[:-1], late))) == found


def test_a_job_is_told_with_what_it_saves() -> None:
    """A job of N runs costs the compile once, and says against eager what it saves or loses."""
    variants = (eager(12e-3), default(5e-3, 2.4, 2.3, 2.5, compile_s=4.1), default(12e-3, 1.0, 0.99, 1.01, name="slow"))

    # Eager 1,000 x 12 ms = 12 s; default 4.1 s + 5 s = 9.1 s; slow 4.1 s + 12 s = 16.1 s.
    assert a_job(BenchReport(variants, job_runs=1000)) == (
        "a job of 1,000 runs: eager 12.0 s, default 9.10 s (saves 2.9 s), slow 16.1 s (a loss of 4.1 s)"
    )


def test_a_job_that_is_too_short_is_a_loss() -> None:
    """Where every variant takes longer than eager, the job's line and the first line say that it is a loss."""
    report = BenchReport((eager(30e-3), default(10e-3, 3.0, 2.9, 3.1, compile_s=30.0)), job_runs=1000)

    # Eager 1,000 x 30 ms = 30 s; default 30 s + 10 s = 40 s.
    assert a_job(report) == (
        "a job of 1,000 runs: eager 30.0 s, default 40.0 s (a loss of 10 s). Compiling is a loss here."
    )
    assert "a job of 1,000 runs loses by compiling" in summary(report).sentence
    assert summary(report).tone == "warn"


def test_a_job_of_a_few_runs_is_what_these_runs_took() -> None:
    """A job of up to three runs takes what the first runs took, and no average of later ones."""
    one = default(1e-3, 2.0, 1.9, 2.1, first_s=4.0, second_s=0.5, third_s=0.25, compile_s=9.0)

    assert "default 4.50 s" in a_job(BenchReport((eager(2e-3), one), job_runs=2))


def test_the_floor_names_what_binds_and_how_near_each_comes() -> None:
    """The floor has its bytes and bandwidth, what binds, what eager moves instead, and each variant's share of it."""
    assert floor(bench_reports.faster()) == (
        "floor: 98 µs a run (2.1 MB at 21.4 GB/s; eager moves 60.8 MB) · bound by memory"
        " · reached: eager 4.6 %, default 25 %"
    )


def test_an_arithmetic_floor_names_flops_and_rate() -> None:
    """Where matrix products set the floor their flops and the device's rate are told."""
    roof = Roofline(
        flops=137_438_953_472, matmul_rate={"bfloat16": 660e12}, matmul_s=208e-6, floor_s=208e-6, bound_by="arithmetic"
    )

    assert floor(BenchReport((eager(1e-3),), roofline=roof)) == (
        "floor: 210 µs a run (137 GFLOP at 660 TFLOP/s bfloat16) · bound by arithmetic"
    )


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (
            {"dynamo": 4.1, "backend": 3.2, "aot_autograd": 3.2, "inductor": 2.9, "code_gen": 2.1},
            {"Dynamo": 0.9, "AOTAutograd": 0.3, "Inductor": 0.8, "code generation": 2.1},
        ),
        # A backward pass that was compiled later: its inductor is not within dynamo.
        (
            {"dynamo": 1.25, "backend": 1.0, "aot_autograd": 1.0, "inductor": 1.5, "code_gen": 1.25, "backward": 0.75},
            {"Dynamo": 0.25, "AOTAutograd": 0.25, "Inductor": 0.25, "code generation": 1.25},
        ),
        ({"dynamo": 0.066, "backend": 0.034, "aot_autograd": 0.034}, {"Dynamo": 0.032, "AOTAutograd": 0.034}),
        ({"dynamo": 1.0, "inductor": math.inf, "code_gen": -1.0, "other": 5.0}, {"Dynamo": 1.0}),
        ({}, {}),
    ],
    ids=["forward", "backward", "aot_eager", "odd", "none"],
)
def test_phases_are_made_disjoint(recorded, expected) -> None:
    """Of torch's nested phases each keeps only what is not in one inside it, so that they add up to the whole."""
    assert disjoint(recorded) == pytest.approx(expected)


def test_phases_are_named_after_the_backend() -> None:
    """A backend of its own is not called AOTAutograd, under which torch files its time."""
    one = replace(
        default(1e-3, 2.0, 1.9, 2.1, phases={"dynamo": 2.0, "aot_autograd": 1.5}, compile_s=2.0), backend="mine"
    )

    assert "█ Dynamo 0.50 s · ▓ backend 1.50 s" in said(BenchReport((eager(2e-3), one)))


def test_what_the_compiler_did_not_spend_is_told_apart() -> None:
    """The part of the first runs that isn't the compiler's is in the bar too, where it is worth a word."""
    one = default(1e-3, 2.0, 1.9, 2.1, phases={"dynamo": 2.0}, compile_s=3.0)
    little = replace(one, compile_s=2.05)

    assert "default 3.00 s · cold cache █ Dynamo 2.00 s · ▓ warm-up and recording 1.00 s" in said(
        BenchReport((eager(2e-3), one))
    )
    assert "recording" not in said(BenchReport((eager(2e-3), little)))


def test_breaks_and_recompiles_lead_to_explain() -> None:
    """Variants with the same breaks and recompiles share a line, which names the way to explain them."""
    assert "default, reduce-overhead: 2 graph breaks and 1 recompile; explain it with %%compile_explain" in said(
        bench_reports.noisy()
    )


def test_failed_checks_stand_first_and_apart() -> None:
    """A check that failed is a line of its own, before those that held, which share one."""
    lines = [line for line in render.text(bench_reports.noisy(), width=120).split("\n") if "check" in line][1:]

    assert lines[0].startswith(" ✗ check failed: two eager timings are 9 % apart; close other programs")
    assert lines[1].startswith(" ✓ checks held: nothing was compiled inside the timing · eager is 2e-4 off fp64")


def test_a_failed_check_has_its_figure_and_threshold_once() -> None:
    """Words that name no figure are followed by it and its threshold; those that do stand alone."""
    silent = BenchCheck("drift", False, "the clock drifts", 0.09, 0.05)
    report = replace(bench_reports.faster(), checks=(silent,))

    assert "✗ check failed: the clock drifts (found 0.09, threshold 0.05)." in said(report)
    assert "found 0.09" not in said(bench_reports.noisy())


def test_a_cell_with_much_outside_of_what_is_compiled_says_so() -> None:
    """How much of a run is compiled is told where it isn't nearly all of it."""
    assert compiled_share(bench_reports.noisy()).startswith("64 % of an eager run is spent in what is compiled")
    assert compiled_share(replace(bench_reports.noisy(), compiled_share=0.85)) == ""


def test_folded_is_every_figure() -> None:
    """Folded are all figures and samples of the variants, the checks, the roofline and the targets."""
    folded = {block.key: block for block in bench_blocks(bench_reports.gpu()) if isinstance(block, Folded)}
    page = " ".join(Sanitized(render.mimebundle(bench_reports.gpu())["text/html"]).words)

    assert list(folded) == ["variants", "checks", "roofline", "targets"]
    for words in (
        "179 µs, 179 µs, 179 µs",
        "1.84x (1.81 to 1.88)",
        "4.31 s",
        "code_gen 2.10 s",
        "660 TFLOP/s",
        "0.006",
    ):
        assert words in page


def test_folded_blocks_open_by_their_key() -> None:
    """A folded block that is asked for is opened, and no other."""
    opened = [
        block.key for block in bench_blocks(bench_reports.gpu(), opened=("checks",)) if getattr(block, "opened", False)
    ]

    assert opened == ["checks"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.1e-6, "3.10 µs"),
        (179e-6, "179 µs"),
        (2.11e-3, "2.11 ms"),
        (6.1, "6.10 s"),
        (42e-9, "42.0 ns"),
        (999.7e-6, "1.00 ms"),
        (0.9999, "1.00 s"),
        (119.0, "119 s"),
        (150.0, "2.50 min"),
        (9000.0, "2.50 h"),
        (604_800.0, "7.00 days"),
        (0.0, "0 s"),
        (NEVER, "∞ s"),
    ],
)
def test_times_have_three_digits_in_a_unit_that_suits(value: float, expected: str) -> None:
    """A time has three digits that count, also where rounding brings it into the next unit."""
    assert bench_words.duration(value) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (bench_words.duration(4.13, 2), "4.1 s"),
        (bench_words.size(18_000_000), "18 MB"),
        (bench_words.size(999_999), "1 MB"),
        (bench_words.size(512), "512 B"),
        (bench_words.scaled(4.22e12, "B/s"), "4.22 TB/s"),
        (bench_words.counts(88_123.4), "88,100"),
        (bench_words.counts(0.2), "1"),
        (bench_words.counts(2_000_000.0), "2,000,000"),
        (bench_words.counts(NEVER), "∞"),
        (bench_words.runs(1), "1 run"),
        (bench_words.ratio(5.407), "5.41"),
        (bench_words.ratio(1234.5), "1,230"),
        (bench_words.ratio(0.0123), "0.0123"),
        (bench_words.percent(4.6), "4.6 %"),
        (bench_words.percent(100.0), "100 %"),
        (bench_words.difference(2.1e-4), "2e-4"),
        (bench_words.difference(0.313), "0.31"),
        (bench_words.difference(math.nan), "not a number"),
        (bench_words.difference(0.0), "0"),
    ],
)
def test_figures_read_well(words: str, expected: str) -> None:
    """Sizes, counts, ratios and errors have the digits that mean something, and thousands apart."""
    assert words == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1.0, "█" * 10), (0.5, "█" * 5), (0.0, ""), (0.0001, "▏"), (0.55, "█████▌"), (7.0, "█" * 10), (math.nan, "")],
)
def test_a_bar_is_as_long_as_its_share(share: float, expected: str) -> None:
    """A bar of ten characters is filled in eighths; what is more than nothing is seen."""
    assert bar(share) == expected


def test_a_split_bar_is_as_long_as_its_sum() -> None:
    """The pieces of a bar together are as long as their sum is, however they round."""
    assert pieces([1.0, 1.0, 1.0], 6.0, 8) == ["█", "▓▓", "▒"]
    assert pieces([1.0], 0.0, 8) == [""]


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [20, 60, 79, 100, 120, 400])
def test_text_is_at_most_60_lines_of_120_columns(name: str, width: int) -> None:
    """Text of any bench keeps within 60 lines, and within the width that was asked for or 120 columns."""
    lines = render.text(REPORTS[name](), width=width).split("\n")

    assert len(lines) <= 60
    assert max(map(cell_len, lines)) <= max(40, min(width, 120))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_text_gives_up_columns_and_says_which(width: int) -> None:
    """Where the table finds no room it loses whole columns, never the answer's, and names them."""
    text = re.sub("\n (?=see|[a-z ,]+: see)", " ", render.text(bench_reports.gpu(), width=width))
    header = next(line for line in text.split("\n") if line.startswith("  variant"))
    named = set(re.search(r"no room here for (.*): see _compile_report\.variants", text)[1].split(", "))

    assert {"variant", "steady", "against"} <= set(header.split())
    assert named
    assert not [title for title in named if title in header]
    assert "1.81–1.88x" in text


@pytest.mark.parametrize("name", REPORTS)
def test_plain_text_has_no_control_characters(name: str) -> None:
    """Text has no escape sequence and no character that moves or reorders text."""
    text = render.text(REPORTS[name]())

    assert clean(text) == text
    text.encode()


def test_colour_changes_nothing_but_the_colour() -> None:
    """Text in colour is the same text once its escape sequences are taken out."""
    coloured = render.text(bench_reports.noisy(), color=True)
    plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).split("\n"))

    assert "\x1b[" in coloured
    assert plain == render.text(bench_reports.noisy())


def test_forty_variants_are_cut_and_counted() -> None:
    """Of many variants as many are shown as find room, and the rest is counted."""
    text = render.text(bench_reports.many(), width=120)
    shown = len(re.findall(r"^  (eager|variant \d+) +4?\.?1?", text.split("… and")[0], re.MULTILINE))
    left = int(re.search(r"… and (\d+) more in _compile_report\.variants", text)[1])

    assert shown + left == 40


@pytest.mark.parametrize("name", REPORTS)
def test_html_uses_only_what_a_sanitizer_keeps(name: str) -> None:
    """Tags, attributes and inline styles are those that JupyterLab keeps, but for the one style sheet."""
    page = render.mimebundle(REPORTS[name]())["text/html"]
    found = Sanitized(page)
    styles = [one.partition(":") for key, value in found.attributes if key == "style" for one in value.split(";")]

    assert found.tags - {"style"} <= KEPT_TAGS
    assert page.count("<style>") == 1
    assert {key for key, _ in found.attributes} <= KEPT_ATTRIBUTES | METER_ATTRIBUTES
    assert {name for name, _, _ in styles} <= KEPT_STYLES | {"width"}
    assert not [value for _, _, value in styles if "var(" in value]


def test_hostile_html_is_inert() -> None:
    """No tag, attribute or address from a program gets into the page."""
    page = Sanitized(render.page(bench_reports.hostile()))

    assert not page.tags & {"script", "img", "svg", "iframe"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("id", "src", "href")]
    assert "<script>alert(1)</script><img" in page.words


@pytest.mark.parametrize("name", ["hostile", "many"])
def test_html_is_bounded(name: str) -> None:
    """HTML keeps below 200 kB however much there is."""
    assert len(render.mimebundle(REPORTS[name]())["text/html"].encode()) < 200_000


def test_bars_have_words_and_survive_without_their_element() -> None:
    """A bar in HTML is a meter with its share, words for those who can't see it, and block characters inside."""
    page = render.mimebundle(bench_reports.gpu())["text/html"]

    assert '<meter value="0.5525" min="0" max="1" title="179 µs a run, 55.2 % of the slowest"' in page
    assert ">█████▌</meter>" in page


def test_html_has_a_failed_variants_reason_across_the_table() -> None:
    """A long reason stands in a row of its own across all columns, so that no column grows with it."""
    page = render.mimebundle(bench_reports.no_compiler())["text/html"]
    columns = len(titles(bench_reports.no_compiler()))

    assert re.search(rf'<td colspan="{columns}"[^>]*><div>no times: InvalidCxxCompiler', page)


def test_html_and_text_have_the_same_order() -> None:
    """What stands first in text stands first in HTML."""
    landmarks = [
        "1.17x",
        "against eager",
        "not used",
        "pays back after",
        "floor: ",
        "by phase",
        "graph breaks",
        "failed:",
    ]
    report = bench_reports.noisy()

    for shown in (render.text(report, width=120), render.mimebundle(report)["text/html"]):
        places = [shown.index(words) for words in landmarks]
        assert places == sorted(places)


@pytest.mark.parametrize("name", ["faster", "gpu", "noisy", "wrong", "no_compiler"])
def test_sanitized_html_says_all_that_text_says(name: str) -> None:
    """Without style sheet every sentence and every cell of the report is still on the page."""
    report = REPORTS[name]()
    page = "".join(Sanitized(render.mimebundle(report)["text/html"]).words)
    blocks = bench_blocks(report)
    cells = [cell for one in blocks if isinstance(one, Table) for row in one.rows for cell in row.cells]
    items = [item for one in blocks for item in getattr(one, "items", ()) if isinstance(item, str)]
    words = [*(cell for cell in cells if isinstance(cell, str)), *items, *summary(report).details]

    assert [one for one in words if "".join(one.split()).replace("`", "") not in page] == []


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_survives_its_json(name: str) -> None:
    """A report that was written as JSON and read again shows the same, figures without an end included."""
    report = REPORTS[name]()
    again = BenchReport.from_json(report.to_json())

    assert render.text(again) == render.text(report)
    assert again == report or name == "infinite"  # not a number is never equal to itself


def test_infinite_figures_come_back_from_json() -> None:
    """What never pays back is never after it was saved and loaded."""
    again = BenchReport.from_json(bench_reports.infinite().to_json())

    assert again.variant("default").break_even_interval == (900.0, NEVER)
    assert again.variant("late").speedup_interval == (1.1, NEVER)
    assert math.isnan(again.variant("nan").speedup)


@pytest.mark.parametrize("name", ["gpu", "hostile", "infinite"])
def test_a_saved_page_stands_alone(name: str, tmp_path) -> None:
    """A saved page is a whole document whose title is the answer."""
    page = REPORTS[name]().save(tmp_path / "bench.html").read_text(encoding="utf-8")

    assert page.startswith("<!doctype html>")
    assert "<title>compile_bench: " in page


def test_bare_checks_and_targets_are_shown() -> None:
    """A check without words is shown by its name, and a long list of targets is counted."""
    targets = tuple(Target(f"f{at}", "compiled") for at in range(9))
    report = replace(bench_reports.faster(), checks=(BenchCheck("drift", False, ""),), targets=targets)

    assert "✗ check failed: drift." in said(report)
    assert "f0, f1, f2 and 6 more" in summary(report).sentence
