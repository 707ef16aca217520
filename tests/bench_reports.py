"""Benches built by hand, after measured ones: one for each thing that a bench may have to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compile_magic.bench_model import BenchCheck
from compile_magic.bench_model import BenchReport
from compile_magic.bench_model import Roofline
from compile_magic.bench_model import Variant
from compile_magic.model import Target

NEVER = float("inf")
CHECKS = (
    BenchCheck("compiles", True, "nothing was compiled inside the timing", 0, 0),
    BenchCheck("eager twin", True, "two eager timings are 0.6 % apart", 0.006, 0.05),
    BenchCheck("fp64", True, "eager is 2e-4 off fp64", 2e-4, 1e-2),
    BenchCheck("state", True, "the state is as after one run"),
)
PHASES = {"dynamo": 4.1, "backend": 3.2, "aot_autograd": 3.2, "inductor": 2.9, "code_gen": 2.1}


def eager(took: float, **fields) -> Variant:
    """Return the reference with that median."""
    fields = {"first_s": 6 * took, "second_s": 1.06 * took, "third_s": 1.01 * took} | fields
    return Variant(
        "eager",
        how="eager",
        median_s=took,
        iqr_s=0.02 * took,
        min_s=0.97 * took,
        samples_s=(took,) * 3,
        speedup=1.0,
        **fields,
    )


def default(took: float, speedup: float, low: float, high: float, **fields) -> Variant:
    """Return torch.compile() as one would write it."""
    fields = {
        "name": "default",
        "first_s": 4.1,
        "second_s": 1.07 * took,
        "third_s": 1.02 * took,
        "compile_s": 4.1,
    } | fields
    fields = {"cache": "cold", "phases": PHASES, "max_rel_error": 2e-4, "matches_eager": True} | fields
    return Variant(
        backend="inductor",
        median_s=took,
        iqr_s=0.02 * took,
        min_s=0.97 * took,
        samples_s=(took,) * 3,
        speedup=speedup,
        speedup_interval=(low, high),
        graph_count=1,
        **fields,
    )


def faster() -> BenchReport:
    """A chain of pointwise ops on a CPU, which fusion makes faster."""
    variants = (
        eager(2.11e-3, percent_of_floor=4.6),
        default(
            0.39e-3,
            5.41,
            5.38,
            5.44,
            break_even_calls=2383.7,
            break_even_interval=(2341.0, 2440.0),
            percent_of_floor=25.0,
        ),
    )
    roof = Roofline(
        bytes_moved=2_097_152,
        eager_bytes=60_817_408,
        op_count=29,
        bandwidth=21.4e9,
        memory_s=98e-6,
        launch_s=58e-6,
        floor_s=98e-6,
        bound_by="memory",
        words="This work is memory-bound: eager moves 29 times the bytes that a fused run needs. Fusion helps",
    )
    return BenchReport(
        variants,
        "CPU, 2 threads",
        checks=CHECKS,
        targets=(Target("chain", "compiled"), Target("len", "eager", "a builtin")),
        roofline=roof,
        eager_spread=0.006,
        duration_s=10.7,
        torch_version="2.13.0",
    )


def no_difference() -> BenchReport:
    """One large matrix product: compiling changes nothing."""
    variants = (eager(8.3e-3), default(8.14e-3, 1.02, 0.97, 1.06, cache="warm", max_rel_error=0.0))
    return replace(faster(), variants=variants, roofline=None, eager_spread=0.01)


def slower() -> BenchReport:
    """One tiny op, to which the compiled call adds its own cost; a job of 1,000 runs was asked about."""
    variants = (eager(3.1e-6), default(21.2e-6, 0.146, 0.144, 0.148, compile_s=0.9, phases={}))
    return replace(faster(), variants=variants, roofline=None, job_runs=1000, targets=(Target("add", "compiled"),))


def gpu() -> BenchReport:
    """A launch-bound MLP on a GPU, which cudagraphs help and fusion doesn't."""
    variants = (
        eager(
            179e-6,
            busy_s=21e-6,
            kernels_per_call=8,
            peak_memory_bytes=18_000_000,
            device_median_s=178e-6,
            percent_of_floor=0.017,
        ),
        default(
            324e-6,
            0.85,
            0.84,
            0.87,
            busy_s=17e-6,
            kernels_per_call=8,
            peak_memory_bytes=18_000_000,
            percent_of_floor=0.0094,
        ),
        default(
            130e-6,
            1.84,
            1.81,
            1.88,
            name="reduce-overhead",
            mode="reduce-overhead",
            first_s=4.3,
            second_s=11e-3,
            busy_s=19e-6,
            kernels_per_call=9,
            peak_memory_bytes=20_000_000,
            compile_s=4.31,
            phases={**PHASES, "dynamo": 3.9},
            break_even_calls=88_123.4,
            break_even_interval=(76_020.0, 104_480.0),
            percent_of_floor=0.023,
        ),
    )
    roof = Roofline(
        bytes_moved=128_000,
        eager_bytes=139_000,
        flops=1_048_576,
        op_count=16,
        pointwise={"relu": 4096},
        bandwidth=4.22e12,
        matmul_rate={"float16": 660e12},
        memory_s=30e-9,
        matmul_s=2e-9,
        pointwise_s=1e-9,
        launch_s=60e-6,
        floor_s=30e-9,
        bound_by="launches",
        words="This work is launch-bound: the GPU is busy 17 µs of 320 µs a call (5 %). Cudagraphs help, fusion can't.",
    )
    return BenchReport(
        variants,
        "NVIDIA H200",
        checks=CHECKS,
        notes=("max-autotune was not run: --modes max-autotune adds it (about a minute of compiling)",),
        targets=(Target("model", "compiled"),),
        roofline=roof,
        eager_spread=0.006,
        duration_s=9.2,
        torch_version="2.11.0",
    )


def no_compiler() -> BenchReport:
    """No C++ compiler: the row of inductor has its reason, and that of aot_eager stands."""
    error = "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')"
    aot = default(
        2.2e-3, 0.96, 0.94, 0.97, name="aot_eager", compile_s=0.07, phases={"dynamo": 0.066, "aot_autograd": 0.034}
    )
    variants = (eager(2.11e-3), Variant("default", "inductor", error=error), aot)
    return replace(faster(), variants=variants, roofline=None)


def wrong() -> BenchReport:
    """Fast, but with other results; eager is the one that is near the float64 run."""
    differs = "result 1 of 2 (bfloat16, 128 x 128): off by 0.31 where 0.016 is allowed; eager is nearer to float64"
    bad = default(
        0.39e-3,
        5.41,
        5.38,
        5.44,
        matches_eager=False,
        differs=differs,
        max_rel_error=0.31,
        error_vs_fp64=0.31,
        break_even_calls=2380.0,
    )
    return replace(faster(), variants=(eager(2.11e-3, error_vs_fp64=2e-3), bad))


def interrupted() -> BenchReport:
    """Stopped after a few rounds, before the third variant."""
    variants = (
        eager(2.11e-3),
        default(0.39e-3, 5.4, 4.1, 6.9),
        Variant("max-autotune", "inductor", "max-autotune", error="not reached: the bench was interrupted"),
    )
    return replace(faster(), variants=variants, interrupted=True, duration_s=3.2)


def failed() -> BenchReport:
    """The cell itself raised."""
    return BenchReport(error="RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x3)", duration_s=0.4)


def always_compiles() -> BenchReport:
    """A size that grows with every run: each block compiled something."""
    again = Variant(
        "default", "inductor", first_s=4.1, second_s=3.9, third_s=3.8, thrown_out=12, recompile_count=7, graph_count=8
    )
    return replace(faster(), variants=(eager(2.11e-3), again), roofline=None)


def noisy() -> BenchReport:
    """A busy machine: checks failed, blocks were thrown out, cudagraphs were skipped, and the code breaks."""
    variants = (
        eager(2.11e-3, thrown_out=0),
        default(1.9e-3, 1.11, 1.06, 1.19, graph_break_count=2, recompile_count=1, thrown_out=3),
        default(
            1.8e-3,
            1.17,
            1.08,
            1.22,
            name="reduce-overhead",
            graph_break_count=2,
            recompile_count=1,
            skipped="mutated inputs (1 instance)",
        ),
    )
    failing = (
        BenchCheck(
            "eager twin", False, "two eager timings are 9 % apart; close other programs or give --budget 10", 0.09, 0.05
        ),
    )
    return replace(
        faster(), variants=variants, checks=(*CHECKS[:1], *failing, *CHECKS[2:]), compiled_share=0.64, job_runs=100_000
    )


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> [bold red]b[/bold red] "
    "\x1b[31mred\x1b[0m \u202eevil\u202c \ud800 😀"
)


def hostile() -> BenchReport:
    """Text of a program that would like to do harm, in every field that takes text."""
    one = default(
        1e-3,
        2.0,
        1.9,
        2.1,
        name=HOSTILE,
        cache=HOSTILE,
        differs=HOSTILE,
        matches_eager=False,
        skipped=HOSTILE,
        phases={HOSTILE: 1.0, "dynamo": 2.0},
    )
    long = replace(one, name="n" * 10_000, error="e" * 10_000, differs="d" * 10_000)
    roof = Roofline(100, 1000, 10, 1, {HOSTILE: 3}, 1e9, {HOSTILE: 1e9}, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, HOSTILE, HOSTILE)
    return BenchReport(
        (eager(2e-3), one, long),
        HOSTILE,
        HOSTILE,
        (BenchCheck(HOSTILE, False, HOSTILE, 1.0, 2.0), BenchCheck("w" * 10_000, True, "w" * 10_000)),
        (HOSTILE, "n" * 10_000, "\n" * 500),
        HOSTILE,
        targets=(Target(HOSTILE, "compiled", HOSTILE), Target("t" * 10_000, "compiled")),
        roofline=roof,
        interrupted=True,
        torch_version=HOSTILE,
        duration_s=1.0,
    )


def many() -> BenchReport:
    """Forty variants, each with something below its row."""
    rows = [
        default(
            1e-3 + at * 1e-5,
            2.0 - at * 0.04,
            1.9 - at * 0.04,
            2.1 - at * 0.04,
            name=f"variant {at}",
            skipped="mutated inputs",
            graph_break_count=at % 3,
        )
        for at in range(39)
    ]
    rows[7] = replace(rows[7], error="out of memory " * 40, median_s=None, speedup=None)
    variants = (eager(2e-3), *(replace(row, samples_s=(1e-3,) * 500) for row in rows))
    return replace(gpu(), variants=variants, notes=("a note",) * 40, checks=CHECKS * 10)


def empty() -> BenchReport:
    """Nothing at all."""
    return BenchReport()


def bare() -> BenchReport:
    """Variants of which nothing is known."""
    return BenchReport((Variant(""), Variant("")), roofline=Roofline(), checks=(BenchCheck("", True, ""),), notes=("",))


def infinite() -> BenchReport:
    """Figures that are no numbers, or have no end."""
    odd = default(
        1e-3,
        NEVER,
        0.5,
        NEVER,
        break_even_calls=NEVER,
        break_even_interval=(900.0, NEVER),
        max_rel_error=float("nan"),
        compile_s=NEVER,
    )
    late = replace(odd, name="late", speedup=1.3, speedup_interval=(1.1, NEVER), break_even_calls=4000.0)
    return BenchReport(
        (eager(0.0), odd, replace(odd, name="nan", speedup=float("nan"), phases={"dynamo": NEVER}), late), job_runs=5
    )


Build = Callable[[], BenchReport]
REPORTS: dict[str, Build] = {
    build.__name__: build
    for build in (
        *(faster, no_difference, slower, gpu, no_compiler, wrong, interrupted, failed, always_compiles, noisy),
        *(hostile, many, empty, bare, infinite),
    )
}
