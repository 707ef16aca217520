"""The first line of a report, which answers the question."""

from __future__ import annotations

from compile_magic.model import ExplainReport
from compile_magic.show.blocks import Summary
from compile_magic.show.phrases import counted
from compile_magic.show.phrases import listed
from compile_magic.show.phrases import named
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import seconds

MOST_NAMES = 3


def summary(report: ExplainReport) -> Summary:
    """Return what the cell compiled to, by what, for which callables and in what time."""
    if _nothing(report):
        return Summary(_sentence(report, "nothing was compiled"), _why_nothing(report), tone="warn")
    return Summary(_sentence(report, _counts(report)), _details(report), _tone(report))


def _sentence(report: ExplainReport, answer: str) -> str:
    spent = seconds(report.compile_time_s) if report.compile_time_s else ""
    parts = (answer, f"backend {report.backend}" if report.backend else "", *_by_how(report), spent)
    return f"compile_explain: {' · '.join(filter(None, parts))}"


def _counts(report: ExplainReport) -> str:
    parts = [counted(report.graph_count, "graph"), *_troubles(report)]
    if len(parts) == 1:
        parts += ["no breaks", "no recompiles"]
    return ", ".join(parts)


def _troubles(report: ExplainReport) -> list[str]:
    counts = (
        (report.graph_break_count, "break site", ""),
        (len(report.failures), "failed compile", ""),
        (report.skipped_frame_count, "function left in eager", "functions left in eager"),
        (report.limit_hit_count, "recompile limit reached", "recompile limits reached"),
        (report.recompile_count, "recompile", ""),
    )
    return [counted(count, *words) for count, *words in counts if count]


def _by_how(report: ExplainReport) -> list[str]:
    if report.mode == "cell":
        return ["compiled: the cell as one function"]
    names = {how: [one_line(one.name) for one in report.targets if one.how == how] for how in ("compiled", "observed")}
    mode = f" ({report.mode})" if report.mode in ("calls", "named") else ""
    ends = {"compiled": mode, "observed": ""}
    return [f"{how}: {listed(found, MOST_NAMES)}{ends[how]}" for how, found in names.items() if found]


def _tone(report: ExplainReport) -> str:
    if report.error or report.failures or report.skipped_frame_count or report.limit_hit_count:
        return "bad"
    return "warn" if report.graph_break_count or report.recompile_count else "good"


def _nothing(report: ExplainReport) -> bool:
    found = (report.graphs, report.breaks, report.skipped_frames, report.recompiles, report.limit_hits, report.failures)
    counts = (report.graph_count, report.graph_break_count, report.recompile_count, len(report.backward_graphs))
    return not any(found) and not any(counts)


def _why_nothing(report: ExplainReport) -> tuple[str, ...]:
    if report.error or any("nothing was compiled" in note.lower() for note in report.notes):
        return ()
    observed = [named(one.name) for one in report.targets if one.how == "observed"]
    if observed:
        was = "was" if len(observed) == 1 else "were"
        known = f"{listed(observed, MOST_NAMES)} {was} compiled before this cell, and torch recorded no compile in it."
        return (f"{known} --fresh explains it anyway.",)
    compiled = [named(one.name) for one in report.targets if one.how == "compiled"]
    if compiled:
        return (f"torch recorded no compile of {listed(compiled, MOST_NAMES)}: not called, or no tensor op in it.",)
    return ("No callable of this cell can be compiled. Name one to compile: %%compile_explain NAME.",)


def _details(report: ExplainReport) -> tuple[str, ...]:
    if report.mode != "cell":
        return ()
    return ("A cell compiled as one function has false breaks of its own; name a function to compile just that.",)
