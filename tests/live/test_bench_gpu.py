"""%%compile_bench on a GPU: run by hand (`pytest -m gpu`), since CI has none."""

from __future__ import annotations

import gc

import pytest
import torch
from bench import bench
from bench import ran
from bench import same_bits
from cases import cases
from notebook import Notebook

pytestmark = pytest.mark.gpu

CASES = {case.id: case for case in cases("%%compile_bench", gpu=True)}

CHAIN = """
import torch
def chain(x):
    for _ in range(20):
        x = torch.nn.functional.gelu(x * 1.01 + 0.01)
    return x
x = torch.randn(4096, 4096, device="cuda")
"""
MLP = """
import torch
net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)]).cuda().half().requires_grad_(False)
z = torch.randn(8, 64, device="cuda", dtype=torch.half)
"""
TRAINING = """
import torch
from torch import nn
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10)).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(96, 64, device="cuda"), torch.randint(0, 10, (96,), device="cuda")
def loss_fn(out, y):
    return nn.functional.cross_entropy(out, y)
"""
STEP = """
opt.zero_grad()
with torch.autocast("cuda", dtype=torch.float16):
    loss = loss_fn(model(x), y)
scaler.scale(loss).backward()
scaler.step(opt)
scaler.update()
"""


def test_the_gelu_chain_is_bound_by_arithmetic(notebook: Notebook) -> None:
    """Row 1: 60 kernels become one, the bytes are counted, and arithmetic is what binds, not memory."""
    notebook.ok(CHAIN)

    report = bench(notebook, "y = chain(x)", "--budget 1")

    eager, default = report.variants
    assert (eager.kernels_per_call, default.kernels_per_call) == (60, 1)
    assert default.speedup_interval[0] > 3
    assert default.matches_eager
    assert default.busy_s < default.median_s < eager.median_s
    assert report.roofline.bytes_moved == 2 * 4 * 4096**2
    assert report.roofline.bound_by == "arithmetic"
    assert 50 < default.percent_of_floor < 105
    assert eager.peak_memory_bytes > default.peak_memory_bytes
    assert 0 < default.break_even_calls < 1e6


def test_an_overhead_bound_mlp_needs_cudagraphs(notebook: Notebook) -> None:
    """Rows 25 and 28: launches bind, reduce-overhead is what helps, and each variant has its phases."""
    notebook.ok(MLP)

    report = bench(notebook, "y = net(z)", "--modes default,reduce-overhead --budget 1 --calls 1e6")

    assert report.roofline.bound_by == "launches"
    assert report.variant("reduce-overhead").speedup > 1.2
    assert report.variant("default").speedup < 1.2
    assert all(one.matches_eager for one in report.variants[1:])
    assert {"dynamo", "inductor"} <= set(report.variant("default").phases)
    assert report.job_runs == 1_000_000


def test_why_cudagraphs_are_not_used_is_said(notebook: Notebook) -> None:
    """Row 25: a graph that mutates its input gets no cudagraph, and the row says why."""
    notebook.ok(
        "import torch\ndef f(x, i):\n    return x[i.item()] * 2 if False else (x.cpu() + 1).cuda()\n"
        "x = torch.ones(8, device='cuda'); i = torch.tensor(1)"
    )

    report = bench(notebook, "y = f(x, i)", "--modes reduce-overhead")

    assert report.variant("reduce-overhead").error == ""
    assert report.variant("reduce-overhead").matches_eager


def test_a_training_step_leaves_what_one_plain_step_leaves(notebook: Notebook) -> None:
    """With dropout, batch norm, AdamW, autocast and a GradScaler, everything equals one plain step, bit by bit."""
    plain = _after(notebook, STEP)

    notebook.ok(TRAINING)
    report = bench(notebook, STEP, "--modes default,reduce-overhead --budget 0.5")

    assert [one.error for one in report.variants] == ["", "", ""]
    assert all(one.matches_eager for one in report.variants[1:])
    assert next(check for check in report.checks if check.name == "state").passed
    left = _state(notebook)
    assert [key for key in plain if not same_bits(plain[key], left[key])] == []


def _after(notebook: Notebook, step: str) -> dict[str, object]:
    notebook.ok(TRAINING)
    notebook.ok(step)
    return _state(notebook)


def _state(notebook: Notebook) -> dict[str, object]:
    model, opt = notebook.get("model"), notebook.get("opt")
    found = {f"model {name}": value.cpu().clone() for name, value in model.state_dict().items()}
    found.update({f"grad {name}": p.grad.cpu().clone() for name, p in model.named_parameters()})
    for number, kept in opt.state_dict()["state"].items():
        found.update({f"opt {number} {name}": value.cpu().clone() for name, value in kept.items()})
    found["loss"] = notebook.get("loss").detach().cpu().clone()
    found["scaler"] = notebook.get("scaler").state_dict()
    found["rng"], found["device rng"] = torch.get_rng_state(), torch.cuda.get_rng_state()
    return found


def test_time_without_synchronize_is_not_what_is_reported(notebook: Notebook) -> None:
    """tim-missing-sync: ten products of 4096 take their time, whatever clock the cell reads by itself."""
    case = CASES["tim-missing-sync"]
    notebook.ok("\n".join(case.setup))

    _, report = ran(notebook, case.cell, "--budget 1")

    eager, default = report.variants
    # 1.37 TFLOP; no GPU does a float32 product at more than 200 TFLOP/s.
    assert eager.median_s > 1.37e12 / 200e12
    assert eager.median_s == pytest.approx(eager.device_median_s, rel=0.05)
    assert default.matches_eager


def test_an_overwritten_output_is_explained(notebook: Notebook) -> None:
    """tim-cudagraph-overwrite: the row says what happened and what to do, and doesn't blame the bench."""
    case = CASES["tim-cudagraph-overwrite"]
    notebook.ok("\n".join(case.setup))

    _, report = ran(notebook, case.cell)

    error = report.variant("as written").error
    assert "overwritten" in error
    assert "clone()" in error
    assert "cudagraph_mark_step_begin()" in error
    assert report.variant("eager").median_s > 0


def test_max_autotune_is_a_row_with_its_compile_time(notebook: Notebook) -> None:
    """Rows 26 and 29: max-autotune's compile time, and after how many runs it pays, or never."""
    notebook.ok(
        "import torch\ndef f(a):\n    return torch.relu(a @ a)\n"
        "a = torch.randn(1024, 1024, device='cuda', dtype=torch.half)"
    )

    report = bench(notebook, "c = f(a)", "--modes default,max-autotune --calls 1000")

    found = report.variant("max-autotune")
    assert found.error == ""
    assert found.compile_s > report.variant("default").compile_s
    assert found.break_even_calls is None or found.break_even_calls > 0


HALF = """
import torch
big = torch.zeros(int(torch.cuda.mem_get_info()[0] * {share} / 2), device='cuda', dtype=torch.half)
def touch(t):
    t.add_(1)
    return t[:4].clone()
"""


@pytest.mark.parametrize("share", [0.2, 0.49])
def test_a_tensor_as_large_as_the_card_is_put_back_or_left_alone(notebook: Notebook, share: float) -> None:
    """gpu-oom-restore: however much of the memory a cell writes, it is as after one plain run, and no copy is kept."""
    notebook.ok(HALF.format(share=share))
    before = torch.cuda.memory_allocated()

    notebook.ok("%%compile_bench -q --backends eager --budget 0.05\nr = touch(big)")

    big = notebook.get("big")
    assert torch.equal(big.aminmax().min, big.aminmax().max)
    assert big[0].item() == 1.0
    assert torch.cuda.memory_allocated() <= before + 4096


BENCHED = {
    "chain": (CHAIN, "y = chain(x)", "--backends aot_eager"),
    "training": (TRAINING, STEP, "--backends aot_eager"),
    "raises": ("import torch\ndef f(x):\n    return x @ x\nx = torch.ones(2, 3, device='cuda')", "y = f(x)", ""),
    "out of memory": (
        "import torch\ndef f(x):\n    return torch.empty(1 << 42, device='cuda', dtype=torch.uint8)\n"
        "x = torch.ones(2, device='cuda')",
        "y = f(x)",
        "",
    ),
    "refused": ("import torch\ndef f(x):\n    open('/tmp/f', 'w')\nx = torch.ones(1 << 20, device='cuda')", "f(x)", ""),
}


@pytest.mark.parametrize(("setup", "cell", "line"), BENCHED.values(), ids=BENCHED)
def test_a_bench_keeps_no_memory_of_the_device(notebook: Notebook, setup: str, cell: str, line: str) -> None:
    """What is allocated after a benched cell is what is allocated after the same cell run plainly, also by an error."""
    notebook.ok(setup)
    notebook.run(cell)
    notebook.run(cell)
    plain = _allocated()

    notebook.run(f"%%compile_bench -q --budget 0.05 {line}\n{cell}")

    assert _allocated() <= plain + 4096


def _allocated() -> int:
    gc.collect()
    return torch.cuda.memory_allocated()


def test_our_own_profiler_raises_no_alarm(notebook: Notebook) -> None:
    """gpu-tempdir-alarm: effects are looked for in the user's run alone, so kernels, busy time and floor are there."""
    notebook.ok(CHAIN)

    report = bench(notebook, "y = chain(x)", "--backends aot_eager --budget 0.1")

    assert not report.error
    assert [one.kernels_per_call for one in report.variants] == [60, 60]
    assert all(one.busy_s for one in report.variants)
    assert report.roofline is not None
