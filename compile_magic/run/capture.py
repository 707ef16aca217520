"""Listen to torch while a cell runs: records in order, nothing interpreted."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from collections.abc import Iterable
from types import CodeType
from typing import Any

from compile_magic import _torch
from compile_magic.run.codepaths import callers
from compile_magic.run.codepaths import is_timing
from compile_magic.run.codepaths import paths
from compile_magic.run.files import is_user_file
from compile_magic.trace import Record
from compile_magic.unmoved import unmoved

# Whether this thread is inside an intercepted call: one mark for all recorders.
_explaining = threading.local()


class Recorder:
    """Collects what torch's structured trace, its warnings and our counting backend say, in the order they say it.

    `call` is the number of the intercepted call that runs on this thread, None outside of one: a record made then
    belongs to code that the user compiled.

    Args:
        outside_only: leave out what is said while another recorder's intercepted call runs on the thread.
        overflow: called at the end of a compile when there are more than `most` records.
    """

    def __init__(
        self, *, outside_only: bool = False, overflow: Callable[[], None] | None = None, most: int = 0
    ) -> None:
        self._outside_only = outside_only
        self._overflow = overflow
        self._most = most
        self._records: list[Record] = []
        self._lock = threading.Lock()
        self._local = threading.local()
        self._epoch = 0
        self._started: set[str] = set()
        # Kept, so that the id of each stays its own.
        self._codes: dict[tuple[int, bool], CodeType] = {}
        self._stop: Callable[[], None] | None = None
        self.compiles_outside = 0

    def start(self, *, logs: bool = False) -> None:
        """Begin to listen, with `logs` also to what torch logs about recompile limits."""
        stops = [_torch.listen(_TraceHandler(self))]
        stops += [_torch.listen_to_limits(_LogHandler(self))] if logs else []

        def stop_all() -> None:
            for stop in stops:
                stop()

        self._stop = stop_all

    def stop(self) -> None:
        """Stop listening; a second call does nothing."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    @property
    def call(self) -> int | None:
        """The number of the intercepted call that this thread is in."""
        number: int | None = getattr(self._local, "call", None)
        return number

    def enter(self, number: int, target: str) -> None:
        """Begin the intercepted call `number` of `target` on this thread; recorded once something is said in it."""
        self._local.call, self._local.target = number, target
        _explaining.now = True

    def leave(self) -> None:
        """End the intercepted call of this thread."""
        self._local.call, self._local.target, self._local.aside = None, None, False
        _explaining.now = False

    @property
    def aside(self) -> bool:
        """Whether this thread is in what the user compiled himself, inside an intercepted call."""
        return bool(getattr(self._local, "aside", False))

    def step_aside(self) -> None:
        """Begin a compiled region of the user's inside the intercepted call of this thread."""
        self._local.aside, _explaining.now = True, False

    def step_back(self) -> None:
        """End it."""
        self._local.aside, _explaining.now = False, True

    def drain(self) -> tuple[Record, ...]:
        """Return what was recorded so far, and forget it."""
        with self._lock:
            records, self._records = tuple(self._records), []
        return records

    def records(self) -> tuple[Record, ...]:
        """Return what was recorded so far."""
        with self._lock:
            return tuple(self._records)

    def since(self, start: int) -> tuple[Record, ...]:
        """Return what was recorded after the first `start` records."""
        with self._lock:
            return tuple(self._records[start:])

    def __len__(self) -> int:
        return len(self._records)

    def add(
        self, kind: str, *, compile_id: str = "", data: dict[str, Any] | None = None, payload: str | None = None
    ) -> None:
        """Record something of our own."""
        self._append(
            Record(kind=kind, compile_id=compile_id, data=data or {}, payload=payload), logging.makeLogRecord({})
        )

    def add_log(self, source: str, text: str) -> None:
        """Record a remark of torch's that we keep from being printed. `source` is its logger or warning category."""
        self.add("log", data={"source": source}, payload=text)

    def add_paths(self, codes: Iterable[CodeType], *, traced: bool) -> None:
        """Record what code of the user's refers to, of each code object once; `traced` if it was compiled."""
        new = {id(code): code for code in codes if (id(code), traced) not in self._codes}
        self._codes.update({(number, traced): code for number, code in new.items()})
        found = {path for code in new.values() for path in ("%time",) * is_timing(code) + tuple(paths(code))}
        if found:
            self.add("paths", data={"paths": sorted(found), "traced": traced})

    def add_trace(self, record: logging.LogRecord) -> None:
        """Record one record of torch's structured trace."""
        if self._outside_only and getattr(_explaining, "now", False):
            return
        read = _torch.read_metadata(record)
        if read is None:
            return
        kind, data, envelope = read
        compile_id = _compile_id(envelope)
        payload = getattr(record, "payload", None)
        attempt = int(envelope.get("attempt") or 0)
        self._append(Record(kind=kind, compile_id=compile_id, attempt=attempt, data=data, payload=payload), record)
        if kind == "dynamo_start" and self.call is not None:
            self.add_paths(callers(), traced=False)
        if self._overflow is not None and kind == "compilation_metrics" and len(self._records) > self._most:
            self._overflow()

    def _append(self, record: Record, source: logging.LogRecord) -> None:
        target, self._local.target = getattr(self._local, "target", None), None
        with self._lock:
            if target is not None:
                self._store(Record(kind="enter", data={"target": target}), source)
            self._count(record)
            self._store(record, source)

    def _store(self, record: Record, source: logging.LogRecord) -> None:
        thread = threading.current_thread().name
        told = dataclasses.replace(record, epoch=self._epoch, call=self.call, thread=thread, time=source.created)
        self._records.append(told)

    def _count(self, record: Record) -> None:
        if record.kind != "dynamo_start":
            return
        if record.attempt == 0:
            # torch._dynamo.reset() starts compile ids anew; an id that starts twice can only mean that.
            if record.compile_id in self._started:
                self._epoch += 1
                self._started.clear()
            self._started.add(record.compile_id)
        self.compiles_outside += self.call is None or self.aside


def _compile_id(envelope: dict[str, Any]) -> str:
    frame, version = envelope.get("frame_id"), envelope.get("frame_compile_id")
    if frame is None:
        return ""
    prefix = envelope.get("compiled_autograd_id")
    return f"{frame}/{version}" if prefix is None else f"!{prefix}/{frame}/{version}"


class _TraceHandler(logging.Handler):
    """Stores, and never raises: an exception here would break the user's compile."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(level=logging.DEBUG)
        self._recorder = recorder

    def handle(self, record: logging.LogRecord) -> bool:
        """Store the record."""
        try:
            self._recorder.add_trace(record)
        except Exception as error:  # noqa: BLE001 - see the class
            self._recorder.add("unreadable", payload=f"{type(error).__name__}: {error}")
        return True


class _LogHandler(logging.Handler):
    """Stores what torch logs; it is printed all the same."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(level=logging.WARNING)
        self._recorder = recorder

    def handle(self, record: logging.LogRecord) -> bool:
        """Store the record."""
        self._recorder.add_log(record.name, record.getMessage())
        return True


def check_backend(name: str) -> None:
    """Look whether there is a backend of that name.

    Raises:
        ValueError: there is none; the message says where they are listed.
    """
    if name not in _torch.backend_names():
        raise ValueError(
            f"there is no backend {name!r}: the usual ones are eager, aot_eager, inductor and cudagraphs; "
            "torch.compiler.list_backends(()) lists them all"
        )


# What Dynamo calls an input of a graph that is a number drawn by Python's `random`.
_DRAWN = "random_value"
# Settings of Inductor's, by name.
Patches = tuple[tuple[str, Any], ...]


class CountingBackend:
    """A backend that counts the graphs and ops handed to it and leaves the compiling to `name`, in a mode of it.

    Raises:
        ValueError: the backend has no such mode.
    """

    def __init__(self, name: str, recorder: Recorder, *, mode: str | None = None, patches: Patches = ()) -> None:
        self._name = name
        self._compile = _torch.backend_function(name, mode, dict(patches))
        self._recorder = recorder
        self.compiler_name = name

    def __call__(self, graph_module: Any, example_inputs: list[Any], **options: Any) -> Any:
        """Count the graph and compile it."""
        ops: dict[str, int] = {}
        for node in graph_module.graph.nodes:
            if node.op.startswith("call"):
                ops[_op_name(node.target)] = ops.get(_op_name(node.target), 0) + 1
        draws = any(node.op == "placeholder" and node.name.startswith(_DRAWN) for node in graph_module.graph.nodes)
        self._recorder.add(
            "backend_graph", compile_id=_torch.compile_id(), data={"ops": ops, "inputs": [_DRAWN] * draws}
        )
        users = (code for code in _torch.traced_codes() if is_user_file(code.co_filename))
        self._recorder.add_paths(users, traced=True)
        # Inductor sets variables of the environment, lengthens sys.path and raises the recursion limit.
        with unmoved(quiet=False):
            return self._compile(graph_module, example_inputs, **options)


def _op_name(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))
