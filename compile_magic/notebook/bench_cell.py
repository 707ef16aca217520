"""Measure the body of a cell, from its tree to the report; the notebook is left as it was before."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from types import CodeType
from typing import Any

import torch

from compile_magic.bench_model import BenchReport
from compile_magic.measure.bench import measure
from compile_magic.measure.proof import NAME
from compile_magic.measure.proof import Expected
from compile_magic.measure.settings import Progress
from compile_magic.measure.settings import Settings
from compile_magic.measure.stage import Surroundings
from compile_magic.measure.state.aside import set_aside
from compile_magic.measure.state.fingerprint import Looker
from compile_magic.measure.state.unrepeatable import find_unrepeatable
from compile_magic.measure.work import KEEP
from compile_magic.measure.work import CellWork
from compile_magic.notebook import plan as plans
from compile_magic.notebook.bench_setup import Head
from compile_magic.notebook.bench_setup import set_up
from compile_magic.notebook.bench_setup import split
from compile_magic.notebook.cellfunction import SHOWN_NAME
from compile_magic.notebook.intercept import CLEAN
from compile_magic.notebook.intercept import located
from compile_magic.run.targets import resolve


def _is_nobodys(_: str) -> bool:
    return False


@dataclass(frozen=True)
class BenchOptions:
    """What the line of the magic asks for."""

    settings: Settings = field(default_factory=Settings)
    cell: bool = False
    quiet: bool = False
    output: str | None = None


@dataclass(frozen=True)
class Shell:
    """What a cell is run in: its names, its compiler (under the cell's file name), and where words and output go."""

    namespace: dict[str, Any]
    compile_code: Callable[[ast.Module], CodeType]
    silenced: Callable[[], AbstractContextManager[Any]]
    progress: Progress
    hidden: Callable[[str], bool] = _is_nobodys


@dataclass(frozen=True)
class Benched:
    """A report, and for when the cell has run: what one run of it leaves, and how to look at that.

    `once` says that the cell can't be repeated.
    """

    report: BenchReport
    expected: Expected | None = None
    look: Looker | None = None
    once: bool = False

    def after_plain_run(self, *, ended: bool) -> tuple[BenchReport, str]:
        """Return the report with what the plain run has left, and words where that is not what one run leaves.

        Args:
            ended: whether the cell has run to its end.
        """
        if self.expected is None or self.look is None:
            return self.report, ""
        before = next(one for one in self.report.checks if one.name == NAME)
        check, alarm = self.expected.after(self.look, before, ended=ended)
        checks = (check if one is before else one for one in self.report.checks)
        return replace(self.report, checks=tuple(checks)), alarm


def bench_cell(body: Sequence[ast.stmt], options: BenchOptions, shell: Shell) -> Benched:
    """Measure the body of a cell and return the report. `body` itself is not changed, and neither is the notebook.

    Raises:
        CannotWrapError: the body is to be one function and can't be, or there is none.
        TargetError: a target can't be compiled.
    """
    namespace, targets = shell.namespace, options.settings.targets
    found = plans.plan(body, namespace, plans.Ways(cell=options.cell, named=bool(targets), repeated=True))
    if not body:
        return _not_measured(found, "the cell has no code: there is nothing to run")
    for target in targets:
        resolve(target, namespace, bound_later=found.bound)
    used = _used(body, namespace)
    problem = find_unrepeatable(body, namespace, used)
    if problem is not None:
        return _not_measured(found, problem, once=True)
    setup, timed = split(plans.apply(found, copy.deepcopy(list(body)), namespace, targets))
    if not timed:
        return _not_measured(found, "the cell only defines and imports: call what is to be measured in it")
    try:
        head = Head(setup, shell.compile_code(ast.Module(setup, [])))
        code = shell.compile_code(ast.Module(_keeping(timed), []))
    except SyntaxError as error:
        return _not_measured(found, f"Python refuses the cell: {error.msg}")
    whole = SHOWN_NAME if found.mode == "cell" else ""
    work = CellWork(code, namespace, found.bound, {CLEAN: lambda: None}, whole=whole)
    look = Looker(namespace, used, hidden=shell.hidden)
    around = Surroundings(look, silenced=shell.silenced, progress=shell.progress)
    with set_aside(), set_up(head, work, used, shell.silenced):
        if head.failed:
            return _not_measured(found, head.failed, once=head.once)
        measured = measure(work, options.settings, around, mode=found.mode)
    notes = (*filter(None, [found.note]), *head.left_over, *measured.report.notes)
    return Benched(replace(measured.report, notes=notes), measured.expected, look, measured.once)


def _not_measured(found: plans.Plan, why: str, *, once: bool = False) -> Benched:
    return Benched(BenchReport(error=why, mode=found.mode, torch_version=torch.__version__), once=once)


def _used(body: Sequence[ast.stmt], namespace: dict[str, Any]) -> frozenset[str]:
    """Return the names that a cell uses, and the attributes: of those a module of the user's may hold state."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)} - set(namespace)
    return frozenset({node.id for node in nodes if isinstance(node, ast.Name)} | attributes)


def _keeping(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements with the value of the last expression handed to the work."""
    *rest, last = statements
    if not isinstance(last, ast.Expr):
        return statements
    call = ast.Call(ast.Name(KEEP, ast.Load()), [last.value], [])
    return [*rest, located(ast.Expr(call), last)]
