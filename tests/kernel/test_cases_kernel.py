"""Cells from people's reports, explained in a real kernel: what a notebook gets, and what it is left with."""

from __future__ import annotations

import re
from dataclasses import dataclass

import cases
import pytest
from cases import Case
from cases import Cell
from cases import Told
from kernel import Kernel
from kernel import running

pytestmark = pytest.mark.kernel


@dataclass(frozen=True)
class Played:
    """A case run plainly in one kernel and explained in another; `after` are cells that were run after it."""

    case: Case
    plain: Told
    explained: Told
    after: tuple[Cell, ...]


@pytest.fixture(scope="module", params=cases.EXPLAINED, ids=lambda case: case.id)
def played(request: pytest.FixtureRequest, plain_kernel: Kernel) -> Played:
    """Each case, explained in a new kernel before its first test; the others look at what came of it."""
    case = request.param
    with running() as kernel:
        plain_kernel.clear()
        plain_kernel.ok("pass")
        plain = _told(plain_kernel, case, explained=False)
        kernel.ok("%load_ext compile_magic")
        explained = _told(kernel, case, explained=True)
        after = tuple(_cell(kernel, source) for source in cases.AFTER.get(case.id, ()))
    return Played(case, plain, explained, after)


def _told(kernel: Kernel, case: Case, *, explained: bool) -> Told:
    return cases.play(case, lambda source: _cell(kernel, source), kernel.get, explained=explained)


def _cell(kernel: Kernel, source: str) -> Cell:
    ran = kernel.run(source)
    return Cell(ran.status, ran.stdout, ran.stderr, ran.outputs, ran.messages)


def test_the_variables_are_those_of_eager(played: Played) -> None:
    """After an explained cell every variable has the value that the cell has without torch.compile."""
    assert played.case.values == played.explained.values


def test_the_notebook_is_left_as_by_the_plain_cell(played: Played) -> None:
    """The names in the notebook, `Out` and `_` are those that the plain cell leaves."""
    assert played.plain.notebook == played.explained.notebook


def test_the_cell_ends_as_the_plain_one(played: Played) -> None:
    """An explained cell succeeds where the plain cell does."""
    assert (played.plain.cell.status, "ok") == (played.explained.cell.status, "ok")


def test_the_cell_prints_what_the_plain_one_prints(played: Played) -> None:
    """What a cell prints is printed once and as it is, and the tool adds nothing to stdout or stderr."""
    theirs = [line for line in played.explained.cell.stderr.splitlines(keepends=True) if "[__recompiles]" not in line]

    assert cases.without_times(played.case.printed) == cases.without_times(played.explained.cell.stdout)
    assert played.plain.cell.stderr == "".join(theirs)


def test_the_report_comes_after_what_the_cell_shows(played: Played) -> None:
    """First comes all output of the plain cell, then the report, as text and as HTML without colour codes."""
    *shown, report = played.explained.cell.shown
    logged = ("stream",) if played.case.id == "nb-user-logging-untouched" else ()

    assert list(played.plain.cell.shown) == shown
    assert (*played.plain.cell.kinds, *logged, "display_data") == played.explained.cell.kinds
    assert {"text/plain", "text/html"} == set(report)
    assert "\x1b" not in report["text/plain"] + report["text/html"]


def test_the_targets_were_compiled(played: Played) -> None:
    """Without being told, the magic compiles the callables that a person would compile."""
    compiled = {target.name for target in played.explained.report.targets if target.how == "compiled"}

    assert played.explained.report.mode == "calls"
    assert set(played.case.targets) <= compiled


def test_the_counts_are_those_of_the_compiler(played: Played) -> None:
    """Graphs, ops, breaks, recompiles and skipped frames are as many as in a shell: a kernel's frames don't count."""
    assert cases.expected_figures(played.case) == cases.figures(played.explained.report)


def test_each_break_is_on_the_users_line(played: Played) -> None:
    """A break is shown on the user's own line, and the frame inside a library that caused it is kept in its stack."""
    assert cases.expected_places(played.case) == cases.places(played.explained.report)


def test_functions_left_in_eager_are_named(played: Played) -> None:
    """A function that ran wholly in eager is in the report by its name, and no other is."""
    assert cases.expected_skips(played.case) == [frame.function for frame in played.explained.report.skipped_frames]


def test_recompiles_have_their_cause(played: Played) -> None:
    """Each recompile is put down to what changed."""
    causes = [each.cause for each in played.explained.report.recompiles for _ in range(each.count)]

    assert cases.CAUSES.get(played.case.id, []) == causes


def test_every_record_was_read(played: Played) -> None:
    """No record of torch's trace is left unread."""
    assert played.explained.report.unread == ()


def test_the_report_says_it_in_words(played: Played) -> None:
    """The text says what a person wants to know of the case, and nothing that would lead astray."""
    text = played.explained.text
    wrong = [*cases.NEVER, cases.NOT_WORDS.get(played.case.id, r"(?!)")]

    assert re.search(cases.WORDS[played.case.id], text), text
    assert [pattern for pattern in wrong if re.search(pattern, text)] == []


def test_the_process_is_left_as_it_was(played: Played) -> None:
    """What a case compares of the process before and after the cell is equal."""
    assert played.explained.true_after


def test_the_users_logs_still_arrive_once(played: Played) -> None:
    """Logs that the user has switched on go on arriving, once each, from explained cells and from own compiles."""
    expected = [1, 1] if played.case.id == "nb-user-logging-untouched" else [0]

    assert expected == [cell.stderr.count("Recompiling function") for cell in (played.explained.cell, *played.after)]
