"""Run the GPU tests and record the run in tests/gpu_run.json: `python tests/gpu_run.py`, on a machine with a GPU.

CI has no GPU. So the record says for which state of the package they were run: `tree` is what git calls it
(`git rev-parse HEAD:compile_magic`), worked out here from the files, since such a machine may have no git.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tests" / "gpu_run.json"


def tree_hash(folder: Path) -> str:
    """Return the name that git gives a folder of plain files; what Python leaves there doesn't count.

    Source of the format: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
    """
    entries = []
    for path in folder.iterdir():
        if path.name == "__pycache__":
            continue
        kind, name = ("40000", tree_hash(path)) if path.is_dir() else ("100644", _object("blob", path.read_bytes()))
        # Git sorts a folder as if its name ended with a slash.
        entries.append((path.name + "/" * path.is_dir(), f"{kind} {path.name}\0".encode() + bytes.fromhex(name)))
    return _object("tree", b"".join(entry for _, entry in sorted(entries)))


def _object(kind: str, content: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


class _Outcomes:
    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how a test ended."""
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)


def main() -> int:
    """Run them, write the record, print it."""
    outcomes = _Outcomes()
    status = pytest.main(["-m", "gpu", "-n", "0", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[outcomes])
    record = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "tree": tree_hash(ROOT / "compile_magic"),
        "passed": len(outcomes.passed),
        "failed": sorted(set(outcomes.failed)),
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
