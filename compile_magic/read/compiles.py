"""The compiles that a capture tells of: what each record says is put to the compile that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any

from compile_magic.model import Unread
from compile_magic.read.breaks import BreakText
from compile_magic.read.frames import Frame
from compile_magic.read.frames import as_line
from compile_magic.read.guards import Leaf
from compile_magic.read.ops import Printed
from compile_magic.trace import Record

# Where torch keeps the functions that it puts around others to compile them.
WRAPPERS = "_dynamo/external_utils.py"


@dataclass(eq=False)
class Compile:
    """Everything that was said under one compile id. `order` is the place of its first record."""

    epoch: int
    compile_id: str
    call: int | None
    order: int
    stack: tuple[Frame, ...] = ()
    metrics: dict[str, Any] = field(default_factory=dict)
    backward_metrics: list[Mapping[str, Any]] = field(default_factory=list)
    failed_at: int | None = None
    code: str | None = None
    graph: Printed | None = None
    handed: list[dict[str, int]] = field(default_factory=list)
    backward: dict[str, Printed] = field(default_factory=dict)
    leaves: tuple[Leaf, ...] = ()
    symbols: dict[str, str] = field(default_factory=dict)
    symbol_sources: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    breaks: list[tuple[int, BreakText]] = field(default_factory=list)
    outcome: Mapping[str, Any] | None = None
    target: str = ""
    error: str = ""
    shape_guards: list[Mapping[str, Any]] = field(default_factory=list)
    specialised: list[Mapping[str, Any]] = field(default_factory=list)
    sibling: Compile | None = None

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from every other compile of the capture."""
        return self.epoch, self.compile_id

    @property
    def started(self) -> bool:
        """Whether Dynamo began to trace: not so for a compile that was refused at the limit."""
        return bool(self.stack) or self.code is not None

    @property
    def frame_id(self) -> tuple[int, str]:
        """The code object that was compiled, as far as torch numbers it."""
        return self.epoch, self.compile_id.rpartition("/")[0]

    @property
    def callers(self) -> tuple[Frame, ...]:
        """The stack down to the function that was compiled, () where neither this compile nor a sibling tells it."""
        return self.stack or (self.sibling.stack if self.sibling else ())

    @property
    def frame(self) -> Frame | None:
        """The function that was compiled; a refused compile has its name from another compile of the same code."""
        if self.stack:
            return self._named(self.stack[-1])
        name = self.metrics.get("co_name")
        if not name:
            return self.sibling.frame if self.sibling else None
        return Frame(str(self.metrics.get("co_filename") or ""), as_line(self.metrics.get("co_firstlineno")), str(name))

    def _named(self, frame: Frame) -> Frame:
        # torch wraps a callable of its own, such as an nn.Sequential, in a function to be able to compile it.
        return replace(frame, name=self.target) if self.target and frame.file.endswith(WRAPPERS) else frame

    @property
    def fail_type(self) -> str:
        """The name of the error that ended the compile, "" where it went well."""
        return str(self.metrics.get("fail_type") or "")

    @property
    def op_counts(self) -> list[dict[str, int]]:
        """The ops of each graph that was handed to a backend: more than one where a backend splits."""
        if self.handed:
            return [ops for ops in self.handed if ops]
        printed = dict(self.graph.ops) if self.graph else {}
        return [printed] if printed else []


class Heard:
    """The compiles of a capture by (epoch, compile id), and what could not be read."""

    def __init__(self) -> None:
        self.compiles: dict[tuple[int, str], Compile] = {}
        self.lone_calls: list[Mapping[str, Any]] = []
        self.targets: dict[int | None, str] = {}
        self.live: list[tuple[str, tuple[Leaf, ...]]] = []
        self.logs: list[str] = []
        # What code of the user's refers to, as dotted paths: what was compiled, and what has called it.
        self.traced: set[str] = set()
        self.callers: set[str] = set()
        self.inputs: set[str] = set()
        self._unread: dict[str, tuple[int, str]] = {}

    def compile(self, record: Record, order: int) -> Compile:
        """Return the compile that a record belongs to."""
        key = (record.epoch, record.compile_id)
        if key not in self.compiles:
            target = self.targets.get(record.call, "")
            self.compiles[key] = Compile(record.epoch, record.compile_id, record.call, order, target=target)
        return self.compiles[key]

    def miss(self, kind: str, why: str) -> None:
        """Count a record that could not be read."""
        count, first = self._unread.get(kind, (0, why))
        self._unread[kind] = (count + 1, first)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be read, by kind."""
        return tuple(Unread(kind, count, why) for kind, (count, why) in self._unread.items())

    def __iter__(self) -> Iterator[Compile]:
        return iter(sorted(self.compiles.values(), key=lambda each: each.order))
