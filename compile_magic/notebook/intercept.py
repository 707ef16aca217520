"""Rewrite a cell so that each call of its own top-level code asks a hook what to call.

`f(x)` becomes `hook(f)(x)`: the call itself stays in the cell's frame, so whatever looks at frames, arguments or the
order of evaluation sees no difference. The body of a class runs with the cell and is rewritten too; bodies of functions
and lambdas are left alone, and so are generator expressions, which may run after the cell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any
from typing import TypeVar

HOOK = "__compile_magic_call__"
CLEAN = "__compile_magic_clean__"

_Definition = TypeVar("_Definition", ast.FunctionDef, ast.AsyncFunctionDef)


class CallRewriter(ast.NodeTransformer):
    """Puts the hook between the evaluation of each callee and its call."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Send the call through the hook."""
        name = _written(node.func)
        self.generic_visit(node)
        asked_for: list[ast.expr] = [node.func, ast.Constant(name)] if name else [node.func]
        asked = ast.copy_location(ast.Call(ast.Name(HOOK, ast.Load()), asked_for, []), node.func)
        ast.copy_location(asked.func, node.func)
        call = ast.copy_location(ast.Call(asked, node.args, node.keywords), node)
        if isinstance(node.func, ast.Attribute) and node.func.end_lineno != node.func.lineno:
            # In a chain over several lines, Python names the line of the attribute in a traceback.
            call.lineno = node.func.end_lineno or node.lineno
            call.col_offset = (node.func.end_col_offset or 0) - len(node.func.attr)
        return call

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rewrite decorators and defaults."""
        return self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Rewrite decorators and defaults."""
        return self._definition(node)

    def _definition(self, node: _Definition) -> _Definition:
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        self._defaults(node.args)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Rewrite defaults."""
        self._defaults(node.args)
        return node

    def _defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.visit(default) for default in args.defaults]
        args.kw_defaults = [default and self.visit(default) for default in args.kw_defaults]

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Leave it alone: it may run after the cell."""
        return node


def _written(callee: ast.expr) -> str:
    # What the user calls it is the best name for a callable, as long as it is short.
    node = callee
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    text = ast.unparse(callee) if isinstance(node, ast.Name) else ""
    return text if len(text) <= _LONGEST_NAME else ""


_LONGEST_NAME = 40


def rewrite(tree: ast.Module) -> ast.Module:
    """Return the module with its top-level calls sent through the hook."""
    rewritten: ast.Module = CallRewriter().visit(tree)
    return ast.fix_missing_locations(rewritten)


class _HandlerRewriter(ast.NodeTransformer):
    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Begin with a call of the hook."""
        self.generic_visit(node)
        node.body.insert(0, located(ast.Expr(ast.Call(ast.Name(CLEAN, ast.Load()), [], [])), node))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave it alone."""
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Leave it alone."""
        return node


def clean_in_handlers(tree: ast.Module) -> ast.Module:
    """Let each `except` of the top-level code see the traceback of a plain cell."""
    rewritten: ast.Module = _HandlerRewriter().visit(tree)
    return rewritten


class _Callees(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[ast.expr] = []

    def visit_Call(self, node: ast.Call) -> None:
        """Note what is called."""
        self.found.append(node.func)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Look at decorators and defaults."""
        for part in (*node.decorator_list, *node.args.defaults):
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815 - same fields, same name as ast's

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Its body runs when it is called."""

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        """It may run after the cell."""


def callees(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that the top-level code of a cell calls."""
    visitor = _Callees()
    visitor.visit(tree)
    return iter(visitor.found)


def bound_names(tree: ast.AST) -> set[str]:
    """Return the names that the top-level code of a cell binds, in whichever way."""
    found: set[str] = set()
    for node in _own_scope(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _own_scope(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, _COMPREHENSIONS):
            # The variables of a comprehension are its own, but := in one binds outside of it.
            yield from (n.target for n in ast.walk(child) if isinstance(n, ast.NamedExpr))
        elif not isinstance(child, _SCOPES):
            yield from _own_scope(child)


def located(node: ast.AST, at: ast.AST) -> Any:
    """Give each part of a node that has no place in the source the place of `at`, and return the node."""
    for part in ast.walk(node):
        if isinstance(part, (ast.expr, ast.stmt)) and not hasattr(part, "lineno"):
            ast.copy_location(part, at)
    return ast.fix_missing_locations(node)
