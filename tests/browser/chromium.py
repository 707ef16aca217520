"""The system's Chromium, driven by playwright; nothing is downloaded."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--no-sandbox",  # root may not have one
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def path() -> str:
    """Return the path of the browser, or an empty string."""
    found = (shutil.which(name) for name in NAMES)
    return os.environ.get("CHROMIUM", "") or next(filter(None, found), "")


def missing(*modules: str) -> str:
    """Return what these tests need and don't find, or an empty string."""
    absent = [name for name in ("playwright", *modules) if importlib.util.find_spec(name) is None]
    if absent:
        return f"no {' and no '.join(absent)}: pip install 'compile-magic[browser]'"
    return "" if path() else "no Chromium: install it, or name it in $CHROMIUM"


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path(), args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()
