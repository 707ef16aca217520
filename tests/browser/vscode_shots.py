"""Draw the saved demos in a real VS Code, in three themes, and keep the pictures for people to look at.

VS Code comes as code-server, which is on npm: `npm install code-server` with the Node that its version asks for, and
with libkrb5-dev, libsecret-1-dev and libxkbfile-dev. It has the notebook renderers, but no kernels: cells can't be run.

    python tests/browser/vscode_shots.py node_modules/code-server/out/node/entry.js [notebook ...]

`node` is found on the PATH or named in $NODE, and the pictures are written to $BROWSER_ARTIFACTS.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Frame
    from playwright.sync_api import Page
    from playwright.sync_api import ViewportSize

HERE = Path(__file__).resolve().parent
DEMO = HERE.parents[1] / "demo"
ARTIFACTS = Path(os.environ.get("BROWSER_ARTIFACTS", "") or HERE / "artifacts")
LOOKS = (HERE / "looks.js").read_text(encoding="utf-8")
THEMES = {
    "light": "Default Light Modern",
    "dark": "Default Dark Modern",
    "high-contrast": "Default High Contrast",
}
# Only the cells that are in sight are drawn.
SIZE: ViewportSize = {"width": 1280, "height": 5200}
WITHIN = 60.0
SETTINGS = {
    "window.autoDetectColorScheme": False,
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "chat.disableAIFeatures": True,
}
REPORTS = ".compile-magic"


def main(entry: str, *notebooks: str) -> None:
    """Draw each notebook in each theme, print what looks.js finds wrong, and fail if a report isn't drawn."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        workspace = Path(home) / "demo"
        workspace.mkdir()
        copies = [Path(shutil.copy(path, workspace)) for path in notebooks or sorted(DEMO.glob("*.ipynb"))]
        for theme, title in THEMES.items():
            with serving(entry, Path(home), workspace, title) as address, chromium.browsing() as browser:
                for notebook in copies:
                    page = browser.new_page(viewport=SIZE)
                    draw(page, address, notebook, f"vscode-{theme}-{notebook.stem}")
                    page.close()


def draw(page: Page, address: str, notebook: Path, picture: str) -> None:
    """Open the notebook, wait for all of its reports, and keep pictures of the page and of each."""
    page.goto(address)
    opened(page, notebook.name)
    outputs = drawn(page, reports_in(notebook))
    page.screenshot(path=ARTIFACTS / f"{picture}.png")
    for at, report in enumerate(outputs.locator(REPORTS).all(), 1):
        report.screenshot(path=ARTIFACTS / f"{picture}-{at}.png")
        print(f"{picture}-{at}:", *(report.evaluate(LOOKS)["wrong"] or ["nothing wrong"]), sep="\n  ", flush=True)


def opened(page: Page, name: str) -> None:
    """Open a notebook by its row in the explorer, which at first may be there and not listen yet."""
    row = page.locator(".explorer-folders-view .monaco-list-row", has_text=name).first
    cells = page.locator(".notebookOverlay .cell-list-container")
    row.wait_for(timeout=WITHIN * 1000)
    end = time.monotonic() + WITHIN
    while not cells.count() and time.monotonic() < end:
        row.dblclick()
        page.wait_for_timeout(2000)


def reports_in(notebook: Path) -> int:
    """Return how many reports are saved in a notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return sum("compile-magic" in "".join(output.get("data", {}).get("text/html", "")) for output in outputs)


def drawn(page: Page, count: int) -> Frame:
    """Return the frame with the outputs, once it has so many reports."""
    end = time.monotonic() + WITHIN
    while time.monotonic() < end:
        for frame in page.frames:
            if frame.locator(REPORTS).count() >= count:
                return frame
        page.wait_for_timeout(200)
    raise TimeoutError(f"no {count} reports after {WITHIN:.0f} s")


@contextmanager
def serving(entry: str, home: Path, workspace: Path, theme: str) -> Iterator[str]:
    """A code-server with that theme, of which nothing is left."""
    data = home / "data"
    settings = {"workbench.colorTheme": theme, **SETTINGS}
    (data / "User").mkdir(parents=True, exist_ok=True)
    (data / "User" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (home / "config.yaml").write_text("auth: none\n", encoding="utf-8")
    port = _free_port()
    folders = ["--config", home / "config.yaml", "--user-data-dir", data, "--extensions-dir", home / "extensions"]
    quiet = ["--disable-telemetry", "--disable-update-check", "--disable-workspace-trust", "--auth", "none"]
    process = subprocess.Popen(
        [os.environ.get("NODE", "node"), entry, *folders, *quiet, "--bind-addr", f"127.0.0.1:{port}", workspace],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/healthz")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(20)


def _wait(address: str) -> None:
    end = time.monotonic() + WITHIN
    while not _answers(address):
        if time.monotonic() > end:
            raise TimeoutError("code-server doesn't answer")
        time.sleep(0.2)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - the address of our own server
            return True
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


if __name__ == "__main__":
    main(*sys.argv[1:])
