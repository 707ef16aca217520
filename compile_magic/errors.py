"""The errors that compile_magic raises on purpose."""

from __future__ import annotations


class CompileBudgetExceeded(RuntimeError):  # noqa: N818 - the name says what happened
    """More breaks, recompiles or graphs than the caller allows.

    Raised by `ExplainReport.check` and by `--max-breaks`, `--max-recompiles` and `--max-graphs`, after the
    cell has run and its report is shown.
    """


class TargetError(ValueError):
    """A target that can't be compiled, with one line that says why and what to do."""
