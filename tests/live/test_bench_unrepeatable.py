"""What can't be run twice is found before it runs, or refused before it happens, and nothing else is."""

from __future__ import annotations

import ast
import builtins
import io
import logging
import os
import pathlib
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from bench_cells import run
from bench_cells import started
from bench_cells import used_in

from compile_magic.measure.state.effects import EFFECTS
from compile_magic.measure.state.snapshot import Snapshot
from compile_magic.measure.state.unrepeatable import UnrepeatableError
from compile_magic.measure.state.unrepeatable import find_unrepeatable
from compile_magic.measure.state.unrepeatable import guarded


def found(setup, cell):
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    body = compile(cell, "<cell>", "exec", flags).body
    names = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return find_unrepeatable(body, started(setup), names)


@pytest.mark.parametrize(
    ("setup", "cell", "words"),
    [
        (
            "batches = iter([(1, 2)])",
            "x, y = next(batches)",
            "`batches` is an iterator: a second run would take the next items. Put `x, y = next(batches)`",
        ),
        ("batches = (n for n in range(3))", "for b in batches:\n    pass", "`batches` is an iterator"),
        ("it = enumerate([1])", "def f():\n    return next(it)\nf()", "`it` is an iterator"),
        ("it = iter([1])\ndef f():\n    return next(it)", "f()", "`it` is an iterator"),
        (
            "class Data:\n    def __init__(self):\n        self.rest = iter([1])\ndata = Data()",
            "data.rest",
            "`data` holds `data.rest`, which is an iterator",
        ),
        ("loader = iter(torch.utils.data.DataLoader([1, 2]))", "next(loader)", "is an iterator"),
        ("import itertools\nn = itertools.count()", "next(n)", "`n` is an iterator"),
        ("async def f():\n    pass", "await f()", "awaits at its top level"),
        ("", "async with a:\n    pass", "awaits at its top level"),
        ("", "[x async for x in y]", "awaits at its top level"),
        ("", "get_ipython().run_line_magic('pip', 'install x')", "`%pip` would run thousands of times"),
        ("", "get_ipython().system('ls')", "`!ls` would run thousands of times"),
        ("", "name = input('? ')", "`input()` would ask in every run"),
        ("import sys\nf = open(sys.executable, 'rb')", "f.read(1)", "`f` is an open file"),
        ("import io\nf = io.StringIO('a')", "f.read()", "`f` is an open file"),
        ("import socket\ns = socket.socket()", "s.send(b'')", "`s` is a socket"),
        ("from os import remove", "remove('x')", "`remove` is `os.remove`"),
        ("net = torch.nn.LazyLinear(2)", "net(torch.ones(1, 2))", "has no shape yet"),
    ],
)
def test_found_before_it_runs(setup, cell, words):
    """A cell that can't be run twice is known before it runs, and the line says what it is and what to do."""
    line = found(setup, cell)

    assert line is not None
    assert words in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("setup", "cell"),
    [
        ("x = torch.ones(2)", "y = x + 1"),
        (
            "net = torch.nn.Linear(2, 2)\nopt = torch.optim.Adam(net.parameters())",
            "net(torch.ones(2)).sum().backward()\nopt.step()",
        ),
        ("loader = torch.utils.data.DataLoader([1, 2], shuffle=True)", "for b in loader:\n    pass"),
        ("import sys", "print('a', file=sys.stdout)"),
        ("import logging\nlog = logging.getLogger('mine')", "log.info('x')"),
        ("input = max", "input(1, 2)"),
        ("async def f():\n    await g()", "async def g():\n    await f()"),
        ("other = iter([1])", "y = 1"),
        (
            "class Count:\n    n = 0\n    def __next__(self):\n        self.n += 1\n"
            "        return self.n\n    def __iter__(self):\n        return self\nc = Count()",
            "next(c)",
        ),
        ("import random, os, io, socket, subprocess, pathlib", "random.random()"),
        ("w = torch.ones(2, requires_grad=True)\nh = w * 2", "y = h + 1"),
        ("numbers = range(3)\nd = {'a': 1}", "list(map(str, numbers))\nlist(d.items())"),
    ],
)
def test_nothing_found(setup, cell):
    """Cells that can be run again and again are not refused."""
    assert found(setup, cell) is None


def test_log_files_are_found(tmp_path):
    """A logger that writes to a file is found, also where the file belongs to a logger above it."""
    handler = logging.FileHandler(tmp_path / "log.txt")
    logging.getLogger("bench_test").addHandler(handler)
    try:
        line = found("import logging\nlog = logging.getLogger('bench_test.inner')", "log.info('x')")
    finally:
        logging.getLogger("bench_test").removeHandler(handler)
        handler.close()

    assert line is not None
    assert line.startswith("`log` logs to a file")


REFUSED = [
    ("open('out.txt', 'w')", "opens 'out.txt' for writing"),
    ("open('there.txt', mode='a')", "opens 'there.txt' for writing"),
    ("open('there.txt', 'r+')", "opens 'there.txt' for writing"),
    ("import io; io.open('out.txt', 'x')", "opens 'out.txt' for writing"),
    ("import os; os.open('out.txt', os.O_CREAT)", "opens 'out.txt' for writing"),
    ("import pathlib; pathlib.Path('out.txt').write_text('a')", "for writing"),
    ("import pathlib; pathlib.Path('out.txt').touch()", "makes 'out.txt'"),
    ("import pathlib; pathlib.Path('there.txt').unlink()", "deletes 'there.txt'"),
    ("import pathlib; pathlib.Path('there.txt').rename('out.txt')", "moves or links 'there.txt'"),
    ("import os; os.remove('there.txt')", "deletes 'there.txt'"),
    ("import os; os.makedirs('a/b')", "makes 'a"),
    ("import shutil; shutil.copy('there.txt', 'out.txt')", "opens 'out.txt' for writing"),
    ("import shutil; shutil.rmtree('folder')", "deletes"),
    ("import tempfile; tempfile.mkstemp(dir='.')", "for writing"),
    ("import os; os.system('echo > out.txt')", "runs 'echo > out.txt'"),
    ("import subprocess; subprocess.run(['touch', 'out.txt'])", "runs `touch out.txt`"),
    ("from subprocess import Popen; Popen(['touch', 'out.txt'])", "runs `touch out.txt`"),
    ("import socket; socket.create_connection(('10.255.255.1', 9), 0.1)", "connects to"),
    ("import torch; torch.save({}, 'out.txt')", "saves to 'out.txt'"),
    ("import sqlite3; sqlite3.connect('out.txt')", "opens the database 'out.txt'"),
    ("input('? ')", "asks for input"),
    ("import json; json.dump([], open('out.txt', 'w'))", "opens 'out.txt' for writing"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a file and a folder in it."""
    (tmp_path / "there.txt").write_text("kept")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner.txt").write_text("kept")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _listing(folder):
    return sorted((str(path), path.read_text() if path.is_file() else "") for path in folder.rglob("*"))


@pytest.mark.parametrize(("cell", "words"), REFUSED, ids=[cell for cell, _ in REFUSED])
def test_refused_before_it_happens(cell, words, folder):
    """An effect outside of the process is refused before it happens, past the user's own `except Exception`."""
    namespace = started("import sqlite3")
    before = _listing(folder)
    wrapped = f"try:\n    {cell}\nexcept Exception:\n    pass"
    with pytest.raises(UnrepeatableError, match="The cell ") as caught, guarded():
        run(namespace, wrapped)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert _listing(folder) == before


def test_reading_is_let_through(folder):
    """Reading a file, and asking about it, goes through."""
    cell = (
        "import os, pathlib\na = open('there.txt').read()\nb = pathlib.Path('there.txt').read_bytes()\n"
        "c = os.stat('there.txt').st_size, os.listdir('.')"
    )
    namespace = started("")
    with guarded():
        run(namespace, cell)

    assert (namespace["a"], namespace["b"], namespace["c"][0]) == ("kept", b"kept", 4)


def test_compiling_is_let_through(folder):
    """What torch's compiler writes for its caches goes through, here as code in a file of its folder."""
    namespace = started("")
    file = Path(torch.__file__).parent / "_inductor" / "written_by_a_test.py"
    run(namespace, "def write(path):\n    open(path, 'w').close()", str(file))
    with guarded():
        run(namespace, "write('cache.txt')")

    assert (folder / "cache.txt").exists()


def test_workers_of_a_loader_are_let_through():
    """A data loader with worker processes can be used in a guarded and watched run, and again after it."""
    cell = "got = [b.tolist() for b in torch.utils.data.DataLoader([1, 2, 3], num_workers=1, shuffle=True)]"
    namespace = started("torch.manual_seed(0)")
    snapshot = Snapshot(namespace, used_in(cell))
    with guarded(), snapshot.watching():
        run(namespace, cell)
    first = namespace["got"]
    snapshot.restore()
    run(namespace, cell)

    assert sorted(first) == [[1], [2], [3]]
    assert namespace["got"] == first


def test_other_threads_are_let_through(folder):
    """Threads of the kernel's own, in which no code of the user's runs, write what they want."""
    thread = threading.Timer(0.1, logging.FileHandler, args=(str(folder / "history.txt"),))
    thread.start()
    with guarded():
        thread.join()

    assert (folder / "history.txt").exists()


def test_threads_of_a_library_are_let_through():
    """A library that starts a thread and waits for it can be used, as a data loader that pins memory."""
    source = (
        "import threading, queue\ndef ask():\n    found = queue.Queue()\n"
        "    threading.Thread(target=found.put, args=(1,), daemon=True).start()\n    return found.get(timeout=9)"
    )
    namespace, library = started(""), {"__name__": "torch.of_a_test"}
    run(library, source, str(Path(torch.__file__).parent / "of_a_test.py"))
    namespace["ask"] = library["ask"]
    snapshot = Snapshot(namespace, {"ask"})
    with guarded(), snapshot.watching():
        run(namespace, "found = ask()")

    assert namespace["found"] == 1


def test_all_is_put_back():
    """After the guard, and after an error inside of it, every function is the one that it was."""
    places = [
        (builtins, "open"),
        (io, "open"),
        (os, "remove"),
        (pathlib.Path, "unlink"),
        (torch, "save"),
        (builtins, "input"),
        (subprocess.Popen, "__init__"),
    ]
    before = [getattr(holder, name) for holder, name in places]
    owned = set(vars(socket.socket))
    with pytest.raises(ZeroDivisionError), guarded():
        raise ZeroDivisionError

    assert [getattr(holder, name) for holder, name in places] == before
    assert set(vars(socket.socket)) == owned


@pytest.mark.parametrize("effect", EFFECTS, ids=[f"{effect.module}.{effect.name}" for effect in EFFECTS])
def test_effects_exist(effect):
    """Each function of the registry is there, so that none is guarded in name only."""
    if effect.module.startswith("IPython"):
        pytest.importorskip("IPython.core.interactiveshell")
    holder: Any = __import__(effect.module, fromlist=["_"])
    for part in effect.name.split("."):
        holder = getattr(holder, part)

    assert callable(holder)


def test_notebooks_own_open(folder):
    """IPython's own `open`, which it puts into the namespace, is guarded as well."""
    shell = pytest.importorskip("IPython.core.interactiveshell")
    namespace = started("")
    namespace["open"] = shell._modified_open
    with pytest.raises(UnrepeatableError, match="opens 'out"), guarded():
        run(namespace, "open('out.txt', 'w')")

    assert not (folder / "out.txt").exists()


_GRAPH = (
    "w = torch.ones(3, requires_grad=True)\nh = w * 2\nloss = (h * h).sum()\n"
    "v = torch.zeros(4)\npart = v[:3]\nlog = []\n"
)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("loss.backward()", "a backward goes through the graph of `loss`"),
        ("(h * 3).sum().backward()", "a backward goes through the graph of `h`"),
        ("torch.autograd.grad((h * 3).sum(), w)", "a backward goes through the graph of `h`"),
        ("torch.autograd.backward([h.sum()])", "a backward goes through the graph of `h`"),
        ("h.mul_(2)", "`h`, which an earlier cell computed with gradients, is changed in place"),
        ("h[0].mul_(2)", "`h`, which an earlier cell computed with gradients, is changed in place"),
        ("torch._foreach_mul_([h], 2.0)", "`h`, which an earlier cell computed with gradients, is changed in place"),
        ("h.detach_()", "`h` is taken out of its graph"),
        ("h.retain_grad()", "`h` is told to keep its gradient"),
        ("w.register_hook(print)", "a hook is put on `w`"),
        ("part.mul_(w)", "values with gradients are written into the memory of `part`"),
        ("v[1:].mul_(w)\npart", "values with gradients are written into the memory of `part`"),
    ],
)
def test_graphs_from_before(cell, words):
    """What would use up or change a graph from an earlier cell is refused before, and all is as it was."""
    namespace = started(_GRAPH)
    snapshot = Snapshot(namespace, used_in(cell))
    nodes = namespace["h"].grad_fn, namespace["loss"].grad_fn
    with pytest.raises(UnrepeatableError) as caught, snapshot.watching():
        run(namespace, f"try:\n    {cell.splitlines()[0]}\nexcept Exception:\n    pass")
    left = snapshot.restore_all()
    namespace["loss"].backward()

    assert words in str(caught.value)
    assert left == ()
    assert (namespace["h"].grad_fn, namespace["loss"].grad_fn) == nodes
    assert namespace["h"].tolist() == [2, 2, 2]
    assert namespace["v"].grad_fn is None
    # The gradient of the sum of (2 w) squared is 8 w.
    assert namespace["w"].grad.tolist() == [8, 8, 8]


@pytest.mark.parametrize(
    "cell",
    [
        "(w * w).sum().backward()",
        "loss.backward(retain_graph=True)",
        "(h.detach() * w).sum().backward()",
        "k = w * 2\nk.mul_(3)\nk.retain_grad()\nk.register_hook(lambda g: g)\nk.sum().backward()",
        "with torch.no_grad():\n    h.mul_(2)",
        "part.mul_(2)",
        "w.detach_()",
    ],
)
def test_graphs_of_the_run(cell):
    """Graphs that the run makes itself, and those that are kept, are no reason to refuse."""
    namespace = started(_GRAPH)
    snapshot = Snapshot(namespace, used_in(cell))
    for _ in range(2):
        with snapshot.watching():
            run(namespace, cell)
        snapshot.restore()

    assert snapshot.restore_all() == ()
    assert namespace["w"].grad is None
    assert namespace["w"].requires_grad


def test_no_room_for_a_copy(monkeypatch):
    """Where there is no room for a copy of what is about to be written, that is refused, too, and not a crash."""
    namespace = started("x = torch.ones(3)")
    monkeypatch.setattr("compile_magic.measure.state.contents.limit", lambda _: -1)
    monkeypatch.setattr("compile_magic.measure.state.room.free_bytes", lambda _: 23)
    monkeypatch.setattr("compile_magic.measure.state.room.SMALL", 0)
    snapshot = Snapshot(namespace, {"x"})
    with pytest.raises(UnrepeatableError, match="no room for a copy"), snapshot.watching():
        run(namespace, "x.add_(1)")

    assert namespace["x"].tolist() == [1, 1, 1]
    assert "torch" in sys.modules


def test_an_iterator_is_named_as_the_user_names_it() -> None:
    """Of an iterator deep inside something the user's own name comes first, and what to do is told with it."""
    it = iter(torch.utils.data.DataLoader([1, 2, 3]))
    words = find_unrepeatable(ast.parse("x = next(it)").body, {"it": it}, {"it", "next"})

    assert words is not None
    assert words.startswith("`it` ")
    assert "Put `x = next(it)` in a cell of its own" in words
