"""What a run of the cell gave, copied at once: a later run may write over it, and a cudagraph's always does."""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from itertools import islice
from typing import Any

import torch

# Copies stand on the device of the results, beside those of three other runs.
MOST_BYTES = 256 * 2**20
# Elements of a result that has no place as a whole; one of 32 kB has always place.
SAMPLE = 4096
_MOST_RESULTS = 20_000
_DEEPEST = 20

Read = Callable[[torch.Tensor], torch.Tensor]
Parts = Iterable[tuple[str, Any]]


@dataclass(frozen=True)
class Result:
    """One tensor, array, number or None that a run gave.

    `kind` is "tensor", "array", "number" or "none"; `dtype` and `device` are those that the program sees, "" if it has
    none. `values` are its elements in row order, as one row; where `positions` is not None, only those at these
    positions of the row.
    """

    kind: str
    dtype: str = ""
    device: str = ""
    shape: tuple[int, ...] = ()
    values: torch.Tensor = field(default_factory=lambda: torch.empty(0, device="cpu"))
    positions: torch.Tensor | None = None


@dataclass(frozen=True)
class Results:
    """All results of a run by their path, like "out['loss']" or "losses[2]".

    `sampled` are the paths of which only some elements are kept, `unread` those that could not be copied, `left_out`
    how many results there were beyond those that were looked at.
    """

    found: Mapping[str, Result] = field(default_factory=dict)
    sampled: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    left_out: int = 0


def kept(values: Mapping[str, Any], *, read: Read | None = None, most_bytes: int = MOST_BYTES) -> Results:
    """Return a copy of everything comparable in `values`.

    Opened are tuples, lists, deques, dicts (a model output of transformers is one), dataclasses, sparse and nested
    tensors. Kept are tensors, NumPy arrays and scalars, numbers, truth values and None; a list of numbers alone is one
    result. Anything else is ignored: strings, sets, modules, optimizers, objects of other classes, whole numbers beyond
    64 bits.

    Args:
        values: path -> object.
        read: gives the values of a tensor; `Float64.value_of` after a float64 run.
        most_bytes: copied as a whole as far as they fit in here, in the order of `values`. Of the larger ones that
            don't fit, `SAMPLE` elements are kept, the same in every run.
    """
    taking = _Taking(read or (lambda tensor: tensor), most_bytes)
    leaves = _leaves(values.items(), ())
    with torch.no_grad():
        for path, value in islice(leaves, _MOST_RESULTS):
            taking.take(path, value)
        return taking.results(left_out=sum(1 for _ in leaves))


def positions(count: int) -> torch.Tensor:
    """Return the places that are kept of a row of `count` elements: drawn once for all, so alike in every run."""
    generator = torch.Generator("cpu").manual_seed(count % 2**31)
    drawn = torch.randint(0, count, (SAMPLE,), generator=generator, device="cpu")
    return torch.tensor(sorted(set(drawn.tolist())), device="cpu")


class _Taking:
    """Results so far, and the bytes that are left."""

    def __init__(self, read: Read, most_bytes: int) -> None:
        self._read, self._left = read, most_bytes
        self._found: dict[str, Result] = {}
        self._unread: list[str] = []

    def take(self, path: str, value: Any) -> None:
        try:
            self._found[path] = self._result(value)
        except Exception:  # noqa: BLE001 - a tensor subclass may raise anything; the other results are there
            self._unread.append(path)

    def results(self, left_out: int) -> Results:
        sampled = tuple(path for path, result in self._found.items() if result.positions is not None)
        return Results(self._found, sampled, tuple(self._unread), left_out)

    def _result(self, value: Any) -> Result:
        if value is None:
            return Result("none")
        if isinstance(value, torch.Tensor):
            return self._tensor("tensor", value, str(value.dtype).removeprefix("torch."))
        if _is_numpy(value):
            array = sys.modules["numpy"].array(value)
            return self._tensor("array", torch.from_numpy(array), f"numpy {array.dtype}")
        return Result("number", _type_of(value), "", _length_of(value), _row(value))

    def _tensor(self, kind: str, tensor: torch.Tensor, dtype: str) -> Result:
        where, shape = tensor.device.type, tuple(tensor.shape)
        if where == "meta":
            return Result(kind, dtype, where, shape)
        values = tensor.dequantize() if tensor.is_quantized else tensor
        if tensor.numel() > SAMPLE and tensor.numel() * tensor.element_size() > self._left:
            places = positions(tensor.numel())
            index = torch.unravel_index(places.to(tensor.device), tensor.shape)
            return Result(kind, dtype, where, shape, _copy(self._read(values)[index]), places)
        self._left -= tensor.numel() * tensor.element_size()
        return Result(kind, dtype, where, shape, _copy(self._read(values)))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    copied = tensor.detach().clone(memory_format=torch.contiguous_format)
    return copied.resolve_conj().resolve_neg().reshape(-1)


def _leaves(parts: Parts, inside: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield what stands in containers by its path; `inside` are those that we are in, so that a cycle has an end."""
    for path, value in parts:
        opened = _opened(value)
        if opened is None and _is_kept(value):
            yield path, value
        elif opened is not None and id(value) not in inside and len(inside) < _DEEPEST:
            yield from _leaves([(path + step, part) for step, part in opened], (*inside, id(value)))


def _is_kept(value: Any) -> bool:
    return value is None or isinstance(value, torch.Tensor) or _is_numpy(value) or _numbers(value)


def _opened(value: Any) -> Parts | None:
    """Return the parts of a container, each with what its path goes on with; None for what is no container."""
    for kinds, opener in OPENERS:
        if isinstance(value, kinds):
            return opener(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, torch.nn.Module)):
        return [(f".{one.name}", getattr(value, one.name, None)) for one in dataclasses.fields(value)]
    return None


def _of_sequence(value: Any) -> Parts | None:
    if _numbers(value):
        return None
    names = getattr(value, "_fields", None)
    steps = [f".{name}" for name in names] if names else [f"[{number}]" for number in range(len(value))]
    return list(zip(steps, value, strict=True))


def _of_dict(value: dict[Any, Any]) -> Parts:
    return [(f"[{_key(key, number)}]", part) for number, (key, part) in enumerate(value.items())]


def _key(key: Any, number: int) -> str:
    """Return a key as it is written, or its number where that may not be the same in the next run."""
    parts = key if type(key) is tuple else (key,)
    return repr(key) if all(isinstance(part, (str, int, float)) for part in parts) else f"key {number}"


def _of_tensor(value: torch.Tensor) -> Parts | None:
    if value.is_nested:
        return [(f"[{number}]", part) for number, part in enumerate(value.unbind())]
    if value.layout == torch.sparse_coo:
        value = value.coalesce()
        return [(".indices()", value.indices()), (".values()", value.values())]
    names = _COMPRESSED.get(value.layout)
    return [(f".{name}()", getattr(value, name)()) for name in names] if names else None


_BY_ROW = ("crow_indices", "col_indices", "values")
_BY_COLUMN = ("ccol_indices", "row_indices", "values")
_COMPRESSED = {
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}

OPENERS: tuple[tuple[Any, Callable[[Any], Parts | None]], ...] = (
    (torch.Tensor, _of_tensor),
    (dict, _of_dict),
    ((tuple, list, deque), _of_sequence),
)


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in tuple("biufc")


def _numbers(value: Any) -> bool:
    """Return whether this is a number, or a list of nothing but numbers, that fits in a tensor."""
    parts = value if isinstance(value, (list, tuple, deque)) else [value]
    return bool(len(parts)) and all(_is_number(part) for part in parts)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, (float, complex)) and not _is_numpy(value)


def _type_of(value: Any) -> str:
    parts = value if isinstance(value, (list, tuple, deque)) else [value]
    widest = next(kind for kind in (complex, float, int) if any(isinstance(part, kind) for part in parts))
    return "bool" if all(isinstance(part, bool) for part in parts) else widest.__name__


def _length_of(value: Any) -> tuple[int, ...]:
    return (len(value),) if isinstance(value, (list, tuple, deque)) else ()


_WIDEST = {"bool": torch.bool, "int": torch.int64, "float": torch.float64, "complex": torch.complex128}


def _row(value: Any) -> torch.Tensor:
    parts = list(value) if isinstance(value, (list, tuple, deque)) else [value]
    return torch.tensor(parts, dtype=_WIDEST[_type_of(value)], device="cpu")
