"""Run the body of a cell in a shell's namespace, as IPython would, and give back the value of its last expression."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from types import FrameType
from typing import Any

from compile_magic.notebook.cellfunction import needs_event_loop
from compile_magic.read.cellcode import is_cells_own


def caller_frames() -> list[FrameType]:
    """Return the frames that led here, innermost first."""
    frames, frame = [], sys._getframe(1)  # noqa: SLF001 - the only way to a frame that keeps its namespace
    current: FrameType | None = frame
    while current is not None:
        frames.append(current)
        current = current.f_back
    return frames


def cell_frame(namespace: dict[str, Any]) -> FrameType | None:
    """Return the frame of the cell that is running, None if none is."""
    frames = caller_frames()
    return next((f for f in frames if f.f_globals is namespace and is_cells_own(f.f_code.co_name)), None)


def parsed(shell: Any, head: str, body: str, *, single: bool) -> tuple[str, ast.Module]:
    """Return the file name and the tree of a body that was given to a magic, as the shell's transformers leave it.

    Args:
        shell: the IPython shell.
        head: the line of the magic as the user wrote it.
        body: what follows; with `single`, a statement in the line of the cell that is running.
        single: see there.

    Raises:
        ValueError: the statement can't be read, or the body needs an event loop.
        SyntaxError: the body can't be read.
    """
    frame = cell_frame(shell.user_ns)
    source = shell.transform_cell(body)
    if single and frame is not None:
        name, padding = frame.f_code.co_filename, frame.f_lineno - 1
    else:
        number = len(shell.history_manager.input_hist_parsed) - 1
        name, padding = shell.compile.cache(f"# {head}\n{source}", number, raw_code=f"{head}\n{body}"), 1
    try:
        tree = shell.compile.ast_parse("\n" * padding + source, filename=name)
    except SyntaxError as error:
        if single:
            raise ValueError(f"can't read the statement {body!r}: {error.msg}") from None
        raise error.with_traceback(None) from None
    if needs_event_loop(tree):
        raise ValueError(f"top-level await works where {head.split(maxsplit=1)[0]} is the first line of a typed cell")
    transformed: ast.Module = shell.transform_ast(tree)
    return name, transformed


def run_statements(tree: ast.Module, name: str, shell: Any) -> Any:
    """Run the statements of a cell under a file name, and return the value of the last one if it is an expression."""
    __tracebackhide__ = True
    *statements, last = tree.body or [ast.Pass(lineno=1, col_offset=0)]
    if not isinstance(last, ast.Expr):
        exec(shell.compile(tree, name, "exec"), shell.user_ns)  # noqa: S102 - the user's own cell
        return None
    exec(shell.compile(ast.Module(statements, []), name, "exec"), shell.user_ns)  # noqa: S102
    return eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)  # noqa: S307


_NO_CODE = {tokenize.ENDMARKER, tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}


def ends_with_semicolon(source: str) -> bool:
    """Return whether the value of the last expression is not to be shown."""
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            last = last if token.type in _NO_CODE else token.string
    except (tokenize.TokenError, SyntaxError):
        return False
    return last == ";"
