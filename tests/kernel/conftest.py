"""Kernels for tests: a new process each, so that nothing is left of the test before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel import Kernel
from kernel import running


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A new kernel with the extension loaded by its first cell."""
    with running() as started:
        started.ok("%load_ext compile_magic")
        yield started


@pytest.fixture(scope="module")
def plain_kernel() -> Iterator[Kernel]:
    """One kernel for all plain cells of a module, which never loads the extension. `clear` it before use."""
    with running() as started:
        yield started
