"""Run the situations with the installed torch and write what it says of each to `<version>/<name>.jsonl`.

Usage: python tests/traces/record.py [name ...]
"""

from __future__ import annotations

import functools
import json
import linecache
import re
import site
import sys
import sysconfig
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from situations import SITUATIONS
from situations import Situation

from compile_magic import _torch
from compile_magic.model import Target
from compile_magic.run.capture import CountingBackend
from compile_magic.run.capture import Recorder
from compile_magic.serial import to_plain
from compile_magic.trace import Capture
from compile_magic.trace import Record
from compile_magic.trace import Roots
from compile_magic.trace import SourceFile

HERE = Path(__file__).resolve()
ROOTS = Roots(
    torch="/site-packages/torch",
    stdlib=("/lib/python3.11",),
    packages=("/site-packages",),
    tool="/site-packages/compile_magic",
)
# Longest first: site-packages lies inside the standard library's folder.
MOVED = sorted(
    (
        (str(HERE), "/site-packages/compile_magic/cell.py"),
        (str(HERE.parents[2] / "compile_magic"), "/site-packages/compile_magic"),
        *((folder, "/site-packages") for folder in site.getsitepackages()),
        (sysconfig.get_paths()["stdlib"], "/lib/python3.11"),
    ),
    key=lambda pair: -len(pair[0]),
)
KEPT_METRICS = re.compile(
    r"compile_id|frame_key|co_\w+|fail_\w+|graph_\w+_count|guard_count|recompile_reason|restart_reasons|\w+_us"
    r"|\w+_time_s|is_forward|cudagraph_skip_reason|dynamo_compile_time_before_restart_us|cache_size|entire_\w+"
)
DROPPED = re.compile(r".*(config|BYTECODE|torch_version|python_version|run_node|memory).*", re.IGNORECASE)


def main(names: list[str]) -> None:
    """Record the named situations, or all."""
    folder = HERE.parent / ".".join(torch.__version__.split(".")[:2])
    folder.mkdir(exist_ok=True)
    _torch.preload()
    for name in names or SITUATIONS:
        capture = record(name, SITUATIONS[name])
        (folder / f"{name}.jsonl").write_text(neutral(capture).to_jsonl(), encoding="utf-8")
        if name == "two_breaks_two_sizes":
            (folder / "corrupted.jsonl").write_text(corrupted(neutral(capture)), encoding="utf-8")


def record(name: str, situation: Situation) -> Capture:
    """Run one situation and return what was heard."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    files = (f"<ipython-input-1-{name}>", f"<ipython-input-2-{name}>")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    recorder = Recorder()
    run(situation.setup, files[0], namespace)
    for target in situation.targets:
        namespace[target] = intercepted(namespace[target], situation, recorder)
    recorder.start()
    try:
        with torch._dynamo.config.patch(situation.config):
            run(situation.cell, files[1], namespace)
    finally:
        recorder.stop()
    return Capture(
        mode="calls" if situation.targets else "observed",
        backend=situation.backend,
        targets=tuple(Target(target, "compiled") for target in situation.targets),
        records=recorder.records(),
        sources=tuple(
            SourceFile(file, text, cell=number, offset=1)
            for number, (file, text) in enumerate(zip(files, (situation.setup, situation.cell), strict=True), 1)
        ),
        roots=ROOTS,
        recompile_limit=int(situation.config.get("recompile_limit", 8)),  # type: ignore[call-overload]
        torch_version=torch.__version__,
        python_version=sys.version.split()[0],
        origin=f"tests/traces/record.py {name}",
    )


def run(text: str, file: str, namespace: dict[str, Any]) -> None:
    """Run a cell under the name that IPython would give it."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)  # noqa: S102


def intercepted(target: Any, situation: Situation, recorder: Recorder) -> Callable[..., Any]:
    """Return `target` as the runner would call it: compiled, and in eager where compiling fails."""
    backend = CountingBackend(situation.backend, recorder)
    compiled = torch.compile(target, backend=backend, **situation.options)  # type: ignore[call-overload]
    code = getattr(target, "forward", target).__code__

    @functools.wraps(getattr(target, "forward", target))
    def call(*args: Any, **kwargs: Any) -> Any:
        with inside(recorder):
            try:
                return compiled(*args, **kwargs)
            except Exception as error:
                if not _torch.is_compile_error(error):
                    raise
                recorder.add("call", data=outcome(code, error))
        return target(*args, **kwargs)

    return call if not isinstance(target, torch.nn.Module) else Proxy(target, call)  # type: ignore[return-value]


def outcome(code: Any, error: Exception) -> dict[str, Any]:
    """Return what the runner says of a call that ended with a compile error."""
    frame = {"name": code.co_name, "file": code.co_filename, "line": code.co_firstlineno}
    told = {"outcome": "ran_eager", "error": type(error).__name__, "message": str(error)}
    return {"target": code.co_name, **told, "frame": frame}


class Proxy:
    """A module of which only the call is replaced."""

    def __init__(self, module: torch.nn.Module, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_parts", (module, call))

    def __call__(self, *args: Any) -> Any:
        """Make the call that was put in the place of the module's."""
        return self._parts[1](*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parts[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._parts[0], name, value)


@contextmanager
def inside(recorder: Recorder) -> Any:
    """Mark what is recorded as said in an intercepted call."""
    recorder.enter(0, "f")
    try:
        yield
    finally:
        recorder.leave()


def neutral(capture: Capture) -> Capture:
    """Return the capture without paths of this machine, and without what makes it large."""
    kept = [small(record) for record in capture.records if not DROPPED.fullmatch(record.kind)]
    text = json.dumps([[record.data, record.payload] for record in kept])
    for old, new in MOVED:
        text = text.replace(old, new)
    told = zip(kept, json.loads(text), strict=True)
    return replace(
        capture, records=tuple(replace(record, data=data, payload=payload) for record, (data, payload) in told)
    )


def corrupted(capture: Capture) -> str:
    """Return the lines of a capture of which one record of each kind, the first, is damaged."""
    damage = {
        "dynamo_graph_break_reason": {"payload": "Something broke, and torch words it otherwise now."},
        "dynamo_cpp_guards_str": {"payload": "no tree"},
        "dynamo_output_graph": {"payload": "class GraphModule(:"},
        "recompile_reasons": {"payload": "[not json"},
        "dynamo_start": {"data": {}},
        "compilation_metrics": {"data": {"duration_us": "soon", "graph_op_count": "few"}},
    }
    lines = []
    for line in capture.to_jsonl().splitlines():
        record = json.loads(line)
        lines.append(json.dumps({**record, **damage.pop(record.get("kind", ""), {})}))
    news = Record(kind="graph_break_of_the_future", compile_id="0/0", call=0, payload="?")
    return "\n".join([*lines[:-1], json.dumps(to_plain(news)), "{cut off", lines[-1]]) + "\n"


def small(record: Record) -> Record:
    """Return the record without the hundred metrics and the traceback lines that no parser reads."""
    data, payload = dict(record.data), record.payload
    if record.kind.endswith("compilation_metrics"):
        data = {key: value for key, value in data.items() if KEPT_METRICS.fullmatch(key) and value is not None}
    if record.kind == "dynamo_graph_break_reason" and payload and "\nTraceback (most" in payload:
        lines = payload.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("Traceback (most"))
        payload = "\n".join(lines[: start + 9]) + "\n"
    return replace(record, data=data, payload=payload, thread="", time=0.0)


if __name__ == "__main__":
    main(sys.argv[1:])
