"""Cells that raise, meddle with torch, the process or IPython itself: all ends as without the magic."""

from __future__ import annotations

import builtins
import json
import time
import timeit
from typing import Any

import pytest
import torch
from side_by_side import both

from compile_magic.run.run import Options
from compile_magic.run.run import Run

_CHAINED = "def b(x):\n    try:\n        {}['a']\n    except KeyError as e:\n        raise ValueError('b') from e\nb(x)"
_SURE = "def sure(x):\n    x = x + 1\n    assert x.sum() > 99MESSAGE\n    return x\n"
_RAISING = "def bad(x):\n    raise ValueError('p')\ntry:\n    bad(x)\nexcept ValueError as e:\n"

# A function that raises has a line of its own: IPython shows more or less of one-line functions by chance.
RAISES = {
    "in the cell": "y = f(x)\n1 / 0\nz = 1",
    "in a function": "def bad(x):\n    y = x + 1\n    raise ValueError(y.shape[0])\nbad(x)",
    "in a forward": "net(torch.ones(2, 4))",
    "after a break": "def g(x):\n    print('in g')\n    return x + torch.ones(4)\ng(x)",
    "in a helper after a break": "def h(x):\n    return x / []\ndef g(x):\n    print('in g')\n    return h(x)\ng(x)",
    "in an argument": "f(1 / 0)",
    "in a graph": "def late(x, i):\n    a = x + 1\n    return a[i]\nlate(x, torch.tensor([0, 7]))",
    "in a hook": "def hook(m, a):\n    raise ValueError('hook')\nnet.register_forward_pre_hook(hook)\nnet(x)",
    "an assertion about data": _SURE.replace("MESSAGE", ", 'small'") + "sure(x)",
    "an assertion without words": _SURE.replace("MESSAGE", "") + "sure(x)",
    "from another": _CHAINED,
    "while handling": _CHAINED.replace(" from e", ""),
    "in a loop": "def e(x, i):\n    if i == 2: raise ValueError(i)\n    return x\nfor i in (1, 2):\n    y = e(x, i)",
    "wrong arguments": "f(x, x)",
    "not a callable": "f(x)\nx(3)",
    "StopIteration": "def s(x):\n    raise StopIteration\ns(x)",
    "KeyboardInterrupt": "f(x)\nraise KeyboardInterrupt",
    "KeyboardInterrupt in a function": "def k(x):\n    print('hi')\n    raise KeyboardInterrupt\nk(x)",
    "sys.exit": "import sys\nf(x)\nsys.exit(3)",
    "sys.exit in a function": "import sys\ndef k(x):\n    sys.exit(3)\nk(x)",
    "caught": _RAISING + "    caught = str(e)",
    "an assertion, caught": _SURE.replace("MESSAGE", "") + "try:\n    sure(x)\nexcept AssertionError:\n    r = 1",
    "printed by the cell": _RAISING + "    import traceback\n    traceback.print_exc()",
}


@pytest.mark.parametrize("cell", RAISES.values(), ids=RAISES)
def test_an_exception_is_that_of_the_plain_cell(cell: str) -> None:
    """Type, message, traceback text and all variables are the plain cell's, also for the cell after it."""
    plain, explained, _ = both(cell, then="y = f(x)\ny")

    assert explained == plain
    assert not any("compile_magic/" in text or "_dynamo/" in text for ran in explained.cells for text in ran[2:])


@pytest.mark.parametrize("line", ["-q net", "-q net.forward", "-q f"])
def test_named_targets_raise_as_without_the_magic(line: str) -> None:
    """The traceback of a named function, method or module has each frame once."""
    plain, explained, _ = both("def call(x):\n    return f(net(x))\ncall(torch.ones(2, 4))", line=line)

    assert explained == plain


def test_an_exception_group_is_shown_as_without_the_magic() -> None:
    """The parts of an exception group are those of the plain cell."""
    group = "def g(x): raise ExceptionGroup('g', [ValueError('a'), KeyError('b')])\n"
    caught = (
        "try:\n    g(x)\nexcept* ValueError as e:\n    first = str(e.exceptions)\nexcept* KeyError:\n    second = 2"
    )
    plain, explained, _ = both(group + caught, "g(x)")

    assert explained == plain


_HANDLER = """import logging, sys
handler = logging.StreamHandler(sys.stderr)
logging.getLogger('torch._dynamo').addHandler(handler)
def g(x, n):
    return x + len(n)
for i in range(10):
    y = g(x, 'x' * i)
logging.getLogger('torch._dynamo').removeHandler(handler)"""

_RECORDED = """import warnings
def w(x):
    warnings.warn('careful')
    return x + 1
with warnings.catch_warnings(record=True) as got:
    warnings.simplefilter('always')
    y = w(x)
    warnings.warn('two')
got = [str(g.message) for g in got]"""

_HANDLED = """def handler(shell, kind, error, tb, tb_offset=None):
    print('handled', error)
get_ipython().set_custom_exc((ValueError,), handler)
f(x)
raise ValueError('v')"""

_THREAD = """import threading
out = []
t = threading.Thread(target=lambda: out.append(f(x)))
t.start()
t.join()
y = f(x)"""

MEDDLES = {
    "reset between calls": ["y = f(x)\ntorch._dynamo.reset()\ny = f(x)"],
    "reset inside a call": [
        "def r(x):\n    x = x + 1\n    torch._dynamo.reset()\n    return x * 2\ny = r(x)\nz = r(x)"
    ],
    "set_logs": ["torch._logging.set_logs(dynamo=40)\ny = f(x)\ntorch._logging.set_logs()"],
    "a log handler": [_HANDLER],
    "warning filters": ["import warnings\nwarnings.simplefilter('error')\ny = f(x)\nwarnings.simplefilter('default')"],
    "recorded warnings": [_RECORDED],
    "warnings recorded over cells": [
        "import warnings\ncm = warnings.catch_warnings(record=True)\ngot = cm.__enter__()\ny = f(x)",
        "warnings.simplefilter('always')\ny = f(x)\nwarnings.warn('later')",
        "cm.__exit__(None, None, None)\ny = f(x)\ngot = len(got)",
    ],
    "stdout": [
        "import sys, io\nold, sys.stdout = sys.stdout, io.StringIO()\nprint('a')\ny = f(x)\nsys.stdout = old\ndel old"
    ],
    "set_custom_exc": [_HANDLED, "raise ValueError('w')"],
    "%reset": ["y = f(x)\n%reset -f\nq = 1"],
    "nested run_cell": ["r = get_ipython().run_cell('w = f(x)\\nw').result\ny = f(x)"],
    "nested run_cell that fails": ["r = get_ipython().run_cell('1 / 0').success\ny = f(x)"],
    "%autoreload": ["%load_ext autoreload\n%autoreload 2\ny = f(x)"],
    "magics and commands": ["%who_ls\n!echo hi\nout = !echo a\ny = f(x)"],
    "all values shown": ["get_ipython().ast_node_interactivity = 'all'\n1\nf(x)", "1\nf(x)\n2"],
    "a thread": [_THREAD],
}


@pytest.mark.parametrize("cells", MEDDLES.values(), ids=MEDDLES)
def test_what_a_cell_does_to_its_surroundings_is_done_once(cells: list[str]) -> None:
    """What a cell changes in torch, logging, warnings, streams and IPython is as after the plain cell, and no more."""
    plain, explained, _ = both(*cells)

    assert explained == plain


TRANSFORMER = """import ast
class Add(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(node.value + 1), node) if type(node.value) is int else node
transformers = get_ipython().ast_transformers
"""


@pytest.mark.parametrize("place", ["transformers.append(Add())", "transformers.insert(0, Add())"])
@pytest.mark.parametrize("cell", ["y = f(x)\nz = 3", "y = x + 1\nz = 3"])
def test_the_users_ast_transformers_apply(cell: str, place: str) -> None:
    """An AST transformer of the user's changes an explained cell as it changes a plain one, before ours or after it."""
    plain, explained, _ = both(cell, setup=f"{TRANSFORMER}{place}\ndel transformers\n")

    assert explained == plain
    assert explained.variables["z"] == 4


def test_an_input_that_is_rejected_leaves_nothing(notebook: Any) -> None:
    """A cell that a transformer of the user's rejects doesn't run, and the next one is explained as usual."""
    notebook.ok(
        "import torch\nx = torch.ones(3)\ndef f(x): return x + 1\nfrom IPython.core.error import InputRejected\n"
        "class No:\n    def visit(self, tree):\n        raise InputRejected('no')\nno = No()\n"
        "get_ipython().ast_transformers.append(no)"
    )
    ran = notebook.run("%%compile_explain\ny = f(x)")
    notebook.shell.ast_transformers.pop()

    assert (type(ran.error).__name__, ran.displays) == ("InputRejected", ())
    assert notebook.explain("f(x)", "-q").graph_count == 1


@pytest.mark.parametrize("how", ["unload_extension", "reload_extension", "load_extension"])
def test_the_extension_may_be_unloaded_by_an_explained_cell(how: str, notebook: Any) -> None:
    """A cell that unloads or reloads the extension still ends as any other, with its report."""
    notebook.ok("import torch\nx = torch.ones(3)\ndef f(x): return x + 1")
    ran = notebook.ok(
        f"%%compile_explain\ny = f(x)\nget_ipython().extension_manager.{how}('compile_magic')\nz = f(y)\nz"
    )

    assert ran.value.tolist() == [3.0, 3.0, 3.0]
    assert "1 graph" in ran.displays[-1]["text/plain"]
    notebook.ok("%load_ext compile_magic")
    assert notebook.explain("f(x)", "-q").graph_count == 1


def _hooks(shell: Any) -> list[Any]:
    callbacks = [callback for callbacks in shell.events.callbacks.values() for callback in callbacks]
    hooks = [*callbacks, *shell.ast_transformers, *shell.input_transformers_cleanup]
    ours = [hook for hook in hooks if "compile_magic" in str(getattr(hook, "__module__", type(hook).__module__))]
    magics = [name for names in shell.magics_manager.magics.values() for name in names if name.startswith("compile_")]
    return [*ours, *magics, *[name for name in vars(builtins) if "compile_magic" in name]]


def test_unloading_leaves_nothing(notebook: Any) -> None:
    """Loading twice is loading once, and after unloading no transformer, event, magic or builtin of ours is left."""
    once = len(_hooks(notebook.shell))
    notebook.ok("%load_ext compile_magic\n%reload_ext compile_magic")
    again = len(_hooks(notebook.shell))
    notebook.ok("%unload_ext compile_magic")

    assert again == once > 0
    assert _hooks(notebook.shell) == []


def test_the_magic_in_the_magic_is_refused_in_one_line(notebook: Any) -> None:
    """An explained cell that calls the magic again gets a UsageError, and its own report all the same."""
    notebook.ok("import torch\nx = torch.ones(3)\ndef f(x): return x + 1")
    ran = notebook.run("%%compile_explain\ny = f(x)\n%compile_explain f(x)")

    assert "one for a cell is enough" in str(ran.error)
    assert "1 graph" in ran.displays[-1]["text/plain"]


@pytest.mark.parametrize("around", ["%%time\n", "%%capture caught\n", "%%timeit -n1 -r1\n"])
def test_other_magics_go_around_it(around: str, notebook: Any) -> None:
    """The magic works as the body of another cell magic."""
    notebook.ok("import torch\nx = torch.ones(3)\ndef f(x): return x + 1")
    notebook.ok(
        f"{around}%%compile_explain -q\ny = f(x)" if "timeit" not in around else f"{around}%compile_explain -q f(x)"
    )

    assert notebook.report.graph_count == 1


@pytest.mark.parametrize("name", ["used.ipy", "used.ipynb"])
def test_a_file_that_uses_the_magic_can_be_run(name: str, notebook: Any, tmp_path: Any) -> None:
    """%run of a script or a notebook with the magic in it explains that cell."""
    source = "%%compile_explain -q\nw = f(x)"
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    book = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]}
    text = source if name.endswith(".ipy") else json.dumps(book)
    (tmp_path / name).write_text(text, encoding="utf-8")
    notebook.ok("import torch\nx = torch.ones(3)\ndef f(x): return x + 1")
    notebook.ok(f"%run -i {tmp_path / name}" if name.endswith(".ipy") else f"%run {tmp_path / name}")

    assert notebook.get("w").tolist() == [2.0, 2.0, 2.0]
    assert notebook.report.graph_count == 1


def test_a_cached_call_stays_cheap() -> None:
    """What an intercepted call costs besides the compiled call itself is far from what a compile would cost."""
    torch.compiler.reset()
    x, compiled = torch.ones(3), torch.compile(lambda x: x + 1, backend="eager")
    theirs = min(timeit.repeat(lambda: compiled(x), timer=time.thread_time, number=500, repeat=5)) / 500
    run = Run(Options(), mode="calls")
    run.start()
    explained = run.intercept(lambda x: x + 1, "f")
    ours = min(timeit.repeat(lambda: explained(x), timer=time.thread_time, number=500, repeat=5)) / 500
    run.finish()
    torch.compiler.reset()

    # About 110 µs of this thread's own time, which other work on the machine doesn't lengthen much; a look at each name
    # or a compile is a thousand times as much.
    assert ours - theirs < 500e-6
