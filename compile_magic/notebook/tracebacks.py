"""Make the traceback of a compiled call look like that of a plain one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from itertools import groupby
from itertools import islice
from operator import itemgetter
from pathlib import Path
from types import CodeType
from types import TracebackType
from typing import Any

from compile_magic import _torch
from compile_magic.errors import words_of
from compile_magic.notebook.cellfunction import SHOWN_NAME
from compile_magic.notebook.entry_lines import entries
from compile_magic.notebook.entry_lines import links
from compile_magic.notebook.entry_lines import set_traceback
from compile_magic.notebook.entry_lines import traceback_of
from compile_magic.notebook.standing_in import is_hashable
from compile_magic.notebook.standing_in import stand_in
from compile_magic.read.cellcode import is_cells_own
from compile_magic.run.files import roots

# What FX calls the files of the code that it makes.
_GRAPH = "<eval_with_key>"
_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
# torch's own frames between the call and the user's code, relative to its folder.
_PLUMBING = (
    "_dynamo",
    "_functorch/_aot_autograd",
    "_functorch/aot_autograd.py",
    "_inductor",
    "_utils_internal.py",
    "_compile.py",
    "fx/graph_module.py",
    "fx/_lazy_graph_module.py",
)
# Whose a frame is: ours, the code's that FX has made of a graph, torch's plumbing, or the user's and his libraries'.
_OURS, _GRAPHS, _TORCHS, _OTHERS = "ours", "a graph's", "torch's", "others'"
_MADE = (_OURS, _GRAPHS)
# A frame in the stack trace that a node of a graph carries.
_TRACED = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>\S+)')
# What torch says of an `assert` without a message that it made part of a graph.
_NO_MESSAGE = "assertion error"
# So many parts of a list or dict are looked at for exceptions.
_MOST_PARTS = 1000


def clean(error: BaseException) -> BaseException:
    """Drop our frames and Dynamo's from an exception's traceback, and from those of the exceptions behind it."""
    for link in links(error):
        set_traceback(link, clean_traceback(traceback_of(link)))
    return error


def clean_bound(values: Iterable[Any]) -> None:
    """Clean the exceptions among what is bound in a notebook, also in lists, tuples and dicts, that have passed us."""
    where = roots().tool
    for value in values:
        # Not with `in`, which asks a class's own metaclass.
        is_sequence = type(value) is list or type(value) is tuple
        parts = value.values() if type(value) is dict else value if is_sequence else [value]
        for one in islice(parts, _MOST_PARTS):
            if not issubclass(type(one), BaseException):
                continue
            if any(_file(entry).startswith(where) for entry in entries(traceback_of(one))):
                clean(one)


def clean_handled() -> None:
    """Clean the exception that the caller's `except` has caught."""
    error = sys.exc_info()[1]
    if error is not None:
        clean(error)


def assertion_of(error: BaseException) -> AssertionError | None:
    """Return the AssertionError for which an `assert` of the user's, made part of a graph, has raised another error."""
    last = next((e for e in reversed(entries(error.__traceback__)) if _file(e).startswith(_GRAPH)), None)
    if last is None or not _torch.failed_node(last.tb_frame, last.tb_lineno)[0].startswith("_assert_async"):
        return None
    words = words_of(error)
    found = AssertionError(*([words] if words != _NO_MESSAGE else []))
    found.__context__ = error.__context__
    return found.with_traceback(clean_traceback(error.__traceback__))


def raised_in_graph(error: BaseException) -> bool:
    """Return whether an op of a graph has raised this: what the function does beside its ops comes after them."""
    return any(_file(entry).startswith(_GRAPH) for entry in entries(traceback_of(error)))


def clean_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without plumbing, with each part after a graph break joined to its function.

    One that hasn't passed us is that of a plain cell, torch's own frames with it.
    """
    all_entries = entries(traceback)
    kinds = [
        _kind(before, entry, after)
        for before, entry, after in zip([None, *all_entries], all_entries, [*all_entries[1:], None], strict=False)
    ]
    if _OURS not in kinds:
        return traceback
    shown = list(_without_plumbing(all_entries, kinds))
    kept, ours = [entry for entry, _ in shown], [is_ours for _, is_ours in shown]
    if not kept or (kept == all_entries and not any(_is_changed(entry, is_ours=is_ours) for entry, is_ours in shown)):
        return traceback
    return _chain(kept, ours, _lines_in_graphs(all_entries, kept))


def _without_plumbing(all_entries: list[TracebackType], kinds: list[str]) -> Iterator[tuple[TracebackType, bool]]:
    """Yield what a plain cell shows, and whether it ran in what we compile.

    Of torch's own frames these are those that lie between frames of the user's or a library's: what the user has
    disabled or compiled himself runs through such frames in a plain cell, too.
    """
    pairs = zip(kinds, all_entries, strict=True)
    runs = [(kind, [entry for _, entry in run]) for kind, run in groupby(pairs, itemgetter(0))]
    inside, ours, before = False, False, ""
    for (kind, run), after in zip(runs, [*(kind for kind, _ in runs[1:]), ""], strict=True):
        inside = inside or kind == _OURS
        between = before not in _MADE and after not in _MADE and (after or not inside)
        ours = kind == _OURS or (ours and not (kind == _TORCHS and between))
        if kind == _OTHERS or (kind == _TORCHS and between):
            yield from ((entry, ours) for entry in run)
        before = kind


def _is_changed(entry: TracebackType, *, is_ours: bool) -> bool:
    return (is_ours and _is_continuation(entry)) or not is_hashable(entry.tb_frame.f_code)


def _is_continuation(entry: TracebackType) -> bool:
    name = entry.tb_frame.f_code.co_name
    return name == SHOWN_NAME or _RESUME.fullmatch(name) is not None


def _lines_in_graphs(all_entries: list[TracebackType], kept: list[TracebackType]) -> dict[int, int]:
    """Return by position in `kept` the line that a function was on, where it failed inside a graph."""
    lines: dict[int, int] = {}
    position = -1
    for entry in all_entries:
        if position + 1 < len(kept) and entry is kept[position + 1]:
            position += 1
        elif position >= 0 and _file(entry).startswith(_GRAPH):
            line = _traced_line(entry, kept[position].tb_frame.f_code)
            lines.update({position: line} if line is not None else {})
    return lines


def _traced_line(graph: TracebackType, code: CodeType) -> int | None:
    name = (_RESUME.fullmatch(code.co_name) or ["", code.co_name])[1]
    traced = _TRACED.finditer(_torch.failed_node(graph.tb_frame, graph.tb_lineno)[1])
    found = [int(m["line"]) for m in traced if (m["file"], m["name"]) == (code.co_filename, name)]
    return found[-1] if found else None


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _kind(before: TracebackType | None, entry: TracebackType, after: TracebackType | None) -> str:
    frame, file = entry.tb_frame, _file(entry)
    where = roots()
    if file.startswith(where.tool) or (before is not None and _torch.is_enter(before.tb_frame.f_code)):
        return _OURS
    if file.startswith(_GRAPH):
        return _GRAPHS
    if after is not None and _file(after).startswith(where.tool) and frame.f_code.co_name == "_wrapped_call_impl":
        # The call of a module that is explained in place; inside ours it is called once more.
        return _OURS
    if not file.startswith(where.torch):
        return _OTHERS
    inside = Path(file).relative_to(where.torch).as_posix()
    # torch.compile(module) is a module around the module: its call shows up as a second pair of call frames.
    plumbing = inside.startswith(_PLUMBING) or _torch.is_compiled_module(frame.f_locals.get("self"))
    return _TORCHS if plumbing else _OTHERS


def _chain(kept: list[TracebackType], ours: list[bool], lines: Mapping[int, int]) -> TracebackType | None:
    result: TracebackType | None = None
    parts: list[TracebackType] = []
    for position in range(len(kept) - 1, -1, -1):
        parts.insert(0, kept[position])
        if position and ours[position] and _resumes(kept[position], kept[position - 1]):
            # The rest of the function ran in a frame of its own.
            continue
        line = lines.get(position + len(parts) - 1, parts[-1].tb_lineno)
        alone = len(parts) == 1 and is_hashable(parts[0].tb_frame.f_code)
        entry = parts[0] if alone else stand_in(parts, line)
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, line)
        parts = []
    return result


def _resumes(entry: TracebackType, parent: TracebackType) -> bool:
    code, above = entry.tb_frame.f_code, parent.tb_frame.f_code
    if code.co_name == SHOWN_NAME:
        return is_cells_own(above.co_name) and above.co_filename == code.co_filename
    match = _RESUME.fullmatch(code.co_name)
    names = {above.co_name, (_RESUME.fullmatch(above.co_name) or ["", ""])[1]}
    return match is not None and match[1] in names
