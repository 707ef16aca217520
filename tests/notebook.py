"""A notebook in this process: run cells, and see what a front end would get."""

from __future__ import annotations

import atexit
import io
from contextlib import redirect_stderr
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from compile_magic.model import ExplainReport


@dataclass(frozen=True)
class Ran:
    """What running one cell gave: `error` is None if the cell succeeded, `displays` are mime bundles in order."""

    value: Any
    error: BaseException | None
    stdout: str
    stderr: str
    displays: tuple[dict[str, str], ...]


class Notebook:
    """An IPython shell without a terminal. `get` reads a variable of the notebook."""

    def __init__(self, *, load: bool = True) -> None:
        InteractiveShell.clear_instance()
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        config.InteractiveShell.colors = "nocolor"
        self.shell = InteractiveShell.instance(config=config)
        self.shell.display_pub = CapturingDisplayPublisher()
        if load:
            self.ok("%load_ext compile_magic")

    def run(self, source: str) -> Ran:
        """Run a cell, whatever comes of it."""
        stdout, stderr = io.StringIO(), io.StringIO()
        self.shell.display_pub.outputs.clear()
        with redirect_stdout(stdout), redirect_stderr(stderr):
            result = self.shell.run_cell(source, store_history=True)
        bundles = tuple(output["data"] for output in self.shell.display_pub.outputs)
        error = result.error_before_exec or result.error_in_exec
        return Ran(result.result, error, stdout.getvalue(), stderr.getvalue(), bundles)

    def ok(self, source: str) -> Ran:
        """Run a cell that has to succeed."""
        ran = self.run(source)
        if ran.error is not None:
            raise AssertionError(f"the cell failed: {ran.stdout}{ran.stderr}") from ran.error
        return ran

    def explain(self, source: str, line: str = "") -> ExplainReport:
        """Run a cell under %%compile_explain, typed on its first line, and return the report."""
        self.ok(f"%%compile_explain {line}\n{source}")
        return self.report

    @property
    def report(self) -> ExplainReport:
        """The report of the last explained cell."""
        report: ExplainReport = self.get("_compile_report")
        return report

    def get(self, name: str) -> Any:
        """Return a variable of the notebook."""
        return self.shell.user_ns[name]

    def close(self) -> None:
        """Let go of the shell."""
        self.shell.run_line_magic("unload_ext", "compile_magic")
        self.shell.history_manager.end_session()
        # It would keep each shell until the end, and collect garbage for each: minutes after hundreds of tests.
        atexit.unregister(self.shell.atexit_operations)
        InteractiveShell.clear_instance()
