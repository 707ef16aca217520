"""A few functions that build HTML, so that nothing reaches a page unescaped."""

from __future__ import annotations

import html
import re
from typing import NewType

from compile_magic.render.clean import clean
from compile_magic.render.style import TONES

Html = NewType("Html", str)

BREAK = "<wbr>"

_BACKTICKS = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[^\s`]+")
# Where a reader would break a word: after a dot or the like, else after an underscore or a bracket.
_PLACES = (re.compile(r"(?<=[.,/=])(?=\w)"), re.compile(r"(?<=[_(\[])(?=\w)"))
# An escaped character is one, and stays whole.
_CHARACTER = r"(?:&\w+;|[^&])"
MOST_UNBROKEN = 24


def escaped(text: str, most: int = 2000) -> Html:
    """Return cleaned text for between two tags, escaped, cut at `most` characters."""
    kept = text if len(text) <= most else text[: most - 1] + "…"
    return Html(html.escape(clean(kept), quote=False))


def breakable(words: Html, most: int = MOST_UNBROKEN) -> Html:
    """Return escaped text in which words of more than `most` characters, such as dotted names, may be broken."""
    return Html(_WORD.sub(lambda word: BREAK.join(_pieces(word[0], most)), words))


def _pieces(word: str, most: int) -> list[str]:
    pieces = [word]
    for place in _PLACES:
        pieces = [part for piece in pieces for part in (place.split(piece) if len(piece) > most else [piece])]
    return [part for piece in pieces for part in re.findall(f"{_CHARACTER}{{1,{most}}}", piece)]


def prose(text: str, most: int = 2000) -> Html:
    """Return escaped text with `names` in a code font."""
    return Html(_BACKTICKS.sub(r"<code>\1</code>", breakable(escaped(text, most))))


def tag(name: str, *inner: Html, **attributes: str) -> Html:
    """Return an element; `class_` stands for class, and an attribute with an empty value is left out."""
    written = "".join(f' {key.rstrip("_")}="{html.escape(clean(value))}"' for key, value in attributes.items() if value)
    return Html(f"<{name}{written}>{''.join(inner)}</{name}>")


def toned(tone: str, *inner: Html, bold: bool = False) -> Html:
    """Return text in a tone, by class where the style sheet lives and inline where it doesn't."""
    return tag("b" if bold else "span", *inner, class_=tone, style=TONES[tone])


def advised(words: str) -> Html:
    """Return a line of advice; one that was verified begins with a green ✓."""
    if not words.startswith("✓"):
        return tag("div", prose(words))
    return tag("div", toned("good", Html("✓"), bold=True), prose(words[1:]))


def link(url: str, words: str) -> Html:
    """Return a link, or only its words if the address is not an https one."""
    return tag("a", escaped(words), href=url) if url.startswith("https://") else escaped(words)


def joined(pieces: list[Html], between: str = "") -> Html:
    """Return the pieces as one; `between` is plain text."""
    return Html(escaped(between).join(pieces))
