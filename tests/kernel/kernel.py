"""A Jupyter kernel in a process of its own, spoken to as a front end does."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from compile_magic.model import ExplainReport

_STARTS_WITHIN = 60.0
_ENDS_WITHIN = 120.0
_SHOWS = ("display_data", "execute_result")


@dataclass(frozen=True)
class Ran:
    """What a front end gets from one cell.

    `outputs` are the mime bundles of displays and of the result, in order; `messages` the kinds of all messages with
    output, in order, a stream in several pieces being one; `count` is the number in `In [count]`.
    """

    status: str
    ename: str
    evalue: str
    outputs: tuple[Mapping[str, str], ...]
    stdout: str
    stderr: str
    execute_result: Mapping[str, str] | None
    messages: tuple[str, ...]
    count: int


class Kernel:
    """A kernel with this interpreter and its import path, no installed kernelspec needed."""

    def __init__(self) -> None:
        self._manager = _Manager()
        path = os.pathsep.join(filter(None, sys.path))
        self._manager.start_kernel(env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL)
        self._client = self._manager.client()
        self._client.start_channels()
        self._ready = False

    def run(self, source: str, *, timeout: float = _ENDS_WITHIN) -> Ran:
        """Run a cell, whatever comes of it.

        Raises:
            TimeoutError: the cell has not ended after `timeout` seconds.
        """
        messages: list[Mapping[str, Any]] = []
        reply = self._execute(source, timeout=timeout, output_hook=messages.append)
        shown = [(m["msg_type"], m["content"]["data"]) for m in messages if m["msg_type"] in _SHOWS]
        return Ran(
            status=reply["status"],
            ename=reply.get("ename", ""),
            evalue=reply.get("evalue", ""),
            outputs=tuple(data for _, data in shown),
            stdout=_stream(messages, "stdout"),
            stderr=_stream(messages, "stderr"),
            execute_result=next((data for kind, data in shown if kind == "execute_result"), None),
            messages=_kinds(messages),
            count=reply["execution_count"],
        )

    def ok(self, source: str) -> Ran:
        """Run a cell that has to succeed."""
        ran = self.run(source)
        if ran.status != "ok":
            raise AssertionError(f"the cell failed: {ran.ename}: {ran.evalue}")
        return ran

    def explain(self, source: str, line: str = "") -> ExplainReport:
        """Run a cell under %%compile_explain and return the report."""
        self.ok(f"%%compile_explain {line}\n{source}")
        return self.report

    @property
    def report(self) -> ExplainReport:
        """The report of the last explained cell."""
        return ExplainReport.from_json(self.get("_compile_report.to_json()"))

    def get(self, expression: str) -> Any:
        """Return the value of an expression that JSON can hold; the notebook's history and `_` don't change."""
        dumped = {"value": f"__import__('json').dumps({expression})"}
        value = self._execute("", silent=True, user_expressions=dumped)["user_expressions"]["value"]
        if value["status"] != "ok":
            raise AssertionError(f"can't evaluate {expression}: {value['ename']}: {value['evalue']}")
        return json.loads(ast.literal_eval(value["data"]["text/plain"]))

    def clear(self) -> None:
        """Forget all variables and start counting cells from 1; the process, its imports and its loggers stay."""
        self._execute("get_ipython().reset()", silent=True)

    def interrupt(self) -> None:
        """Press stop; from another thread, while a cell runs."""
        self._manager.interrupt_kernel()

    def stop(self) -> None:
        """End the process."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def _execute(self, source: str, *, timeout: float = _ENDS_WITHIN, **options: Any) -> Mapping[str, Any]:
        if not self._ready:
            self._client.wait_for_ready(timeout=_STARTS_WITHIN)
            self._ready = True
        hook = options.pop("output_hook", lambda _: None)
        options = {"allow_stdin": False, "stop_on_error": False, **options}
        reply: dict[str, Any] = self._client.execute_interactive(source, timeout=timeout, output_hook=hook, **options)
        return reply["content"]


@contextmanager
def running() -> Iterator[Kernel]:
    """A new kernel that is ended afterwards."""
    kernel = Kernel()
    try:
        yield kernel
    finally:
        kernel.stop()


class _Manager(KernelManager):
    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])


def _stream(messages: list[Mapping[str, Any]], name: str) -> str:
    streams = [message["content"] for message in messages if message["msg_type"] == "stream"]
    return "".join(stream["text"] for stream in streams if stream["name"] == name)


def _kinds(messages: list[Mapping[str, Any]]) -> tuple[str, ...]:
    kinds = [message["msg_type"] for message in messages if message["msg_type"] not in ("status", "execute_input")]
    pairs = zip(kinds, ["", *kinds], strict=False)
    return tuple(kind for kind, before in pairs if (kind, before) != ("stream", "stream"))
