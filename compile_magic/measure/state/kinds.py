"""Which objects the walk does not look into: plain values, open things, and the machinery around the user's code."""

from __future__ import annotations

import io
import logging
import socket
import types
from typing import Any

import torch

from compile_magic import _torch
from compile_magic import looks

ATOMS = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), slice, range}
    | {types.CodeType, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size}
)
# The machinery that runs the notebook, from which everything could be reached.
_CLOSED = frozenset(
    {"IPython", "ipykernel", "traitlets", "zmq", "tornado", "asyncio", "threading", "multiprocessing", "concurrent"}
    | {"importlib", "_frozen_importlib", "ctypes", "compile_magic"}
)
CLOSED_TYPES = (io.IOBase, socket.socket, logging.Logger, logging.Handler, torch.Generator)


def is_machinery(value: Any) -> bool:
    """Return whether an object belongs to what runs the notebook, or to torch's compiler and dispatcher."""
    return looks.module_name(type(value)).partition(".")[0] in _CLOSED or _torch.is_internal(value)
