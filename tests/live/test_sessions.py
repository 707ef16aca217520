"""Random sessions: whatever a notebook is made of, a magic shows and leaves what the plain cells show and leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sessions.grammar import Statement
from sessions.grammar import session
from sessions.play import Left
from sessions.play import differences
from sessions.run import shown
from sessions.run import tried

# As many as take some 40 seconds on two cores; `python tests/sessions/run.py` plays thousands.
SEEDS = [("explained", range(40)), ("watched", range(12)), ("benched", range(8))]


@pytest.mark.parametrize(
    ("driver", "seed"),
    [(driver, seed) for driver, seeds in SEEDS for seed in seeds],
)
def test_a_session_is_left_as_it_is(driver: str, seed: int, play: Callable[..., list[Left]]) -> None:
    """Names, errors, output, generators, warnings, marks and the process are as after the plain cells."""
    found = tried(play, session(seed, driver), seed)

    assert found.ours == (), shown(found)


BREAKS = {
    "names": "get_ipython().user_ns['x'] = x + 1",
    "stdout": "print('more')",
    "stderr": "import sys; print('more', file=sys.stderr)",
    "generators": "import random; random.random()",
    "process": "import os; os.environ['MORE'] = '1'",
    "exchanged": "torch.nn.functional.relu = torch.nn.functional.gelu",
    "marks": "x._dynamo_static_input_type = 1",
    "error": "raise ValueError('more')",
    "shown": "from IPython.display import display; display(1)",
}


@pytest.mark.parametrize("aspect", BREAKS)
def test_a_difference_is_seen(aspect: str, play: Callable[..., list[Left]]) -> None:
    """The comparison can fail: what a broken magic would do to a cell is found in its aspect."""
    whole = session(1, "watched", ["function"])
    last = replace(whole.cells[-1], statements=(*whole.cells[-1].statements, Statement("broken", BREAKS[aspect])))
    (plain,) = play(whole, "plain")
    (broken,) = play(replace(whole, cells=(*whole.cells[:-1], last)), "plain")

    assert aspect in {each.aspect for each in differences(plain, broken)}
