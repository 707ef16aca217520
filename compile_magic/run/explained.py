"""A callable that runs its original compiled, and in eager where compiling fails before anything ran."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.errors import guarded
from compile_magic.errors import words_of
from compile_magic.notebook.tracebacks import assertion_of
from compile_magic.run.targets import compiled_function

if TYPE_CHECKING:
    from compile_magic.run.run import Call
    from compile_magic.run.run import Run


# What Dynamo calls the ends of a compile after which the function runs in eager by design: breaks and limits.
_NO_ERRORS = frozenset(
    {"Unsupported", "UserError", "SkipFrame", "RecompileLimitExceeded", "FailOnRecompileLimitHit", "RecompileError"}
)
# Characters kept of an error's message.
_MOST = 4000


class ExplainedCall:
    """Stands in for `original` while a cell runs."""

    def __init__(self, run: Run, original: Any, compiled: Any, name: str) -> None:
        self._run = run
        self._original = original
        self._compiled = compiled
        self._name = name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Make the call compiled.

        Dynamo runs a part that can't be compiled in eager. With fullgraph it raises instead; where nothing of the call
        has run yet, the call is then made in eager, so that the cell ends as a plain one would; else the exception goes
        on to the notebook.
        """
        __tracebackhide__ = True
        if self._run.finished:
            # Something of the cell's has kept this and calls it later on.
            return self._original(*args, **kwargs)
        tell = self._run.note
        call = guarded(self._run.begin_call, self._name, tell=tell, default=None)
        if call is None:
            return self._original(*args, **kwargs)
        assertion, done = None, False
        try:
            result = self._compiled(*args, **kwargs)
            done = True
        except Exception as error:
            assertion = guarded(assertion_of, error, tell=tell, default=None)
            if assertion is None and not guarded(self._runs_eager, error, call, tell=tell, default=False):
                raise
        finally:
            guarded(self._record_suppressed, call.start, call.number, tell=tell, default=None)
            guarded(self._run.end_call, call, done=done, tell=tell, default=None)
        if done:
            return result
        if assertion is not None:
            raise assertion
        return self._original(*args, **kwargs)

    def _runs_eager(self, error: BaseException, call: Call) -> bool:
        if not _torch.is_compile_error(error):
            return False
        untouched = self._nothing_ran(call.start, call.number)
        self._record(error, call.start, call.number, outcome="ran_eager" if untouched else "raised")
        return untouched

    def _record_suppressed(self, start: int, number: int) -> None:
        for record in self._run.recorder.since(start):
            error = record.data.get("fail_type")
            if record.kind == "compilation_metrics" and record.call == number and error and error not in _NO_ERRORS:
                message = str(record.data.get("fail_reason") or "")[:_MOST]
                data = {"target": self._name, "outcome": "ran_eager", "error": error, "message": message}
                self._run.recorder.add("call", compile_id=record.compile_id, data=data)

    def _nothing_ran(self, start: int, number: int) -> bool:
        if self._has_hooks():
            return False
        starts = self._starts(start, number)
        if not starts:
            return self._run.fullgraph
        return len(starts) == 1 and self._is_own(_frame(starts[0]))

    def _has_hooks(self) -> bool:
        # A hook has run before the forward that can't be compiled; then the call may not be made again.
        is_method = type(self._original) is types.MethodType
        owner = self._original.__self__ if is_method else self._original
        return looks.is_a(owner, torch.nn.Module) and _torch.has_pre_hooks(owner)

    def _starts(self, start: int, number: int) -> list[Mapping[str, Any]]:
        records = self._run.recorder.since(start)
        return [record.data for record in records if record.kind == "dynamo_start" and record.call == number]

    def _is_own(self, frame: Mapping[str, Any]) -> bool:
        function = compiled_function(self._original)
        wrapped = str(frame.get("filename", "")).startswith(_torch.torch_root())
        return wrapped or (function is not None and (frame.get("name"), frame.get("line")) == _where(function.__code__))

    def _record(self, error: BaseException, start: int, number: int, *, outcome: str) -> None:
        starts = self._starts(start, number)
        frame = _frame(starts[-1]) if starts else {}
        data = {
            "target": self._name,
            "outcome": outcome,
            "error": type(error).__name__,
            "message": words_of(error)[:_MOST],
            "frame": {"name": frame.get("name"), "file": frame.get("filename"), "line": frame.get("line")},
        }
        self._run.recorder.add("call", data=data)


def _frame(start: Mapping[str, Any]) -> Mapping[str, Any]:
    stack = start.get("stack") or [{}]
    last: Mapping[str, Any] = stack[-1]
    return last


def _where(code: Any) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno
