"""Which frame is that of a cell's own code, and not of a function in it."""

from __future__ import annotations


def is_cells_own(name: str) -> bool:
    """Return whether top-level code has this name: Python's, or the one that IPython 7 and 8 give it for debuggers."""
    return name == "<module>" or name.startswith("<cell line: ")
