"""Cells from people's reports, explained in a shell: the cell is untouched, the report agrees with measurements."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import cases
import pytest
import torch
from cases import Case
from cases import Cell
from cases import Told
from notebook import Notebook


@dataclass(frozen=True)
class Played:
    """A case run plainly in one notebook and explained in another."""

    case: Case
    plain: Told
    explained: Told


@pytest.fixture(scope="module", params=cases.EXPLAINED, ids=lambda case: case.id)
def played(request: pytest.FixtureRequest) -> Played:
    """Each case, run before its first test; the others look at what came of it."""
    case = request.param
    return Played(case, _told(case, explained=False), _told(case, explained=True))


def _told(case: Case, *, explained: bool) -> Told:
    torch.compiler.reset()
    with _logging_put_back():
        notebook = Notebook(load=explained)
        if not explained:
            notebook.ok("pass")
        try:
            return cases.play(case, lambda source: _cell(notebook, source), _looker(notebook), explained=explained)
        finally:
            notebook.close()
            torch.compiler.reset()


def _cell(notebook: Notebook, source: str) -> Cell:
    ran = notebook.run(source)
    return Cell("ok" if ran.error is None else "error", ran.stdout, ran.stderr, ran.displays)


def _looker(notebook: Notebook):
    return lambda expression: json.loads(json.dumps(eval(expression, notebook.shell.user_ns)))  # noqa: S307 - our own


@contextmanager
def _logging_put_back() -> Iterator[None]:
    """The cases are somebody's whole process; here the next one runs in the same."""
    loggers = [logging.getLogger(), logging.getLogger("nbdemo")]
    handlers = [logger.handlers[:] for logger in loggers]
    yield
    for logger, kept in zip(loggers, handlers, strict=True):
        logger.handlers[:] = kept
    torch._logging.set_logs()


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
    stdout, stderr = played.explained.cell.stdout, played.explained.cell.stderr

    assert cases.without_times(played.case.printed) == cases.without_times(stdout)
    assert played.plain.cell.stderr == stderr


def test_the_report_comes_after_what_the_cell_shows(played: Played) -> None:
    """First come the plain cell's displays, then the report, as text and as HTML without colour codes."""
    *shown, report = played.explained.cell.shown

    assert list(played.plain.cell.shown) == shown
    assert {"text/plain", "text/html"} == set(report)
    assert "\x1b" not in report["text/plain"] + report["text/html"]


def test_the_targets_were_compiled(played: Played) -> None:
    """Without being told, the magic compiles the callables that a person would compile."""
    compiled = {target.name for target in played.explained.report.targets if target.how == "compiled"}

    assert played.explained.report.mode == "calls"
    assert set(played.case.targets) <= compiled


def test_the_counts_are_those_of_the_compiler(played: Played) -> None:
    """Graphs, ops, breaks, recompiles and skipped frames are as many as torch was measured to make."""
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


def test_a_hooks_break_belongs_to_the_hook() -> None:
    """A break in a forward hook is the hook's, and the module's forward is still one graph."""
    told = _told(_case("brk-prehook-print"), explained=True)

    assert [found.function for found in told.report.breaks] == ["note"]
    assert [(graph.function, graph.op_count) for graph in told.report.graphs] == [("forward", 3)]


def test_the_users_breaks_come_before_the_librarys() -> None:
    """Breaks on the user's lines come first; those that a library makes on purpose are one entry, marked as its own."""
    told = _told(_case("brk-backward-in-step"), explained=True)

    expected = [(9, "your code", 1), (11, "your code", 1), (12, "library", 2)]
    assert expected == [(found.location.line, found.owner, found.count) for found in told.report.breaks]


def test_the_users_logs_still_arrive_once(notebook: Notebook) -> None:
    """Logs that the user has switched on go on arriving, once each, from explained cells and from own compiles."""
    case = _case("nb-user-logging-untouched")
    with _logging_put_back():
        for source in (*case.setup, *[f"{case.driver}\n{case.cell}"] * 2, *cases.AFTER[case.id]):
            notebook.ok(source)
        # torch keeps the stderr of the cell that switched them on.
        (logs,) = (each.stream for each in logging.getLogger("torch").handlers if type(each) is logging.StreamHandler)

    assert logs.getvalue().count("Recompiling function f") == 3


def _case(name: str) -> Case:
    return next(case for case in cases.EXPLAINED if case.id == name)
