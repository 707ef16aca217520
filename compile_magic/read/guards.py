"""The guards of a compiled frame, from the tree that torch prints, each with words for a reader who never saw one."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from compile_magic.model import Guard
from compile_magic.model import Location
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places

_LEAF = re.compile(r"^[| ]*\+- (?P<kind>[A-Z][A-Z0-9_]+): (?P<text>.*)$")
PLACE = re.compile(r"  # (?:(?P<code>.*?)  # )?(?P<file>[^#]+?):(?P<line>\d+) in (?P<name>[^\s(]+)(?P<rest>.*)$")
_SOURCE = re.compile(r"(?:^|[^\w'\"\]])(?P<source>[LG](?:\[(?:'[^']*'|\"[^\"]*\")\])(?:\.\w+|\[[^\]]*\])*)")
_SHAPE = re.compile(r"\.(?:size|stride|storage_offset)$")
_KEY = re.compile(r"^list\(dict\.keys\((?P<owner>.+)\)\)\[(?P<number>\d+)\]$")
_TENSOR = re.compile(
    r"check_tensor\((?P<source>.+?), (?P<class>\w+), DispatchKeySet\((?P<keys>[^)]*)\), torch\.(?P<dtype>\w+), "
    r"device=(?P<index>\w+), requires_grad=(?P<grad>\w+), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]\)"
)
_TYPE = re.compile(r"type=<class '(?P<type>[^']+)'>")
_EQUALS = re.compile(r"^(?P<left>.+?) (?P<sign>==|!=|is not|is) (?P<right>.+)$")
_CONTAINS = re.compile(r"^(?P<no>not )?___dict_contains\((?P<key>.+?), (?P<owner>.+)\)$")
_NAMED = re.compile(r"\b(?P<scope>[LG])\[(?P<quote>['\"])(?P<name>.+?)(?P=quote)\]")
_STACK_VALUE = re.compile(r"___stack\d+")
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['(?P<name>[^']+)'\]")
# What Python keeps a function's defaults and closure under -> words.
_INSIDES = (
    (re.compile(r"(?P<x>[\w.]+)\.__defaults__\[(?P<n>\d+)\]"), r"default argument \g<n> of \g<x>"),
    (re.compile(r"(?P<x>[\w.]+)\.__kwdefaults__\['(?P<n>\w+)'\]"), r"the default of \g<n> in \g<x>"),
    (re.compile(r"(?P<x>[\w.]+)\.__closure__\[(?P<n>\d+)\]\.cell_contents"), r"closure variable \g<n> of \g<x>"),
)
_DEVICES = (("CUDA", "cuda"), ("XPU", "xpu"), ("MPS", "mps"), ("HPU", "hpu"), ("Meta", "meta"), ("CPU", "cpu"))

BEFORE_BREAK = "the value computed before the break"

# What the process, the interpreter or torch itself has to be like: nothing that a person changes to save a compile.
AMBIENT = frozenset(
    [
        "GLOBAL_STATE",
        "TORCH_FUNCTION_MODE_STACK",
        "TORCH_FUNCTION_STATE",
        "DEFAULT_DEVICE",
        "DIMENSION_DYNAMIC_MARKING_GUARD",
        "DYNAMIC_INDICES",
        "NO_DYNAMIC_INDICES",
        "DICT_VERSION",
        "NO_HASATTR",
        "HASATTR",
        "DICT_CONTAINS",
        "SET_CONTAINS",
        "WEAKREF_ALIVE",
        "DETERMINISTIC_ALGORITHMS",
        "GRAD_MODE",
        "FSDP_TRAINING_STATE",
        "GLOBAL_WEAKREF",
        "CLASS_MATCH",
        "MODULE_MATCH",
        "BUILTIN_MATCH",
        "FUNCTION_MATCH",
        "AUTOGRAD_SAVED_TENSORS_HOOKS",
        "TYPE_MATCH",
        "DISPATCH_KEY_SET_MATCH",
        "NOT_NONE",
        "DUAL_LEVEL",
        "FUNCTORCH_STACK_MATCH",
        "RANGE_ITERATOR_MATCH",
        "NAME_MATCH",
    ]
)


@dataclass(frozen=True)
class Leaf:
    """A line of the printed guard tree: its kind, its condition and what is said of where it came from."""

    kind: str
    expression: str
    place: str = ""


def read_leaves(payload: str) -> tuple[Leaf, ...]:
    """Read the printed guard tree.

    Raises:
        ValueError: there is no guard in it.
    """
    leaves = tuple(_leaves(payload))
    if not leaves:
        raise ValueError("a guard tree without a guard")
    return leaves


def _leaves(payload: str) -> Iterator[Leaf]:
    for line in payload.splitlines():
        match = _LEAF.match(line)
        if match:
            expression, mark, place = match["text"].partition("  # ")
            yield Leaf(match["kind"], expression.strip(), mark + place)


class Reader:
    """Turns leaves into guards. Equal places are looked at once: a large model repeats them thousands of times."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._known: dict[str, tuple[Location | None, bool]] = {}

    def guards(self, compile_id: str, leaves: tuple[Leaf, ...]) -> Iterator[Guard]:
        """Return the guards of one compiled frame."""
        for leaf in leaves:
            location, in_torch = self._place(leaf.place)
            source = source_of(leaf.expression)
            internal = is_internal(leaf.kind, leaf.expression, source, in_torch=in_torch)
            words = words_of(leaf.kind, leaf.expression)
            yield Guard(compile_id, leaf.kind, source, leaf.expression, location, words, internal)

    def _place(self, text: str) -> tuple[Location | None, bool]:
        if text not in self._known:
            match = PLACE.search(text)
            self._known[text] = self._located(match) if match else (None, False)
        return self._known[text]

    def _located(self, match: re.Match[str]) -> tuple[Location, bool]:
        file = self._places.full_name(match["file"].strip())
        frame = Frame(file, int(match["line"]), match["name"], (match["code"] or "").strip())
        return self._places.location(frame), self._places.owner(file) in ("torch", "compiler", "stdlib")


@lru_cache(maxsize=8192)
def source_of(expression: str) -> str:
    """Return the first input or global that a guard looks at, as torch writes it: `L['x']`."""
    match = _SOURCE.search(expression)
    return _SHAPE.sub("", match["source"]) if match else ""


@lru_cache(maxsize=8192)
def plain(expression: str) -> str:
    """Return an expression as a person would write it: `x` for `L['x']`, "the global w" for `G['w']`."""
    text = _NAMED.sub(lambda m: m["name"] if m["scope"] == "L" else f"the global {m['name']}", expression)
    text = _STACK_VALUE.sub(BEFORE_BREAK, text)
    if "._" not in text:
        return text
    for pattern, words in _INSIDES:
        text = pattern.sub(words, text)
    return _MEMBER.sub(lambda m: f".{m['name']}" if m["name"].isidentifier() else f"[{m['name']}]", text)


def is_internal(kind: str, expression: str, source: str, *, in_torch: bool) -> bool:
    """Return whether the guard is on something that a person can't change."""
    if expression.endswith((".training == True", ".training == False")) or "['lr'] ==" in expression:
        return False
    if kind == "TENSOR_MATCH":
        return not source.startswith("L[") or "._parameters[" in source or "._buffers[" in source
    if kind == "ID_MATCH":
        return in_torch or not source.startswith("L[") or (bool(_TYPE.search(expression)) and ".forward" in expression)
    if kind == "LAMBDA_GUARD":
        return not source.startswith("L[") or expression.startswith("not math.isnan")
    return in_torch or kind in AMBIENT or "__import_torch" in source or "__builtins" in source


def words_of(kind: str, expression: str) -> str:
    """Return what the guard asks for in plain English."""
    return WORDS.get(kind, _as_written)(expression)


def _as_written(expression: str) -> str:
    return plain(expression)


def _fixed(words: str) -> Callable[[str], str]:
    return lambda _: words


def _tensor(expression: str) -> str:
    match = _TENSOR.search(expression)
    if match is None:
        return plain(expression)
    sizes = re.sub(r"\bNone\b", "any", match["size"])
    grad = "requires grad" if match["grad"] == "True" else "no grad"
    return f"{plain(match['source'])} is {match['dtype']} [{sizes}], {device(match['keys'], match['index'])}, {grad}"


def tensor_facts(expression: str) -> dict[str, str]:
    """Return what a TENSOR_MATCH asks for, one entry for each property."""
    match = _TENSOR.search(expression)
    if match is None:
        return {expression: ""}
    named = {name: match[name] for name in ("class", "keys", "dtype", "index", "grad")}
    listed = ((name, n, text) for name in ("size", "stride") for n, text in enumerate(match[name].split(", ")))
    named.update({f"{name}({number})": text for name, number, text in listed})
    return {f"{match['source']}.{name}": value for name, value in named.items()}


def device(keys: str, index: str) -> str:
    """Return the device that a tensor's dispatch keys and index stand for."""
    names = [key.strip() for key in keys.split(",")]
    name = next((name for key, name in _DEVICES if key in names), "unknown device")
    return name if index in ("None", "") or name == "cpu" else f"{name}:{index}"


def _equals(expression: str) -> str:
    match = _EQUALS.match(expression)
    if match is None:
        return plain(expression)
    key = _KEY.match(match["left"])
    left = f"key {key['number']} of {plain(key['owner'])}" if key else plain(match["left"])
    return f"{left} is {'not ' * ('not' in match['sign'] or '!' in match['sign'])}{match['right']}"


def _length(expression: str) -> str:
    match = re.fullmatch(r"len\((?P<owner>.+)\) == (?P<count>\d+)", expression)
    return f"{plain(match['owner'])} has length {match['count']}" if match else _emptiness(expression)


def _emptiness(expression: str) -> str:
    return f"{plain(expression[4:])} is empty" if expression.startswith("not ") else plain(expression)


def _identity(expression: str) -> str:
    what = _TYPE.search(expression)
    name = plain(source_of(expression)) or "an object"
    if name.endswith(".__code__"):
        return f"{name.removesuffix('.__code__')} is the same function as before (by its code)"
    return f"{name} is the same {what['type'] if what else 'object'} as before"


def _type(expression: str) -> str:
    what = _TYPE.search(expression)
    return f"{plain(source_of(expression))} is of type {what['type']}" if what else plain(expression)


def _contains(expression: str) -> str:
    match = _CONTAINS.match(expression)
    if match is None:
        return plain(expression)
    return f"{plain(match['owner'])} has {'no ' if match['no'] else ''}key {match['key']}"


def _no_aliasing(expression: str) -> str:
    inside = expression.partition("(")[2].rstrip(")")
    return f"no two of these are the same tensor: {plain(inside)}" if inside else plain(expression)


def _symbolic(expression: str) -> str:
    if "saved_tensors_hooks" in expression:
        return "no saved-tensor hooks are set"
    return re.sub(r"\.(size|stride)\(\)\[(\d+)\]", r".\1(\2)", plain(expression))


WORDS: dict[str, Callable[[str], str]] = {
    "TENSOR_MATCH": _tensor,
    "EQUALS_MATCH": _equals,
    "CONSTANT_MATCH": _equals,
    "TRUE_MATCH": _equals,
    "FALSE_MATCH": _equals,
    "BOOL_MATCH": _equals,
    "NONE_MATCH": _equals,
    "LENGTH_CHECK": _length,
    "DICT_LENGTH": _length,
    "SEQUENCE_LENGTH": _length,
    "ID_MATCH": _identity,
    "TYPE_MATCH": _type,
    "DICT_CONTAINS": _contains,
    "NO_TENSOR_ALIASING": _no_aliasing,
    "LAMBDA_GUARD": _symbolic,
    "SYMBOLIC_SHAPE_GUARD": _symbolic,
    "SHAPE_ENV": _symbolic,
    "GLOBAL_STATE": _fixed("grad mode, autocast, default dtype and the determinism flags are as they were"),
    "TORCH_FUNCTION_MODE_STACK": _fixed("the same torch function modes are active"),
    "DEFAULT_DEVICE": _fixed("the default device is as it was"),
    "DIMENSION_DYNAMIC_MARKING_GUARD": _fixed("no dimension has been marked dynamic or static since"),
}
