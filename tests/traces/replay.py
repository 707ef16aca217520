"""Captures that `record.py` wrote, for tests that need neither torch nor a notebook."""

from __future__ import annotations

import functools
from pathlib import Path

from compile_magic.model import ExplainReport
from compile_magic.read.parse import parse
from compile_magic.trace import Capture

FOLDER = Path(__file__).parent
RECORDED = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.jsonl"))
NEWEST = "2.13"


@functools.cache
def capture(name: str) -> Capture:
    """Return a recorded capture: "data_dependent_if", or with its version, "2.13/data_dependent_if"."""
    path = FOLDER / f"{name if '/' in name else f'{NEWEST}/{name}'}.jsonl"
    return Capture.from_jsonl(path.read_text(encoding="utf-8").splitlines())


@functools.cache
def report(name: str) -> ExplainReport:
    """Return what is parsed from a recorded capture."""
    return parse(capture(name))


def line(name: str, mark: str) -> int:
    """Return the line, as the editor shows it, that the comment `# <- mark` stands on."""
    for source in capture(name).sources:
        for number, text in enumerate(source.text.splitlines(), 1):
            if text.endswith(f"# <- {mark}"):
                return number + source.offset
    raise LookupError(f"{name} has no line marked {mark!r}")
