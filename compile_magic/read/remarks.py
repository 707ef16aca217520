"""What torch warned about while the cell was compiled, where the report doesn't say it anyway."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator

# Warnings of what has its own place in the report: the recompile limit, and compiles that failed.
_SAID = ("hit config.", "WON'T CONVERT", "failed while attempting to run meta", "Graph break")
MOST_REMARKS = 3
MOST_CHARACTERS = 160


def remarks(logs: Iterable[str]) -> Iterator[str]:
    """Return the first line of each warning, each once; of many, only the first few, and how many more there were."""
    lines = dict.fromkeys(_first_line(text) for text in logs if not any(said in text for said in _SAID))
    kept = [line for line in lines if line]
    for line in kept[:MOST_REMARKS]:
        yield f"torch warned while compiling: {line}"
    if len(kept) > MOST_REMARKS:
        yield f"torch gave {len(kept) - MOST_REMARKS} more warnings while compiling."


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
