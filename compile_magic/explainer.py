"""Run callables under torch.compile beside the user's caches, and say what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compile_magic.errors import said
from compile_magic.model import ExplainReport
from compile_magic.read.parse import parse
from compile_magic.run.run import Options
from compile_magic.run.run import Run
from compile_magic.run.sources import collect
from compile_magic.run.targets import check
from compile_magic.run.targets import name_of


@dataclass(frozen=True)
class Explainer:
    """Explains calls with the given options; `explain` is one with the default options.

    Args:
        backend: what the graphs are handed to: "eager", "aot_eager", "inductor" or any registered name.
        dynamic: as for torch.compile; None lets sizes that change become dynamic.
        fullgraph: as for torch.compile; a graph break is then a failure.
        fresh: explain the original of a callable that is compiled already, with no memory of dynamic shapes.
    """

    backend: str = "eager"
    dynamic: bool | None = None
    fullgraph: bool = False
    fresh: bool = False

    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ExplainReport:
        """Call `fn(*args, **kwargs)` once as torch.compile would run it, and return the report.

        An exception of `fn` doesn't get lost: its type and message are the report's `error`. The user's compiled
        functions, their recompile limits and the memory of dynamic shapes stay as they are.

        Raises:
            TargetError: `fn` is nothing that torch.compile takes.
            ValueError: there is no such backend.
        """
        name = name_of(fn)
        run = Run(Options(self.backend, self.dynamic, fullgraph=self.fullgraph, fresh=self.fresh), mode="calls")
        error = _call(run, check(name, fn), name, args, kwargs)
        records = run.finish()
        return parse(run.capture(collect(records), error=error))


def _call(run: Run, fn: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    run.start()
    try:
        run.intercept(fn, name)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the report carries it
        return said(error)
    except BaseException:
        run.finish()
        raise
    return None


explain = Explainer()
