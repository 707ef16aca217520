"""One server, one browser and one run of the notebook for all tests of a module; each view of it is opened once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import chromium
import magics_shown
import nbformat
import pytest
from jupyter_app import Server
from jupyter_app import serving
from opened import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARTIFACTS = Path(os.environ.get("BROWSER_ARTIFACTS", "") or Path(__file__).parent / "artifacts")
RUN = "shown.ipynb"
FOREIGN = "foreign.ipynb"
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"


@dataclass(frozen=True)
class View:
    """A way to look at the notebook that was run; a front end trusts what is in the file `RUN` and not in `FOREIGN`."""

    app: str
    theme: str
    width: int = 1280
    file: str = RUN
    media: str = "screen"


VIEWS = {
    "lab-light": View("lab", LIGHT),
    "lab-dark": View("lab", DARK),
    "lab-high-contrast": View("lab", "JupyterLab Dark High Contrast"),
    "lab-untrusted": View("lab", LIGHT, file=FOREIGN),
    "lab-untrusted-dark": View("lab", DARK, file=FOREIGN),
    "notebook-slim": View("notebook", LIGHT, 480),
    "notebook-narrow": View("notebook", LIGHT, 620),
    "notebook-narrow-untrusted": View("notebook", LIGHT, 620, file=FOREIGN),
    "lab-printed": View("lab", LIGHT, media="print"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser; where there is none the tests are skipped, but not in CI."""
    if absent := chromium.missing("jupyterlab", "notebook"):
        # A skip in CI would be taken for a pass.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(absent)
    with chromium.browsing() as started:
        yield started


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Jupyter server, with the notebook that shows all magics."""
    root = tmp_path_factory.mktemp("notebooks")
    nbformat.write(magics_shown.notebook(), root / RUN)
    with serving(root, tmp_path_factory.mktemp("jupyter")) as started:
        yield started


@pytest.fixture(scope="module")
def run(browser: Browser, server: Server) -> Path:
    """The folder of the notebook after it was run and saved in JupyterLab, with a copy that nobody signed."""
    server.set_theme(LIGHT)
    opened = Opened(browser, server, "lab", RUN, width=1280)
    opened.run_all()
    opened.save()
    opened.close()
    foreign = json.loads((server.root / RUN).read_text(encoding="utf-8"))
    # A signature covers the content, so the copy differs in it.
    foreign["metadata"]["from"] = "elsewhere"
    for cell in foreign["cells"]:
        cell["metadata"].pop("trusted", None)
    (server.root / FOREIGN).write_text(json.dumps(foreign), encoding="utf-8")
    return server.root


@pytest.fixture(scope="module", params=VIEWS)
def view(request: pytest.FixtureRequest, browser: Browser, server: Server, run: Path) -> Iterator[Opened]:
    """The saved notebook in one of the views, with a picture of each report."""
    one = VIEWS[request.param]
    server.set_theme(one.theme)
    opened = Opened(browser, server, one.app, one.file, width=one.width)
    opened.page.emulate_media(media=one.media)
    opened.wait_for(len(magics_shown.SHOWN))
    pictures(opened, request.param)
    yield opened
    opened.close()


def pictures(opened: Opened, name: str) -> None:
    """Keep pictures of the page and of each report, for people to look at."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    opened.page.screenshot(path=ARTIFACTS / f"{name}.png")
    for at, shown in enumerate(magics_shown.SHOWN):
        opened.reports.nth(at).screenshot(path=ARTIFACTS / f"{name}-{shown.name}.png")
