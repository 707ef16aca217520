"""What the state of a cell looks like, by path, so that two moments can be compared and what differs be named.

Written apart from what remembers and puts back: a fault there shows here. Only what there is to look at is found by the
same walk. A fingerprint holds no object of the user's, plain values and checksums alone.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import logging
import random
import re
import signal
import sys
import threading
import types
import warnings
import zlib
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import NamedTuple

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.measure.state import process
from compile_magic.measure.state import randomness
from compile_magic.measure.state.contents import checksum
from compile_magic.measure.state.kept import MISSING
from compile_magic.measure.state.kinds import ATOMS
from compile_magic.measure.state.loggers import users_handlers
from compile_magic.measure.state.memos import MEMO
from compile_magic.measure.state.names import attribute_names
from compile_magic.measure.state.names import global_names
from compile_magic.measure.state.names import is_user_class
from compile_magic.measure.state.names import is_user_module
from compile_magic.measure.state.objects import Slot
from compile_magic.measure.state.objects import attributes_of
from compile_magic.measure.state.objects import cell_contents
from compile_magic.measure.state.objects import slots_of
from compile_magic.measure.state.tensors import has_storage
from compile_magic.measure.state.walk import walk
from compile_magic.run.files import is_user_file

# Bytes that are summed up at once where they have to be copied for that.
_CHUNK = 1 << 26
# Items of a list from which on it has one value as a whole, and letters of a text.
_LONG = 1_000
_LONG_TEXT = 200
# What Python and torch keep for themselves in what is the user's.
_OWN = frozenset({"__builtins__", "__warningregistry__", "__weakref__", "__dict__", "_abc_impl"})
# An address, or a hash of one: it says which object, and not what it is like.
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_LARGEST = 1 << 40
_MARKS = (*_torch.MARKS, "__dynamo")


class Look(NamedTuple):
    """What one object is like: its kind, and what it holds by label; without labels, by number.

    `tokens` says of each thing held which kind it is, or by which path it was reached first; `values` has the plain
    ones, None for others, and `ids` the identities of the others.
    """

    kind: str
    labels: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    ids: tuple[int, ...] = ()
    size: int = 0

    @classmethod
    def of_value(cls, kind: str, value: Any, size: int = 0) -> Look:
        """Return the look of what has one value as a whole."""
        return cls(kind, ("",), (_WHOLE,), (value,), (0,), size)


class Difference(NamedTuple):
    """What is otherwise, what it was and what it is now. `shape` says that it is a size, a kind or a name."""

    path: str
    was: str
    now: str
    shape: bool = True

    def __str__(self) -> str:
        """Say it in words."""
        return f"`{self.path}` was {self.was} and is {self.now}" if self.was else f"`{self.path}` has other values"


@dataclass(frozen=True)
class Fingerprint:
    """What there was at a moment, by path. An object that two paths lead to has the first; a path may have several.

    `compiled` says that code which the user has compiled is among it: how it runs is not how it runs in eager. `called`
    are the paths of what callbacks lead to that Python calls by itself, and not for the runs of a bench.
    """

    looks: Mapping[str, Sequence[Look]]
    counts: Mapping[str, int] = field(default_factory=dict)
    compiled: bool = False
    called: frozenset[str] = frozenset()

    def changes(self, now: Fingerprint, *, same_objects: bool) -> list[Difference]:
        """Return what is otherwise now. With `same_objects`, an equal object in the place of another is, too."""
        found: dict[str, Difference] = {}
        called = () if same_objects else (*self.called, *now.called)
        for path in dict.fromkeys((*self.looks, *now.looks)):
            then, since = self.looks.get(path, ()), now.looks.get(path, ())
            for difference in _differences(path, then, since, same_objects=same_objects):
                if not any(_is_of(difference.path, one) for one in called):
                    found.setdefault(difference.path, difference)
        return list(found.values())

    def __str__(self) -> str:
        """Say how much was looked at."""
        return ", ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for what, n in self.counts.items())


def _nothing(name: str) -> bool:
    return False


@dataclass(frozen=True)
class Looker:
    """Takes fingerprints of what is reached from names of a namespace, and of the process's own state.

    Args:
        namespace: the names of the notebook.
        used: those that the code uses, and the attributes that it uses.
        extra: more objects, by name.
        hidden: says of a name of the notebook that it is not the user's.
    """

    namespace: dict[str, Any]
    used: frozenset[str]
    extra: Mapping[str, Any] = field(default_factory=dict)
    hidden: Callable[[str], bool] = _nothing

    def __call__(self) -> Fingerprint:
        """Return what there is now."""
        # A default device is a mode, too.
        settings = [(one, kind, _read(one)) for one, kind in _aspects()]
        with _torch.without_modes():
            return _Looking(self).run(settings)


class _Looking:
    def __init__(self, asked: Looker) -> None:
        self._namespace = namespace = asked.namespace
        hidden, extra = (
            asked.hidden,
            {**asked.extra, **users_handlers(), "a hook of torch": _torch.saved_tensor_hooks()},
        )
        extra |= {f"{path}.{name}": held[name] for path, held, names in _torch.global_hooks() for name in names}
        # Without what IPython itself keeps, which is another one after each cell.
        self._names = [
            n for n in list(namespace) if not hidden(n) and n not in _OWN and not _torch.dynamo_names({n: None})
        ]
        self._reach = walk(namespace, {name for name in asked.used if not hidden(name)}, extra)
        self._paths = {id(value): path for path, value in self._reach.objects}
        self._memory: dict[int, str] = {}
        self._attributes = set(asked.used)
        self._globals: dict[int, tuple[str, dict[str, Any], set[str]]] = {}
        # A handler is closed, too, and keeps what it was given.
        closed = (value for _, value in self._reach.opaque if not isinstance(value, logging.Handler))
        self._closed = set(map(id, closed))
        self._skipped: set[int] = set()
        self._looks: dict[str, list[Look]] = {}
        self.counts = {"tensor": 0, "container": 0, "generator": 0}

    def run(self, settings: Sequence[tuple[process.Aspect, str, Any]]) -> Fingerprint:
        self._add("", self._held("names", {name: self._namespace.get(name) for name in sorted(self._names)}))
        for path, value in self._reach.objects:
            if id(value) not in self._skipped:
                self._visit(path, value)
        self._look_at_globals()
        for aspect, kind, value in settings:
            self._setting(aspect, kind, value)
        for name, logger in _loggers():
            kind = _LIBRARYS if name.partition(".")[0] in sys.modules else _LOGGER
            self._add(f"the logger {name}", Look.of_value(kind, logger))
        for path, held, names in _torch.global_hooks():
            self._add(path, self._held(_TABLE, {name: held.get(name) for name in names}))
        for name, table in _torch.registries():
            by_label = {self._label(key): child for key, child in table.items()}
            self._add(name, self._held(_TABLE, {key: by_label[key] for key in sorted(by_label)}))
        compiled = any(_is_compiled(value) for _, value in self._reach.objects)
        return Fingerprint(self._looks, self.counts, compiled, frozenset(self._called()))

    def _called(self) -> Iterator[str]:
        """Yield the paths of what callbacks of the user's lead to."""
        reach = walk(self._namespace, (), {**users_handlers(), "callbacks": _callbacks()})
        for _, value in reach.objects:
            if id(value) in self._paths:
                yield self._paths[id(value)]
            if issubclass(type(value), types.FunctionType) and _is_users_code(value):
                yield f"the callback {value.__name__}"
                yield from global_names(value.__code__) if value.__globals__ is self._namespace else ()

    def _add(self, path: str, look: Look) -> None:
        self._looks.setdefault(path, []).append(look)

    def _visit(self, path: str, value: Any) -> None:
        kind: Any = type(value)
        view = _view_of(kind)
        look = view(self, value) if view is not None else self._instance(value)
        if look is None:
            return
        self._add(path, look)
        own = attributes_of(value) if view is not None and view in _WITH_ATTRIBUTES else None
        if own:
            self._add(path, self._held("attributes", _kept(own)))

    # --- what something holds ----------------------------------------------------------------------------------------

    def _held(self, kind: str, held: Mapping[str, Any]) -> Look:
        values = list(held.values())
        return Look(kind, tuple(held), *self._parts(values), len(values))

    def _items(self, kind: str, values: Sequence[Any]) -> Look:
        if len(values) > _LONG:
            whole = _as_a_whole(values)
            if whole is not None:
                return Look.of_value(kind, whole, len(values))
        return Look(kind, (), *self._parts(values), len(values))

    def _parts(self, values: Sequence[Any]) -> tuple[tuple[str, ...], tuple[Any, ...], tuple[int, ...]]:
        atoms = [type(value) in ATOMS for value in values]
        pairs = list(zip(values, atoms, strict=True))
        return (
            tuple(type(value).__name__ if atom else self._token(value) for value, atom in pairs),
            tuple(_plain(value) if atom else None for value, atom in pairs),
            tuple(0 if atom else id(value) for value, atom in pairs),
        )

    def _token(self, value: Any) -> str:
        path = self._paths.get(id(value))
        return f"→{path}" if path is not None else _kind(value)

    # --- kinds -------------------------------------------------------------------------------------------------------

    def tensor(self, value: torch.Tensor) -> Look:
        self.counts["tensor"] += 1
        parts = [type(value).__name__, value.dtype, value.device, type(value.grad_fn).__name__]
        parts += ["requires_grad"] if value.requires_grad else []
        parts += [] if value.is_nested else [tuple(value.shape)]
        if value.layout == torch.strided and not value.is_nested:
            parts += [value.stride(), value.storage_offset()]
        held = self._held(" ".join(map(str, parts)), {"grad": _torch.grad_of(value)})
        whole = Look.of_value("", digest_of(value))
        return Look(
            held.kind,
            (*held.labels, *whole.labels),
            (*held.tokens, self._memory_of(value)),
            (*held.values, *whole.values),
            (*held.ids, *whole.ids),
        )

    def _memory_of(self, value: torch.Tensor) -> str:
        if not has_storage(value) or value.device.type == "meta":
            return _WHOLE
        path = self._paths.get(id(value), "")
        return f"{_MEMORY}{self._memory.setdefault(_torch.storage_key(value), path)}"

    def _array(self, value: Any) -> Look:
        self.counts["tensor"] += 1
        kind = f"{type(value).__name__} {value.dtype} {value.shape} {value.strides}"
        # Of objects, the bytes are addresses.
        return Look.of_value(kind, None if value.dtype.hasobject else zlib.crc32(value.tobytes()))

    def mapping(self, value: dict[Any, Any]) -> Look:
        self.counts["container"] += 1
        kept = _kept(value)
        look = self._items(_kind(value), list(kept.values()))
        labels = tuple(map(self._label, kept))
        if look.tokens == (_WHOLE,) and len(kept) > _LONG:
            return look._replace(values=((*look.values, hash(labels)),))
        return look._replace(labels=labels)

    def _label(self, key: object) -> str:
        return f"[{repr(_plain(key)) if type(key) in ATOMS else self._token(key)}]"

    def sequence(self, value: Any) -> Look:
        self.counts["container"] += 1
        return self._items(_kind(value), list(value))

    def members(self, value: Any) -> Look:
        self.counts["container"] += 1
        plain = sorted(repr(_plain(item)) for item in value if type(item) in ATOMS)
        others = [item for item in value if type(item) not in ATOMS]
        kind, kinds = f"{_kind(value)} of {_items(len(value))}", sorted(map(self._token, others))
        return Look(kind, ("", ""), (_WHOLE, ", ".join(kinds)), (tuple(plain), None), tuple(sorted(map(id, others))))

    def plain_memory(self, value: Any) -> Look:
        self.counts["container"] += 1
        return Look.of_value(_kind(value), zlib.crc32(bytes(value)), len(value))

    def pymodule(self, value: types.ModuleType) -> Look | None:
        own, functions = vars(value), (types.FunctionType, types.ModuleType)
        if is_user_module(value):
            names = [name for name in _kept(own) if not name.startswith("__")]
        else:
            names = [name for name in self._attributes & set(own) if isinstance(own[name], functions)]
        return self._held("module", {name: own[name] for name in sorted(names)})

    def pyclass(self, value: type) -> Look | None:
        if not is_user_class(value):
            return None
        return self._held("class", _kept(looks.class_attributes(value)))

    def function(self, value: types.FunctionType) -> Look:
        code = value.__code__
        self._hide_own(value)
        if is_user_file(code.co_filename):
            self._attributes |= attribute_names(code)
            if value.__globals__ is not self._namespace:
                held = value.__globals__
                _, _, names = self._globals.setdefault(id(held), (value.__module__ or "", held, set()))
                names |= global_names(code)
        defaults = {f"default {n}": each for n, each in enumerate(value.__defaults__ or ())}
        more = {f"default {name}": each for name, each in (value.__kwdefaults__ or {}).items()}
        return self._held(f"function {value.__name__}", {**defaults, **more, **_kept(vars(value))})

    def _hide_own(self, value: types.FunctionType) -> None:
        """Leave out what torch keeps on a function when it first disables the compiler for it.

        The attributes are looked at with the function, and not as a dict once more.
        """
        self._skipped.add(id(vars(value)))
        for name, own in vars(value).items():
            if name.startswith("__dynamo"):
                cells = getattr(own, "__closure__", None) or ()
                inner = (own, vars(own), *cells, *map(cell_contents, cells))
                self._skipped |= {id(each) for each in inner if each is not value}

    def _look_at_globals(self) -> None:
        for owner, held, names in self._globals.values():
            kept = {name: held[name] for name in sorted(names) if name in held}
            self._add(owner, self._held("names", _kept(kept)))

    def cell(self, value: types.CellType) -> Look:
        content = cell_contents(value)
        return self._held(_CLOSURES, {} if content is MISSING else {"": content})

    def source(self, value: Any) -> Look:
        self.counts["generator"] += 1
        source = next(source for source in randomness.SOURCES if source.is_one(value))
        return Look.of_value(_kind(value), _digest(source.read(value)))

    def memo(self, value: Any) -> Look:
        return Look.of_value("cache", f"{value.cache_info().currsize} results")

    def _instance(self, value: Any) -> Look | None:
        if randomness.is_array(value):
            return self._array(value)
        if any(source.is_one(value) for source in randomness.SOURCES):
            return self.source(value)
        if id(value) in self._closed:
            return Look(_kind(value))
        own = attributes_of(value) or {}
        if looks.class_name(value).startswith("Weak"):
            # When it loses its items is up to the garbage collector.
            self._skipped |= {id(child) for child in own.values()}
            return Look(_kind(value))
        kind: Any = type(value)
        kept = {**{name: _slot(slot, value) for name, slot in slots_of(kind).items()}, **_kept(own)}
        return self._held(_kind(value), {str(name): child for name, child in kept.items() if child is not MISSING})

    # --- the process -------------------------------------------------------------------------------------------------

    def _setting(self, aspect: process.Aspect, kind: str, value: Any) -> None:
        if isinstance(value, dict):
            # A bench hears of interrupts itself. Registries of warnings are made when they are looked for.
            digests = {key: _digest(each) for key, each in value.items() if key is not signal.SIGINT}
            value = {key: each for key, each in digests.items() if each != ((), ())}
        self.counts["generator"] += kind != _SETTING and value is not None
        self._add(aspect.name, Look.of_value(kind, _digest(value)))


_View = Callable[[_Looking, Any], "Look | None"]
_WITH_ATTRIBUTES: tuple[_View, ...] = (_Looking.tensor, _Looking.mapping, _Looking.sequence, _Looking.members)
_VIEWS: tuple[tuple[Any, _View], ...] = (
    (torch.Tensor, _Looking.tensor),
    (types.ModuleType, _Looking.pymodule),
    (type, _Looking.pyclass),
    (types.FunctionType, _Looking.function),
    (types.CellType, _Looking.cell),
    ((torch.Generator, random.Random), _Looking.source),
    (MEMO, _Looking.memo),
    (dict, _Looking.mapping),
    ((list, deque, tuple), _Looking.sequence),
    ((bytearray, array.array), _Looking.plain_memory),
    ((set, frozenset), _Looking.members),
)


@functools.lru_cache(maxsize=4096)
def _view_of(kind: Any) -> _View | None:
    return next((view for kinds, view in _VIEWS if issubclass(kind, kinds)), None)


def forget_views() -> None:
    """Let go of the classes that were looked at."""
    _view_of.cache_clear()


# --- values ----------------------------------------------------------------------------------------------------------

_WHOLE, _MEMORY = "as a whole", "the memory of "
# What may be there at one moment and not at another: a library makes loggers when it is imported, and what is a
# variable of the cell for one way to run it is one of a closure for another.
_LIBRARYS, _CLOSURES = "a library's logger", "variable of a closure"
_SETTING, _TABLE, _LOGGER = "setting", "table", "logger"
# What the bench itself and IPython set while the cell runs, so that it is compared only before it does.
_SET_AROUND = frozenset({_SETTING, _TABLE, _LOGGER, _LIBRARYS})
_PARTS = ("level", "propagate", "disabled")
_LISTS = ("handlers", "filters")
_BY_VALUE = frozenset({int, float, bool, type(None)})


def _is_compiled(value: Any) -> bool:
    called = issubclass(type(value), (types.FunctionType, torch.nn.Module))
    return called and _torch.compiled_original(value) is not None


def _kind(value: Any) -> str:
    return looks.qualified_name(type(value))


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"


def _kept(held: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return what is the user's in a dict: compiling marks modules and tensors, and takes the marks off."""
    pairs = dict.items(held) if isinstance(held, dict) else held.items()
    return {key: child for key, child in pairs if not (type(key) is str and (key in _OWN or key.startswith(_MARKS)))}


def _slot(slot: Slot, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def _plain(value: Any) -> Any:
    """Return a plain value so that it can be compared: NaN is itself, and a long text its hash."""
    kind = type(value)
    if kind is float:
        return value if value == value else "nan"  # noqa: PLR0124 - NaN alone is not
    if kind in _BY_VALUE:
        return value
    if kind in (str, bytes):
        return value if len(value) <= _LONG_TEXT else (len(value), hash(value))
    # The parts of a slice can be anything.
    return kind.__name__ if kind in (slice, types.CodeType) else repr(value)


def _as_a_whole(values: Sequence[Any]) -> Any:
    """Return one value for many plain ones, None if some are not."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return zlib.crc32(array.array("d", values))
    return hash(tuple(values)) if kinds <= {int, str, bool, bytes, type(None)} else None


def _digest(value: Any) -> Any:
    """Return a value that the state of a generator or a setting can be compared by."""
    if isinstance(value, torch.Tensor):
        return digest_of(value)
    if randomness.is_array(value):
        return zlib.crc32(value.tobytes())
    if isinstance(value, dict):
        # In a registry of warnings, it is the number of the filters as of which that is right.
        return tuple((_digest(key), _digest(child)) for key, child in value.items() if key != "version")
    if isinstance(value, (list, tuple)):
        whole = _as_a_whole(value) if len(value) > _LONG_TEXT else None
        return tuple(map(_digest, value)) if whole is None else whole
    if type(value) in ATOMS:
        return _plain(value)
    kind = type(value)
    return repr(value) if kind.__module__ == "decimal" else getattr(value, "__qualname__", kind.__qualname__)


def digest_of(tensor: torch.Tensor) -> Any:
    """Return a number that all but surely is another one if any value is; None for what has no memory to look at."""
    parts = _torch.sparse_parts(tensor)
    if parts:
        return tuple(map(digest_of, parts))
    if tensor.device.type == "meta" or not has_storage(tensor):
        return None
    try:
        with torch.inference_mode(mode=False):
            return functools.reduce(_sum_of, _memory(tensor), 0)
    except (RuntimeError, NotImplementedError):
        return None


def _memory(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the values of a tensor as plain memory: all at once where that is all of it, else copied in chunks."""
    size = tensor.element_size()
    if tensor.is_nested or tensor.untyped_storage().nbytes() <= tensor.numel() * size:
        yield torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        return
    plain = tensor.detach()
    rows = max(1, _CHUNK // max(1, size * plain[:1].numel())) if plain.dim() else 1
    for part in torch.split(plain, rows) if plain.dim() and not plain.is_contiguous() else [plain]:
        bytes_of = part.resolve_conj().resolve_neg().contiguous().view(-1)
        yield (bytes_of.view(torch.uint8) if part.dtype != torch.bool else bytes_of)


def _sum_of(total: Any, memory: torch.Tensor) -> Any:
    count = memory.numel() * memory.element_size()
    if not count:
        return total
    if memory.device.type == "cpu":
        return zlib.crc32((ctypes.c_char * count).from_address(memory.data_ptr()), total)
    plain = memory if memory.data_ptr() % 8 == 0 else memory.clone()
    return int(checksum(plain).item()) * 31 + total


def _aspects() -> Iterator[tuple[process.Aspect, str]]:
    yield from ((aspect, "generator") for aspect in process.DRAWS)
    yield from ((aspect, _SETTING) for aspect in process.SETTINGS)


def _read(aspect: process.Aspect) -> Any:
    try:
        return aspect.read()
    except (AttributeError, RuntimeError, OSError, NotImplementedError):
        return None


def _callbacks() -> list[Any]:
    """Return what Python calls by itself, as far as it may be the user's."""
    impl = getattr(warnings, "_showwarnmsg_impl", None)
    hooks = [sys.excepthook, sys.unraisablehook, threading.excepthook, warnings.showwarning, impl]
    return [each for each in (*gc.callbacks, *hooks) if type(each) is not types.FunctionType or _is_users_code(each)]


def _is_users_code(function: types.FunctionType) -> bool:
    return is_user_file(function.__code__.co_filename)


def _loggers() -> Iterator[tuple[str, str]]:
    """Yield each logger's name and what it does."""
    known = {"root": logging.root, **logging.root.manager.loggerDict}
    for name, logger in known.items():
        # Torch's trace has handlers that come and go as it is used.
        if isinstance(logger, logging.Logger) and name != _torch.TRACE_LOGGER:
            lists = (f"{part}: {', '.join(map(_kind, getattr(logger, part))) or 'none'}" for part in _LISTS)
            yield name, "; ".join([f"{part}: {getattr(logger, part)}" for part in _PARTS] + [*lists])


# --- comparing -------------------------------------------------------------------------------------------------------


def _differences(path: str, then: Sequence[Look], now: Sequence[Look], *, same_objects: bool) -> Iterator[Difference]:
    if path.startswith("an item of "):
        # The order of a set is that of addresses.
        then, now = sorted(then, key=repr), sorted(now, key=repr)
    kinds = {look.kind for look in (*then, *now)}
    if not same_objects and kinds <= _SET_AROUND:
        return
    if len(then) != len(now):
        if kinds != {_LIBRARYS} and (same_objects or _CLOSURES not in kinds):
            yield Difference(path, _all(then), _all(now))
        return
    for one, other in zip(then, now, strict=True):
        if one != other:
            yield from _between(path, one, other, same_objects=same_objects)


def _between(path: str, then: Look, now: Look, *, same_objects: bool) -> Iterator[Difference]:
    if then.kind != now.kind:
        yield Difference(path, then.kind, now.kind)
    elif then.labels == now.labels and then.size == now.size:
        for n in range(len(then.values)):
            yield from _part(path, then, now, n, same_objects=same_objects)
    elif {*then.labels, *now.labels} - {""}:
        yield from _names(path, then, now)
    else:
        yield Difference(path, f"of {_items(then.size)}", f"of {_items(now.size)}")


def _names(path: str, then: Look, now: Look) -> Iterator[Difference]:
    before, since = dict(zip(then.labels, then.tokens, strict=False)), dict(zip(now.labels, now.tokens, strict=False))
    found = [name for name in {**before, **since} if (name in before) != (name in since)]
    for name in found:
        yield Difference(_joined(path, then.kind, name), before.get(name, _NOTHING), since.get(name, _NOTHING))
    if not found:
        yield Difference(path, "in one order", "in another")


def _part(path: str, then: Look, now: Look, n: int, *, same_objects: bool) -> Iterator[Difference]:
    where = _joined(path, then.kind, then.labels[n] if then.labels else f"[{n}]")
    was, since = then.values[n], now.values[n]
    if then.tokens[n] != now.tokens[n]:
        yield Difference(where, _told(then.tokens[n], was), _told(now.tokens[n], since))
    elif was != since and (same_objects or _says(was) != _says(since)):
        whole = then.tokens[n].startswith((_WHOLE, _MEMORY)) or isinstance(was, tuple)
        yield Difference(where, "" if whole else _told("", was), "" if whole else _told("", since), shape=False)
    elif same_objects and then.ids[n : n + 1] != now.ids[n : n + 1]:
        yield Difference(where, "one object", "another one")


_NOTHING = "not there"


def _all(looks: Sequence[Look]) -> str:
    return " and ".join(look.kind for look in looks) or _NOTHING


def _is_of(path: str, owner: str) -> bool:
    return path == owner or path.startswith((f"{owner}.", f"{owner}["))


def _joined(path: str, kind: str, name: str) -> str:
    if not path or not name:
        return path or name
    return f"{path}{name}" if name.startswith("[") else f"{path}.{name}"


def _told(token: str, value: Any) -> str:
    if value is not None:
        return repr(value)[:60]
    return token.replace("→", "what is at ").replace("NoneType", "None")


def _says(value: Any) -> Any:
    """Return a plain value without what only says at which address something lies."""
    if type(value) is int and abs(value) > _LARGEST:
        return None
    return _ADDRESS.sub("", value) if type(value) is str else value
