"""Run the README's two commands, taken from its text, in a venv of their own with torch already there.

The README tells what to type on a fresh machine; this is the fresh machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands() -> list[str]:
    """Return the commands in the README's section for a fresh machine, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## On a fresh machine", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"```bash\n(.+?)```", section, re.DOTALL)
    if len(found) != 2:
        raise SystemExit(f"the README must have exactly two commands for a fresh machine, found {len(found)}")
    return [command.strip() for command in found]


def main() -> None:
    """Run both commands and fail with the first that fails."""
    first, second = commands()
    shown = run(first, capture=True)
    print(shown)
    for promised in ("compile_explain:", "break", "Cell In["):
        if promised not in shown:
            raise SystemExit(
                f"the first command must end with the tables of an explained cell; {promised!r} is missing"
            )
    run(second, capture=False)


def run(command: str, *, capture: bool) -> str:
    """Run one command in the root of the checkout, with the current environment."""
    print(f"$ {command}", flush=True)
    done = subprocess.run(  # noqa: S602 - the README's own text
        command,
        shell=True,
        cwd=ROOT,
        env={**os.environ},
        text=True,
        check=False,
        stdout=subprocess.PIPE if capture else None,
        executable="/bin/bash",
    )
    if done.returncode:
        sys.stdout.write(done.stdout or "")
        raise SystemExit(f"this command of the README failed with exit status {done.returncode}: {command}")
    return done.stdout or ""


if __name__ == "__main__":
    main()
