"""What changes between two calls, and what is told of the recompile: cause, from, to, words, multiplicity and line."""

from __future__ import annotations

import pytest
from observing import observe
from situations_recompile import TENSOR_SITUATIONS
from situations_recompile_around import AROUND_SITUATIONS
from situations_recompile_code import CODE_SITUATIONS
from situations_recompile_code import MODULE_SITUATIONS
from situations_recompile_python import ARGUMENT_SITUATIONS

SITUATIONS = {
    **TENSOR_SITUATIONS,
    **AROUND_SITUATIONS,
    **ARGUMENT_SITUATIONS,
    **CODE_SITUATIONS,
    **MODULE_SITUATIONS,
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_recompiles_of_a_situation(name):
    """Each recompile is one row with its cause, words and multiplicity; where torch makes none there is no row."""
    situation = SITUATIONS[name]
    report = observe(situation.program)

    assert [(r.cause, r.words, r.count) for r in report.recompiles] == [
        (r.cause, r.words, r.count) for r in situation.rows
    ]
    for again, told in zip(report.recompiles, situation.rows, strict=True):
        assert (told.expected, told.actual) in {(guard.expected, guard.actual) for guard in again.failed}
        assert len(again.failed) >= again.count
    if situation.line:
        assert report.recompiles[0].failed[0].location.code == situation.line


def test_there_are_many_situations():
    """The situations are at least forty, and no name stands for two of them."""
    parts = (TENSOR_SITUATIONS, AROUND_SITUATIONS, ARGUMENT_SITUATIONS, CODE_SITUATIONS, MODULE_SITUATIONS)

    assert len(SITUATIONS) == sum(map(len, parts)) >= 40
