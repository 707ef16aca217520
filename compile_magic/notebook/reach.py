"""What a cell can reach, looked up before it runs: torch's own code and builtins alone, or anybody's.

Only where all that it loads is known, and nothing of that can run code of the user's, can nobody see that its body was
made one function. The look runs none of the user's code, and what it doesn't know it takes for the user's.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
import time
import types
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.notebook.intercept import bound_names

# How many values are looked at inside of containers.
_MOST_VALUES = 10_000
# What a call can be the plainest reason of.
_LONGEST_SHOWN = 40

_PLAIN_TYPES: frozenset[type] = frozenset(
    {bool, int, float, complex, str, bytes, type(None), type(...), range, slice}
    | {torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format}
)
_CONTAINERS: frozenset[type] = frozenset({list, tuple, set, frozenset, dict})
_BUILTINS = frozenset(
    {"abs", "all", "any", "divmod", "len", "max", "min", "pow", "print", "repr", "round", "sorted", "sum"}
)
_CLOCKS = frozenset(
    f"{clock}{unit}" for clock in ("monotonic", "perf_counter", "process_time", "time") for unit in ("", "_ns")
)
# Those of each module that see nothing but their arguments; None for all.
_FUNCTIONS: tuple[tuple[types.ModuleType, frozenset[str] | None], ...] = (
    (builtins, _BUILTINS),
    (math, None),
    (time, _CLOCKS),
)
_TYPES: tuple[Any, ...] = (
    *(bool, complex, dict, enumerate, float, frozenset, int, list, range),
    *(reversed, set, slice, str, tuple, zip),
)
_CONTEXTS = frozenset({"no_grad", "enable_grad", "inference_mode", "autocast"})
# What a tensor, or the result of an op, is asked for without a call.
_ATTRIBUTES = frozenset(
    {"H", "T", "device", "dtype", "imag", "indices", "is_cuda", "itemsize", "layout", "logabsdet", "mH", "mT", "nbytes"}
    | {"ndim", "real", "requires_grad", "shape", "sign", "values"}
)
# Methods of theirs that run hooks, hand memory to others or look at more than the values.
_NOT_THESE = frozenset(
    {"backward", "cuda_array_interface", "map_", "map2_", "apply_", "module_load", "numpy", "record_stream"}
    | {"register_hook", "register_post_accumulate_grad_hook", "reinforce", "retain_grad", "share_memory_", "storage"}
    | {"from_file", "from_numpy", "data_ptr", "untyped_storage", "pin_memory", "is_shared"}
)
_WRITES_CONTAINER = frozenset(
    {"add", "append", "clear", "difference_update", "discard", "extend", "insert", "intersection_update", "pop"}
    | {"popitem", "remove", "reverse", "setdefault", "sort", "symmetric_difference_update", "update"}
)
# Functions that write into what they are given or somewhere else, though their names don't say so.
_WRITES_STATE = frozenset({"batch_norm", "embedding", "embedding_bag", "instance_norm", "native_batch_norm", "print"})
_FRESH = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_ASKED_OF: tuple[type, ...] = (torch.Tensor, str, list, dict, tuple, set, int, float)


@dataclass(frozen=True)
class Reached:
    """What was found: `stranger` is the first expression that may lead to code of the user's, as it is written.

    `callables` are the user's that the cell hands to somebody; `writes` says whether more than names may be changed.
    """

    stranger: str = ""
    callables: tuple[str, ...] = ()
    writes: bool = False


def reach(head: Sequence[ast.stmt], body: Sequence[ast.stmt], namespace: Mapping[str, Any]) -> Reached:
    """Return what the statements of a cell reach; `head` are the imports that run before them."""
    if _torch.others_see_ops():
        # They would see the look as well.
        return Reached("each op, which a mode or a method of torch.Tensor of yours sees")
    look = _Look(namespace, body)
    for statement in head:
        look.imports(statement)
    for name in look.replaced():
        # What it was goes, and may run code as it does.
        look.unknown(name)
    look.block(body)
    return Reached(look.stranger, tuple(look.callables), look.writes)


_MISSING = object()


class _Look:
    def __init__(self, namespace: Mapping[str, Any], body: Sequence[ast.stmt]) -> None:
        self._namespace = namespace
        self._bound = bound_names(ast.Module(list(body), []))
        self._assigned = _assigned(body)
        self._imported: dict[str, Any] = {}
        self._inner: list[set[str]] = []
        self._looked_at: dict[str, bool] = {}
        self.stranger = ""
        self.callables: dict[str, None] = {}
        self.writes = False

    def unknown(self, what: ast.AST | str) -> None:
        """Take note of something that may run anybody's code."""
        text = what if isinstance(what, str) else ast.unparse(what).splitlines()[0]
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
        self.stranger = self.stranger or shown

    def replaced(self) -> list[str]:
        """Return the names that the cell binds anew and that something else than a plain value has until then."""
        there = sorted(self._bound & set(self._namespace))
        return [name for name in there if not self._is_plain(name, self._namespace[name])]

    def imports(self, statement: ast.stmt) -> None:
        """Take note of what an import at the head will bind."""
        for alias in vars(statement)["names"]:
            name = alias.asname or alias.name.partition(".")[0]
            if isinstance(statement, ast.ImportFrom):
                module = sys.modules.get(statement.module or "") if not statement.level else None
                self._imported[name] = _in_module(module, alias.name)
            else:
                self._imported[name] = sys.modules.get(alias.name if alias.asname else name, _MISSING)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Look at statements."""
        for statement in body:
            look = _STATEMENTS.get(type(statement))
            if look is None:
                self.unknown(statement)
            else:
                look(self, statement)

    def expression(self, node: ast.Expr) -> None:
        """Look at the expression."""
        self.value(node.value)

    def assign(self, node: ast.Assign) -> None:
        """Look at the value and at where it goes."""
        self.value(node.value)
        for target in node.targets:
            self._target(target)

    def augmented(self, node: ast.AugAssign) -> None:
        """Look at the value; what it goes to may be written in place."""
        self.value(node.value)
        if isinstance(node.target, ast.Name):
            # On a tensor it writes in place. What begins as a number is a tensor of its own when it becomes one.
            begins = [*self._assigned.get(node.target.id, [None]), self._namespace.get(node.target.id, 0)]
            self.writes = self.writes or not all(type(one) in _NO_TENSORS for one in begins)
            self._name(node.target.id, node)
        else:
            self._target(node.target)

    def loop(self, node: ast.For) -> None:
        """Look at what is looped over and at the body."""
        self.value(node.iter)
        self._target(node.target)
        self.block([*node.body, *node.orelse])

    def branch(self, node: ast.If | ast.While) -> None:
        """Look at the test and at both ways."""
        self.value(node.test)
        self.block([*node.body, *node.orelse])

    def attempt(self, node: ast.Try) -> None:
        """Look at all of its parts, if it catches exceptions by the names that Python has for them."""
        for handler in node.handlers:
            caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else filter(None, [handler.type])
            if handler.name is not None or not all(self._is_exception(kind) for kind in caught):
                self.unknown(handler)
            self.block(handler.body)
        self.block([*node.body, *node.orelse, *node.finalbody])

    def _is_exception(self, node: ast.expr) -> bool:
        found = self._static(node)
        return type(found) is type and BaseException in found.__mro__ and found.__module__ == "builtins"

    def context(self, node: ast.With) -> None:
        """Look at the contexts, which are torch's own, and at the body."""
        for item in node.items:
            call = item.context_expr
            found = self._static(call.func) if isinstance(call, ast.Call) else _MISSING
            if isinstance(call, ast.Call) and item.optional_vars is None and _is_one_of(found, _contexts()):
                self._arguments(call)
            else:
                self.unknown(call)
        self.block(node.body)

    def _target(self, target: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._target(element)
        elif isinstance(target, ast.Starred):
            self._target(target.value)
        elif isinstance(target, ast.Subscript):
            self.value(target.value)
            self.value(target.slice)
            self.writes = self.writes or not self._is_fresh(target.value)
        elif not isinstance(target, ast.Name):
            self.unknown(target)

    def _is_fresh(self, node: ast.expr) -> bool:
        """Return whether this is a container that the cell itself has made, under a name that only it has."""
        name = node.id if isinstance(node, ast.Name) else ""
        values = self._assigned.get(name)
        return bool(values) and name not in self._namespace and all(isinstance(v, _FRESH) for v in values or ())

    # --- expressions -------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> None:
        """Look at an expression whose value is used."""
        look = _EXPRESSIONS.get(type(node))
        if look is None:
            self.unknown(node)
        else:
            look(self, node)

    def parts(self, node: ast.AST) -> None:
        """Look at the expressions in it; nothing else of it runs."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)

    def name(self, node: ast.Name) -> None:
        """Look at a name whose value is used."""
        self._name(node.id, node)

    def _name(self, name: str, node: ast.AST) -> None:
        if any(name in inner for inner in self._inner):
            return
        value = self._namespace.get(name, _MISSING)
        if name in self._imported or (value is _MISSING and name not in self._bound):
            self.unknown(node)
        elif value is not _MISSING and not self._is_plain(name, value):
            if type(value) is types.FunctionType or type(value) is types.MethodType:
                self.callables[name] = None
            self.unknown(node)

    def _is_plain(self, name: str, value: Any) -> bool:
        if name not in self._looked_at:
            self._looked_at[name] = is_plain(value)
        return self._looked_at[name]

    def attribute(self, node: ast.Attribute) -> None:
        """Look at what a module holds, or at the value that is asked."""
        found = self._static(node)
        if found is not _MISSING:
            if not is_plain(found):
                self.unknown(node)
        elif node.attr in _ATTRIBUTES and _is_torchs_attribute(node.attr):
            self.value(node.value)
        else:
            self.unknown(node)

    def call(self, node: ast.Call) -> None:
        """Look at the arguments and at what is called."""
        self._arguments(node)
        found = self._static(node.func)
        name = vars(node.func).get("attr", "")
        if found is not _MISSING:
            if _is_op(found):
                self._may_write(node, found.__name__, found)
            else:
                self.unknown(node.func)
        elif isinstance(node.func, ast.Attribute) and _is_method(name):
            self.value(node.func.value)
            self._may_write(node, name)
            if name in _WRITES_CONTAINER and not self._is_fresh(node.func.value):
                self.writes = True
        else:
            self.unknown(node.func)

    def _may_write(self, node: ast.Call, name: str, function: Any = None) -> None:
        given = {keyword.arg for keyword in node.keywords}
        code = function.__code__ if type(function) is types.FunctionType else None
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        given.update(code.co_varnames[: code.co_argcount if starred else len(node.args)] if code is not None else ())
        if name.endswith("_") or name in _WRITES_STATE or given & {"out", "inplace", None}:
            self.writes = True

    def _arguments(self, node: ast.Call) -> None:
        for argument in node.args:
            # A generator that is handed on is used up there.
            if isinstance(argument, ast.GeneratorExp):
                self.comprehension(argument)
            else:
                self.value(argument)
        for keyword in node.keywords:
            self.value(keyword.value)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        """Look at it with the names that it binds for itself."""
        self._inner.append({n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)})
        for generator in node.generators:
            self.value(generator.iter)
            self._target(generator.target)
            for test in generator.ifs:
                self.value(test)
        self.parts(node)
        self._inner.pop()

    # --- looking up --------------------------------------------------------------------------------------------------

    def _static(self, node: ast.expr) -> Any:
        """Return what a dotted name leads to, through modules alone and without running anything of theirs."""
        if isinstance(node, ast.Name):
            if node.id in self._bound or any(node.id in inner for inner in self._inner):
                return _MISSING
            if node.id in self._imported:
                return self._imported[node.id]
            found = self._namespace.get(node.id, vars(builtins).get(node.id, _MISSING))
            return _MISSING if is_plain(found) else found
        if not isinstance(node, ast.Attribute):
            return _MISSING
        owner = self._static(node.value)
        return _in_module(owner, node.attr)


def _in_module(module: Any, name: str) -> Any:
    return vars(module).get(name, _MISSING) if type(module) is types.ModuleType else _MISSING


def _assigned(body: Sequence[ast.stmt]) -> dict[str, list[ast.expr | None]]:
    """Return what each name is assigned, None where it is bound in another way."""
    found: dict[str, list[ast.expr | None]] = {}
    plainly: set[int] = set()
    nodes = [node for statement in body for node in ast.walk(statement)]
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
            plainly.add(id(node.targets[0]))
        elif isinstance(node, ast.AugAssign):
            plainly.add(id(node.target))
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in plainly:
            found.setdefault(node.id, []).append(None)
    return found


_NO_TENSORS = frozenset({bool, int, float, complex, str, ast.Constant})


_CONTAINER_IDS, _PLAIN_IDS = (frozenset(map(id, kinds)) for kinds in (_CONTAINERS, _PLAIN_TYPES))


def is_plain(value: Any) -> bool:
    """Return whether a value is a tensor, a number, a text or a container of these, with nobody's code on it."""
    waiting, left = [value], _MOST_VALUES
    while waiting and left:
        one, left = waiting.pop(), left - 1
        # By id: to look a class up by its hash or its equals may run code of its metaclass.
        if id(type(one)) in _CONTAINER_IDS:
            waiting.extend(one.values() if type(one) is dict else one)
            waiting.extend(one if type(one) is dict else ())
        elif id(type(one)) not in _PLAIN_IDS and not _torch.is_plain_tensor(one):
            return False
    return not waiting


def _is_one_of(found: Any, those: Iterable[Any]) -> bool:
    # Not with `in`, which asks the object.
    return any(found is one for one in those)


def _contexts() -> list[Any]:
    return [getattr(torch, name) for name in sorted(_CONTEXTS)]


def _is_op(found: Any) -> bool:
    """Return whether this is a function of torch's, math's or a builtin that reaches nothing but its arguments."""
    if type(found) is type:
        return _is_one_of(found, _TYPES)
    if type(found) is types.BuiltinFunctionType:
        for module, names in _FUNCTIONS:
            if found.__self__ is module:
                return names is None or found.__name__ in names
    return _torch.is_op(found) and found.__name__ not in _NOT_THESE


def _is_method(name: str) -> bool:
    """Return whether each method of this name is torch's own or Python's, and hands its tensor to nobody."""
    if not name or name.startswith("_") or name in _NOT_THESE:
        return False
    kinds = [kind for kind in _ASKED_OF if inspect.getattr_static(kind, name, None) is not None]
    return bool(kinds) and _is_torchs_attribute(name)


def _is_torchs_attribute(name: str) -> bool:
    found = inspect.getattr_static(torch.Tensor, name, None)
    return found is None or _torch.is_tensors_own(found)


_STATEMENTS: Mapping[type, Callable[[_Look, Any], None]] = {
    ast.Expr: _Look.expression,
    ast.Assign: _Look.assign,
    ast.AugAssign: _Look.augmented,
    ast.For: _Look.loop,
    ast.While: _Look.branch,
    ast.If: _Look.branch,
    ast.Try: _Look.attempt,
    ast.With: _Look.context,
    ast.Assert: _Look.parts,
    ast.Pass: _Look.parts,
    ast.Break: _Look.parts,
    ast.Continue: _Look.parts,
}
_PARTS = (
    *(ast.BinOp, ast.BoolOp, ast.Compare, ast.Constant, ast.Dict, ast.FormattedValue, ast.IfExp, ast.JoinedStr),
    *(ast.List, ast.NamedExpr, ast.Set, ast.Slice, ast.Starred, ast.Subscript, ast.Tuple, ast.UnaryOp),
)
_EXPRESSIONS: Mapping[type, Callable[[_Look, Any], None]] = {
    **dict.fromkeys(_PARTS, _Look.parts),
    ast.Name: _Look.name,
    ast.Attribute: _Look.attribute,
    ast.Call: _Look.call,
    ast.ListComp: _Look.comprehension,
    ast.SetComp: _Look.comprehension,
    ast.DictComp: _Look.comprehension,
}
