"""Every private torch name that compile_magic uses, looked up by feature and never by version number.

Tried on torch 2.13.0 (CPU). Each look-up gives a neutral value where the name is missing, so that a torch that moved
something costs a note in the report and not the cell. What torch means by these names, version by version, is in
`docs/how-it-counts.md`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import logging
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from types import BuiltinFunctionType
from types import CellType
from types import CodeType
from types import FrameType
from types import FunctionType
from types import MethodType
from types import ModuleType
from typing import Any

import torch

from compile_magic import looks
from compile_magic.unmoved import unmoved

TRACE_LOGGER = "torch.__trace"

# Sent tens to hundreds of times a frame and read by none of our parsers.
DROPPED_KINDS = frozenset(
    {"chromium_event", "str", "describe_tensor", "describe_storage", "describe_source", "dump_file", "link"}
)


@functools.cache
def _module(name: str) -> Any:
    try:
        return sys.modules.get(name) or _imported(name)
    except ImportError:
        return None


def _imported(name: str) -> Any:
    with unmoved():
        return importlib.import_module(name)


def find(module: str, path: str, default: Any = None) -> Any:
    """Return what is at a dotted path inside a module now, or `default`."""
    found = _module(module)
    for part in path.split("."):
        found = getattr(found, part, default)
    return found


_COMPILER = ("torch._dynamo", "torch._dynamo.convert_frame", "torch._dynamo.pgo", "torch._functorch.aot_autograd")
_INDUCTOR = ("torch._inductor.compile_fx",)


def preload(*, inductor: bool = False) -> None:
    """Import what the first compile would import, so that its warnings and log levels don't land in the user's cell."""
    for name in (*_COMPILER, *(_INDUCTOR if inductor else ())):
        _module(name)
    _fill_tables()


@functools.cache
def _fill_tables() -> None:
    # While Dynamo works this one out it sets warning filters, and Python then forgets which warnings it has shown.
    with unmoved():
        find("torch._dynamo.variables.torch", "get_overridable_functions", lambda: None)()


def torch_root() -> str:
    """Return the folder that torch is installed in."""
    return str(Path(torch.__file__).parent)


# --- what torch says -------------------------------------------------------------------------------------------------


def listen(handler: logging.Handler) -> Callable[[], None]:
    """Put `handler` first on torch's structured trace and return the function that takes it off again.

    First, because without TORCH_TRACE torch's own lazy handler removes itself while the first record is handed
    round, and the handler after it would miss that record.
    """
    logger = logging.getLogger(TRACE_LOGGER)
    logger.handlers.insert(0, handler)
    return lambda: logger.removeHandler(handler)


def listen_to_limits(handler: logging.Handler) -> Callable[[], None]:
    """Put `handler` where torch warns of recompile limits, and return the function that takes it off again."""
    logger = logging.getLogger("torch._dynamo.convert_frame")
    logger.addHandler(handler)
    return lambda: logger.removeHandler(handler)


_CUDAGRAPH_LOGGERS = ("torch._inductor.cudagraph_utils.__cudagraphs", "torch._inductor.cudagraph_utils.__perf_hints")


def listen_to_cudagraphs(handler: logging.Handler) -> Callable[[], None]:
    """Put `handler` where torch says why it uses no cudagraphs, and return the function that takes it off again.

    On the loggers themselves: they hand nothing on to those above. The second one is that of torch before 2.11.
    """
    loggers = [logging.getLogger(name) for name in _CUDAGRAPH_LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)

    def stop() -> None:
        for logger in loggers:
            logger.removeHandler(handler)

    return stop


def hears_nothing() -> bool:
    """Return whether `logging.disable` keeps torch from sending trace records at all (before torch 2.13)."""
    return not logging.getLogger(TRACE_LOGGER).isEnabledFor(logging.DEBUG)


def read_metadata(record: logging.LogRecord) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """Split a trace record into its kind, its own data and the envelope; None for kinds that nobody reads."""
    metadata: dict[str, Any] = dict(getattr(record, "metadata", None) or {})
    if not metadata:
        return None
    kind = next(iter(metadata))
    data = metadata.pop(kind)
    if kind in DROPPED_KINDS:
        return None
    data = data if isinstance(data, dict) else {"value": data}
    if kind == "artifact":
        kind = str(data.get("name", "artifact"))
    return (kind, _with_file_names(data), metadata) if not kind.endswith("BYTECODE") else None


def _with_file_names(data: dict[str, Any]) -> dict[str, Any]:
    # Trace records name files by a number, and the record that says which is sent once a process.
    stacks = {key: data[key] for key in ("stack", "user_stack") if isinstance(data.get(key), list)}
    if not stacks:
        return data
    names = {number: name for name, number in find("torch._logging.structured", "INTERN_TABLE", {}).items()}
    named = {
        key: [{**frame, "filename": names.get(frame.get("filename"), frame.get("filename"))} for frame in stack]
        for key, stack in stacks.items()
    }
    return {**data, **named}


def compile_id() -> str:
    """Return torch's id of the compile that runs now ("0/0"), or ""."""
    current = find("torch._guards", "CompileContext.current_compile_id", lambda: None)()
    return str(current) if current is not None else ""


def traced_codes() -> list[CodeType]:
    """Return the code objects that the compile that runs now has traced, also those that it has inlined."""
    codes: list[CodeType] | None = find("torch._dynamo.utils", "get_traced_code", lambda: None)()
    return codes or []


def backend_names() -> list[str]:
    """Return the names that `torch.compile(backend=...)` takes."""
    preload()
    registered: list[str] = list(torch.compiler.list_backends(exclude_tags=()))
    return registered


def backend_function(
    name: str, mode: str | None = None, patches: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return the compiler function registered as `name`, bound to a mode of torch.compile and settings of Inductor's.

    Raises:
        KeyError: there is no backend of that name.
        ValueError: the mode is none of Inductor's, or the backend isn't Inductor.
    """
    if name not in backend_names():
        raise KeyError(name)
    preload(inductor=name == "inductor")
    with unmoved():
        function: Callable[..., Any] = find("torch._dynamo.backends.registry", "lookup_backend")(name)
    options = {**(mode_options(mode) if mode not in (None, "default") else {}), **(patches or {})}
    if not options:
        return function
    if name != "inductor":
        raise ValueError(f"only inductor has modes: {name} with mode {mode} can't be compiled")
    return functools.partial(function, config_patches=options)


def mode_options(mode: str | None) -> dict[str, Any]:
    """Return the Inductor options that a mode stands for.

    Raises:
        ValueError: there is no such mode.
    """
    known: dict[str, dict[str, Any]] = _module("torch._inductor").list_mode_options()
    if mode not in known:
        raise ValueError(f"there is no mode {mode!r}: there are {', '.join(known)}")
    return known[str(mode)]


def fresh_cache() -> Any:
    """Return a context in which Inductor and Triton compile with empty caches, in a directory that is deleted after."""
    module = _module("torch._inductor.utils")
    make = getattr(module, "fresh_cache", None) or module.fresh_inductor_cache
    return make()


def wait_for_compile_workers(most_s: float) -> None:
    """Wait until Inductor's worker processes have started, if any were asked for: they all import torch meanwhile."""
    module = sys.modules.get("torch._inductor.async_compile")
    future = getattr(getattr(module, "AsyncCompile", None), "_ready_future", None)
    if future is not None:
        with contextlib.suppress(Exception):
            future.result(timeout=most_s)


def is_compile_error(error: BaseException) -> bool:
    """Return whether Dynamo or a backend raised this, rather than the user's code."""
    return isinstance(error, find("torch._dynamo.exc", "TorchDynamoException", ()))


# --- what is compiled ------------------------------------------------------------------------------------------------


def compiled_original(candidate: Any) -> Any:
    """Return the callable that `candidate` is the compiled form of, or None if it isn't compiled."""
    if looks.is_a(candidate, torch.nn.Module):
        original = dict.get(looks.own(candidate, "_modules") or {}, "_orig_mod")
        if original is None and looks.own(candidate, _CALL) is not None:
            return candidate
        return original
    if type(candidate) is MethodType:
        original = looks.own(candidate.__func__, _ORIGINAL)
        return None if original is None else MethodType(original, candidate.__self__)
    return looks.own(candidate, _ORIGINAL)


_CALL, _ORIGINAL = "_compiled_call_impl", "_torchdynamo_orig_callable"


def is_compiled_module(owner: Any) -> bool:
    """Return whether this is the module that `torch.compile(module)` puts around another. Runs nothing of its class."""
    return issubclass(type(owner), find("torch._dynamo.eval_frame", "OptimizedModule", ()))


def uncompiled(candidate: Any) -> Any:
    """Return what runs a compiled callable in eager; one that isn't compiled is itself."""
    original = compiled_original(candidate)
    if original is None:
        return candidate
    return _method(candidate, "_call_impl") if original is candidate else original


def is_disabled(candidate: Any) -> bool:
    """Return whether `torch.compiler.disable` made this callable."""
    owner = candidate.__func__ if type(candidate) is MethodType else candidate
    return looks.own(owner, "_torchdynamo_disable") is True


def place_of_call(module: torch.nn.Module) -> tuple[dict[str, Any], str]:
    """Return the namespace of a module and the name in it of what `module(...)` runs, as `module.compile()` sets it."""
    return looks.attributes(module) or {}, _CALL


def has_pre_hooks(module: torch.nn.Module) -> bool:
    """Return whether something runs before the forward of a module."""
    return bool(looks.own(module, "_forward_pre_hooks"))


def _method(module: torch.nn.Module, name: str) -> Any:
    """Return a method of a module: its own or its class's."""
    found = looks.attribute(module, name, looks.MISSING)
    return getattr(module, name) if found is looks.MISSING else found


class Compiler:
    """Makes calls as torch.compile would have them made, and keeps nothing of what is called.

    torch.compile(f) holds f, and torch.compile(module) is a module around the module, for which hooks of all modules
    run once more. Here one function of ours is compiled, which Dynamo skips; what that calls is the first frame for
    Dynamo, the same as with torch.compile(f).

    Args:
        options: the arguments of torch.compile.
        isolated: asked for each function that is new, whether its cache entries must stand in a region of their own.
    """

    def __init__(self, options: Mapping[str, Any], isolated: Callable[[], bool]) -> None:
        self._options: dict[str, Any] = dict(options)
        self._isolated = isolated
        self._forms: dict[bool, Callable[..., Any]] = {}
        # Of each code or class: whether torch puts a frame around it, and if its entries stand in their own region.
        self._known: dict[int, tuple[weakref.ref[Any], bool, bool]] = {}
        self._frame: tuple[CodeType, dict[str, Any]] | None = None
        self._marked: list[weakref.ref[CodeType]] = []
        # By the code and the line that a call stands on.
        self._sites: dict[tuple[int, int], tuple[weakref.ref[CodeType], CodeType]] = {}

    def call(self, candidate: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call `candidate` compiled."""
        __tracebackhide__ = True
        entry, isolated = self._entry(candidate)
        if looks.own(candidate, "_initialize_hook") is not None and looks.is_a(candidate, torch.nn.Module):
            # As torch.compile(module): a lazy module gets its parameters in eager.
            _method(candidate, "_infer_parameters")(candidate, args, kwargs)
        self._always(looks.function_of(entry))
        form = self._forms.get(isolated)
        if form is None:
            find("torch._dynamo.eval_frame", "skip_code", lambda _: None)(_enter.__code__)
            form = self._forms[isolated] = self._compile(_enter, isolated=isolated)
        return form(self._site(_first_outside(sys._getframe(1))), (entry, args, kwargs), {})

    def _site(self, caller: FrameType) -> FunctionType:
        """Return a function that makes a call as if it stood on the line where `caller` is, in its file and globals.

        A `stacklevel` of the user's, logging's too, and `sys._getframe(1)` then name what they name in a plain cell.
        """
        code, line = caller.f_code, caller.f_lineno or caller.f_code.co_firstlineno
        known = self._sites.get((id(code), line))
        if known is None or known[0]() is not code:
            named: dict[str, Any] = {"co_qualname": code.co_qualname} if hasattr(code, "co_qualname") else {}
            made = _SITE.__code__.replace(
                co_filename=code.co_filename, co_firstlineno=line, co_name=code.co_name, **named
            )
            find("torch._dynamo.eval_frame", "skip_code", lambda _: None)(made)
            known = self._sites[id(code), line] = weakref.ref(code), made
        return FunctionType(known[1], caller.f_globals, code.co_name, _SITE.__defaults__)

    def form(self, candidate: Any) -> Callable[..., Any]:
        """Return what torch.compile makes of a callable; it holds that."""
        entry, isolated = self._entry(candidate)
        return self._compile(entry, isolated=isolated)

    def close(self) -> None:
        """Forget which functions shall be compiled whatever they are given, those of the user's compiles excepted."""
        table = _always_compiled()
        for code in (reference() for reference in self._marked):
            if code is not None and code in table and table[code] is _OURS:
                _drop(table, code)
        self._marked.clear()
        self._forms.clear()
        self._sites.clear()

    def _compile(self, function: Callable[..., Any], *, isolated: bool) -> Callable[..., Any]:
        options: dict[str, Any] = {**self._options, **({"isolate_recompiles": True} if isolated else {})}
        new = self._always(looks.function_of(function))
        with unmoved(quiet=False):
            compiled: Callable[..., Any] = torch.compile(function, **options)
        if new is not None:
            _always_compiled()[new.__code__] = _OURS
        return compiled

    def _entry(self, candidate: Any) -> tuple[Any, bool]:
        """Return what torch.compile calls instead of a callable, and whether in a region of its own."""
        if looks.is_a(candidate, torch.nn.Module):
            if compiled_original(candidate) is candidate:
                # By name, torch puts no frame around it.
                return _method(candidate, "_call_impl"), self._look(type(candidate), candidate)[1]
            forward = looks.attribute(candidate, "forward")
            called = MethodType(looks.of_class(type(candidate), "__call__"), candidate)
            bound = type(forward) is MethodType and _has_code(forward)
            wrapped, isolated = self._look(forward.__code__ if bound else type(candidate), forward if bound else None)
            return (self._inline(candidate) if wrapped else called), isolated
        wrapped, isolated = (
            self._look(candidate.__code__, candidate) if _has_code(candidate) else (True, self._isolated())
        )
        return (self._inline(candidate) if wrapped else candidate), isolated

    def _look(self, key: Any, function: Any) -> tuple[bool, bool]:
        known = self._known.get(id(key))
        if known is None or known[0]() is not key:
            known = self._known[id(key)] = (weakref.ref(key), self._is_wrapped(function), self._isolated())
        return known[1:]

    def _is_wrapped(self, function: Any) -> bool:
        # torch tells by doing it. What it makes is dropped at once.
        return _has_code(function) and looks.own(self._compile(function, isolated=False), _ORIGINAL) is not function

    def _inline(self, candidate: Any) -> Callable[..., Any]:
        """Return a frame around a callable, with a code object of this compiler's own.

        All that torch puts such a frame around share one code, and with it their cache entries and their recompile
        limit. With a copy of that code, those of the user stay apart. And torch's would hold what the callable has.
        """
        if self._frame is None:
            sample = find("torch._dynamo.external_utils", "wrap_inline")(_enter)
            # With globals of its own, too, since Dynamo leaves names in them.
            names = {name: sample.__globals__[name] for name in ("__name__", "__builtins__")}
            self._frame = sample.__code__.replace(), names
        code, names = self._frame
        return FunctionType(code, names, code.co_name, None, tuple(CellType(candidate) for _ in code.co_freevars))

    def _always(self, function: FunctionType | None) -> FunctionType | None:
        """Have Dynamo compile a function also where it is given no tensors; return it if the user hasn't done so."""
        table = _always_compiled()
        if function is None or (function.__code__ in table and table[function.__code__] is not _OURS):
            return None
        if function.__code__ not in table:
            self._marked.append(weakref.ref(function.__code__))
        table[function.__code__] = _OURS
        return function


# What stands in torch's table for code that only we have compiled; torch.compile writes True.
_OURS = "compile_magic"


def _always_compiled() -> Any:
    return find("torch._dynamo.eval_frame", "always_optimize_code_objects", {})


def hand_on_compile(taken: CodeType, code: CodeType) -> None:
    """Let `code` be what the user has given to torch.compile, if that was `taken`, which stood in its place."""
    table = _always_compiled()
    if taken in table:
        _drop(table, taken)
        table[code] = True


def _enter(candidate: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    __tracebackhide__ = True
    return candidate(*args, **kwargs)


# A frame right inside that of `_enter` stands for one that is there already.
_SITE = lambda candidate, args, kwargs, __tracebackhide__=True: candidate(*args, **kwargs)  # noqa: ARG005, E731 - IPython reads it; on one line, which is moved
_OURS_FILES = str(Path(__file__).parent)


def _first_outside(frame: FrameType) -> FrameType:
    while frame.f_code.co_filename.startswith(_OURS_FILES) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def is_enter(code: CodeType) -> bool:
    """Return whether what this code calls is a frame that stands for the caller's, once more."""
    return code is _enter.__code__


def forget_warned() -> None:
    """Forget which warnings were attributed to the call that is made here, for a `stacklevel` of the user's.

    Python shows one of a text once for each line, and this line is the same for all that is called.
    """
    globals().pop("__warningregistry__", None)


def _has_code(candidate: Any) -> bool:
    return type(candidate) is FunctionType or (
        type(candidate) is MethodType and type(candidate.__func__) is FunctionType
    )


# How the attributes begin that compiling puts on objects of the user's.
MARKS = ("_is_torch_compile", "_dynamo_", "_torchdynamo_")
_MARKING = (
    ("torch._dynamo.decorators", "mark_static_address"),
    ("torch._functorch._aot_autograd.runtime_wrappers", "mark_dynamo_propagated_dynamic_indices"),
)


def marking_functions() -> list[FunctionType]:
    """Return the functions of torch's that mark tensors while they are compiled or compiled code runs."""
    found = (find(module, name) for module, name in _MARKING)
    return [function for function in found if type(function) is FunctionType]


def stance() -> str:
    """Return the stance set by `torch.compiler.set_stance`, "default" if none is."""
    return str(find("torch._dynamo.eval_frame", "_stance.stance", "default"))


def sets_stance(candidate: Any) -> bool:
    """Return whether `@torch.compiler.set_stance(...)` made this callable."""
    kind = find("torch._dynamo.decorators", "set_stance")
    if type(candidate) is not FunctionType or not isinstance(kind, type):
        return False
    # The wrapper holds the method that makes a new block for each call.
    kept = [cell.cell_contents for cell in candidate.__closure__ or () if cell != CellType()]
    return any(type(one) is MethodType and type(one.__self__) is kind for one in kept)


def allow_stances(inside: Callable[[], object], tell: Callable[[str], None]) -> Callable[[], None]:
    """Let the user's code set a stance in a compiled call, where torch raises, and return the function that ends it.

    Until the stance is set back, nothing that the call still does is compiled.

    Args:
        inside: what is the same as long as this thread is in the same explained call, None outside of one.
        tell: takes the name of each stance that is set in an explained call.
    """
    module, frames = _module("torch._dynamo.decorators"), _module("torch._C._dynamo.eval_frame")
    original = getattr(module, "_set_stance", None)
    if original is None or not hasattr(frames, "get_eval_frame_callback"):
        return lambda: None
    aside: dict[object, tuple[Any, Any]] = {}

    @functools.wraps(original)
    def set_stance(stance: Any) -> Any:
        call, callback = inside(), frames.get_eval_frame_callback()
        if call is None:
            return original(stance)
        if callback not in (None, False):
            frames.set_eval_frame(None)
            prior = original(stance)
            aside[call] = prior, callback
            tell(str(stance.stance))
            return prior
        prior = original(stance)
        if call in aside and stance is aside[call][0]:
            frames.set_eval_frame(aside.pop(call)[1])
        return prior

    module._set_stance = set_stance

    def end() -> None:
        if module._set_stance is set_stance:
            module._set_stance = original

    return end


def recompile_limit() -> int | None:
    """Return the number of compiled versions of one function that torch allows."""
    limit = find("torch._dynamo.config", "recompile_limit")
    return int(limit) if limit is not None else None


def entries(code: CodeType) -> list[Any]:
    """Return the live cache entries of a code object."""
    found: list[Any] = find("torch._dynamo.eval_frame", "_debug_get_cache_entry_list", lambda _: [])(code)
    return found


def entry_backend(entry: Any) -> Any:
    """Return the backend object that a cache entry was compiled with, None where torch doesn't tell (before 2.11)."""
    backend = getattr(entry, "backend", None)
    return find("torch._dynamo.eval_frame", "innermost_backend", lambda b: b)(getattr(backend, "compiler_fn", backend))


def live_guards(code: CodeType) -> list[tuple[str, str]]:
    """Return (compile id, guard text) of each live cache entry of a code object."""
    return [(str(getattr(e, "compile_id", "")), str(e.guard_manager)) for e in entries(code)]


# What leads from one wrapper of Dynamo's to the next inner one; the second before torch 2.10.
_TO_BACKEND = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable", "compiler_fn")


def is_backend(callback: Any, backend: object) -> bool:
    """Return whether an eval-frame callback, or what a cache entry was compiled with, leads to a backend object."""
    while callback is not None and callback is not backend:
        for name in _TO_BACKEND:
            inner = getattr(callback, name, None)
            if inner is not None:
                break
        callback = inner
    return callback is backend


class Regions:
    """Tells when a thread enters and leaves compiled regions, and by whose callback; see `listen`.

    Whoever's callback is active when a frame runs, for him it is compiled. torch switches callbacks at one place, in
    the wrapper that torch.compile makes, when it begins and when it ends.
    """

    _SWITCH = "_maybe_set_eval_frame"

    def __init__(self) -> None:
        self._listeners: list[Callable[[Any], Callable[[], None] | None]] = []
        self._open = threading.local()
        self._original: Callable[[Any], Any] | None = None

    def listen(self, entered: Callable[[Any], Callable[[], None] | None]) -> Callable[[], None]:
        """Have `entered` called with the callback of each region that is entered, and return what ends that.

        What `entered` returns is called when that region is left.
        """
        module = _module("torch._dynamo.eval_frame")
        if self._original is None and hasattr(module, self._SWITCH):
            self._original = getattr(module, self._SWITCH)
            setattr(module, self._SWITCH, self._switch)
        self._listeners.append(entered)

        def stop() -> None:
            if entered in self._listeners:
                self._listeners.remove(entered)
            if not self._listeners and self._original is not None and getattr(module, self._SWITCH) == self._switch:
                setattr(module, self._SWITCH, self._original)
                self._original = None

        return stop

    def _switch(self, callback: Any) -> Any:
        original = self._original or find("torch._dynamo.eval_frame", "set_eval_frame")
        caller = sys._getframe(1)
        # The wrapper is one frame from its beginning to its end; a context has two, and one object.
        here: Any = caller.f_locals["self"] if caller.f_code.co_name in ("__enter__", "__exit__") else caller
        opened: list[tuple[Any, list[Callable[[], None]]]] = self._open.__dict__.setdefault("regions", [])
        if opened and opened[-1][0] is not here:
            self._drop_ended(opened, caller)
        if opened and opened[-1][0] is here:
            _call_all(opened.pop()[1])
        else:
            leaves: list[Callable[[], None]] = []
            opened.append((here, leaves))
            if callback is not None and callback is not False:
                leaves += [leave for each in list(self._listeners) if (leave := each(callback)) is not None]
        return original(callback)

    @staticmethod
    def _drop_ended(opened: list[tuple[Any, list[Callable[[], None]]]], caller: FrameType) -> None:
        # A wrapper that returns early only ends; what looked like its beginning ends with the next one outside.
        while opened and isinstance(opened[-1][0], FrameType) and not _is_called_by(caller, opened[-1][0]):
            _call_all(opened.pop()[1])


def _is_called_by(frame: FrameType | None, caller: FrameType) -> bool:
    while frame is not None and frame is not caller:
        frame = frame.f_back
    return frame is caller


def _call_all(leaves: list[Callable[[], None]]) -> None:
    for leave in reversed(leaves):
        leave()


regions = Regions()


def seen_codes(start: int = 0) -> list[CodeType]:
    """Return the code objects that Dynamo has been asked to convert since it knew `start` of them."""
    seen = find("torch._dynamo.convert_frame", "input_codes.seen", [])
    return [code for code in (reference() for reference in seen[start:]) if code is not None]


def seen_count() -> int:
    """Return how many code objects Dynamo has been asked to convert."""
    return len(find("torch._dynamo.convert_frame", "input_codes.seen", []))


def can_isolate() -> bool:
    """Return whether `torch.compile(isolate_recompiles=True)` exists (torch 2.13 and newer)."""
    return "isolate_recompiles" in inspect.signature(torch.compile).parameters


# --- what compiling leaves behind ------------------------------------------------------------------------------------


Tallies = tuple[dict[str, dict[str, int]], int, frozenset[str]]


class ProcessState:
    """Dynamo's process-wide tallies and its memory of dynamic shapes, exchanged for others and put back.

    PGO state is keyed by file, line and name of a function, so without this a first compile by the user would turn
    dynamic after an explain with another size.
    """

    def __init__(self) -> None:
        self._pgo = _module("torch._dynamo.pgo")
        self._utils = _module("torch._dynamo.utils")

    def shapes(self) -> tuple[Any, set[str]]:
        """Return the memory of dynamic shapes: states by function, and the sources known to be dynamic."""
        return getattr(self._pgo, "_CODE_STATE", None), getattr(self._pgo, "_KNOWN_DYNAMIC_SOURCES", set())

    def set_shapes(self, shapes: tuple[Any, set[str]]) -> None:
        """Make Dynamo use this memory of dynamic shapes."""
        for name, value in zip(("_CODE_STATE", "_KNOWN_DYNAMIC_SOURCES"), shapes, strict=True):
            if hasattr(self._pgo, name):
                setattr(self._pgo, name, value)

    def tallies(self) -> Tallies:
        """Return torch's counters, how many break reasons it remembers, and what it warns about only once."""
        counters = {name: dict(counter) for name, counter in self._utils.counters.items()}
        warned = frozenset(getattr(self._utils, "warn_once_cache", ()))
        return counters, len(getattr(self._utils, "graph_break_reasons", ())), warned

    def set_tallies(self, tallies: Tallies) -> None:
        """Put torch's counters back. They are changed in place: other torch modules hold them by name."""
        counters, reasons = self._utils.counters, getattr(self._utils, "graph_break_reasons", [])
        for name in list(counters):
            kept = tallies[0].get(name)
            if kept is None:
                del counters[name]
            elif counters[name] != kept:
                counters[name].clear()
                counters[name].update(kept)
        del reasons[tallies[1] :]
        warned: set[str] = getattr(self._utils, "warn_once_cache", set())
        warned.intersection_update(tallies[2])


def follow_new_names(function_name: str) -> Callable[[], None]:
    """Let Dynamo read what a function of this name has just bound globally; return the function that ends it.

    Dynamo follows a global that is there before it traces. One that is new it looks up among the builtins, and leaves
    the function in eager. The part after a break it leaves in eager if no local of it and no module is torch's: there
    the tensors are in globals.
    """
    changed: list[tuple[Any, str, Any]] = []

    def change(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
        original = vars(owner).get(name) if owner is not None else None
        if original is not None:
            changed.append((owner, name, original))
            setattr(owner, name, around(original))

    def loading(original: Any) -> Any:
        def load_global(self: Any, inst: Any) -> None:
            if _is_new(self, inst.argval) and function_name in self.output.root_tx.f_code.co_name:
                effects = self.output.side_effects
                self.push(effects.load_global(effects[self.symbolic_globals[inst.argval]], inst.argval))
            else:
                original(self, inst)

        return load_global

    def looking(original: Any) -> Any:
        return lambda frame, *more: function_name in frame.f_code.co_name or original(frame, *more)

    for kind in ("InstructionTranslatorBase", "InliningInstructionTranslator"):
        change(find("torch._dynamo.symbolic_convert", kind), "_load_global", loading)
    change(_module("torch._dynamo.convert_frame"), "has_tensor_in_frame", looking)

    def end() -> None:
        for owner, name, original in changed:
            setattr(owner, name, original)

    return end


def _is_new(translator: Any, name: str) -> bool:
    names = translator.f_globals
    return name in translator.symbolic_globals and name not in names and names is translator.output.global_scope


def suppresses_errors() -> bool:
    """Return whether Dynamo runs a frame in eager when compiling it fails."""
    return bool(find("torch._dynamo.config", "suppress_errors", default=False))


def suppress_errors(*, value: bool) -> None:
    """Set whether Dynamo runs a frame in eager when compiling it fails."""
    _module("torch._dynamo.config").suppress_errors = value


def frame_count() -> int:
    """Return the id that the next frame to be compiled gets."""
    return int(find("torch._dynamo.convert_frame", "FRAME_COUNTER", 0))


def forget_frames(first: int, past: int, *, rewind: bool) -> None:
    """Drop the compile counts of frames `first` to `past`, and give their ids out again if `rewind`."""
    module = _module("torch._dynamo.convert_frame")
    counts = getattr(module, "FRAME_COMPILE_COUNTER", {})
    for frame in [frame for frame in counts if isinstance(frame, int) and first <= frame < past]:
        del counts[frame]
    if rewind and hasattr(module, "FRAME_COUNTER"):
        vars(module)["FRAME_COUNTER"] = first


_TABLES_BY_CODE = (
    ("torch._dynamo.resume_execution", "ContinueExecutionCache.cache"),
    ("torch._dynamo.resume_execution", "ContinueExecutionCache.generated_code_metadata"),
    ("torch._dynamo.utils", "guard_failures"),
)


def forget_code(code: CodeType) -> None:
    """Drop the cache entries of a code object, the mark that it is skipped, and its resume functions."""
    find("torch._dynamo.eval_frame", "reset_code", lambda _: None)(code)
    for module, table in _TABLES_BY_CODE:
        _drop(find(module, table), code)


def resume_codes(codes: list[CodeType]) -> list[CodeType]:
    """Return the code objects that Dynamo made of what comes after the graph breaks in these, and in those."""
    table = getattr(find("torch._dynamo.resume_execution", "ContinueExecutionCache.cache"), "values", {})
    found: list[CodeType] = []
    while codes:
        codes = [made for code in codes for made in table.get(id(code), {}).values() if made not in found]
        found += codes
    return found


def forget_seen(codes: list[CodeType]) -> None:
    """Take code objects off the list of those that Dynamo was asked to convert, which only grows otherwise."""
    tracker = find("torch._dynamo.convert_frame", "input_codes")
    if tracker is None:
        return
    gone = {id(code) for code in codes}
    tracker.seen[:] = [reference for reference in tracker.seen if id(reference()) not in gone]
    tracker.seen_ids -= gone


def _drop(table: Any, code: CodeType) -> None:
    if isinstance(table, dict):
        table.pop(code, None)
    elif table is not None:
        table.values.pop(id(code), None)
        table.refs.pop(id(code), None)


def forget_backend(backend: object) -> None:
    """Let go of a backend that torch keeps for its next reset."""
    kept: dict[int, Any] = find("torch._dynamo.eval_frame", "cached_backends", {})
    for number in [number for number, held in kept.items() if getattr(held, "compiler_fn", held) is backend]:
        del kept[number]


def _owned() -> tuple[dict[int, list[Any]], dict[int, Any]]:
    """Return what each compiled code object owns in namespaces by its `id`, and weak references to them."""
    manager = find("torch._dynamo.utils", "CleanupManager.instance")
    return getattr(manager, "values", {}), getattr(manager, "refs", {})


def outputs() -> dict[int, Any]:
    """Return weak references to the living code objects that Dynamo has made and that own names, by `id`."""
    return dict(_owned()[1])


def output_count() -> int:
    """Return how many there are."""
    return len(_owned()[0])


def outputs_since(known: Mapping[int, Any]) -> list[Any]:
    """Return weak references to the code objects that Dynamo has made since `outputs` gave `known`."""
    # By the reference itself: the id of one that is freed goes to another.
    return [reference for number, reference in outputs().items() if known.get(number) is not reference]


def _hooks(references: Iterable[Any]) -> Iterator[tuple[list[Any], int, Any]]:
    owned = _owned()[0]
    alive = (code for code in (reference() for reference in references) if code is not None)
    for hooks in [owned[id(code)] for code in alive if id(code) in owned]:
        yield from ((hooks, position, hook) for position, hook in reversed(list(enumerate(hooks))))


def scopes(references: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the namespaces in which code objects that Dynamo has made own names."""
    return list({id(hook.scope): hook.scope for _, _, hook in _hooks(references)}.values())


def tolerate_lost_names(references: Iterable[Any]) -> None:
    """Keep torch from complaining when a name that these own is gone already, as after `%reset`."""
    for hooks, position, hook in _hooks(references):
        hooks[position] = hook if isinstance(hook, _Tolerant) else _Tolerant(hook)


def forget_names(references: Iterable[Any]) -> None:
    """Remove the names that these own.

    torch removes a name when the compiled code object that owns it is freed, but one with a break in it never is.
    """
    manager = find("torch._dynamo.utils", "CleanupManager")
    for hooks, position, hook in _hooks(references):
        del hooks[position]
        manager.count -= 1
        hook.scope.pop(hook.name, None)


def owners_in(namespace: dict[str, Any]) -> frozenset[int]:
    """Return the `id` of each compiled code object that owns a name in a namespace."""
    owned = list(_owned()[0].items())
    return frozenset(number for number, hooks in owned if any(hook.scope is namespace for hook in hooks))


def forget_unowned(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Remove names from a namespace, and whatever would remove them once more."""
    gone = set(names)
    for hooks in list(_owned()[0].values()):
        hooks[:] = [hook for hook in hooks if hook.scope is not namespace or hook.name not in gone]
    for name in gone:
        namespace.pop(name, None)


def outputs_of(codes: Iterable[CodeType]) -> list[Any]:
    """Return weak references to what Dynamo has made of these code objects."""
    originals = getattr(find("torch._dynamo.utils", "orig_code_map"), "values", {})
    numbers = {id(code) for code in codes}
    mine = [number for number in outputs() if id(originals.get(number)) in numbers]
    return [_owned()[1][number] for number in mine]


class _Tolerant:
    """Removes a name from a namespace like torch's own hook, and says nothing if the user has emptied it before."""

    def __init__(self, hook: Any) -> None:
        self.scope, self.name, self._count = hook.scope, hook.name, find("torch._dynamo.utils", "CleanupManager")

    def __call__(self, *_: Any) -> None:
        self._count.count -= 1
        self.scope.pop(self.name, None)


_DYNAMO_NAME = re.compile(
    r"__(compiled_fn|resume_at|builtins_dict|gen_rand_values|warnings_warn_wrapper)_\w+|__import_\w*[^_]"
    r"|\w*_\d{6,}_c\d+(_\d+)?|__gen_rand_values|__warnings_warn_wrapper"
)
# Each compile in a namespace puts the same modules under these names, and none of them owns one.
_SHARED_NAME = re.compile(r"__import_\w*[^_]")


def dynamo_names(namespace: Mapping[str, Any]) -> frozenset[str]:
    """Return the names in a namespace that Dynamo put there."""
    return frozenset(name for name in list(namespace) if _DYNAMO_NAME.fullmatch(name))


def shared_names(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Dynamo has put into a namespace for all compiles in it: modules that guards look into."""
    return {name: value for name, value in list(namespace.items()) if _SHARED_NAME.fullmatch(name)}


def main_loggers() -> list[logging.Logger]:
    """Return the loggers above those of Dynamo, on which the handlers for its remarks are."""
    return [logging.getLogger("torch"), logging.getLogger("torch._dynamo")]


def log_handlers() -> list[logging.Handler]:
    """Return the handlers on torch's loggers, torch's own and the user's, without those of the structured trace."""
    known = logging.root.manager.loggerDict.items()
    names = [name for name, _ in known if name.startswith("torch") and name != TRACE_LOGGER]
    return list({id(handler): handler for name in names for handler in logging.getLogger(name).handlers}.values())


def hides(warning: warnings.WarningMessage) -> bool:
    """Return whether torch is keeping this warning from being shown, by a filter that it has put around showing it."""
    show: Any = warnings.showwarning
    code = getattr(show, "__code__", None)
    if not isinstance(code, CodeType) or not code.co_filename.startswith(torch_root()):
        return False
    inside = dict(zip(code.co_freevars, show.__closure__ or (), strict=False))
    shows = inside["filter_fn"].cell_contents if "filter_fn" in inside else None
    given = warning.message, warning.category, warning.filename, warning.lineno, warning.file, warning.line
    return shows is not None and not shows(*given)


def failed_node(frame: FrameType, line: int) -> tuple[str, str]:
    """Return what ran in a frame of a graph, and the stack trace of the user's code that it stands for."""
    graph_module: Any = frame.f_locals.get("self")
    numbers = getattr(graph_module, "_lineno_map", None) or {}
    position = numbers.get(line - frame.f_code.co_firstlineno)
    if position is None or not isinstance(graph_module, torch.fx.GraphModule):
        return "", ""
    node = list(graph_module.graph.nodes)[position]
    return str(getattr(node.target, "__name__", node.target)), str(node.stack_trace or "")


# --- bench: every op of a run ----------------------------------------------------------------------------------------


class DispatchMode(_module("torch.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]  # a class of torch's that has no public name
    """Torch's mode whose `__torch_dispatch__` sees each op of the code inside, also those of a backward."""

    # Without it torch refuses torch.cond and the like while the mode is on.
    supports_higher_order_operators = True


def op_name(op: Any) -> str:
    """Return the name of an op without its overload, like "aten::add_"."""
    schema = getattr(op, "_schema", None)
    return str(schema.name) if schema is not None else f"higher_order::{op}"


def op_arguments(op: Any) -> list[tuple[str, bool, bool]] | None:
    """Return (name, whether it is written, whether a result is a view of it) of each argument of an op.

    None for a higher-order op, which has functions among its arguments and says nothing about them.
    """
    schema = getattr(op, "_schema", None)
    if schema is None:
        return None
    kinds = [(argument.name, argument.alias_info) for argument in schema.arguments]
    return [(name, bool(info and info.is_write), bool(info and not info.is_write)) for name, info in kinds]


def storage_key(tensor: torch.Tensor) -> int:
    """Return a number that the tensors on one storage share, and no other living storage has."""
    return int(tensor.untyped_storage()._cdata)


class WeakStorage:
    """Notices when a tensor's storage is freed; while this lives, no other storage gets its key."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._reference = find("torch.multiprocessing.reductions", "StorageWeakRef")(tensor.untyped_storage())

    def lives(self) -> bool:
        """Return whether any tensor still has the storage."""
        return not self._reference.expired()


# --- bench: what the state of a notebook is made of -------------------------------------------------------------------

# Where a module keeps its parameters, buffers and submodules.
MODULE_PARTS = ("_parameters", "_buffers", "_modules")


def is_internal(value: Any) -> bool:
    """Return whether this is one of the objects that torch's compiler and dispatcher are made of."""
    name = f"{looks.module_name(type(value))}."
    return name.startswith(("torch._", "torch.fx.", "torch.compiler.", "triton."))


def inner_tensors(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the tensors that a tensor of a wrapper class, such as a DTensor, is made of."""
    if type(tensor) in {torch.Tensor, torch.nn.Parameter} or not hasattr(type(tensor), "__tensor_flatten__"):
        return {}
    names = tensor.__tensor_flatten__()[0]  # type: ignore[attr-defined]  # wrapper classes have it
    return {name: getattr(tensor, name) for name in names if isinstance(getattr(tensor, name), torch.Tensor)}


def grad_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient of a tensor that can have one; torch warns when others are asked."""
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor that this is a view of, None if it is none."""
    return tensor._base


def version_of(tensor: torch.Tensor) -> int:
    """Return how often torch has seen a tensor written in place, -1 where it doesn't count."""
    return -1 if tensor.is_inference() else int(tensor._version)


_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def sparse_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that a sparse one is made of, none for other kinds of tensors."""
    plain = tensor.detach()
    return [getattr(plain, part)().detach() for part in _SPARSE_PARTS.get(tensor.layout, ())]


def hooks_of(tensor: torch.Tensor) -> dict[str, dict[Any, Any]]:
    """Return the tables of the hooks on a tensor, by the name of the attribute."""
    names = ("_backward_hooks", "_post_accumulate_grad_hooks")
    found = {name: getattr(tensor, name, None) for name in names}
    return {name: table for name, table in found.items() if isinstance(table, dict)}


def global_hooks() -> list[tuple[str, dict[str, Any], list[str]]]:
    """Return the modules of torch that keep the hooks on all modules and optimizers: path, names, which those are."""
    places = (("torch.nn.modules.module", "_global_"), ("torch.optim.optimizer", "_global_optimizer_"))
    found = [(name, vars(_module(name)), start) for name, start in places]
    return [(name, held, [one for one in held if one.startswith(start)]) for name, held, start in found]


def saved_tensor_hooks() -> tuple[Any, ...]:
    """Return what is called with each tensor that autograd saves now, and when it is used."""
    pair = find("torch._C._autograd", "_top_saved_tensors_default_hooks", lambda _: None)(True)  # noqa: FBT003 - of C
    return tuple(pair or ())


def open_modes() -> list[Any]:
    """Return the modes that see each function or op now."""
    return [*function_modes(), *find("torch.utils._python_dispatch", "_get_current_dispatch_mode_stack", list)()]


def accumulates_into(node: Any) -> torch.Tensor | None:
    """Return the leaf whose gradient a node of an autograd graph adds to, None for other nodes."""
    found = getattr(node, "variable", None)
    return found if isinstance(found, torch.Tensor) else None


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """Enter a context in which no mode and no `__torch_function__` of a tensor class sees what we do."""
    no_modes = find("torch.utils._python_dispatch", "_disable_current_modes", contextlib.nullcontext)
    no_functions = find("torch._C", "DisableTorchFunction", contextlib.nullcontext)
    with no_modes(), no_functions():
        yield


def engine_entries() -> list[tuple[Any, str]]:
    """Return where `backward` and `torch.autograd.grad` look up the function that runs the engine."""
    modules, name = (_module("torch.autograd"), _module("torch.autograd.graph")), "_engine_run_backward"
    return [(module, name) for module in modules if hasattr(module, name)]


def compiler_folders() -> tuple[str, ...]:
    """Return the folders of torch whose code writes files of its own: caches and logs."""
    names = ("_inductor", "_dynamo", "_functorch", "_logging", "_strobelight", "fx", "compiler")
    return tuple(str(Path(torch_root(), name)) for name in names)


def compiling_files() -> tuple[str, ...]:
    """Return the places in torch whose code is among the callers while something is compiled, and not while it runs."""
    return tuple(str(Path(torch_root(), name)) for name in ("_inductor", str(Path("_dynamo", "convert_frame.py"))))


def cupti_can_leave() -> bool:
    """Return whether CUPTI may be taken off a process again: before CUDA 12.6, cudagraphs crash afterwards.

    Source: torch/profiler/profiler.py, which sets TEARDOWN_CUPTI=0 for these.
    """
    version = str(torch.version.cuda or "0.0").split(".")
    return tuple(int(part) for part in version[:2] if part.isdecimal()) >= (12, 6)


def know_builtins() -> None:
    """Have Dynamo note which functions are Python's own, before one of them is exchanged for a while."""
    preload()
    find("torch._dynamo.trace_rules", "is_builtin_callable", lambda _: None)(open)


def registries() -> list[tuple[str, dict[Any, Any]]]:
    """Return, with their names, the tables of torch's in which a class can be entered only once."""
    names = ("SUPPORTED_NODES", "SUPPORTED_SERIALIZED_TYPES", "SERIALIZED_TYPE_TO_PYTHON_TYPE", "CONSTANT_NODES")
    found = [(f"torch.utils._pytree.{name}", find("torch.utils._pytree", name)) for name in names]
    return [(name, table) for name, table in found if isinstance(table, dict)]


def function_modes() -> list[Any]:
    """Return the modes that are open now and see each function of torch, the outermost first."""
    count = find("torch._C", "_len_torch_function_stack", lambda: 0)()
    return [torch._C._get_function_stack_at(position) for position in range(count)]


def others_see_ops() -> bool:
    """Return whether somebody's own code is called for each op: a mode, a hook, a method put on torch.Tensor."""
    own = find("torch.utils._device", "DeviceContext", type(None))
    if any(type(mode) is not own for mode in function_modes()):
        return True
    if find("torch._C", "_len_torch_dispatch_stack", lambda: 0)():
        return True
    if find("torch._C", "_autograd._top_saved_tensors_default_hooks", lambda *_: None)(True) is not None:  # noqa: FBT003 - positional only
        return True
    kinds = [kind for kind in torch.Tensor.__mro__ if kind is not object]
    return not all(is_tensors_own(value) for kind in kinds for value in vars(kind).values())


def is_tensors_own(attribute: Any) -> bool:
    """Return whether something that torch.Tensor has as an attribute is not a Python function of somebody else's."""
    if type(attribute) is property:
        return all(is_tensors_own(part) for part in (attribute.fget, attribute.fset, attribute.fdel))
    function = attribute.__func__ if type(attribute) in (classmethod, staticmethod) else attribute
    if type(function) is FunctionType:
        return function.__code__.co_filename.startswith(torch_root())
    return type(function).__module__ == "builtins"


def is_plain_tensor(value: Any) -> bool:
    """Return whether a value is a tensor or parameter of torch's own class, without anybody's hooks and attributes."""
    if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
        return False
    hooks = value._backward_hooks, getattr(value, "_post_accumulate_grad_hooks", None)
    return not any(hooks) and all(name.startswith("_dynamo") for name in vars(value))


_OPS = ("torch", "torch._C._fft", "torch._C._linalg", "torch._C._nn", "torch._C._special")
# The Python functions of torch that are ops, or choose among ops, and call nothing that they are not given.
_OP_FILES = ("functional.py", "nn/functional.py", "_jit_internal.py")


def is_op(function: Any) -> bool:
    """Return whether this is one of torch's public functions on tensors, and not one that sets or loads something."""
    if type(function) is BuiltinFunctionType:
        owner = function.__self__
        of_module = type(owner) is ModuleType and owner.__name__ in _OPS
        return (of_module or owner is None) and function.__module__ in _OPS and not function.__name__.startswith("_")
    if type(function) is not FunctionType:
        return False
    file = Path(function.__code__.co_filename)
    return str(file).startswith(torch_root()) and file.relative_to(torch_root()).as_posix() in _OP_FILES


def set_function_modes(modes: list[Any]) -> None:
    """Close the modes that are open now, and open these."""
    for _ in function_modes():
        torch._C._pop_torch_function_stack()
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


# --- bench: what a run moves and computes ----------------------------------------------------------------------------


def decomposes(op: Any, device_type: str) -> bool:
    """Return whether torch runs an op on this device only as other ops ("linear", which inference mode shows whole)."""
    has = find("torch._C", "_dispatch_has_kernel_for_dispatch_key", lambda *_: False)
    name = op.name()
    return bool(has(name, "CompositeImplicitAutograd")) and not has(name, device_type.upper())


def flop_formula(op: Any) -> Callable[..., int] | None:
    """Return torch's formula for the floating-point operations of an op, None if it has none."""
    # On a CUDA build without Triton, importing it logs a warning that is about somebody else's kernels.
    logger = logging.getLogger("torch.utils.flop_counter")
    before, logger.disabled = logger.disabled, True
    try:
        registry: Mapping[Any, Callable[..., int]] = find("torch.utils.flop_counter", "flop_registry", {})
    finally:
        logger.disabled = before
    # The CPU's attention takes the arguments of CUDA's, and has no formula of its own (torch 2.13).
    name = op_name(op).rpartition("::")[2]
    shared = getattr(torch.ops.aten, name.replace("_for_cpu", ""), None) if "_for_cpu" in name else None
    return registry.get(shared or getattr(op, "_overloadpacket", None))


def jiterated(code: str, **arguments: float) -> Callable[..., torch.Tensor] | None:
    """Return a pointwise CUDA or ROCm kernel of C++ that is compiled when first called, None if torch can't."""
    create = find("torch.cuda.jiterator", "_create_jit_fn")
    return create(code, **arguments) if create is not None else None


def profiler_runs() -> bool:
    """Return whether a profiler of torch's is on in this process."""
    return bool(find("torch._C._autograd", "_profiler_enabled", lambda: False)())


def switch_library(name: str, *, on: bool) -> bool:
    """Let torch use the kernels of "cudnn" or "mkldnn" (oneDNN) or not, and return whether it did before.

    Setting `torch.backends.cudnn.enabled` would fail once `torch.backends.disable_global_flags` was called, and
    `torch.backends.cudnn.flags` would set all else that it has, too.
    """
    before = bool(find("torch._C", f"_get_{name}_enabled", lambda: on)())
    find("torch._C", f"_set_{name}_enabled", lambda _: None)(on)
    return before
