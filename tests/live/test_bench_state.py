"""A cell that was run again and again leaves everything as before the first run, bit for bit."""

from __future__ import annotations

import collections
import os
import random
import signal
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from bench_cells import CELLS
from bench_cells import run
from bench_cells import started
from bench_cells import used_in

from compile_magic.measure.state import contents
from compile_magic.measure.state.snapshot import Snapshot
from compile_magic.measure.uninterrupted import remembered
from compile_magic.measure.uninterrupted import uninterrupted

# Memory that the run has resized lies elsewhere afterwards.
MOVED = {"resize_", "resize_ to less"}
# Writes past torch, which only a copy of everything finds.
UNSEEN = {"storage"}
# A second run without the state put back raises in a notebook, too.
ONCE = {"names deleted and bound", "joins a graph", "dict subclass", "add_param_group"}
REPEATS = 5


def snapshot_of(namespace, cell):
    return Snapshot(namespace, used_in(cell))


class Description:
    """All that a namespace leads to, spelled out as plain values; written apart from what is tested here."""

    def __init__(self, *, addresses):
        self._addresses = addresses
        self._seen: list[Any] = []

    def of(self, value):
        """Spell out one value."""
        if value is None or isinstance(value, (int, float, str, bytes)):
            return repr(value)
        number = next((n for n, other in enumerate(self._seen) if other is value), None)
        if number is not None:
            return f"<{number}>"
        self._seen.append(value)
        return self._new(value)

    def _new(self, value):  # noqa: PLR0911 - one for each kind
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            return type(value).__name__, [(self.of(k), self.of(v)) for k, v in value.items()]
        if isinstance(value, (list, tuple, collections.deque)):
            return type(value).__name__, [self.of(item) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted(map(repr, value))
        if isinstance(value, (bytearray, torch.Generator, random.Random)):
            return repr(value) if isinstance(value, bytearray) else self._source(value)
        if isinstance(value, (types.ModuleType, types.FunctionType)) and getattr(value, "__module__", "") != "__main__":
            return value.__name__
        return self._object(value)

    def _source(self, value):
        return value.get_state().tolist() if isinstance(value, torch.Generator) else value.getstate()

    def _tensor(self, tensor):
        plain = tensor.detach()
        parts = [plain]
        if tensor.layout == torch.sparse_coo:
            parts = [plain._indices(), plain._values()]
        elif tensor.layout == torch.sparse_csr:
            parts = [plain.crow_indices(), plain.col_indices(), plain.values()]
        looks = [(p.shape, p.stride(), p.storage_offset(), self._bytes(p)) for p in parts]
        place = [p.data_ptr() for p in parts] if self._addresses and tensor.layout == torch.strided else None
        grad = tensor.grad if tensor.is_leaf else None
        own = sorted(vars(tensor))
        return str(tensor.dtype), looks, place, tensor.requires_grad, tensor.is_leaf, own, self.of(grad)

    def _bytes(self, tensor):
        whole = tensor.resolve_conj().contiguous().clone().untyped_storage().tolist()
        return whole[: tensor.numel() * tensor.element_size()]

    def _object(self, value):
        if isinstance(value, types.FunctionType) and value.__module__ == "__main__":
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return value.__qualname__, self.of(cells), self.of(value.__defaults__), self.of(vars(value))
        if isinstance(value, type):
            own = vars(value).items() if value.__module__ == "__main__" else ()
            return value.__qualname__, sorted((k, repr(v)) for k, v in own if isinstance(v, int))
        slots = [(name, self.of(getattr(value, name, "<none>"))) for name in getattr(type(value), "__slots__", ())]
        return type(value).__qualname__, slots, self.of(getattr(value, "__dict__", None))


def described(namespace, *, addresses=True):
    """The state of a notebook and of the process, as plain values."""
    # In order of name: a name that a run has deleted and that was put back comes last.
    names = {name: namespace[name] for name in sorted(namespace) if name not in ("__builtins__", "__warningregistry__")}
    draws = torch.get_rng_state().tolist(), random.getstate(), torch.is_grad_enabled()
    return Description(addresses=addresses).of(names), draws


@pytest.fixture(autouse=True)
def _grad_mode():
    yield
    torch.set_grad_enabled(True)


@pytest.fixture
def policy(request, monkeypatch):
    """Whether memory is copied at the start or when it is first written."""
    if request.param == "copied on write":
        monkeypatch.setattr(contents, "limit", lambda _: -1)
    return request.param


def _played(cells):
    """Parametrise by each cell in both policies; a write that torch can't see has a test of its own for the second."""
    kinds = [
        pytest.param(*cell, policy, id=f"{policy}-{cell[0]}")
        for policy in ("all copied", "copied on write")
        for cell in cells
        if policy == "all copied" or cell[0] not in UNSEEN
    ]
    return pytest.mark.parametrize(("name", "setup", "cell", "policy"), kinds, indirect=["policy"])


@_played(CELLS)
def test_six_runs_leave_nothing(name, setup, cell, policy):
    """After a watched run and five more, each put back, all is as before, and a plain run gives what it gives alone."""
    namespace = started(setup)
    before = described(namespace, addresses=name not in MOVED)
    snapshot = snapshot_of(namespace, cell)

    with snapshot.watching():
        run(namespace, cell)
    for _ in range(REPEATS):
        snapshot.restore()
        run(namespace, cell)
    left = snapshot.restore_all()
    after = described(namespace, addresses=name not in MOVED)
    run(namespace, cell)
    once = described(namespace, addresses=False)
    torch.set_grad_enabled(True)
    twin = started(setup)
    run(twin, cell)

    assert left == ()
    assert after == before
    assert once == described(twin, addresses=False)


# A second run in a row of some raises, as it does in a notebook.
@_played([cell for cell in CELLS if cell[0] not in ONCE])
def test_runs_in_a_row(name, setup, cell, policy):
    """Runs that follow each other without being put back are put back together, already by the quick `restore`."""
    namespace = started(setup)
    before = described(namespace, addresses=name not in MOVED)
    snapshot = snapshot_of(namespace, cell)

    with snapshot.watching():
        run(namespace, cell)
    snapshot.restore()
    for _ in range(3):
        run(namespace, cell)
    snapshot.restore()
    quick = described(namespace, addresses=name not in MOVED)
    for _ in range(3):
        run(namespace, cell)
    snapshot.restore_all()

    assert quick == before
    assert described(namespace, addresses=name not in MOVED) == before


@pytest.mark.parametrize("name", ["pure", "in place", "AdamW, foreach=True, cold, True", "torch RNG", "list appended"])
def test_descriptions_tell_runs_apart(name):
    """The comparison of these tests sees what a run changes, so that it can fail."""
    _, setup, cell = next(row for row in CELLS if row[0] == name)
    namespace = started(setup)
    before = described(namespace)
    run(namespace, cell)

    assert described(namespace) != before


def test_a_late_write_is_put_back():
    """A write that only the last of many runs makes is put back in the end, with memory, containers and names."""
    namespace = started("n, big, log = [0], torch.zeros(4), []")
    before = described({**namespace, "n": None})
    cell = "n[0] += 1\nif n[0] > 8:\n    big.add_(1)\n    log.append(1)\n    late = 1"
    snapshot = snapshot_of(namespace, cell)
    with snapshot.watching():
        run(namespace, cell)
    for _ in range(10):
        run(namespace, cell)

    assert snapshot.restore_all() == ()
    assert namespace["n"] == [0]
    assert described({**namespace, "n": None}) == before


def test_a_write_that_no_run_showed_is_said(monkeypatch):
    """Where memory is copied when it is written, a write outside of a watched run is found and said by name."""
    monkeypatch.setattr(contents, "limit", lambda _: -1)
    namespace = started("x, y = torch.zeros(4), torch.zeros(4)")
    snapshot = snapshot_of(namespace, "x, y")
    with snapshot.watching():
        run(namespace, "y.add_(1)")
    run(namespace, "x.untyped_storage().fill_(1)")

    assert snapshot.restore_all() == ("`x` was written by a run that was not watched, and its old values are gone",)
    assert namespace["y"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("change", ["x[0] = 1.5", "x[4097] += 1e-7", "x[:2] = x[:2].flip(0)", "x[-1] = -x[-1]"])
def test_checksums_see_any_change(change):
    """A checksum differs when a value, its sign, or only the order of values is another one."""
    namespace = {"x": torch.linspace(1, 2, 9001)}
    bytes_of = lambda: namespace["x"].view(torch.uint8)  # noqa: E731 - it is read twice
    before = contents.checksum(bytes_of())
    run(namespace, change)

    assert contents.checksum(bytes_of()) != before


def test_versions_are_left_alone():
    """Putting contents back counts as no write, or a graph that has saved the tensor could not be run backward."""
    namespace = started("w = torch.randn(3, requires_grad=True)\nx = torch.randn(3)\nloss = (w * x).sum()")
    snapshot = snapshot_of(namespace, "x")
    with snapshot.watching():
        run(namespace, "x.data.add_(1)")
    snapshot.restore()
    snapshot.restore_all()
    namespace["loss"].backward()

    assert torch.equal(namespace["w"].grad, namespace["x"])


def test_written_names_what_changed():
    """What runs have changed is given by readable paths, with gradients, and what they have not is left out."""
    namespace = started(
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2))\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "x = torch.ones(1, 2)\nstate = {'seen': torch.zeros(1), 'other': torch.zeros(1)}"
    )
    cell = "net(x).sum().backward()\nopt.step()\nstate['seen'] = torch.ones(1)"
    snapshot = snapshot_of(namespace, cell)
    with snapshot.watching():
        run(namespace, cell)
    found = snapshot.written()

    assert set(found) == {
        "net.0.weight", "net.0.bias", "net.0.weight.grad", "net.0.bias.grad", "state['seen']",
    }  # fmt: skip
    assert found["net.0.weight"] is namespace["net"][0].weight


@pytest.mark.parametrize(
    ("setup", "cell", "pure"),
    [
        ("x = torch.ones(2)", "y = x + 1", True),
        ("x = torch.ones(2)", "x += 1", False),
        ("log = []", "log.append(1)", False),
        ("x = 1", "x = torch.rand(1)", False),
        ("def f(x):\n    return x.sin()\nx = torch.ones(2)", "y = f(x)\nz = y * 2", True),
    ],
)
def test_pure(setup, cell, pure):
    """A run is pure when it does nothing but bind names."""
    namespace = started(setup)
    snapshot = snapshot_of(namespace, cell)
    with snapshot.watching():
        run(namespace, cell)

    assert snapshot.pure is pure


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout):
    """Nested tensors, which have a shape for each part, are put back."""
    namespace = started("")
    namespace["n"] = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    snapshot = snapshot_of(namespace, "n")
    with snapshot.watching():
        run(namespace, "n.mul_(2)")
    changed = [part.tolist() for part in namespace["n"].unbind()]

    assert changed == [[2, 2], [2, 2, 2]]
    assert snapshot.restore_all() == ()
    assert [part.tolist() for part in namespace["n"].unbind()] == [[1, 1], [1, 1, 1]]


def test_lazy_modules_are_said():
    """A lazy module that a run has given its shape can't be put back, and that is said."""
    namespace = started("net = torch.nn.LazyLinear(2)")
    snapshot = snapshot_of(namespace, "net")
    with snapshot.watching():
        run(namespace, "net(torch.ones(1, 3))")

    assert any(line.startswith("`net.weight` could not be put back") for line in snapshot.restore_all())


def test_after_an_error():
    """A run that raises half-way is put back like any other, and leaves no mode and no guard on."""
    namespace = started("x, log = torch.zeros(2), []")
    snapshot = snapshot_of(namespace, "x, log")
    before = described(namespace)
    with pytest.raises(ZeroDivisionError), snapshot.watching():
        run(namespace, "x.add_(1)\nlog.append(1)\n1 / 0")
    left = snapshot.restore_all()

    assert left == ()
    assert described(namespace) == before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_compiled_code_is_not_compiled_anew():
    """Putting the state back does not make compiled code compile again."""
    setup = (
        "net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))\n"
        "opt = torch.optim.SGD(net.parameters(), 0.1)\nx, graphs = torch.randn(8, 4), []\n"
        "def counting(graph, inputs):\n    graphs.append(graph)\n    return graph\n"
        "step = torch.compile(lambda x: net(x).sum(), backend=counting)"
    )
    cell = "opt.zero_grad()\nloss = step(x)\nloss.backward()\nopt.step()"
    torch.compiler.reset()
    namespace = started(setup)
    graphs = namespace["graphs"]
    snapshot = snapshot_of({name: value for name, value in namespace.items() if name != "graphs"}, cell)
    for _ in range(2):
        run(namespace, cell)
    compiled = list(graphs)
    for _ in range(4):
        snapshot.restore()
        run(namespace, cell)
        run(namespace, cell)
    torch.compiler.reset()

    assert len(compiled) == 1
    assert graphs == compiled


def test_process_state():
    """What a run changes in the process is put back in the end, and variables of the compilers are left alone."""

    def setting():
        return (
            torch.get_default_dtype(), torch.get_num_threads(), torch.is_autocast_enabled("cpu"), Path.cwd(),
            os.environ.get("BENCH_TEST"), sys.path[0], list(warnings.filters), torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(), torch.get_default_device(),
        )  # fmt: skip

    before = setting()
    snapshot = Snapshot({}, ())
    with snapshot.watching():
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(before[1] + 1)
        torch.set_autocast_enabled("cpu", True)
        os.chdir("/")
        os.environ.update(BENCH_TEST="1", TORCHINDUCTOR_BENCH_TEST="1")
        sys.path.insert(0, "/nowhere")
        warnings.filterwarnings("error", "never")
        torch.set_float32_matmul_precision("high")
        torch.use_deterministic_algorithms(True)
        torch.set_default_device("meta")
    changed = setting()
    left = snapshot.restore_all()

    assert left == ()
    assert all(a != b for a, b in zip(before, changed, strict=True))
    assert setting() == before
    assert os.environ.pop("TORCHINDUCTOR_BENCH_TEST") == "1"


def test_warnings_come_again():
    """A warning that only the measured runs have given is given by the plain run after them, as in a notebook."""
    setup = "import warnings\ndef f():\n    warnings.warn('only once')\ndef g():\n    warnings.warn('before')"
    namespace = started(setup)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("default")
        run(namespace, "g()")
        snapshot = snapshot_of(namespace, "f()\ng()")
        with snapshot.watching():
            run(namespace, "f()\ng()")
        left = snapshot.restore_all()
        given.clear()
        run(namespace, "f()\ng()")

    assert left == ()
    assert [str(one.message) for one in given] == ["only once"]


def test_dynamos_names_stay():
    """Names that Dynamo puts into the namespace are kept, or what it has compiled would raise a NameError."""
    namespace = started(
        "@torch.compile(backend='eager')\ndef f(x):\n    print(end='')\n    return x + 1\nx = torch.ones(2)"
    )
    snapshot = snapshot_of(namespace, "y = f(x)")
    for _ in range(3):
        run(namespace, "y = f(x)")
        snapshot.restore()
    snapshot.restore_all()
    run(namespace, "y = f(x)")

    assert namespace["y"].tolist() == [2, 2]


def test_no_code_of_the_users_runs():
    """Looking at objects runs no property, `__getattr__`, `__eq__`, `__repr__` or `__hash__` of the user's."""
    setup = (
        "ran = []\nclass Shy:\n    def __init__(self):\n        self.inner = {}\n"
        + "".join(
            f"    def {name}(self, *a):\n        ran.append('{name}')\n        return 0\n"
            for name in ("__getattr__", "__repr__", "__len__", "__iter__", "__bool__")
        )
        + "    @property\n    def p(self):\n        ran.append('p')\n"
        "    def __eq__(self, other):\n        ran.append('__eq__')\n        return True\n"
        "    def __hash__(self):\n        return 1\nshy = Shy()\nbox = {'s': shy}"
    )
    namespace = started(setup)
    snapshot = snapshot_of(namespace, "shy, box, ran")
    run(namespace, "box['s'] = Shy()\nobject.__setattr__(shy, 'inner', 1)")
    snapshot.restore_all()
    ran = list(namespace["ran"])

    assert ran == []
    assert vars(namespace["shy"]) == {"inner": {}}
    assert namespace["box"]["s"] is namespace["shy"]


def test_a_module_of_the_users(tmp_path, monkeypatch):
    """What a function of the user's own module does to that module's globals is put back."""
    (tmp_path / "my_steps.py").write_text(
        "count = 0\nlog = []\ndef step():\n    global count\n    count += 1\n    log.append(count)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace = started("import my_steps\nfrom my_steps import step")
    for cell in ("step()", "my_steps.step()", "my_steps.count += 1"):
        snapshot = snapshot_of(namespace, cell)
        with snapshot.watching():
            run(namespace, cell)
        snapshot.restore_all()

        assert (namespace["my_steps"].count, namespace["my_steps"].log) == (0, [])
    sys.modules.pop("my_steps")


def test_too_much_is_said(monkeypatch):
    """Where the cell reaches more objects than are looked at, the end says so."""
    monkeypatch.setattr("compile_magic.measure.state.walk.MOST_OBJECTS", 10)
    namespace = started("many = [[n] for n in range(100)]")
    snapshot = snapshot_of(namespace, "many")

    assert not snapshot.complete
    assert "objects" in snapshot.restore_all()[0]


def test_numpy():
    """Arrays, numpy's generators, and tensors that share an array's memory are put back."""
    pytest.importorskip("numpy")
    setup = (
        "import numpy as np\nnp.random.seed(2)\na = np.zeros(3)\nt = torch.zeros(3)\nview = t.numpy()\n"
        "g, r = np.random.default_rng(3), np.random.RandomState(4)"
    )
    cell = "a += 1\nview += 1\ndraws = np.random.rand(), g.random(), r.rand()"
    namespace = started(setup)
    snapshot = snapshot_of(namespace, cell)
    with snapshot.watching():
        run(namespace, cell)
    first = namespace["draws"]
    for _ in range(3):
        snapshot.restore()
        run(namespace, cell)

    assert namespace["draws"] == first
    assert snapshot.restore_all() == ()
    assert namespace["a"].tolist() == namespace["t"].tolist() == [0, 0, 0]


def test_memory_nobody_names():
    """Memory that no name leads to, here that in a method of a C object, is copied when a watched run writes it."""
    namespace = started("hidden = torch.zeros(3)\nadd = hidden.add_")
    hidden = namespace.pop("hidden")
    namespace["adders"] = torch._C._ImperativeEngine  # a C type: nothing is looked up in it
    namespace["get"] = types.MappingProxyType({})
    snapshot = snapshot_of(namespace, "get")
    with snapshot.watching():
        run(namespace, "add(1)")

    assert hidden.tolist() == [1, 1, 1]
    assert snapshot.restore_all() == ()
    assert hidden.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "cell",
    [
        "x += 1",
        "signal.signal(signal.SIGINT, print)",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))",
        "signal.signal(signal.SIGTERM, print)",
    ],
)
def test_a_restore_leaves_a_bench_its_own_handler_of_interrupts(cell):
    """However a run sets handlers, a press of stop is heard after each restore, and the user's are back at the end."""

    def users(*_):
        """Take an interrupt in the user's way."""

    before = {number: signal.signal(number, users) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        namespace = started("import signal\nx = torch.ones(3)")
        snapshot = snapshot_of(namespace, cell)
        with remembered() as presses:
            with snapshot.watching():
                run(namespace, cell)
            for _ in range(3):
                snapshot.restore()
                with pytest.raises(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                run(namespace, cell)
            with uninterrupted():
                left = snapshot.restore_all()
                signal.raise_signal(signal.SIGINT)
        after = [signal.getsignal(number) for number in before]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert (left, presses.count, after) == ((), 3, [users, users])
