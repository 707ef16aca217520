"""One run of explained calls: what is compiled, recorded, and put back."""

from __future__ import annotations

import functools
import platform
import threading
import types
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from compile_magic import _torch
from compile_magic import looks
from compile_magic.errors import guarded
from compile_magic.model import Target
from compile_magic.run.capture import CountingBackend
from compile_magic.run.capture import Recorder
from compile_magic.run.capture import check_backend
from compile_magic.run.explained import ExplainedCall
from compile_magic.run.files import roots
from compile_magic.run.marks import Marks
from compile_magic.run.quiet import Quiet
from compile_magic.run.silences import live_guards
from compile_magic.run.silences import silences
from compile_magic.run.silences import was_warm
from compile_magic.run.state import Isolation
from compile_magic.run.targets import compiled_function
from compile_magic.run.targets import decide
from compile_magic.run.targets import functions_of
from compile_magic.run.targets import is_pythons
from compile_magic.run.targets import name_of
from compile_magic.run.threads import other_threads_busy
from compile_magic.trace import Capture
from compile_magic.trace import Record
from compile_magic.trace import SourceFile


@dataclass(frozen=True)
class Options:
    """How the explained callables are compiled, as for torch.compile.

    With `suppress`, a part that can't be compiled runs in eager; without it, the failure is raised. `patches` are
    settings of Inductor's for these compiles alone.
    """

    backend: str = "eager"
    dynamic: bool | None = None
    fullgraph: bool = False
    fresh: bool = False
    mode: str | None = None
    suppress: bool = True
    patches: tuple[tuple[str, Any], ...] = ()


class Call:
    """An intercepted call: its number, and how many records there were before it."""

    __slots__ = ("isolated", "name", "number", "outermost", "start")

    def __init__(self, name: str, number: int, start: int, *, outermost: bool, isolated: bool) -> None:
        self.name = name
        self.number = number
        self.start = start
        self.outermost = outermost
        self.isolated = isolated


class CompiledCall:
    """Runs a callable compiled."""

    def __init__(self, compiler: _torch.Compiler, candidate: Any) -> None:
        self._compiler = compiler
        self._candidate = candidate

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Make the call."""
        __tracebackhide__ = True
        return self._compiler.call(self._candidate, args, kwargs)


class Run:
    """Compiles, records and isolates the calls of one cell. `start`, then `intercept` for each callee, then `finish`.

    Raises:
        ValueError: there is no such backend.
    """

    replaces_compiled = False

    def __init__(self, options: Options, *, mode: str) -> None:
        check_backend(options.backend)
        self._options = options
        self._mode = mode
        self._recorder = Recorder()
        self._backend = CountingBackend(options.backend, self._recorder, mode=options.mode, patches=options.patches)
        self._marks = Marks()
        recorder = self._recorder
        self._isolation = Isolation(
            self._backend,
            lambda: (recorder.compiles_outside, len(recorder)),
            fresh=options.fresh,
            suppress=options.suppress,
        )
        compile_options = {"backend": self._backend, "dynamic": options.dynamic, "fullgraph": options.fullgraph}
        self._compiler = _torch.Compiler(compile_options, lambda: _torch.can_isolate() and other_threads_busy())
        self._thread = threading.get_ident()
        self._hears_regions: Callable[[], None] = _nothing
        # What else of ours is taken away while a compiled region of the user's runs; each returns what puts it back.
        self.steps_aside: list[Callable[[], Callable[[], None]]] = []
        # Of each callable whose functions run on copies of their code, by id.
        self._kept_apart: dict[int, weakref.ref[Any]] = {}
        self._targets: dict[Target, None] = {}
        self._observed: dict[int, weakref.ref[types.CodeType]] = {}
        self._quiet = Quiet(lambda: recorder.call is not None and not recorder.aside, recorder.add_log)
        self._calls = 0
        self._silent: dict[str, bool] = {}
        self._stances: set[str] = set()
        self._notes: list[str] = []
        self._finished = False
        self._allowed: Callable[[], None] = lambda: None

    @property
    def finished(self) -> bool:
        """Whether `finish` was called."""
        return self._finished

    def listen(self) -> None:
        """Listen to torch again, after `pause`."""
        self._recorder.start()
        self._hears_regions = _torch.regions.listen(self._region)

    def pause(self) -> None:
        """Listen to nothing until `listen`."""
        self._recorder.stop()
        self._hears_regions()

    def start(self) -> None:
        """Begin to listen to torch."""
        _torch.preload()
        self.listen()
        self._allowed = _torch.allow_stances(lambda: self._recorder.call, self._note_stance)
        if _torch.hears_nothing():
            self._notes.append("logging.disable() keeps torch from saying anything: enable logging to get a report")

    def _note_stance(self, stance: str) -> None:
        self.note(
            f"a function sets the stance {stance!r} while it runs: torch.compile refuses one that does, "
            "so it ran in eager"
        )

    def note(self, text: str) -> None:
        """Add a sentence to the report's notes."""
        if text not in self._notes:
            self._notes.append(text)

    # --- which callables ---------------------------------------------------------------------------------------------

    def intercept(self, candidate: Any, name: str = "") -> Any:
        """Return what the cell shall call instead of `candidate`: often `candidate` itself. Never raises."""
        if self._finished or is_pythons(candidate):
            return candidate
        return guarded(self._take, candidate, name, tell=self.note, default=candidate)

    def _take(self, candidate: Any, name: str) -> Any:
        decision = decide(candidate)
        if decision.how == "library":
            return candidate
        name = name or name_of(candidate)
        if decision.how == "compile":
            return self.explained(candidate, name)
        if decision.how == "observe" and self._options.fresh:
            return self.explained(_torch.compiled_original(candidate), name)
        how = "observed" if decision.how == "observe" else "eager"
        self._targets[Target(name, how, decision.why)] = None
        function = compiled_function(_torch.compiled_original(candidate)) if how == "observed" else None
        if function is not None:
            self._observed[id(function.__code__)] = weakref.ref(function.__code__)
        return candidate

    # What follows is made for one call each, since nothing of the user's may live longer than in a plain cell.

    def explained(self, candidate: Any, name: str) -> Any:
        """Return the callable that runs `candidate` compiled, under the counting backend."""
        self._targets[Target(name, "compiled")] = None
        if looks.is_a(candidate, functools.partial):
            function, args, keywords = looks.partial_parts(candidate)
            return functools.partial(self.explained(function, name), *args, **keywords)
        self._keep_apart(candidate)
        return ExplainedCall(self, candidate, CompiledCall(self._compiler, candidate), name)

    def compiled(self, candidate: Any, name: str) -> Any:
        """Return the callable that torch.compile makes of `candidate`, to be called between begin_call and end_call."""
        self._targets[Target(name, "compiled")] = None
        if looks.is_a(candidate, functools.partial):
            function, args, keywords = looks.partial_parts(candidate)
            return functools.partial(self.compiled(function, name), *args, **keywords)
        self._keep_apart(candidate)
        return self._compiler.form(candidate)

    def _keep_apart(self, candidate: Any) -> None:
        """Keep what compiling a callable changes apart from the user's."""
        holder = candidate.__func__ if type(candidate) is types.MethodType else candidate
        known = self._kept_apart.get(id(holder))
        if known is not None and known() is holder:
            return
        functions = functions_of(candidate)
        for function in functions:
            self._isolation.watch_namespace(function.__globals__)
        self._isolation.run_on_copies(functions)
        if functions:
            self._kept_apart[id(holder)] = weakref.ref(holder)

    def watch_namespace(self, namespace: dict[str, Any]) -> None:
        """Remember the names in the user's namespace, to which compiles add."""
        self._isolation.watch_namespace(namespace)

    # --- a call ------------------------------------------------------------------------------------------------------

    # No context manager made of a generator: one adds its frames to the traceback of a StopIteration.

    def begin_call(self, name: str) -> Call:
        """Be inside an intercepted call until `end_call`. A call inside a call belongs to the outer one."""
        outer = self._recorder.call
        if outer is not None:
            return Call(name, outer, len(self._recorder), outermost=False, isolated=False)
        number, self._calls = self._calls, self._calls + 1
        start = len(self._recorder)
        try:
            self._recorder.enter(number, name)
            self._quiet.enter()
            self._marks.lay()
            return Call(name, number, start, outermost=True, isolated=self._isolation.enter())
        except BaseException:
            self._end(Call(name, number, start, outermost=True, isolated=True))
            raise

    def end_call(self, call: Call, *, done: bool) -> None:
        """End the call; `done` unless it raised."""
        if call.outermost:
            self._end(call)
            if done:
                self._silent[call.name] = self._silent.get(call.name, True) and len(self._recorder) == call.start
            self._stances.add(_torch.stance())

    def _end(self, call: Call) -> None:
        if call.isolated:
            self._isolation.leave()
        self._marks.lift()
        self._recorder.leave()
        _torch.forget_warned()

    def _region(self, callback: Any) -> Callable[[], None] | None:
        """Step aside for a compiled region of the user's, and return what steps back at its end."""
        inside = self._recorder.call is not None and not self._recorder.aside
        if not (inside or self.steps_aside) or threading.get_ident() != self._thread:
            return None
        if _torch.is_backend(callback, self._backend):
            return None
        # Patches first: in a bench they were put over the copies that the isolation takes away.
        backs = [aside() for aside in (*self.steps_aside, *([self._step_aside] if inside else []))]

        def leave() -> None:
            for back in reversed(backs):
                back()

        return leave

    def _step_aside(self) -> Callable[[], None]:
        self._marks.lift()
        isolated = self._isolation.step_aside()
        self._recorder.step_aside()

        def back() -> None:
            self._recorder.step_back()
            self._marks.lay()
            if isolated:
                self._isolation.step_back()

        return back

    @property
    def recorder(self) -> Recorder:
        """Where the records of this run go."""
        return self._recorder

    @property
    def fullgraph(self) -> bool:
        """Whether a graph break is an error."""
        return self._options.fullgraph

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> tuple[Record, ...]:
        """Stop listening, put Dynamo back as it was, and return the records. A second call only returns them."""
        if not self._finished:
            self._finished = True
            # Each is done, also where one before it fails or is interrupted; the last one here is the first.
            with ExitStack() as stack:
                stack.callback(lambda: self._notes.extend(self._isolation.notes))
                stack.callback(self._marks.end)
                stack.callback(self._compiler.close)
                stack.callback(self._isolation.restore)
                stack.callback(self._say_what_torch_does_not)
                stack.callback(self.pause)
                stack.callback(self._allowed)
                stack.callback(self._quiet.stop)
        return self._recorder.records()

    def _say_what_torch_does_not(self) -> None:
        if self._observed and not any(record.kind == "dynamo_start" for record in self._recorder.records()):
            self.note(was_warm([target.name for target in self._targets if target.how == "observed"]))
            codes = [code for code in (reference() for reference in self._observed.values()) if code is not None]
            for compile_id, text in live_guards(codes):
                self._recorder.add("live_guards", compile_id=compile_id, payload=text)
        self._observed.clear()
        for note in silences([name for name, silent in self._silent.items() if silent], self._stances):
            self.note(note)

    def capture(self, sources: tuple[SourceFile, ...], *, error: str | None = None) -> Capture:
        """Return everything that was recorded, as a value."""
        return Capture(
            mode=self._mode_found(),
            backend=self._options.backend,
            targets=tuple(self._targets),
            records=self._recorder.records(),
            sources=sources,
            roots=roots(),
            recompile_limit=_torch.recompile_limit(),
            torch_version=torch.__version__,
            python_version=platform.python_version(),
            notes=tuple(self._notes),
            error=error,
        )

    def _mode_found(self) -> str:
        hows = {target.how for target in self._targets}
        return "observed" if "observed" in hows and "compiled" not in hows else self._mode


def _nothing() -> None:
    """Stand for what is not to be done."""
