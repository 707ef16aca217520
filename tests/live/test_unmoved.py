"""What we import and compile moves nothing of the user's: generators, warnings, environment, loggers, signals."""

from __future__ import annotations

import contextlib
import json
import locale
import logging
import os
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fingerprint import fingerprint
from fingerprint import moved

from compile_magic import _torch
from compile_magic.unmoved import PARTS
from compile_magic.unmoved import unmoved

TESTS = Path(__file__).parents[1]


def _in_fresh_process(program: str, *arguments: str) -> Any:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TORCHINDUCTOR")}
    out = subprocess.check_output(
        [sys.executable, "-c", program, *arguments], text=True, env={**kept, "PYTHONPATH": path}
    )
    return json.loads(out.rsplit("\x1e", 1)[1])


_EACH_PART = """
import importlib, json, sys
from pathlib import Path
import IPython.core.interactiveshell, numpy, torch
import compile_magic
from fingerprint import fingerprint, moved

def each_part():
    yield "what can be read without torch", lambda: importlib.import_module("compile_magic.read.parse")
    package = Path(compile_magic.__file__).parent
    for file in sorted(package.rglob("*.py")):
        name = ".".join(["compile_magic", *file.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")
        yield name, lambda: importlib.import_module(name)
    from compile_magic import _torch, render
    from compile_magic.model import ExplainReport
    report = ExplainReport("calls", (), "eager")
    yield "the compiler", _torch.preload
    yield "Inductor", lambda: _torch.preload(inductor=True)
    for backend in _torch.backend_names():
        if backend in ("eager", "aot_eager", "inductor", "cudagraphs"):
            yield backend, lambda: _torch.backend_function(backend)
    for mode in ("default", "reduce-overhead", "max-autotune"):
        yield mode, lambda: _torch.mode_options(mode)
    yield "text", lambda: render.text(report, color=True)
    yield "HTML", lambda: (render.mimebundle(report), render.page(report))
    yield "formulas", lambda: _torch.flop_formula(torch.ops.aten.mm.default)

found = {}
for name, load in each_part():
    before = fingerprint()
    load()
    difference = moved(before, fingerprint())
    if difference:
        found[name] = repr(difference)
print("\\x1e" + json.dumps([found, "rich" in sys.modules, "torch._inductor.compile_fx" in sys.modules]))
"""


def test_no_part_of_the_package_moves_anything_when_it_is_imported() -> None:
    """In a fresh process, each module, rich, the compiler and Inductor are imported, and everything is as before."""
    found, *imported = _in_fresh_process(_EACH_PART)

    assert imported == [True, True]
    assert found == {}


_FIRST_USE = """
import json, sys
from fingerprint import fingerprint, moved
from notebook import Notebook
book = Notebook()
book.ok("import random, torch\\nimport numpy as np\\nlin = torch.nn.Linear(2, 2)\\nx = torch.ones(2)")
book.ok("random.seed(5)\\nnp.random.seed(5)\\ntorch.manual_seed(5)")
before = fingerprint()
book.ok(sys.argv[1] + "\\ny = lin(x)")
difference = {name: repr(states) for name, states in moved(before, fingerprint()).items()}
book.ok("after = random.random(), np.random.rand(), torch.rand(1).item()")
print("\\x1e" + json.dumps([difference, book.get("after")]))
"""


@pytest.mark.parametrize(
    "magic",
    [
        "%%compile_explain --backend aot_eager",
        "%%compile_bench --budget 0.05 --backends eager",
        "%compile_watch",
    ],
)
def test_the_first_use_of_a_magic_moves_nothing(magic: str) -> None:
    """The first magic of a process leaves it as a plain cell does; seeded generators go on with their next draw."""
    difference, after = _in_fresh_process(_FIRST_USE, magic)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the generator that people seed
    torch.manual_seed(5)

    assert difference == {}
    assert after == [random.random(), np.random.rand(), torch.rand(1).item()]  # noqa: NPY002, S311 - as they draw


@pytest.fixture
def as_before() -> Iterator[None]:
    """Put back what a test moves on purpose."""
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        for part in PARTS:
            stack.callback(part.put_back, part.read())
        yield


MOVES: dict[str, Callable[[], Any]] = {
    "random": random.random,
    "numpy": np.random.rand,
    "torch": lambda: torch.rand(1),
    "variables": lambda: os.environ.update(COMPILE_MAGIC_TEST="1"),
    "variable PATH": lambda: os.environ.pop("PATH"),
    "sys.path": lambda: sys.path.append("/nowhere"),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
    "signals": lambda: signal.signal(signal.SIGTERM, lambda *_: None),
    "hooks": lambda: setattr(sys, "excepthook", lambda *_: None),
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C" if locale.setlocale(locale.LC_ALL) != "C" else "C.UTF-8"),
    "logger ": lambda: logging.root.setLevel(3),
    "logging.disable": lambda: logging.disable(logging.INFO),
    "filters": lambda: warnings.simplefilter("error"),
    "version of the filters": warnings.resetwarnings,
    "showwarning": lambda: setattr(warnings, "showwarning", print),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_an_import_moves_is_put_back(name: str, as_before: None) -> None:
    """Each thing that an import could move is noticed by the fingerprint and put back by `unmoved`."""
    before = fingerprint()
    with unmoved():
        MOVES[name]()
    inside = fingerprint()
    MOVES[name]()

    assert moved(before, inside) == {}
    assert name in moved(before, fingerprint())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_is_needed(part: Any, as_before: None, monkeypatch: Any) -> None:
    """Without a part of `unmoved`, at least one move isn't put back."""
    monkeypatch.setattr("compile_magic.unmoved.PARTS", tuple(other for other in PARTS if other is not part))
    before = fingerprint()
    with unmoved():
        for name, move in MOVES.items():
            if "filters" not in name:
                move()

    assert moved(before, fingerprint())


def test_all_is_put_back_after_an_error(as_before: None) -> None:
    """An import that fails has moved nothing either."""
    before = fingerprint()
    with contextlib.suppress(ImportError), unmoved():
        random.seed(1)
        raise ImportError

    assert moved(before, fingerprint()) == {}


def test_a_module_of_torchs_that_draws_on_import_moves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """What `_torch` imports by name can draw, warn and set a filter: nothing of it reaches the user."""
    text = "import random, warnings\nrandom.random()\nwarnings.simplefilter('ignore')\nwarnings.warn('on import')\n"
    (tmp_path / "draws_on_import.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = fingerprint()
    with warnings.catch_warnings(record=True) as heard:
        _torch.find("draws_on_import", "random")
    after = fingerprint()

    assert heard == []
    assert after["random"] == before["random"]
    assert after["filters"] == before["filters"]


def test_a_warning_that_is_shown_once_is_not_shown_again() -> None:
    """A warning that Python has shown already is not shown anew because we import or compile something."""
    registry: dict[Any, Any] = {}

    def warn() -> None:
        warnings.warn_explicit("once", UserWarning, "here.py", 3, registry=registry)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        warn()
        with unmoved():
            warnings.simplefilter("always")
        with unmoved(quiet=False), warnings.catch_warnings():
            pass
        warn()

    assert [str(each.message) for each in heard] == ["once"]
