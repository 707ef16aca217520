"""How much memory is free: a device's, with what torch's allocator holds and doesn't use, and the host's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

# Of the host's free memory a single copy takes at most this part: a run needs some, and so do others.
SHARE_OF_HOST = 0.5
# Asking for it takes longer than to copy so much, which is always there.
SMALL = 1 << 20
_MEMINFO = Path("/proc/meminfo")
# By the version of control groups: what a container may use at most, what it uses, and what of that caches files.
_CONTAINERS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def has_room(nbytes: int) -> bool:
    """Return whether a copy fits into the host's memory, with room to spare. Where nobody can tell, it does."""
    free = free_bytes(torch.device("cpu")) if nbytes >= SMALL else None
    return free is None or nbytes <= SHARE_OF_HOST * free


def free_bytes(device: torch.device) -> int | None:
    """Return how many bytes of a device are free, None where it doesn't say."""
    if device.type == "cpu":
        found = [size for look in _HOST for size in [look()] if size is not None]
        return min(found, default=None)
    module = torch.get_device_module(device)
    memory = getattr(module, "mem_get_info", None)
    if memory is None:
        return None
    cached = [getattr(module, name, None) for name in ("memory_reserved", "memory_allocated")]
    reserved, allocated = (0 if look is None else int(look(device)) for look in cached)
    return int(memory(device)[0]) + max(0, reserved - allocated)


def _available() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), None)
    psutil: Any = sys.modules.get("psutil")
    return None if psutil is None else int(psutil.virtual_memory().available)


def _physical() -> int | None:
    with suppress(OSError, ValueError, AttributeError):
        # Where the one above is not known; what only caches files is not in it.
        return None if _MEMINFO.exists() else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_container() -> int | None:
    for folder, most, used, cache in _CONTAINERS:
        with suppress(OSError, ValueError):
            free = int((folder / most).read_text(encoding="ascii")) - int((folder / used).read_text(encoding="ascii"))
            stat = (line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
            # What only caches files is given up for others.
            return max(0, free + next((int(size) for name, size in stat if name == cache), 0))
    return None


_HOST: tuple[Callable[[], int | None], ...] = (_available, _physical, _of_container)
