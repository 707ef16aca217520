"""What to say beside the figures: where compiled code is known to differ from eager, and what torch warned about."""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Something that isn't in compiled code what it is in eager.

    Args:
        name: what it is called in tests.
        words: the sentence for the report.
        ops: a pattern for the names of ops and of special inputs in graphs; one of them must fit.
        paths: a pattern for what the user's code refers to; one of these must fit.
        called_from: whether code counts that has called what was compiled, and wasn't compiled itself.
        error: a pattern for what the cell has raised; it must fit.
    """

    name: str
    words: str
    ops: str = ""
    paths: str = ""
    called_from: bool = False
    error: str = ""

    def is_in(self, ops: Collection[str], paths: Collection[str], error: str = "") -> bool:
        """Return whether a cell with these ops, code that refers to these, and this error has it."""
        looked_for = ((self.ops, ops), (self.paths, paths), (self.error, [error]))
        return all(any(re.search(pattern, one) for one in found) for pattern, found in looked_for if pattern)


_NUMPYS_DRAWS = (
    r"^wrapped_(uniform|rand|randn|random|random_sample|randint|normal|choice|shuffle|permutation|standard_normal|"
    r"seed|beta|binomial|exponential|gamma|poisson)$"
)
_NUMPYS_SCALARS = (
    r"^wrapped_(sum|mean|prod|max|min|amax|amin|std|var|median|dot|vdot|inner|trace|argmax|argmin|ptp|any|all|"
    r"float16|float32|float64|u?int8|u?int16|u?int32|u?int64)$"
)
_DRAWS = "random|uniform|randint|randrange"
_CLOCKS = r"perf_counter|monotonic|process_time|thread_time"

# Measured on torch 2.13; tests/live/test_differences.py has an example of each, and runs it.
DIFFERENCES = (
    Difference(
        "numpy's draws",
        "torch draws numpy's random numbers from its own generator in compiled code: they differ from eager, "
        "and numpy's generator is not moved; draw before the call, or set torch._dynamo.config.use_numpy_random_stream",
        ops=_NUMPYS_DRAWS,
    ),
    Difference(
        "a random.Random",
        "a random.Random of yours draws in compiled code, where torch starts from its state at the compile: each call "
        "draws the same numbers, unlike eager; draw before the call, or with torch.rand",
        paths=rf"^(?!random\.|np\.|numpy\.|torch\.)[\w.]+\.({_DRAWS})$",
        ops="^random_value$",
    ),
    Difference(
        "is_compiling",
        "this code asks whether it is being compiled (is_compiling), and takes another branch here than in eager",
        paths=r"(^|\.)is_(dynamo_)?compiling$",
    ),
    Difference(
        "a nested_compile_region",
        "a function under nested_compile_region is traced once for all its calls: a global or an attribute that "
        "changes between two of them keeps its first value, unlike eager",
        ops="^invoke_subgraph$",
    ),
    Difference(
        "numpy's scalars",
        "numpy runs as torch operators in compiled code: where eager gives a numpy scalar, "
        "the result is an array without dimensions",
        ops=_NUMPYS_SCALARS,
    ),
    Difference(
        "times of its own",
        "the times that this cell takes itself are of compiled code, compiling included; %%compile_bench measures",
        paths=rf"(^|\.)(({_CLOCKS})(_ns)?|elapsed_time|default_timer|timeit|blocked_autorange|time_ns)$|^time\.time$|^%",
        called_from=True,
    ),
    Difference(
        "an assertion's frame",
        "an assert about data is an op of the graph in compiled code: where it stands in a function that another "
        "compiled one calls, the traceback ends at the caller; run the cell plainly to see the assert's own line",
        ops="^_assert_async",
        error="^AssertionError",
    ),
)


def differences(
    ops: Collection[str], traced: Collection[str], callers: Collection[str], error: str | None = None
) -> Iterator[str]:
    """Yield where the results of a cell are known to differ from eager, because of torch."""
    for known in DIFFERENCES:
        if known.is_in(ops, {*traced, *callers} if known.called_from else traced, error or ""):
            yield known.words


# Warnings of what has its own place in the report: the recompile limit, breaks, and compiles that failed.
_SAID = (
    "hit config.",
    "WON'T CONVERT",
    "failed while attempting to run meta",
    "Graph break",
    "Error while creating guard",
    "Created at:",
    "does not know how to trace the builtin",
)
MOST_REMARKS = 3
MOST_CHARACTERS = 160


def remarks(logs: Iterable[str]) -> Iterator[str]:
    """Return the first line of each warning, each once; of many, only the first few, and how many more there were."""
    lines = dict.fromkeys(_first_line(text) for text in logs if not any(said in text for said in _SAID))
    kept = [line for line in lines if line]
    for line in kept[:MOST_REMARKS]:
        yield f"torch warned while compiling: {line}"
    if len(kept) > MOST_REMARKS:
        yield f"torch gave {len(kept) - MOST_REMARKS} more warnings while compiling."


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
