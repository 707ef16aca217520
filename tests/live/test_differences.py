"""Where compiled code is known to differ from eager, it does, and the report of a cell that has it says so."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import Any

import pytest

from compile_magic.read.remarks import DIFFERENCES
from compile_magic.read.remarks import differences
from compile_magic.read.remarks import remarks


@dataclass(frozen=True)
class Example:
    """A cell whose `got` differs from that of the plain cell, and ones that look like it and don't differ."""

    setup: str
    cell: str
    alike: tuple[tuple[str, str], ...] = ()


_REGION = (
    "k = 1.0\n@torch.compiler.nested_compile_region\ndef region(x):\n    return x * k\n"
    "def f(x):\n    global k\n    k = 1.0\n    a = region(x)\n    k = 5.0\n    return a + region(x)\n"
)
_RNG = "def f(x):\n    return x * rng.uniform(0.5, 1.5)\n"

EXAMPLES = {
    "numpy's draws": Example(
        "np.random.seed(7)\ndef f(x):\n    return x + torch.as_tensor(np.random.uniform(0, 1, size=3))\n",
        "got = f(x).tolist()",
        (
            (
                "np.random.seed(2)\nnoise = np.random.rand(3)\ndef f(x):\n    return x + torch.as_tensor(noise)\n",
                "got = f(x)",
            ),
            ("def f(x):\n    return x + torch.rand(3)\n", "torch.manual_seed(1)\ngot = f(x)"),
            ("rng = np.random.default_rng(3)\ndef f(x):\n    return x + rng.uniform()\n", "got = f(x)"),
        ),
    ),
    "a random.Random": Example(
        f"rng = random.Random(4)\n{_RNG}",
        "got = [f(x).tolist() for _ in range(3)]",
        (
            ("random.seed(4)\n" + _RNG.replace("rng", "random"), "got = [f(x).tolist() for _ in range(3)]"),
            ("random.seed(4)\ndef f(x):\n    return x * random.random()\n", "got = f(x)"),
            ("rng = random.Random(4)\ndef f(x):\n    return x * 2\n", "got = f(x) * rng.random()"),
        ),
    ),
    "is_compiling": Example(
        "def g(x):\n    return x + 1 if torch.compiler.is_compiling() else x + 2\ndef f(x):\n    return g(x) * 2\n",
        "got = f(x).tolist()",
        (
            ("def f(x):\n    return x + 1\n", "got = f(x + torch.compiler.is_compiling())"),
            ("def f(x):\n    return x + 1 if torch.jit.is_scripting() else x\n", "got = f(x)"),
        ),
    ),
    "a nested_compile_region": Example(
        _REGION,
        "got = f(x).tolist()",
        (
            (
                "def region(x):\n" + _REGION.partition("def region(x):\n")[2].replace("f(x)", "f(x)"),
                "k = 1.0\ngot = f(x)",
            ),
        ),
    ),
    "numpy's scalars": Example(
        "def f(x):\n    return x + 1, np.arange(3.0).mean(), np.sqrt(2.0)\n",
        "got = [type(part).__name__ for part in f(x)]",
        (
            ("def f(x):\n    return x.mean(), 2.0**0.5\n", "got = [type(part).__name__ for part in f(x)]"),
            ("def f(x):\n    return x, np.sqrt(np.ones(2))\n", "got = [type(part).__name__ for part in f(x)]"),
        ),
    ),
}


@pytest.fixture
def played(notebook: Any) -> Any:
    """Return what `got` is after a plain cell and after an explained one, each with the setup anew, and the report."""

    def play(setup: str, cell: str) -> tuple[Any, Any, Any]:
        found = []
        for magic in ("# plain\n", "%%compile_explain -q\n"):
            notebook.ok(f"import random, torch\nimport numpy as np\nx = torch.ones(3)\n{setup}")
            notebook.ok(f"{magic}{cell}")
            got = notebook.get("got")
            found.append(got.tolist() if hasattr(got, "tolist") else got)
        return found[0], found[1], notebook.report

    return play


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_known_difference_is_one_and_is_said(name: str, played: Any) -> None:
    """The values of the explained cell are not those of the plain cell, and the report has the sentence for it."""
    eager, compiled, report = played(EXAMPLES[name].setup, EXAMPLES[name].cell)

    assert eager != compiled
    assert next(known.words for known in DIFFERENCES if known.name == name) in report.notes


@pytest.mark.parametrize(
    ("name", "setup", "cell"), [(name, *alike) for name, example in EXAMPLES.items() for alike in example.alike]
)
def test_what_only_looks_like_it_is_not_said(name: str, setup: str, cell: str, played: Any) -> None:
    """A cell whose values are those of the plain cell gets no such sentence."""
    eager, compiled, report = played(setup, cell)

    assert eager == compiled
    assert not set(report.notes) & {known.words for known in DIFFERENCES}


_ASSERTS = {
    "a message": "assert x.sum() > 1e6, 'too small'",
    "none": "assert x.sum() > 1e6",
    "a value": "assert x.max() < 0, 'positive'",
    "after ops": "x = x * 2\n    assert (x < 0).all(), 'some'",
    "a text": "assert torch.isnan(x).any(), 'a number'",
}
_FRAME = next(known for known in DIFFERENCES if known.name == "an assertion's frame")


@pytest.mark.parametrize("how", _ASSERTS)
def test_an_assertion_of_an_inlined_function_has_no_frame_of_it_by_torchs_own_doing(how: str, notebook: Any) -> None:
    """Neither `torch.compile` nor an explained cell has the frame that a plain cell has, and the report says so."""
    notebook.ok(
        f"import torch\nx = torch.ones(3)\ndef f(x):\n    {_ASSERTS[how]}\n    return x\ndef call(t):\n    return f(t)"
    )
    cells = "call(x)", "torch.compile(call, backend='eager')(x)", "%%compile_explain -q\ncall(x)"
    errors = [notebook.run(cell).error for cell in cells]
    plain, by_hand, explained = [[each.name for each in traceback.extract_tb(one.__traceback__)] for one in errors]

    assert "f" in plain
    assert "f" not in by_hand
    assert [name for name in plain if name != "f"] == explained
    assert _FRAME.words in notebook.report.notes


@pytest.mark.parametrize("cell", ["f(-x)", "f(x)\nassert False, 'after'", "f(x) @ torch.ones(7)"])
def test_an_assertion_with_its_frame_is_told_nothing(cell: str, notebook: Any) -> None:
    """A cell that fails outside of graphs, or doesn't fail, gets no sentence about a frame."""
    notebook.ok("import torch\nx = -torch.ones(3)\ndef f(x):\n    return x * 2\n")
    notebook.run(f"%%compile_explain -q\n{cell}")

    assert _FRAME.words not in notebook.report.notes


_TIMED = {
    "a helper": ("def timed(f):\n    t = time.perf_counter(); f(x); return time.perf_counter() - t\n", "timed(f)"),
    "in the cell": ("", "t = time.perf_counter()\nf(x)\ntook = time.perf_counter() - t"),
    "time.time": ("", "t = time.time()\nf(x)\ntook = time.time() - t"),
    "from time": ("from time import monotonic_ns\n", "t = monotonic_ns()\nf(x)\ntook = monotonic_ns() - t"),
    "in a loop": ("", "for _ in range(2):\n    t = time.process_time()\n    f(x)"),
    "the timer of the standard library": ("import timeit\n", "took = timeit.timeit(lambda: f(x), number=2)\nf(x)"),
}  # fmt: skip
_TIMES = next(known for known in DIFFERENCES if known.name == "times of its own")


@pytest.mark.parametrize("how", _TIMED)
def test_the_times_that_a_cell_takes_itself_are_said_to_be_of_compiled_code(how: str, notebook: Any) -> None:
    """A cell that looks at a clock around what is explained is told what its times are of."""
    setup, cell = _TIMED[how]
    notebook.ok(f"import time, torch\nx = torch.ones(3)\ndef f(x):\n    return x * 2\n{setup}")

    assert _TIMES.words in notebook.explain(cell, "-q").notes


@pytest.mark.parametrize("cell", ["time.sleep(0)\ny = f(x)", "start = time\ny = f(x)", "y = f(x).sum()"])
def test_a_cell_that_takes_no_time_is_told_nothing(cell: str, notebook: Any) -> None:
    """Who only uses the module `time` gets no sentence about times."""
    notebook.ok("import time, torch\nx = torch.ones(3)\ndef f(x):\n    return x * 2\n")

    assert notebook.explain(cell, "-q").notes == ()


def test_a_target_that_is_timed_by_a_magic_is_told(notebook: Any) -> None:
    """%timeit and %time of a named target time compiled code."""
    notebook.ok("import torch\nx = torch.ones(3)\ndef f(x):\n    return x * 2\n")

    for cell in ("%timeit -n1 -r1 f(x)", "%time f(x)"):
        assert _TIMES.words in notebook.explain(cell, "-q f").notes


@pytest.mark.parametrize("known", DIFFERENCES, ids=lambda known: known.name)
def test_each_known_difference_can_be_found_and_missed(known: Any) -> None:
    """A pattern fits something and not everything, has an example here, and a sentence that fits into two lines."""
    assert known.name in {*EXAMPLES, "times of its own", "an assertion's frame"}
    assert known.ops or known.paths
    assert not known.is_in({"mul", "sin"}, {"torch.ones", "x.uniform_", "random.random", "time.sleep", "f"})
    assert re.fullmatch(r"[^.!].{40,240}[^.!]", known.words)


def test_what_has_its_own_place_in_the_report_is_no_remark() -> None:
    """Parts of torch's text about a failed guard, and of a break, aren't repeated as warnings."""
    logs = (
        "Error while creating guard:\nName: ''",
        "Created at:\n  File ..",
        "Dynamo does not know how to trace the builtin `x`",
    )

    assert list(remarks(logs)) == []
    assert list(differences((), (), (), None)) == []
