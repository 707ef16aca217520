"""The line about what is going on: shown only for long work, in one place, which the report takes over."""

from __future__ import annotations

from typing import Any

import pytest

from compile_magic.notebook.progress import LiveLine
from compile_magic.notebook.progress import Place


class Shown:
    """Notes what is shown, with a clock that the test sets."""

    def __init__(self) -> None:
        self.time = 0.0
        self.lines: list[tuple[str, bool]] = []

    def __call__(self, bundle: dict[str, str], again: bool) -> None:
        """Note it."""
        self.lines.append((bundle["text/plain"], again))

    def now(self) -> float:
        """Return the time."""
        return self.time


def test_short_work_shows_only_its_report() -> None:
    """Work of less than a second shows no line, and its report is a display of its own."""
    shown = Shown()
    line = LiveLine(shown, talks=True, now=shown.now)
    for shown.time in (0.1, 0.5, 0.99):
        line.tell("working")
    line.end({"text/plain": "the report"})

    assert shown.lines == [("the report", False)]


def test_long_work_says_what_goes_on_a_few_times_a_second() -> None:
    """From the first second on, lines take the place of one another, at most five a second, and then the report."""
    shown = Shown()
    line = LiveLine(shown, talks=True, now=shown.now)
    for tenth in range(10, 20):
        shown.time = tenth / 10
        line.tell(f"at {tenth}")
    line.end({"text/plain": "the report"})

    *lines, last = shown.lines
    assert last == ("the report", True)
    assert lines[0] == ("at 10", False)
    assert 4 <= len(lines) <= 5
    assert all(again for _, again in lines[1:])


def test_where_lines_would_stay_none_is_shown() -> None:
    """Without a front end that replaces them, only the report is shown."""
    shown = Shown()
    line = LiveLine(shown, talks=False, now=shown.now)
    shown.time = 5.0
    line.tell("working")
    line.end({"text/plain": "the report"})

    assert shown.lines == [("the report", False)]


def test_on_a_terminal_the_report_wipes_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal's line is written over, and nothing of it is left before the report."""
    place = Place(lambda *_, **__: None, True)
    place({"text/plain": "working"}, False)
    place({"text/plain": "the report\nof two lines"}, True)

    screen = capsys.readouterr().out
    assert screen == "\r\033[Kworking\r\033[Kthe report\nof two lines\n"


def test_a_display_is_made_once_and_then_updated() -> None:
    """A front end gets one display, and updates of it."""
    calls: list[tuple[str, Any]] = []

    class Handle:
        def update(self, bundle: dict[str, str], *, raw: bool) -> None:
            calls.append(("update", bundle["text/plain"]))

    def display(bundle: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        calls.append(("display", bundle["text/plain"]))
        return Handle()

    place = Place(display, False)
    for words, again in (("one", False), ("two", True), ("three", True)):
        place({"text/plain": words}, again)

    assert calls == [("display", "one"), ("update", "two"), ("update", "three")]
