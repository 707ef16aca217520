"""From a report to what a front end shows: `RENDERERS` by mime type.

The renderers load when they are first used: rich costs more to import than all of this package.
"""

from __future__ import annotations

from typing import Protocol

from compile_magic.model import ExplainReport


class Renderer(Protocol):
    """A function from a report to the text of one mime type."""

    def __call__(self, report: ExplainReport, *, width: int, guards: bool, graphs: bool) -> str:
        """Return the report as this mime type."""


def text(
    report: ExplainReport, *, width: int = 100, color: bool = False, guards: bool = False, graphs: bool = False
) -> str:
    """Return the report as plain text: at most 60 lines, but for the guards and graphs if they are asked for.

    No line is wider than `width`, or 120. `color` adds ANSI colours for a terminal.
    """
    from compile_magic.render import plain
    from compile_magic.table import blocks

    return plain.render(blocks(report, opened=_opened(guards=guards, graphs=graphs)), width=width, color=color)


def mimebundle(
    report: ExplainReport, *, width: int = 100, guards: bool = False, graphs: bool = False
) -> dict[str, str]:
    """Return the report in every mime type that there is a renderer for."""
    return {mime: render(report, width=width, guards=guards, graphs=graphs) for mime, render in RENDERERS.items()}


def page(report: ExplainReport) -> str:
    """Return the report as a self-contained HTML document."""
    from compile_magic.render import html
    from compile_magic.table import blocks

    return html.document(blocks(report), foot=f"torch {report.torch_version}" if report.torch_version else "")


def _plain(report: ExplainReport, *, width: int, guards: bool, graphs: bool) -> str:
    return text(report, width=width, guards=guards, graphs=graphs)


def _html(report: ExplainReport, *, width: int, guards: bool, graphs: bool) -> str:
    del width  # HTML flows
    from compile_magic.render import html
    from compile_magic.table import blocks

    return html.fragment(blocks(report, opened=_opened(guards=guards, graphs=graphs)))


def _opened(*, guards: bool, graphs: bool) -> tuple[str, ...]:
    return tuple(key for key, asked in (("guards", guards), ("graphs", graphs)) if asked)


RENDERERS: dict[str, Renderer] = {"text/plain": _plain, "text/html": _html}
