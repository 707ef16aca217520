"""What the package promises as a package: it loads at once, and its layers point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import compile_magic

PACKAGE = Path(compile_magic.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# The layers that turn a recorded capture into text: no torch and no notebook, so that a trace can be read anywhere.
PURE = {
    "bench_model",
    "errors",
    "ledger",
    "model",
    "read",
    "render",
    "report",
    "serial",
    "show",
    "trace",
    "unmoved",
    "watch_model",
}
NOTEBOOK = {"magics", "cell"}
# What may import what: a layer may use itself and those before it.
LAYERS = (
    {"unmoved", "errors", "serial", "report", "model", "bench_model", "watch_model", "trace", "ledger"},
    {"read"},
    {"show"},
    {"render"},
)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def ours(path: Path) -> set[str]:
    names = (name.split(".")[1] for name in imports(path) if name.startswith("compile_magic."))
    return {name for name in names if (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_two_files_import_ipython(path: Path) -> None:
    """Only magics.py and cell.py import IPython, so that everything else works and is tested without a notebook."""
    uses = any(name.split(".")[0] == "IPython" for name in imports(path))

    assert not uses or layer_of(path) in NOTEBOOK


@pytest.mark.parametrize("path", [p for p in FILES if layer_of(p) in PURE], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_reading_and_showing_need_no_torch(path: Path) -> None:
    """The layers from a capture to its text import neither torch nor a layer that does."""
    assert not any(name.split(".")[0] == "torch" for name in imports(path))
    assert ours(path) <= PURE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_torch_names_stand_in_one_file(path: Path) -> None:
    """A private torch name stands in _torch.py alone: elsewhere neither as an import nor as an attribute of torch."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch"
    }
    private = {name for name in imports(path) if name.startswith("torch._")}
    private |= {name for name in attributes if name.startswith("_") and not name.endswith("__")}

    assert not private or path.name == "_torch.py"


@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_layers_point_one_way(number: int) -> None:
    """From capture to text no layer imports a later one; that a report renders itself is the one exception."""
    later = set().union(*LAYERS[number + 1 :])
    files = [path for path in FILES if layer_of(path) in LAYERS[number]]
    backward = {(path.name, name) for path in files for name in ours(path) & later}

    assert backward - {("report.py", "render")} == set()


_LOAD = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import types
empty = types.ModuleType("empty_extension")
empty.load_ipython_extension = lambda shell: None
sys.modules["empty_extension"] = empty
def load(name):
    start = time.process_time()
    shell.extension_manager.load_extension(name)
    return time.process_time() - start
first = load("empty_extension")
second = load("compile_magic")
print(second - first, "torch" in sys.modules, "rich" in sys.modules)
"""


def test_loading_is_quick_and_leaves_torch_alone() -> None:
    """%load_ext takes under 50 ms of CPU more than an empty extension, and imports neither torch nor rich."""
    runs = [subprocess.check_output([sys.executable, "-c", _LOAD], text=True).split() for _ in range(9)]

    assert {tuple(run[1:]) for run in runs} == {("False", "False")}
    # Other work on the machine makes it take longer, CPU time too, and never shorter.
    assert min(float(run[0]) for run in runs) < 0.05
