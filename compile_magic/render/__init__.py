"""From a report to what a front end shows: `RENDERERS` by mime type.

This is imported when something is first rendered: rich costs more to import than all of this package.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from compile_magic.model import ExplainReport
from compile_magic.report import Report
from compile_magic.show.blocks import Block
from compile_magic.unmoved import unmoved
from compile_magic.watch_model import WatchReport

with unmoved():
    # Before the renderers, whoever imports them first: on import it draws from Python's `random`.
    import rich.console
    import rich.table  # noqa: F401 - see above


class Renderer(Protocol):
    """A function from a report to the text of one mime type."""

    def __call__(self, report: Report, *, width: int, guards: bool, graphs: bool) -> str:
        """Return the report as this mime type."""


def text(report: Report, *, width: int = 100, color: bool = False, guards: bool = False, graphs: bool = False) -> str:
    """Return the report as plain text: at most 60 lines, but for the guards and graphs if they are asked for.

    No line is wider than `width`, or 120. `color` adds ANSI colours for a terminal.
    """
    from compile_magic.render import plain

    return plain.render(_blocks(report, opened=_opened(guards=guards, graphs=graphs)), width=width, color=color)


def mimebundle(report: Report, *, width: int = 100, guards: bool = False, graphs: bool = False) -> dict[str, str]:
    """Return the report in every mime type that there is a renderer for."""
    return {mime: render(report, width=width, guards=guards, graphs=graphs) for mime, render in RENDERERS.items()}


def page(report: Report) -> str:
    """Return the report as a self-contained HTML document."""
    from compile_magic.render import html

    version = getattr(report, "torch_version", "")
    return html.document(_blocks(report), foot=f"torch {version}" if version else "")


def _plain(report: Report, *, width: int, guards: bool, graphs: bool) -> str:
    return text(report, width=width, guards=guards, graphs=graphs)


def _html(report: Report, *, width: int, guards: bool, graphs: bool) -> str:
    del width  # HTML flows
    from compile_magic.render import html

    return html.fragment(_blocks(report, opened=_opened(guards=guards, graphs=graphs)))


def _blocks(report: Report, *, opened: Collection[str] = ()) -> tuple[Block, ...]:
    from compile_magic.bench_model import BenchReport
    from compile_magic.show.watch_table import cell_blocks
    from compile_magic.show.watch_table import ledger_blocks

    if isinstance(report, BenchReport):
        from compile_magic.show.bench_table import bench_blocks

        return bench_blocks(report, opened=opened)
    if isinstance(report, WatchReport):
        return ledger_blocks(report, opened=opened)
    if not isinstance(report, ExplainReport):
        raise TypeError(f"there is no way to show a {type(report).__name__}")
    from compile_magic.show.table import blocks

    return (cell_blocks if report.mode == "watched" else blocks)(report, opened=opened)


def _opened(*, guards: bool, graphs: bool) -> tuple[str, ...]:
    return tuple(key for key, asked in (("guards", guards), ("graphs", graphs)) if asked)


RENDERERS: dict[str, Renderer] = {"text/plain": _plain, "text/html": _html}
