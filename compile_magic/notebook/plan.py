"""Decide how a cell is run before it runs, and rewrite its tree for that."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

from compile_magic.notebook.cellfunction import DISPLAY
from compile_magic.notebook.cellfunction import RAN
from compile_magic.notebook.cellfunction import VALUE
from compile_magic.notebook.cellfunction import Shape
from compile_magic.notebook.cellfunction import as_function
from compile_magic.notebook.cellfunction import cannot_wrap
from compile_magic.notebook.cellfunction import displays_inside
from compile_magic.notebook.cellfunction import refused_by_python
from compile_magic.notebook.cellfunction import split_imports
from compile_magic.notebook.intercept import CLEAN
from compile_magic.notebook.intercept import HOOK
from compile_magic.notebook.intercept import bound_names
from compile_magic.notebook.intercept import clean_in_handlers
from compile_magic.notebook.intercept import located
from compile_magic.notebook.intercept import rewrite

if TYPE_CHECKING:
    from compile_magic.notebook.reach import Reached

BEGIN = "__compile_magic_begin__"
REBIND = "__compile_magic_rebind__"
# The names that a rewritten cell uses. They are builtins while it runs, so that the notebook's own stay as they are.
HOOKS = (HOOK, REBIND, RAN, VALUE, DISPLAY, CLEAN)

_AS_ONE = "the cell calls nothing of yours, so its body was compiled as one function"


@dataclass(frozen=True)
class Ways:
    """How a cell is asked to be run, and what the shell displays of it.

    `cell` and `named` as the line of the magic has it. With `repeated`, the cell is run any number of times with its
    state put back in between.
    """

    cell: bool = False
    named: bool = False
    repeated: bool = False
    interactivity: str = "last_expr"
    postponed: bool = False


@dataclass(frozen=True)
class Plan:
    """How a cell is run: its mode, why if that was not asked for, and the names that it binds.

    `if_nothing` is what to say if nothing of it was compiled in the end.
    """

    mode: str
    note: str = ""
    bound: frozenset[str] = frozenset()
    shape: Shape = field(default_factory=Shape)
    if_nothing: str = ""


def plan(body: Sequence[ast.stmt], namespace: Mapping[str, Any], ways: Ways) -> Plan:
    """Return how to run the statements of a cell."""
    tree = ast.Module(list(body), [])
    bound = frozenset(bound_names(tree))
    if not body:
        return Plan("calls", if_nothing="nothing was compiled: the cell has no code")
    if refused_by_python(tree):
        # Python shall say so.
        return Plan("calls", bound=bound)
    if ways.named:
        return Plan("named", bound=bound)
    from compile_magic.notebook.reach import reach

    found = reach(*split_imports(body), namespace)
    only_names = not (found.stranger or found.writes or displays_inside(body, ways.interactivity))
    shape = Shape(ways.interactivity, ways.postponed, again=only_names and not ways.repeated)
    if ways.cell:
        return Plan("cell", bound=bound, shape=shape)
    if (only_names or (ways.repeated and not found.stranger)) and cannot_wrap(body) is None:
        return Plan("cell", _AS_ONE, bound, shape)
    return Plan("calls", bound=bound, if_nothing=_nothing_of(body, found))


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def _nothing_of(body: Sequence[ast.stmt], found: Reached) -> str:
    if all(isinstance(statement, _DEFINITIONS) for statement in body):
        return "nothing was compiled: the cell only defines and imports. Call in it what is to be compiled"
    one = "--cell compiles the body of the cell as one function"
    if found.callables:
        handed = found.callables[0]
        return (
            f"nothing was compiled: the cell hands `{handed}` to somebody else, who calls it. "
            f"Name it to compile it (%%compile_explain {handed}); {one}"
        )
    if found.stranger:
        return (
            f"nothing was compiled: the cell itself calls no callable of yours, and `{found.stranger}` may lead to "
            f"code that reads the notebook's names. Name what it calls to compile that; {one}"
        )
    return f"nothing was compiled: the cell calls no callable of yours, and changes more than names; {one}"


def apply(
    found: Plan, body: Sequence[ast.stmt], namespace: Mapping[str, Any], targets: Sequence[str] = ()
) -> list[ast.stmt]:
    """Return the statements to run instead of `body`.

    Raises:
        CannotWrapError: the body is to be one function and can't be.
    """
    if found.mode == "cell":
        return as_function(body, namespace, found.shape)
    if found.mode == "named":
        return with_rebinds(clean_in_handlers(ast.Module(list(body), [])).body, frozenset(targets))
    return clean_in_handlers(rewrite(ast.Module(list(body), []))).body


def with_rebinds(body: Sequence[ast.stmt], targets: frozenset[str]) -> list[ast.stmt]:
    """Return `body` with a call after each statement that binds a target anew, so that the new one is explained."""
    result: list[ast.stmt] = []
    for statement in body:
        calls = [
            ast.Call(ast.Name(REBIND, ast.Load()), [ast.Constant(name)], [])
            for name in sorted(bound_names(ast.Module([statement], [])) & targets)
        ]
        if calls and isinstance(statement, ast.Expr):
            # It stays the expression that the shell displays.
            both = ast.Tuple([statement.value, *calls], ast.Load())
            result.append(located(ast.Expr(ast.Subscript(both, ast.Constant(0), ast.Load())), statement))
        else:
            result.extend([statement, *(located(ast.Expr(call), statement) for call in calls)])
    return result
