"""Wrong use of the magic is told in one line, and leaves nothing behind."""

from __future__ import annotations

import builtins
import logging
import re
import warnings
from typing import Any

import pytest
from IPython.core.error import UsageError

SETUP = """import torch
x = torch.ones(3)
def f(x): return x + 1
def fé(x): return x + 2
def gen(x): yield x
async def co(x): return x
async def agen(x): yield x
class K: pass
net, text, number, made = torch.nn.Linear(3, 3), "text", 3, gen(x)
"""

OPTIONS = {
    "--bogus": r"unrecognized arguments: --bogus; %compile_explain\? lists the options",
    "-h": "unrecognized arguments: -h",
    "--dynamic maybe": "--dynamic: invalid choice: 'maybe'",
    "--max-breaks x": "--max-breaks: needs a number such as 0, not 'x'",
    "--max-graphs -1": "--max-graphs: needs a number such as 0, not '-1'",
    "--max-recompiles": "--max-recompiles: expected one argument",
    "-o": "-o/--output: expected one argument",
    "-o 3x": "-o needs a name to bind the report to, not '3x'",
    "-o class": "-o needs a name to bind the report to, not 'class'",
    "-o In": "'In', which is IPython's own: choose another name",
    "--backend nosuch": "no backend 'nosuch': the usual ones are eager, aot_eager, inductor and cudagraphs",
    "'unbalanced": "can't read the options .*: No closing quotation",
    "--cell f": "give either --cell or targets",
}

TARGETS = {
    "nothere": "there is no `nothere` in the notebook",
    "ünknown": "there is no `ünknown` in the notebook",
    "later": "`later` doesn't exist before this cell",
    "print": "there is no `print` in the notebook",
    "K": "`K` is a class: name an instance of it",
    "text": "`text` is a str, not a callable",
    "number": "`number` is an int, not a callable",
    "torch": "`torch` is a module, not a callable",
    "made": "`made` is a generator, not a callable",
    "gen": "`gen` is a generator function, which Dynamo doesn't compile",
    "co": "`co` is an async function, which Dynamo doesn't compile",
    "agen": "`agen` is an async generator function",
    "net.nope": "can't look up `net.nope`: AttributeError",
    "net.weight": "`net.weight` is a Parameter, not a callable",
    "torch.relu": "`torch.relu` is torch's own: name a function or module of yours that calls it",
    "f(x)": r"'f\(x\)' is no target: give the name of a function or module",
    "1+1": r"'1\+1' is no target",
    "'lambda: 0'": "is no target",
    "f;": "'f;' is no target",
    "f,net": "'f,net' is no target",
    "{f}": "'{f}' is no target",
}

CELLS = {
    ("--cell", "import math"): "the cell only imports",
    ("--cell", "y = 1\nfrom math import *"): "a star import can't stand in a function",
    ("--cell", "import asyncio\nawait asyncio.sleep(0)"): "top-level await can't be compiled",
}


def _left(shell: Any) -> dict[str, Any]:
    return {
        "names": {name: id(value) for name, value in shell.user_ns.items() if not name.startswith("_i")},
        "transformers": (list(shell.ast_transformers), list(shell.input_transformers_cleanup)),
        "handlers": (shell.custom_exceptions, shell.CustomTB),
        "filters": [len(handler.filters) for handler in logging.getLogger("torch").handlers],
        "showwarning": warnings.showwarning,
        "builtins": set(vars(builtins)),
    }


def _refused(notebook: Any, source: str) -> str:
    notebook.ok(SETUP)
    before = _left(notebook.shell)
    ran = notebook.run(source)

    assert isinstance(ran.error, UsageError)
    assert (ran.stdout, ran.stderr.strip().splitlines()) == ("", [f"UsageError: {ran.error}"])
    assert ran.displays == ()
    after = _left(notebook.shell)
    for names in (before["names"], after["names"]):
        names.pop("In", None)
    assert after == before
    assert notebook.explain("f(x)", "-q").graph_count == 1
    return str(ran.error)


@pytest.mark.parametrize(("line", "words"), [*OPTIONS.items(), *TARGETS.items()], ids=[*OPTIONS, *TARGETS])
def test_a_wrong_line_is_told_in_one(line: str, words: str, notebook: Any) -> None:
    """Each wrong option or target gives one UsageError that says what to do, before anything of the cell has run."""
    error = _refused(notebook, f"%%compile_explain {line}\nlater = f\nran = later(x)")

    assert re.search(words, error)


@pytest.mark.parametrize(("line", "cell", "words"), [(*key, words) for key, words in CELLS.items()])
def test_a_cell_that_cant_be_explained_is_told_in_one_line(line: str, cell: str, words: str, notebook: Any) -> None:
    """A cell that can't be one function gives one UsageError, and nothing of it runs."""
    assert words in _refused(notebook, f"%%compile_explain {line}\n{cell}")


STATEMENTS = {
    "": "%compile_explain needs a statement",
    "-q": "%compile_explain needs a statement",
    "-o": "%compile_explain needs a statement",
    "f(x": "can't read the statement 'f(x'",
    "f f(x)": "can't read the statement 'f f(x)': invalid syntax",
    "--backend nosuch f(x)": "there is no backend 'nosuch'",
    "--cell import math": "the cell only imports",
}


@pytest.mark.parametrize(("line", "words"), STATEMENTS.items())
def test_a_wrong_statement_is_told_in_one_line(line: str, words: str, notebook: Any) -> None:
    """%compile_explain without a statement, or with one that Python can't read, gives one UsageError."""
    assert words in _refused(notebook, f"%compile_explain {line}")


def _without_cell(shown: str) -> str:
    """The number of the cell differs, and in IPython 7 the hash of its text."""
    return re.sub(r"In\[\d+\]|<ipython-input-\d+-\w+>", "CELL", shown)


@pytest.mark.parametrize("cell", ["def broken(:\n    pass", "x = = 3", "f(x", "if True:\nf(x)"])
def test_a_syntax_error_is_shown_as_without_the_magic(cell: str, notebook: Any) -> None:
    """A SyntaxError of the cell is Python's own, on the line that the editor shows."""
    notebook.ok(SETUP)
    plain = notebook.run(f"# a line\n{cell}")
    explained = notebook.run(f"%%compile_explain\n{cell}")

    assert type(explained.error) is type(plain.error)
    assert _without_cell(explained.stdout) == _without_cell(plain.stdout)
    assert explained.displays == ()


def test_an_unusual_name_is_a_name(notebook: Any) -> None:
    """A target may have any name that Python allows."""
    notebook.ok(SETUP)

    assert notebook.explain("y = fé(x)", "-q fé").graph_count == 1
