"""What every report can do: be a dict, be JSON, be a file, show itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from compile_magic.serial import from_plain
from compile_magic.serial import to_plain

if TYPE_CHECKING:
    # typing.Self is new in Python 3.11.
    from typing_extensions import Self


class Report:
    """The common part of the report types, which are frozen dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists and scalars."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self) -> str:
        """Return the report as JSON; `from_json` loads it again."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Build a report from `to_dict`, also from one with fields that this version doesn't know.

        Raises:
            ValueError: a field without a default is missing.
        """
        return from_plain(cls, plain)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Build a report from `to_json`."""
        return cls.from_dict(json.loads(text))

    def save(self, path: str | Path) -> Path:
        """Write the report to a `.json` or a self-contained `.html` file and return its path.

        Raises:
            ValueError: the name ends in neither.
        """
        path = Path(path)
        if path.suffix not in (".json", ".html"):
            raise ValueError(f"can't save a report as {path.name!r}: the name must end in .json or .html")
        text = self.to_json() if path.suffix == ".json" else _render().page(self)
        path.write_text(text, encoding="utf-8")
        return path

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle: dict[str, str] = _render().mimebundle(self)
        kept = include or bundle
        return {mime: text for mime, text in bundle.items() if mime in kept and mime not in (exclude or ())}

    def __str__(self) -> str:
        text: str = _render().text(self)
        return text


def _render() -> Any:
    # The one arrow that points forward: a value shows itself in a notebook only if it knows its renderer.
    from compile_magic import render

    return render
