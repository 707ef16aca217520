"""What a compiled frame was made for, and a change in it, understood."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

from compile_magic.read.guards import Leaf
from compile_magic.read.guards import tensor_facts

_LOCAL = re.compile(r"\bL\[\s*['\"](?P<name>.*?)['\"]\s*\]")
EXTENT = re.compile(r"(?P<x>.+)\.(?P<what>size|stride)\((?P<index>\d+)\)")
_CONDITION = re.compile(r"\.(?:size|stride|storage_offset)\(\)")
_OBJECT = re.compile(r"^___check_(?P<what>type|obj)_id\((?P<x>.+?), (?P<id>\d+)\)(?:, type=<class '(?P<type>[^']+)'>)?")
_NAN = re.compile(r"__math_isnan\((?P<x>.+?)\)\)")


@dataclass(frozen=True)
class Facts:
    """What a compiled frame was made for: what each of its guards looks at -> what it asks for."""

    values: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)

    def get(self, what: str) -> str:
        """Return the value of an expression, "" if the frame doesn't depend on it."""
        found = self.values.get(what) or self.symbols.get(what) or ""
        # Of two sizes that are the same symbol, one is known only as equal to the other.
        found = self.symbols.get(found, found)
        # A number that has become a symbol: torch 2.11 writes it as an expression of its own.
        return self.symbols.get(f"___as_tensor({what}).item()", "") if "___" in found else found

    def keys_of(self, name: str) -> list[str]:
        """Return the keys of the dict `name`, in order."""
        start = f"list(dict.keys({name}))["
        return [value for what, value in self.values.items() if what.startswith(start)]

    def size(self, name: str, index: str, what: str = "size") -> str:
        """Return a size or stride of the tensor `name`; of a dynamic one, what it was when the frame was compiled."""
        fixed = self.values.get(f"{name}.{what}({index})", "None")
        return self.get(f"{name}.{what}()[{index}]") if fixed == "None" else fixed

    def is_tensor(self, name: str) -> bool:
        """Return whether `name` is known to be a tensor."""
        return any(f"{each}.dtype" in self.values for each in (name, self._twin(name)))

    def _twin(self, name: str) -> str:
        """Return the other name of a tensor that was passed twice: only one of them has guards of its own."""
        pairs = (key.split(" is ") for key in self.values if " is " in key)
        return next((pair[name == pair[0]] for pair in pairs if len(pair) == 2 and name in pair), name)  # noqa: PLR2004

    def told(self, name: str) -> str:
        """Return what is known of `name`: its value, else what it is, "" if nothing."""
        if self.is_tensor(name):
            return "a tensor"
        return self.get(name) or a_thing(self.get(f"type({name})"))

    def length(self, name: str) -> str:
        """Return the length of the list or dict `name`."""
        return "0" if f"not {name}" in self.values else self.get(f"len({name})")

    def distance(self, other: Facts) -> int:
        """Return in how many of the things that either asks for the two differ.

        A dynamic size is no difference: what failed of it is a condition.
        """
        both = (key for key in self.values.keys() | other.values.keys() if not _CONDITION.search(key))
        return sum(self._differs(other, key) for key in both)

    def _differs(self, other: Facts, key: str) -> bool:
        match = EXTENT.fullmatch(key)
        if match is None:
            return self.values.get(key) != other.values.get(key)
        dynamic = self.values.get(key) == "None"
        return not dynamic and self.values.get(key) != other.size(match["x"], match["index"], match["what"])


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
    """One way in which a guard fails: the text that torch prints of it, and how to say it.

    `example` is a small program in which torch compiles `f` again for this cause alone, "" where no torch at hand does;
    `words` is what is then said. In a program, `torch` is imported and `compiled` is the decorator
    `torch.compile(backend="eager")`.
    """

    name: str
    pattern: re.Pattern[str]
    read: Reading
    example: str = ""
    words: str = ""


def cause(name: str, pattern: str, read: Reading, example: str = "", words: str = "") -> Cause:
    """Return the entry of a registry of causes."""
    return Cause(name, re.compile(pattern), read, example, words)


def double(calls: str) -> str:
    """Return an example: calls of a compiled function of one tensor."""
    return f"@compiled\ndef f(x):\n    return x * 2\n\n{calls}\n"


def scaled(calls: str) -> str:
    """Return an example: calls of a compiled function of a tensor and something to multiply it with."""
    return f"@compiled\ndef f(x, a):\n    return x * a\n\nx = torch.ones(3)\n{calls}\n"


def facts(leaves: tuple[Leaf, ...], symbols: Mapping[str, str]) -> Facts:
    """Return what a compiled frame was made for, from its guards and the values that its symbols stood for."""
    values: dict[str, str] = {}
    for leaf in leaves:
        values.update(FACTS.get(leaf.kind, _equality)(bare(leaf.expression)))
    return Facts(values, {bare(source): value for source, value in symbols.items()})


def _equality(expression: str) -> dict[str, str]:
    left, _, right = expression.partition(" == ")
    return {left: right}


def _nothing(_expression: str) -> dict[str, str]:
    return {}


def _state(expression: str) -> dict[str, str]:
    try:
        told = json.loads(expression[expression.index("{") :])
    except ValueError:
        return {}
    return {f"global {name}": json.dumps(value) for name, value in told.items()}


def _object(expression: str) -> dict[str, str]:
    match = _OBJECT.match(expression)
    if match is None:
        return {expression: ""}
    known = {f"type({match['x']})": match["type"] or match["id"]}
    return {**known, f"id({match['x']})": match["id"]} if match["what"] == "obj" else known


def _nan(expression: str) -> dict[str, str]:
    match = _NAN.search(expression)
    return {match["x"] if match else expression: "nan"}


def _none(expression: str) -> dict[str, str]:
    return {expression.removesuffix(" is None"): "None"}


# A kind of guard -> what it tells of the things that it looks at. A dimension's marking says nothing that is asked for.
FACTS: dict[str, Callable[[str], dict[str, str]]] = {
    "TENSOR_MATCH": tensor_facts,
    "GLOBAL_STATE": _state,
    "TYPE_MATCH": _object,
    "ID_MATCH": _object,
    "FLOAT_IS_NAN": _nan,
    "NONE_MATCH": _none,
    "DIMENSION_DYNAMIC_MARKING_GUARD": _nothing,
}


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


def a_thing(kind: str) -> str:
    """Return "a list" or "an int" for the name of a type, "" for none."""
    short = kind.rsplit(".", 1)[-1]
    return f"{'an' if short[:1].lower() in 'aeiou' else 'a'} {short}" if short else ""
