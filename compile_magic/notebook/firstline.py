"""The first line of an explained or measured cell: what the user types, and the call that stands in its place."""

from __future__ import annotations

import ast
from collections.abc import Callable
from collections.abc import Sequence

from compile_magic.notebook import plan as plans

EXPLAIN = "compile_explain"
BENCH = "compile_bench"
MAGICS = (EXPLAIN, BENCH)


def replace_magic_line(lines: Sequence[str], as_cell: Callable[[list[str]], list[str]]) -> list[str]:
    """Replace the magic's line by one call, so that IPython runs the rest of the cell by itself.

    IPython transforms a cell several times, also to complete it: this has no effect but its result.

    Args:
        lines: the cell.
        as_cell: what IPython does with the lines of a cell first of all; it has seen that of the magic, and not those
            below as the beginning of anything.
    """
    number = _first(lines)
    word, _, rest = lines[number].strip().partition(" ") if number < len(lines) else ("", "", "")
    magic = word.removeprefix("%%")
    start = number + 1 + _first(lines[number + 1 :])
    if magic == word or magic not in MAGICS or start == len(lines):
        return list(lines)
    begin = f"{plans.BEGIN}({rest.strip()!r}, {magic!r})\n"
    return [*lines[:number], begin, *lines[number + 1 : start], *as_cell(list(lines[start:]))]


def _first(lines: Sequence[str]) -> int:
    """Return the position of the first line that isn't empty."""
    return next((number for number, text in enumerate(lines) if text.strip()), len(lines))


def begin_line(tree: ast.Module) -> tuple[str, str] | None:
    """Return the name and the line of the magic if the cell starts with the call in its place, else None."""
    first = tree.body[0] if tree.body else None
    call = first.value if isinstance(first, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != plans.BEGIN:
        return None
    given = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return (str(given[1]), str(given[0])) if len(given) == len(call.args) == 2 else None  # noqa: PLR2004 - line, name
