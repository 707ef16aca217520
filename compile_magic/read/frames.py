"""Whose a file is, what line of which cell a frame points at, and what a function is called in the user's words."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from functools import lru_cache
from typing import Any

from compile_magic.model import Location
from compile_magic.trace import Roots
from compile_magic.trace import SourceFile

# The packages that a notebook or a terminal puts between the kernel and a cell.
NOTEBOOK_PACKAGES = frozenset(
    [
        "IPython",
        "ipykernel",
        "ipykernel_launcher",
        "jupyter_client",
        "jupyter_core",
        "traitlets",
        "zmq",
        "tornado",
        "comm",
        "debugpy",
        "pydevd",
        "matplotlib_inline",
        "ipywidgets",
        "prompt_toolkit",
        "decorator",
        "nest_asyncio",
        "pyodide_kernel",
        "nbclient",
    ]
)
# What compiles there isn't the user's doing.
MACHINERY = ("stdlib", "notebook", "tool", "generated")
# Functions there are the user's to change, or to report.
USERS = ("user", "package")
COMPILER_FOLDERS = ("_dynamo", "_inductor", "_functorch", "_export", "_guards.py", "_compile.py", "_higher_order_ops")

_RESUME = re.compile(r"^(?:torch_dynamo_resume_in_|__resume_at_\d+_)(?P<name>.*?)(?:_at_(?P<line>\d+))?$")
_FRAME = re.compile(r'^ *File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<name>.*)$')
_CELL = re.compile(r"^<ipython-input-(?P<cell>\d+)-")
# What calls the frame that stands for a caller; see `Compiler`.
_ENTERS = re.compile(r"[/\\]compile_magic[/\\]_torch\.py$")
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<name>[^/\\.]+)")
_STDLIB = re.compile(r"[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages)")


@dataclass(frozen=True)
class Frame:
    """One entry of a stack as torch prints it."""

    file: str
    line: int
    name: str
    code: str = ""


def as_line(value: Any) -> int:
    """Return a line number that torch gave, 0 where it gave none."""
    return int(value) if isinstance(value, (int, float)) else 0


def folded(name: str) -> str:
    """Return the function that a resume function goes on with, or the name itself."""
    match = _RESUME.match(name)
    return match["name"] if match else name


def resumed_at(name: str) -> int | None:
    """Return the line that a resume function goes on from, None for any other function."""
    match = _RESUME.match(name)
    return int(match["line"]) if match and match["line"] else None


def read_frames(text: str) -> tuple[Frame, ...]:
    """Return the frames of a printed traceback, outermost first."""
    return _without_sites(_read_frames(text.splitlines()))


def _read_frames(lines: list[str]) -> Iterator[Frame]:
    for number, text in enumerate(lines):
        match = _FRAME.match(text)
        if match:
            following = lines[number + 1] if number + 1 < len(lines) else ""
            code = "" if _FRAME.match(following) else following.strip()
            yield Frame(match["file"], int(match["line"]), match["name"], code)


def start_frames(stack: Any) -> tuple[Frame, ...]:
    """Return the frames of a `dynamo_start` record, the frame that is compiled last."""
    return _without_sites(
        Frame(str(f.get("filename", "")), as_line(f.get("line")), str(f.get("name", "")), str(f.get("loc") or ""))
        for f in stack or ()
        if isinstance(f, Mapping)
    )


def _without_sites(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return frames without those that stand for the caller of a compiled call, which is among them as well.

    Of some stacks torch leaves out the innermost calls: then it isn't there.
    """
    kept: list[Frame] = []
    for frame in frames:
        entered = bool(kept) and kept[-1].name == "_enter" and _ENTERS.search(kept[-1].file) is not None
        if not (entered and any(_is_same_call(frame, each) for each in kept)):
            kept.append(frame)
    return tuple(kept)


def _is_same_call(one: Frame, other: Frame) -> bool:
    return (one.file, one.line, one.name) == (other.file, other.line, other.name)


class Places:
    """Answers where a frame lies, from the capture's folders and source files."""

    def __init__(self, roots: Roots, sources: Iterable[SourceFile]) -> None:
        self.roots = roots
        self.sources = {source.file: source for source in sources}
        self._owners: dict[str, str] = {}
        self._short: dict[str, str] = {}

    def owner(self, file: str) -> str:
        """Return "user", "torch", "compiler", "package", "stdlib", "notebook", "tool" or "generated"."""
        if file not in self._owners:
            self._owners[file] = next(owner for owner, owns in _OWNERS if owns(self, file))
        return self._owners[file]

    def is_user(self, file: str) -> bool:
        """Return whether the person at the notebook wrote this file."""
        return self.owner(file) == "user"

    def is_cell(self, file: str) -> bool:
        """Return whether this file is a notebook cell."""
        return self.cell(file) is not None

    def cell(self, file: str) -> int | None:
        """Return the execution count of the cell that this file is, None for any other file."""
        source = self.sources.get(file)
        return source.cell if source is not None else _cell_of(file)

    def location(self, frame: Frame) -> Location:
        """Return the place of a frame as the editor shows it."""
        source = self.sources.get(frame.file)
        line = frame.line + (source.offset if source is not None else 0)
        return Location(frame.file, line, self.cell(frame.file), self.code(frame) or frame.code, folded(frame.name))

    def code(self, frame: Frame) -> str:
        """Return the stripped line of source that a frame points at, "" where its file isn't at hand."""
        lines = self._lines.get(frame.file, ())
        return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""

    def definition(self, frame: Frame) -> Frame:
        """Return the frame of the whole function that a resume function goes on with."""
        if resumed_at(frame.name) is None:
            return frame
        start = self._enclosing(frame.file, frame.line, folded(frame.name))
        return Frame(frame.file, start or frame.line, folded(frame.name))

    def learn(self, files: Iterable[str]) -> None:
        """Remember full file names, so that the shortened ones of a guard can be told apart."""
        for file in files:
            self._short.setdefault(shortened(file, self.roots.torch), file)

    def full_name(self, short: str) -> str:
        """Return the file whose name torch shortened to `short`."""
        if short not in self._short:
            known = (file for file in list(self._short.values()) if file.endswith("/" + short))
            self._short[short] = next(known, self._guess(short))
        return self._short[short]

    def _guess(self, short: str) -> str:
        # What torch shortened to a path that no record names in full lies in torch: its own folder is the base.
        return short if short.startswith(("<", "/")) else posixpath.join(self.roots.torch or "torch", short)

    def shown(self, stack: tuple[Frame, ...]) -> Location:
        """Return where to show a function that was compiled, the last of `stack`: in torch, where the user calls it."""
        definition = self.definition(stack[-1])
        calls = (frame for frame in reversed(stack[:-1]) if self.is_user(frame.file))
        return self.location(definition if self.owner(definition.file) in USERS else next(calls, definition))

    def _enclosing(self, file: str, line: int, name: str) -> int | None:
        tree = parsed(self.sources[file].text) if file in self.sources else None
        spans = (
            [span for span in functions(tree) if span[2].name == name and span[0] <= line <= span[1]] if tree else []
        )
        return max(spans, key=lambda span: span[0])[0] if spans else None

    @cached_property
    def _lines(self) -> dict[str, list[str]]:
        return {file: source.text.splitlines() for file, source in self.sources.items()}


@lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a source file, None for one that isn't Python (a cell with magics in it)."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def functions(tree: ast.Module) -> Iterator[tuple[int, int, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return (first line, last line, node) of each `def`, decorators included."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield first, node.end_lineno or node.lineno, node


def shortened(file: str, torch_root: str) -> str:
    """Return a file name as torch prints it in a guard: without what it has in common with torch's own folder."""
    try:
        return file[len(posixpath.commonpath([file, torch_root])) + 1 :]
    except ValueError:
        return file


def _cell_of(file: str) -> int | None:
    match = _CELL.match(file)
    return int(match["cell"]) if match else None


def _under(file: str, folder: str) -> bool:
    return (
        bool(folder) and file.startswith(folder.rstrip("/\\")) and file[len(folder.rstrip("/\\")) :][:1] in ("/", "\\")
    )


def _is_notebook(places: Places, file: str) -> bool:
    return _package(places, file) in NOTEBOOK_PACKAGES or "/google/colab/" in file


def _package(places: Places, file: str) -> str:
    match = _PACKAGE.search(file)
    if match:
        return match["name"]
    folder = next((folder for folder in places.roots.packages if _under(file, folder)), None)
    return re.split(r"[/\\.]", file[len(folder) :].strip("/\\"))[0] if folder else ""


def _torch_folder(places: Places, file: str) -> str | None:
    if _under(file, places.roots.torch):
        return file[len(places.roots.torch) :].strip("/\\")
    if _package(places, file) in ("torch", "functorch"):
        return file.replace("\\", "/").rpartition("-packages/torch/")[2]
    return None


def _is_compiler(places: Places, file: str) -> bool:
    folder = _torch_folder(places, file)
    return folder is not None and folder.startswith(COMPILER_FOLDERS)


def _is_generated(places: Places, file: str) -> bool:
    return file == "" or (file.startswith("<") and file not in places.sources and _cell_of(file) is None)


def _is_stdlib(places: Places, file: str) -> bool:
    inside = any(_under(file, folder) for folder in places.roots.stdlib)
    return (inside or bool(_STDLIB.search(file))) and not _package(places, file)


# Asked in this order: a notebook's cell is the user's even where its file lies in a temporary folder of the kernel.
_OWNERS = (
    ("user", lambda places, file: file in places.sources and places.sources[file].cell is not None),
    ("tool", lambda places, file: _under(file, places.roots.tool)),
    ("compiler", _is_compiler),
    ("torch", lambda places, file: _torch_folder(places, file) is not None),
    ("notebook", _is_notebook),
    ("stdlib", _is_stdlib),
    ("package", lambda places, file: bool(_package(places, file))),
    ("generated", _is_generated),
    ("user", lambda _places, _file: True),
)
