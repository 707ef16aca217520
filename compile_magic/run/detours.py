"""Make a Python function call something else for a while, as the same object with the same name and signature.

Its code object is exchanged for one with the same parameters and free variables, which hands the arguments on. So
whatever is stored meanwhile, a partial, a registry or a pickle, is the function itself, and nothing of ours.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from types import FunctionType
from typing import Any

from compile_magic import _torch

# Frames of files in our folder are dropped from tracebacks and stacks.
_FILE = str(Path(__file__).with_name("detour of "))


class Detour:
    """Sends the calls of a function to `instead`, with all arguments bound. It holds the function weakly.

    Args:
        function: the function; `lay` exchanges its code and `lift` gives it back, each as often as one likes.
        instead: called with the function's arguments. `original` makes the call as the function itself would.

    Raises:
        ValueError: no code with the function's parameters can be made; Python itself has such functions, users don't.
    """

    def __init__(self, function: FunctionType, instead: Callable[..., Any]) -> None:
        self._function = weakref.ref(function)
        self._instead: Callable[..., Any] | None = instead
        self._code = function.__code__
        self._detour = _code_like(function.__code__, self)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Hand a call on: the code in the function's place calls this."""
        __tracebackhide__ = True
        instead = self._instead or self.original
        return instead(*args, **kwargs)

    def original(self, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call with the function's own code, whatever is in its place now."""
        __tracebackhide__ = True
        function: Any = self._function()
        twin = FunctionType(self._code, function.__globals__, self._code.co_name, None, function.__closure__)
        return twin(*args, **kwargs)

    def lay(self) -> None:
        """Put the detour in place; other code that the function has got meanwhile must have the same parameters."""
        function = self._function()
        if function is None or self._instead is None or function.__code__ is self._detour:
            return
        if function.__code__ is self._code or _shape(function.__code__) == _shape(self._code):
            self._code = function.__code__
            function.__code__ = self._detour

    def lift(self) -> None:
        """Give the function its own code back."""
        function = self._function()
        if function is not None and function.__code__ is self._detour:
            function.__code__ = self._code
            _torch.hand_on_compile(self._detour, self._code)

    def end(self) -> None:
        """Lift it for good; who has kept the exchanged code calls the function's own with it from now on."""
        self.lift()
        linecache.cache.pop(self._detour.co_filename, None)
        # Its constants hold this, and the garbage collector doesn't look into code objects.
        self._detour = self._code
        self._instead = None

    def runs_in_another_thread(self) -> bool:
        """Return whether a thread besides this one is inside the function."""
        own = threading.get_ident()
        frames = [frame for thread, frame in sys._current_frames().items() if thread != own]  # noqa: SLF001 - documented for this use
        while frames:
            if any(frame.f_code is self._code for frame in frames):
                return True
            frames = [frame.f_back for frame in frames if frame.f_back is not None]
        return False


_numbers = itertools.count()


def _code_like(code: CodeType, target: Detour) -> CodeType:
    """Return code with the parameters and free variables of `code`, which calls `target` with all its arguments."""
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    positional, keywords = names[: code.co_argcount], names[code.co_argcount :]
    rest = list(code.co_varnames[count : count + _flag(code, inspect.CO_VARARGS) + _flag(code, inspect.CO_VARKEYWORDS)])
    star = [f"*{rest.pop(0)}"] if _flag(code, inspect.CO_VARARGS) else []
    stars = [f"**{rest.pop(0)}"] if rest else []
    only = code.co_posonlyargcount
    parameters = [
        *positional[:only],
        *(["/"] if only else []),
        *positional[only:],
        *(star or (["*"] if keywords else [])),
        *keywords,
        *stars,
    ]
    arguments = [*positional, *star, *(f"{name}={name}" for name in keywords), *stars]
    taken = {*code.co_varnames, *code.co_freevars}
    local = next(name for name in (f"compile_magic_{n}" for n in itertools.count()) if name not in taken)
    # The mention of the free variables is never reached: it gives the code the function's own closure.
    text = "\n ".join(
        [
            "def outer():",
            *(f"{name} = None" for name in code.co_freevars),
            f"def inner({', '.join(parameters)}):",
            f"  {local} = {local!r}",
            "  __tracebackhide__ = True",
            f"  return {local}({', '.join(arguments)})",
            *(f"  {name}" for name in code.co_freevars),
        ]
    )
    try:
        made = compile(text, "detour", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ValueError(f"no function can be written with the parameters {', '.join(parameters)}") from error
    inner = _inside(_inside(made))
    if inner.co_freevars != code.co_freevars:
        raise ValueError(f"the free variables of {code.co_name} aren't in the order of Python's own")
    file = f"{_FILE}{code.co_filename} {next(_numbers)}"
    lines = linecache.getlines(code.co_filename)
    # So that inspect.getsource finds the function.
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    consts = tuple(target if const == local else const for const in inner.co_consts)
    qualified: dict[str, Any] = {"co_qualname": code.co_qualname} if hasattr(code, "co_qualname") else {}
    return inner.replace(
        co_consts=consts, co_name=code.co_name, co_filename=file, co_firstlineno=code.co_firstlineno, **qualified
    )


def _shape(code: CodeType) -> tuple[object, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    kinds = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    names = code.co_varnames[: count + _flag(code, inspect.CO_VARARGS) + _flag(code, inspect.CO_VARKEYWORDS)]
    return code.co_posonlyargcount, code.co_kwonlyargcount, kinds, names, code.co_freevars


def _flag(code: CodeType, flag: int) -> int:
    return int(bool(code.co_flags & flag))


def _inside(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType))
