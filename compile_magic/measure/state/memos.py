"""The caches of `functools.lru_cache` and `functools.cache`, which Python lets nobody write."""

from __future__ import annotations

import functools
import gc
from typing import Any

from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.kept import same

MEMO: type = type(functools.lru_cache(lambda: None))


class MemoKept(Kept):
    """What a cached function has computed. One that was empty is emptied, one without a limit has its table put back.

    The table of one with a limit is chained in its order of use, and that is C's: what it has more stays.
    """

    def __init__(self, path: str, held: Any) -> None:
        self.path, self._held = path, held
        self._then, self._table = held.cache_info(), _table_of(held)
        self._entries = dict(self._table)

    def changed(self) -> bool:
        """Return whether it holds other results now, or has been asked at all if it held none."""
        now, then = self._held.cache_info(), self._then
        if then.currsize and then.maxsize is None:
            return len(self._table) != len(self._entries) or not same(self._table.values(), self._entries.values())
        return bool(now.misses != then.misses or (now != then and not then.currsize))

    def put_back(self) -> None:
        """Make it what it was.

        Raises:
            RuntimeError: it has a limit and held something.
        """
        if not self._then.currsize:
            self._held.cache_clear()
        elif self._then.maxsize is not None:
            raise RuntimeError("it is a cache, and keeps what the runs of the bench computed")
        else:
            self._table.clear()
            self._table.update(self._entries)


def _table_of(held: Any) -> dict[Any, Any]:
    # Beside the table it refers to its own `__dict__`, to functions and types.
    own = held.__dict__
    found = (part for part in gc.get_referents(held) if type(part) is dict and part is not own)
    return next(found, {})
