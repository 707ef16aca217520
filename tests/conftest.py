"""Guards around every test: whatever hooks process-wide state must have let go of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest
from notebook import Notebook

# What tests run cells with: the fixtures, and the modules whose functions and classes they use.
_FIXTURES = {"notebook", "kernel", "plain_kernel"}
_HELPERS = {"notebook", "side_by_side", "kernel", "nbclient.client"}
# Minutes of measuring, which is alike in each IPython; test_bench_kernel and test_bench_cases measure in all of them.
# test_bench_proof looks at what a bench puts back, and all but its last tests run their cells without IPython.
_SLOW = {"test_bench", "test_bench_hostile", "test_bench_proof"}


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark the tests that run cells: they are those that an older IPython can fail."""
    for item in items:
        if item.module.__name__ in _SLOW:
            continue
        used = {getattr(value, "__module__", None) for value in vars(item.module).values()}
        if _FIXTURES & set(item.fixturenames) or _HELPERS & used:
            item.add_marker("ipython")


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """No handler of ours stays on torch's trace, and no hook of ours in builtins or warnings."""
    yield
    handlers = [
        h for h in logging.getLogger("torch.__trace").handlers if type(h).__module__.startswith("compile_magic")
    ]
    hooks = [
        name for name in vars(sys.modules["builtins"]) if name in ("__compile_magic_call__", "__compile_magic_rebind__")
    ]

    assert handlers == []
    assert hooks == []
    for name in ("showwarning", "_showwarnmsg"):
        assert not getattr(getattr(sys.modules["warnings"], name), "__module__", "").startswith("compile_magic")


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    """A fresh shell with the extension loaded, and with Dynamo as in a new process."""
    import torch

    torch.compiler.reset()
    shell = Notebook()
    yield shell
    shell.close()
    torch.compiler.reset()


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Dynamo as in a new process, before and after."""
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()
