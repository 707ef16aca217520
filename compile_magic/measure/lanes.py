"""The ways in which the work is run: eager, as the user compiled it, and under each variant's torch.compile."""

from __future__ import annotations

import types
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import ExitStack
from contextlib import nullcontext
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.ended import as_error
from compile_magic.measure.skips import CudagraphSkips
from compile_magic.measure.work import Work
from compile_magic.model import ExplainReport
from compile_magic.model import Target
from compile_magic.notebook.patches import Patches
from compile_magic.read.parse import parse
from compile_magic.run.capture import Recorder
from compile_magic.run.run import Call
from compile_magic.run.run import Options
from compile_magic.run.run import Run
from compile_magic.run.targets import decide
from compile_magic.run.targets import is_pythons
from compile_magic.run.targets import name_of

# Records that say nothing was compiled: remarks, and the mark at the start of a call.
_NO_COMPILE = frozenset({"log", "enter"})
# How many callables of the cell are remembered; a cell that makes new ones in each run would fill the memory.
_MOST_KNOWN = 10_000


class Lane:
    """Runs the work in one way. Between `begin_block` and `end_block` its calls go to what `stand_in` gives.

    Args:
        name: the variant's name.
        work: what is run.
        put_back: puts the state of the work back; called before each block.
        targets: the names of what is compiled, if the user named any; else all that the cell calls.
        silenced: keeps what the work prints and displays from being shown, and from being done outside of the process.
    """

    replaces_compiled = True
    # Whether targets are called in another way than they are written.
    exchanges = True
    # Whether each run begins with the state that was put back, as the runs can't follow each other.
    paired = False
    recorder: Recorder | None = None

    def __init__(
        self,
        name: str,
        work: Work,
        put_back: Callable[[], None],
        *,
        targets: Sequence[str] = (),
        silenced: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.name = name
        self._work = work
        self._put_back = put_back
        self._targets = tuple(targets)
        self._silenced = silenced
        self._patches: Patches | None = None
        self._block = ExitStack()
        self._clean = True
        # Each with the object itself, so that its id stays its own.
        self._known: dict[int, tuple[Any, Any]] = {}
        self.skips = CudagraphSkips()
        self.found: dict[Target, None] = {}
        self._methods: dict[tuple[int, int], tuple[Any, Any]] = {}

    # --- which callables ---------------------------------------------------------------------------------------------

    def hook(self, candidate: Any, name: str = "") -> Any:
        """Return what the cell shall call instead of `candidate`."""
        known = self._known.get(id(candidate))
        if known is not None and known[0] is candidate:
            return known[1]
        if self._targets or is_pythons(candidate):
            return candidate
        return self._new(candidate, name)

    def _new(self, candidate: Any, name: str) -> Any:
        if isinstance(candidate, types.MethodType):
            return self._method(candidate, name)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known[id(candidate)] = (candidate, self._chosen(candidate, name))
        return self._known[id(candidate)][1]

    def _method(self, candidate: types.MethodType, name: str) -> Any:
        # A bound method is a new object each time that it is looked up. Those of the library hold objects of one run.
        library = self._methods.get((id(candidate.__func__), 0))
        if library is not None and library[0] is candidate.__func__:
            return candidate
        key = (id(candidate.__func__), id(candidate.__self__))
        if key not in self._methods:
            chosen = self._chosen(candidate, name)
            if chosen is candidate:
                self._methods[id(candidate.__func__), 0] = (candidate.__func__, None)
                return candidate
            self._methods[key] = (candidate, chosen)
        return self._methods[key][1]

    def _chosen(self, candidate: Any, name: str) -> Any:
        how = decide(candidate).how
        return self.stand_in(candidate, name or name_of(candidate)) if how in ("compile", "observe") else candidate

    def stand_in(self, candidate: Any, name: str) -> Any:
        """Return how this lane calls one of the user's callables."""
        raise NotImplementedError

    # --- blocks ------------------------------------------------------------------------------------------------------

    def begin_block(self) -> None:
        """Put the state back and switch this lane on."""
        self._put_back()
        self.switch_on()

    def switch_on(self) -> None:
        """Send the calls of the work through this lane."""
        self._block.callback(self._work.leave)
        self._work.enter(self)
        if self._targets and self.exchanges:
            self._patches = Patches(self, self._work.namespace)
            self._block.callback(self._patches.undo)
            for target in self._targets:
                self._patches.add(target)
        self._block.enter_context(self._silenced())

    def rebind(self, name: str) -> None:
        """Exchange what the cell has just bound to a target's name."""
        if self._patches is not None:
            self._patches.rebind(name)

    def run(self, count: int) -> None:
        """Run the work `count` times, one after the other."""
        run = self._work.run
        try:
            for _ in range(count):
                run()
        except BaseException as error:
            found = as_error(error)
            if found is error:
                raise
            raise found from error

    def restart(self) -> None:
        """Put the state back in the middle of a block."""
        self._clean = self.switch_off() and self._clean
        self.begin_block()

    def end_block(self) -> bool:
        """Switch this lane off, and return whether nothing was compiled or recorded in the block."""
        clean, self._clean = self._clean, True
        return self.switch_off() and clean

    def switch_off(self) -> bool:
        """Undo `switch_on`, and return whether nothing was compiled or recorded since."""
        self._block.close()
        self._patches = None
        return True

    def finish(self) -> ExplainReport | None:
        """Put back what this lane has left in the process, and return what was compiled in it."""
        self._known.clear()
        self._methods.clear()
        return None

    # --- what named targets ask of a run -----------------------------------------------------------------------------

    def explained(self, candidate: Any, name: str) -> Any:
        """Return how this lane calls a named target."""
        # A bound method is a new object for each call.
        is_method = type(candidate) is types.MethodType
        key = (id(candidate.__func__), id(candidate.__self__)) if is_method else (id(candidate), 0)
        known = self._methods.get(key)
        if known is None:
            known = self._methods[key] = (candidate, self.stand_in(candidate, name))
        return known[1]

    def intercept(self, candidate: Any, name: str = "") -> Any:
        """Return the callable itself: a lane exchanges what is compiled already, too."""
        return candidate

    def note(self, text: str) -> None:
        """Take a remark on a target; each run would make the same one."""


class EagerLane(Lane):
    """Runs everything uncompiled, also what the user has compiled."""

    def stand_in(self, candidate: Any, name: str) -> Any:
        """Return the original of what is compiled already, and note what was found."""
        how = "observed" if _torch.compiled_original(candidate) is not None else "compiled"
        self.found[Target(name, how)] = None
        return _torch.uncompiled(candidate)

    def switch_on(self) -> None:
        """Switch off torch.compile for what is compiled inside of the user's code."""
        self._block.enter_context(torch.compiler.set_stance("force_eager"))
        super().switch_on()


class WrittenLane(Lane):
    """Runs the work as it is written, with what the user has compiled."""

    exchanges = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard = self.recorder = Recorder(outside_only=True)
        self._start = 0

    def stand_in(self, candidate: Any, name: str) -> Any:
        """Return the callable itself."""
        return candidate

    def switch_on(self) -> None:
        """Listen to what torch compiles."""
        super().switch_on()
        self._block.callback(_torch.listen_to_cudagraphs(self.skips))
        self._block.callback(self._heard.stop)
        self._heard.start()
        self._start = len(self._heard)

    def switch_off(self) -> bool:
        """Stop listening."""
        super().switch_off()
        return not _compiled(self._heard, self._start)


class CompiledLane(Lane):
    """Runs the work with its callables under torch.compile, beside the caches of the user.

    Raises:
        ValueError: there is no such backend, or it has no such mode.
    """

    def __init__(self, *args: Any, options: Options, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run = Run(options, mode="named" if self._targets else "calls")
        self.recorder = self._run.recorder
        self._call: Call | None = None
        self.started = False

    def stand_in(self, candidate: Any, name: str) -> Any:
        """Return the callable compiled; of what is compiled already, the original compiled anew."""
        original = _torch.compiled_original(candidate)
        return self._run.compiled(candidate if original is None else original, name)

    def switch_on(self) -> None:
        """Exchange Dynamo's state for this lane's."""
        if not self.started:
            self.started = True
            self._run.watch_namespace(self._work.namespace)
            self._run.start()
        else:
            self._run.listen()
        self._call = self._run.begin_call(self.name)
        super().switch_on()
        self._run.steps_aside[:] = [self._patches.step_aside] if self._patches is not None else []
        self._block.callback(_torch.listen_to_cudagraphs(self.skips))

    def switch_off(self) -> bool:
        """Give the user's state back."""
        super().switch_off()
        call, self._call = self._call, None
        if call is None:
            return False
        clean = not _compiled(self._run.recorder, call.start)
        self._run.end_call(call, done=clean)
        self._run.pause()
        return clean

    def finish(self) -> ExplainReport | None:
        """Put Dynamo back as it was."""
        super().finish()
        report = parse(self._run.capture(()))
        self._run.finish()
        return report


def _compiled(recorder: Recorder, start: int) -> bool:
    return any(record.kind not in _NO_COMPILE for record in recorder.since(start))
