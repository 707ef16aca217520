"""Whether each name that a cell binds is bound wherever the cell reads it.

A name that may be unbound where it is read can't become a local that starts with a placeholder: the placeholder would
be read in the place of a NameError.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from collections.abc import Sequence

_SUPPRESSES = ("suppress", "raises")


def reads_unbound(body: Sequence[ast.stmt], names: Iterable[str], bound: Iterable[str]) -> bool:
    """Return whether one of `names` may be read before it is bound; `bound` are those that are from the start."""
    look = _Look(frozenset(names))
    look.block(body, frozenset(bound))
    return look.found


class _Look:
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self.found = False

    def block(self, body: Sequence[ast.stmt], bound: frozenset[str]) -> frozenset[str]:
        for statement in body:
            bound = self._statement(statement, bound)
        return bound

    def _statement(self, node: ast.stmt, bound: frozenset[str]) -> frozenset[str]:
        if isinstance(node, (ast.If, ast.While)):
            bound = self._reads(node.test, bound)
            after = self.block(node.body, bound), self.block(node.orelse, bound)
            return after[0] & after[1] if isinstance(node, ast.If) else bound
        if isinstance(node, (ast.For, ast.AsyncFor)):
            bound = self._reads(node.iter, bound)
            self.block(node.body, self._stores(node.target, bound))
            self.block(node.orelse, bound)
            return bound
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with(node, bound)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, bound)
        if isinstance(node, ast.Match):
            return self._match(node, bound)
        return self._simple(node, bound)

    def _with(self, node: ast.With | ast.AsyncWith, bound: frozenset[str]) -> frozenset[str]:
        for item in node.items:
            bound = self._reads(item.context_expr, bound)
            bound = self._stores(item.optional_vars, bound)
        after = self.block(node.body, bound)
        goes_on = any(word in ast.unparse(item.context_expr) for item in node.items for word in _SUPPRESSES)
        return bound if goes_on else after

    def _try(self, node: ast.stmt, bound: frozenset[str]) -> frozenset[str]:
        parts = vars(node)
        after = self.block(parts["orelse"], self.block(parts["body"], bound))
        for handler in parts["handlers"]:
            known = bound if handler.name is None else bound | {handler.name}
            # The name of a handler is unbound again at its end.
            after &= self.block(handler.body, known) - {handler.name}
        self.block(parts["finalbody"], bound)
        return after

    def _match(self, node: ast.Match, bound: frozenset[str]) -> frozenset[str]:
        bound = self._reads(node.subject, bound)
        for case in node.cases:
            # A case binds its names before its guard and its body run.
            caught = {str(vars(n).get("name") or vars(n).get("rest")) for n in ast.walk(case.pattern)} & self._names
            self.block([*([ast.Expr(case.guard)] if case.guard else []), *case.body], bound | caught)
        return bound

    def _simple(self, node: ast.stmt, bound: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._check(node.target.id, bound)
        values = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        for value in sorted(values, key=lambda value: isinstance(getattr(value, "ctx", None), ast.Store)):
            bound = self._reads(value, bound)
        return self._stores(node, bound)

    def _reads(self, node: ast.AST, bound: frozenset[str]) -> frozenset[str]:
        own = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        inner = own - walrus if not isinstance(getattr(node, "ctx", None), ast.Store) else set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id not in inner:
                self._check(part.id, bound | walrus)
        return bound | (walrus if _always_runs(node) else frozenset())

    def _check(self, name: str, bound: frozenset[str]) -> None:
        self.found = self.found or (name in self._names and name not in bound)

    def _stores(self, node: ast.AST | None, bound: frozenset[str]) -> frozenset[str]:
        if node is None or isinstance(node, ast.Expr):
            return bound
        if isinstance(node, ast.Assign):
            return bound.union(*(self._stored(target) for target in node.targets))
        return bound | self._stored(getattr(node, "target", node))

    def _stored(self, node: ast.AST) -> frozenset[str]:
        return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


_MAY_NOT_RUN = (
    ast.BoolOp,
    ast.IfExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.Compare,
)


def _always_runs(node: ast.AST) -> bool:
    """Return whether all parts of an expression run when it does. A chain of comparisons may end early."""
    parts = (part for part in ast.walk(node) if isinstance(part, _MAY_NOT_RUN))
    return all(isinstance(part, ast.Compare) and len(part.ops) == 1 for part in parts)
