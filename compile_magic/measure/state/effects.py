"""Effects outside of the process that a run must not have twice, refused before they happen.

`EFFECTS` is the registry: where a function is found, what it does in words, and when that is an effect at all.
"""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
import multiprocessing
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import ExitStack
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pathlib import PurePath
from types import FrameType
from typing import Any

from compile_magic import _torch
from compile_magic.measure.state.limit import FirstS
from compile_magic.measure.state.limit import limited
from compile_magic.measure.state.patching import patched
from compile_magic.measure.state.writes import UnrepeatableError
from compile_magic.measure.state.writes import refusals_stand
from compile_magic.run.files import is_user_file
from compile_magic.run.files import roots

Arguments = Mapping[str, Any]


def _always(args: Sequence[Any], kwargs: Arguments) -> bool:
    return True


def _opens_for_writing(args: Sequence[Any], kwargs: Arguments) -> bool:
    mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
    return isinstance(mode, str) and bool(set(mode) & set("wax+"))


def _os_opens_for_writing(args: Sequence[Any], kwargs: Arguments) -> bool:
    flags = args[1] if len(args) > 1 else kwargs.get("flags", 0)
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))


def _waits_for_nothing(args: Sequence[Any], kwargs: Arguments) -> bool:
    # A message to a socket of this machine's own, as event loops send themselves, goes nowhere.
    address = args[1] if len(args) > 1 else None
    return not (isinstance(address, tuple) and address and address[0] in ("127.0.0.1", "::1", "localhost"))


def _by_the_users_own_code(args: Sequence[Any], kwargs: Arguments) -> bool:
    # Libraries do so for pools that they wait for. Between here and the caller lies the guard.
    return is_user_file(sys._getframe(_CALLER).f_code.co_filename)  # noqa: SLF001 - the only way to a caller's file


_CALLER = 2


def _waits(happens: Callable[[Sequence[Any], Arguments], bool], args: Sequence[Any], kwargs: Arguments) -> bool:
    # Libraries wait for threads of their own, as a thread that starts another one does.
    return is_user_file(sys._getframe(_CALLER).f_code.co_filename) and happens(args, kwargs)  # noqa: SLF001 - as above


def _is_empty(args: Sequence[Any], kwargs: Arguments) -> bool:
    return _blocks(args[1:], kwargs) and not args[0].queue


def _is_full(args: Sequence[Any], kwargs: Arguments) -> bool:
    return _blocks(args[2:], kwargs) and 0 < args[0].maxsize <= len(args[0].queue)


def _blocks(args: Sequence[Any], kwargs: Arguments) -> bool:
    return bool(args[0] if args else kwargs.get("block", True))


@dataclass(frozen=True)
class Effect:
    """A function with an effect: its module and dotted name, what it does ("{}" is its argument), and when it does."""

    module: str
    name: str
    words: str
    happens: Callable[[Sequence[Any], Arguments], bool] = _always
    # Of a method, the object comes first.
    subject: int = 0


def _files(module: str, names: str, words: str, **more: Any) -> list[Effect]:
    return [Effect(module, name, words, **more) for name in names.split()]


_SHELLS = "InteractiveShell.run_cell InteractiveShell.run_line_magic InteractiveShell.run_cell_magic"

EFFECTS: tuple[Effect, ...] = (
    Effect("builtins", "open", "opens {} for writing", _opens_for_writing),
    Effect("io", "open", "opens {} for writing", _opens_for_writing),
    # What IPython calls `open` in a notebook looks it up here.
    Effect("IPython.core.interactiveshell", "io_open", "opens {} for writing", _opens_for_writing),
    Effect("os", "open", "opens {} for writing", _os_opens_for_writing),
    *_files("os", "remove unlink rmdir", "deletes {}"),
    *_files("os", "rename replace link symlink", "moves or links {}"),
    *_files("os", "mkdir mkfifo", "makes {}"),
    *_files("os", "truncate chmod chown utime", "changes {}"),
    # Python 3.10's pathlib has taken its functions from `os` before anybody could exchange them.
    *_files("pathlib", "Path.unlink Path.rmdir", "deletes {}"),
    *_files("pathlib", "Path.rename Path.replace Path.symlink_to", "moves or links {}"),
    *_files("pathlib", "Path.mkdir Path.touch", "makes {}"),
    Effect("os", "system", "runs {}"),
    *_files("os", "kill killpg abort execv execve", "ends or replaces a process"),
    *_files("os", "fork forkpty posix_spawn posix_spawnp", "starts a process"),
    *_files("os", "write writev pwrite sendfile", "writes to an open file"),
    *_files("os", "read readv", "reads from an open file"),
    *_files("os", "wait waitpid", "waits for a process"),
    Effect("select", "select", "waits for input"),
    Effect("queue", "Queue.get", "waits for what comes into a queue that is empty", partial(_waits, _is_empty)),
    Effect("queue", "Queue.put", "waits for room in a queue that is full", partial(_waits, _is_full)),
    Effect(
        "queue",
        "Queue.join",
        "waits for what works on a queue",
        partial(_waits, lambda args, _: args[0].unfinished_tasks > 0),
    ),
    Effect("threading", "Event.wait", "waits for an event", partial(_waits, lambda args, _: not args[0].is_set())),
    Effect("threading", "Condition.wait", "waits for another thread", _by_the_users_own_code),
    Effect("threading", "Barrier.wait", "waits for other threads", _by_the_users_own_code),
    Effect(
        "threading",
        "Semaphore.acquire",
        "waits for another thread",
        partial(_waits, lambda args, _: args[0]._value == 0),  # noqa: SLF001 - it has no other name
    ),
    Effect("threading", "Thread.start", "starts a thread, which may go on after it", _by_the_users_own_code),
    Effect("multiprocessing.process", "BaseProcess.start", "starts a process", _by_the_users_own_code),
    Effect("atexit", "register", "registers what is called at the end of the kernel", _by_the_users_own_code),
    *_files("IPython.core.interactiveshell", _SHELLS, "runs {} in IPython", subject=1),
    Effect("subprocess", "Popen.__init__", "runs {}", subject=1),
    *_files("socket", "socket.connect socket.connect_ex", "connects to {}", happens=_waits_for_nothing, subject=1),
    Effect("socket", "socket.sendto", "sends data over the network"),
    Effect("sqlite3", "connect", "opens the database {}"),
    Effect("torch", "save", "saves to {}", subject=1),
    Effect("torch.serialization", "save", "saves to {}", subject=1),
    Effect("torch.jit", "save", "saves to {}", subject=1),
    Effect("torch.export", "save", "saves to {}", subject=1),
    Effect("builtins", "input", "asks for input"),
    Effect("getpass", "getpass", "asks for a password"),
)

_INSTEAD = "A bench would do so thousands of times. Put that in a cell of its own and bench the rest"


@contextmanager
def guarded(without: frozenset[str] = frozenset(), first_s: FirstS = lambda: None) -> Iterator[None]:
    """Return a context for runs, in which effects outside of the process are refused before they happen.

    What torch's compiler, Triton and Python's import do for their caches is let through, and so are the workers of a
    data loader.

    Args:
        without: names of functions that are left alone.
        first_s: gives the seconds that the first run took, if there was one: others may not take for ever.

    Raises:
        UnrepeatableError: inside the context, from the call that is refused; and at its end, if the user's code has
            caught that.
    """
    with refusals_stand(), limited(run_of, first_s), ExitStack() as stack:
        for effect in EFFECTS:
            holder, name = _place(effect)
            if holder is not None and name not in without:
                stack.enter_context(patched(holder, name, partial(_guard, effect)))
        yield


def compiled_names() -> frozenset[str]:
    """Return the names in what is compiled already: a guard on one of them would have it compiled anew."""
    return frozenset(name for code in _torch.seen_codes() for name in code.co_names)


def originals() -> dict[int, Effect]:
    """Return the guarded functions by `id`, for those who hold one under another name."""
    places = [(effect, *_place(effect)) for effect in EFFECTS if "." not in effect.name]
    return {id(getattr(holder, name)): effect for effect, holder, name in places if holder is not None}


def _place(effect: Effect) -> tuple[Any, str]:
    """Return the module or class that has the function, None if that isn't there, and the name in it."""
    *path, name = effect.name.split(".")
    holder: Any = sys.modules.get(effect.module)
    for part in path:
        holder = getattr(holder, part, None)
    return (holder if hasattr(holder, name) else None), name


@functools.lru_cache(maxsize=256)  # code that is compiled under a guard asks for the very same one the next time
def _guard(effect: Effect, function: Callable[..., Any]) -> Callable[..., Any]:
    def guard(*args: Any, **kwargs: Any) -> Any:
        if effect.happens(args, kwargs) and is_asked_by_user():
            raise UnrepeatableError(f"The cell {effect.words.format(_subject(effect, args))}. {_INSTEAD}")
        return function(*args, **kwargs)

    return guard


def _subject(effect: Effect, args: Sequence[Any]) -> str:
    value = args[effect.subject] if len(args) > effect.subject else ""
    if isinstance(value, (list, tuple)) and all(isinstance(part, (str, int)) for part in value):
        return f"`{' '.join(map(str, value))}`"
    if isinstance(value, (str, PurePath)):
        return f"'{value}'"
    return effect.name if isinstance(value, (int, bytes)) else "a file"


def is_asked_by_user() -> bool:
    """Return whether the user's code is among the callers, and no compiler, import or pool of workers in between.

    Neither is it the user's if we ourselves do it: what lies between a run and the bench around it, as the profiler
    that is started there. Other threads of the kernel, which save the history and the like, have no code of the user's
    among their callers.
    """
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(frame) or file == _run_of():
            return True
        if _is_machinery(file) or _is_ours(file):
            return False
        frame = frame.f_back
    return False


def is_users(frame: FrameType) -> bool:
    """Return whether a frame runs code of the user's: a cell's, a file's, and what was made of a text for these."""
    file = frame.f_code.co_filename
    if not file.startswith("<") or not is_user_file(file):
        return is_user_file(file)
    # A cell, or what a library has made of a text, such as the methods of a dataclass.
    module = sys.modules.get(str(frame.f_globals.get("__name__", "")))
    where = getattr(module, "__file__", None)
    return where is None or is_user_file(str(where))


def run_of(frame: FrameType | None) -> FrameType | None:
    """Return the frame that began the run of the user's which a frame is part of; None if it is, or compiles, none."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _run_of():
            return frame
        if file.startswith(_compiling()):
            return None
        frame = frame.f_back
    return None


def _is_machinery(file: str) -> bool:
    return file.startswith(_machinery())


def _is_ours(file: str) -> bool:
    """Return whether code of ours that does not stand between the user's code and what that calls is in a file."""
    return file.startswith(roots().tool) and not file.startswith(_between())


@functools.cache
def _run_of() -> str:
    """Return the file of ours whose code begins a run of the user's."""
    return str(Path(roots().tool, "measure", "work.py"))


@functools.cache
def _compiling() -> tuple[str, ...]:
    """Return how the files begin whose code is among the callers while something is compiled."""
    return (*_torch.compiling_files(), *(str(Path(root, "triton", "")) for root in roots().packages))


@functools.cache
def _between() -> tuple[str, ...]:
    """Return how the files begin whose code is called by a run: guards, modes, and what stands in for a callable."""
    measure = Path(roots().tool, "measure")
    return (
        str(measure / "state"),
        str(measure / "results"),
        str(measure / "share.py"),
        str(measure / "floor" / "traffic.py"),
        str(Path(roots().tool, "run")),
        str(Path(roots().tool, "_torch.py")),
    )


@functools.cache
def _machinery() -> tuple[str, ...]:
    """Return how the files begin whose code writes caches, or talks to its own worker processes."""
    workers = str(Path(multiprocessing.__file__).parent)
    pools = str(Path(concurrent.futures.__file__).parent)
    tritons = (str(Path(root, "triton", "")) for root in roots().packages)
    return ("<frozen importlib", workers, pools, *_torch.compiler_folders(), *tritons)
