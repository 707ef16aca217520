"""Run cells under %%compile_bench in tests, and compare what they leave with a plain run in a twin notebook."""

from __future__ import annotations

from typing import Any

import torch
from notebook import Notebook
from notebook import Ran

from compile_magic.bench_model import BenchReport

# Long enough for a few rounds, short enough for a test.
QUICK = "--budget 0.1"


def bench(notebook: Notebook, source: str, line: str = "") -> BenchReport:
    """Run a cell that has to succeed under %%compile_bench and return the report."""
    notebook.ok(f"%%compile_bench {QUICK} {line}\n{source}")
    report: BenchReport = notebook.get("_compile_report")
    assert isinstance(report, BenchReport)
    return report


def ran(notebook: Notebook, source: str, line: str = "") -> tuple[Ran, BenchReport]:
    """Run a cell under %%compile_bench, whatever comes of it."""
    result = notebook.run(f"%%compile_bench {QUICK} {line}\n{source}")
    return result, notebook.get("_compile_report")


def same_bits(one: Any, other: Any) -> bool:
    """Return whether two values are equal, tensors bit by bit."""
    if isinstance(one, torch.Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and one.detach().contiguous().view(-1).view(torch.uint8).equal(
            other.detach().contiguous().view(-1).view(torch.uint8)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_bits, one, other))
    return bool(one == other)
