"""What `%%compile_bench` reports: each variant's calls and times, against eager, with what they can be trusted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

from compile_magic.model import Target
from compile_magic.report import Report

Interval = tuple[float, ...]


@dataclass(frozen=True)
class Variant:
    """One way to run the cell. Times are seconds of wall time for one run of it, unless the name says otherwise.

    `first_s`, `second_s` and `third_s` are its first three runs one after the other, None where there was none.
    `samples_s` are the means of the blocks of the steady state, in the order they were taken, `median_s`, `iqr_s` and
    `min_s` figures of these. `device_median_s` is the device's own clock (events) over a block, `busy_s` how long its
    kernels ran in one run (profiler); both are None on a CPU. `speedup` is eager's time divided by this one's, the
    median over rounds in which both were timed, `speedup_interval` its 95 % interval (low, high).

    `compile_s` is what the first three runs cost beyond three steady ones, `phases` the compiler's own seconds by
    phase, `cache` "cold", "warm" or "" where no cache was asked. `break_even_calls` is after how many runs of the cell
    that is paid back, `break_even_interval` its 95 % interval; None means never, or not known.

    `max_abs_error` and `max_rel_error` are the largest differences from eager over all results, `error_vs_fp64` this
    variant's largest relative difference from the float64 run; `matches_eager` is None if it was not compared, and
    `differs` says what is different and which side is off. `thrown_out` counts the blocks in which something was
    compiled or recorded. `percent_of_floor` is 100 times the roofline's floor divided by this variant's time: 100 is as
    fast as can be. `skipped` is why cudagraphs were not used; `error` why the variant has no times.
    """

    name: str
    backend: str = ""
    mode: str = ""
    how: str = "compiled"
    first_s: float | None = None
    second_s: float | None = None
    third_s: float | None = None
    median_s: float | None = None
    iqr_s: float | None = None
    min_s: float | None = None
    samples_s: tuple[float, ...] = ()
    device_median_s: float | None = None
    busy_s: float | None = None
    speedup: float | None = None
    speedup_interval: Interval | None = None
    compile_s: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    cache: str = ""
    break_even_calls: float | None = None
    break_even_interval: Interval | None = None
    kernels_per_call: int | None = None
    peak_memory_bytes: int | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    error_vs_fp64: float | None = None
    matches_eager: bool | None = None
    differs: str = ""
    graph_count: int = 0
    graph_break_count: int = 0
    recompile_count: int = 0
    thrown_out: int = 0
    percent_of_floor: float | None = None
    skipped: str = ""
    error: str = ""


@dataclass(frozen=True)
class BenchCheck:
    """A check on the measurement: what was looked at, the figure found, the threshold, and whether it held."""

    name: str
    passed: bool
    words: str
    figure: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Roofline:
    """The least time that one run can take on this device, and what sets it.

    `bytes_moved` are what a fused run must read and write once (inputs and results), `eager_bytes` what eager's ops
    read and write one by one, `flops` the floating-point operations of matrix products and convolutions, `pointwise`
    the elements computed by each pointwise op. The ceilings were measured on this device: `bandwidth` in bytes a
    second (read and written together), `matmul_rate` in flops a second, by dtype. `memory_s`, `matmul_s`,
    `pointwise_s` and `launch_s` are the times they give, `floor_s` the largest of memory and arithmetic (matmul and
    pointwise together); `bound_by` is "memory", "arithmetic" or "launches", and `words` says it in a sentence.
    """

    bytes_moved: int = 0
    eager_bytes: int = 0
    flops: int = 0
    op_count: int = 0
    pointwise: Mapping[str, int] = field(default_factory=dict)
    bandwidth: float | None = None
    matmul_rate: Mapping[str, float] = field(default_factory=dict)
    memory_s: float | None = None
    matmul_s: float | None = None
    pointwise_s: float | None = None
    launch_s: float | None = None
    floor_s: float | None = None
    bound_by: str = ""
    words: str = ""


@dataclass(frozen=True)
class BenchReport(Report):
    """What `%%compile_bench` found. The first variant is eager, the reference of all the others.

    `mode` is how the cell was run ("calls", "named", "cell" or "function"), `statistic` names the figures that the
    table shows, `eager_spread` is how far two eager timings of the same thing were apart (a ratio: 0.01 is 1 %), below
    which a difference is called none. `compiled_share` is the part of an eager run that is spent in what is compiled
    and in backward passes, None where a run is too short to tell. `job_runs` is what `--calls` gave, None if it was
    not. `duration_s` is how long the bench took.
    """

    variants: tuple[Variant, ...] = ()
    device: str = ""
    statistic: str = "median of round ratios"
    checks: tuple[BenchCheck, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    mode: str = "calls"
    targets: tuple[Target, ...] = ()
    roofline: Roofline | None = None
    eager_spread: float | None = None
    compiled_share: float | None = None
    job_runs: int | None = None
    budget_s: float = 3.0
    duration_s: float = 0.0
    interrupted: bool = False
    torch_version: str = ""
    python_version: str = ""

    def variant(self, name: str) -> Variant:
        """Return the variant of that name.

        Raises:
            KeyError: there is none.
        """
        for one in self.variants:
            if one.name == name:
                return one
        raise KeyError(f"no variant {name!r}; there are {', '.join(one.name for one in self.variants)}")
