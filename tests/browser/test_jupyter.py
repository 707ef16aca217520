"""Every magic in JupyterLab and in Notebook 7: all of it is there, can be read and can be unfolded in every view."""

from __future__ import annotations

from pathlib import Path

import pytest
from expected import bare
from expected import load
from expected import table_rows
from expected import unfolded_words
from magics_shown import SHOWN
from magics_shown import Shown
from opened import Opened
from opened import looks

pytestmark = pytest.mark.browser
each_magic = pytest.mark.parametrize("shown", SHOWN, ids=[shown.name for shown in SHOWN])


@each_magic
def test_what_matters_is_shown(view: Opened, shown: Shown) -> None:
    """The answer, the alarms and the advice are in sight, and each marked line stands beside its number."""
    found = view.looks(SHOWN.index(shown))
    seen = bare(found.words)

    assert [words for words in shown.promised if bare(words) not in seen] == []
    for number, code in shown.marked:
        assert [str(number), "✗", code] in [[cell.strip() for cell in row] for row in found.rows]


@each_magic
def test_every_word_is_shown(view: Opened, run: Path, shown: Shown) -> None:
    """Every word of the report that isn't folded is in sight."""
    seen = bare(view.looks(SHOWN.index(shown)).words)

    assert [word for word in unfolded_words(load(shown, run)) if bare(word) not in seen] == []


@each_magic
def test_every_cell_of_a_table_is_shown(view: Opened, run: Path, shown: Shown) -> None:
    """Each row of each table is in sight, cell by cell; the last cell may have advice below it."""
    seen = [[bare(cell) for cell in row] for row in view.looks(SHOWN.index(shown)).rows]

    for *short, last in table_rows(load(shown, run)):
        alike = [row for row in seen if row[:-1] == [bare(cell) for cell in short]]
        assert any(row[-1].startswith(bare(last)) for row in alike), (short, last)


@each_magic
def test_nothing_is_hard_to_read(view: Opened, shown: Shown) -> None:
    """No text is clipped, too small, too pale or broken within a word, and nothing scrolls sideways."""
    assert view.looks(SHOWN.index(shown)).wrong == []


@each_magic
def test_nothing_reaches_beyond_its_cell(view: Opened, shown: Shown) -> None:
    """No element has an id, and there is no script, frame or drawing."""
    assert view.looks(SHOWN.index(shown)).odd == []


@each_magic
def test_what_is_folded_opens_by_keyboard(view: Opened, shown: Shown) -> None:
    """Enter on a folded part opens it, what was in it can be read, and Enter folds it again."""
    folded = view.reports.nth(SHOWN.index(shown)).locator("details")
    for one in folded.all():
        summary = one.locator("summary")
        summary.focus()
        summary.press("Enter")
        assert one.evaluate("one => one.open")
        assert looks(one).wrong == []
        summary.press("Enter")
        assert not one.evaluate("one => one.open")
