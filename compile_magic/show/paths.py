"""Write the files in torch's text as a reader knows them: a cell by its number, an installed file by its package."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compile_magic.model import SourceLines

# A frame of the machinery that runs a cell: its line and the lines of source under it.
_PARTS = "compile_magic|IPython|ipykernel|torch[/\\\\]_dynamo|tornado|traitlets|runpy"
_MACHINERY = re.compile(rf'^  File "[^"]*[/\\](?:{_PARTS})[/\\.][^"]*", line .*\n(?:    .*\n)*', re.MULTILINE)
_INSTALLED = re.compile(r"[^\s\"'(]*?(?:(?:site|dist)-packages|/lib/python3\.\d+)[/\\]")


def familiar(text: str, sources: Iterable[SourceLines]) -> str:
    """Return the text with cells by number, and without the frames and folders that are not the user's."""
    for source in sources:
        if source.cell is not None:
            text = text.replace(source.file, f"Cell In[{source.cell}]")
    return _INSTALLED.sub("", _MACHINERY.sub("", text))
