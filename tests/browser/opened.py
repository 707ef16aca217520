"""A notebook opened in a page: run, saved and looked at, each by waiting for what the page shows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from jupyter_app import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Locator
    from playwright.sync_api import Page

LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf-8")
REPORTS = ".jp-OutputArea-output .compile-magic"
# Front ends draw only the cells that are in sight, so all of them are.
HEIGHT = 3600
WITHIN = 90.0


@dataclass(frozen=True)
class Looks:
    """What looks.js tells of a report."""

    words: str
    rows: list[list[str]]
    wrong: list[str]
    odd: list[str]


def looks(part: Locator) -> Looks:
    """Return what is seen of a report, or of a part of it."""
    return Looks(**part.evaluate(LOOKS))


class Opened:
    """A notebook in a page of its own."""

    def __init__(self, browser: Browser, server: Server, app: str, name: str, *, width: int) -> None:
        """Open it and wait for its cells."""
        self._server = server
        self._file = server.root / name
        context = browser.new_context(viewport={"width": width, "height": HEIGHT}, reduced_motion="reduce")
        self.page: Page = context.new_page()
        self.page.goto(server.page(app, name))
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=WITHIN * 1000)

    @property
    def reports(self) -> Locator:
        """All reports in the page."""
        return self.page.locator(REPORTS)

    def run_all(self) -> None:
        """Run all cells by the menu, and wait for the number of the last one."""
        # Before the page is connected to the kernel, what it is asked to run is lost.
        self._until(self._server.has_idle_kernel, "a connected kernel")
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        cells = self.page.locator(".jp-CodeCell")
        count = cells.count()
        done = cells.last.locator(".jp-InputPrompt", has_text=f"[{count}]:")
        done.wait_for(timeout=WITHIN * 1000)

    def save(self) -> None:
        """Save it, and wait until all outputs are in the file."""
        self.page.keyboard.press("Control+s")
        self._until(self._is_saved, "the saved outputs")

    def wait_for(self, count: int) -> None:
        """Wait until so many reports are drawn."""
        self._until(lambda: self.reports.count() == count, f"{count} reports")

    def looks(self, at: int) -> Looks:
        """Return what is seen of a report."""
        return looks(self.reports.nth(at))

    def close(self) -> None:
        """Close the page."""
        self.page.context.close()

    def _is_saved(self) -> bool:
        cells: list[dict[str, Any]] = json.loads(self._file.read_text(encoding="utf-8"))["cells"]
        return all(cell["execution_count"] for cell in cells)

    def _until(self, there: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + WITHIN
        while not there():
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} after {WITHIN:.0f} s")
            self.page.wait_for_timeout(100)
