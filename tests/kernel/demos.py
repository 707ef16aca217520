"""Run the notebooks in demo/, and read what they say.

`python tests/kernel/demos.py demo/lab.ipynb` runs a notebook and saves it with its new outputs. Look at `git diff`
before you commit it: figures of a bench are only representative on a quiet machine.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

DEMO = Path(__file__).resolve().parents[2] / "demo"
COMMAND = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# Times differ from run to run; everything else is the same.
TIME = re.compile(r"\d[\d.,]* ?(?:µs|ms|s)\b")
# What torch's own text has of the machine: a cell named by the kernel's process, an address, and, where a stack that is
# too long ends within one, a path.
OF_THE_MACHINE = {
    re.compile(r"/tmp/ipykernel_\d+/"): "",  # noqa: S108 - no file of ours
    re.compile(r"\b0x[0-9a-f]{8,}"): "0x…",
    re.compile(r'\n  File "/[^"\n<]*(?=</pre>)'): "",
}

BENCH = "compile_bench: "
# A row of the first table of a bench: its name, then figures or nothing; what explains a row is indented further.
ROW = re.compile(r"  (\S+(?: \S+)*)(?:  .*)?")
NO_TIMES = "no times: "
NO_COMPILER = "needs a C++ compiler"
# What a bench says wherever it has times, whatever they are.
SECTIONS = ("pays back after:", "a job of", "floor:", "compiling, by phase", "in full:")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def run(notebook: Any) -> Any:
    """Return a copy of the notebook, run in a kernel of this interpreter, whether or not a kernelspec is installed."""
    again = nbformat.from_dict(notebook)
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(argv=COMMAND, language="python")
    NotebookClient(again, km=manager, timeout=280, resources={"metadata": {"path": str(DEMO)}}).execute()
    return again


def save(notebook: Any, path: Path) -> None:
    """Save it without what differs from machine to machine and what a reader has no use for."""
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            _take_out_the_machine(output)
    nbformat.write(notebook, path)


def said(notebook: Any) -> list[str]:
    """Return what each output says, as far as it is the same in each run."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [same for output in outputs if (same := _same(_text(output)))]


def benches(notebook: Any) -> list[str]:
    """Return the texts of all benches."""
    texts = (_text(output) for cell in notebook.cells for output in cell.get("outputs", ()))
    return [text for text in texts if text.startswith(BENCH)]


def variants(bench: str) -> dict[str, str]:
    """Return why each variant of a bench has no times, "" where it has; in the order of the rows."""
    found: dict[str, str] = {}
    for line in _first_table(bench):
        if row := ROW.fullmatch(line):
            found[row[1]] = ""
        elif found and (why := line.strip()).startswith(NO_TIMES):
            found[next(reversed(found))] = why.removeprefix(NO_TIMES)
    return found


def sections(bench: str) -> list[str]:
    """Return which sections a bench has, without those that depend on what was measured."""
    lines = [line.strip() for line in bench.splitlines()]
    return [section for section in SECTIONS if any(line.startswith(section) for line in lines)]


def should_have_run(why: str) -> bool:
    """Tell whether a variant that has no times for that reason should have some: not where there is no C++ compiler."""
    return NO_COMPILER not in why or any(map(shutil.which, os.environ.get("CXX", "g++ clang++ c++").split()))


def _take_out_the_machine(output: Any) -> None:
    if html := output.get("data", {}).get("text/html"):
        for pattern, words in OF_THE_MACHINE.items():
            html = pattern.sub(words, html)
        output.data["text/html"] = html


def _text(output: Any) -> str:
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return "" if output.get("name") == "stderr" else text


def _same(text: str) -> str:
    return BENCH if text.startswith(BENCH) else " ".join(TIME.sub("TIME", text).split())


def _first_table(bench: str) -> list[str]:
    """Return the lines from under its heading to the next empty one."""
    lines = iter(bench.splitlines())
    for line in lines:
        if line.split()[:2] == ["variant", "first"]:
            break
    return [*iter(lambda: next(lines, ""), "")]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        save(run(read(Path(name))), Path(name))
