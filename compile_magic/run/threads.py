"""Whether other threads may be inside a compiled function, so that exchanging code objects is unsafe."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from compile_magic.run.files import is_dynamos
from compile_magic.run.files import is_user_file


def other_threads_busy() -> bool:
    """Return whether a thread besides this one is inside code of the user's, or inside Dynamo."""
    own = threading.get_ident()
    frames = sys._current_frames()  # noqa: SLF001 - documented for this use
    return any(_busy(frame) for thread, frame in frames.items() if thread != own)


def _busy(frame: FrameType | None) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user_file(file) or is_dynamos(file):
            return True
        frame = frame.f_back
    return False
