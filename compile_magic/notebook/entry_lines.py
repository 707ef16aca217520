"""Tracebacks for a printer that takes the lines from the instructions.

Since Python 3.11 `inspect` and `traceback` read the line of an entry from the position of its instruction. An entry
that stands for several frames has the line of the innermost, and its own frame may have no instruction there.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

# Where there is no instruction, the line of the entry counts. Such a traceback must not be left to others: some look
# for the instruction before it until they find one.
_NO_INSTRUCTION = -1
# How many bytes an instruction has.
_UNIT = 2


@contextmanager
def by_entries(error: BaseException) -> Iterator[None]:
    """Let the entries' own lines count in an exception and those behind it, for as long as the block lasts."""
    before = [(link, traceback_of(link)) for link in links(error)]
    for link, traceback in before:
        set_traceback(link, by_entry(traceback))
    try:
        yield
    finally:
        for link, traceback in before:
            set_traceback(link, traceback)


def by_entry(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the instructions that are on another line than their entry."""
    result: TracebackType | None = None
    for entry in reversed(entries(traceback)):
        result = TracebackType(result, entry.tb_frame, _instruction(entry), entry.tb_lineno)
    return result


def entries(traceback: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback, outermost first."""
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


# What Python itself reads: a class of the user's may make anything of these names.
_CAUSE, _CONTEXT, _TRACEBACK = (vars(BaseException)[f"__{name}__"] for name in ("cause", "context", "traceback"))
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", None)


def links(error: BaseException) -> list[BaseException]:
    """Return an exception and those behind it: causes, contexts, and the parts of groups."""
    found: dict[int, BaseException] = {}
    waiting = [error]
    while waiting:
        link = waiting.pop()
        if id(link) not in found:
            found[id(link)] = link
            waiting += _behind(link)
    return list(found.values())


def _behind(link: BaseException) -> list[BaseException]:
    grouped = _GROUP is not None and issubclass(type(link), _GROUP)
    parts = vars(_GROUP)["exceptions"].__get__(link) if grouped else ()
    return [one for one in (_CAUSE.__get__(link), _CONTEXT.__get__(link), *parts) if one is not None]


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback."""
    found: TracebackType | None = _TRACEBACK.__get__(error)
    return found


def set_traceback(error: BaseException, traceback: TracebackType | None) -> None:
    """Give an exception a traceback."""
    _TRACEBACK.__set__(error, traceback)


def _instruction(entry: TracebackType) -> int:
    code: Any = entry.tb_frame.f_code
    if not hasattr(code, "co_positions"):
        return entry.tb_lasti
    lines = [position[0] for position in code.co_positions()]
    on_its_line = lines[entry.tb_lasti // _UNIT : entry.tb_lasti // _UNIT + 1] == [entry.tb_lineno]
    return entry.tb_lasti if on_its_line else _NO_INSTRUCTION
