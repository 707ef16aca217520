"""Where torch, the standard library and installed packages lie, and so which files are the user's own."""

from __future__ import annotations

import functools
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compile_magic.trace import Roots

# Code made by exec in a library, by Dynamo or by FX.
_GENERATED = ("<frozen", "<eval_with_key>", "<lambdifygenerated", "<__array_function__", "<attrs ", "<decorator-gen")


@functools.cache
def roots() -> Roots:
    """Return the folders that aren't the user's."""
    from compile_magic import _torch
    from compile_magic.trace import Roots

    paths = sysconfig.get_paths()
    stdlib = {paths["stdlib"], paths["platstdlib"], str(Path(sys.base_prefix, "lib", _version()))}
    packages = {paths["purelib"], paths["platlib"], site.getusersitepackages(), *site.getsitepackages(), *_installed()}
    return Roots(
        torch=_torch.torch_root(),
        stdlib=tuple(sorted(stdlib)),
        packages=tuple(sorted(packages)),
        tool=str(Path(__file__).parent.parent),
    )


def _installed() -> set[str]:
    # Where pip installs with --target, and what hosted notebooks put on the path: folders with metadata of packages.
    folders = (Path(folder) for folder in sys.path if folder)
    return {str(folder) for folder in folders if next(folder.glob("*.dist-info"), None) is not None}


def _version() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


@functools.lru_cache(maxsize=4096)
def is_user_file(file: str) -> bool:
    """Return whether a code object's file is the user's: a notebook cell, a script, a module of a project."""
    if file.startswith(_GENERATED):
        return False
    where = roots()
    return not any(_inside(file, root) for root in (where.torch, where.tool, *where.stdlib, *where.packages))


def is_dynamos(file: str) -> bool:
    """Return whether a code object's file belongs to Dynamo itself."""
    return _inside(file, str(Path(roots().torch, "_dynamo")))


def _inside(file: str, root: str) -> bool:
    return bool(root) and file.startswith(root.rstrip("/\\") + ("\\" if "\\" in root else "/"))
