"""Make the traceback of a compiled call look like that of a plain one."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

from compile_magic.files import roots

_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
# torch's own frames between the call and the user's code, relative to its folder.
_PLUMBING = ("_dynamo", "_utils_internal.py", "_compile.py", "fx/graph_module.py", "fx/_lazy_graph_module.py")


def clean(error: BaseException) -> BaseException:
    """Drop our frames and Dynamo's from an exception's traceback, and from those of the exceptions behind it."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = clean_traceback(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error


def clean_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without plumbing, with each part after a graph break joined to its function."""
    entries = _entries(traceback)
    kept = [entry for entry in entries if not _is_plumbing(entry)]
    if not kept or (kept == entries and not any(_RESUME.fullmatch(e.tb_frame.f_code.co_name) for e in kept)):
        return traceback
    return _chain(kept)


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def _is_plumbing(entry: TracebackType) -> bool:
    frame = entry.tb_frame
    file = frame.f_code.co_filename
    where = roots()
    if file.startswith((where.tool, "<eval_with_key>")):
        return True
    if not file.startswith(where.torch):
        return False
    inside = Path(file).relative_to(where.torch).as_posix()
    return inside.startswith(_PLUMBING) or _calls_a_wrapper(frame.f_locals)


def _calls_a_wrapper(local_names: Any) -> bool:
    # torch.compile(module) is a module around the module: its call shows up as a second pair of call frames.
    return "_orig_mod" in getattr(local_names.get("self"), "_modules", ())


def _chain(entries: list[TracebackType]) -> TracebackType | None:
    result: TracebackType | None = None
    line: int | None = None
    for position in range(len(entries) - 1, -1, -1):
        entry = entries[position]
        at = entry.tb_lineno if line is None else line
        line = None
        if position and _resumes(entry, entries[position - 1]):
            # The rest of the function ran in a frame of its own: show its line in the frame of the function.
            line = at
            continue
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, at)
    return result


def _resumes(entry: TracebackType, parent: TracebackType) -> bool:
    match = _RESUME.fullmatch(entry.tb_frame.f_code.co_name)
    names = {parent.tb_frame.f_code.co_name, (_RESUME.fullmatch(parent.tb_frame.f_code.co_name) or ["", ""])[1]}
    return match is not None and match[1] in names
