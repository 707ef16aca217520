"""Why a variant has no times, in words: REASONS by what torch says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from compile_magic.errors import said
from compile_magic.errors import words_of
from compile_magic.measure.ended import EndedError

# Characters of a message that are looked at, and of one that no rule knows that are shown.
_LOOKED_AT = 20_000
_SHOWN = 300


@dataclass(frozen=True)
class Reason:
    """A failure that is known: `pattern` is searched in "Type: message", `words` may name its groups."""

    pattern: str
    words: str


# The first that is found decides.
REASONS: tuple[Reason, ...] = (
    Reason(
        r"No working C\+\+ compiler found|InvalidCxxCompiler",
        "Inductor needs a C++ compiler and found none: install one (g++, clang++) or set CXX; "
        "--backends aot_eager needs none",
    ),
    Reason(
        r"TritonMissing|Cannot find a working triton installation",
        "Inductor needs Triton for this device and found none: pip install triton; --backends aot_eager needs none",
    ),
    Reason(
        r"GPUTooOldForTriton|too old to be supported by the triton",
        "this GPU is too old for Triton, which Inductor needs; --backends aot_eager works on it",
    ),
    Reason(
        r"out of memory.*?Tried to allocate (?P<size>[\d.]+ \w+)",
        "out of memory{size: while it asked for %s}: make the input smaller, or free what other cells hold",
    ),
    Reason(
        r"OutOfMemoryError|out of memory|can't allocate memory",
        "out of memory: make the input smaller, or free what other cells hold",
    ),
    Reason(
        r"accessing tensor output of CUDAGraphs that has been overwritten",
        "reads an output that a later call of the compiled function has overwritten, as cudagraphs reuse it: clone() "
        "the output, or call torch.compiler.cudagraph_mark_step_begin() before each call",
    ),
    Reason(
        r"FailOnRecompileLimitHit|[Rr]ecompile limit exceeded|RecompileLimitExceeded",
        "reached the recompile limit with --fullgraph: %%compile_explain shows what recompiles",
    ),
    Reason(
        r"Unsupported: (?P<what>[^\n]+)",
        "there is a graph break, which --fullgraph forbids: {what:%s}; %%compile_explain shows its line",
    ),
    Reason(
        r"UnsupportedOperatorException|no fake impl registered|NotImplementedError: (?P<what>[^\n]+)",
        "an op has no kernel that the compiler can use{what:: %s}; torch.library.register_fake gives one a fake kernel",
    ),
    Reason(
        r"(BackendCompilerFailed|InductorError)[^\n]*raised:\s*\n(?P<what>[^\n]+)",
        "compiling failed{what:: %s}",
    ),
)

_PART = re.compile(r"\{(?P<name>\w+):(?P<text>[^}]*)\}")


def reason(error: BaseException | str) -> str:
    """Return in one line why a variant raised, and what to do where that is known."""
    text = error if isinstance(error, str) else _told(error)
    for known in REASONS:
        match = re.search(known.pattern, text[:_LOOKED_AT], re.DOTALL)
        if match is not None:
            return _filled(known.words, match)
    return _first_line(text)


def _told(error: BaseException) -> str:
    """Return type and message of an error and of what caused it."""
    told: list[str] = []
    current: BaseException | None = error
    if isinstance(current, EndedError):
        return words_of(current)
    while current is not None and len(told) < 5:  # noqa: PLR2004 - a chain may be circular
        told.append(said(current))
        current = current.__cause__ if current.__cause__ is not None else vars(current).get("inner_exception")
    return "\n".join(told)


def _filled(words: str, match: re.Match[str]) -> str:
    groups = match.groupdict()

    def part(found: re.Match[str]) -> str:
        value = groups.get(found["name"])
        return found["text"].replace("%s", value.strip()) if value else ""

    return _PART.sub(part, words)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "it raised without a message")
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
