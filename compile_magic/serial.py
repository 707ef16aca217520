"""Turn frozen dataclasses into plain dicts and back, leniently.

Fields that the class doesn't know are ignored and fields that are absent take their default, so that a
file written by a newer version still loads.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return `value` as dicts, lists and scalars that `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no number for these.
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def from_plain(cls: type[T], plain: Mapping[str, Any]) -> T:
    """Build the dataclass `cls` from what `to_plain` wrote.

    Raises:
        ValueError: `plain` is not a mapping, or lacks a field that has no default.
    """
    if not isinstance(plain, Mapping):
        raise ValueError(  # noqa: TRY004 - the file is wrong, not the caller's type
            f"expected the fields of {cls.__name__}, got {type(plain).__name__}"
        )
    hints: dict[str, Any] = _hints(cls)  # type: ignore[arg-type]  # a type is hashable
    known = {name: _convert(hints[name], plain[name]) for name in hints if name in plain}
    try:
        return cls(**known)
    except TypeError as error:
        raise ValueError(f"this is no {cls.__name__}: {error}") from None


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _convert(hint: Any, value: Any) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if value is None:
        return None
    if origin in (types.UnionType, typing.Union):
        return _convert(next(arg for arg in args if arg is not type(None)), value)
    if origin is tuple:
        return tuple(_convert(args[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _convert(args[1], item) for key, item in value.items()}
    return from_plain(typing.cast("type", hint), value) if dataclasses.is_dataclass(hint) else _scalar(hint, value)


def _scalar(hint: Any, value: Any) -> Any:
    """Return a scalar, with "inf", "-inf" and "nan" as the numbers that they stand for."""
    if hint is not float or not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return math.nan
