"""What a printed FX graph says: its ops, the shapes of its inputs, and the user's lines that it was made from."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

from compile_magic.read.frames import Frame

_FILE = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d+) in (?P<name>[^,]*), code: ?(?P<code>.*)$", re.MULTILINE)
# "f32[8, 4][4, 1]cpu": dtype and sizes, then strides and device, which a reader of shapes doesn't want.
_SHAPE = re.compile(r"^(?P<shape>[A-Za-z]\w*\[[^\]]*\])")

_OVERLOAD = re.compile(r"^torch\.ops\.\w+\.(?P<name>\w+)\.\w+$")

_NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.MatMult: "matmul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.BitAnd: "and_",
    ast.Invert: "invert",
    ast.USub: "neg",
    ast.UAdd: "pos",
    ast.Not: "not_",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "contains",
    ast.NotIn: "contains",
}


@dataclass(frozen=True)
class Printed:
    """A graph as `print_readable` writes it, read."""

    ops: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()


def read_graph(text: str) -> Printed:
    """Read a printed graph.

    Raises:
        ValueError: it isn't Python, or has no `forward`.
    """
    frames = tuple(Frame(m["file"], int(m["line"]), m["name"].strip(), m["code"].strip()) for m in _FILE.finditer(text))
    forward = _forward(text)
    counted = Counter(name for statement in forward.body for name in _op(statement))
    return Printed(dict(counted), dict(_shapes(forward)), frames)


def _forward(text: str) -> ast.FunctionDef:
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"the printed graph is no Python: {error}") from None
    # The first class is the whole graph; those after it, or in it, are the bodies of its higher-order ops.
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            return node
    raise ValueError("the printed graph has no forward")


def _op(statement: ast.stmt) -> Iterator[str]:
    """Yield the name of the op that a line makes; none for the names, attributes and clean-ups between the ops."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) else None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        yield "setitem"
    elif isinstance(statement, ast.AugAssign):
        yield "i" + _NAMES.get(type(statement.op), "op")
    elif isinstance(value, ast.Call):
        yield from _call(value)
    elif isinstance(value, ast.Subscript):
        yield "getitem"
    elif isinstance(value, ast.Attribute) and not ast.unparse(value).startswith("self."):
        yield "getattr"
    elif isinstance(value, ast.BinOp):
        yield _NAMES.get(type(value.op), "op")
    elif isinstance(value, ast.Compare):
        yield _NAMES.get(type(value.ops[0]), "op")
    elif isinstance(value, ast.UnaryOp) and not isinstance(value.operand, ast.Constant):
        yield _NAMES.get(type(value.op), "op")


def _call(call: ast.Call) -> Iterator[str]:
    path = ast.unparse(call.func)
    # `getattr(self, "0")` is how an attribute is printed whose name is no identifier; fx_pytree unpacks the inputs.
    if path == "getattr" and ast.unparse(call.args[0]).startswith("self"):
        return
    if path.startswith("fx_pytree."):
        return
    overload = _OVERLOAD.match(path)
    yield overload["name"] if overload else path.rsplit(".", 1)[-1]


def _shapes(forward: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for argument in forward.args.args:
        note = argument.annotation
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            match = _SHAPE.match(note.value)
            yield _source_name(argument.arg), match["shape"] if match else note.value


def _source_name(name: str) -> str:
    """Return `x` for the placeholder `L_x_`."""
    match = re.fullmatch(r"[LG]_(?P<name>.+?)_?", name)
    return match["name"] if match else name
