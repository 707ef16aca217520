"""Which cell of the notebook a file name stands for."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

from compile_magic.notebook.plan import BEGIN
from compile_magic.run.sources import cell_by_name


class CellNames:
    """Looks cells up in a shell: by IPython's own record where there is one, else by name or by text."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def cell_of(self, file: str) -> tuple[int, int] | None:
        """Return the execution count of the cell and how many leading empty lines IPython cut off, None for a file."""
        number = self._number(file)
        return None if number is None else (number, self._cut_lines(number))

    def _number(self, file: str) -> int | None:
        by_name = cell_by_name(file)
        if by_name is not None:
            return by_name[0]
        label = getattr(self._shell.compile, "format_code_name", lambda _: None)(file)
        digits = "".join(filter(str.isdigit, label[1])) if label else ""
        return int(digits) if digits else self._number_by_text(file)

    def _number_by_text(self, file: str) -> int | None:
        # IPython 7 doesn't keep which cell a file name belongs to. What a name is made of depends on the front end.
        history = self._shell.history_manager.input_hist_parsed
        lines = _without_empty_end(linecache.getlines(file))
        return next((n for n in range(len(history) - 1, 0, -1) if lines and _same_cell(lines, history[n])), None)

    def _cut_lines(self, number: int) -> int:
        history = self._shell.history_manager.input_hist_raw
        raw = history[number] if number < len(history) else ""
        return next((n for n, text in enumerate(raw.splitlines()) if text.strip()), 0)


def _without_empty_end(lines: Sequence[str]) -> list[str]:
    # The history has a cell without the empty lines at its end.
    return "".join(lines).rstrip("\n").splitlines()


def _same_cell(lines: Sequence[str], ran: str) -> bool:
    # The line of the magic has been replaced for tracebacks.
    theirs = _without_empty_end([ran])
    return len(lines) == len(theirs) and all(a == b or BEGIN in b for a, b in zip(lines, theirs, strict=True))
