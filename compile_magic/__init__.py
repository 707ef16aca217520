"""See what torch.compile does to your cell: `%load_ext compile_magic`, then `%%compile_explain` or `%%compile_bench`.

Loading the extension doesn't import torch: everything else is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from compile_magic.bench_model import BenchReport
    from compile_magic.benching import Bencher
    from compile_magic.benching import bench
    from compile_magic.errors import CompileBudgetExceeded
    from compile_magic.explainer import Explainer
    from compile_magic.explainer import explain
    from compile_magic.model import ExplainReport
    from compile_magic.watch_model import WatchReport
    from compile_magic.watching import watch

__version__ = "0.1.0"

__all__ = [
    "BenchReport",
    "Bencher",
    "CompileBudgetExceeded",
    "ExplainReport",
    "Explainer",
    "WatchReport",
    "bench",
    "explain",
    "watch",
]

_HOMES = {
    "BenchReport": "bench_model",
    "Bencher": "benching",
    "bench": "benching",
    "CompileBudgetExceeded": "errors",
    "ExplainReport": "model",
    "WatchReport": "watch_model",
    "Explainer": "explainer",
    "explain": "explainer",
    "watch": "watching",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*(name for name in globals() if name.startswith("__")), *__all__))


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with an IPython shell. Called by `%load_ext compile_magic`."""
    from compile_magic import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics, hooks and events off again. Called by `%unload_ext compile_magic`."""
    from compile_magic import magics

    magics.unload(shell)
