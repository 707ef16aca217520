"""The clock of a measurement: it waits for the device, reads the time, and stamps the device's own work."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any
from typing import Protocol

if TYPE_CHECKING:
    import torch

_MILLISECOND = 1e-3


class Clock(Protocol):
    """What sampling asks of a clock, so that tests can have one with set costs."""

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""

    def now(self) -> float:
        """Return the time in seconds; only differences have a meaning."""

    def event(self) -> Any | None:
        """Return a stamp that the device sets when it gets there; None on a device without timing events."""

    def elapsed_s(self, start: Any | None, end: Any | None) -> float | None:
        """Return the device's own seconds between two stamps it has passed, None where one of them is."""


class DeviceClock:
    """The clock of the devices that the work uses.

    `devices` are their names ("cpu", "cuda", "cuda:1") or `torch.device`s. Those of the current accelerator's type are
    waited for through `torch.accelerator`, so CUDA, ROCm, XPU and MPS are alike. A name without a number is the
    accelerator's current device. Where none is named, as for work on the CPU, waiting does nothing, there are no
    events, and no accelerator is initialised.

    Events are set on the current stream of the first device: work that a run puts on other streams counts as far as
    the current stream waits for it.
    """

    def __init__(self, devices: Iterable[str | torch.device]) -> None:
        self._devices = _accelerated(devices)
        self._has_events = bool(self._devices)

    def synchronize(self) -> None:
        """Wait for every accelerator device that was named.

        Raises:
            RuntimeError: a kernel that was launched before has failed.
        """
        import torch

        for device in self._devices:
            torch.accelerator.synchronize(device)

    def now(self) -> float:
        """Return the seconds of `time.perf_counter`."""
        return time.perf_counter()

    def event(self) -> Any | None:
        """Return a timing event recorded now, None on a CPU or on a device without them."""
        if not self._has_events:
            return None
        try:
            return _recorded(self._devices[0])
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            self._has_events = False
            return None

    def elapsed_s(self, start: Any | None, end: Any | None) -> float | None:
        """Return the seconds between two events that the device has passed (`synchronize` first), None without them."""
        if start is None or end is None:
            return None
        try:
            return float(start.elapsed_time(end)) * _MILLISECOND
        except (RuntimeError, NotImplementedError, ValueError):
            self._has_events = False
            return None


def _accelerated(devices: Iterable[str | torch.device]) -> tuple[torch.device, ...]:
    """Return the devices of the accelerator's type, each once. Asking which type that is does not initialise it."""
    import torch

    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return ()
    found = dict.fromkeys(torch.device(device) for device in devices)
    return tuple(device for device in found if device.type == accelerator.type)


def _recorded(device: torch.device) -> torch.Event:
    """Return an event set on the current stream of `device`."""
    import torch

    event = torch.Event(device, enable_timing=True)
    event.record(torch.accelerator.current_stream(device))
    return event
