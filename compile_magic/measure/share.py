"""How much of an eager run is spent in what would be compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compile_magic import _torch
from compile_magic.measure.lanes import EagerLane
from compile_magic.measure.state.patching import patched


class ShareLane(EagerLane):
    """Runs everything eager and adds up the time spent in what would be compiled, and in backward passes."""

    def __init__(self, *args: Any, synchronize: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._synchronize = synchronize
        self._depth = 0
        self.inside_s = 0.0

    def switch_on(self) -> None:
        """Put the clock around autograd's engine as well: compiled calls have compiled backward passes."""
        super().switch_on()
        for holder, name in _torch.engine_entries():
            self._block.enter_context(patched(holder, name, self._clocked))

    def stand_in(self, candidate: Any, name: str) -> Any:
        """Return the callable with a clock around it."""
        return self._clocked(super().stand_in(candidate, name))

    def _clocked(self, original: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            return self._timed(original, args, kwargs)

        return timed

    def _timed(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._depth:
            return original(*args, **kwargs)
        self._depth += 1
        self._synchronize()
        start = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            self._synchronize()
            self.inside_s += time.perf_counter() - start
            self._depth -= 1
