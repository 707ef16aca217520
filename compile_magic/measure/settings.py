"""What a bench is asked for, and what it tells while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# The modes of torch.compile in which Inductor records cudagraphs.
CUDAGRAPH_MODES = frozenset({"reduce-overhead", "max-autotune"})


@dataclass(frozen=True)
class Settings:
    """What is measured and for how long.

    `budget_s` are seconds of steady state for each variant, eager included. `runs` is the length of the job that the
    end-to-end answer is for, None for no job. With `cold`, Inductor's caches on disk are left out.
    """

    targets: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dynamic: bool | None = None
    fullgraph: bool = False
    budget_s: float = 3.0
    runs: int | None = None
    cold: bool = False


class Progress(Protocol):
    """Takes one line about what is going on; called between runs and never inside a timed part."""

    def tell(self, words: str) -> None:
        """Show the line in the place of the one before."""


class NoProgress:
    """Shows nothing."""

    def tell(self, words: str) -> None:
        """Show nothing."""
