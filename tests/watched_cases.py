"""What has to come of people's cells that a person would run under %compile_watch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import cases
from cases import Case

from compile_magic.model import ExplainReport

WATCHED = cases.cases("%compile_watch")

# Each cause with how many recompiles have it, from torch's guards and the words of the case.
CAUSES: Mapping[str, Mapping[str, int]] = {
    "rec-dict-gains-key": {"keys": 1, "order": 1},
    "rec-new-lambda": {"python_value": 4, "identity": 1},
    "rec-list-length-limit": {"length": 7},
    "rec-grad-mode-flip": {"grad_mode": 2, "inference_mode": 2, "requires_grad": 1},
    "rec-class-attr-stale": {"python_value": 1},
}

# What the text under the cell has to say, in order.
WORDS: Mapping[str, str] = {
    "rec-dict-gains-key": r"2 recompiles.*'norm'.*order",
    "rec-new-lambda": r"5 recompiles.*the global w was 0, now 1.*3, now 4.*another function",
    "rec-list-length-limit": r"limit of 8 compiled versions and runs in eager.*len\(parts\): 1, 2, 3, 4, 5, 6, 7, 8",
    "rec-grad-mode-flip": r"no_grad.*inference_mode.*inference tensor.*requires_grad went from False to True",
    "rec-class-attr-stale": r"1 recompile.*Knobs\.floor was -0\.5, now 2\.25 \(guard made by Cell In\[\d+\], line 9\)",
}


def check_report(case: Case, report: ExplainReport, text: str) -> None:
    """Compare the report of a watched cell, and the text under it, with what was measured without compile_magic."""
    found: Counter[str] = Counter()
    for again in report.recompiles:
        found[again.cause] += again.count

    assert report.mode == "watched"
    assert cases.expected_figures(case) == cases.figures(report)
    assert report.unread == ()
    assert dict(CAUSES[case.id]) == dict(found)
    assert re.search(WORDS[case.id], " ".join(text.replace("┃", " ").split()))
    assert "dispatch key" not in text.lower()
