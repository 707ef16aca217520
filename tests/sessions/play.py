"""Run sessions in forks of one warm process: plain, under a magic, or compiled by hand.

torch, IPython and compile_magic are imported once, so that a session costs a fork and its own cells.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import io
import math
import os
import pickle
import pkgutil
import random
import re
import select
import signal
import sys
import sysconfig
import time
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import torch
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from sessions import observe
from sessions.grammar import Cell
from sessions.grammar import Session
from traitlets.config import Config

import compile_magic

LIMIT_S = 90.0
AGAIN_S = 10.0


@dataclass
class Left:
    """What a session showed, cell by cell, and what it left; `failure` if it didn't end."""

    cells: list[dict[str, Any]] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    generators: dict[str, str] = field(default_factory=dict)
    process: dict[str, Any] = field(default_factory=dict)
    exchanged: list[str] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    dynamos: dict[str, int] = field(default_factory=dict)
    pressed: list[float] = field(default_factory=list)
    failure: str = ""
    seconds: float = 0.0


@contextlib.contextmanager
def _pressed(after: float) -> Iterator[list[float]]:
    """Press stop after some seconds, and again if that was lost; note how many later the block has ended."""
    pressed: list[float] = []

    def press(*_: Any) -> None:
        pressed.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, after, AGAIN_S)
    try:
        yield pressed
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        pressed[:] = [time.perf_counter() - each for each in pressed]


class _Publisher(DisplayPublisher):
    """Keeps what is displayed, without what compile_magic displays itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__["shown"] = []

    def publish(self, data: Any, *args: Any, **kwargs: Any) -> None:
        if not _called_by_ours():
            self.__dict__["shown"].append(observe.same_text(str(sorted(data.items()))))

    def clear_output(self, wait: bool = False) -> None:
        self.__dict__["shown"].append(f"clear {wait}")


def _called_by_ours() -> bool:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("compile_magic"):
            return frame.f_code.co_name != "run_statements"
        if frame.f_code.co_filename.startswith("<ipython-input") or module == "__main__":
            return False
        frame = frame.f_back
    return False


class Stage:
    """A shell in a warm process that every session is forked from."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        InteractiveShell.clear_instance()
        self._shell = InteractiveShell.instance(config=config)
        self._shell.display_pub = _Publisher(shell=self._shell)
        with contextlib.redirect_stdout(io.StringIO()):
            # Imports what a first compile, explain and bench import: a user's notebook has that behind it too.
            self._shell.run_cell(
                "import torch\nfor backend in ('eager', 'aot_eager'):\n"
                "    f = torch.compile(lambda x: x + 1, backend=backend); f(torch.ones(2, requires_grad=True))\n"
                "torch._dynamo.reset(); torch._dynamo.utils.counters.clear()\ndel f, backend, torch"
            )
            for each in pkgutil.walk_packages(compile_magic.__path__, "compile_magic."):
                __import__(each.name)
            for name in ("console", "table", "text", "panel", "tree", "syntax", "markdown"):
                __import__(f"rich.{name}")
            for name in ("pandas", "matplotlib.pyplot"):
                # Seconds that each fork would take again; run.py does without them.
                with contextlib.suppress(ModuleNotFoundError):
                    __import__(name)
        self._shell.execution_count = 1
        self._shell.user_ns["Out"].clear()
        gc.collect()
        gc.freeze()
        self._functions = observe.functions()

    def play(self, session: Session, *hows: str, press: float = 0.0) -> list[Left]:
        """Return what a session leaves when it is played "plain", under its "magic" or compiled "by hand".

        With `press`, stop is pressed so many seconds after the first tried cell has begun.
        """
        ends = [self._fork(session, how, press) for how in hows]
        return [_read(pid, end) for pid, end in ends]

    def _fork(self, session: Session, how: str, press: float) -> tuple[int, int]:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            return pid, reading
        code = 1
        try:
            os.close(reading)
            # The child is a group, so that what it starts ends with it.
            os.setpgid(0, 0)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            left = self._played(session, how, press)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(left, pipe)
            code = 0
        finally:
            os._exit(code)

    def _played(self, session: Session, how: str, press: float = 0.0) -> Left:
        left, shell, began = Left(), self._shell, time.perf_counter()
        hand = Hand(shell.user_ns)
        by_hand = how == "by hand"
        if by_hand:
            shell.ast_transformers.append(hand)
        # A fork seeds `random` anew.
        random.seed(0), np.random.seed(0), torch.manual_seed(0)  # noqa: NPY002 - the user's global one
        head = {"watched": "%load_ext compile_magic\n%compile_watch on"}.get(session.driver, "%load_ext compile_magic")
        self._ran(head if how == "magic" else "pass")
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            for cell in session.cells:
                if by_hand:
                    hand.begin(cell)
                with _pressed(press if cell.first else 0.0) as pressed:
                    left.cells.append(self._ran(source(cell, how)))
                left.pressed += pressed
                press = 0.0 if cell.first else press
                hand.end()
                left.cells[-1]["generators"] = observe.generators()
            if session.driver == "watched":
                self._ran("%compile_watch off" if how == "magic" else "pass")
            left.process = observe.process(shell)
        left.exchanged = observe.exchanged(self._functions)
        left.dynamos = dict(observe.dynamos(shell.user_ns))
        left.names, looker = observe.names(shell.user_ns)
        left.marks, left.entries = dict(looker.marks), looker.entries
        left.seconds = time.perf_counter() - began
        return left

    def _ran(self, text: str) -> dict[str, Any]:
        stdout, stderr, shown = io.StringIO(), io.StringIO(), self._shell.display_pub.__dict__["shown"]
        shown.clear()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            result = self._shell.run_cell(text, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        looker = observe.Looker(self._shell.user_ns)
        return {
            "value": looker.look(result.result, "result"),
            "error": None if error is None else (type(error).__name__, observe.same_text(_text(error))),
            "stdout": observe.same_text(stdout.getvalue()),
            "stderr": observe.same_text(stderr.getvalue()),
            "shown": list(shown),
        }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - a hostile error
        return f"<{type(second).__name__}>"


def source(cell: Cell, how: str) -> str:
    """Return what is typed for a cell; its lines have the same numbers however it is played."""
    if cell.first in ("", "-"):
        return cell.body
    if how == "magic":
        return f"{cell.first}\n{cell.body}"
    # What IPython takes from the first line of a cell alone stays there.
    return cell.body if cell.body.startswith((" ", "%%")) else f"# {cell.first}\n{cell.body}"


def _read(pid: int, end: int) -> Left:
    chunks, deadline = [], time.monotonic() + LIMIT_S
    while True:
        ready, _, _ = select.select([end], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(end, 1 << 20) if ready else b""
        if not chunk:
            break
        chunks.append(chunk)
    os.close(end)
    if not ready:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not ready:
        return Left(failure=f"did not end in {LIMIT_S:.0f} s")
    if not chunks or status:
        return Left(failure=f"the process ended with {status}")
    # It was made by a fork of this process.
    left: Left = pickle.loads(b"".join(chunks))  # noqa: S301 - see there
    return left


_stage: Stage | None = None


def on_stage(session: Session, *hows: str, press: float = 0.0) -> list[Left]:
    """Play a session in this process's stage, which the first call sets up."""
    global _stage  # noqa: PLW0603 - one for each process
    _stage = _stage or Stage()
    return _stage.play(session, *hows, press=press)


class Hand:
    """Compiles what a cell calls as a person would do it with torch.compile, to tell torch's differences from ours."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._compiled: dict[int, tuple[Any, Any]] = {}
        self._cell: Cell | None = None
        self._put: dict[str, tuple[Any, Any]] = {}

    def begin(self, cell: Cell) -> None:
        """Take note of the cell that runs next, and exchange the targets that it names."""
        self._cell = cell if cell.first.startswith("%%compile_explain") else None
        for name in cell.first.split()[1:] if self._cell else ():
            if name.isidentifier() and name in self._namespace:
                value = self._namespace[name]
                self._put[name] = value, self._compile(value)
                self._namespace[name] = self._put[name][1]

    def end(self) -> None:
        """Put the targets back."""
        for name, (value, compiled) in self._put.items():
            if self._namespace.get(name) is compiled:
                self._namespace[name] = value
        self._put.clear()
        self._cell = None

    def visit(self, tree: ast.Module) -> ast.Module:
        """Let each call of the cell's top level ask which function to call."""
        if self._cell is None or self._put:
            return tree
        self._namespace.setdefault("__hand__", self._compile)
        if "--cell" in self._cell.first:
            return self._as_function(tree)
        return ast.fix_missing_locations(_Calls().visit(tree))

    def _as_function(self, tree: ast.Module) -> ast.Module:
        bound = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)})
        made = ast.parse("def cell_():\n    pass\n__hand__(cell_)()")
        function = made.body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = [*([ast.Global(bound)] if bound else []), *tree.body]
        return ast.fix_missing_locations(made)

    def _compile(self, value: Any) -> Any:
        if not _is_users_callable(value):
            return value
        key = id(getattr(value, "__func__", value)) ^ id(getattr(value, "__self__", None))
        if key not in self._compiled:
            # As module.compile() does it, which calls global hooks once.
            whole = value._call_impl if isinstance(value, torch.nn.Module) else value
            self._compiled[key] = value, torch.compile(whole, **self._options())
        return self._compiled[key][1]

    def _options(self) -> dict[str, Any]:
        first = self._cell.first if self._cell else ""
        return {
            "backend": "aot_eager" if "aot_eager" in first else "eager",
            "fullgraph": "--fullgraph" in first,
            "dynamic": True if "--dynamic" in first else None,
        }


class _Calls(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Call(ast.Name("__hand__", ast.Load()), [node.func], []), node.args, node.keywords)

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_GeneratorExp = visit_FunctionDef  # noqa: N815 - names of ast's


def _is_users_callable(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, torch.nn.Module):
        return getattr(value, "_compiled_call_impl", True) is None and "_orig_mod" not in vars(value)["_modules"]
    if kind is types.MethodType:
        return _is_users_callable(value.__func__)
    if kind is functools.partial:
        return _is_users_callable(value.func)
    if kind is not types.FunctionType or hasattr(value, "_torchdynamo_orig_callable"):
        return False
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return not value.__code__.co_filename.startswith(libraries)


@dataclass(frozen=True)
class Difference:
    """Where two runs differ: the aspect, the place in it, and what each has there."""

    aspect: str
    place: str
    plain: str
    magic: str

    @property
    def sort(self) -> str:
        """The aspect and the name in it without numbers, or the kind of error."""
        if self.aspect == "error":
            return f"error {self.magic[:30]}"
        return " ".join([self.aspect, *re.sub(r"_?\d+|cell", "", self.place).split()[:2]])


def differences(plain: Left, played: Left) -> Iterator[Difference]:
    """Yield where two runs differ."""
    if plain.failure or played.failure:
        if plain.failure != played.failure:
            yield Difference("process", "end", plain.failure, played.failure)
        return
    for number, (one, other) in enumerate(zip(plain.cells, played.cells, strict=True), 1):
        for aspect in one:
            yield from _apart(aspect, f"cell {number}", one[aspect], other[aspect])
    for aspect in ("names", "process", "exchanged"):
        yield from _apart(aspect, "", getattr(plain, aspect), getattr(played, aspect))
    for aspect in ("marks", "entries", "dynamos"):
        one, other = getattr(plain, aspect), getattr(played, aspect)
        # What is inlined into an explained function is not compiled on its own: fewer are torch's way, more are ours.
        more = {key: count for key, count in other.items() if count > one.get(key, 0)}
        yield from _apart(aspect, "more", {key: one.get(key, 0) for key in more}, more)


def _alike(one: float, other: float) -> bool:
    # Compiled code may round otherwise.
    return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-5) or (math.isnan(one) and math.isnan(other))


def _apart(aspect: str, place: str, one: Any, other: Any) -> Iterator[Difference]:
    if one == other or (isinstance(one, float) and isinstance(other, float) and _alike(one, other)):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _apart(aspect, f"{place} {key}", one.get(key, "<none>"), other.get(key, "<none>"))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _apart(aspect, f"{place} {index}", left, right)
    else:
        left, right = str(one), str(other)
        same = (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
        at = max(0, next(same, min(len(left), len(right))) - 100)
        yield Difference(aspect, place.strip(), left[at : at + 400], right[at : at + 400])
