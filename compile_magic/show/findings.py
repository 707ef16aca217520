"""The words for one finding: what it is called, where it is, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from compile_magic.model import Fix
from compile_magic.model import GraphBreak
from compile_magic.model import Location
from compile_magic.show.phrases import one_line
from compile_magic.show.phrases import seconds
from compile_magic.show.phrases import sentence
from compile_magic.show.phrases import shorten

MOST_OF_A_HINT = 170


@dataclass(frozen=True)
class ShortKind:
    """Shorter words for a kind of break: `label` for a table, `noun` for a sentence. "{name}" is what torch names."""

    pattern: str
    label: str
    noun: str


SHORT_KINDS = (
    ShortKind("Failed to trace builtin operator", "builtin {name}", "{name}"),
    ShortKind("Data-dependent branching", "Data-dependent branching", "data-dependent branch"),
    ShortKind("Tensor.item() call", "Tensor.item()", "Tensor.item()"),
    ShortKind("torch.compiler.disable()`d function", "torch.compiler.disable()d function", "disabled function"),
    ShortKind("Backward", "Backward", "backward call"),
)

# Hints that torch gives for want of a better one: true, but nothing that a reader could do.
EMPTY_HINTS = (
    "This graph break is fundamental",
    "This graph break may be difficult",
    "This graph break may have been caused",
    "It may be possible to write Dynamo tracing rules",
    "Please report an issue",
    "This is likely to be a Dynamo bug",
)

COUNT_WORDS = {
    "graph_count": "graphs",
    "graph_break_count": "breaks",
    "recompile_count": "recompiles",
    "skipped_frame_count": "functions in eager",
    "limit_hit_count": "limit hits",
    "op_count": "ops",
}


def label(found: GraphBreak) -> str:
    """Return what the break is, in torch's words where these are short, and what it did to the function."""
    known = _short_kind(found)
    words = _fill(known.label, found) if known else ""
    where = " in a loop" if found.in_loop else ""
    return (words or one_line(found.kind) or "graph break") + where + (": function skipped" if found.skipped else "")


def noun(found: GraphBreak) -> str:
    """Return what stands in a sentence for the thing that broke, as "print"."""
    known = _short_kind(found)
    return (_fill(known.noun, found) if known else "") or "graph break"


def _short_kind(found: GraphBreak) -> ShortKind | None:
    return next((short for short in SHORT_KINDS if short.pattern in found.kind), None)


def _fill(words: str, found: GraphBreak) -> str:
    if "{name}" not in words:
        return words
    match = re.search(r"builtin (?:operator )?`?([A-Za-z_]\w*)", f"{found.explanation} {found.reason}")
    return words.replace("{name}", match[1]) if match else ""


def place(location: Location, home: Location | None = None) -> str:
    """Return where it is: "line 9" in the file or cell of `home`, else with the file or cell."""
    if home is not None and (location.file, location.cell) == (home.file, home.cell):
        return f"line {location.line}"
    return str(location)


def seen(found: GraphBreak) -> str:
    """Return how often the break was recorded and, where it was measured, the least that it costs."""
    cost = f"costs at least {seconds(found.cost)} a call · " if found.cost is not None else ""
    return f"{cost}seen {found.count}×"


def advice(hints: tuple[str, ...], fix: Fix | None = None) -> tuple[str, ...]:
    """Return what to do: the fix with what came of it, else the first hint that a reader can act on."""
    useful = [hint for hint in hints if not one_line(hint).startswith(EMPTY_HINTS)]
    first = tuple(f"→ {shorten(sentence(hint), MOST_OF_A_HINT)}" for hint in (useful or hints)[:1])
    if fix is None:
        return first
    return (fix_words(fix),) if fix.status == "verified" else (fix_words(fix), *first)


def fix_words(fix: Fix) -> str:
    """Return the fix, whether it was tried, and what it changed."""
    snippet = fix.snippet.strip()
    what = fix.title if "\n" in snippet or not snippet or snippet in fix.title else f"{fix.title}: `{snippet}`"
    mark, tried = {"verified": ("✓", "verified"), "failed": ("✗", "tried, doesn't help")}.get(
        fix.status, ("→", "not tried")
    )
    effect = ", ".join(filter(None, (_change(fix.before, fix.after), _outputs(fix))))
    return f"{mark} {shorten(what, MOST_OF_A_HINT)} ({tried}{': ' if effect else ''}{effect})"


def _change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    changed = [name for name in before if name in after and before[name] != after[name]]
    return ", ".join(f"{COUNT_WORDS.get(name, name)} {before[name]} → {after[name]}" for name in changed[:3])


def _outputs(fix: Fix) -> str:
    return {True: "outputs equal", False: "outputs differ", None: ""}[fix.outputs_equal]
