"""Make the body of a cell one function, so that it can be compiled as one.

The names that the cell binds stay the notebook's own: the function declares them global, so what the cell calls sees
each of them as soon as it would in a plain cell.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from types import FunctionType
from typing import Any

from compile_magic.notebook.intercept import HOOK
from compile_magic.notebook.intercept import bound_names
from compile_magic.notebook.intercept import located

CELL_FUNCTION = "__compile_magic_cell__"
SHOWN_NAME = "<cell>"
# Runs the function and says whether it came to its end, and gives the value of its last expression.
RAN = "__compile_magic_ran__"
VALUE = "__compile_magic_value__"
DISPLAY = "__compile_magic_display__"

_ANNOTATIONS = "__annotations__"


class CannotWrapError(ValueError):
    """The body of the cell can't be a function; the message says why and what to do."""


@dataclass(frozen=True)
class Shape:
    """How a body is made a function.

    `interactivity` says which of its expressions are displayed; with `postponed`, annotations are texts. With `again`,
    the cell's own statements run where the function has raised: nothing but names was changed by then.
    """

    interactivity: str = "last_expr"
    postponed: bool = False
    again: bool = False


def as_function(body: Sequence[ast.stmt], namespace: Mapping[str, Any], shape: Shape) -> list[ast.stmt]:
    """Return statements that define the body as a function, call it through the hook, and give its last value.

    Imports at the head of the cell are left outside.

    Raises:
        CannotWrapError: the body has what can't stand in a function.
    """
    reason = cannot_wrap(body)
    if reason is not None:
        raise CannotWrapError(reason)
    head, rest = split_imports(body)
    plainly = copy.deepcopy(rest)
    rest = _displaying(rest, shape.interactivity)
    names = bound_names(ast.Module(rest, []))
    if annotates(ast.Module(rest, [])):
        names.add(_ANNOTATIONS)
        postponed = shape.postponed or any(map(_postpones, head))
        rest = _annotating(rest, there=_ANNOTATIONS in namespace, postponed=postponed)
    declared = [located(ast.Global(sorted(names)), rest[0])] if names else []
    *statements, last = _Globals().visit(ast.Module(rest, [])).body
    # What an annotation became is an expression too.
    shown = isinstance(plainly[-1], ast.Expr) and isinstance(last, ast.Expr)
    statements.append(located(ast.Return(last.value), last) if shown else last)
    function = ast.FunctionDef(CELL_FUNCTION, _no_parameters(), [*declared, *statements], [], None)
    if "type_params" in ast.FunctionDef._fields:
        vars(function)["type_params"] = []
    called = _called_or_run(plainly) if shape.again else [_called(plainly[-1])]
    return [*head, located(function, plainly[0]), *called]


def _no_parameters() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _called(last: ast.stmt) -> ast.stmt:
    call: ast.stmt = located(ast.Expr(ast.Call(_call(HOOK, ast.Name(CELL_FUNCTION, ast.Load())), [], [])), last)
    return call


def _called_or_run(body: list[ast.stmt]) -> list[ast.stmt]:
    *statements, last = body
    shown = isinstance(last, ast.Expr)
    plainly = statements if shown else body
    ran = located(_call(RAN, ast.Name(CELL_FUNCTION, ast.Load())), body[0])
    result: list[ast.stmt] = [
        located(ast.If(ast.UnaryOp(ast.Not(), ran), plainly or [ast.Pass()], []), body[0]),
    ]
    if not isinstance(last, ast.Expr):
        # The `if` itself is not the last statement, which may be run as an interactive one.
        return [*result, located(ast.Pass(), last)]
    value = ast.IfExp(_call(RAN), _call(VALUE), last.value)
    return [*result, located(ast.Expr(value), last)]


def split_imports(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the imports at the head of a cell, which are left outside of the function, and the rest."""
    count = next((n for n, s in enumerate(body) if not isinstance(s, (ast.Import, ast.ImportFrom))), len(body))
    return list(body[:count]), list(body[count:])


def _postpones(statement: ast.stmt) -> bool:
    names = statement.names if isinstance(statement, ast.ImportFrom) and statement.module == "__future__" else ()
    return any(alias.name == "annotations" for alias in names)


# --- what a function would otherwise mean something else by -----------------------------------------------------------


class _TopLevel(ast.NodeTransformer):
    """Rewrites the top-level code of a cell, but not what is in definitions."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave it alone."""
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Leave it alone."""
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Leave it alone."""
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Leave it alone."""
        return node


class _Globals(_TopLevel):
    def visit_Global(self, node: ast.Global) -> ast.Pass:
        """Drop it: each name is declared global at the head of the function."""
        return ast.copy_location(ast.Pass(), node)


class _Displays(_TopLevel):
    def visit_Expr(self, node: ast.Expr) -> Any:
        """Display the value, as IPython does with a statement that it runs interactively."""
        return located(ast.Expr(_call(DISPLAY, node.value)), node)


def displays_inside(body: Sequence[ast.stmt], interactivity: str) -> bool:
    """Return whether more may be displayed than the value of the last expression."""
    statements = body if interactivity == "all" else body[-1:] if interactivity == "last" else ()
    inner = statements if statements and not isinstance(statements[-1], ast.Expr) else statements[:-1]
    return any(isinstance(node, ast.Expr) for node in _top_level(ast.Module(list(inner), [])))


def _displaying(body: list[ast.stmt], interactivity: str) -> list[ast.stmt]:
    """Return the statements with the expressions displayed that IPython would display; the last one is left to it."""
    *statements, last = body
    if interactivity == "all":
        statements = [_Displays().visit(statement) for statement in statements]
    if interactivity in ("all", "last") and not isinstance(last, ast.Expr):
        last = _Displays().visit(last)
    return [*statements, last]


def annotates(tree: ast.AST) -> bool:
    """Return whether the top-level code annotates a name."""
    return any(isinstance(node, ast.AnnAssign) for node in _top_level(tree))


def _annotating(body: list[ast.stmt], *, there: bool, postponed: bool) -> list[ast.stmt]:
    """Return the statements with each annotation written into the notebook's table, which may not be there yet."""
    annotations = _Annotations(postponed=postponed)
    result: list[ast.stmt] = []
    for statement in body:
        if not there and annotates(ast.Module([statement], [])):
            there = True
            target = ast.Name(_ANNOTATIONS, ast.Store())
            result.append(located(ast.Assign([target], ast.Dict([], [])), statement))
        rewritten = annotations.visit(statement)
        result.extend(rewritten if isinstance(rewritten, list) else [rewritten])
    return result


class _Annotations(_TopLevel):
    def __init__(self, *, postponed: bool) -> None:
        self._postponed = postponed

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """Assign, and enter the annotation of a plain name into the table: none can be both annotated and global."""
        done: list[ast.stmt] = []
        if node.value is not None:
            done.append(ast.Assign([node.target], node.value))
        elif isinstance(node.target, (ast.Attribute, ast.Subscript)):
            done.append(ast.Expr(node.target.value))
        if isinstance(node.target, ast.Name) and node.simple:
            entry = ast.Subscript(ast.Name(_ANNOTATIONS, ast.Load()), ast.Constant(node.target.id), ast.Store())
            done.append(ast.Assign([entry], self._written(node.annotation)))
        elif not self._postponed:
            done.append(ast.Expr(node.annotation))
        return [located(one, node) for one in done or [ast.Pass()]]

    def _written(self, annotation: ast.expr) -> ast.expr:
        return ast.Constant(ast.unparse(annotation)) if self._postponed else annotation


# They look at the frame that they are called in, and a function's is not the notebook.
_LOOKS_AT_FRAME = frozenset({"exec", "locals", "vars", "dir"})
_MAGICS = frozenset({"run_line_magic", "run_cell_magic"})
_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)


def needs_event_loop(tree: ast.AST) -> bool:
    """Return whether the top-level code awaits something."""
    return any(isinstance(node, _AWAITS) or getattr(node, "is_async", 0) for node in _top_level(tree))


def refused_by_python(tree: ast.AST) -> bool:
    """Return whether the top-level code has what Python refuses outside of a function."""
    refused = (ast.Return, ast.Yield, ast.YieldFrom, ast.Nonlocal)
    return any(isinstance(node, refused) for node in _top_level(tree))


def cannot_wrap(body: Sequence[ast.stmt]) -> str | None:
    """Return why the body can't be a function and what to do, None if it can."""
    return next(_reasons(ast.Module(split_imports(body)[1], [])), None)


def _reasons(tree: ast.Module) -> Iterator[str]:
    otherwise = "leave --cell out, or name what to explain"
    nodes = _top_level(tree)
    if not tree.body:
        yield "the cell only imports: there is nothing to compile in it"
    if needs_event_loop(tree):
        yield f"top-level await can't be compiled: {otherwise}"
    for name in sorted({node.id for node in nodes if isinstance(node, ast.Name)} & _LOOKS_AT_FRAME):
        yield f"{name}() means something else in a function: {otherwise}"
    if any(isinstance(node, ast.Attribute) and node.attr in _MAGICS for node in nodes):
        yield f"a magic in it sees other names in a function: {otherwise}"
    if _keeps_a_generator(tree):
        yield f"compiled code makes no generator that runs later: {otherwise}"
    if any(isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names) for node in nodes):
        yield "a star import can't stand in a function: move it to the top of the cell, or to another cell"


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
