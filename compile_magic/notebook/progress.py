"""One line about what is going on, which becomes the report: only for work that takes more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Bundle = dict[str, str]

# Seconds until the first line is shown, and between two.
PATIENCE_S = 1.0
APART_S = 0.2


class Place:
    """Shows mime bundles in one place: a display that is updated, or the last line of a terminal.

    Args:
        display: IPython's function of that name.
        on_terminal: whether the output goes to a terminal.
    """

    def __init__(self, display: Callable[..., Any], on_terminal: bool) -> None:  # noqa: FBT001 - the only one
        self._display = display
        self._on_terminal = on_terminal
        self._handle: Any = None

    def __call__(self, bundle: Bundle, again: bool) -> None:  # noqa: FBT001 - as LiveLine calls it
        """Show a bundle, in the place of the last one if there was one."""
        if self._on_terminal:
            self._write(bundle["text/plain"], again=again)
        elif self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _write(self, text: str, *, again: bool) -> None:
        # A line without an end is written over by the next one.
        start = "\r\033[K" if again else ""
        sys.stdout.write(f"{start}{text}\n" if "\n" in text else f"\r\033[K{text}")
        sys.stdout.flush()


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
