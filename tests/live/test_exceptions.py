"""Whatever an explained cell raises is what the plain cell raises, and is shown as there."""

from __future__ import annotations

import sys
from typing import Any

import IPython
import pytest
from side_by_side import both

_GROUPS = sys.version_info >= (3, 11)


def _raising(how: str, before: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in how.splitlines())
    return f"{before}def bad(x):\n    x = x + 1\n{lines}    return x\n"


_OWN = "class Own(Exception):\n    def {name}(self, *args):\n        raise RuntimeError('{name}')\n"


def _own(name: str) -> str:
    return _raising("raise Own('o')", _OWN.format(name=name))


_CHAIN = "def make(n):\n    e = ValueError(n)\n    e.__cause__ = make(n - 1) if n else None\n    return e\n"
_AFTER = "\nprint('a')\nreturn d(x).view(7)"

# Each defines a function `bad` that raises.
RAISES = {
    "from one that was never raised": _raising("raise KeyError('k') from ValueError('v')"),
    "from a class": _raising("raise KeyError('k') from ValueError"),
    "from None": _raising("try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('v') from None"),
    "in the context of one that was never raised": _raising(
        "error = KeyError('k')\nerror.__context__ = ValueError('v')\nraise error"
    ),
    "a long chain": _raising("raise make(9)", _CHAIN),
    "a cycle": _raising("a, b = KeyError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a"),
    "from one that is false": _raising(
        "raise KeyError('k') from Empty()", "class Empty(Exception):\n    def __len__(self):\n        return 0\n"
    ),
    "a __str__ that raises": _own("__str__"),
    "a __repr__ that raises": _own("__repr__"),
    "a __getattr__ that raises": _own("__getattr__"),
    "a __setattr__ that raises": _own("__setattr__"),
    "a with_traceback that raises": _own("with_traceback"),
    "a SyntaxError": _raising("raise SyntaxError('bad', ('there.py', 3, 2, 'a b', 3, 4))"),
    "a SyntaxError of exec": _raising("exec('1 +')"),
    "a SyntaxError of ast": _raising("ast.parse('a b')", "import ast\n"),
    "GeneratorExit": _raising("raise GeneratorExit"),
    "a SystemExit with words": _raising("raise SystemExit('out')"),
    "a warning": _raising("raise UserWarning('w')"),
    "a lambda across a break": _raising("d = lambda v: v * 2" + _AFTER),
    "a function across a break": _raising("def d(v, *, k={'a': 1}):\n    return v * 2" + _AFTER),
    "an annotated function across a break": _raising("def d(v: 'n') -> 'm':\n    return v" + _AFTER),
    "a closure across two breaks": _raising("n = 2\nd = lambda v: v * n\nprint('b')\nx = d(x)" + _AFTER),
    "a lambda of a method": (
        "class C:\n    def go(self, x, *rest, key=1, **more):\n        d = lambda v: v * key\n        print('a')\n"
        "        return d(x).view(7)\ndef bad(x):\n    return C().go(x, 1, 2, other=3)\n"
    ),
}  # fmt: skip
if IPython.version_info >= (8,):
    # IPython 7 asks each cause whether it is true, outside of all that it guards, so that a plain cell ends there.
    RAISES["from one that can't be asked"] = _raising("raise KeyError('k') from Own()", _OWN.format(name="__bool__"))
if _GROUPS:
    RAISES |= {
        "a note": _raising("error = KeyError('k')\nerror.add_note('and a note')\nraise error"),
        "a group": _raising("raise ExceptionGroup('g', [ValueError('v'), KeyError('k')])"),
        "a nested group": _raising(
            "raise ExceptionGroup('g', [ExceptionGroup('h', [ValueError('v')]), KeyError('k')]) from TypeError('t')"
        ),
        "a group of what was raised": _raising(
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    kept = e\nraise ExceptionGroup('g', [kept])"
        ),
    }

# What a user does with an exception: let it go, in the ways of running a cell, or look at it.
_CAUGHT = "try:\n    y = bad(x)\nexcept BaseException as e:\n    "
USES = {
    "raised": ("y = bad(x)\nz = 1",),
    "%tb afterwards": ("y = bad(x)", "%tb"),
    "raised again in a later cell": (f"{_CAUGHT}kept = e", "raise kept"),
    "caught by a library, raised again": ("future = pool.submit(bad, x)\nkept = future.exception()", "raise kept"),
    "printed": (f"{_CAUGHT}import traceback; traceback.print_exc()",),
    "formatted later": (f"{_CAUGHT}kept = [e]", "import traceback\ntext = traceback.format_exception(kept[0])"),
    "walked": (
        f"{_CAUGHT}names, t = [], sys.exc_info()[2]\n"
        "    while t:\n        names.append((t.tb_frame.f_code.co_name, t.tb_lineno))\n        t = t.tb_next",
    ),
    "logged": (f"{_CAUGHT}logging.getLogger('mine').exception('so')",),
    "the shell's last": ("y = bad(x)", "import traceback\ntext = traceback.format_exception(sys.last_value)"),
    "post mortem": (
        "y = bad(x)",
        "import pdb\nframes = pdb.Pdb().get_stack(None, sys.last_traceback)[0][-2:]\n"
        "seen = [(f.f_code.co_name, n, 'd' in f.f_locals) for f, n in frames]",
    ),
    "a handler of its own": ("sys.excepthook = sys.excepthook\ny = bad(x)",),
}
_NEEDED = (
    "import sys, logging\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
)  # fmt: skip


@pytest.mark.parametrize("how", RAISES)
def test_an_exception_of_a_compiled_function_is_that_of_the_plain_cell(how: str) -> None:
    """Type, words, traceback and all that follows are the plain cell's, whatever the exception is."""
    plain, explained, _ = both("y = bad(x)\nz = 1", then="y = f(x)\ny", setup=RAISES[how])

    assert explained == plain
    assert not any("compile_magic/" in text or "_dynamo/" in text for ran in explained.cells for text in ran[2:])


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("how", ["from one that was never raised", "a lambda across a break"])
def test_what_is_done_with_an_exception_is_done_as_without_the_magic(how: str, use: str) -> None:
    """An exception that is caught, kept, printed, walked through or raised again is that of the plain cell."""
    plain, explained, _ = both(*USES[use], then="y = f(x)\ny", setup=_NEEDED + RAISES[how])

    assert explained == plain


@pytest.mark.parametrize("kept", ["kept = safe(bad)", "kept = [safe(bad)]", "kept = {'e': safe(bad)}"])
def test_an_exception_that_other_code_has_caught_is_that_of_the_plain_cell(kept: str) -> None:
    """A named target's exception that a helper catches and gives back is raised later on as after a plain cell."""
    safe = "def safe(f):\n    try:\n        return f(x)\n    except Exception as e:\n        return e\n"
    again = (
        "raise kept if isinstance(kept, Exception) else list(kept.values())[0] if isinstance(kept, dict) else kept[0]"
    )
    setup = safe + RAISES["from one that was never raised"]
    plain, explained, _ = both(f"{kept}\ndel bad", setup=setup, line="-q bad", then=again)

    assert explained == plain


LINES = {
    "named": ("compile_explain", "-q bad"),
    "the whole cell": ("compile_explain", "-q --cell"),
    "another backend": ("compile_explain", "-q --backend aot_eager"),
    "bench": ("compile_bench", "-q --budget 0.01 --backends eager"),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "how", ["from one that was never raised", "a cycle", "a lambda across a break", "a __str__ that raises"]
)
def test_each_magic_raises_as_the_plain_cell(how: str, line: str) -> None:
    """Named targets, a cell as one function and the last run of a bench raise what the plain cell raises."""
    magic, options = LINES[line]
    plain, explained, _ = both("y = bad(x)\nz = 1", then="y = f(x)\ny", setup=RAISES[how], magic=magic, line=options)

    assert [ran[:3] for ran in explained.cells] == [ran[:3] for ran in plain.cells]
    assert explained == plain


@pytest.mark.parametrize("how", ["from one that was never raised", "a group", "a lambda across a break"])
def test_each_style_of_traceback_is_that_of_the_plain_cell(how: str) -> None:
    """%xmode shows an explained cell's exception as it shows a plain cell's."""
    if how not in RAISES:
        pytest.skip("Python 3.10 has no exception groups")
    cells = [
        f"get_ipython().run_line_magic('xmode', '{mode}')\ny = bad(x)"
        for mode in ("Plain", "Context", "Verbose", "Minimal")
    ]
    plain, explained, _ = both(*cells, setup=RAISES[how])

    assert explained == plain
    # IPython leaves a group to Python, which has one style.
    assert len({ran[2].partition("\n")[2] for ran in plain.cells}) > (how != "a group")


_THROUGH_TORCH = """def f(x):
    y = x + 1
    print('k')
    raise ValueError('v')
own = torch.compile(f, backend='eager')
full = torch.compile(f, backend='eager', fullgraph=True)
wrong = torch.compile(lambda x: x @ torch.ones(4, 4), backend='eager')
def outer(x):
    return own(x) + 1
@torch.compiler.disable
def disabled(x):
    raise KeyError('k')
def calls(x):
    return disabled(x + 1)
def hooked(x):
    x = x.clone().requires_grad_()
    x.register_hook(disabled)
    x.sum().backward()
"""


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        *((f"{name}(x)", "-q") for name in ("own", "full", "wrong", "outer", "disabled", "calls", "hooked")),
        ("calls(x)", "-q calls"),
        ("own(x)", "-q calls"),
    ],
)
def test_torchs_own_frames_are_those_of_the_plain_cell(cell: str, line: str) -> None:
    """What the user has compiled or disabled himself shows the frames of torch's that it shows without us."""
    plain, explained, _ = both(cell, setup=_THROUGH_TORCH, line=line)

    assert explained.cells == plain.cells
    assert "/torch/" in str(plain.cells)


def test_a_watched_cell_raises_as_the_plain_cell(notebook: Any) -> None:
    """While compiles are watched, the user's compiled function raises what it raises otherwise."""
    notebook.ok(f"import torch\nx = torch.ones(3)\n{RAISES['from one that was never raised']}")
    notebook.ok("good = torch.compile(bad, backend='eager')")
    plain = notebook.run("good(x)")
    notebook.ok("%compile_watch")
    watched = notebook.run("good(x)")

    assert repr(watched.error) == repr(plain.error) == "KeyError('k')"
    assert watched.stdout.count("ValueError") == plain.stdout.count("ValueError") > 0


# One of each kind that is told from the others where a magic is called: by chains, own methods, ends and breaks.
CALLED = (
    "from one that was never raised",
    "a cycle",
    "from one that is false",
    "a __str__ that raises",
    "a __setattr__ that raises",
    "a SyntaxError of exec",
    "GeneratorExit",
    "a SystemExit with words",
    "a closure across two breaks",
    "a lambda of a method",
    *(["a group of what was raised"] if _GROUPS else []),
)


@pytest.mark.parametrize("how", CALLED)
def test_the_magic_called_as_a_magic_raises_the_same(how: str, notebook: Any) -> None:
    """run_cell_magic raises the user's own exception object, whatever it is."""
    notebook.ok(f"import torch\nx = torch.ones(3)\n{RAISES[how]}")
    plain = notebook.run("bad(x)")
    called = notebook.run("get_ipython().run_cell_magic('compile_explain', '-q', 'bad(x)')")

    assert type(called.error) is type(plain.error)
    assert _last_line(called.stdout) == _last_line(plain.stdout)
    assert notebook.report.error


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


@pytest.mark.parametrize("how", ["from one that was never raised", "a cycle", "a __str__ that raises", "GeneratorExit"])
def test_the_python_api_reports_what_a_function_raises(how: str, notebook: Any) -> None:
    """An exception of the function is the report's error, and what ends a program goes on."""
    notebook.ok(f"import torch, compile_magic\nx = torch.ones(3)\n{RAISES[how]}")
    ran = notebook.run("compile_magic.explain(bad, x).error")

    assert (ran.error is None) == (how != "GeneratorExit")
    assert ran.value in ("KeyError: 'k'", "KeyError: 'a'", "Own: <exception str() failed>", None)


BROKEN = {
    "cleaning": "compile_magic.notebook.tracebacks.clean_traceback",
    "standing in": "compile_magic.notebook.tracebacks.is_hashable",
    "an assertion": "compile_magic.run.explained.assertion_of",
    "what has run": "compile_magic.run.explained.ExplainedCall._runs_eager",
    "what torch passed over": "compile_magic.run.explained.ExplainedCall._record_suppressed",
    "the names of the notebook": "compile_magic.run.run.Run.watch_namespace",
    "the begin of a call": "compile_magic.run.run.Run.begin_call",
    "the sources": "compile_magic.notebook.session.collect",
    "reading": "compile_magic.notebook.session.parse",
}


@pytest.mark.parametrize("where", BROKEN)
@pytest.mark.parametrize("cell", ["y = bad(x)", "y = f(x)"])
def test_a_fault_of_ours_is_one_line_beside_what_the_cell_gives(
    where: str, cell: str, notebook: Any, monkeypatch: Any
) -> None:
    """Where a step of ours fails, the cell still gives or raises its own, and the fault is said."""

    def fail(*_: Any, **__: Any) -> Any:
        raise LookupError("a fault of ours")

    fail.__name__ = BROKEN[where].rpartition(".")[2]
    notebook.ok(
        "import torch\nx = torch.ones(3)\ndef f(x):\n    return x + 1\n" + RAISES["from one that was never raised"]
    )
    monkeypatch.setattr(BROKEN[where], fail)
    ran = notebook.run(f"%%compile_explain\n{cell}")
    monkeypatch.undo()
    said = ran.stderr + "".join(bundle["text/plain"] for bundle in ran.displays)

    assert type(ran.error) is (KeyError if "bad" in cell else type(None))
    assert cell != "y = f(x)" or notebook.get("y").tolist() == [2.0, 2.0, 2.0]
    assert "KeyError: 'k'" in ran.stdout or "bad" not in cell
    assert ("a fault of ours" in said) == (where not in NOT_REACHED.get(cell, ()))
    assert notebook.explain("y = f(x)").graph_count == 1


# Steps that are taken only when a cell raises.
NOT_REACHED = {"y = f(x)": ("cleaning", "standing in", "an assertion", "what has run")}
