"""Cells that broke the promise once: under a magic, each shows and leaves what it shows and leaves plainly."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import round2
from sessions.play import Left
from sessions.play import differences

CASES = round2.cases()
# torch's compiled code draws other numbers here than eager does.
DRAWN_OTHERWISE = {"pub-numpy-random"}
NEIGHBOURS = {f"{kind}: {name}": case for kind, cases in round2.NEIGHBOURS.items() for name, case in cases.items()}
# A function that torch has inlined has no frame, and the report says so: see test_differences.py.
TORCHS = {"error: an assertion, --cell"}
# torch says once, while it compiles what the user has compiled, that a draw can't be traced: in a run of the bench.
SAID_IN_A_RUN = {"own compile: benched random"}


def _cases(names: Iterable[str]) -> list[Any]:
    marks = {
        **dict.fromkeys(SAID_IN_A_RUN, pytest.mark.xfail(reason="a warning of torch's isn't said again", strict=True)),
        **dict.fromkeys(TORCHS, pytest.mark.xfail(reason="as torch.compile does it", strict=True)),
    }
    return [pytest.param(name, marks=marks.get(name, ())) for name in sorted(names)]


@pytest.mark.parametrize("name", _cases(CASES.keys() - DRAWN_OTHERWISE))
def test_a_reported_cell_is_left_as_it_is(name: str, play: Callable[..., list[Left]]) -> None:
    """Names, error, output, generators, warnings and the process are as after the plain cells."""
    plain, magic = play(CASES[name].session, "plain", "magic")

    assert list(differences(plain, magic)) == []


@pytest.mark.parametrize("name", _cases(NEIGHBOURS))
def test_a_neighbour_of_it_is_left_as_it_is(name: str, play: Callable[..., list[Left]]) -> None:
    """What holds for a reported cell holds for others of its kind."""
    plain, magic = play(NEIGHBOURS[name].session, "plain", "magic")

    assert list(differences(plain, magic)) == []


@pytest.mark.parametrize("name", sorted(DRAWN_OTHERWISE))
def test_what_torch_draws_otherwise_is_said(name: str, play: Callable[..., list[Left]]) -> None:
    """Where compiled code draws other numbers than eager, by torch's own doing, the report says so."""
    case = replace(CASES[name], after=("said = ' '.join(_compile_report.notes)",))
    (magic,) = play(case.session, "magic")

    assert "eager" in magic.names["said"]
