"""Run the body of a cell in a shell's namespace, as IPython would, and give back the value of its last expression."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Sequence
from types import FrameType
from typing import Any

from compile_magic.notebook.cellfunction import needs_event_loop
from compile_magic.notebook.intercept import located
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


def displayed_last(body: Sequence[ast.stmt], interactivity: str) -> list[ast.stmt]:
    """Return the statements with one more for the name that the last one assigns, where the shell displays that too."""
    last = body[-1] if body and interactivity == "last_expr_or_assign" else None
    if isinstance(last, ast.Assign):
        target = last.targets[0] if len(last.targets) == 1 else None
    else:
        target = last.target if isinstance(last, (ast.AugAssign, ast.AnnAssign)) else None
    if last is None or not isinstance(target, ast.Name):
        return list(body)
    return [*body, located(ast.Expr(ast.Name(target.id, ast.Load())), last)]


def run_statements(tree: ast.Module, name: str, shell: Any, *, silent: bool) -> Any:
    """Run the statements of a cell under a file name, and return the value of the last one if it is an expression.

    As IPython does it: one after the other, and what is displayed on the way is displayed, unless it is `silent`.
    """
    __tracebackhide__ = True
    interactivity = "none" if silent else shell.ast_node_interactivity
    *statements, last = displayed_last(tree.body, interactivity) or [ast.Pass(lineno=1, col_offset=0)]
    for statement in statements:
        _run(statement, name, shell, single=interactivity == "all")
    if not isinstance(last, ast.Expr):
        return _run(last, name, shell, single=interactivity in ("all", "last"))
    value = eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)  # noqa: S307 - the user's cell
    return None if silent else value


def _run(statement: ast.stmt, name: str, shell: Any, *, single: bool) -> None:
    __tracebackhide__ = True
    tree = ast.Interactive([statement]) if single else ast.Module([statement], [])
    exec(shell.compile(tree, name, "single" if single else "exec"), shell.user_ns)  # noqa: S102 - the user's own cell


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
