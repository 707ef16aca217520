"""What a compiled frame was made for, and a change in it, understood."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

from compile_magic.guards import Leaf
from compile_magic.guards import tensor_facts

_LOCAL = re.compile(r"\bL\[\s*['\"](?P<name>.*?)['\"]\s*\]")
# Says nothing that the frame depends on.
_MARKING = "DIMENSION_DYNAMIC_MARKING_GUARD"


@dataclass(frozen=True)
class Facts:
    """What a compiled frame was made for: what each of its guards looks at -> what it asks for."""

    values: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)

    def get(self, what: str) -> str:
        """Return the value of an expression, "" if the frame doesn't depend on it."""
        return self.values.get(what) or self.symbols.get(what) or ""

    def keys_of(self, name: str) -> list[str]:
        """Return the keys of the dict `name`, in order."""
        start = f"list(dict.keys({name}))["
        return [value for what, value in self.values.items() if what.startswith(start)]

    def distance(self, other: Facts) -> int:
        """Return in how many of the things that either asks for the two differ."""
        both = self.values.keys() | other.values.keys()
        return sum(self.values.get(key) != other.values.get(key) for key in both)


@dataclass(frozen=True)
class Change:
    """Why a guard failed: the cause, what changed, what was expected and found, and all that in plain English."""

    cause: str
    source: str = ""
    expected: str = ""
    actual: str = ""
    words: str = ""


# A failed guard's text, what the entry was made for, what the frame was compiled for instead -> the change.
Reading = Callable[["re.Match[str]", Facts, Facts], Change]


@dataclass(frozen=True)
class Cause:
    """One way in which a guard fails: the text that torch prints of it, and how to say it."""

    name: str
    pattern: re.Pattern[str]
    read: Reading


def cause(name: str, pattern: str, read: Reading) -> Cause:
    """Return the entry of a registry of causes."""
    return Cause(name, re.compile(pattern), read)


def facts(leaves: tuple[Leaf, ...], symbols: Mapping[str, str]) -> Facts:
    """Return what a compiled frame was made for, from its guards and the values that its symbols stood for."""
    values: dict[str, str] = {}
    for leaf in leaves:
        if leaf.kind == "TENSOR_MATCH":
            values.update(tensor_facts(bare(leaf.expression)))
        elif leaf.kind == "GLOBAL_STATE":
            values.update(_state(leaf.expression))
        elif leaf.kind != _MARKING:
            left, _, right = bare(leaf.expression).partition(" == ")
            values[left] = right
    return Facts(values, {bare(source): value for source, value in symbols.items()})


def _state(expression: str) -> dict[str, str]:
    try:
        told = json.loads(expression[expression.index("{") :])
    except ValueError:
        return {}
    return {f"global {name}": json.dumps(value) for name, value in told.items()}


def bare(expression: str) -> str:
    """Return an expression as torch writes it in a recompile reason: `x` for `L['x']`."""
    return _LOCAL.sub(r"\g<name>", expression)


def went(what: str, before: str, after: str) -> str:
    """Return the words for a property that is another now."""
    return f"{what} went from {before} to {after}" if after else f"{what} was {before}, now another"


def was(what: str, before: str, after: str) -> str:
    """Return the words for a thing that has another value now."""
    return f"{what} was {before}, now {after or 'another'}"


def plural(count: str, noun: str) -> str:
    """Return "1 key" or "2 keys"."""
    return f"{count} {noun}{'' if count == '1' else 's'}"
