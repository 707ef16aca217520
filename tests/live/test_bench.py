"""%%compile_bench in a shell: what it reports, and that the notebook is as after one plain run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pytest
import torch
from bench import bench
from bench import ran
from bench import same_bits
from notebook import Notebook

import compile_magic
from compile_magic import _torch
from compile_magic.bench_model import BenchReport

CHAIN = """
import torch
def chain(x):
    for _ in range(5):
        x = torch.nn.functional.gelu(x * 1.01 + 0.01)
    return x
x = torch.randn(64, 64)
"""
# No C++ compiler and no Inductor: quick.
EAGERLY = "--backends aot_eager"


def variants(report: BenchReport) -> list[str]:
    return [variant.name for variant in report.variants]


def test_default_is_eager_against_torch_compile(notebook: Notebook) -> None:
    """Without options the bench measures eager and torch.compile as it comes, three first runs and a steady state."""
    notebook.ok(CHAIN)

    report = bench(notebook, "y = chain(x)")

    assert report.error is None
    assert variants(report) == ["eager", "default"]
    default = report.variant("default")
    assert (default.backend, default.mode, default.error) == ("inductor", "default", "")
    assert default.first_s > default.third_s > 0
    assert len(default.samples_s) >= 3
    low, high = default.speedup_interval
    assert low <= default.speedup <= high
    assert default.matches_eager
    assert default.max_rel_error < 1e-4
    assert (default.graph_count, default.graph_break_count, default.recompile_count) == (1, 0, 0)
    assert default.phases
    assert default.cache in ("cold", "warm")
    assert [target.name for target in report.targets] == ["chain"]


def test_a_cell_is_as_after_one_plain_run(notebook: Notebook) -> None:
    """Side effects happen once: one line printed, one item appended, one draw of each generator, Out as plain."""
    notebook.ok(CHAIN)
    notebook.ok("import random\nlog = []\ntorch.manual_seed(3); random.seed(4)")
    source = "log.append(1)\nprint('once')\nr = (torch.rand(2), random.random())\ny = chain(x)\ny.shape"

    result, report = ran(notebook, source, EAGERLY)

    assert report.error is None
    assert result.stdout.count("once") == 1
    assert notebook.get("log") == [1]
    assert tuple(result.value) == (64, 64)
    torch.manual_seed(3)
    assert same_bits(notebook.get("r")[0], torch.rand(2))
    assert same_bits(torch.rand(3), (torch.manual_seed(3), torch.rand(2), torch.rand(3))[2])


def test_names_of_the_cell_are_bound_by_its_own_run_alone(notebook: Notebook) -> None:
    """Definitions at the head of a cell are run for the bench and then by the cell, and nothing else stays."""
    before = set(notebook.shell.user_ns)

    report = bench(notebook, f"{CHAIN}\ny = chain(x)", EAGERLY)

    assert report.error is None
    assert (
        set(notebook.shell.user_ns) - before - {"_compile_report"}
        == {"torch", "chain", "x", "y"} | {name for name in notebook.shell.user_ns if name.startswith("_i")} - before
    )


TRAINING = """
import torch
from torch import nn
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
scaler = torch.amp.GradScaler("cpu")
x, y = torch.randn(24, 16), torch.randint(0, 4, (24,))
steps = 0
def loss_fn(out, y):
    return nn.functional.cross_entropy(out, y)
"""
STEP = """
opt.zero_grad()
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = loss_fn(model(x), y)
scaler.scale(loss).backward()
scaler.step(opt)
scaler.update()
sched.step()
steps += 1
"""


@pytest.fixture
def twin() -> Iterator[None]:
    """Leave torch's generator as the notebook's run left it."""
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


def state(notebook: Notebook) -> dict[str, object]:
    model, opt = notebook.get("model"), notebook.get("opt")
    return {
        "model": model.state_dict(),
        "grads": [p.grad for p in model.parameters()],
        "opt": opt.state_dict(),
        "sched": notebook.get("sched").state_dict(),
        "scaler": notebook.get("scaler").state_dict(),
        "loss": notebook.get("loss").detach(),
        "steps": notebook.get("steps"),
        "rng": torch.get_rng_state(),
    }


@pytest.mark.parametrize("warm", [0, 2])
def test_a_training_step_leaves_what_one_plain_step_leaves(notebook: Notebook, warm: int) -> None:
    """After the bench of a training step everything equals one plain step, bit by bit, on the first step and later."""
    for _ in range(1):
        notebook.ok(TRAINING)
        for _ in range(warm):
            notebook.ok(STEP)
        notebook.ok(STEP)
    plain = {key: _copied(value) for key, value in state(notebook).items()}
    notebook.ok(TRAINING)
    for _ in range(warm):
        notebook.ok(STEP)

    report = bench(notebook, STEP, EAGERLY)

    assert report.error is None
    assert report.variant("aot_eager").error == ""
    assert report.variant("aot_eager").matches_eager
    assert all(check.passed for check in report.checks if check.name == "state")
    left = state(notebook)
    assert [key for key in plain if not same_bits(plain[key], left[key])] == []


def _copied(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def test_what_the_user_compiled_stays_as_it_was(notebook: Notebook) -> None:
    """Functions that were compiled before compile nothing again after a bench, and keep their headroom."""
    notebook.ok(f"{CHAIN}\nfast = torch.compile(chain, backend='eager')\nfast(x)")
    code = notebook.get("chain").__code__
    entries = [str(entry.compile_id) for entry in _torch.entries(code)]

    for _ in range(3):
        bench(notebook, "y = chain(x)", "--backends aot_eager,eager")

    assert [str(entry.compile_id) for entry in _torch.entries(code)] == entries
    with compile_magic.watch() as log:
        notebook.ok("fast(x)")
    assert log.compile_count == 0


def test_no_names_of_dynamos_stay(notebook: Notebook) -> None:
    """The notebook holds no name that Dynamo made for a variant, also where the function has a break."""
    notebook.ok("import torch\ndef f(x):\n    x = x + 1\n    print(end='')\n    return x * 2\nx = torch.ones(3)")

    report = bench(notebook, "f(x)", EAGERLY)

    assert report.variant("aot_eager").graph_break_count == 1
    assert not _torch.dynamo_names(notebook.shell.user_ns)


def test_a_compile_in_the_timing_never_enters_a_statistic(notebook: Notebook) -> None:
    """Blocks in which a size changes and something is compiled are thrown out and counted."""
    notebook.ok(
        textwrap.dedent("""
        import torch, time
        start = time.perf_counter()
        def f(x):
            return torch.sin(x) * x.shape[0]
        def size():
            return 2 + int((time.perf_counter() - start) * 20)
        """)
    )

    report = bench(notebook, "f(torch.ones(size()))", f"{EAGERLY} --dynamic false --budget 1")

    found = report.variant("aot_eager")
    assert found.thrown_out > 0
    assert not next(check for check in report.checks if check.name == "compiles in timing").passed
    # A compile takes some ten milliseconds and a run a tenth of one: one that got in would stand out.
    assert not found.samples_s or max(found.samples_s) < 5e-3


def test_an_iterator_is_not_drawn_from_twice(notebook: Notebook) -> None:
    """A cell that takes the next item of an iterator runs once; its callee is measured alone, and a note says why."""
    notebook.ok(f"{CHAIN}\nbatches = iter([x, x + 1, x + 2])")

    report = bench(notebook, "y = chain(next(batches))", EAGERLY)

    assert "runs once: `batches` is an iterator" in report.notes[0]
    assert report.mode == "function"
    assert same_bits(notebook.get("y"), notebook.get("chain")(notebook.get("x")))
    assert len(list(notebook.get("batches"))) == 2


def test_a_file_is_written_once(notebook: Notebook, tmp_path: object) -> None:
    """A cell that writes to a file is stopped before it writes twice, and runs once."""
    notebook.shell.user_ns["path"] = str(tmp_path / "log.txt")
    notebook.ok(CHAIN)

    report = bench(notebook, "y = chain(x)\nwith open(path, 'a') as f:\n    n = f.write('line')", EAGERLY)

    assert report.notes[0].startswith("The cell runs once: `open")
    assert (tmp_path / "log.txt").read_text() == "line"


def test_a_cell_that_raises_raises_once_and_as_itself(notebook: Notebook) -> None:
    """The cell's own exception reaches the notebook from its own run, and the report says that nothing was timed."""
    notebook.ok(CHAIN)
    notebook.ok("tries = []")

    result, report = ran(notebook, "tries.append(1)\ny = chain(x)\ny.nonsense", EAGERLY)

    assert isinstance(result.error, AttributeError)
    assert notebook.get("tries") == [1]
    assert "raises in eager" in report.error


def test_nothing_to_compile_is_said(notebook: Notebook) -> None:
    """A cell that calls nothing that can be compiled runs plainly, with a line that says what to do."""
    notebook.ok("import torch\nclass Thing:\n    def __call__(self):\n        return 1\nthing = Thing()")

    result, report = ran(notebook, "thing()", EAGERLY)

    assert result.value == 1
    assert "torch.compile" in report.error


def test_a_missing_compiler_is_a_row(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a C++ compiler, Inductor is a row with its reason and the other rows stand."""
    from torch._inductor import config

    monkeypatch.setenv("CXX", "/nowhere/g++")
    notebook.ok(CHAIN)

    with config.patch({"cpp.cxx": ("/nowhere/g++",)}):
        report = bench(notebook, "y = chain(x)", "--backends inductor,aot_eager --cold")

    assert "C++ compiler" in report.variant("inductor").error
    assert report.variant("inductor").median_s is None
    assert report.variant("aot_eager").median_s > 0


@pytest.fixture
def wrong_backend() -> Iterator[str]:
    """A backend whose results are off by a tenth."""
    from torch._dynamo import register_backend
    from torch._dynamo.backends import registry

    def cm_wrong(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        return lambda *args: tuple(out * 1.1 for out in gm(*args))

    register_backend(cm_wrong)
    yield "cm_wrong"
    registry._COMPILER_FNS.pop("cm_wrong", None)


def test_wrong_results_are_an_alarm_and_the_side_is_named(notebook: Notebook, wrong_backend: str) -> None:
    """A variant that computes something else is said to be off, by comparison with a float64 run."""
    notebook.ok(CHAIN)

    report = bench(notebook, "y = chain(x)", f"--backends {wrong_backend},aot_eager")

    found = report.variant(wrong_backend)
    assert found.matches_eager is False
    assert "`y[" in found.differs
    assert "variant is off" in found.differs
    assert 0.05 < found.max_rel_error < 0.2
    assert report.variant("aot_eager").matches_eager


def test_a_variant_that_raises_is_a_row(notebook: Notebook) -> None:
    """With --fullgraph a graph break is the variant's row, with its reason, and eager stands."""
    notebook.ok("import torch\ndef f(x):\n    print(end='')\n    return x + 1\nx = torch.ones(3)")

    report = bench(notebook, "f(x)", f"{EAGERLY} --fullgraph")

    assert "graph break" in report.variant("aot_eager").error
    assert report.variant("eager").median_s > 0


def test_a_compiled_function_is_measured_as_it_is_written(notebook: Notebook) -> None:
    """What is compiled already is measured so, against its original in eager."""
    notebook.ok(f"{CHAIN}\nfast = torch.compile(chain, backend='aot_eager')")

    report = bench(notebook, "y = fast(x)")

    assert variants(report) == ["eager", "as written"]
    assert report.variant("as written").matches_eager
    assert [(target.name, target.how) for target in report.targets] == [("fast", "observed")]


@pytest.mark.parametrize("line", ["model", "helper"])
def test_named_targets_are_compiled_wherever_they_are_called(notebook: Notebook, line: str) -> None:
    """With a target's name exactly that is compiled, and afterwards the name stands for what it stood for."""
    notebook.ok(
        "import torch\nmodel = torch.nn.Linear(4, 4)\ndef helper(x):\n    return model(x) + 1\n"
        "def outer(x):\n    return helper(x) * 2\nx = torch.ones(2, 4)"
    )
    value = notebook.get(line)

    report = bench(notebook, "y = outer(x)", f"{EAGERLY} {line}")

    assert report.mode == "named"
    assert report.variant("aot_eager").graph_count == 1
    assert notebook.get(line) is value
    assert notebook.get("model")._compiled_call_impl is None


def test_a_cell_without_calls_is_measured_as_one_function(notebook: Notebook) -> None:
    """A cell that calls nothing of the user's is compiled as one function, and the report says so."""
    notebook.ok("import torch\na = torch.ones(8, 8)")

    report = bench(notebook, "b = a @ a\nc = b + 1\nc.sum()", EAGERLY)

    assert report.mode == "cell"
    assert report.variant("aot_eager").graph_count == 1
    assert report.variant("aot_eager").matches_eager
    assert same_bits(notebook.get("c"), torch.full((8, 8), 9.0))


def test_inductors_own_random_numbers_are_no_difference(notebook: Notebook) -> None:
    """Where Inductor's dropout differs only in its draws, the report says so and calls the results the same."""
    notebook.ok("import torch\ndef f(x):\n    return torch.nn.functional.dropout(x, 0.5) + 1\nx = torch.ones(64)")

    report = bench(notebook, "y = f(x)")

    assert report.variant("default").matches_eager
    assert any("random" in note for note in report.notes)


def test_bad_options_are_one_line_and_nothing_is_lost(notebook: Notebook) -> None:
    """A wrong option ends the cell with a line that says what there is."""
    notebook.ok(CHAIN)
    for line, said in {
        "--modes fast": "there is no mode 'fast'",
        "--backends nothing": "there is no backend 'nothing'",
        "--budget -1": "seconds",
        "--calls none": "number of runs",
        "nobody": "there is no `nobody`",
        "--cell chain": "either --cell or targets",
        "--nonsense": "--nonsense",
        "--help": "%compile_bench? shows",
    }.items():
        result = notebook.run(f"%%compile_bench {line}\ny = chain(x)")
        assert type(result.error).__name__ == "UsageError"
        assert said in str(result.error) + result.stderr


def test_the_line_magic_gives_the_value(notebook: Notebook) -> None:
    """%compile_bench f(x) measures the statement and gives its value."""
    notebook.ok(CHAIN)

    result = notebook.ok("z = %compile_bench --budget 0.1 --backends aot_eager chain(x)")

    assert notebook.get("_compile_report").variant("aot_eager").median_s > 0
    assert same_bits(notebook.get("z"), notebook.get("chain")(notebook.get("x")))
    assert result.error is None


def test_an_interrupt_puts_all_back_and_shows_what_there_is(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interrupt in the timing the state is that of before the cell, and the report holds what was measured."""
    notebook.ok(f"{CHAIN}\nw = torch.zeros(4)\nruns = []")
    notebook.ok("def work(x):\n    w.add_(1)\n    return chain(x)")
    from compile_magic.measure import bench as module

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "STEPS", [*module.STEPS[:6], stopped])
    result, report = ran(notebook, "runs.append(1)\ny = work(x)", EAGERLY)

    assert isinstance(result.error, KeyboardInterrupt)
    assert report.interrupted
    assert report.variant("aot_eager").median_s > 0
    assert notebook.get("runs") == []
    assert same_bits(notebook.get("w"), torch.zeros(4))
    assert "y" not in notebook.shell.user_ns


def test_a_fault_of_ours_never_takes_the_cell_away(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the bench itself fails, one line says so and the cell has run."""
    notebook.ok(CHAIN)
    from compile_magic.measure import bench as module

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(module, "STEPS", [*module.STEPS[:4], broken])
    result = notebook.ok(f"%%compile_bench {EAGERLY}\ny = chain(x)")

    assert "a fault" in result.stderr
    assert notebook.get("y").shape == (64, 64)


def test_python_api(notebook: Notebook) -> None:
    """compile_magic.bench(fn, *args) gives the same report without a notebook."""
    del notebook

    def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        x.add_(1)
        return x * by

    x = torch.zeros(4)
    report = compile_magic.Bencher(backends=("aot_eager",), budget_s=0.1)(scaled, x, by=3.0)

    assert report.mode == "function"
    assert report.variant("aot_eager").matches_eager
    assert same_bits(x, torch.zeros(4))
