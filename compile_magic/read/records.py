"""What each record says, put to the compile that it belongs to: `PARSERS` by the record's kind."""

from __future__ import annotations

import json
from collections.abc import Callable

from compile_magic.read.breaks import read_break
from compile_magic.read.breaks import unread_break
from compile_magic.read.compiles import Heard
from compile_magic.read.frames import start_frames
from compile_magic.read.guards import read_leaves
from compile_magic.read.ops import read_graph
from compile_magic.trace import Record


def hear(records: tuple[Record, ...]) -> Heard:
    """Put each record to its compile. A record that can't be read is counted, and a break's text is kept."""
    heard = Heard()
    for order, record in enumerate(records):
        parser = PARSERS.get(record.kind)
        if parser is None:
            _note_unknown(heard, record)
            continue
        try:
            parser(heard, record, order)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            heard.miss(record.kind, f"no field {error}" if isinstance(error, KeyError) else str(error))
    _name_siblings(heard)
    return heard


def _name_siblings(heard: Heard) -> None:
    named = {each.frame_id: each for each in heard if each.frame is not None}
    for compiled in heard:
        if compiled.frame is None:
            compiled.sibling = named.get(compiled.frame_id)


def _note_unknown(heard: Heard, record: Record) -> None:
    """Count a record of a new kind if it may tell of a break, a guard or a recompile; others are none of ours."""
    if record.kind not in IGNORED and any(word in record.kind for word in ("graph_break", "guard", "recompile")):
        heard.miss(record.kind, "a kind of record that this version doesn't know")


def _enter(heard: Heard, record: Record, order: int) -> None:
    heard.targets[record.call] = str(record.data["target"])


def _live_guards(heard: Heard, record: Record, order: int) -> None:
    heard.live.append((record.compile_id, read_leaves(_payload(record))))


def _error(heard: Heard, record: Record, order: int) -> None:
    heard.compile(record, order).error = record.payload or ""


def _shape_guard(heard: Heard, record: Record, order: int) -> None:
    heard.compile(record, order).shape_guards.append(record.data)


def _specialised(heard: Heard, record: Record, order: int) -> None:
    heard.compile(record, order).specialised.append(record.data)


def _start(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    compile_.stack = start_frames(record.data["stack"])
    compile_.call = record.call


def _output_graph(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    # A compile that starts over hands its graph over again: only the last attempt counts.
    compile_.code, compile_.graph, compile_.handed = record.payload or "", None, []
    compile_.graph = read_graph(_payload(record))


def _backend_graph(heard: Heard, record: Record, order: int) -> None:
    ops = {str(name): int(count) for name, count in record.data["ops"].items()}
    heard.compile(record, order).handed.append(ops)
    heard.inputs.update(map(str, record.data.get("inputs", ())))


def _paths(heard: Heard, record: Record, order: int) -> None:
    (heard.traced if record.data.get("traced") else heard.callers).update(map(str, record.data["paths"]))


def _backward_graph(heard: Heard, record: Record, order: int) -> None:
    payload = _payload(record)
    heard.compile(record, order).backward[payload] = read_graph(payload)


def _break(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    try:
        compile_.breaks.append((order, read_break(_payload(record))))
    except ValueError:
        compile_.breaks.append((order, unread_break(record.payload or "")))
        raise


def _guards(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    compile_.leaves = ()
    compile_.leaves = read_leaves(_payload(record))


def _recompile(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    payload = _payload(record)
    compile_.reasons = (payload,)
    if payload.lstrip().startswith("["):
        compile_.reasons = tuple(str(reason) for reason in json.loads(payload))


def _symbol(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    compile_.symbols[str(record.data["source"])] = str(record.data["val"])
    compile_.symbol_sources[str(record.data.get("symbol"))] = str(record.data["source"])


def _metrics(heard: Heard, record: Record, order: int) -> None:
    compile_ = heard.compile(record, order)
    compile_.metrics = dict(record.data)
    if record.data.get("fail_type"):
        compile_.failed_at = order


def _backward_metrics(heard: Heard, record: Record, order: int) -> None:
    heard.compile(record, order).backward_metrics.append(record.data)


def _call(heard: Heard, record: Record, order: int) -> None:
    """Put the end of an intercepted call to the compile that failed in it."""
    if record.data.get("outcome", "ok") == "ok":
        return
    error, message = str(record.data.get("error")), str(record.data.get("message"))
    failed = [
        c for c in heard.compiles.values() if c.failed_at is not None and c.call == record.call and c.outcome is None
    ]
    for compile_ in sorted(failed, key=lambda c: c.failed_at or 0, reverse=True):
        first = str(compile_.metrics.get("fail_reason") or "").partition("\n")[0]
        if compile_.fail_type == error or (first and first in message):
            compile_.outcome = record.data
            return
    heard.lone_calls.append(record.data)


def _log(heard: Heard, record: Record, order: int) -> None:
    heard.logs.append(record.payload or "")


def _unreadable(heard: Heard, record: Record, order: int) -> None:
    heard.miss(record.kind, (record.payload or "a line that isn't a record").strip()[:200])


def _payload(record: Record) -> str:
    if not record.payload:
        raise ValueError("a record without its text")
    return record.payload


PARSERS: dict[str, Callable[[Heard, Record, int], None]] = {
    "enter": _enter,
    "dynamo_start": _start,
    "dynamo_output_graph": _output_graph,
    "backend_graph": _backend_graph,
    "paths": _paths,
    "aot_backward_graph": _backward_graph,
    "dynamo_graph_break_reason": _break,
    "dynamo_cpp_guards_str": _guards,
    "recompile_reasons": _recompile,
    "create_symbol": _symbol,
    "compilation_metrics": _metrics,
    "bwd_compilation_metrics": _backward_metrics,
    "dynamo_error": _error,
    "guard_added_fast": _shape_guard,
    "symbolic_shape_specialization": _specialised,
    "live_guards": _live_guards,
    "call": _call,
    "log": _log,
    "unreadable": _unreadable,
}

# Kinds that sound like ours and say nothing that isn't in another record.
IGNORED = frozenset(
    {
        "guard_added",
        "dynamo_guards",
        "guard_latency",
        "dynamo_guard_latency",
        "propagate_real_tensors_provenance",
        "aot_autograd_guards",
        "inductor_guards",
    }
)
