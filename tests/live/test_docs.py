"""What the README and the docs tell people to type works, and what they quote was really said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from notebook import Notebook

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
# What the pages take for granted.
GIVEN = """
import torch
import compile_magic
model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
def train(steps):
    for _ in range(steps // 50):
        model(x)
"""
TIME = re.compile(r"\d[\d.,]* ?(?:µs|ms|s)\b")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for kind, code in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL) if kind == language]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_examples_run(notebook: Notebook, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python example of a page runs, one after the other, as its reader would type them."""
    monkeypatch.chdir(tmp_path)
    notebook.ok(GIVEN)
    for code in blocks(page, "python"):
        notebook.ok(code)


def said_in(demo: str) -> str:
    cells = json.loads((ROOT / demo).read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join("".join(text) for text in texts)


def quotes() -> list[tuple[str, str]]:
    """Return each quoted output of the README with the demo that it names."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"From \[(demo/\w+\.ipynb)\][^\n]*\n\n```\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(("demo", "quoted"), quotes(), ids=[demo for demo, _ in quotes()])
def test_quoted_output_stands_in_the_demo(demo: str, quoted: str) -> None:
    """Each line that the README quotes from a demo stands in the saved demo, times excepted."""
    said = lines_of(said_in(demo))

    assert [line for line in lines_of(quoted) if line not in said] == []


def lines_of(text: str) -> list[str]:
    # A time of another length moves what stands beside it.
    return [" ".join(line.split()) for line in TIME.sub("TIME", text).splitlines()]


def test_the_readme_quotes_the_watch_and_the_bench() -> None:
    """There is something to compare: an output of each of the two demos."""
    assert {demo for demo, _ in quotes()} == {"demo/watch.ipynb", "demo/bench_gpu.ipynb"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each relative link of a page leads to a file of the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]

    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []
