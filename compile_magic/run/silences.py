"""What torch has no record of, in words: calls served from the cache, stances, files that it skips."""

from __future__ import annotations

import types
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from compile_magic import _torch


def was_warm(names: Iterable[str]) -> str:
    """Return a note on compiled callables that were served from their caches."""
    shown = ", ".join(f"`{name}`" for name in names)
    return (
        f"nothing was compiled: {shown} was already compiled by an earlier cell and no guard failed; "
        "--fresh explains it anyway"
    )


def live_guards(codes: Iterable[types.CodeType]) -> Iterator[tuple[str, str]]:
    """Yield (compile id, guard text) of each version that code of compiled callables has now."""
    for code in codes:
        yield from _torch.live_guards(code)


def silences(silent: Collection[str], stances: Collection[str]) -> Iterator[str]:
    """Yield notes on the callables that left no record, and on the stances under which calls were made."""
    names = ", ".join(f"`{name}`" for name in silent)
    shown = ", ".join(sorted(set(stances) - {"default"}))
    if shown and names:
        yield f"nothing was compiled of {names}: the stance is {shown}"
    elif shown:
        yield f"the stance is {shown}: what it leaves in eager leaves no record"
    elif names:
        yield f"nothing was compiled of {names}, and torch doesn't say why: its code is on torch's skip list"
