"""The lines of a cell as a traceback quotes them."""

from __future__ import annotations

import linecache
from typing import Any

# Where an entry of a cache holds the lines of its file.
_LINES = 2


def quote_instead(file: str, code: str, line: str) -> None:
    """Let tracebacks quote `line` for each line of a file that has `code` in it."""
    for cache in _caches():
        entry = cache.get(file)
        if entry is not None and len(entry) > _LINES:
            shown = [line + "\n" if code in text else text for text in entry[_LINES]]
            cache[file] = (*entry[:_LINES], shown, *entry[_LINES + 1 :])


def _caches() -> tuple[dict[str, Any], ...]:
    cache: Any = linecache.cache
    # IPython 7 has its cells in a cache of its own too, and before each traceback puts them from there into Python's.
    return cache, getattr(linecache, "_ipython_cache", {})
