"""Run the definitions at the head of a cell for the time of a bench; the cell itself makes them anew afterwards."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from dataclasses import dataclass
from types import CodeType
from typing import Any

from compile_magic import _torch
from compile_magic.measure.ended import as_error
from compile_magic.measure.reasons import reason
from compile_magic.measure.state.effects import guarded
from compile_magic.measure.state.snapshot import Snapshot
from compile_magic.measure.state.walk import forget_classes
from compile_magic.measure.state.writes import UnrepeatableError
from compile_magic.measure.work import AsItIs
from compile_magic.measure.work import CellWork
from compile_magic.notebook.cellfunction import CELL_FUNCTION
from compile_magic.notebook.cellfunction import name_nicely

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


@dataclass
class Head:
    """The definitions of a cell: `failed` says why they raised, `left_over` what could not be put back.

    `once` says that they can't be repeated.
    """

    statements: Sequence[ast.stmt]
    code: CodeType
    failed: str = ""
    once: bool = False
    left_over: tuple[str, ...] = ()


def split(statements: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the definitions at the head of a cell, which are run once and not timed, and the rest."""
    count = next((n for n, s in enumerate(statements) if not isinstance(s, _DEFINITIONS)), len(statements))
    return statements[:count], statements[count:]


@contextmanager
def set_up(
    head: Head, work: CellWork, used: frozenset[str], silenced: Callable[[], AbstractContextManager[Any]]
) -> Iterator[None]:
    """Run the definitions, and put back at the end what they have bound and changed."""
    namespace, before = work.namespace, dict(work.namespace)
    # A decorator, a base class or the body of a class may do anything.
    snapshot = None if all(map(_only_defines, head.statements)) else Snapshot(namespace, used)
    try:
        with silenced(), guarded(), snapshot.watching() if snapshot is not None else nullcontext():
            _run(head, work)
        yield
    except UnrepeatableError as error:
        head.failed, head.once = str(error), True
        yield
    finally:
        if snapshot is not None:
            head.left_over = snapshot.restore_all()
        _forget((head.code, work.code), namespace, before)


def _run(head: Head, work: CellWork) -> None:
    work.enter(AsItIs())
    try:
        exec(head.code, work.namespace)  # noqa: S102 - the user's own cell
        if CELL_FUNCTION in work.namespace:
            name_nicely(work.namespace[CELL_FUNCTION])
    except BaseException as error:
        found = as_error(error)
        if not isinstance(found, Exception):
            raise
        head.failed = f"the cell raises in eager: {reason(found)}"
    finally:
        work.leave()


def _forget(whole: Iterable[CodeType], namespace: dict[str, Any], before: dict[str, Any]) -> None:
    # Compiled as written, the functions of the cell have names in the notebook that nobody will use, and that torch
    # would keep for good: the cell is compiled anew to be run.
    codes = [inner for code in whole for inner in _inner(code)]
    codes += _torch.resume_codes(codes)
    _torch.forget_names(_torch.outputs_of(codes))
    for one in codes:
        _torch.forget_code(one)
    for name in set(namespace) - set(before) - _torch.dynamo_names(namespace):
        del namespace[name]
    # Those of Dynamo's that are gone went with their code, as in a `torch._dynamo.reset()` of the cell's.
    dynamos = _torch.dynamo_names(before)
    namespace.update({name: value for name, value in before.items() if name not in dynamos})
    # Classes are circular, and a class knows those that were derived from it.
    forget_classes()
    gc.collect()


def _inner(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _inner(const)


def _only_defines(statement: ast.stmt) -> bool:
    """Return whether a definition does nothing but bind its name."""
    if isinstance(statement, ast.Import):
        return all(alias.name in sys.modules for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return statement.module in sys.modules
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) or statement.decorator_list:
        return False
    defaults = (*statement.args.defaults, *filter(None, statement.args.kw_defaults))
    return all(isinstance(default, ast.Constant) for default in defaults)
