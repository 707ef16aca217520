"""A frame that stands for a function of which Dynamo has made several.

After a graph break the rest of a function runs in a frame of its own, and a traceback is to show the function once, on
the line where it failed. And Dynamo puts objects into the constants of the code that it makes, also dicts: IPython
looks up what it knows of a code object by its hash, and instead of a traceback shows the text of its own crash.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from collections.abc import Sequence
from types import CodeType
from types import FrameType
from types import FunctionType
from types import TracebackType
from typing import Any

# How the names of variables begin that Dynamo adds.
_DYNAMOS = ("___", "tmp_", "graph_out_", "__nested_")

_VALUES, _RAISED = "values of the frame", "what is raised"


class _Raised(Exception):  # noqa: N818 - it is no error: it ends at a frame with a place in it
    """Leaves the frame that stands in, and is caught."""


class _Values:
    """The values of a frame's names; unlike a dict it can be hashed."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)


def is_hashable(code: CodeType) -> bool:
    """Return whether others can look a code object up in a dict."""
    try:
        hash(code)
    except TypeError:
        return False
    return True


def stand_in(entries: Sequence[TracebackType], line: int) -> TracebackType:
    """Return an entry on `line` whose frame has the name, place and arguments of the first one's, and code with a hash.

    Its variables are those of all, and the part of the line that it marks is that of the last.
    """
    values: dict[str, Any] = {}
    for entry in entries:
        values.update(entry.tb_frame.f_locals)
    function, arguments, by_name = _function(entries[0].tb_frame, values, _place(entries[-1], line))
    try:
        function(*arguments, **by_name)
    except _Raised as raised:
        found = raised.__traceback__
        # The code of the frame holds it, and it would hold the frame.
        raised.__traceback__ = None
        return found.tb_next if found is not None and found.tb_next is not None else entries[0]
    return entries[0]


def _place(entry: TracebackType, line: int) -> dict[str, int]:
    code: Any = entry.tb_frame.f_code
    positions = list(code.co_positions()) if hasattr(code, "co_positions") else []
    names = ("lineno", "end_lineno", "col_offset", "end_col_offset")
    found = dict(zip(names, positions[entry.tb_lasti // 2] if positions else (), strict=False))
    if found.get("lineno") != line or None in found.values():
        return {"lineno": line, "end_lineno": line, "col_offset": -1, "end_col_offset": -1}
    return found


def _function(
    frame: FrameType, values: dict[str, Any], place: dict[str, int]
) -> tuple[FunctionType, list[Any], dict[str, Any]]:
    code = frame.f_code
    parts = inspect.getargs(code)
    star = [parts.varargs] if parts.varargs else []
    stars = [parts.varkw] if parts.varkw else []
    # `inspect.getargs` has the names that can only be given by name after the others.
    given = parts.args[: len(parts.args) - code.co_kwonlyargcount]
    named = parts.args[len(given) :]
    other = [name for name in values if name not in {*parts.args, *star, *stars} and _is_users(name)]
    gone = [name for name in (*parts.args, *star, *stars) if name not in values]
    body: list[ast.stmt] = [_assignment(other)] if other else []
    body += [ast.Delete([ast.Name(name, ast.Del()) for name in gone])] if gone else []
    body.append(ast.Raise(ast.Constant(_RAISED)))
    tree = ast.parse(f"def stand_in({_parameters(given, star, named, stars)}): pass")
    vars(tree.body[0])["body"] = body
    made = _code_in(compile(_at(tree, code.co_firstlineno, place), code.co_filename, "exec"))
    swapped = {_VALUES: _Values([values[name] for name in other]), _RAISED: _Raised()}
    consts = tuple(swapped.get(one, one) if isinstance(one, str) else one for one in made.co_consts)
    changed: dict[str, Any] = {"co_name": code.co_name, "co_consts": consts}
    changed.update({"co_qualname": code.co_qualname} if hasattr(code, "co_qualname") else {})
    function = FunctionType(made.replace(**changed), frame.f_globals)
    packed = list(values.get(star[0], ())) if star else []
    by_name = {name: values.get(name) for name in named} | (dict(values.get(stars[0], {})) if stars else {})
    return function, [*(values.get(name) for name in given), *packed], by_name


def _is_users(name: str) -> bool:
    return name.isidentifier() and not name.startswith(_DYNAMOS)


def _parameters(given: list[str], star: list[str], named: list[str], stars: list[str]) -> str:
    between = [f"*{name}" for name in star] or ["*"] * bool(named)
    return ", ".join([*given, *between, *named, *(f"**{name}" for name in stars)])


def _assignment(names: list[str]) -> ast.stmt:
    return ast.Assign([ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())], ast.Constant(_VALUES))


def _at(tree: ast.Module, first: int, place: dict[str, int]) -> ast.Module:
    for node in ast.walk(tree):
        vars(node).update(place)
    vars(tree.body[0])["lineno"] = min(first, place["lineno"])
    return tree


def _code_in(module: CodeType) -> CodeType:
    return next(one for one in module.co_consts if isinstance(one, CodeType))
