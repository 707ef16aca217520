"""One line about what is going on, which becomes the report: only for work that takes more than a second."""

from __future__ import annotations

import time
from collections.abc import Callable

Bundle = dict[str, str]

# Seconds until the first line is shown, and between two.
PATIENCE_S = 1.0
APART_S = 0.2


class LiveLine:
    """Shows lines in one place, each instead of the one before, and the report there at the end.

    Args:
        show: shows a mime bundle; its second argument says whether it takes the place of the last one.
        talks: whether lines are shown before the report; not where each would stay.
        now: the clock, in seconds.
    """

    def __init__(
        self, show: Callable[[Bundle, bool], None], *, talks: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._talks = talks
        self._now = now
        self._start = now()
        self._last = 0.0
        self._shown = False

    def tell(self, words: str) -> None:
        """Show a line, unless the work is young or the last line is new."""
        now = self._now()
        if self._talks and now - self._start >= PATIENCE_S and now - self._last >= APART_S:
            self._last = now
            self._put({"text/plain": words})

    def end(self, bundle: Bundle) -> None:
        """Show the report in the place of the last line."""
        self._put(bundle)

    def _put(self, bundle: Bundle) -> None:
        self._show(bundle, self._shown)
        self._shown = True
