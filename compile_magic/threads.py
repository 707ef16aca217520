"""Whether other threads run code that the user wrote or torch's, so that exchanging code objects is unsafe."""

from __future__ import annotations

import sys
import threading
from types import FrameType

# Threads of the notebook itself, which never run the user's functions.
NOTEBOOK_PARTS = ("ipykernel", "IPython", "zmq", "tornado", "traitlets", "asyncio", "threading.py", "concurrent")


def other_threads_busy() -> bool:
    """Return whether a thread besides this one is inside anything but the notebook's own machinery."""
    own = threading.get_ident()
    frames = sys._current_frames()  # noqa: SLF001 - documented for this use
    return any(_busy(frame) for thread, frame in frames.items() if thread != own)


def _busy(frame: FrameType | None) -> bool:
    while frame is not None:
        if not _is_machinery(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _is_machinery(file: str) -> bool:
    in_stdlib = file.startswith(_STDLIB) and "site-packages" not in file
    return in_stdlib or any(part in file for part in NOTEBOOK_PARTS)


_STDLIB = str(threading.__file__).removesuffix("threading.py")
