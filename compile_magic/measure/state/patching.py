"""Exchange an attribute of a module or class for a while."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NOT_ITS_OWN = object()


@contextmanager
def patched(holder: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Exchange `holder.name` for `make(original)`. Put back unless somebody else has exchanged it in the meantime."""
    before = vars(holder).get(name, _NOT_ITS_OWN)
    mine = make(getattr(holder, name))
    setattr(holder, name, mine)
    try:
        yield
    finally:
        if vars(holder).get(name) is mine:
            if before is _NOT_ITS_OWN:
                delattr(holder, name)
            else:
                setattr(holder, name, before)
