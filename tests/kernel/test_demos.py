"""The notebooks in demo/ run, and say what they said when they were saved."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

DEMO = Path(__file__).resolve().parents[2] / "demo"
NOTEBOOKS = sorted(path for path in DEMO.glob("*.ipynb") if not path.stem.endswith("_gpu"))
COMMAND = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
# Times differ from run to run; everything else is the same.
TIME = re.compile(r"\d[\d.,]* ?(?:µs|ms|s)\b")


def said(notebook: Any) -> list[str]:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [text for output in outputs if (text := _text(output))]


def _text(output: Any) -> str:
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return "" if output.get("name") == "stderr" else " ".join(TIME.sub("TIME", text).split())


@pytest.mark.kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_demo_runs_and_says_what_is_saved(path: Path) -> None:
    """Run afresh, a demo notebook ends without an error and shows what is saved in it, times excepted."""
    saved = nbformat.read(path, as_version=4)
    again = nbformat.from_dict(saved)
    manager = AsyncKernelManager()
    # The kernel of this interpreter, whether or not a kernelspec is installed.
    manager._kernel_spec = KernelSpec(argv=COMMAND, language="python")
    NotebookClient(again, km=manager, timeout=120, resources={"metadata": {"path": str(DEMO)}}).execute()

    assert said(again) == said(saved)


@pytest.mark.parametrize("path", sorted(DEMO.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_saved_demo_is_clean(path: Path) -> None:
    """A saved demo has its outputs, no ANSI escapes, no error, and no path of the machine that made it."""
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]

    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert said(notebook) != []
    assert "\\u001b" not in text
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert not re.search(r"/(?:home|root|opt|work|Users)/", text)
