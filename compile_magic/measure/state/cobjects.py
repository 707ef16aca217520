"""Objects that are implemented in C: what they hold can't be seen, and what they do can't be undone.

`WAITING` are those that do input and output, or wait for others, whoever calls them. Those of Python's own, torch and
numpy are known otherwise; a call of any other one by the user's own code is refused before it is made.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from compile_magic.measure.state.effects import is_asked_by_user
from compile_magic.run.files import is_user_file

_APART = "Put that in a cell of its own and bench the rest"
_ANY: tuple[str, ...] = ()
_TALKS = ("send", "sendall", "sendto", "sendmsg", "recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "accept")
_OVER_A_SOCKET = "sends or receives over a socket"
_WORKS_ON_A_DATABASE = "works on a database"
# By module and name of the type: the methods that count (none named: all), and what they do in words.
WAITING: dict[str, tuple[tuple[str, ...], str]] = {
    "sqlite3.Connection": (_ANY, _WORKS_ON_A_DATABASE),
    "sqlite3.Cursor": (_ANY, _WORKS_ON_A_DATABASE),
    "sqlite3.Blob": (_ANY, _WORKS_ON_A_DATABASE),
    "_socket.socket": ((*_TALKS, "connect", "connect_ex"), _OVER_A_SOCKET),
    "_ssl._SSLSocket": (_ANY, _OVER_A_SOCKET),
    "select.epoll": (("poll",), "waits for input"),
    "select.poll": (("poll",), "waits for input"),
    "select.kqueue": (("control",), "waits for input"),
    "mmap.mmap": (
        ("write", "write_byte", "flush", "move", "resize", "seek", "read", "readline"),
        "works on a mapped file",
    ),
    "_queue.SimpleQueue": (("get", "get_nowait", "put", "put_nowait"), "takes from or puts into a queue of C's"),
    "_multiprocessing.SemLock": (("acquire", "release", "__enter__", "__exit__"), "waits for other processes"),
}
# Objects of Python's own that go on from where they are; what a run makes itself is harmless.
_STATEFUL = frozenset({"_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2"}) | frozenset(
    {"zlib", "_bz2", "_lzma", "_elementtree", "pyexpat", "_pickle", "_lsprof"}
)
# Otherwise known: seen by torch's modes, copied, or put back as memory.
_SEEN = frozenset(["torch", "functorch", "numpy", "triton", "compile_magic", "IPython", "ipykernel", "zmq"])
_HELD = ("acquire", "__enter__")


def refusal(function: Any, caller: str, knows: Callable[[object], bool]) -> str | None:
    """Return why a call of a function or method of C's can't be made in a run that is repeated, None if it can.

    Args:
        function: the function, as a profiler gets it.
        caller: the file of the code that calls it.
        knows: tells whether an object was there before the run.
    """
    held: Any = getattr(function, "__self__", None)
    kind: Any = type(held)
    rule = _rule(kind, function.__name__)
    if rule == "":
        return None
    if rule == "lock":
        waits = held.locked() and is_user_file(caller)
        return f"The cell waits for a lock that is taken, and nobody may ever give it back. {_APART}" if waits else None
    if rule == "stateful":
        return _changes(kind) if knows(held) and is_user_file(caller) else None
    if rule == "unknown":
        return _changes(kind) if is_user_file(caller) else None
    return f"The cell {rule}: a bench would do so thousands of times. {_APART}" if is_asked_by_user() else None


def is_harmless(kind: Any) -> bool:
    """Return whether there is a rule for no method of a type."""
    return issubclass(kind, (types.ModuleType, type)) or all(map(_has_no_rule, kind.__mro__))


@lru_cache(maxsize=4096)
def _has_no_rule(definer: Any) -> bool:
    known = f"{definer.__module__}.{definer.__qualname__}" not in WAITING and not _of_others(definer, _HELD[0])
    return known or not any(map(_is_c_method, vars(definer).values()))


def _changes(kind: Any) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"The cell calls a `{name}`, which is implemented in C: what that changes can't be put back. {_APART}"


@lru_cache(maxsize=4096)
def _rule(kind: Any, name: str) -> str:
    """Return "" for what is harmless, else a word for a rule, or what the call does."""
    if issubclass(kind, (types.ModuleType, type)):
        return ""
    definer: Any = next((base for base in kind.__mro__ if _is_c_method(vars(base).get(name))), None)
    if definer is None:
        return ""
    waiting = WAITING.get(f"{definer.__module__}.{definer.__qualname__}")
    if waiting is not None:
        return waiting[1] if not waiting[0] or name in waiting[0] else ""
    return _of_others(definer, name)


def _of_others(definer: Any, name: str) -> str:
    root = str(definer.__module__).partition(".")[0]
    if definer.__qualname__ == "lock" and root == "_thread":
        return "lock" if name in _HELD else ""
    if root in _STATEFUL:
        return "stateful"
    known = root in _SEEN or root in sys.stdlib_module_names or root in sys.builtin_module_names
    return "" if known else "unknown"


def _is_c_method(found: object) -> bool:
    return isinstance(found, (types.MethodDescriptorType, types.WrapperDescriptorType))


def waits(value: Any) -> bool:
    """Return whether this is an object that does input and output, or waits for others."""
    kinds: Any = type(value).__mro__
    return any(f"{kind.__module__}.{kind.__qualname__}" in _REACHED for kind in kinds)


def is_stateful(value: Any) -> bool:
    """Return whether this is an object of C's that goes on from where it is, such as a checksum."""
    return str(type(value).__module__).partition(".")[0] in _STATEFUL


# Not the locks, which most objects with threads have.
_REACHED = frozenset(WAITING) - {"_socket.socket", "_multiprocessing.SemLock"} | frozenset(
    {
        "multiprocessing.connection._ConnectionBase",
        "multiprocessing.queues.Queue",
        "multiprocessing.queues.SimpleQueue",
        "multiprocessing.pool.Pool",
        "multiprocessing.managers.BaseManager",
        "multiprocessing.managers.BaseProxy",
        "multiprocessing.shared_memory.SharedMemory",
        "multiprocessing.sharedctypes.SynchronizedBase",
        "concurrent.futures._base.Executor",
        "subprocess.Popen",
    }
)
