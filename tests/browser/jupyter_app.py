"""A Jupyter server with JupyterLab and Notebook 7, which reads and writes nothing outside of its own folders."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOKEN = "compile-magic"  # noqa: S105 - guards a server that only this machine reaches, while the tests run
STARTS_WITHIN = 90.0
ENDS_WITHIN = 20.0
OPTIONS = (
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    f"--IdentityProvider.token={TOKEN}",
    "--ServerApp.port_retries=0",
    # Nothing is asked of the network.
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)
PATHS = {"lab": "lab/tree/{}?reset&", "notebook": "notebooks/{}?"}


class Server:
    """Serves the notebooks in `root`; settings, signatures and the log are in `home`."""

    def __init__(self, root: Path, home: Path) -> None:
        """Start it and wait until it answers."""
        self.root = root
        self._settings = home / "labsettings" / "@jupyterlab" / "apputils-extension"
        self._settings.mkdir(parents=True)
        self._set("notification", {"fetchNews": "false", "checkForUpdates": False})
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._log = home / "server.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--port={port}", f"--ServerApp.root_dir={root}"],
                env=os.environ | _folders(home),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def page(self, app: str, name: str) -> str:
        """Return the address of a notebook in "lab" or "notebook"."""
        return f"{self._url}/{PATHS[app].format(name)}token={TOKEN}"

    def set_theme(self, theme: str) -> None:
        """Choose the theme of the pages that are opened from now on."""
        self._set("themes", {"theme": theme})

    def has_idle_kernel(self) -> bool:
        """Tell whether a kernel is ready to run cells and a page is connected to it."""
        try:
            kernels = self._get("kernels")
        except OSError:  # a busy server answers with an error for a moment
            return False
        return any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)

    def stop(self) -> None:
        """End it and its kernels."""
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _set(self, what: str, values: dict[str, Any]) -> None:
        (self._settings / f"{what}.jupyterlab-settings").write_text(json.dumps(values), encoding="utf-8")

    def _wait(self) -> None:
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.2)
        self.stop()
        raise RuntimeError(f"the Jupyter server doesn't answer:\n{self._log.read_text()}")

    def _answers(self) -> bool:
        try:
            self._get("status")
        except OSError:
            return False
        return True

    def _get(self, what: str) -> Any:
        address = f"{self._url}/api/{what}?token={TOKEN}"
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - the address of our own server
            return json.load(answer)


@contextmanager
def serving(root: Path, home: Path) -> Iterator[Server]:
    """A server that is ended afterwards."""
    server = Server(root, home)
    try:
        yield server
    finally:
        server.stop()


def _folders(home: Path) -> dict[str, str]:
    return {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "labsettings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
