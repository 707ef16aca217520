"""Decide how a cell is run before it runs, and rewrite its tree for that."""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compile_magic.notebook.cellfunction import PUBLISH
from compile_magic.notebook.cellfunction import UNBOUND_NAME
from compile_magic.notebook.cellfunction import CannotWrapError
from compile_magic.notebook.cellfunction import as_function
from compile_magic.notebook.cellfunction import cannot_wrap
from compile_magic.notebook.cellfunction import leaves_its_scope
from compile_magic.notebook.intercept import CLEAN
from compile_magic.notebook.intercept import HOOK
from compile_magic.notebook.intercept import bound_names
from compile_magic.notebook.intercept import callees
from compile_magic.notebook.intercept import clean_in_handlers
from compile_magic.notebook.intercept import located
from compile_magic.notebook.intercept import rewrite

BEGIN = "__compile_magic_begin__"
REBIND = "__compile_magic_rebind__"
# The names that a rewritten cell uses. They are builtins while it runs, so that the notebook's own stay as they are.
HOOKS = (HOOK, REBIND, PUBLISH, UNBOUND_NAME, CLEAN)


@dataclass(frozen=True)
class Plan:
    """How a cell is run: its mode, why if that was not asked for, and the names that it binds."""

    mode: str
    note: str = ""
    bound: frozenset[str] = frozenset()


def plan(body: Sequence[ast.stmt], namespace: Mapping[str, Any], *, cell: bool, named: bool) -> Plan:
    """Return how to run the statements of a cell.

    Raises:
        CannotWrapError: there are none.
    """
    if not body:
        raise CannotWrapError("the cell has no code: there is nothing to run")
    tree = ast.Module(list(body), [])
    bound = frozenset(bound_names(tree))
    if leaves_its_scope(tree):
        # Python refuses it, and shall say so.
        return Plan("calls", bound=bound)
    if cell:
        return Plan("cell", bound=bound)
    if named:
        return Plan("named", bound=bound)
    look = _Look(namespace, bound, _assigned(tree))
    if any(look.may_be_users(callee) for callee in callees(tree)):
        return Plan("calls", bound=bound)
    if cannot_wrap(body) is not None:
        return Plan("calls", bound=bound)
    return Plan("cell", "the cell calls nothing of yours, so its body was compiled as one function", bound)


@dataclass(frozen=True)
class _Look:
    """A look at a cell before it runs: what the names in it may be."""

    namespace: Mapping[str, Any]
    bound: frozenset[str]
    assigned: Mapping[str, Sequence[ast.expr]]

    def may_be_users(self, callee: ast.expr) -> bool:
        base, path = _base(callee)
        if isinstance(base, ast.Call):
            # What a call returns is known when it has run; a method of that is taken for a tensor's.
            return not path
        if not isinstance(base, ast.Name):
            return isinstance(base, (ast.Subscript, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Lambda))
        if base.id == "get_ipython":
            # A %magic or !command of the cell; what it runs is seen when it runs.
            return True
        if base.id in self.bound:
            return not (path and self._holds_a_result(base.id))
        value = self._value(base.id, path)
        return value is _UNKNOWN or _is_users(value)

    def _value(self, name: str, path: Sequence[str]) -> Any:
        value = self.namespace.get(name, getattr(builtins, name, _UNKNOWN))
        for attribute in path:
            value = _attribute(value, attribute)
        return value

    def _holds_a_result(self, name: str) -> bool:
        values = self.assigned.get(name, ())
        return bool(values) and all(self._is_result(value) for value in values)

    def _is_result(self, value: ast.expr) -> bool:
        if not isinstance(value, ast.Call):
            return isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant))
        base, path = _base(value.func)
        made_by = self._value(base.id, path) if isinstance(base, ast.Name) and base.id not in self.bound else _UNKNOWN
        return not self.may_be_users(value.func) and not isinstance(made_by, type)


def _assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the expressions that each name is assigned; a name that is bound in another way as well is left out."""
    found: dict[str, list[ast.expr]] = {}
    stores = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values for name, values in found.items() if len(values) == stores[name]}


_UNKNOWN = object()


def _attribute(value: Any, name: str) -> Any:
    # A look before the cell runs must not run the user's properties.
    static = inspect.getattr_static(value, name, _UNKNOWN)
    if static is _UNKNOWN:
        return getattr(value, name, _UNKNOWN) if hasattr(type(value), "_call_impl") else _UNKNOWN
    return _UNKNOWN if isinstance(static, property) else getattr(value, name, _UNKNOWN)


def _is_users(value: Any) -> bool:
    if isinstance(value, (types.BuiltinFunctionType, types.ModuleType)):
        return False
    from compile_magic.run.targets import decide

    decision = decide(value)
    # Some of what stays eager isn't the same when it is compiled with the cell: an lru_cache forgets, for one.
    return decision.how in ("compile", "observe") or (decision.how == "eager" and not isinstance(value, type))


def _base(node: ast.expr) -> tuple[ast.expr, list[str]]:
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    return node, path


def apply(
    found: Plan, body: Sequence[ast.stmt], namespace: Mapping[str, Any], targets: Sequence[str] = ()
) -> list[ast.stmt]:
    """Return the statements to run instead of `body`.

    Raises:
        CannotWrapError: the body is to be one function and can't be.
    """
    if found.mode == "cell":
        return as_function(body, namespace)
    if found.mode == "named":
        return with_rebinds(clean_in_handlers(ast.Module(list(body), [])).body, frozenset(targets))
    return clean_in_handlers(rewrite(ast.Module(list(body), []))).body


def with_rebinds(body: Sequence[ast.stmt], targets: frozenset[str]) -> list[ast.stmt]:
    """Return `body` with a call after each statement that binds a target anew, so that the new one is explained."""
    result: list[ast.stmt] = []
    for statement in body:
        result.append(statement)
        for name in sorted(bound_names(ast.Module([statement], [])) & targets):
            call = ast.Call(ast.Name(REBIND, ast.Load()), [ast.Constant(name)], [])
            result.append(located(ast.Expr(call), statement))
    return result
