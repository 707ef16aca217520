"""Join the reports of one cell that was too long to be read at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from dataclasses import replace
from itertools import chain
from typing import Any

from compile_magic.model import ExplainReport
from compile_magic.model import GraphBreak

# Of each finding, how many a joined report keeps; the counts count them all.
MOST_KEPT = 1_000


def merged(reports: Sequence[ExplainReport]) -> ExplainReport:
    """Return one report with the counts added up and the findings in order; of each kind only the first ones."""
    first = reports[0]
    if len(reports) == 1:
        return first
    changed: dict[str, Any] = {}
    for field in fields(ExplainReport):
        values = [getattr(report, field.name) for report in reports]
        if isinstance(values[0], tuple):
            changed[field.name] = tuple(chain.from_iterable(values))[:MOST_KEPT]
        elif isinstance(values[0], (int, float)) and field.name != "recompile_limit":
            changed[field.name] = sum(values)
    changed["breaks"] = _sites(reports)
    changed["graph_break_count"] = len(changed["breaks"])
    changed["phases"] = dict(sum((Counter(report.phases) for report in reports), Counter()))
    return replace(first, **changed)


def _sites(reports: Sequence[ExplainReport]) -> tuple[GraphBreak, ...]:
    found: dict[tuple[str, int, str], GraphBreak] = {}
    for each in (found for report in reports for found in report.breaks):
        site = (each.location.file, each.location.line, each.kind)
        before = found.get(site)
        found[site] = replace(before, count=before.count + each.count) if before else each
    return tuple(found.values())
