"""Make a string from a user's program harmless to show: nothing in it moves the cursor, recolours or reorders text."""

from __future__ import annotations

import unicodedata

# Controls, surrogates and line separators; of the format characters, which reorder or hide text, the one that
# joins emoji stays.
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_KEPT = frozenset("\n\u200d")


def clean(text: str) -> str:
    """Return the text with tabs expanded and unsafe characters spelled out by their number; line ends stay."""
    expanded = text.replace("\r\n", "\n").expandtabs(4)
    if expanded.isascii() and expanded.isprintable():
        return expanded
    return "".join(_spelled(char) for char in expanded)


def clean_line(text: str) -> str:
    """Return the cleaned text on one line."""
    return clean(text).replace("\n", " ")


def _spelled(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _UNSAFE:
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
