"""Whether a cell can be run more than once: looked up before it runs. `guarded` looks on while it first runs."""

from __future__ import annotations

import ast
import io
import logging
import os
import socket
import sys
import types
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.state.arrays import can_copy
from compile_magic.measure.state.cobjects import is_stateful
from compile_magic.measure.state.cobjects import waits
from compile_magic.measure.state.effects import guarded
from compile_magic.measure.state.effects import originals
from compile_magic.measure.state.names import is_user_class
from compile_magic.measure.state.reach import Reach
from compile_magic.measure.state.walk import walk
from compile_magic.measure.state.writes import UnrepeatableError

__all__ = ["UnrepeatableError", "find_unrepeatable", "guarded"]

_APART = "in a cell of its own and bench the rest"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def find_unrepeatable(
    body: Sequence[ast.stmt],
    namespace: dict[str, Any],
    used: Iterable[str],
    extra: Mapping[str, Any] | None = None,
) -> str | None:
    """Return one line that says why a cell can't be run more than once, and what to do; None if nothing is seen.

    Args:
        body: the statements of the cell.
        namespace: the names of the notebook.
        used: those that the cell uses.
        extra: more objects, by name.
    """
    for look in _IN_THE_CODE:
        words = next((look(node, namespace) for node in _top_level(body) if look(node, namespace)), None)
        if words:
            return words
    attributes = {node.attr for statement in body for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    names = set(used)
    reach = walk(namespace, names | (attributes - set(namespace)), extra)
    return _process_group() or _open_mode() or _in_what_is_reached(body, reach)


# --- the code --------------------------------------------------------------------------------------------------------


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of what runs as part of the cell, not those inside of a function that it defines."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop(0)
        yield node
        if not isinstance(node, _SCOPES):
            todo[:0] = ast.iter_child_nodes(node)


def _awaits(node: ast.AST, _: Mapping[str, Any]) -> str | None:
    comprehension = isinstance(node, ast.comprehension) and node.is_async
    if comprehension or isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
        return f"The cell awaits at its top level, and what it waits for comes once. Put the `await` {_APART}"
    return None


_SHELL = {"run_line_magic": "%", "run_cell_magic": "%%", "system": "!", "getoutput": "!", "getoutputs": "!"}


def _calls_shell(node: ast.AST, _: Mapping[str, Any]) -> str | None:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHELL):
        return None
    owner = node.func.value
    if not (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "get_ipython"):
        return None
    first = node.args[0] if node.args else None
    text = str(first.value) if isinstance(first, ast.Constant) else ""
    return f"`{_SHELL[node.func.attr]}{text}` would run thousands of times. Put it {_APART}"


def _asks(node: ast.AST, namespace: Mapping[str, Any]) -> str | None:
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Name) and called.id == "input" and "input" not in namespace:
        return f"`input()` would ask in every run. Put it {_APART}"
    return None


_IN_THE_CODE: tuple[Callable[[ast.AST, Mapping[str, Any]], str | None], ...] = (_awaits, _calls_shell, _asks)


# --- what it reaches -------------------------------------------------------------------------------------------------


def _process_group() -> str | None:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        ranks = distributed.get_world_size()
        return (
            f"A process group of {ranks} ranks is up, and each would run the cell another number of times. Bench in one"
        )
    return None


def _open_mode() -> str | None:
    kinds: list[Any] = [type(mode) for mode in _torch.open_modes()]
    mine = next((kind.__name__ for kind in kinds if is_user_class(kind)), None)
    if mine is None:
        return None
    return f"`{mine}`, a mode that an earlier cell has entered, would see all that a bench does. Enter it in the cell"


def _is_iterator(value: Any) -> bool:
    """Return whether this gives each item once and keeps its place where nobody can put it back."""
    own = next((vars(kind)["__next__"] for kind in type(value).__mro__ if "__next__" in vars(kind)), None)
    return own is not None and not isinstance(own, types.FunctionType) and not isinstance(value, io.IOBase)


def _is_running(value: Any) -> bool:
    return isinstance(value, (types.CoroutineType, types.AsyncGeneratorType))


def _is_file(value: Any) -> bool:
    streams = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    on_disk = isinstance(value, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedReader, io.FileIO))
    return on_disk and not value.closed and not any(value is stream for stream in streams) and not _is_console(value)


def _is_console(value: Any) -> bool:
    return getattr(value, "name", "") in ("<stdout>", "<stderr>", "<stdin>")


def _is_memory_file(value: Any) -> bool:
    return isinstance(value, (io.BytesIO, io.StringIO))


def _logs_to_file(value: Any) -> bool:
    logger = logging.root if value is logging else value
    while isinstance(logger, logging.Logger):
        files = (handler for handler in logger.handlers if isinstance(handler, logging.FileHandler))
        if any(handler.baseFilename != os.devnull for handler in files):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _is_lazy(value: Any) -> bool:
    return torch.nn.parameter.is_lazy(value)


_ITERATOR = "is an iterator: a second run would take the next items"
_FILE = "is an open file: a second run would read or write further on in it"

KINDS: tuple[tuple[Callable[[Any], bool], str, str], ...] = (
    (waits, "works on what is outside of the notebook, or waits for it: every run would", "Put that " + _APART),
    (_is_iterator, _ITERATOR, "Put `{taken}` " + _APART),
    (_is_running, "is a coroutine or an asynchronous generator: it runs once", "Put it " + _APART),
    (_is_file, _FILE, "Put that " + _APART),
    (_is_memory_file, _FILE, "Put that " + _APART),
    (
        lambda value: isinstance(value, socket.socket),
        "is a socket: a second run would send again",
        "Put that " + _APART,
    ),
    (is_stateful, "is implemented in C and goes on from where it is, which can't be put back", "Put that " + _APART),
    (_logs_to_file, "logs to a file: every run would write to it", "Put that " + _APART),
    (_is_lazy, "has no shape yet: the first run would give it one", "Run the module once in a cell of its own"),
)


def _in_what_is_reached(body: Sequence[ast.stmt], reach: Reach) -> str | None:
    functions = originals()
    large = next((path for path, array in reach.arrays if not can_copy(array)), None)
    if large is not None:
        return (
            f"{_named(large)} is an array that there is no room to copy. Take out what the cell uses in an earlier one"
        )
    for path, value in (*reach.opaque, *reach.tensors.values()):
        for is_one, what, instead in KINDS:
            if is_one(value):
                return f"{_named(path)} {what}. {instead.format(taken=_taking(body, path))}"
        effect = functions.get(id(value))
        if effect is not None and isinstance(value, (types.BuiltinFunctionType, types.FunctionType)):
            name = f"{effect.module}.{effect.name}"
            return f"`{path}` is `{name}`, which a bench would call thousands of times. Put it {_APART}"
    return None


def _named(path: str) -> str:
    """Return a path as a sentence begins with it; one inside of something the user has named begins with that."""
    name = path.partition(".")[0].partition("[")[0]
    return f"`{path}`" if name == path else f"`{name}` holds `{path}`, which"


def _taking(body: Sequence[ast.stmt], path: str) -> str:
    """Return the statement of the cell that takes from an iterator, as the cell has it."""
    name = path.partition(".")[0].partition("[")[0]
    for statement in (node for node in _top_level(body) if isinstance(node, (ast.Assign, ast.Expr))):
        calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call) and node.args)
        if any(ast.unparse(call.func) == "next" and ast.unparse(call.args[0]).startswith(name) for call in calls):
            return ast.unparse(statement)
    return f"items = list({name})"
