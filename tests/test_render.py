"""How a report looks, as text and as HTML: exact text, bounds, and that nothing in it can do harm."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import reports
from rich.cells import cell_len

from compile_magic import render
from compile_magic.model import ExplainReport
from compile_magic.model import Graph
from compile_magic.render.clean import clean
from compile_magic.render.fit import Drawn
from compile_magic.render.fit import Item
from compile_magic.render.fit import fit
from compile_magic.render.markup import breakable
from compile_magic.render.markup import escaped
from compile_magic.show.blocks import Folded
from compile_magic.show.table import blocks

CLEAN = """\
compile_explain: 1 graph, no breaks, no recompiles · backend eager · compiled: f (calls) · 0.41 s

 1 graph, 2 ops
   id  ops  function  where               top ops
  0/0    2  f         Cell In[3], line 2  1 sin, 1 sum

 2 guards: 1 you can change, 1 internal
 compile time 0.41 s: dynamo 0.40 s, backend_compile 12 ms (phases overlap)
 in full: guards, graph code in _compile_report, or folded in the notebook"""

BROKEN = """\
compile_explain: 2 graphs, 1 break site · backend eager · compiled: head (calls) · 52 ms

 Cell In[3]
   16   def head(h):
   17 ✗     if h.mean() > 0:  Data-dependent branching · GB0170  seen 1×
        → Use `torch.cond` to express dynamic control flow.
   18           h = h.relu()
   19       return h

 2 graphs, 3 ops
   id  ops  function             where                top ops
  0/0    2  head                 Cell In[3], line 16  1 gt, 1 mean
  1/0    1  head, after a break  Cell In[3], line 16  1 relu

 compile time 52 ms
 in full: graph code, stacks and torch's own text in _compile_report, or folded in the notebook"""

SKIPPED = """\
compile_explain: no graphs, 1 break site, 1 function left in eager · backend eager ·
  compiled: model (calls) · 0.30 s
┃ `Block.forward` ran wholly in eager: the print on line 12 is in a loop, and Dynamo can't resume
┃ there.

 Cell In[3]
    8   def forward(self, x):
    9       h = self.norm(x)
   10       h = h * self.scale
   11       for i in range(self.depth):
   12 ✗         print("step", i)
        └ builtin print in a loop: function skipped · GB0059 · costs at least 310 µs a call ·
          seen 12×
        → If you are attempting to call a logging function (e.g. `print`), you can try adding it
          to `torch._dynamo.config.reorderable_logging_functions`.
   13           h = self.mix(h)
   14       return h

 compile time 0.30 s
 in full: stacks and torch's own text in _compile_report, or folded in the notebook"""

# What JupyterLab's sanitizer keeps of a notebook that somebody else has run.
KEPT_TAGS = {
    *("a", "b", "br", "code", "details", "div", "em", "i", "kbd", "mark", "meter", "p", "pre", "progress", "span"),
    *("strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "wbr"),
}
DROPPED_WITH_CONTENT = frozenset(("style", "script", "svg"))
KEPT_ATTRIBUTES = {"align", "class", "colspan", "dir", "href", "lang", "open", "scope", "style", "title", "width"}
KEPT_STYLES = {
    *("background-color", "border", "border-collapse", "border-left", "border-top", "color", "font-size"),
    *("font-weight", "line-height", "margin", "opacity", "overflow-wrap", "overflow-x", "padding", "table-layout"),
    *("text-align", "vertical-align", "white-space", "word-break"),
}


class Sanitized(HTMLParser):
    """The text that is left when only what JupyterLab keeps is kept, and what was found on the way."""

    def __init__(self, page: str) -> None:
        """Parse the page at once."""
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self._dropping = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag; begin to drop if its content goes with it."""
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag in DROPPED_WITH_CONTENT:
            self._dropping = tag

    def handle_endtag(self, tag: str) -> None:
        """End to drop."""
        if tag == self._dropping:
            self._dropping = ""

    def handle_data(self, data: str) -> None:
        """Keep the text outside of what is dropped."""
        if not self._dropping:
            self.words += data.split()


def html_of(report: ExplainReport) -> str:
    """Return the report as HTML."""
    return render.mimebundle(report)["text/html"]


@pytest.mark.parametrize(
    ("build", "expected"),
    [(reports.clean, CLEAN), (reports.broken, BROKEN), (reports.skipped, SKIPPED)],
    ids=["clean", "broken", "skipped"],
)
def test_text_is_exactly_this(build: reports.Build, expected: str) -> None:
    """A small report at a width of 100 is this text."""
    assert render.text(build(), width=100) == expected


@pytest.mark.parametrize("name", reports.REPORTS)
@pytest.mark.parametrize("width", [20, 60, 79, 100, 120, 400])
def test_text_is_at_most_60_lines_of_120_columns(name: str, width: int) -> None:
    """Text of any report keeps within 60 lines, and within the width that was asked for or 120 columns."""
    lines = render.text(reports.REPORTS[name](), width=width).split("\n")

    assert len(lines) <= 60
    assert max(map(cell_len, lines)) <= max(40, min(width, 120))


def test_what_is_cut_is_counted() -> None:
    """The rest of a long table is counted, and the field that holds it is named."""
    text = render.text(reports.huge())

    assert re.search(r"… and \d+ more in _compile_report\.breaks\n", text)
    shown = [int(left) for left in re.findall(r"… and (\d+) more in _compile_report\.recompiles", text)]
    assert len(shown) == 1
    assert shown[0] + len(re.findall(r"^ +1× +2  f\d+ ", text, re.MULTILINE)) == 100


def test_guards_and_graphs_are_shown_in_full_when_asked_for() -> None:
    """What is asked for comes whole, after the report."""
    report = reports.huge()
    text = render.text(report, guards=True, graphs=True)

    assert text.startswith(render.text(report))
    assert text.count("TENSOR_MATCH") + text.count("GLOBAL_STATE") == 900
    assert text.count("h = a + b") == 3000 * 48 * 2


@pytest.mark.parametrize("name", reports.REPORTS)
def test_plain_text_has_no_control_characters(name: str) -> None:
    """Text without colour has no escape sequence and no character that moves or reorders text."""
    text = render.text(reports.REPORTS[name](), guards=True, graphs=True)

    assert clean(text) == text


def test_colour_changes_nothing_but_the_colour() -> None:
    """Text in colour is the same text once its escape sequences are taken out."""
    report = reports.everything()
    coloured = render.text(report, color=True)
    plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).split("\n"))

    assert "\x1b[" in coloured
    assert plain == render.text(report)


def test_colour_lets_no_foreign_escape_through() -> None:
    """In colour too, the only escape sequences are those of the renderer, which set a style."""
    without_styles = re.sub(r"\x1b\[[0-9;]*m", "", render.text(reports.hostile(), color=True))

    assert clean(without_styles) == without_styles
    assert "\\x1b[31mred\\x1b[0m" in without_styles


def test_text_shows_markup_and_escapes_as_they_are() -> None:
    """Rich markup in a name is shown and not obeyed, and an escape is spelled out."""
    text = render.text(reports.hostile(), width=120)

    assert "[bold red]bold[/bold red]" in text
    assert "\\x1b[31mred\\x1b[0m" in text
    assert "\\u202eevil\\u202c" in text
    assert "\\ud800 \\u2028 line" in text


@pytest.mark.parametrize("mime", render.RENDERERS)
@pytest.mark.parametrize("name", reports.REPORTS)
def test_every_renderer_takes_every_report(mime: str, name: str) -> None:
    """Each renderer shows each report, can be encoded, and says the first line's answer."""
    report = reports.REPORTS[name]()
    shown = render.RENDERERS[mime](report, width=100, guards=False, graphs=False)

    shown.encode()
    assert "compile_explain: " in shown


@pytest.mark.parametrize("mime", render.RENDERERS)
def test_an_empty_report_is_shown(mime: str) -> None:
    """A report of nothing at all is shown as such by every renderer."""
    shown = render.RENDERERS[mime](ExplainReport("calls", (), ""), width=100, guards=True, graphs=True)

    assert "nothing was compiled" in shown


@pytest.mark.parametrize("mime", render.RENDERERS)
def test_hostile_text_is_inert_everywhere(mime: str) -> None:
    """No renderer lets a control, bidi or escape character from a program through."""
    shown = render.RENDERERS[mime](reports.hostile(), width=100, guards=True, graphs=True)

    assert clean(shown) == shown
    assert "😀" in shown


def test_hostile_html_is_inert() -> None:
    """No tag, attribute or address from a program gets into the page."""
    page = Sanitized(render.page(reports.hostile()))

    assert not page.tags & {"script", "img", "svg", "iframe"}
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("id", "src")]
    assert not [value for name, value in page.attributes if name == "href"]
    assert "<script>alert(1)</script><img" in page.words


def test_links_are_kept_when_they_are_links() -> None:
    """The page on a break is linked."""
    assert ("href", reports.GB_PAGE) in Sanitized(html_of(reports.broken())).attributes


@pytest.mark.parametrize("name", reports.REPORTS)
def test_html_uses_only_what_a_sanitizer_keeps(name: str) -> None:
    """Tags, attributes and inline styles are those that JupyterLab keeps, but for the one style sheet."""
    page = html_of(reports.REPORTS[name]())
    found = Sanitized(page)
    styles = [one.partition(":") for key, value in found.attributes if key == "style" for one in value.split(";")]

    assert found.tags - {"style"} <= KEPT_TAGS
    assert page.count("<style>") == 1
    assert {key for key, _ in found.attributes} <= KEPT_ATTRIBUTES
    assert {name for name, _, _ in styles} <= KEPT_STYLES
    assert not [value for _, _, value in styles if "var(" in value or "inherit" in value]


@pytest.mark.parametrize("name", ["clean", "broken", "skipped", "recompiles", "limit", "everything"])
def test_sanitized_html_keeps_every_word(name: str) -> None:
    """Without style sheet every word of the report is still there, folded or not."""
    report = reports.REPORTS[name]()
    words = [word for block in blocks(report) for word in _words(block)]
    page = _spaced("".join(Sanitized(html_of(report)).words))

    assert words
    assert [word for word in words if _spaced(word) not in page] == []


def _spaced(words: str) -> str:
    return re.sub(r"[\s`]+", "", words)


def _words(value: object) -> list[str]:
    """Return the strings of a block that a reader is to see."""
    hidden = {"key", "opened", "more", "whole", "tone", "url", "align", "columns"}
    if type(value).__name__ == "Pointer":
        return []
    if isinstance(value, str):
        return value.split()
    if isinstance(value, tuple):
        return [word for one in value for word in _words(one)]
    fields = getattr(value, "__dataclass_fields__", {})
    return [word for name in fields if name not in hidden for word in _words(getattr(value, name))]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("torch._dynamo.mark_dynamic(x)", "torch.<wbr>_dynamo.<wbr>mark_dynamic(x)"),
        ("a.short.word and one", "a.short.word and one"),
        ("one_very_long_name_of_one(part)", "one_<wbr>very_<wbr>long_<wbr>name_<wbr>of_<wbr>one(<wbr>part)"),
        ("x" * 30, f"{'x' * 24}<wbr>{'x' * 6}"),
        ("&" * 30, f"{'&amp;' * 24}<wbr>{'&amp;' * 6}"),
    ],
    ids=["dots", "short", "underscores", "run", "entities"],
)
def test_long_words_can_be_broken(words: str, expected: str) -> None:
    """A long word has places to break it, after dots, else underscores, else anywhere but in an entity."""
    assert breakable(escaped(words)) == expected


def test_html_of_a_huge_report_is_bounded() -> None:
    """HTML keeps below 200 kB however much there is, and says what was cut."""
    page = html_of(reports.huge())

    assert len(page.encode()) < 200_000
    assert "more in _compile_report.guards" in page
    assert "more in _compile_report.recompiles" in page


def test_long_code_is_cut_with_the_place_of_the_whole() -> None:
    """A graph's code is cut at 20 kB and says which field has all of it."""
    graph = Graph("0/0", "f", reports.at(1), 9, {}, {}, "h = a + b\n" * 9000)
    page = html_of(ExplainReport("calls", (), "eager", graph_count=2, graphs=(graph, graph)))

    assert "cut, the whole is in _compile_report.graphs[1].code" in page
    assert len(page) < 50_000


def test_a_page_stands_alone() -> None:
    """A saved page is a whole document with its title, its sheet and torch's version."""
    page = render.page(reports.clean())

    assert page.startswith("<!doctype html>")
    assert "<title>compile_explain: 1 graph, no breaks" in page
    assert page.count("<style>") == 1
    assert "torch 2.13.0" in page
    assert "prefers-color-scheme:dark" in page


def test_a_cell_output_follows_its_notebook_and_not_the_system() -> None:
    """Under a cell, dark is what the front end says it is."""
    assert "prefers-color-scheme" not in html_of(reports.clean())


def test_asked_for_guards_are_unfolded_in_html() -> None:
    """HTML has the guards unfolded when they are asked for, and nothing else."""
    page = render.mimebundle(reports.clean(), guards=True)["text/html"]

    assert page.count("<details open") == 1
    assert page.count("<details") == len([one for one in blocks(reports.clean()) if isinstance(one, Folded)])


def test_the_report_shows_itself() -> None:
    """str() and the mime bundle of a report are what the renderers make."""
    report = reports.clean()

    assert str(report) == CLEAN
    assert report._repr_mimebundle_() == render.mimebundle(report)


def test_importing_the_renderers_is_cheap() -> None:
    """Neither rich nor a renderer is imported with the magics and the reports: only when something is rendered."""
    code = (
        "import sys, compile_magic.magics, compile_magic.model, compile_magic.bench_model, compile_magic.watch_model\n"
        "print([name for name in sys.modules if name.startswith(('rich', 'compile_magic.render'))])"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\tb", "a   b"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\u202e\u2066\u200e", "\\u202e\\u2066\\u200e"),
        ("\x9b1m\x7f\x00", "\\x9b1m\\x7f\\x00"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("naïve 日本 👩\u200d💻", "naïve 日本 👩\u200d💻"),
    ],
)
def test_unsafe_characters_are_spelled_out(raw: str, expected: str) -> None:
    """Controls, bidi marks, tags and lone surrogates are spelled out; letters and emoji stay."""
    assert clean(raw) == expected


def test_long_blocks_give_way_first() -> None:
    """A short block is whole where a long one beside it is cut and counted."""
    short = Drawn((Item(("only",)),), more="short")
    long = Drawn(tuple(Item((f"row {n}",)) for n in range(50)), head=("title",), more="long")

    assert fit([short, long], 8) == ["only", "", "title", "row 0", "row 1", "row 2", "row 3", "  … and 46 more in long"]


def test_items_are_shortened_before_they_are_cut() -> None:
    """Where room is scarce an item loses what stands below it before it is left out, the last item first."""
    items = tuple(Item((f"row {n}", "words"), brief=(f"row {n}",)) for n in range(3))

    assert fit([Drawn(items, more="x")], 6) == ["row 0", "words", "row 1", "words", "row 2", "words"]
    assert fit([Drawn(items, more="x")], 5) == ["row 0", "words", "row 1", "row 2"]
