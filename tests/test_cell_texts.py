"""Which cell a file is, and what a traceback quotes of it, in IPythons that keep no record of their own."""

from __future__ import annotations

import linecache
import sys
import traceback
from types import SimpleNamespace
from types import TracebackType
from typing import Any

import pytest

from compile_magic.notebook.cellnames import CellNames
from compile_magic.notebook.entry_lines import by_entries
from compile_magic.notebook.entry_lines import by_entry
from compile_magic.notebook.plan import BEGIN
from compile_magic.notebook.quoted import quote_instead


@pytest.fixture
def cached(monkeypatch: Any) -> Any:
    """Put the text of a file where Python looks for it; gone after the test."""

    def put(file: str, text: str) -> str:
        monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
        return file

    return put


def _shell(*history: tuple[str, str]) -> Any:
    raw, parsed = zip(("", ""), *history, strict=True)
    kept = SimpleNamespace(input_hist_raw=list(raw), input_hist_parsed=list(parsed))
    return SimpleNamespace(compile=object(), history_manager=kept)


@pytest.mark.parametrize("file", ["/t/ipykernel_7/123.py", "/t/ipython-input-123.py"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_a_cell_is_found_by_its_text(file: str, end: str, cached: Any) -> None:
    """Without a record of the shell's, a file is the last cell with its text, however it is called and ends."""
    cell_of = CellNames(_shell(("x = 1", "x = 1"), ("\n\ny = 2", "y = 2"), ("x = 2", "x = 2"))).cell_of

    assert cell_of(cached(file, f"y = 2{end}")) == (2, 2)
    assert cell_of(cached("/home/me/y.py", "y = 3\n")) is None
    assert cell_of("/home/me/nothing.py") is None


def test_an_explained_cell_is_found_by_its_text(cached: Any) -> None:
    """A cell whose first line tracebacks quote as the user wrote it is the cell with the call in that line."""
    shell = _shell(("%%compile_explain\ny = 2", f"{BEGIN}('')\ny = 2\n"))

    assert CellNames(shell).cell_of(cached("/t/ipykernel_7/123.py", "# %%compile_explain\ny = 2\n")) == (1, 0)


def test_a_quoted_line_is_replaced_wherever_it_is_kept(cached: Any, monkeypatch: Any) -> None:
    """The user's line is quoted also after an IPython has put its own copy of a cell back into Python's cache."""
    file = cached("<ipython-input-1-ab>", "begin()\ny = 2\n")
    monkeypatch.setattr(linecache, "_ipython_cache", {file: linecache.cache[file]}, raising=False)
    quote_instead(file, "begin()", "# %%magic")
    linecache.cache.update(linecache._ipython_cache)

    assert linecache.getlines(file) == ["# %%magic\n", "y = 2\n"]


def test_the_line_of_an_entry_counts_in_an_exception_and_in_its_cause() -> None:
    """Where an entry is on another line than its instruction, that line is printed, and afterwards all is as before."""
    cause, error = _raised_elsewhere(KeyError("k")), _raised_elsewhere(ValueError("v"))
    error.__cause__ = cause
    before = cause.__traceback__, error.__traceback__
    with by_entries(error):
        lines = [traceback.extract_tb(each.__traceback__)[-1].lineno for each in (cause, error)]

    assert lines == [1, 1]
    assert (cause.__traceback__, error.__traceback__) == before
    assert traceback.extract_tb(by_entry(error.__traceback__))[-1].lineno == 1


def _raised_elsewhere(error: Exception) -> Exception:
    try:
        raise error
    except type(error):
        entry = sys.exc_info()[2]
    return error.with_traceback(TracebackType(None, entry.tb_frame, entry.tb_lasti, 1) if entry else None)


def test_an_entry_on_its_own_line_is_kept_as_it_is() -> None:
    """An entry that is where its instruction is keeps the instruction, and with it the marks under the code."""
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 / 0
    entry = raised.value.__traceback__
    kept = by_entry(entry)

    assert kept is not None
    assert entry is not None
    assert (kept.tb_lasti, kept.tb_lineno, kept.tb_frame) == (entry.tb_lasti, entry.tb_lineno, entry.tb_frame)
