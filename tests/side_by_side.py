"""The same cells run plainly in one notebook and explained in another, and what each is left with."""

from __future__ import annotations

import builtins
import logging
import random
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.symbolic_convert
from notebook import Notebook

from compile_magic.errors import words_of

FIRST = """import torch
from torch import nn
x = torch.ones(3)

def f(x):
    return x.sin() + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()

net = Net()
"""

_IPYTHONS = {"In", "Out", "exit", "quit", "get_ipython", "open", "__warningregistry__", "_exit_code", "_compile_report"}
_HISTORY = re.compile(r"_+(i*|i?\d+|dh|ih|oh)")
_MADE_BY_DYNAMO = re.compile(r"__(compiled_fn|builtins_dict|resume_at|import)_\w+")


@dataclass(frozen=True)
class Left:
    """What cells showed and left: (value, error, stdout, stderr) of each, and the notebook and process after them."""

    cells: tuple[tuple[Any, ...], ...]
    variables: dict[str, Any]
    compiled_names: int
    history: tuple[Any, ...]
    process: dict[str, Any]


def both(
    *cells: str, setup: str = "", line: str | Sequence[str] = "-q", then: str = "", magic: str = "compile_explain"
) -> tuple[Left, Left, Any]:
    """Return what the cells leave when they are plain, what they leave under the magic, and the last report.

    `line` stands on the magic's line of each cell, or is one for each. `then` is a plain cell after them in both
    notebooks.
    """
    lines = [line] * len(cells) if isinstance(line, str) else line
    sources = [f"%%{magic} {options}\n{cell}" for options, cell in zip(lines, cells, strict=True)]
    plain, _ = _played([f"# {source}" for source in sources], setup, then, explained=False)
    explained, report = _played(sources, setup, then, explained=True)
    return plain, explained, report


def _played(sources: list[str], setup: str, then: str, *, explained: bool) -> tuple[Left, Any]:
    torch.compiler.reset()
    _forget_other_notebooks()
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        book = Notebook(load=False)
        try:
            book.ok("%load_ext compile_magic" if explained else "pass")
            book.ok(FIRST + setup)
            ran = tuple(_shown(book, source) for source in (*sources, *filter(None, [then])))
            return _left(book, ran), book.shell.user_ns.get("_compile_report")
        finally:
            book.close()
            torch.compiler.reset()


def _forget_other_notebooks() -> None:
    """Let caches forget a notebook that is gone: torch's of `__main__`, and IPython's.

    IPython's tracebacks take equal code at the same address for the same code.
    """
    torch._dynamo.symbolic_convert._import_module.cache_clear()
    # IPython 7 has no stack_data, and reads the lines anew each time.
    stack_data = sys.modules.get("stack_data")
    if stack_data is not None:
        stack_data.Source._class_local("__executing_cache", {}).clear()


def _shown(book: Notebook, source: str) -> tuple[Any, ...]:
    ran = book.run(source)
    error = None if ran.error is None else (type(ran.error).__name__, _same_text(words_of(ran.error)))
    return described(ran.value), error, _same_text(ran.stdout), _same_text(ran.stderr)


def _same_text(text: str) -> str:
    """The hash in a cell's file name is that of its text, whose first line differs; addresses differ anyway."""
    return re.sub(r"\b0x[0-9a-f]+\b", "0x", re.sub(r"(<ipython-input-\d+)-\w+", r"\1", text))


def _left(book: Notebook, ran: tuple[tuple[Any, ...], ...]) -> Left:
    names = book.shell.user_ns
    own = {name for name in names if name not in _IPYTHONS and not _HISTORY.fullmatch(name)}
    compiled = {name for name in own if _MADE_BY_DYNAMO.fullmatch(name)}
    out = {number: described(value) for number, value in names["Out"].items()}
    return Left(
        cells=ran,
        variables={name: described(names[name]) for name in own - compiled},
        compiled_names=len(compiled),
        history=(out, described(names.get("_")), book.shell.execution_count),
        process=_process(book),
    )


def _process(book: Notebook) -> dict[str, Any]:
    return {
        "rng": torch.get_rng_state().tolist(),
        "grad": torch.is_grad_enabled(),
        "config": torch._dynamo.config.save_config(),
        "showwarning": getattr(warnings.showwarning, "__module__", None),
        "filters": [len(handler.filters) for handler in logging.getLogger("torch").handlers],
        "stdout": sys.stdout is sys.__stdout__,
        "builtins": [name for name in vars(builtins) if "compile_magic" in name and "begin" not in name],
        "handler": book.shell.custom_exceptions,
    }


def described(value: Any) -> Any:
    """Return a value that can be compared across notebooks."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), str(value.dtype), value.requires_grad, type(value.grad_fn).__name__, sorted(vars(value))
    if isinstance(value, torch.nn.Module):
        return type(value).__name__, [described(p) for p in value.parameters()], sorted(vars(value))
    if isinstance(value, (list, tuple, set)):
        return type(value).__name__, [described(item) for item in value]
    if isinstance(value, dict):
        return {str(key): described(item) for key, item in value.items() if key != "__builtins__"}
    if isinstance(value, (int, float, str, type(None))):
        return _same_text(value) if isinstance(value, str) else value
    return type(value).__name__, getattr(value, "__qualname__", ""), getattr(value, "__name__", "")
