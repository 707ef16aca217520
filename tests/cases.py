"""Cells from people's reports: how to play them in a notebook, and what has to come of it.

What is expected comes from `cases/cases.jsonl`, measured without compile_magic, and from the words of each case.
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_magic.model import ExplainReport
from compile_magic.model import GraphBreak

FILE = Path(__file__).with_name("cases") / "cases.jsonl"
UNSET = "<unset>"

# The user's own line for a break that torch places inside a library, from the words of the case.
OWN_LINES = {"copy.py:153": 11, "torch/optim/optimizer.py:79": 12}

# Why each recompile happened, from the guards that torch printed.
CAUSES = {
    "brk-item-multiplier": ["python_value"],
    "nb-many-bindings": ["size"],
    "nb-user-logging-untouched": ["dtype"],
}

# What the text has to say, as patterns in order: a number and then code is a marked line of the user's.
WORDS = {
    "nb-side-effects-once": r"2 graphs, 1 break .* 5 ✗ history\.append\(float\(x\[0\]\)\)",
    "nb-magics-inside": r"1 graph, no breaks, no recompiles",
    "brk-terminal-bincount": r"1 graph, 1 break .* 5 ✗ return torch\.bincount\(ids\) .*Dynamic shape operator",
    "brk-item-multiplier": r"3 graphs, 1 break .*1 recompile .* 4 ✗ peak = v\.abs\(\)\.max\(\)\.item\(\)"
    r".*\bcapture_scalar_outputs\b.*\bafter the break\b.* 4\.0\b.* 40\.0\b",
    "nb-user-logging-untouched": r"2 graphs, 1 recompile .*\bfloat32\b.*\bint64\b",
    "brk-inside-with": r"no graphs, 1 break .*`block` ran wholly in eager.*\bprint\b.*\bline 16\b"
    r".*`with`.* 16 ✗ print\(",
    "brk-deepcopy-config": r"1 graph, 1 break .* 11 ✗ local = copy\.deepcopy\(cfg\)",
    "brk-backward-in-step": r"3 graphs, 3 break .* 9 ✗ opt\.zero_grad\(\).* 11 ✗ loss\.backward\(\)"
    r".*\boutside your code: 1\b.* 2× .*\bline 12\b.*\blibrary\b",
    "nb-many-bindings": r"2 graphs, 1 recompile",
    "brk-logger-fstring": r"2 graphs, 1 break .* 14 ✗ log\.info\(.*\bignore_logging_functions\b",
    "nb-top-level-await": r"1 graph, no breaks, no recompiles",
    "nb-semicolon-and-comment": r"1 graph, no breaks, no recompiles",
    "brk-prehook-print": r"1 graph, 1 break .* def note\(mod, args\):.* 14 ✗ print\(\"hook saw\"",
}

# What no text may say: a count below nought, a colour code, frames of the machinery.
NEVER = (r"-\d+ (graph|break|recompile)", r"\x1b", r"\bipykernel", r"\bIPython/", r"\bcompile_magic/")

# What the text of one case may not say: Dynamo's own names, a stack inside logging, the value that `;` keeps quiet.
NOT_WORDS = {
    "brk-item-multiplier": r"___stack0",
    "brk-logger-fstring": r"logging/__init__|\bmakeRecord\b|\bcallHandlers\b",
    "nb-semicolon-and-comment": r"tensor\(",
}

# Cells that are run twice.
TWICE = frozenset({"nb-user-logging-untouched"})

# Names that any notebook may have, and the one that is promised.
_ALWAYS = frozenset({"_", "__", "___", "__doc__", "__loader__", "__package__", "__spec__", "_compile_report"})

# What has to be true in the notebook afterwards.
TRUE_AFTER = {"nb-user-logging-untouched": "snapshot() == snap"}

# Cells after the explained one: compiles of the user's own.
AFTER = {
    "nb-user-logging-untouched": (
        'own = torch.compile(f, backend="eager")\nown(torch.zeros(2))\nown(torch.zeros(2, dtype=torch.int64));',
    )
}


@dataclass(frozen=True)
class Case:
    """One line of the file, with `printed` for what the plain cell prints."""

    id: str
    driver: str
    setup: tuple[str, ...]
    cell: str
    targets: tuple[str, ...]
    values: Mapping[str, Any]
    printed: str
    truth: Mapping[str, Any]


def cases(driver: str, *, gpu: bool = False) -> list[Case]:
    """Return the cases for a magic that need no GPU, or those that need one."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    read = [each for each in map(json.loads, lines) if each["driver"] == driver]
    return [_case(each) for each in read if bool(each.get("gpu_only")) == gpu]


def _case(read: Mapping[str, Any]) -> Case:
    truth = read["truth"]
    return Case(
        id=read["id"],
        driver=read["driver"],
        setup=tuple(read["setup"]),
        cell=read["cell"],
        targets=tuple(read.get("targets", ())),
        values=truth.get("eager_values", {}),
        printed=truth.get("plain_cell_stdout", ""),
        truth=truth.get("per_function", {}),
    )


EXPLAINED = cases("%%compile_explain")


@dataclass(frozen=True)
class Cell:
    """What a front end gets from one cell: `shown` are mime bundles in order, `kinds` the messages with output."""

    status: str
    stdout: str
    stderr: str
    shown: tuple[Mapping[str, str], ...]
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Told:
    """What came of a case: its cell, the notebook afterwards, and the report if it was explained."""

    cell: Cell
    values: Mapping[str, Any]
    notebook: Mapping[str, Any]
    true_after: bool
    report: ExplainReport | None = None

    @property
    def text(self) -> str:
        """The report as text, on one line."""
        return " ".join(self.cell.shown[-1]["text/plain"].split())


def play(case: Case, run: Callable[[str], Cell], look: Callable[[str], Any], *, explained: bool) -> Told:
    """Run a case in a notebook whose first cell has been run.

    Args:
        case: the case.
        run: runs a cell.
        look: evaluates an expression in the notebook to something that JSON can hold.
        explained: whether the cell is typed under %%compile_explain.
    """
    for source in case.setup:
        assert run(source).status == "ok"
    source = f"{case.driver}\n{case.cell}" if explained else case.cell
    ran = [run(source) for _ in range(1 + (case.id in TWICE))][-1]
    after = look(f"__import__('cases').notebook_state(globals(), {sorted(case.values)})")
    true_after = look(TRUE_AFTER.get(case.id, "True"))
    report = ExplainReport.from_json(look("_compile_report.to_json()")) if explained else None
    return Told(ran, after.pop("values"), after, true_after, report)


def notebook_state(namespace: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the values of the names, all names that a plain cell may leave, `Out` and `_`."""
    return {
        "values": {name: described(namespace[name]) if name in namespace else UNSET for name in names},
        "names": sorted(_unnumbered(name) for name in namespace if name not in _ALWAYS),
        "Out": {str(count): _shown(value) for count, value in namespace["Out"].items()},
        "_": _shown(namespace.get("_", "")),
    }


def _shown(value: Any) -> str:
    return re.sub(r"\b0x[0-9a-f]+", "0x...", repr(value))


def _unnumbered(name: str) -> str:
    # What a setup cell compiled has names of Dynamo's with a number of the process in them.
    return re.sub(r"^(__builtins_dict__|__compiled_fn_).*", r"\1", name)


def described(value: Any) -> Any:
    """Return a value as the file of cases writes it."""
    if hasattr(value, "requires_grad"):
        return _described_tensor(value)
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, list | tuple):
        return [described(each) for each in value]
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    return value


def _described_tensor(tensor: Any) -> dict[str, Any]:
    flat = [round(each, 4) for each in tensor.detach().flatten().tolist()]
    plain = {"tensor": flat, "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    return plain | ({"requires_grad": True} if tensor.requires_grad else {})


def without_times(printed: str) -> str:
    """Return what was printed with its times masked."""
    return re.sub(r"\d[\d.e+]* [mµμun]?s\b", "TIME", printed)


def expected_figures(case: Case) -> dict[str, Any]:
    """Return what torch was measured to make of a case, in the words of a report."""
    truth, records = case.truth, case.truth["break_records"]
    return {
        "graph_count": truth["graphs"],
        "ops of each graph": truth["ops_per_graph"],
        "functions of the graphs": [_folded(name) for name, _, ops in truth["compiled_frames"] if ops],
        "op_count": sum(truth["ops_per_graph"]),
        "break events": truth["break_record_count"],
        "graph_break_count": len({(record["where"], record["type"]) for record in records}),
        "recompile_count": truth["recompile_records"] - truth["recompile_limit_hit"],
        "limit_hit_count": int(truth["recompile_limit_hit"]),
        "skipped_frame_count": sum(_was_skipped(record) for record in records),
    }


def figures(report: ExplainReport) -> dict[str, Any]:
    """Return the counts of a report and what they count."""
    return {
        "graph_count": report.graph_count,
        "ops of each graph": [graph.op_count for graph in report.graphs],
        "functions of the graphs": [graph.function for graph in report.graphs],
        "op_count": report.op_count,
        "break events": sum(found.count for found in report.breaks),
        "graph_break_count": report.graph_break_count,
        "recompile_count": report.recompile_count,
        "limit_hit_count": report.limit_hit_count,
        "skipped_frame_count": report.skipped_frame_count,
    }


def expected_places(case: Case) -> list[tuple[int, int, str, str]]:
    """Return the user's cell and line, torch's name, and the frame inside a library for each record of a break."""
    return sorted(_expected_place(record) for record in case.truth["break_records"])


def places(report: ExplainReport) -> list[tuple[int, int, str, str]]:
    """Return the same of a report, a break that was seen twice being there twice."""
    return sorted(_place(found) for found in report.breaks for _ in range(found.count))


def expected_skips(case: Case) -> list[str]:
    """Return the functions that ran wholly in eager."""
    (target,) = case.targets
    return [target for record in case.truth["break_records"] if _was_skipped(record)]


def _was_skipped(record: Mapping[str, str]) -> bool:
    return record["outcome"] == "frame skipped, ran eager"


def _expected_place(record: Mapping[str, str]) -> tuple[int, int, str, str]:
    where = re.fullmatch(r"setup cell (\d+), line (\d+)", record["where"])
    if where:
        return _count(int(where[1])), int(where[2]), record["type"], ""
    return _count(1), OWN_LINES[record["where"]], record["type"], record["where"]


def _count(setup_cell: int) -> int:
    # The extension was loaded by cell 1.
    return setup_cell + 1


def _place(found: GraphBreak) -> tuple[int, int, str, str]:
    innermost = found.stack[-1]
    inside = "" if innermost.cell is not None else f"{_short(innermost.file)}:{innermost.line}"
    return found.location.cell or 0, found.location.line, found.kind, inside


def _short(file: str) -> str:
    """Return a path as a person would write it: from the folder of installed packages or of the standard library."""
    for root in ("purelib", "platlib", "stdlib"):
        if Path(file).is_relative_to(sysconfig.get_path(root)):
            return Path(file).relative_to(sysconfig.get_path(root)).as_posix()
    return file


def _folded(name: str) -> str:
    return re.sub(r"^torch_dynamo_resume_in_(\w+)_at_\d+$", r"\1", name)
