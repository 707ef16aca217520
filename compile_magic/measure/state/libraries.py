"""State of libraries: what their modules and classes hold, remembered when their code is first entered.

It is put back by the same means as the user's own. What can't be is told after the first run, so that a cell which
changes it is not repeated.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
import types
import weakref
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from compile_magic.measure.state.containers import DictKept
from compile_magic.measure.state.containers import SequenceKept
from compile_magic.measure.state.containers import SetKept
from compile_magic.measure.state.kept import MISSING
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.kept import label
from compile_magic.measure.state.kinds import ATOMS
from compile_magic.measure.state.kinds import CLOSED_TYPES
from compile_magic.measure.state.kinds import is_machinery
from compile_magic.measure.state.names import is_user_class
from compile_magic.measure.state.objects import CellKept
from compile_magic.measure.state.objects import SlotsKept
from compile_magic.measure.state.objects import attributes_of
from compile_magic.measure.state.objects import cell_contents
from compile_magic.measure.state.objects import slots_of
from compile_magic.measure.state.reach import Found
from compile_magic.measure.state.writes import UnrepeatableError
from compile_magic.run.files import is_user_file

# What runs the notebook and its tests, the compiler's own packages, and those whose state is remembered elsewhere.
_TORCHS = {"torch", "torchgen", "functorch", "triton", "numpy", "sympy", "mpmath", "typing_extensions"}
_NOTEBOOKS = {
    *("compile_magic", "IPython", "ipykernel", "ipywidgets", "traitlets", "zmq", "tornado", "jupyter_client"),
    *("jupyter_core", "matplotlib_inline", "comm", "debugpy", "pydevd", "nest_asyncio", "psutil", "stack_data"),
    *("executing", "asttokens", "pure_eval", "prompt_toolkit", "pygments", "jedi", "parso", "decorator"),
}
_TESTS = {"_pytest", "pytest", "pluggy", "coverage", "hypothesis", "_distutils_hack", "setuptools", "pkg_resources"}
_LEFT = frozenset(_TORCHS | _NOTEBOOKS | _TESTS)
# Modules of Python's own with state that a cell may set; those with other means are in `process`.
_PYTHONS = frozenset(
    {"calendar", "csv", "email", "html", "http", "json", "mimetypes", "string", "unittest", "urllib", "uuid", "xml"}
)
# matplotlib, pandas and scipy have 20,000 to 40,000 objects each and take half a second to two.
_MOST_OBJECTS = 200_000
_MOST_SECONDS = 5.0
_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, weakref.ref)
# What Python itself enters into modules and classes.
_PYTHONS_OWN = frozenset({"__warningregistry__", "__builtins__", "__annotations__", "__cached__", "__slotnames__"})


@lru_cache(maxsize=1024)
def is_watched(package: str) -> bool:
    """Return whether the state of a package is looked after."""
    if package in _PYTHONS:
        return True
    return bool(package) and package not in _LEFT and package not in sys.stdlib_module_names and package != "__main__"


class AttributesKept(Kept):
    """The names in a module or class of a library. Modules and threads that a run has begun go on."""

    def __init__(self, path: str, held: types.ModuleType | type) -> None:
        self.path, self._held, self._then = path, held, dict(vars(held))

    def _changed(self) -> list[str]:
        now, then = vars(self._held), self._then
        if now.keys() == then.keys() and all(now[name] is value for name, value in then.items()):
            return []
        names = [name for name in now.keys() | then.keys() if name not in _PYTHONS_OWN]
        return [n for n in names if now.get(n, MISSING) is not then.get(n, MISSING) and not _stays(now.get(n, MISSING))]

    def changed(self) -> bool:
        """Return whether it is different now."""
        return bool(self._changed())

    def put_back(self) -> None:
        """Make it what it was, in place."""
        kind: Any = type if isinstance(self._held, type) else object
        for name in self._changed():
            if name in self._then:
                kind.__setattr__(self._held, name, self._then[name])
            else:
                kind.__delattr__(self._held, name)


def _stays(value: object) -> bool:
    return issubclass(type(value), (types.ModuleType, threading.Thread))


class CountKept(Kept):
    """A counter of `itertools`, which can be read and not set."""

    def __init__(self, path: str, held: Any) -> None:
        self.path, self._held, self._then = path, held, repr(held)

    def changed(self) -> bool:
        """Return whether it is different now."""
        return repr(self._held) != self._then

    def put_back(self) -> None:
        """Say that this can't be.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("it is a counter that nobody can set")


def loaded(package: str) -> list[types.ModuleType]:
    """Return the modules of a package that are imported, whole."""
    named = [(n, m) for n, m in list(sys.modules.items()) if n == package or n.startswith(f"{package}.")]
    return [module for _, module in named if isinstance(module, types.ModuleType) and not _begins(module)]


def _begins(module: types.ModuleType) -> bool:
    """Return whether a module is being imported: most of its names are still to come."""
    return bool(getattr(vars(module).get("__spec__"), "_initializing", False))


def kept(modules: list[types.ModuleType], knows: Callable[[object], bool]) -> tuple[list[Kept], list[Found]]:
    """Return what modules of a package hold, remembered, and what of the user's they lead to.

    Args:
        modules: the modules.
        knows: tells whether an object is remembered already.

    Raises:
        UnrepeatableError: it is too much.
    """
    looking = _Looking(knows)
    if not looking.run(modules):
        raise UnrepeatableError(
            f"the cell calls `{modules[0].__name__}`, a library with more state than can be looked at. Do that in a "
            "cell of its own and bench the rest"
        )
    return looking.found, looking.users


class _Looking:
    def __init__(self, knows: Callable[[object], bool]) -> None:
        self._knows = knows
        self._seen: dict[int, Any] = {}
        self._todo: deque[Found] = deque()
        self._packages: set[str] = set()
        self.found: list[Kept] = []
        self.users: list[Found] = []

    def run(self, modules: list[types.ModuleType]) -> bool:
        """Look at what modules hold, and return whether that was all."""
        deadline = time.perf_counter() + _MOST_SECONDS
        self._packages = {module.__name__.partition(".")[0] for module in modules}
        # The interpreter's own, to which libraries have references.
        every = [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
        self._seen.update({id(own): own for own in (*map(vars, every), *vars(sys).values())})
        for module in modules:
            self.found.append(AttributesKept(module.__name__, module))
            self._later((f"{module.__name__}.{name}", value) for name, value in list(vars(module).items()))
        while self._todo and len(self._seen) < _MOST_OBJECTS and time.perf_counter() < deadline:
            path, value = self._todo.popleft()
            if id(value) in self._seen or self._knows(value):
                continue
            self._seen[id(value)] = value
            self._later(self._children(path, value))
        return not self._todo

    def _later(self, children: Iterable[Found]) -> None:
        self._todo.extend((path, value) for path, value in children if type(value) not in ATOMS)

    def _children(self, path: str, value: Any) -> Iterator[Found]:
        kind: Any = type(value)
        if issubclass(kind, types.FunctionType):
            yield from self._of_function(path, value)
        elif issubclass(kind, (staticmethod, classmethod)):
            yield path, value.__func__
        elif issubclass(kind, type):
            yield from self._of_class(path, value)
        elif is_user_class(kind):
            self.users.append((path, value))
        elif issubclass(kind, (types.ModuleType, torch.Tensor, *CLOSED_TYPES, *_WEAK)) or is_machinery(value):
            return
        else:
            yield from self._of_object(path, value, kind)

    def _of_function(self, path: str, value: types.FunctionType) -> Iterator[Found]:
        if is_user_file(value.__code__.co_filename):
            self.users.append((path, value))
            return
        for cell in value.__closure__ or ():
            self.found.append(CellKept(path, cell))
            yield path, cell_contents(cell)
        yield from ((path, default) for default in value.__defaults__ or ())
        yield path, vars(value)

    def _of_class(self, path: str, value: type) -> Iterator[Found]:
        if is_user_class(value):
            self.users.append((path, value))
        elif str(value.__module__).partition(".")[0] in self._packages:
            self.found.append(AttributesKept(path, value))
            yield from ((f"{path}.{name}", child) for name, child in list(vars(value).items()))

    def _of_object(self, path: str, value: Any, kind: Any) -> Iterator[Found]:
        if issubclass(kind, dict):
            self.found.append(DictKept(path, value))
            yield from ((f"{path}[{label(key)}]", child) for key, child in list(dict.items(value)))
        elif issubclass(kind, (list, deque)):
            self.found.append(SequenceKept(path, value))
            yield from ((f"{path}[{n}]", child) for n, child in enumerate(list(value)))
        elif issubclass(kind, set):
            self.found.append(SetKept(path, value))
            yield from ((f"an item of {path}", child) for child in list(value))
        elif issubclass(kind, (tuple, frozenset)):
            yield from ((path, child) for child in value)
        elif issubclass(kind, itertools.count):
            self.found.append(CountKept(path, value))
        yield from self._of_attributes(path, value, kind)

    def _of_attributes(self, path: str, value: Any, kind: Any) -> Iterator[Found]:
        own, slots = attributes_of(value), slots_of(kind)
        if own is not None:
            self.found.append(DictKept(path, own))
            yield from ((f"{path}.{name}", child) for name, child in list(own.items()))
        if slots:
            held = SlotsKept(path, value, slots)
            self.found.append(held)
            yield from ((f"{path}.{name}", child) for name, child in held.then.items() if child is not MISSING)
