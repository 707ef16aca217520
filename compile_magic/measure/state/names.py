"""Which names a piece of code uses, and which modules and classes are the user's own."""

from __future__ import annotations

import dis
import functools
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from types import CodeType
from types import FunctionType
from types import ModuleType
from typing import Any

from compile_magic import looks
from compile_magic.measure.state.containers import NamesKept
from compile_magic.run.files import is_user_file

_GLOBAL = ("_GLOBAL", "_NAME", "_FROM_DICT_OR_GLOBALS")
# In CPython's `Include/object.h`: the class was made by a class statement, or a call of `type`.
_HEAP_TYPE = 1 << 9


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


@functools.lru_cache(maxsize=4096)
def global_names(code: CodeType) -> frozenset[str]:
    """Return the globals that a code object and those inside of it read, set or delete."""
    return frozenset(
        str(step.argval)
        for one in _codes(code)
        for step in dis.get_instructions(one)
        if step.opname.endswith(_GLOBAL) and not step.opname.startswith("IMPORT")
    )


@functools.lru_cache(maxsize=4096)
def attribute_names(code: CodeType) -> frozenset[str]:
    """Return the names of the attributes and globals that a code object and those inside of it use."""
    return frozenset(name for one in _codes(code) for name in one.co_names)


def is_user_module(module: ModuleType) -> bool:
    """Return whether a module is the user's own."""
    file = vars(module).get("__file__")
    return isinstance(file, str) and is_user_file(file)


@functools.lru_cache(maxsize=4096)
def is_user_class(kind: Any) -> bool:
    """Return whether a class is the user's own: by its module, or by its methods where the module has no file."""
    if not looks.flags(kind) & _HEAP_TYPE:
        return False
    if looks.module_name(kind) == "__main__":
        return True
    module: Any = sys.modules.get(looks.module_name(kind))
    if getattr(module, "__file__", None):
        return is_user_module(module)
    return any(
        is_user_file(value.__code__.co_filename)
        for value in looks.class_attributes(kind).values()
        if type(value) is FunctionType
    )


# What of a library's module may be exchanged by the user and is nothing that the library sets itself when it is used.
_EXCHANGED = (FunctionType, ModuleType)


def _is_exchanged(value: object) -> bool:
    # A guard of ours stands in the module while the first run goes on, and must never be what is put back.
    ours = type(value) is FunctionType and str(value.__module__).startswith("compile_magic.")
    return issubclass(type(value), _EXCHANGED) and not ours


class UsedNames:
    """Which names of namespaces and modules the code that was found so far uses.

    Args:
        namespace: the names of the notebook, which are looked after as a whole by others.
        used: the names and attributes that the cell uses.
    """

    def __init__(self, namespace: dict[str, Any], used: frozenset[str]) -> None:
        self._namespace = namespace
        self._attributes = set(used)
        self._modules: list[tuple[str, ModuleType]] = []
        self._libraries: list[tuple[str, ModuleType]] = []
        self._seen: dict[int, tuple[str, dict[str, Any], set[str]]] = {}
        self._kept: defaultdict[int, set[str]] = defaultdict(set)

    def add_module(self, path: str, module: ModuleType) -> None:
        """Take note of a module of the user's."""
        self._modules.append((path, module))

    def add_library(self, path: str, module: ModuleType) -> None:
        """Take note of a library's module: a cell may put functions of its own in the place of the library's."""
        self._libraries.append((path, module))

    def in_function(self, function: FunctionType) -> list[tuple[str, Any]]:
        """Return path and value of the globals that a function uses and that were not given before."""
        self._attributes |= attribute_names(function.__code__)
        return self._look(function.__module__ or "", function.__globals__, global_names(function.__code__))

    def in_modules(self) -> list[tuple[str, Any]]:
        """Return path and value of what is used of the user's modules and was not given before, and used modules."""
        mine = [item for path, module in self._modules for item in self._look(path, vars(module), self._of(module))]
        theirs = [item for path, module in self._libraries for item in self._look(path, vars(module), self._in(module))]
        return [*mine, *(item for item in theirs if isinstance(item[1], ModuleType))]

    def _in(self, module: ModuleType) -> frozenset[str]:
        own = vars(module)
        return frozenset(name for name in self._attributes & set(own) if _is_exchanged(own[name]))

    def _of(self, module: ModuleType) -> frozenset[str]:
        named = self._attributes & set(vars(module))
        # Where the attributes that the cell uses are not known, any can be.
        return frozenset(named or {name for name in vars(module) if not name.startswith("__")})

    def _look(self, owner: str, held: dict[str, Any], names: frozenset[str]) -> list[tuple[str, Any]]:
        prefix = "" if held is self._namespace else f"{owner}."
        _, _, seen = self._seen.setdefault(id(held), (owner, held, set()))
        new = names - seen
        seen |= new
        return [(f"{prefix}{name}", held[name]) for name in sorted(new) if name in held]

    def kept(self) -> list[NamesKept]:
        """Return those names that were not returned before, remembered, of each dict but the notebook's."""
        others = [one for one in self._seen.values() if one[1] is not self._namespace]
        found = [(path, held, frozenset(names - self._kept[id(held)])) for path, held, names in others]
        for _, held, names in found:
            self._kept[id(held)] |= names
        return [NamesKept(path, held, partial(_given, names)) for path, held, names in found if names]


def _given(names: frozenset[str], _: object) -> frozenset[str]:
    return names
