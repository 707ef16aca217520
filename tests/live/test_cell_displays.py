"""What a cell displays, and what it leaves in Out, `_` and `__annotations__`, under each setting of the shell."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from notebook import Notebook
from side_by_side import FIRST
from side_by_side import described

INTERACTIVITY = ("all", "last", "last_expr", "none", "last_expr_or_assign")
CELLS = (
    "x * 2\n1 + 1\ny = x + 1\ny.sum();\n'last'",
    "n: int = 3\ny = f(x) * n\ny\nm: 'str'",
    "for i in range(2):\n    i * 10\n    x",
    "if x.sum() > 99:\n    x\nelse:\n    y = f(x)\n    y\n    k: list[int] = [1]\nf = f",
    "y = x + 1\ny += 1",
    "'doc'\nNone\n(f := f)",
    "1 + 1\ny = x + 1\ny;",
    "x + 1\nraise ValueError('no')",
)


@functools.cache
def _plain(interactivity: str) -> list[Any]:
    return _left(interactivity, lambda cell: f"# first\n{cell}", load=False)


def _left(interactivity: str, wrap: Any, *, load: bool, cells: Sequence[str] = CELLS) -> list[Any]:
    torch.compiler.reset()
    book = Notebook(load=False)
    found: list[Any] = []
    try:
        book.ok("%load_ext compile_magic" if load else "pass")
        book.ok(FIRST)
        book.shell.ast_node_interactivity = interactivity
        for cell in cells:
            ran = book.run(wrap(cell))
            names = book.shell.user_ns
            out = {number: described(value) for number, value in names["Out"].items()}
            shown = ran.stdout if ran.error is None else ""
            notes = described(dict(names.get("__annotations__", {"missing": 1})))
            found.append((cell, type(ran.error), shown, described(ran.value), out, described(names.get("_")), notes))
    finally:
        if load:
            book.close()
        torch.compiler.reset()
    return found


@pytest.mark.parametrize(
    ("line", "interactivity"),
    [
        *(("-q", each) for each in INTERACTIVITY),
        *(("-q --cell", each) for each in ("all", "none", "last_expr_or_assign")),
        ("-q f f", "last_expr_or_assign"),
    ],
)
def test_displays_are_those_of_a_plain_cell(line: str, interactivity: str) -> None:
    """Displays, the result, Out, `_` and annotations are a plain cell's in each mode and setting."""
    typed = _left(interactivity, lambda cell: f"%%compile_explain {line}\n{cell}", load=True)

    for one, same in zip(_plain(interactivity), typed, strict=True):
        assert same == one


@pytest.mark.parametrize(
    ("line", "interactivity"), [("-q", "all"), ("-q --cell", "last"), ("-q --cell", "last_expr_or_assign")]
)
def test_displays_of_a_called_magic_are_those_of_a_plain_cell(line: str, interactivity: str) -> None:
    """A cell that is handed to the magic as a text displays and leaves what it does as a plain cell."""
    wrap = "get_ipython().run_cell_magic('compile_explain', {!r}, {!r})".format
    called = _left(interactivity, lambda cell: wrap(line, cell), load=True)

    for one, same in zip(_plain(interactivity), called, strict=True):
        assert same == one


@pytest.mark.parametrize(("first", "interactivity"), [("%%compile_bench", "all"), ("called", "last_expr_or_assign")])
def test_displays_of_a_benched_cell_are_those_of_a_plain_one(first: str, interactivity: str) -> None:
    """A benched cell shows what it displays once, whether it is typed or called."""
    line = "-q --budget 0.01 --backends eager"

    def wrap(cell: str) -> str:
        called = f"get_ipython().run_cell_magic('compile_bench', {line!r}, {cell!r})"
        return called if first == "called" else f"{first} {line}\n{cell}"

    few = CELLS[:2]

    assert _left(interactivity, wrap, load=True, cells=few) == _plain(interactivity)[:2]
