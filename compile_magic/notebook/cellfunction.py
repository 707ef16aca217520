"""Make the body of a cell one function, so that it can be compiled as one.

The names that the cell binds become locals, which Dynamo traces well, and are published in the notebook when the
function is done. Where that would change what the cell means (a function or class defined in it looks names up in the
notebook later on), they stay globals, and Dynamo then breaks wherever one is read after it was written.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Sequence
from types import CodeType
from types import FunctionType
from types import TracebackType
from typing import Any

from compile_magic.notebook.boundness import reads_unbound
from compile_magic.notebook.intercept import HOOK
from compile_magic.notebook.intercept import bound_names
from compile_magic.notebook.intercept import located

CELL_FUNCTION = "__compile_magic_cell__"
SHOWN_NAME = "<cell>"
PUBLISH = "__compile_magic_publish__"
UNBOUND_NAME = "__compile_magic_unbound__"


class CannotWrapError(ValueError):
    """The body of the cell can't be a function; the message says why and what to do."""


class _Unbound:
    """Stands for a name that the cell may bind and that isn't bound yet."""

    def __repr__(self) -> str:
        return "<not bound yet>"


UNBOUND = _Unbound()


def as_function(body: Sequence[ast.stmt], namespace: Mapping[str, Any]) -> list[ast.stmt]:
    """Return statements that define the body as a function, call it through the hook, and give its last value.

    Imports at the head of the cell are left outside.

    Raises:
        CannotWrapError: the body has what can't stand in a function.
    """
    reason = cannot_wrap(body)
    if reason is not None:
        raise CannotWrapError(reason)
    head, rest = _split_imports(body)
    names = sorted(bound_names(ast.Module(rest, [])))
    existing = [name for name in names if name in namespace]
    if _keeps_its_names(rest) or reads_unbound(rest, names, existing):
        inner = [located(ast.Global(names), rest[0])] if names else []
        return [*head, *_function([*inner, *map(_plain_assignment, rest)], [], [])]
    return [*head, *_function(rest, names, existing)]


def _function(body: list[ast.stmt], names: list[str], existing: list[str]) -> list[ast.stmt]:
    *statements, last = body
    value: ast.expr = ast.Constant(None)
    if isinstance(last, ast.Expr):
        value = last.value
    else:
        statements.append(last)
    result = located(ast.Return(ast.Tuple([value, _tuple(names)], ast.Load())), last)
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = ast.FunctionDef(CELL_FUNCTION, parameters, [*statements, result], [], None)
    if "type_params" in ast.FunctionDef._fields:
        vars(function)["type_params"] = []
    asked = ast.Call(ast.Name(HOOK, ast.Load()), [ast.Name(CELL_FUNCTION, ast.Load())], [])
    call = ast.Call(asked, [_initial(name, existing) for name in names], [])
    published = ast.Call(
        ast.Name(PUBLISH, ast.Load()), [call, ast.Tuple([ast.Constant(name) for name in names], ast.Load())], []
    )
    return [located(function, body[0]), located(ast.Expr(published), last)]


def _tuple(names: Sequence[str]) -> ast.Tuple:
    return ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())


def _initial(name: str, existing: Sequence[str]) -> ast.expr:
    return ast.Name(name if name in existing else UNBOUND_NAME, ast.Load())


def _split_imports(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    count = next((n for n, s in enumerate(body) if not isinstance(s, (ast.Import, ast.ImportFrom))), len(body))
    return list(body[:count]), list(body[count:])


_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp, ast.Global, ast.Nonlocal)
_LOOKS_AT_NAMES = frozenset({"locals", "globals", "vars", "dir", "exec", "eval", "get_ipython", "super"})


def _keeps_its_names(body: Sequence[ast.stmt]) -> bool:
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, (*_LATER, ast.Delete, ast.Import, ast.ImportFrom, ast.AnnAssign)):
            return True
        if isinstance(node, ast.Name) and node.id in _LOOKS_AT_NAMES:
            return True
    return False


def _plain_assignment(statement: ast.stmt) -> ast.stmt:
    # A name can't be both annotated and global.
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
        return statement
    if statement.value is None:
        return ast.copy_location(ast.Pass(), statement)
    return ast.copy_location(ast.Assign([statement.target], statement.value), statement)


# They look at the frame that they are called in, and a function's is not the notebook.
_LOOKS_AT_FRAME = frozenset({"exec", "locals", "vars", "dir"})
_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)


def needs_event_loop(tree: ast.AST) -> bool:
    """Return whether the top-level code awaits something."""
    return any(isinstance(node, _AWAITS) or getattr(node, "is_async", 0) for node in _top_level(tree))


def leaves_its_scope(tree: ast.AST) -> bool:
    """Return whether the top-level code returns or yields, which Python refuses outside of a function."""
    return any(isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) for node in _top_level(tree))


def cannot_wrap(body: Sequence[ast.stmt]) -> str | None:
    """Return why the body can't be a function and what to do, None if it can."""
    tree = ast.Module(_split_imports(body)[1], [])
    if not tree.body:
        return "the cell only imports: there is nothing to compile in it"
    if needs_event_loop(tree):
        return "top-level await can't be compiled: leave --cell out, or name what to explain"
    looks = {node.id for node in _top_level(tree) if isinstance(node, ast.Name)} & _LOOKS_AT_FRAME
    if looks:
        return f"{min(looks)}() means something else in a function: leave --cell out, or name what to explain"
    if _keeps_a_generator(tree):
        return "compiled code makes no generator that runs later: leave --cell out, or name what to explain"
    imports = (node for node in _top_level(tree) if isinstance(node, ast.ImportFrom))
    if any(alias.name == "*" for node in imports for alias in node.names):
        return "a star import can't stand in a function: move it to the top of the cell, or to another cell"
    return None


def _keeps_a_generator(tree: ast.AST) -> bool:
    calls = (node for node in _top_level(tree) if isinstance(node, ast.Call))
    used_up = {id(argument) for call in calls for argument in call.args}
    return any(isinstance(node, ast.GeneratorExp) and id(node) not in used_up for node in _top_level(tree))


def _top_level(tree: ast.AST) -> list[ast.AST]:
    nodes, found = [tree], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            nodes.extend(ast.iter_child_nodes(node))
    return found


def name_nicely(function: FunctionType) -> None:
    """Call the cell's function what reports and tracebacks shall call it, and what is defined in it as in a cell."""
    function.__name__ = function.__qualname__ = SHOWN_NAME
    function.__code__ = _named_outside(function.__code__).replace(co_name=SHOWN_NAME)
    if hasattr(function.__code__, "co_qualname"):
        changed: dict[str, Any] = {"co_qualname": SHOWN_NAME}
        function.__code__ = function.__code__.replace(**changed)


_INSIDE = f"{CELL_FUNCTION}.<locals>."


def _named_outside(code: CodeType) -> CodeType:
    # Lambdas and generators carry the name of the function that they are made in; Python 3.10 keeps it as a constant.
    consts = tuple(_named_outside(c) if isinstance(c, CodeType) else _without_function(c) for c in code.co_consts)
    changed: dict[str, Any] = {"co_consts": consts}
    if hasattr(code, "co_qualname"):
        changed["co_qualname"] = _without_function(code.co_qualname)
    return code.replace(**changed)


def _without_function(value: Any) -> Any:
    return value.removeprefix(_INSIDE) if isinstance(value, str) else value


def publish(namespace: dict[str, Any], result: tuple[Any, tuple[Any, ...]], names: Sequence[str]) -> Any:
    """Bind the names of a finished cell function in the notebook and return the value of its last expression."""
    value, values = result
    _bind(namespace, dict(zip(names, values, strict=True)))
    return value


def publish_partly(namespace: dict[str, Any], traceback: TracebackType | None, names: Sequence[str]) -> None:
    """Bind what a cell function had bound before it raised, as far as its frame still knows it.

    A frame that Dynamo has rewritten keeps what comes before a graph break on its stack, where nobody can get at it.
    """
    found: Mapping[str, Any] = {}
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if SHOWN_NAME in code.co_name:
            found = traceback.tb_frame.f_locals
        traceback = traceback.tb_next
    _bind(namespace, {name: found[name] for name in names if name in found})


def _bind(namespace: dict[str, Any], values: Mapping[str, Any]) -> None:
    namespace.update({name: value for name, value in values.items() if value is not UNBOUND})
