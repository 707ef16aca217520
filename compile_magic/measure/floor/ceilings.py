"""What this device can do at best: bytes, flops and elements a second, measured once and kept for the process.

A ceiling is the best of a few short repeats. Nothing is measured that isn't asked for; each measurement takes some
tens of milliseconds (and a kernel of a primitive some 0.1 s to compile the first time that it is ever used on a GPU,
into torch's own kernel cache). They use their own inputs and generators, and leave grad mode, autocast and random
states alone; precision settings (TF32) are as the user set them. The buffers go back to torch's allocator, so the
highest memory use of the process may be theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from functools import partial
from typing import Any
from typing import Protocol

import torch

from compile_magic import _torch
from compile_magic.measure.floor import pointwise

# Short runs are repeated for this long, since beside other work only some of them are undisturbed.
_LEAST_REPEATS, _MOST_REPEATS = 3, 50
_CPU_REPEAT_S, _GPU_REPEAT_S = 30e-3, 5e-3
_MIB = 1 << 20
# The copied buffer with its copy: far larger than any cache of a GPU (50 MiB on an H200), and of most CPUs.
_GPU_BYTES, _CPU_BYTES, _LEAST_BYTES = 1024 * _MIB, 256 * _MIB, _MIB
# Each timed round copies at least this much.
_COPIED_BYTES = 64 * _MIB
_GPU_SIDES, _CPU_SIDES = (1024, 2048, 4096, 8192), (128, 256, 512, 1024, 2048)
_GPU_ENOUGH_S, _CPU_ENOUGH_S = 1e-3, 10e-3
_TOO_LONG = 6
_LAUNCHES = 300
_GPU_ELEMENTS = 1 << 22
# Float ops of these are computed in float32, in eager's kernels as in compiled ones.
_COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}
# Products of narrower ones (float8) aren't done by torch.mm.
_MULTIPLIED = frozenset(("float16", "bfloat16", "float32", "float64"))
_NO_MEMORY = (torch.OutOfMemoryError, MemoryError)


class Rates(Protocol):
    """What a roofline asks of a device, so that tests can have one with set rates. None is "not known"."""

    def bandwidth(self, working_set: int | None = None) -> float | None:
        """Return bytes a second, read and written together, for work on so many bytes (None: far more than caches)."""

    def matmul_rate(self, dtype: str) -> float | None:
        """Return flops a second of matrix products of "float32" and the like."""

    def pointwise_rate(self, op: str, dtype: str) -> float | None:
        """Return elements a second that a pointwise op computes, memory aside."""

    def launch_s(self) -> float | None:
        """Return the seconds that issuing one tiny op takes."""


class Ceilings:
    """The `Rates` of a device, measured when first asked for. `Ceilings.of(device)` is the one of the process."""

    _of: dict[torch.device, Ceilings] = {}  # noqa: RUF012 - it is the memory of the process

    @classmethod
    def of(cls, device: torch.device) -> Ceilings:
        """Return the ceilings of a device; one without a number is the accelerator's current one."""
        if device.type != "cpu" and device.index is None:
            device = torch.device(device.type, torch.accelerator.current_device_index())
        return cls._of.setdefault(device, cls(device))

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._known: dict[tuple[Any, ...], float] = {}

    def bandwidth(self, working_set: int | None = None) -> float | None:
        """Return bytes a second, read and written together, of copying.

        Args:
            working_set: bytes that the work touches. What fits in a cache is there again in the next run, so that its
                rate is the better one of a buffer of that size and of one far larger than the caches; None is the
                latter alone.
        """
        most = _CPU_BYTES if self.device.type == "cpu" else _GPU_BYTES
        sizes = {most, _rounded(working_set, most)}
        rates = [self._once("bandwidth", size, measure=partial(copy_rate, self.device, size)) for size in sizes]
        return max((rate for rate in rates if rate is not None), default=None)

    def matmul_rate(self, dtype: str) -> float | None:
        """Return flops a second of a square matrix product, None for a dtype that it isn't known for."""
        if dtype not in _MULTIPLIED:
            return None
        measure = partial(matmul_rate, self.device, getattr(torch, dtype))
        return self._once("matmul", dtype, _precision(), measure=measure)

    def pointwise_rate(self, op: str, dtype: str) -> float | None:
        """Return elements a second that a pointwise op of `pointwise.COSTS` computes, memory aside.

        None for other ops, for dtypes that aren't floats, and on devices that none of its primitives is known for.
        """
        took = pointwise.seconds_each(op, partial(self._primitive_rate, dtype=_COMPUTED_IN.get(dtype, dtype)))
        return 1 / took if took else None

    def launch_s(self) -> float | None:
        """Return the seconds that issuing one op on one element takes, one after the other."""
        return self._once("launch", measure=partial(launch_s, self.device))

    def _primitive_rate(self, primitive: str, *, dtype: str) -> float | None:
        if self.device.type == "cpu" and primitive == pointwise.FMA:
            flops = self.matmul_rate(dtype)
            return flops / 2 if flops else None
        measure = partial(primitive_rate, self.device, primitive, getattr(torch, dtype))
        return self._once("pointwise", primitive, dtype, measure=measure)

    def _once(self, *key: Any, measure: Callable[[], float | None]) -> float | None:
        # What failed is tried again: memory may be free by then.
        key = (*key, torch.get_num_threads() if self.device.type == "cpu" else None)
        if key not in self._known:
            with _undisturbed(self.device):
                found = _or_none(measure)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]


def _or_none(measure: Callable[[], float | None]) -> float | None:
    try:
        return measure()
    except (*_NO_MEMORY, RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError):
        # A device or dtype that can't do this: its ceiling isn't known.
        return None


@contextmanager
def _undisturbed(device: torch.device) -> Iterator[None]:
    with torch.no_grad(), torch.autocast(device.type, enabled=False), _current(device):
        yield


def _current(device: torch.device) -> AbstractContextManager[Any]:
    switch = getattr(torch.accelerator, "device_index", None)
    return switch(device.index) if switch is not None and device.type != "cpu" else nullcontext()


def _rounded(working_set: int | None, most: int) -> int:
    """Return the power of two at or above this many bytes, within what is measured."""
    if working_set is None:
        return most
    return min(most, max(_LEAST_BYTES, 1 << max(0, working_set - 1).bit_length()))


def _precision() -> str:
    # Asking raises where the user has mixed torch's old and new names for this setting.
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return ""


# --- measuring -------------------------------------------------------------------------------------------------------


def best_s(run: Callable[[], object], device: torch.device) -> float:
    """Return the least seconds that a run took, until the device was done with it, after one that isn't timed."""
    _timed(run, device)
    times: list[float] = []
    enough = _CPU_REPEAT_S if device.type == "cpu" else _GPU_REPEAT_S
    while len(times) < _LEAST_REPEATS or (sum(times) < enough and len(times) < _MOST_REPEATS):
        times.append(_timed(run, device))
    return min(times)


def _timed(run: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def copy_rate(device: torch.device, nbytes: int) -> float | None:
    """Return bytes a second, read and written together, of copying one half of `nbytes` to the other.

    Where memory is short it takes fewer bytes, and gives None below 1 MiB.
    """
    if nbytes < _LEAST_BYTES:
        return None
    try:
        return _copied(nbytes, device, *_buffers(device, nbytes // 2))
    except _NO_MEMORY:
        return copy_rate(device, nbytes // 4)


def _copied(nbytes: int, device: torch.device, source: torch.Tensor, target: torch.Tensor) -> float:
    count = max(1, _COPIED_BYTES // nbytes)
    return count * nbytes / best_s(lambda: [target.copy_(source) for _ in range(count)], device)


def _buffers(device: torch.device, nbytes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two buffers that nothing shares pages with.

    Raises:
        torch.OutOfMemoryError: there is no room for them.
        MemoryError: the same on a CPU.
    """
    made = [_filled(nbytes // 4, torch.float32, device, 1.0) for _ in range(2)]
    return made[0], made[1]


def _filled(count: int, dtype: torch.dtype, device: torch.device, value: float) -> torch.Tensor:
    try:
        return torch.full((count,), value, dtype=dtype, device=device)
    except RuntimeError as error:
        # The CPU's allocator has no exception of its own.
        if "can't allocate memory" in str(error):
            raise MemoryError(str(error)) from None
        raise


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float | None:
    """Return flops a second of torch.mm, of sides that double until one product is long enough for the clock."""
    on_cpu = device.type == "cpu"
    enough = _CPU_ENOUGH_S if on_cpu else _GPU_ENOUGH_S
    rates: list[float] = []
    for side in _CPU_SIDES if on_cpu else _GPU_SIDES:
        try:
            took = best_s(partial(torch.mm, *_matrices(device, dtype, side)), device)
        except (*_NO_MEMORY, RuntimeError):
            # No room for this side, or no product of this dtype: what the smaller ones gave stands.
            break
        rates.append(2 * side**3 / took)
        # The first one may be long because the machine is busy; much too long is too long for a next one.
        if took > _TOO_LONG * enough or (took > enough and len(rates) > 1):
            break
    return max(rates, default=None)


def _matrices(device: torch.device, dtype: torch.dtype, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    # Not of zeros: a GPU draws less power for these, and multiplies them faster than a user's.
    generator = torch.Generator(device).manual_seed(0)
    made = torch.empty(side, side, dtype=torch.float32, device=device).uniform_(-1, 1, generator=generator).to(dtype)
    return made, made.t().contiguous()


def launch_s(device: torch.device) -> float:
    """Return the seconds of one op on one element, issued one after the other."""
    x = torch.zeros(1, dtype=torch.float32, device=device)
    return best_s(lambda: [torch.add(x, x) for _ in range(_LAUNCHES)], device) / _LAUNCHES


def primitive_rate(device: torch.device, primitive: str, dtype: torch.dtype) -> float | None:
    """Return how often a second a primitive of `pointwise.COSTS` runs on this device."""
    if dtype not in (torch.float32, torch.float64):
        return None
    if device.type == "cpu":
        made = pointwise.on_cpu(primitive, dtype)
        return made[1] / best_s(made[0], device) if made else None
    return _gpu_rate(device, primitive, dtype) if device.type == "cuda" else None


def _gpu_rate(device: torch.device, primitive: str, dtype: torch.dtype) -> float | None:
    """Return how often a second a GPU (also a ROCm one) runs a primitive on values in registers."""
    code = pointwise.gpu_code(primitive, double=dtype == torch.float64)
    kernel = _torch.jiterated(code[0], rounds=0.0) if code else None
    if code is None or kernel is None:
        return None
    x = torch.full((_GPU_ELEMENTS,), 0.5, dtype=dtype, device=device)

    def took(rounds: int) -> float:
        return best_s(lambda: kernel(x, rounds=float(rounds)), device)

    # The difference of two lengths has neither the launch in it nor reading and writing the values.
    few, rounds = took(1), 8
    while (more := took(rounds)) < few + _GPU_ENOUGH_S and rounds < 1 << 14:
        rounds *= 4
    return _GPU_ELEMENTS * code[1] * (rounds - 1) / (more - few) if more > few else None
