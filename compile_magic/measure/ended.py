"""Tell what the work raises to end itself, `sys.exit()` and the like, from the interrupt of the user."""

from __future__ import annotations

import dis

from compile_magic.errors import said
from compile_magic.measure.state.writes import UnrepeatableError
from compile_magic.measure.uninterrupted import Presses


class EndedError(Exception):
    """The work has raised what is no `Exception`: for a bench a failure as any other."""


def as_error(error: BaseException) -> BaseException:
    """Return what a bench raises for what a run has raised: an `Exception`, unless the user or a guard stops it."""
    if isinstance(error, (Exception, UnrepeatableError)):
        return error
    if isinstance(error, KeyboardInterrupt) and not _is_raised_by_code(error):
        return error
    return EndedError(said(error))


def _is_raised_by_code(error: KeyboardInterrupt) -> bool:
    """Return whether a `raise` statement made it: a signal arrives between instructions, and never at that one."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None or isinstance(error.__context__, KeyboardInterrupt):
        return False
    if place.tb_frame.f_code is Presses.interrupt.__code__:
        # What raises for a signal, in the place of Python's own handler.
        return False
    return dis.opname[place.tb_frame.f_code.co_code[place.tb_lasti]] == "RAISE_VARARGS"
