"""A warm process for cells that are run plainly and under a magic."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest
from sessions.play import on_stage

if TYPE_CHECKING:
    from sessions.grammar import Session
    from sessions.play import Left


# Many benches, with twenty collections of garbage each, or a look at all that lives. Their functions are made in the
# test: one that is older is not found by its code, as what the user has compiled has to be.
_YOUNG = {
    "test_bench_alone",
    "test_bench_hostile",
    "test_bench_limits",
    "test_bench_proof",
    "test_bench_results",
    "test_bench_unrepeatable",
    "test_objects",
    "test_orders",
}


@pytest.fixture(autouse=True)
def _older_is_passed_over(request: pytest.FixtureRequest) -> Iterator[None]:
    """Garbage is collected among what a test of these has made itself, and not in all of torch."""
    if request.module.__name__ in _YOUNG:
        gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def play() -> Iterator[Callable[..., list[Left]]]:
    """Plays a session as often as asked, each time in a fork of one warm process, which no other test has been in."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def played(session: Session, *hows: str, press: float = 0.0) -> list[Left]:
            return pool.submit(on_stage, session, *hows, press=press).result()

        yield played
