"""Run a small program whose functions the user compiles, as a notebook's cell, and report what torch said of it."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys

import torch

from compile_magic import _torch
from compile_magic.model import ExplainReport
from compile_magic.read.parse import parse
from compile_magic.run.capture import Recorder
from compile_magic.run.sources import collect
from compile_magic.trace import Capture
from compile_magic.trace import Roots

PREAMBLE = 'import torch\n\ncompiled = torch.compile(backend="eager")\n\n'
FILE = "<ipython-input-1-observed>"


def observe(program: str) -> ExplainReport:
    """Return what torch said while the program ran, in a process state that is put back."""
    text = PREAMBLE + program
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    torch.compiler.reset()
    _torch.preload()
    recorder, config = Recorder(), torch._dynamo.config.save_config()
    with contextlib.redirect_stdout(io.StringIO()):
        recorder.start()
        try:
            exec(compile(text, FILE, "exec"), {"__name__": "__main__"})  # noqa: S102
        finally:
            recorder.stop()
            torch._dynamo.config.load_config(config)
            torch.compiler.reset()
    return parse(_capture(recorder))


def _capture(recorder: Recorder) -> Capture:
    records = recorder.records()
    return Capture(
        mode="observed",
        backend="eager",
        targets=(),
        records=records,
        sources=collect(records),
        roots=Roots(torch=_torch.torch_root(), stdlib=(sys.base_prefix + "/lib",)),
        recompile_limit=8,
        torch_version=torch.__version__,
    )
