"""Measure whether compiling a callable is worth it, beside the user's caches."""

from __future__ import annotations

import io
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import redirect_stderr
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch

from compile_magic.bench_model import BenchReport
from compile_magic.measure.bench import measure
from compile_magic.measure.settings import Settings
from compile_magic.measure.stage import Surroundings
from compile_magic.measure.state.fingerprint import Looker
from compile_magic.measure.state.unrepeatable import find_unrepeatable
from compile_magic.measure.variants import check as check_variants
from compile_magic.measure.work import FunctionWork
from compile_magic.run.targets import check
from compile_magic.run.targets import name_of


@dataclass(frozen=True)
class Bencher:
    """Measures calls with the given options; `bench` is one with the default options.

    Args:
        modes: modes of torch.compile to measure, such as ("default", "reduce-overhead").
        backends: backends to measure, each in its default mode. With neither, torch.compile as it comes is measured.
        dynamic: as for torch.compile.
        fullgraph: as for torch.compile; a variant with a graph break is then a row with its reason.
        budget_s: seconds of steady state for each variant, eager included.
        calls: the length of a job to answer for, compiling included.
        cold: compile with empty caches, in a directory of their own.
    """

    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dynamic: bool | None = None
    fullgraph: bool = False
    budget_s: float = 3.0
    calls: int | None = None
    cold: bool = False

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> BenchReport:
        """Call `fn(*args, **kwargs)` many times, eager and compiled in turn, and return the report.

        What the calls change in place (arguments, parameters, buffers, gradients, random numbers) is put back: after
        it, all is as before the first call. What they print is not shown.

        Raises:
            TargetError: `fn` is nothing that torch.compile takes.
            ValueError: there is no such mode or backend.
            KeyboardInterrupt: the user has stopped it; everything is put back.
        """
        name = name_of(fn)
        check_variants(self.modes, self.backends)
        work = FunctionWork(check(name, fn), name, args, kwargs)
        extra = {name: fn, "args": args, "kwargs": kwargs}
        problem = find_unrepeatable((), {}, (), extra)
        if problem is not None:
            return BenchReport(error=problem, mode="function", torch_version=torch.__version__)
        around = Surroundings(Looker({}, frozenset(), extra), silenced=_silenced)
        report = measure(work, self._settings(), around, mode="function").report
        if report.interrupted:
            raise KeyboardInterrupt
        return report

    def _settings(self) -> Settings:
        return Settings(
            modes=tuple(self.modes),
            backends=tuple(self.backends),
            dynamic=self.dynamic,
            fullgraph=self.fullgraph,
            budget_s=self.budget_s,
            runs=self.calls,
            cold=self.cold,
        )


@contextmanager
def _silenced() -> Iterator[None]:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


bench = Bencher()
