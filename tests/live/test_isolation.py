"""What a notebook was before an explained cell, it is afterwards."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from compile_magic import Explainer
from compile_magic import explain
from compile_magic import watch
from compile_magic._torch import entries
from compile_magic.errors import CompileBudgetExceeded

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def helper(x: torch.Tensor) -> torch.Tensor:
    print(end="")
    return x + 1


def step(x: torch.Tensor) -> torch.Tensor:
    y = helper(x * 2)
    return y - 1 if y.sum() > 0 else y


def test_fifty_explains_leave_the_users_compiled_function_alone() -> None:
    """However often a function is explained, the user's compiled form of it neither recompiles nor loses headroom."""
    counter = CompileCounter()
    compiled = torch.compile(step, backend=counter)
    compiled(torch.ones(3))
    compiled(torch.ones(3, dtype=torch.float64))
    before = counter.frame_count, len(entries(step.__code__)), len(entries(helper.__code__))
    reports = [explain(step, torch.ones(3)) for _ in range(50)]

    assert {(r.graph_count, r.graph_break_count, r.recompile_count) for r in reports} == {(4, 2, 0)}
    compiled(torch.ones(3))
    compiled(torch.ones(3, dtype=torch.float64))
    assert (counter.frame_count, len(entries(step.__code__)), len(entries(helper.__code__))) == before


def test_the_recompile_limit_is_as_far_away_as_before() -> None:
    """A function that was explained more often than its limit still gets all its compiled versions."""
    limit = torch._dynamo.config.recompile_limit

    def scaled(x: torch.Tensor, how: str) -> torch.Tensor:
        return x * len(how)

    for number in range(limit + 2):
        explain(scaled, torch.ones(3), "x" * number)
    counter = CompileCounter()
    compiled = torch.compile(scaled, backend=counter)
    for number in range(limit):
        compiled(torch.ones(3), "y" * number)

    assert counter.frame_count == limit


def test_a_first_compile_stays_static_after_an_explain() -> None:
    """Explaining with one size doesn't make the user's first compile with another size dynamic."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    explain(doubled, torch.ones(3))
    counter = CompileCounter()
    compiled = torch.compile(doubled, backend=counter)
    compiled(torch.ones(5))
    compiled(torch.ones(6))
    compiled(torch.ones(7))

    # 5 static, 6 dynamic, 7 served by that. With the size 3 remembered it would be one dynamic compile.
    assert counter.frame_count == 2


def test_each_explain_of_a_function_starts_afresh() -> None:
    """The second explain of a function shows the same as the first: nothing of the first is left in torch's memory."""
    sizes = [torch.ones(n) for n in (3, 4, 5)]

    def swept(inputs: list[torch.Tensor]) -> None:
        for x in inputs:
            tripled(x)

    def tripled(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    def figures(report: Any) -> Any:
        return report.graph_count, report.recompile_count, [graph.compile_id for graph in report.graphs]

    first, second = (explain(swept, sizes) for _ in range(2))

    assert figures(first) == figures(second)


def test_a_skipped_frame_can_be_compiled_by_the_user_afterwards() -> None:
    """A function that ran wholly in eager when it was explained isn't marked to be skipped for ever."""

    def looped(x: torch.Tensor, talk: bool) -> torch.Tensor:
        for _ in range(2):
            if talk:
                print(end="")
            x = x + 1
        return x

    report = explain(looped, torch.ones(3), True)
    counter = CompileCounter()
    torch.compile(looped, backend=counter)(torch.ones(3), False)

    assert report.skipped_frame_count == 1
    assert counter.frame_count == 1


def _process() -> dict[str, Any]:
    return {
        "config": torch._dynamo.config.save_config(),
        "counters": {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items() if counter},
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "loggers": {
            name: (logger.level, len(logger.handlers), len(logger.filters))
            for name, logger in logging.root.manager.loggerDict.items()
            if isinstance(logger, logging.Logger) and (logger.handlers or logger.level)
        },
        "rng": torch.get_rng_state().tolist(),
        "grad": torch.is_grad_enabled(),
        "stance": torch._dynamo.eval_frame._stance,
        "stdout": sys.stdout,
        "frames": torch._dynamo.convert_frame.FRAME_COUNTER,
        "backends": len(torch._dynamo.eval_frame.cached_backends),
        "handlers": [handler.formatter for handler in logging.getLogger("torch").handlers],
        "codes": torch._dynamo.convert_frame.input_codes.seen_ids,
    }


def test_the_process_is_as_it_was() -> None:
    """Config, counters, warnings, loggers, RNG, stance and frame ids are the same after an explain."""
    explain(step, torch.ones(2))
    before = _process()
    explain(step, torch.ones(3))
    with pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError(explain(lambda x: x / 0 + 1 // 0, torch.ones(1)).error)

    assert _process() == before


def test_no_names_are_left_in_the_users_namespace(notebook: Any) -> None:
    """Dynamo's globals for an explained function are gone afterwards, those of the user's compiled one stay."""
    notebook.ok("import torch\ndef f(x):\n    print(end='')\n    return x + 1 if x.sum() > 0 else x")
    plain = set(notebook.shell.user_ns)
    notebook.explain("y = f(torch.ones(3))", "-q")
    assert {name for name in set(notebook.shell.user_ns) - plain if not name.startswith("_i")} == {
        "y",
        "_compile_report",
    }

    notebook.ok("g = torch.compile(f, backend='eager')\ny = g(torch.ones(3))")
    with_theirs = {name for name in notebook.shell.user_ns if name.startswith("__")}
    notebook.explain("y = f(torch.ones(3))", "-q")
    notebook.explain("y = g(torch.ones(3)); y = f(torch.ones(3))", "-q")
    notebook.ok("y = g(torch.ones(3))")

    assert {name for name in notebook.shell.user_ns if name.startswith("__")} == with_theirs


def test_modules_and_parameters_carry_no_marks(notebook: Any) -> None:
    """Explaining a model and its optimizer leaves no attribute on either, in whichever way they are named."""
    notebook.ok(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())\n"
        "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "def train():\n    model(torch.ones(2, 3)).sum().backward()\n    opt.step()\n"
        "model(torch.ones(2, 3)).sum().backward(); opt.step()\n"
        "def attributes():\n"
        "    owners = [*model.modules(), *model.parameters(), opt]\n"
        "    return [sorted(vars(owner)) for owner in owners]\n"
        "before = attributes()"
    )
    notebook.explain("model(torch.ones(2, 3))", "-q")
    notebook.explain("model(torch.ones(2, 3)).sum().backward(); opt.step()", "-q model opt.step")
    notebook.explain("train()", "-q")

    assert notebook.ok("attributes() == before").value is True


def test_an_observed_function_keeps_its_own_backend_and_caches(notebook: Any) -> None:
    """A function that the user compiled is only listened to: its compiles are its own, made by its own backend."""
    notebook.ok(
        "import torch\nfrom torch._dynamo.testing import CompileCounter\ncounter = CompileCounter()\n"
        "def f(x):\n    return x + 1\ng = torch.compile(f, backend=counter)"
    )
    first = notebook.explain("y = g(torch.ones(3))", "-q")
    second = notebook.explain("y = g(torch.ones(3))", "-q")
    third = notebook.explain("y = g(torch.ones(4))", "-q")
    fresh = notebook.explain("y = g(torch.ones(4))", "-q --fresh")

    assert [r.mode for r in (first, second, third)] == ["observed"] * 3
    assert [r.graph_count for r in (first, second, third, fresh)] == [1, 0, 1, 1]
    assert third.recompile_count == 1
    assert notebook.get("counter").frame_count == 2
    assert any("already compiled" in note and "--fresh" in note for note in second.notes)
    assert second.guards != ()


def test_a_reset_in_the_cell_is_the_users_own(notebook: Any) -> None:
    """torch._dynamo.reset() inside an explained cell works as in a plain one, and both halves are counted."""
    notebook.ok("import torch\ndef f(x):\n    return x * 2")
    report = notebook.explain("f(torch.ones(3))\ntorch._dynamo.reset()\nf(torch.ones(4))", "-q")

    assert (report.graph_count, report.recompile_count, report.unread) == (2, 0, ())
    assert torch._dynamo.convert_frame.FRAME_COUNTER == 0


def test_another_thread_that_compiles_is_safe(notebook: Any) -> None:
    """A thread that runs the user's compiled functions while a cell is explained neither crashes nor recompiles."""
    notebook.ok(
        "import torch, threading\nfrom torch._dynamo.testing import CompileCounter\ncounter = CompileCounter()\n"
        "def f(x):\n    return x.sin() + 1\ng = torch.compile(f, backend=counter)\ny = g(torch.ones(3))\n"
        "stop = threading.Event()\n"
        "def work():\n    while not stop.is_set():\n        g(torch.ones(3))\n"
        "threads = [threading.Thread(target=work) for _ in range(2)]\nfor t in threads: t.start()"
    )
    try:
        reports = [notebook.explain("z = f(torch.ones(3))", "-q") for _ in range(10)]
    finally:
        notebook.ok("stop.set()\nfor t in threads: t.join()")

    assert notebook.get("counter").frame_count == 1
    assert {r.graph_count for r in reports} == {1}


_GROWTH = '''
import gc, sys, torch
from compile_magic import explain
NAMES = {}
exec(compile("""
def helper(x):
    print(end="")
    return x + 1
def f(x):
    y = helper(x * 2)
    return y - 1 if y.sum() > 0 else y
""", "<string>", "exec"), NAMES)
f = NAMES["f"]

def resident():
    gc.collect()
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * 4096, len(gc.get_objects())

def torchs_own():
    torch._dynamo.reset()
    torch.compile(f, backend="eager")(torch.ones(3))

def ours():
    explain(f, torch.ones(3))

run = {"torch": torchs_own, "ours": ours}[sys.argv[1]]
for _ in range(10):
    run()
before = resident()
for _ in range(50):
    run()
print(*(after - b for after, b in zip(resident(), before)))
'''


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to read the resident memory")
def test_memory_grows_no_more_than_torchs_own_leak() -> None:
    """Fifty explains leave no more objects and memory behind than fifty resets and compiles of torch's own."""
    grown = {
        name: [int(n) for n in subprocess.check_output([sys.executable, "-W", "ignore", "-c", _GROWTH, name]).split()]
        for name in ("torch", "ours")
    }

    assert grown["ours"][1] <= grown["torch"][1]
    assert grown["ours"][0] <= grown["torch"][0] + 4e6


def test_options_reach_torch() -> None:
    """The options dynamic and fullgraph mean what they mean for torch.compile."""

    def swept(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]

    assert (
        Explainer(dynamic=True)(swept, torch.ones(3)).graphs[0].shapes != explain(swept, torch.ones(3)).graphs[0].shapes
    )
    assert [f.kind for f in Explainer(fullgraph=True)(step, torch.ones(3)).failures] == ["Unsupported"]


def test_a_call_that_ended_with_an_error_fails_its_check() -> None:
    """A report of a call that raised doesn't pass for one without breaks."""
    with pytest.raises(CompileBudgetExceeded, match=r"^it ended with an error: TypeError: "):
        explain(step, torch.ones(3), wrong=1).check(max_breaks=0)


def test_a_function_left_after_a_break_is_not_said_to_be_wholly_in_eager() -> None:
    """Where only the part after a graph break is skipped, the alarm says after which line."""

    def halved(x: torch.Tensor) -> torch.Tensor:
        total = x.sin().sum().item()
        for number in range(2):
            print(end=str(number)[:0])
        return x * total

    report = explain(halved, torch.ones(3))
    (skipped,) = report.skipped_frames

    assert report.graph_count == 1
    assert skipped.after_line == halved.__code__.co_firstlineno + 1
    assert f"ran in eager after line {skipped.after_line}: " in " ".join(str(report).split())


def test_containers_of_torchs_own_share_nothing_with_the_users(notebook: Any) -> None:
    """Explains and benches of an nn.Sequential leave nothing in the code that torch shares between such modules."""
    from torch._dynamo import external_utils

    notebook.ok("import torch\nm = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())\nx = torch.ones(2, 4)")
    notebook.ok("mine = torch.compile(m, backend='eager')\ny = mine(x)")
    shared = external_utils.wrap_inline(lambda: 0).__code__
    before = len(entries(shared))
    for _ in range(3):
        notebook.ok("%%compile_bench --backends eager,aot_eager --budget 0.02\ny = m(x)")
        notebook.explain("y = m(x)")

    assert before == 1
    assert len(entries(shared)) == before
    assert notebook.report.recompile_count == 0
    with watch() as log:
        notebook.ok("mine(x)")
    assert log.compile_count == 0
