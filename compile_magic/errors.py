"""The errors that compile_magic raises on purpose, and what keeps its other ones away from the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


class CompileBudgetExceeded(RuntimeError):  # noqa: N818 - the name says what happened
    """More breaks, recompiles or graphs than the caller allows.

    Raised by `ExplainReport.check` and by `--max-breaks`, `--max-recompiles` and `--max-graphs`, after the
    cell has run and its report is shown.
    """


class TargetError(ValueError):
    """A target that can't be compiled, with one line that says why and what to do."""


def guarded(
    step: Callable[..., _Result],
    *arguments: object,
    tell: Callable[[str], object],
    default: _Result,
    **named: object,
) -> _Result:
    """Take a step of our own, which must never replace what a cell gives or raises.

    What it raises is told in one sentence, and `default` is returned.
    """
    try:
        return step(*arguments, **named)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - this is the one place that keeps our faults from the user's cell
        tell(
            f"compile_magic failed in `{step.__name__}`: {said(error)}. "
            "The cell itself ran as usual. Please report this with the cell."
        )
        return default


def said(error: BaseException) -> str:
    """Return the type and the words of an exception, as the last line of a traceback has them."""
    return f"{type(error).__name__}: {words_of(error)}"


def words_of(error: BaseException) -> str:
    """Return what an exception says; the user's may raise another one when they are asked."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - Python's own tracebacks let nothing through here either
        return "<exception str() failed>"
