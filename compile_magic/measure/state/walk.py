"""Find what a cell's code can reach: containers, tensors, generators, and what can't be looked into.

No code of the user's runs on the way: no property, no `__getattr__`, no `repr`, no `==`. Modules, classes and functions
of libraries are left alone, and of a function of the user's only those globals count that its code names.
"""

from __future__ import annotations

import array
import functools
import logging
import random
import types
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.measure.state import randomness
from compile_magic.measure.state.containers import DictKept
from compile_magic.measure.state.containers import SequenceKept
from compile_magic.measure.state.containers import SetKept
from compile_magic.measure.state.kept import MISSING
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.kept import label
from compile_magic.measure.state.kept import label_of
from compile_magic.measure.state.kinds import ATOMS
from compile_magic.measure.state.kinds import CLOSED_TYPES
from compile_magic.measure.state.kinds import is_machinery
from compile_magic.measure.state.memos import MEMO
from compile_magic.measure.state.memos import MemoKept
from compile_magic.measure.state.names import UsedNames
from compile_magic.measure.state.names import is_user_class
from compile_magic.measure.state.names import is_user_module
from compile_magic.measure.state.objects import CellKept
from compile_magic.measure.state.objects import ClassKept
from compile_magic.measure.state.objects import DefaultsKept
from compile_magic.measure.state.objects import SlotsKept
from compile_magic.measure.state.objects import attributes_of
from compile_magic.measure.state.objects import cell_contents
from compile_magic.measure.state.objects import slots_of
from compile_magic.measure.state.reach import Found
from compile_magic.measure.state.reach import Reach
from compile_magic.run.files import is_user_file

# Objects, not counting numbers and texts. More than this is a data set rather than state.
MOST_OBJECTS = 200_000


def walk(namespace: dict[str, Any], used: Iterable[str], extra: Mapping[str, Any] | None = None) -> Reach:
    """Return what can be reached from names of a namespace, and from more objects.

    Args:
        namespace: the names of the notebook.
        used: those that the code uses; may have the names of attributes that it uses, too, which limits what is looked
            at in the user's own modules.
        extra: more objects, by name.
    """
    return walker(namespace, used).run((extra or {}).items())


def walker(namespace: dict[str, Any], used: Iterable[str]) -> _Walker:
    """Return what finds all this, and later on what else there is to reach. The arguments are those of `walk`."""
    return _Walker(namespace, frozenset(used))


class _Walker:
    def __init__(self, namespace: dict[str, Any], used: frozenset[str]) -> None:
        self._namespace = namespace
        self._todo: deque[Found] = deque((name, namespace[name]) for name in sorted(used) if name in namespace)
        self._seen: dict[int, Any] = {}
        self._names = UsedNames(namespace, used)
        self._tensors: dict[int, str] = {}
        self._codes: set[int] = set()
        self._reach = Reach()

    def knows(self, value: object) -> bool:
        """Return whether an object was found, or is none that holds anything."""
        return type(value) in ATOMS or id(value) in self._seen

    def knows_code(self, code: types.CodeType) -> bool:
        """Return whether a function of the user's with this code was found."""
        return id(code) in self._codes

    def run(self, extra: Iterable[Found]) -> Reach:
        """Return what is reached, from `extra` too, and was not returned before."""
        self._later(extra)
        with _torch.without_modes():
            self._walk()
        self._reach.kept += self._names.kept()
        found, self._reach = self._reach, Reach(complete=self._reach.complete)
        return found

    def _walk(self) -> None:
        while self._todo or self._more():
            path, value = self._todo.popleft()
            if type(value) in ATOMS or id(value) in self._seen:
                continue
            if len(self._seen) >= MOST_OBJECTS:
                self._reach.complete = False
                break
            self._seen[id(value)] = value
            self._reach.objects.append((path, value))
            self._visit(path, value)

    def _more(self) -> bool:
        self._later(self._names.in_modules())
        return bool(self._todo)

    def _visit(self, path: str, value: Any) -> None:
        kind: Any = type(value)
        visit = _visit_of(kind)
        if visit is not None:
            visit(self, path, value)
        else:
            self._visit_instance(path, value)

    def _later(self, children: Iterable[Found]) -> None:
        self._todo.extend(child for child in children if type(child[1]) not in ATOMS)

    def _sooner(self, children: list[Found]) -> None:
        self._todo.extendleft(reversed(children))

    def keep(self, kept: Kept, children: Iterable[Found] = ()) -> None:
        self._reach.kept.append(kept)
        self._later(children)

    def close(self, path: str, value: Any) -> None:
        """Take note of what isn't looked into, and keep its state if it is a source of random numbers."""
        self._reach.opaque.append((path, value))
        state = randomness.kept(path, value)
        if state is not None:
            self._reach.kept.append(state)

    def handler(self, path: str, value: logging.Handler) -> None:
        self.close(path, value)
        self._visit_attributes(path, value)

    # --- torch -------------------------------------------------------------------------------------------------------

    def tensor(self, path: str, value: torch.Tensor) -> None:
        self._reach.tensors[id(value)] = (path, value)
        self._tensors[id(value)] = path
        inner = _torch.inner_tensors(value)
        grad = _torch.grad_of(value)
        own = attributes_of(value)
        self._later([(f"{path}.{name}", tensor) for name, tensor in inner.items()])
        self._later((f"a hook of {path}", hooks) for hooks in _torch.hooks_of(value).values())
        self._later(self._graph(path, value.grad_fn))
        if grad is not None:
            self._sooner([(f"{path}.grad", grad)])
        if own is not None:
            self.keep(DictKept(path, own), ((f"{path}.{name}", child) for name, child in own.items()))

    def _graph(self, path: str, node: Any) -> Iterator[Found]:
        """Yield what a graph leads to: leaves, whose gradients a backward changes, and what its functions keep."""
        todo = [node]
        while todo:
            node = todo.pop()
            if node is None or id(node) in self._seen:
                continue
            self._seen[id(node)] = node
            leaf, own = _torch.accumulates_into(node), attributes_of(node)
            if leaf is not None:
                yield f"a leaf of {path}", leaf
            if own:
                yield f"the graph of {path}", own
            todo += [following for following, _ in node.next_functions]

    def module(self, path: str, value: torch.nn.Module) -> None:
        own = attributes_of(value) or {}
        parts = [own.get(name) for name in _torch.MODULE_PARTS]
        original = _torch.compiled_original(value)
        children = [
            (path if child is original else f"{path}.{name}", child)
            for part in parts
            if isinstance(part, dict)
            for name, child in part.items()
        ]
        if isinstance(value, torch.jit.ScriptModule):
            children += [(f"{path}.{name}", t) for name, t in (*value.named_parameters(), *value.named_buffers())]
        # At once, so that a weight is called after its module and not after its place in an optimizer.
        self._sooner(children)
        self._visit_instance(path, value)

    # --- Python ------------------------------------------------------------------------------------------------------

    def pymodule(self, path: str, value: types.ModuleType) -> None:
        if is_user_module(value):
            self._names.add_module(path, value)
        else:
            self.close(path, value)
            self._names.add_library(path, value)

    def pyclass(self, path: str, value: type) -> None:
        if not is_user_class(value):
            self.close(path, value)
            return
        attributes = dict(looks.class_attributes(value))
        self.keep(ClassKept(path, value), ((f"{path}.{name}", child) for name, child in attributes.items()))
        self._later(
            (looks.qualified_name(base).rpartition(".")[2], base)
            for base in (*looks.mro(value)[1:], type(value))
            if is_user_class(base)
        )

    def function(self, path: str, value: types.FunctionType) -> None:
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
        self._later(cells)
        self._later((f"{path}'s default", child) for child in value.__defaults__ or ())
        self._later(((f"{path}'s defaults", value.__kwdefaults__),))
        users = is_user_file(value.__code__.co_filename)
        # Of the user's an empty one, too: a function that counts its own calls begins with none.
        self._later(((path, vars(value)),) if users or vars(value) else ())
        if users:
            self._codes.add(id(value.__code__))
            self._reach.kept.append(DefaultsKept(path, value))
            self._later(self._names.in_function(value))

    def cell(self, path: str, value: types.CellType) -> None:
        self.keep(
            CellKept(path, value), ((path, content) for content in [cell_contents(value)] if content is not MISSING)
        )

    def application(self, path: str, value: partial[Any]) -> None:
        self._later([(path, value.func), *((f"{path}'s argument", a) for a in value.args), (path, value.keywords)])
        self._visit_instance(path, value)

    def inside(self, path: str, value: Any) -> None:
        """Look at what a method, a property or the like was made of; it is all there is to change."""
        names = ("__func__", "__self__", "fget", "fset", "fdel", "__wrapped__")
        parts = (getattr(value, name, None) for name in names)
        self._later((path, part) for part in parts if not issubclass(type(part), types.ModuleType))
        if isinstance(value, types.BuiltinFunctionType):
            self._reach.opaque.append((path, value))

    def mapping(self, path: str, value: dict[Any, Any]) -> None:
        if value is self._namespace:
            return
        items = list(dict.items(value))
        self.keep(DictKept(path, value), ((f"{path}[{self._label(key)}]", child) for key, child in items))
        self._later((f"a key of {path}", key) for key, _ in items)
        self._visit_attributes(path, value)

    def sequence(self, path: str, value: Any) -> None:
        self.keep(SequenceKept(path, value), _items(path, value))
        self._visit_attributes(path, value)

    def members(self, path: str, value: set[Any]) -> None:
        self.keep(SetKept(path, value), ((f"an item of {path}", item) for item in value))
        self._visit_attributes(path, value)

    def frozen(self, path: str, value: Any) -> None:
        self._later(_items(path, value))
        self._visit_attributes(path, value)

    def proxy(self, path: str, value: types.MappingProxyType[Any, Any]) -> None:
        self._later((f"{path}[{label(key)}]", child) for key, child in value.items())

    def _label(self, key: object) -> str:
        return self._tensors.get(id(key)) or label(key)

    def _visit_instance(self, path: str, value: Any) -> None:
        if type(value) is MEMO:
            self.keep(MemoKept(path, value))
        if randomness.is_array(value):
            self._reach.arrays.append((path, value))
        elif issubclass(type(value), torch.nn.Module) or not is_machinery(value):
            if not self._visit_attributes(path, value):
                self.close(path, value)
        else:
            self.close(path, value)

    def _visit_attributes(self, path: str, value: Any) -> bool:
        kind: Any = type(value)
        own, slots = attributes_of(value), slots_of(kind)
        if own is not None:
            parts = _torch.MODULE_PARTS if issubclass(kind, torch.nn.Module) else ()
            self._later((path, own[name]) for name in parts if name in own)
            rest = ((f"{path}.{label_of(n)}", child) for n, child in list(own.items()) if n not in parts)
            self.keep(DictKept(path, own), rest)
        if slots:
            kept = SlotsKept(path, value, slots)
            self.keep(kept, ((f"{path}.{n}", child) for n, child in kept.then.items() if child is not MISSING))
        self._later(((looks.class_name(value), kind),) if is_user_class(kind) else ())
        return own is not None or bool(slots)


def forget_classes() -> None:
    """Let go of the classes that were looked at: a notebook's are defined anew all the time."""
    for known in (is_user_class, slots_of, _visit_of):
        known.cache_clear()


def _items(path: str, value: Iterable[Any]) -> Iterator[Found]:
    return ((f"{path}[{n}]", item) for n, item in enumerate(value) if type(item) not in ATOMS)


_Visit = Callable[[_Walker, str, Any], None]

_VISITS: tuple[tuple[Any, _Visit], ...] = (
    (torch.Tensor, _Walker.tensor),
    (torch.nn.Module, _Walker.module),
    (types.ModuleType, _Walker.pymodule),
    (type, _Walker.pyclass),
    (types.FunctionType, _Walker.function),
    (types.CellType, _Walker.cell),
    (partial, _Walker.application),
    ((types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType), _Walker.inside),
    ((staticmethod, classmethod, property), _Walker.inside),
    (logging.Handler, _Walker.handler),
    (CLOSED_TYPES, _Walker.close),
    (random.Random, _Walker.close),
    (dict, _Walker.mapping),
    ((list, deque), _Walker.sequence),
    ((bytearray, array.array), lambda walker, path, value: walker.keep(SequenceKept(path, value))),
    (set, _Walker.members),
    ((tuple, frozenset), _Walker.frozen),
    (types.MappingProxyType, _Walker.proxy),
)


@functools.lru_cache(maxsize=4096)
def _visit_of(kind: Any) -> _Visit | None:
    # By the type itself: `isinstance` would ask the object for its `__class__`, which can be the user's code.
    return next((visit for kinds, visit in _VISITS if issubclass(kind, kinds)), None)
