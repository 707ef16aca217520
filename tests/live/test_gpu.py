"""On a GPU: run by hand (`pytest -m gpu`), since CI has none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compile_magic import Explainer
from compile_magic import explain
from compile_magic import watch

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("fresh_dynamo")]


def chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = torch.nn.functional.gelu(x * 1.01 + 0.01)
    return x


def branchy(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def test_graphs_and_breaks_are_counted_on_a_gpu() -> None:
    """A function on CUDA tensors has the graphs, breaks and values that it has on the CPU."""
    x = torch.ones(8, device="cuda")

    assert (explain(chain, x).graph_count, explain(chain, x).op_count) == (1, 9)
    assert (explain(branchy, x).graph_count, explain(branchy, x).graph_break_count) == (2, 1)


def test_inductor_compiles_beside_the_users_caches() -> None:
    """Explained with Inductor on a GPU, a function leaves the random state of the device as it was."""
    x = torch.randn(256, device="cuda")
    state = torch.cuda.get_rng_state()
    report = Explainer(backend="inductor")(chain, x)

    assert (report.graph_count, report.failures, report.unread) == (1, (), ())
    assert report.phases["inductor"] > 0
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_a_change_of_device_is_named() -> None:
    """A recompile because the argument moved to another device says from which to which."""

    def swept(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [compiled(x) for x in tensors]

    compiled: Any = torch.compile(lambda x: x + 1, backend="eager")
    with watch() as log:
        swept([torch.ones(3), torch.ones(3, device="cuda")])
    (again,) = log.cells[0].recompiles

    assert again.cause == "device"
    assert "cpu" in again.words
    assert "cuda" in again.words
