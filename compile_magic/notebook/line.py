"""Read the lines of the magics: the types of their options, and where a line magic's statement begins."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compile_magic.notebook.bench_cell import BenchOptions
    from compile_magic.notebook.session import CellOptions

DYNAMIC = {"auto": None, "true": True, "false": False}

_TAKES_VALUE = frozenset(
    {"-o", "--output", "--backend", "--dynamic", "--max-breaks", "--max-recompiles", "--max-graphs"}
    | {"--modes", "--backends", "--budget", "--calls"}
)


def count(text: str) -> int:
    """Read a number of things, 0 included."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a number such as 0, not {text!r}")
    return int(text)


def calls(text: str) -> int:
    """Read how many runs a job has: 1000, 1_000 or 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"needs a number of runs such as 1000, not {text!r}")
    return int(number)


def budget(text: str) -> float:
    """Read seconds."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"needs seconds such as 3 or 0.5, not {text!r}")
    return number


def names(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise argparse.ArgumentTypeError("needs names with commas between them and no blanks")
    return found


def split_line(line: str) -> tuple[str, str]:
    """Split the line of a line magic into its options and the statement after them."""
    position, skip = 0, False
    for match in re.finditer(r"\S+", line):
        word = match.group()
        if not skip and not word.startswith("-"):
            break
        skip = not skip and word in _TAKES_VALUE
        position = match.end()
    return line[:position], line[position:].strip()


def cell_options(arguments: argparse.Namespace) -> CellOptions:
    """Return what the line of %%compile_explain asks for.

    Raises:
        ValueError: two options don't go together.
    """
    from compile_magic.notebook.session import CellOptions
    from compile_magic.run.run import Options

    _check_targets(arguments)
    return CellOptions(
        targets=tuple(dict.fromkeys(arguments.targets)),
        cell=arguments.cell,
        run=Options(
            backend=arguments.backend,
            dynamic=DYNAMIC[arguments.dynamic],
            fullgraph=arguments.fullgraph,
            fresh=arguments.fresh,
        ),
        guards=arguments.guards,
        graphs=arguments.graphs,
        quiet=arguments.quiet,
        output=arguments.output,
        max_breaks=arguments.max_breaks,
        max_recompiles=arguments.max_recompiles,
        max_graphs=arguments.max_graphs,
    )


def bench_options(arguments: argparse.Namespace) -> BenchOptions:
    """Return what the line of %%compile_bench asks for.

    Raises:
        ValueError: two options don't go together, or there is no such mode or backend.
    """
    from compile_magic.measure.settings import Settings
    from compile_magic.measure.variants import check
    from compile_magic.notebook.bench_cell import BenchOptions

    _check_targets(arguments)
    check(arguments.modes, arguments.backends)
    return BenchOptions(
        settings=Settings(
            targets=tuple(dict.fromkeys(arguments.targets)),
            modes=arguments.modes,
            backends=arguments.backends,
            dynamic=DYNAMIC[arguments.dynamic],
            fullgraph=arguments.fullgraph,
            budget_s=arguments.budget,
            runs=arguments.calls,
            cold=arguments.cold,
        ),
        cell=arguments.cell,
        quiet=arguments.quiet,
        output=arguments.output,
    )


def _check_targets(arguments: argparse.Namespace) -> None:
    if arguments.cell and arguments.targets:
        raise ValueError("--cell compiles the whole body: give either --cell or targets")
