"""The proof that a bench has put everything back can fail: each restore that is switched off shows, by name."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from bench_cells import run
from bench_cells import started
from bench_cells import used_in

from compile_magic.measure import bench
from compile_magic.measure.proof import Proof
from compile_magic.measure.state import process
from compile_magic.measure.state.arrays import ArrayKept
from compile_magic.measure.state.containers import DictKept
from compile_magic.measure.state.containers import NamesKept
from compile_magic.measure.state.containers import SequenceKept
from compile_magic.measure.state.containers import SetKept
from compile_magic.measure.state.contents import Contents
from compile_magic.measure.state.fingerprint import Looker
from compile_magic.measure.state.kept import Kept
from compile_magic.measure.state.kept import StateKept
from compile_magic.measure.state.libraries import AttributesKept
from compile_magic.measure.state.libraries import CountKept
from compile_magic.measure.state.loggers import LoggersKept
from compile_magic.measure.state.memos import MemoKept
from compile_magic.measure.state.objects import CellKept
from compile_magic.measure.state.objects import ClassKept
from compile_magic.measure.state.objects import DefaultsKept
from compile_magic.measure.state.objects import SlotsKept
from compile_magic.measure.state.snapshot import Snapshot
from compile_magic.measure.state.tensors import SparseKept
from compile_magic.measure.state.tensors import TensorKept

# What is switched off, the cells, and how the words of the check then begin.
_COUNTER = (
    "def made():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n    return count\ncount = made()\n"
)
RESTORES: list[tuple[type[Kept], str, str, str]] = [
    (ArrayKept, "import numpy as np\na = np.ones(3)\n", "a += 1\n", "`a` has other values"),
    (DictKept, "d = {'n': 1}\n", "d['n'] += 1\n", "`d['n']` was 1 and is 2"),
    (DictKept, "d = {}\n", "d['n'] = 1\n", "`d['n']` was not there and is"),
    (DictKept, "class A:\n    pass\na = A()\na.n = 1\n", "a.n = 2\n", "`a.n` was 1 and is 2"),
    (NamesKept, "n = 1\n", "n = 2\n", "`n` was 1 and is 2"),
    (NamesKept, "n = [1]\n", "n = [1]\n", "`n` was one object and is another"),
    (NamesKept, "n = 1\n", "del n\n", "`n` was int and is not there"),
    (SequenceKept, "xs = [1]\n", "xs.append(2)\n", "`xs` was of 1 item and is of 2 items"),
    (SequenceKept, "from collections import deque\nq = deque([1, 2])\n", "q.rotate()\n", "`q[0]` was 1 and is 2"),
    (SequenceKept, "b = bytearray(b'ab')\n", "b[0] = 0\n", "`b` has other values"),
    (SequenceKept, "xs = [float(n) for n in range(2000)]\n", "xs[1500] += 1\n", "`xs` has other values"),
    (SetKept, "s = {1}\n", "s.add(2)\n", "`s` was set of 1 item and is set of 2 items"),
    (SlotsKept, "class A:\n    __slots__ = ('n',)\na = A()\na.n = 1\n", "a.n = 2\n", "`a.n` was 1 and is 2"),
    *(
        (
            SlotsKept,
            "e, c = ValueError('a'), KeyError('b')\n",
            f"try:\n    {raised}\nexcept ValueError:\n    pass\n",
            words,
        )
        for raised, words in {
            "raise e": "`e.__traceback__` was None and is",
            "raise e from c": "`e.__cause__` was None and is",
            "raise e from None": "`e.__suppress_context__` was False and is True",
            "try:\n        raise c\n    except KeyError:\n        raise e": "`e.__context__` was None and is",
            "e.args = ('z',)": "`e.args` was one object and is another",
        }.items()
    ),
    (ClassKept, "class A:\n    n = 1\n", "A.n += 1\n", "`A.n` was 1 and is 2"),
    (CellKept, _COUNTER, "count()\n", "`n` was 0 and is 1"),
    (DefaultsKept, "def f(n=1):\n    pass\n", "f.__defaults__ = (2,)\n", "`f.default 0` was 1 and is 2"),
    (StateKept, "g = torch.Generator()\n", "torch.rand(1, generator=g)\n", "`g` has other values"),
    (MemoKept, "import functools\n@functools.cache\ndef f(n):\n    return n\n", "f(1)\n", "`f` has other values"),
    (
        LoggersKept,
        "import logging\n",
        "logging.getLogger('cmproof').setLevel(40)\n",
        "`the logger cmproof` was not there",
    ),
    (TensorKept, "x = torch.ones(2)\n", "x.requires_grad_()\n", "`x` was Tensor"),
    (TensorKept, "x = torch.ones(2, requires_grad=True)\n", "x.sum().backward()\n", "`x.grad` was None and is"),
    (TensorKept, "x = torch.ones(2)\n", "x.data = torch.ones(2, 1)\n", "`x` was Tensor"),
    (
        SparseKept,
        "s = torch.eye(2).to_sparse()\n",
        "s.add_(torch.eye(2).flip(0).to_sparse())\n",
        "`s` has other values",
    ),
]
# The state of the process: what changes it, by the name of what puts it back.
PROCESS = {
    "random": "import random\nrandom.random()\n",
    "numpy.random": "import numpy as np\nnp.random.rand()\n",
    "torch's generator": "torch.rand(1)\n",
    "grad mode": "torch.set_grad_enabled(False)\n",
    "the default dtype": "torch.set_default_dtype(torch.float64)\n",
    "the default device": "torch.set_default_device('meta')\n",
    "autocast": "torch.set_autocast_enabled('cpu', True)\n",
    "autocast's cache": "torch.set_autocast_cache_enabled(not torch.is_autocast_cache_enabled())\n",
    "torch's threads": "torch.set_num_threads(torch.get_num_threads() + 1)\n",
    "deterministic algorithms": "torch.use_deterministic_algorithms(True, warn_only=True)\n",
    "matmul precision": "torch.set_float32_matmul_precision('medium')\n",
    "cudnn.benchmark": "torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark\n",
    "cudnn.deterministic": "torch.backends.cudnn.deterministic = not torch.backends.cudnn.deterministic\n",
    "cudnn.enabled": "torch.backends.cudnn.enabled = not torch.backends.cudnn.enabled\n",
    "the number of the next hook": "torch.nn.Linear(1, 1).register_forward_hook(print).remove()\n",
    "the working directory": "import os\nos.chdir(os.path.dirname(os.getcwd()) or '/')\n",
    "the environment": "import os\nos.environ['CM_PROOF'] = '1'\n",
    "sys.path": "import sys\nsys.path.append('/nowhere')\n",
    "the recursion limit": "import sys\nsys.setrecursionlimit(sys.getrecursionlimit() + 1)\n",
    "garbage collection": "import gc\n(gc.disable if gc.isenabled() else gc.enable)()\n",
    "warning filters": "import warnings\nwarnings.simplefilter('ignore', ResourceWarning)\n",
    "gc's thresholds": "import gc\ngc.set_threshold(701, 11, 12)\n",
    "gc's callbacks": "import gc\ngc.callbacks.append(print)\n",
    "warnings.showwarning": "import warnings\nwarnings.showwarning = print\n",
    "warnings.formatwarning": "import warnings\nwarnings.formatwarning = print\n",
    "sys.excepthook": "import sys\nsys.excepthook = print\n",
    "sys.unraisablehook": "import sys\nsys.unraisablehook = print\n",
    "threading.excepthook": "import threading\nthreading.excepthook = print\n",
    "the interval of thread switches": "import sys\nsys.setswitchinterval(0.006)\n",
    "the sockets' timeout": "import socket\nsocket.setdefaulttimeout(9.0)\n",
    "the locale": "from locale import LC_ALL, setlocale\n"
    "setlocale(LC_ALL, 'C.UTF-8' if setlocale(LC_ALL) == 'C' else 'C')\n",
    "the decimal context": "import decimal\ndecimal.getcontext().prec += 1\n",
    "signal handlers": "import signal\nsignal.signal(signal.SIGUSR1, print)\n",
    "modules of yours that are imported": "import sys, types\nm = types.ModuleType('cmproof')\n"
    "m.__file__ = '/home/me/cmproof.py'\nsys.modules['cmproof'] = m\n",
    "modes of torch that are open": "from torch.overrides import BaseTorchFunctionMode\n"
    "m = BaseTorchFunctionMode()\nm.__enter__()\n",
    "warnings already given": "__warningregistry__ = {('w', UserWarning, 1): True}\n"
    "import sys\nsys.modules['colorsys'].__warningregistry__ = {('w', UserWarning, 1): True}\n",
}
# A default device is a mode, and put back with it.
ALSO = {"the default device": "modes of torch that are open"}


class Ran:
    """A cell that was run under a snapshot, with a proof that has looked before."""

    def __init__(self, setup: str, cell: str) -> None:
        self.namespace = started(setup)
        used = used_in(cell)
        self.proof = Proof(Looker(self.namespace, frozenset(used)))
        self.snapshot = Snapshot(self.namespace, used)
        with self.snapshot.watching():
            run(self.namespace, cell)
        self.proof.ran()


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    # Our own run of what a switched-off restore leaves would be the next test's state.
    import colorsys  # noqa: F401 - a module that nobody has had a warning from

    kept = process.kept((*process.DRAWS, *process.SETTINGS))
    yield
    for one in kept:
        one.put_back()


@pytest.mark.parametrize(("kind", "setup", "cell", "words"), RESTORES, ids=lambda each: str(each)[:40])
def test_a_restore_that_is_switched_off_fails_the_check(
    kind: type[Kept], setup: str, cell: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one kind of restore leaves otherwise is said by name, and with it the check passes."""
    ran = Ran(setup, cell)
    with monkeypatch.context() as patched:
        patched.setattr(kind, "put_back", lambda _: None)
        patched.setattr(kind, "changed", lambda _: False)
        ran.snapshot.restore_all()
        ran.proof.restored()
        off = [*ran.proof.left]
    ran.proof.left.clear()
    ran.snapshot.restore_all()

    assert [one for one in off if one.startswith(words)]
    assert ran.proof.closed().passed, ran.proof.closed().words


def test_each_kind_of_restore_is_tried() -> None:
    """A kind of restore that is added has to show in the proof as well."""
    kinds, todo = set(), [Kept]
    while todo:
        kinds |= {*(found := todo.pop().__subclasses__())}
        todo += found

    ours = {kind for kind in kinds if kind.__module__.startswith("compile_magic")}
    # What libraries hold is known only once their code is entered. A counter is never put back, and always said.
    assert ours - {AttributesKept, CountKept} == {kind for kind, *_ in RESTORES}


def test_a_library_that_is_not_put_back_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a library, which is looked at from when its code is entered, is named where it stays changed."""
    ran = Ran("import calendar\nthen = calendar.firstweekday()\n", "calendar.setfirstweekday(3)\n")
    with monkeypatch.context() as patched:
        for kind in (AttributesKept, DictKept, SlotsKept):
            patched.setattr(kind, "put_back", lambda _: None)
        left_over = ran.snapshot.restore_all()
    ran.snapshot.restore_all()

    assert any("calendar" in line for line in left_over)
    assert not ran.proof.closed(left_over).passed


def test_memory_that_is_not_put_back_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor with other values is named."""
    ran = Ran("x = torch.ones(3)\n", "x.add_(1)\n")
    monkeypatch.setattr(Contents, "put_back_all", lambda _: iter(()))

    ran.snapshot.restore_all()

    assert ran.proof.closed().words == "`x` has other values"


@pytest.mark.parametrize("name", PROCESS)
def test_a_setting_that_is_not_put_back_fails_the_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each source of random numbers and each setting of the process that is left otherwise is named."""
    for group in ("DRAWS", "SETTINGS"):
        aspects = getattr(process, group)
        names = {name, ALSO.get(name)}
        off = tuple(replace(one, write=lambda _: None) if one.name in names else one for one in aspects)
        monkeypatch.setattr(process, group, off)
    ran = Ran("", PROCESS[name])

    ran.snapshot.restore_all()
    check = ran.proof.closed()

    assert not check.passed
    assert f"`{name}` has other values" in check.words


def test_each_setting_is_tried() -> None:
    """A setting that is added has to show in the proof as well; no device is needed for it."""
    names = {one.name for one in (*process.DRAWS, *process.SETTINGS)}

    assert names - {"the device's generators"} == set(PROCESS)


def test_the_check_says_how_much_was_compared() -> None:
    """A passed check tells of tensors, containers and generators, so that nobody takes nothing for all."""
    ran = Ran("x, xs = torch.ones(3), [1]\n", "xs.append(x.add_(1))\n")

    ran.snapshot.restore_all()

    words = ran.proof.closed().words
    assert words.startswith("state as before the bench (1 tensor, ")
    assert "containers" in words


# --- one run ---------------------------------------------------------------------------------------------------------

AFTER: dict[str, tuple[str, str, str, str]] = {
    "a longer list": ("xs = []\n", "xs.append(1)\n", "xs.append(1)\n", "`xs` was of 1 item and is of 2 items"),
    "a value": ("n = 0\n", "n += 1\n", "n = 5\n", "`n` was 1 and is 5"),
    "a tensor": ("x = torch.ones(2)\n", "x.mul_(2)\n", "x.mul_(2)\n", "`x` has other values"),
    "a shape": ("x = torch.ones(2)\n", "y = x * 2\n", "y = x[:1]\n", "`y` was Tensor"),
    "a key": ("d = {}\n", "d['a'] = 1\n", "d['b'] = 1\n", "`d['b']` was not there and is int"),
    "a kind": ("", "y = 1\n", "y = 1.0\n", "`y` was 1 and is 1.0"),
    "a name": ("", "y = 1\n", "z = 1\n", "`z` was not there and is int"),
    "an attribute": (
        "net = torch.nn.Linear(1, 1)\n",
        "net.eval()\n",
        "net.train()\n",
        "`net.training` was False and is",
    ),
    "a draw": ("", "y = 1\n", "torch.rand(1)\n", "`torch's generator` has other values"),
    "an alias": ("a = [1]\n", "b = a\n", "b = [1]\n", "`b` was "),
}


@pytest.mark.parametrize(("setup", "cell", "then", "words"), AFTER.values(), ids=AFTER)
def test_what_the_plain_run_leaves_otherwise_is_named(setup: str, cell: str, then: str, words: str) -> None:
    """The state after the plain run is compared with that after the first one, also where both objects are new."""
    ran = Ran(setup, cell)
    expected, before = ran.proof.expected, ran.proof.closed()
    assert expected is not None
    alike, no_alarm = expected.after(ran.proof.look, before, ended=True)

    run(ran.namespace, then)
    check, alarm = expected.after(ran.proof.look, before, ended=True)

    assert (no_alarm, alike.words.endswith("as one run leaves it")) == ("", True)
    assert alarm.startswith("this bench left `")
    assert words in alarm
    assert (check.passed, check.words) == (False, alarm)


def test_a_value_that_is_another_one_in_each_run_is_left_out_and_counted() -> None:
    """The time of day differs from run to run; how many values there are in a list does not, and is compared."""
    ran = Ran("import time\nxs = []\n", "xs.append(time.perf_counter())\n")
    ran.snapshot.restore()
    run(ran.namespace, "xs.append(time.perf_counter())\n")
    ran.proof.ran()
    ran.snapshot.restore()
    before, expected = ran.proof.closed(), ran.proof.expected
    assert expected is not None
    run(ran.namespace, "xs.append(time.perf_counter())\n")

    check, alarm = expected.after(ran.proof.look, before, ended=True)
    run(ran.namespace, "xs.append(time.perf_counter())\n")
    _, longer = expected.after(ran.proof.look, before, ended=True)

    assert (alarm, check.passed) == ("", True)
    assert "1 value that differs from run to run apart" in check.words
    assert "`xs` was of 1 item and is of 2 items" in longer


def test_a_cell_that_has_not_run_to_its_end_is_not_compared() -> None:
    """Half of a run is not one run: the check says so and holds for what is before it."""
    ran = Ran("n = 0\n", "n += 1\n")
    ran.snapshot.restore_all()
    before, expected = ran.proof.closed(), ran.proof.expected
    assert expected is not None

    check, alarm = expected.after(ran.proof.look, before, ended=False)

    assert (alarm, check.passed) == ("", True)
    assert check.words.endswith("not compared with one run, as the cell has not run to its end")


@pytest.fixture
def notebook() -> Iterator[Any]:
    from notebook import Notebook

    made = Notebook()
    yield made
    made.close()


LINE = "%%compile_bench --budget 0.01 --backends eager\n"
# A buffer of C's, whose contents nobody can see.
_HIDDEN = (
    "import ctypes, torch\nbuffer = (ctypes.c_int * 1)()\nxs = []\ndef f(x):\n    return x + 1\nx = torch.ones(3)\n"
)


def _state(notebook: Any) -> Any:
    return next(check for check in notebook.get("_compile_report").checks if check.name == "state")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("y = cf(x)", "after it as one run leaves it"),
        ("loss = cf(w).sum()\nloss.backward()", "after it as one run leaves it"),
        ("y = outer(x)", "not compared with one run, as it runs code that you have compiled"),
    ],
    ids=["called", "with a graph", "called inside"],
)
def test_what_compiled_code_leaves_is_compared_with_a_run_of_that_code(notebook: Any, cell: str, words: str) -> None:
    """Other rounding and another graph than in eager are no alarm where the cell runs what the user has compiled."""
    notebook.ok(
        "import torch\nx, w = torch.rand(64), torch.rand(64, requires_grad=True)\n"
        "def f(t):\n    return torch.nn.functional.gelu(t).softmax(0)\ncf = torch.compile(f)\n"
        "def outer(t):\n    return cf(t) + 1\n"
    )

    ran = notebook.ok(f"{LINE}{cell}")

    assert "✗" not in ran.stderr
    assert words in _state(notebook).words


def test_a_fingerprint_runs_nothing_of_the_users_and_keeps_nothing() -> None:
    """Hostile objects are looked at without their code, and none lives longer for having been looked at."""
    namespace = started(
        "import weakref\nclass Bad:\n    def _no(self, *_):\n        raise ValueError\n    __getattr__ = __eq__ = "
        "__hash__ = __repr__ = __len__ = __bool__ = __iter__ = _no\n"
        "bad, d = Bad(), {}\nd['k'] = [bad, float('nan'), slice(bad, 1)]\nseen = weakref.ref(bad)\n"
    )
    look = Looker(namespace, frozenset({"bad", "d"}))
    first = look()

    assert first.changes(look(), same_objects=True) == []
    del namespace["bad"]
    namespace["d"].clear()
    assert namespace["seen"]() is None


def test_state_that_nobody_can_see_stops_the_bench_and_is_named_below_the_cell(notebook: Any) -> None:
    """Two runs from one state that differ in a size show that not all was put back: there is no third."""
    notebook.ok(_HIDDEN)

    ran = notebook.ok(f"{LINE}buffer[0] += 1\nxs = [0] * buffer[0]\ny = f(x)")

    why = notebook.get("_compile_report").notes[0]
    assert "two runs from the same state leave it otherwise: `xs` was of 1 item and is of 2 items" in why
    assert "✗ this bench left `xs` otherwise than one run: `xs` was of 1 item and is of 3 items" in ran.stderr


def test_a_restore_that_fails_stops_the_bench_before_a_second_run(
    notebook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not as before after the first run is named, and the cell is not repeated."""
    notebook.ok(_HIDDEN)
    monkeypatch.setattr(SequenceKept, "put_back", lambda _: None)
    monkeypatch.setattr(SequenceKept, "changed", lambda _: False)

    ran = notebook.ok(f"{LINE}xs.append(1)\ny = f(x)")

    assert notebook.get("xs") == [1, 1]
    assert "what a run changes could not be put back: `xs` was of 0 items" in notebook.get("_compile_report").notes[0]
    assert "✗ this bench left `xs` otherwise than one run: `xs` was of 1 item and is of 2 items" in ran.stderr


def test_a_bench_that_leaves_one_run_shows_no_alarm(notebook: Any) -> None:
    """The bound report says what was compared, before and after the plain run, and nothing stands below the cell."""
    notebook.ok(_HIDDEN + "random_before = None\n")

    ran = notebook.ok(f"{LINE}xs.append(torch.rand(1))\ny = f(x)")

    assert "✗" not in ran.stderr
    assert (_state(notebook).passed, len(notebook.get("xs"))) == (True, 1)
    assert "after it as one run leaves it" in _state(notebook).words


def test_a_bench_in_python_leaves_all_as_before_the_first_call() -> None:
    """There the state before is the proof, and the check says so."""
    import compile_magic

    xs: list[int] = []
    report = compile_magic.Bencher(backends=("eager",), budget_s=0.01)(
        lambda x: (xs.append(1), x + 1)[1], torch.ones(2)
    )

    state = next(check for check in report.checks if check.name == "state")
    assert (xs, state.passed) == ([], True)
    assert "state as before the bench" in state.words


ENDINGS = {
    "to its end": ("y = f(x)", None),
    "with an error": ("y = f(x)\nraise ValueError", None),
    "refused": ("from pathlib import Path\ny = f(x)\nPath('/nowhere/at/all').write_text('x')", None),
    "interrupted": ("y = f(x)", KeyboardInterrupt),
    "with a fault of ours": ("y = f(x)", ZeroDivisionError),
}


@pytest.mark.parametrize(("cell", "fault"), ENDINGS.values(), ids=ENDINGS)
def test_nothing_is_kept_however_a_bench_ends(
    cell: str, fault: type[BaseException] | None, notebook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of the state and results are freed at the end, without waiting for the garbage collector."""
    notebook.ok(_HIDDEN + "x = torch.ones(12345)\ny = x + 1\n")
    kept: list[weakref.ref[Contents]] = []
    made = Contents.__init__

    def noted(self: Contents, *args: Any) -> None:
        kept.append(weakref.ref(self))
        made(self, *args)

    def stop(_: Any) -> None:
        raise fault

    monkeypatch.setattr(Contents, "__init__", noted)
    if fault is not None:
        bench.STEPS.insert(4, stop)
    before = _alive()
    gc.disable()
    try:
        notebook.run(f"{LINE}{cell}")
        assert kept
        assert [each() for each in kept] == [None] * len(kept)
        assert _alive() == before
    finally:
        gc.enable()
        if fault is not None:
            bench.STEPS.remove(stop)


def _alive() -> int:
    """Return how many tensors there are of the size that the cell has."""
    return sum(1 for each in gc.get_objects() if type(each) is torch.Tensor and each.numel() == 12345)
