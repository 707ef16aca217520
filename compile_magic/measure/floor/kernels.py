"""What a GPU does in one run: how many kernels, how long it is busy (torch's profiler), and the peak of its memory."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from compile_magic import _torch

# The categories of a Chrome trace by Kineto that are work of the device. Annotations (record_function) come as
# "gpu_user_annotation" on the same rows, and span gaps between kernels.
_KERNEL = "kernel"
_COPIES = frozenset(("gpu_memcpy", "gpu_memset"))
_MICROSECOND = 1e-6
# What torch.profiler sets for CUDA graphs, and leaves set.
_VARIABLES = ("DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI")

Span = tuple[float, float]


@dataclass(frozen=True)
class Profiled:
    """What the device did in a run.

    `kernels` are compute kernels (also those inside a cudagraph, one by one), `copies` copies and fills by the
    device's copy engine, `busy_s` the seconds in which at least one of all these ran.
    """

    kernels: int
    busy_s: float
    copies: int = 0


def profile(
    run: Callable[[], None], *, device: torch.device, tell: Callable[[str], None] = lambda _: None
) -> Profiled | None:
    """Run once under torch's profiler and return what the device did.

    None on a CPU, where a profiler runs already, and where profiling fails; `tell` gets the reason. `run` is not called
    where the profiler can't start. What it raises is raised here, with the profiler stopped.

    The first profile of a process takes seconds to set up. Where that is safe, CUPTI is taken off again afterwards: as
    the profiler leaves it, it makes every launch of the process slower from then on (8 launches of 140 µs took 165 to
    210 µs on an H200). Profile after timing.
    """
    reason = _reason_against(device)
    if reason:
        tell(reason)
        return None
    try:
        return _profiled(run, device)
    except _ProfilerError as error:
        tell(str(error))
        return None


class _ProfilerError(Exception):
    """The profiler failed, not what it profiles."""


def _activity(device: torch.device) -> Any:
    return getattr(torch.profiler.ProfilerActivity, device.type.upper(), None)


def _reason_against(device: torch.device) -> str:
    if device.type == "cpu":
        return "kernels are counted on GPUs only"
    if _torch.profiler_runs():
        return "a profiler of yours is running, and there can be only one"
    if _activity(device) not in torch.profiler.supported_activities():  # type: ignore[no-untyped-call]  # of torch
        return f"this torch can't profile {device.type}"
    return ""


def _profiled(run: Callable[[], None], device: torch.device) -> Profiled:
    # A kernel of our own at the end tells "no kernels" from a profiler that sees none, as beside another tool.
    last = torch.zeros(1, device=device)
    torch.accelerator.synchronize(device)
    with _environment_kept(), tempfile.TemporaryDirectory() as folder:
        if _torch.cupti_can_leave():
            os.environ.setdefault("TEARDOWN_CUPTI", "1")
        path = Path(folder) / "trace.json"
        profiler = _started(device)
        try:
            run()
            torch.accelerator.synchronize(device)
            last.fill_(1)
            torch.accelerator.synchronize(device)
        except BaseException:
            with suppress(_ProfilerError):
                _stopped(profiler)
            raise
        _stopped(profiler)
        return summed(_events(profiler, path))


def _started(device: torch.device) -> Any:
    with _failing_as("start"):
        profiler = torch.profiler.profile(activities=[_activity(device)])
        profiler.start()
        return profiler


def _stopped(profiler: Any) -> None:
    with _failing_as("stop"):
        profiler.stop()


def _events(profiler: Any, path: Path) -> list[Mapping[str, Any]]:
    with _failing_as("write its trace"):
        profiler.export_chrome_trace(str(path))
        events: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
        return events


@contextmanager
def _failing_as(what: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise _ProfilerError(f"torch's profiler could not {what}: {type(error).__name__}: {first}") from error


@contextmanager
def _environment_kept() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _VARIABLES}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def summed(events: Iterable[Mapping[str, Any]]) -> Profiled:
    """Return the sums over the events of a Chrome trace, without the last kernel, which is ours.

    Raises:
        _ProfilerError: there is no kernel at all.
    """
    work = sorted(
        (float(event["ts"]), float(event["dur"]), str(event["cat"]))
        for event in events
        if event.get("ph") == "X" and event.get("cat") in (_KERNEL, *_COPIES)
    )
    kernels = [position for position, (_, _, kind) in enumerate(work) if kind == _KERNEL]
    if not kernels:
        raise _ProfilerError("torch's profiler saw no kernels: another tool may be profiling this process")
    del work[kernels[-1]]
    busy = union_s((start * _MICROSECOND, (start + took) * _MICROSECOND) for start, took, _ in work)
    return Profiled(len(kernels) - 1, busy, len(work) - len(kernels) + 1)


def union_s(spans: Iterable[Span]) -> float:
    """Return how long at least one of the (start, end) spans lasts, in their unit."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def peak_memory(run: Callable[[], None], device: torch.device) -> int | None:
    """Return the peak of memory allocated on a device during one run, in bytes.

    None, without running, on a CPU and where a device keeps no such statistic.

    It is what `torch.cuda.max_memory_allocated()` says: everything of this process that lives, models and inputs too.
    What a cudagraph uses in a replay isn't in it unless it stays allocated. The device's peak statistic starts anew:
    `max_memory_allocated` knows nothing of before this run afterwards.
    """
    memory = _memory_functions(device)
    if memory is None:
        return None
    reset, peak = memory
    torch.accelerator.synchronize(device)
    reset(device)
    run()
    torch.accelerator.synchronize(device)
    return int(peak(device))


def _memory_functions(device: torch.device) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return the functions that reset and give the peak of allocated memory, None where a device has none."""
    if device.type == "cpu":
        return None
    for module in (torch.accelerator, getattr(torch, device.type, None)):
        reset, peak = getattr(module, "reset_peak_memory_stats", None), getattr(module, "max_memory_allocated", None)
        if reset is not None and peak is not None and _works(peak, device):
            return reset, peak
    return None


def _works(peak: Callable[..., Any], device: torch.device) -> bool:
    try:
        peak(device)
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return False
    return True
