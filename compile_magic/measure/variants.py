"""Which variants are measured beside eager, from what the user asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compile_magic import _torch
from compile_magic.measure.settings import Settings
from compile_magic.run.capture import check_backend
from compile_magic.run.run import Options

AS_WRITTEN = "as written"


def check(modes: Sequence[str], backends: Sequence[str]) -> None:
    """Look whether there are such modes and backends.

    Raises:
        ValueError: there is none of that name; the message lists those that there are.
    """
    for mode in modes:
        if mode != "default":
            _torch.mode_options(mode)
    for backend in backends:
        check_backend(backend)


@dataclass(frozen=True)
class Spec:
    """A variant to be measured; `options` is None for what the user has compiled himself."""

    name: str
    options: Options | None


def specs(settings: Settings, *, observed: bool, others: bool) -> tuple[Spec, ...]:
    """Return the variants beside eager.

    Args:
        settings: what the user asks for. Modes are Inductor's; each backend is measured in its default mode.
        observed: whether the work calls something that is compiled already: it is then measured as it is written.
        others: whether it calls something that isn't.
    """
    written = (Spec(AS_WRITTEN, None),) if observed else ()
    named = [(mode, "inductor", mode) for mode in settings.modes]
    named += [(_name(backend), backend, "default") for backend in settings.backends]
    if not named and (others or not observed):
        named = [("default", "inductor", "default")]
    return (*written, *(Spec(name, _options(settings, *how)) for name, *how in dict.fromkeys(named)))


def _name(backend: str) -> str:
    # The backend runs what Dynamo captures in eager; plain eager, the reference, is another row.
    return "eager backend" if backend == "eager" else backend


def _options(settings: Settings, backend: str, mode: str) -> Options:
    return Options(backend, settings.dynamic, fullgraph=settings.fullgraph, fresh=True, mode=mode, suppress=False)
