"""The state that a cell can reach, remembered before the first run and put back after each."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextlib import ExitStack
from contextlib import contextmanager
from functools import lru_cache
from functools import partial
from types import CodeType
from types import FunctionType
from types import ModuleType
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.state import libraries
from compile_magic.measure.state import process
from compile_magic.measure.state.arrays import ArrayKept
from compile_magic.measure.state.containers import DictKept
from compile_magic.measure.state.containers import NamesKept
from compile_magic.measure.state.contents import Contents
from compile_magic.measure.state.entered import LIBRARYS
from compile_magic.measure.state.entered import watched
from compile_magic.measure.state.graphs import guarded_graphs
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.loggers import LoggersKept
from compile_magic.measure.state.loggers import users_handlers
from compile_magic.measure.state.reach import Found
from compile_magic.measure.state.tensors import SparseKept
from compile_magic.measure.state.tensors import TensorKept
from compile_magic.measure.state.tensors import has_storage
from compile_magic.measure.state.walk import MOST_OBJECTS
from compile_magic.measure.state.walk import walker
from compile_magic.measure.state.writes import UnrepeatableError
from compile_magic.measure.state.writes import Writes

# So many times after a watched run `restore` looks at everything, and not only at what is known to change.
_LOOKS = 4
_UNREACHED = "a tensor that no name of the notebook leads to"


class Snapshot:
    """What a cell can reach, as it was when this was made, and is put back in place: identities and addresses stay.

    Args:
        namespace: the names of the notebook.
        used: those that the cell uses, and the attributes that it uses.
        extra: more objects, by name.
    """

    def __init__(self, namespace: dict[str, Any], used: Iterable[str], extra: Mapping[str, Any] | None = None) -> None:
        self._walker = walker(namespace, {*used, "__warningregistry__"})
        self._names = NamesKept("", namespace, _own_names)
        self._kept: list[Kept] = [self._names]
        self._libraries: list[Kept] = []
        self.counters: dict[str, str] = {}
        self._tensors: list[TensorKept] = []
        self._versions: list[int] = []
        self._paths: dict[int, str] = {}
        self._contents = Contents()
        self._watch = _Watch(self._paths, self._contents)
        self.complete = True
        self.reach({**(extra or {}), **users_handlers(), **_hooks()}.items())
        tables = [DictKept(name, table) for name, table in _torch.registries()]
        flags = [NamesKept(path, held, partial(_these, names)) for path, held, names in _torch.global_hooks()]
        self._kept += [LoggersKept(), *tables, *flags]
        self._draws, self._settings = process.kept(process.DRAWS), process.kept(process.SETTINGS)
        self._known: dict[int, Kept] = {}
        self._drawn = False
        self._looks = 0

    def reach(self, extra: Iterable[Found]) -> None:
        """Remember what these lead to and was not remembered before."""
        found = self._walker.run(extra)
        self.complete = self.complete and found.complete
        with _torch.without_modes():
            tensors = [TensorKept(path, tensor) for path, tensor in found.tensors.values()]
            sparse = [SparseKept(t.path, t.tensor) for t in tensors if _torch.sparse_parts(t.tensor)]
            arrays = [ArrayKept(path, array) for path, array in found.arrays]
            self._kept += [*found.kept, *arrays, *tensors, *sparse]
            self._tensors += tensors
            self._versions += [_torch.version_of(t.tensor) for t in tensors]
            self._paths.update({id(t.tensor): t.path for t in tensors})
            self._watch.add(tensors)
            stored = [(t.path, t.tensor) for t in tensors if has_storage(t.tensor)]
            self._contents.add([*stored, *((kept.path, part) for kept in sparse for part in kept.parts)])

    # --- while it runs -----------------------------------------------------------------------------------------------

    def watching(self) -> AbstractContextManager[None]:
        """Return a context for a first run, in eager: each write is seen before it happens, or refused.

        Raises:
            UnrepeatableError: inside the context, from the op that is refused. It has not been done.
        """
        return self._watching()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._watch.begin()
        try:
            with ExitStack() as stack:
                # Under a mode Dynamo would give torch.cond up for good, and the user's next call of it would raise.
                stack.enter_context(torch.compiler.set_stance("force_eager"))
                stack.enter_context(guarded_graphs(self._watch.nodes, lambda tensor: self._paths.get(id(tensor))))
                stack.enter_context(Writes(self._watch))
                stack.enter_context(watched(self))
                yield
        finally:
            self._looks = _LOOKS
            self._look()

    def knows(self, value: object) -> bool:
        """Return whether an object is remembered, or is a plain value."""
        return self._walker.knows(value)

    def knows_code(self, code: CodeType) -> bool:
        """Return whether a function with this code is remembered."""
        return self._walker.knows_code(code)

    def found_function(self, function: FunctionType) -> None:
        """Remember what a function of the user's, which is about to run, leads to."""
        self.reach([(function.__name__, function)])

    def found_library(self, name: str) -> None:
        """Remember the state of a library, whose code is about to run."""
        self._remember(libraries.loaded(name))

    def found_module(self, name: str) -> None:
        """Remember the state of a module of a library, which was imported by the run."""
        self._remember([sys.modules[name]])

    def _remember(self, modules: list[ModuleType]) -> None:
        kept, users = libraries.kept(modules, self._walker.knows)
        self._libraries += kept
        self._kept += kept
        counts = [one.path for one in kept if isinstance(one, libraries.CountKept)]
        self.counters.update({path.rpartition(".")[2]: path for path in counts})
        self.reach(users)

    def settle(self) -> None:
        """Put back what a watched run has changed in libraries.

        Raises:
            UnrepeatableError: something of it can't be.
        """
        left = [kept.path for kept in self._libraries if _put_back(kept)]
        if left:
            raise UnrepeatableError(LIBRARYS.format(left[0]))

    def written(self) -> dict[str, torch.Tensor]:
        """Return, by path, the tensors that runs have changed or put in place of others, and all gradients.

        To be asked after a run and before the state is put back. The tensors are the live ones.
        """
        self._look()
        with _torch.without_modes():
            return {**self._changed(), **self._replaced(), **self._grads()}

    def _changed(self) -> dict[str, torch.Tensor]:
        pairs = zip(self._tensors, self._versions, strict=True)
        return {kept.path: kept.tensor for kept, version in pairs if self._is_new(kept, version)}

    def _replaced(self) -> dict[str, torch.Tensor]:
        librarys = {id(kept) for kept in self._libraries}
        others = [kept for kept in self._known.values() if kept is not self._names and id(kept) not in librarys]
        found = {path: value for kept in others for path, value in kept.replaced()}
        return {path: value for path, value in found.items() if isinstance(value, torch.Tensor)}

    def _grads(self) -> dict[str, torch.Tensor]:
        grads = [(kept.path, _torch.grad_of(kept.tensor)) for kept in self._tensors]
        return {f"{path}.grad": grad for path, grad in grads if grad is not None}

    def _is_new(self, kept: TensorKept, version: int) -> bool:
        written = has_storage(kept.tensor) and self._contents.is_written(kept.tensor)
        return written or _torch.version_of(kept.tensor) != version or kept.looks_elsewhere()

    @property
    def pure(self) -> bool:
        """Return whether, as seen so far, a run changes nothing but the names that it binds."""
        others = [kept for kept in self._known.values() if kept is not self._names]
        return not (others or self._contents.any_written or self._drawn)

    @property
    def drawn(self) -> bool:
        """Return whether, as seen so far, a run draws random numbers of the process."""
        return self._drawn

    @property
    def copied_bytes(self) -> int:
        """Return how much memory the copies of tensors take, on all devices together."""
        return self._contents.copied_bytes

    # --- putting back ------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Put back what runs are known to change. The first times after a watched run, look at everything for that."""
        if self._looks:
            self._looks -= 1
            self._look()
        with _torch.without_modes():
            for kept in [self._names, *self._known.values()]:
                _put_back(kept)
            self._contents.put_back()
        self._put_back_draws()

    def restore_all(self) -> tuple[str, ...]:
        """Put everything back, bit for bit, and return a line for each thing that could not be."""
        with _torch.without_modes():
            words = [line for kept in self._kept if (line := _put_back(kept))]
            words += [
                f"`{path}` was written by a run that was not watched, and its old values are gone"
                for path in self._contents.put_back_all()
            ]
        self._put_back_draws()
        words += [line for kept in self._settings if (line := _put_back(kept))]
        if not self.complete:
            words.append(f"the cell reaches more than {MOST_OBJECTS:,} objects, and what lies beyond was not looked at")
        return tuple(words)

    def _put_back_draws(self) -> None:
        for kept in self._draws:
            if kept.changed():
                self._drawn = True
                kept.put_back()

    def _look(self) -> None:
        """Find what has changed."""
        with _torch.without_modes():
            self._contents.look()
            self._known.update(
                (id(kept), kept)
                for kept in (*self._kept, *self._settings)
                if id(kept) not in self._known and kept.changed()
            )
        self._drawn = self._drawn or any(kept.changed() for kept in self._draws)


class _Watch:
    """Is told by the mode what the ops of a run take, write and give."""

    def __init__(self, paths: Mapping[int, str], contents: Contents) -> None:
        self._paths, self._contents = paths, contents
        self.nodes: dict[int, tuple[str, Any]] = {}
        self._looked_at: dict[int, str] = {}
        self._born: set[int] = set()
        self._strangers: set[int] = set()

    def add(self, tensors: list[TensorKept]) -> None:
        self.nodes.update({id(t.node): (t.path, t.node) for t in tensors if t.node is not None})
        bases = [(t.path, _torch.base_of(t.tensor)) for t in tensors]
        self._looked_at.update({id(base): path for path, base in bases if base is not None})

    def begin(self) -> None:
        self._born.clear()
        self._strangers.clear()

    # Memory that was alive before the run keeps its number all the time, so one that was born can't have got it.

    def taken(self, tensor: torch.Tensor) -> None:
        if has_storage(tensor):
            key = _torch.storage_key(tensor)
            if key not in self._born and not self._contents.knows(tensor):
                self._strangers.add(key)

    def given(self, tensor: torch.Tensor) -> None:
        if has_storage(tensor):
            key = _torch.storage_key(tensor)
            if key not in self._strangers and not self._contents.knows(tensor):
                self._born.add(key)

    def before_write(self, tensor: torch.Tensor, *, joins_graph: bool) -> None:
        for inner in _torch.inner_tensors(tensor).values():
            self.before_write(inner, joins_graph=False)
        if joins_graph:
            self._check_graph(tensor)
        if has_storage(tensor) and _torch.storage_key(tensor) not in self._born:
            self._copy(tensor)

    def _copy(self, tensor: torch.Tensor) -> None:
        path = self._paths.get(id(tensor), _UNREACHED)
        try:
            self._contents.before_write(path, tensor)
        except (MemoryError, RuntimeError) as error:
            size = tensor.untyped_storage().nbytes()
            raise UnrepeatableError(
                f"the cell writes into `{path}`, and there is no room for a copy of its {size / 1e9:.2g} GB to put back"
            ) from error

    def _check_graph(self, tensor: torch.Tensor) -> None:
        whole = _torch.base_of(tensor)
        for one in (tensor, whole):
            node = None if one is None else one.grad_fn
            if node is not None and id(node) in self.nodes:
                path = self.nodes[id(node)][0]
                raise UnrepeatableError(
                    f"`{path}`, which an earlier cell computed with gradients, is changed in place, and that changes "
                    f"its graph for good. Compute `{path}` in the benched cell, too"
                )
        path = self._looked_at.get(id(tensor if whole is None else whole), "")
        if path and not tensor.requires_grad:
            raise UnrepeatableError(
                f"values with gradients are written into the memory of `{path}`, a view, and that can't be undone. "
                f"Make `{path}` in the benched cell, too"
            )


def _hooks() -> dict[str, Any]:
    """Return what torch calls in all modules and optimizers, and with all that autograd saves."""
    tables = {f"{path}.{name}": held[name] for path, held, names in _torch.global_hooks() for name in names}
    return {**tables, "a hook on saved tensors": _torch.saved_tensor_hooks()}


def _these(names: Iterable[str], _: object) -> Iterable[str]:
    return names


def _own_names(namespace: dict[str, Any]) -> Iterable[str]:
    return [name for name in list(namespace) if _is_own(name)]


@lru_cache(maxsize=65536)
def _is_own(name: str) -> bool:
    # Without Dynamo's own names code that it has compiled raises a NameError. exec adds the builtins.
    return name != "__builtins__" and not _torch.dynamo_names({name: None})


def _put_back(kept: Kept) -> str:
    """Put back what has changed; return words if that does not work."""
    try:
        if kept.changed():
            kept.put_back()
            return f"`{kept.path}` could not be put back" if kept.changed() else ""
    except Exception as error:  # noqa: BLE001 - the rest is still put back, and this is said
        return f"`{kept.path}` could not be put back: {error}"
    return ""
