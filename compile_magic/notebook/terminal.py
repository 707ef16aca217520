"""What the terminal is like that the output goes to, if it goes to one."""

from __future__ import annotations

import os
import sys
from typing import Any


def is_one(shell: Any) -> bool:
    """Return whether a shell writes to a terminal."""
    return not hasattr(shell, "kernel") and sys.stdout.isatty()


def takes_color() -> bool:
    """Return whether the terminal is to be written to in colours."""
    # https://no-color.org
    return os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def width() -> int:
    """Return the number of its columns."""
    import shutil

    return shutil.get_terminal_size((100, 24)).columns
