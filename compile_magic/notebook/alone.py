"""The fallback for a cell that runs once: what it calls is noted while it runs, and measured alone afterwards.

The cell's code is not touched for that: Python's own hook for profilers tells of each call, and the arguments are read
from the frame of the callee before its first instruction. It is off again as soon as each callee was seen.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
from types import FrameType
from types import FunctionType
from types import MethodType
from typing import Any

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.bench_model import BenchReport
from compile_magic.measure.bench import measure
from compile_magic.measure.settings import Settings
from compile_magic.measure.stage import Surroundings
from compile_magic.measure.state.fingerprint import Looker
from compile_magic.measure.state.unrepeatable import find_unrepeatable
from compile_magic.measure.work import FunctionWork
from compile_magic.notebook.intercept import callees
from compile_magic.read.cellcode import is_cells_own
from compile_magic.run.targets import decide

# So many functions are measured, and so much of their arguments is copied, as a lazy person's data set fits in.
MOST_CALLS = 2
MOST_BYTES = 256 << 20
_INNER = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
_OPENED = (list, tuple, dict, set, deque)


class TooLargeError(Exception):
    """Arguments are too large to keep a copy of them while the cell runs."""


@dataclass(frozen=True)
class Call:
    """A call that the cell has made: what it called, by which name, on which line, with a copy of the arguments."""

    name: str
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    line: int


class Calls:
    """Notes the first call of each callable of the user's that a cell's own code makes. `start` before it, then `stop`.

    Args:
        body: the statements of the cell.
        namespace: the names of the notebook.
        file: the name of the cell's file.
        targets: what the user has named, to be noted wherever it is called from; else all that the cell calls.
    """

    def __init__(
        self, body: Sequence[ast.stmt], namespace: dict[str, Any], file: str, targets: Sequence[str] = ()
    ) -> None:
        named = targets or [path for one in callees(ast.Module(list(body), [])) if (path := _path(one))]
        self._wanted = dict.fromkeys(named)
        self._namespace = namespace
        self._file = file
        self._anywhere = bool(targets)
        self._hook = self._see
        self.made: list[Call] = []
        self.too_large = ""

    def start(self) -> bool:
        """Begin to note calls, and return whether: not where a profiler runs already, or where there is none."""
        if sys.getprofile() is not None or not self._wanted:
            return False
        sys.setprofile(self._hook)
        return True

    def stop(self) -> None:
        """Note nothing any more."""
        if sys.getprofile() is self._hook:
            sys.setprofile(None)

    def forget(self) -> None:
        """Let go of what was noted."""
        self.made.clear()

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._is_from_the_cell(frame.f_back):
            return
        try:
            self._note(frame)
        except Exception:  # noqa: BLE001 - a call that can't be noted is one that isn't measured
            self._wanted.clear()
        if not self._wanted or len(self.made) >= MOST_CALLS:
            self.stop()

    def _is_from_the_cell(self, caller: FrameType | None) -> bool:
        if caller is None or self._anywhere:
            return self._anywhere
        code = caller.f_code
        own = code.co_filename == self._file and caller.f_globals is self._namespace
        return own and (is_cells_own(code.co_name) or code.co_name in _INNER)

    def _note(self, frame: FrameType) -> None:
        for name in list(self._wanted):
            value = _found(self._namespace, name)
            function = value.func if type(value) is partial else value
            inside = _function_of(function)
            if inside is None or inside.__code__ is not frame.f_code or decide(value).how not in ("compile", "observe"):
                continue
            with _torch.without_modes():
                args, kwargs = _arguments(frame)
                bound = type(function) is not FunctionType
                if bound and args[0] is not (function.__self__ if type(function) is MethodType else function):
                    continue
                del self._wanted[name]
                self._keep(name, function, args[bound:], kwargs, frame)
            return

    def _keep(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> None:
        try:
            copies = _Copies()
            copied = copies.of(args), {key: copies.of(value) for key, value in kwargs.items()}
        except TooLargeError:
            self.too_large = self.too_large or name
            return
        self.made.append(Call(name, function, *copied, line=self._line(frame)))

    def _line(self, frame: FrameType) -> int:
        """Return the line of the cell that a call comes from."""
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename != self._file:
            caller = caller.f_back
        return caller.f_lineno if caller is not None else 0


def _path(callee: ast.expr) -> str:
    """Return what is called as it is written, "" where that is no name with attributes."""
    node = callee
    while isinstance(node, ast.Attribute):
        node = node.value
    return ast.unparse(callee) if isinstance(node, ast.Name) else ""


def _found(namespace: Mapping[str, Any], path: str) -> Any:
    """Return what a written name stands for now, without any code of the user's; None if that is not to be known."""
    first, *rest = path.split(".")
    value = namespace.get(first)
    for name in rest:
        value = _attribute(value, name)
    return value


def _attribute(value: Any, name: str) -> Any:
    kind: Any = type(value)
    if issubclass(kind, torch.nn.Module):
        own = object.__getattribute__(value, "__dict__")
        tables = [own, *(own.get(part) or {} for part in _torch.MODULE_PARTS)]
    else:
        tables = (
            [looks.attributes(value) or {}]
            if looks.of_class(kind, "__getattribute__") is object.__getattribute__
            else []
        )
    for table in tables:
        if name in table:
            return table[name]
    inherited = looks.of_class(kind, name)
    return MethodType(inherited, value) if type(inherited) is FunctionType else None


def _function_of(value: Any) -> FunctionType | None:
    """Return the function whose frame is the first that a call makes, None for what has none."""
    if type(value) is FunctionType:
        return value
    if type(value) is MethodType:
        called: Any = value.__func__
    else:
        kind: Any = type(value)
        called = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    return called if type(called) is FunctionType else None


def _arguments(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    code, values = frame.f_code, frame.f_locals
    first, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = iter(code.co_varnames[last:])
    rest = values[next(names)] if code.co_flags & _VARARGS else ()
    more = values[next(names)] if code.co_flags & _VARKEYWORDS else {}
    own = {name: values[name] for name in code.co_varnames[first:last]}
    return (*(values[name] for name in code.co_varnames[:first]), *rest), {**own, **more}


# As `inspect` has them.
_VARARGS, _VARKEYWORDS = 4, 8


class _Copies:
    """Copies of tensors, also of those in containers, each once; other objects, and parameters, are themselves."""

    def __init__(self) -> None:
        self._left = MOST_BYTES
        self._made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        if id(value) not in self._made:
            self._made[id(value)] = self._new(value)
        return self._made[id(value)]

    def _new(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            return self._tensor(value)
        if type(value) is dict:
            return {key: self.of(child) for key, child in value.items()}
        return type(value)(map(self.of, value)) if type(value) in _OPENED else value

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        self._left -= value.numel() * value.element_size()
        if self._left < 0:
            raise TooLargeError
        with torch.no_grad():
            copy = value.detach().clone()
        return copy.requires_grad_(value.requires_grad)


def measure_alone(calls: Calls, why: str, settings: Settings, around: Any) -> Iterator[BenchReport]:
    """Yield a report for each call that was noted, the function measured alone with the arguments of that call.

    Args:
        calls: what was noted while the cell ran.
        why: the reason for which the cell runs once.
        settings: what is measured; targets are those of the cell and don't matter here.
        around: what a cell is measured in, as for `bench_cell`.
    """
    once = f"The cell runs once: {_first_sentence(why)}"
    if calls.too_large and not calls.made:
        words = f"The arguments of `{calls.too_large}` are too large to keep a copy while the cell runs"
        yield BenchReport(error=f"{why}. {words}", torch_version=torch.__version__)
    for call in calls.made:
        extra = {call.name: call.function, "args": call.args, "kwargs": call.kwargs}
        problem = find_unrepeatable((), {}, (), extra)
        if problem is not None:
            error = f"{why}. `{call.name}` alone can't be repeated either: {problem}"
            yield BenchReport(error=error, mode="function", torch_version=torch.__version__)
            continue
        work = FunctionWork(call.function, call.name, call.args, call.kwargs)
        surroundings = Surroundings(Looker({}, frozenset(), extra), around.silenced, around.progress)
        report = measure(work, replace(settings, targets=()), surroundings, mode="function").report
        alone = f"`{call.name}` was measured alone, with the arguments of its call on line {call.line}"
        yield replace(report, notes=(f"{once}. {alone}", *report.notes))


def _first_sentence(text: str) -> str:
    first = text.partition(". ")[0].rstrip(".")
    return first[0].lower() + first[1:] if first.startswith(("The ", "A ")) else first
