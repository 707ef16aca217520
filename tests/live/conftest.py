"""A warm process for cells that are run plainly and under a magic."""

from __future__ import annotations

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


@pytest.fixture(scope="session")
def play() -> Iterator[Callable[..., list[Left]]]:
    """Plays a session as often as asked, each time in a fork of one warm process, which no other test has been in."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def played(session: Session, *hows: str, press: float = 0.0) -> list[Left]:
            return pool.submit(on_stage, session, *hows, press=press).result()

        yield played
