"""Which cell of the notebook a file name stands for."""

from __future__ import annotations

from typing import Any

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
        # IPython 7 doesn't keep which cell a file name belongs to, but ipykernel's names depend on the text alone.
        history = self._shell.history_manager.input_hist_raw
        name_of = getattr(self._shell.compile, "get_code_name", None)
        if name_of is None or "ipykernel" not in file:
            return None
        return next((n for n in range(len(history) - 1, 0, -1) if name_of(history[n], history[n], n) == file), None)

    def _cut_lines(self, number: int) -> int:
        history = self._shell.history_manager.input_hist_raw
        raw = history[number] if number < len(history) else ""
        return next((n for n, text in enumerate(raw.splitlines()) if text.strip()), 0)
