"""Failures in words: what torch says, and what a row then says."""

from __future__ import annotations

import pytest

from compile_magic.measure.reasons import reason

SAID = [
    ("InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: ('g++',)", "C++ compiler"),
    ("TritonMissing: Cannot find a working triton installation. Either the package", "pip install triton"),
    ("GPUTooOldForTriton: Found Tesla K80 which is too old to be supported by the triton GPU compiler", "too old"),
    (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 1 GiB",
        "out of memory while it asked for 20.00 GiB",
    ),
    ("RuntimeError: out of memory", "out of memory: make the input smaller"),
    (
        "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run.",
        "clone()",
    ),
    ("FailOnRecompileLimitHit: recompile limit reached", "recompile limit"),
    (
        "Unsupported: Data-dependent branching\n  Explanation: ...",
        "forbids: Data-dependent branching",
    ),
    ("BackendCompilerFailed: backend='my' raised:\nValueError: no such op", "compiling failed: ValueError: no such op"),
    ("NotImplementedError: aten::x has no kernel", "no kernel that the compiler can use: aten::x has no kernel"),
]


@pytest.mark.parametrize(("said", "words"), SAID)
def test_a_known_failure_says_what_to_do(said: str, words: str) -> None:
    """What torch raises becomes one line that says what happened and what helps."""
    assert words in reason(said)
    assert "\n" not in reason(said)


def test_an_unknown_failure_is_its_first_line() -> None:
    """A failure that no rule knows is its type and first line, cut where it is long."""
    assert reason(ValueError("wrong shape\nmore")) == "ValueError: wrong shape"
    assert reason(ValueError()) == "ValueError:"
    assert len(reason(ValueError("x" * 10_000))) <= 300


def test_the_cause_of_a_failure_is_looked_at() -> None:
    """An error that another one caused is known by its cause."""
    inner = RuntimeError("No working C++ compiler found")
    outer = ValueError("compiling failed")
    outer.__cause__ = inner

    assert "C++ compiler" in reason(outer)
