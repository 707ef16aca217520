"""What a walk has found."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch

from compile_magic.measure.state.kept import Kept

Found = tuple[str, Any]


@dataclass
class Reach:
    """What was found.

    `kept` remembers each container, `tensors` has each tensor by its `id` with a path like "model.0.weight", `arrays`
    the numpy arrays, `opaque` what was reached and not looked into. `objects` are all of these and whatever else was
    reached, in the order of the walk. `complete` is False if there was too much.
    """

    kept: list[Kept] = field(default_factory=list)
    tensors: dict[int, tuple[str, torch.Tensor]] = field(default_factory=dict)
    arrays: list[Found] = field(default_factory=list)
    opaque: list[Found] = field(default_factory=list)
    objects: list[Found] = field(default_factory=list)
    complete: bool = True
