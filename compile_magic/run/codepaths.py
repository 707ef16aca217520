"""What code refers to, as dotted paths: `torch.compiler.is_compiling`, `self.rng.uniform`, `perf_counter`."""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import linecache
import sys
from collections.abc import Iterator
from types import CodeType
from types import FrameType

from compile_magic.read.cellcode import is_cells_own
from compile_magic.run.files import is_user_file

_NAMES = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST_CHECK"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_BETWEEN = frozenset({"CACHE", "PUSH_NULL", "EXTENDED_ARG", "NOP"})
# What runs the statement of a %timeit, and of a %time.
_TIMEIT, _TIME = "<magic-timeit>", ("magics/execution.py", "time")


def paths(code: CodeType) -> Iterator[str]:
    """Yield each name that a code object loads, with the attributes that are taken from it."""
    path: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in _ATTRIBUTES and path:
            path.append(str(instruction.argval))
        elif instruction.opname not in _BETWEEN:
            if path:
                yield ".".join(path)
            path = [str(instruction.argval)] if instruction.opname in _NAMES else []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from paths(inner)


def callers() -> Iterator[CodeType]:
    """Yield the code of the user's that is running now, innermost first, and that of a magic that takes a time."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - who calls is found on the stack alone
    in_cell = True
    while frame is not None:
        code = frame.f_code
        if (in_cell and is_user_file(code.co_filename)) or is_timing(code):
            yield code
        if in_cell and is_cells_own(code.co_name) and is_user_file(code.co_filename):
            # What runs the notebook is no part of the cell.
            in_cell = False
            # IPython compiles each statement of a cell by itself.
            yield from _whole(code.co_filename, "".join(linecache.getlines(code.co_filename)))
        frame = frame.f_back


@functools.lru_cache(maxsize=4)
def _whole(file: str, text: str) -> list[CodeType]:
    with contextlib.suppress(SyntaxError, ValueError):
        return [compile(text, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)]
    return []


def is_timing(code: CodeType) -> bool:
    """Return whether this is code of %timeit or %time."""
    where, name = _TIME
    file = code.co_filename.replace("\\", "/")
    return file == _TIMEIT or (file.endswith(where) and code.co_name == name)
