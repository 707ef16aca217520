"""The float64 run: the same code as written, with the values that an independently written float64 twin gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from compile_magic.measure.results.float64 import Float64
from compile_magic.measure.results.twins import TWINS

# Takes what turns a float32 tensor or module into one of the twin's dtype: nothing in the run, .double() in the twin.
Cell = Callable[[Callable[[Any], Any]], tuple[Any, ...]]

CELLS: list[Cell] = []


def cell(function: Cell) -> Cell:
    CELLS.append(function)
    return function


def double(value: Any) -> Any:
    return value.double() if isinstance(value, nn.Module) else value.detach().double()


def leaf(value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_()


def grads(module: nn.Module) -> tuple[Any, ...]:
    return tuple(parameter.grad for parameter in module.parameters())


@cell
def linear(make):
    model, x = make(nn.Linear(16, 8)), leaf(make(torch.randn(4, 16)))
    y = model(x).relu()
    y.square().mean().backward()
    return (y, x.grad, *grads(model))


@cell
def convolution(make):
    model, x = make(nn.Conv2d(3, 6, 3, padding=1, stride=2)), leaf(make(torch.randn(2, 3, 9, 9)))
    y = functional.max_pool2d(model(x), 2)
    y.square().sum().backward()
    return (y, x.grad, *grads(model))


@cell
def batch_norm_in_training(make):
    model, x = make(nn.BatchNorm2d(3)), leaf(make(torch.randn(4, 3, 5, 5)))
    y = model(model(x) * 2)
    (y**3).sum().backward()
    return (y, x.grad, model.running_mean, model.running_var, model.num_batches_tracked, *grads(model))


@cell
def batch_norm_in_evaluation(make):
    model, x = make(nn.BatchNorm1d(3)).eval(), make(torch.randn(4, 3))
    model.running_var.copy_(make(torch.rand(3)) + 1)
    return (model(x),)


@cell
def layer_norm_and_softmax(make):
    model, x = make(nn.LayerNorm(12)), leaf(make(torch.randn(5, 12)))
    y = model(x).softmax(-1).log()
    loss = functional.cross_entropy(y, torch.tensor([0, 3, 11, 2, 1]))
    loss.backward()
    return (y, loss, x.grad, *grads(model))


@cell
def attention(make):
    q, k, v = (leaf(make(torch.randn(2, 3, 7, 8))) for _ in range(3))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    y.square().sum().backward()
    return y, q.grad, k.grad, v.grad


@cell
def encoder_layer_without_gradients(make):
    model, x = make(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)).eval(), make(torch.randn(2, 5, 16))
    with torch.no_grad():
        return (model(x),)


@cell
def lstm(make):
    model, x = make(nn.LSTM(6, 5, num_layers=2, bidirectional=True)), leaf(make(torch.randn(4, 3, 6)))
    y, (h, c) = model(x)
    (y.sum() + (h * c).sum()).backward()
    return (y, h, c, x.grad, *grads(model))


@cell
def gru_in_inference_mode(make):
    model, x = make(nn.GRU(6, 5)), make(torch.randn(4, 3, 6))
    with torch.inference_mode():
        return model(x)


def training(make, optimizer, steps=4, **options):
    model, x = make(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))), make(torch.randn(32, 8))
    optimizer = optimizer(model.parameters(), **options)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    state = [value for kept in optimizer.state.values() for value in kept.values()]
    return (loss, *model.parameters(), *grads(model), *state)


@cell
def adamw(make):
    return training(make, torch.optim.AdamW, lr=1e-2)


@cell
def adamw_one_by_one(make):
    return training(make, torch.optim.AdamW, lr=1e-2, foreach=False, amsgrad=True)


@cell
def adamw_foreach(make):
    return training(make, torch.optim.AdamW, lr=1e-2, foreach=True)


@cell
def adamw_fused(make):
    return training(make, torch.optim.AdamW, lr=1e-2, fused=True)


@cell
def sgd_with_momentum(make):
    return training(make, torch.optim.SGD, lr=1e-2, momentum=0.9, nesterov=True)


@cell
def lbfgs(make):
    w, x = leaf(make(torch.randn(6))), make(torch.randn(20, 6))
    optimizer = torch.optim.LBFGS([w], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = ((x @ w).tanh() - 0.5).square().mean()
        loss.backward()
        return loss

    return optimizer.step(closure), w


@cell
def gradients_add_up(make):
    model, x = make(nn.Linear(5, 5)), make(torch.randn(3, 5))
    for _ in range(3):
        model(x).square().sum().backward()
    return grads(model)


@cell
def in_place_on_views(make):
    x = make(torch.randn(6, 4))
    row, column = x[2], x.t()[1]
    row.mul_(1 / 3)
    column.add_(row[0]).exp_()
    x[:, 3] = x[:, 0] / 7
    x.data.div_(3)
    return x, row, column


@cell
def out_arguments(make):
    a, b, result = make(torch.randn(5)), make(torch.randn(5)), make(torch.empty(0))
    other = make(torch.zeros(3, 5))
    torch.div(a, b, out=result)
    torch.mul(result, 1 / 3, out=other[1])
    return result, other


@cell
def indexing(make):
    x, index = make(torch.randn(8)), torch.tensor([1, 1, 5])
    x[index] = make(torch.randn(3)) / 3
    x.index_put_((index,), make(torch.randn(3)) / 3, accumulate=True)
    return x, x[x > 0], x.argsort(), (x > 0).sum(), x.topk(3)


@cell
def scatter(make):
    x, index = make(torch.randn(3, 4)), torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
    y = torch.zeros_like(x).scatter_add_(0, index, x / 3)
    return y, y.gather(0, index), torch.stack([y, x]).cumsum(0)


@cell
def complex_numbers(make):
    x = leaf(make(torch.randn(4, 6)))
    z = torch.fft.fft(x) * torch.polar(x.abs(), x)
    w = (z.conj() * z).real + z.imag.exp() + torch.view_as_real(z)[..., 1]
    w.sum().backward()
    z.detach().conj().mul_(1 / 3)
    return z, w, x.grad, z.conj().imag


@cell
def python_numbers(make):
    x = make(torch.randn(7)) / 3
    scale = float(x.abs().max())
    return scale, x / scale, x.sum().item(), bool(x.sum() > 0)


@cell
def whole_numbers_become_fractions(make):
    n = make(torch.arange(1, 8))
    return n / 3, n * make(torch.tensor([1 / 3])), (make(n > 3)) * 0.1, n.to(make(torch.ones(1)).dtype) / 7


@cell
def linear_algebra(make):
    x = make(torch.randn(5, 5))
    spd = x @ x.T + make(torch.eye(5))
    return torch.linalg.cholesky(spd), torch.linalg.solve(spd, x), torch.einsum("ij,kj->ik", x, spd)


@cell
def embeddings(make):
    model = make(nn.Embedding(10, 4))
    y = functional.normalize(model(torch.tensor([1, 1, 7])), dim=-1)
    y.square().sum(0)[0].backward()
    return (y, *grads(model))


@cell
def checkpointed_and_functional(make):
    from torch.utils.checkpoint import checkpoint

    model, x = make(nn.Linear(4, 4)), leaf(make(torch.randn(3, 4)))
    y = checkpoint(lambda v: model(v).sin(), x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad, torch.func.vmap(torch.func.grad(lambda v: v.exp().sum()))(x)


@cell
def replaced_data(make):
    model = make(nn.Linear(3, 3))
    model.weight.data = model.weight.data / 3
    model.weight.data.copy_(model.weight.data.cos())
    return model.weight, model(make(torch.ones(2, 3)))


def flat(value: Any) -> list[Any]:
    return [one for part in value for one in flat(part)] if isinstance(value, (tuple, list)) else [value]


def plain(body: Cell, make: Callable[[Any], Any]) -> list[Any]:
    torch.manual_seed(0)
    return flat(body(make))


def precise(body: Cell) -> tuple[list[Any], Float64, list[Any]]:
    torch.manual_seed(0)
    with Float64() as mode:
        out = flat(body(lambda value: value))
    return [mode.value_of(one) if isinstance(one, torch.Tensor) else one for one in out], mode, out


@pytest.mark.parametrize("body", CELLS, ids=lambda body: body.__name__)
def test_values_are_those_of_a_float64_twin(body: Cell) -> None:
    """Outputs, gradients and what is written in place agree with the program written in float64 to ten digits."""
    found, mode, faces = precise(body)
    expected = plain(body, double)
    written = plain(body, lambda value: value)

    for ours, twin, face, eager in zip(found, expected, faces, written, strict=True):
        torch.testing.assert_close(ours, twin, rtol=1e-10, atol=1e-13, check_dtype=False)
        if isinstance(face, torch.Tensor):
            assert (face.dtype, face.shape, face.stride()) == (eager.dtype, eager.shape, eager.stride())
            assert ours.dtype in (torch.float64, torch.complex128) or not face.is_floating_point()
            torch.testing.assert_close(face, ours.to(face.dtype))
    assert mode.fell_back == {}


def test_state_from_outside_is_written_in_float64() -> None:
    """A model, inputs and an optimizer that exist before the run have float64 values after it, running means too."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh()), torch.randn(8, 6)
    twin, precise_x = copy.deepcopy(model).double(), x.double()

    def step(module: nn.Module, batch: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        batch.mul_(1 / 3)
        module(batch)[:, 0].sum().backward()
        optimizer.step()

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step(twin, precise_x, torch.optim.AdamW(twin.parameters(), lr=0.1))
    with Float64() as mode:
        step(model, x, optimizer)

    torch.testing.assert_close(mode.value_of(x), precise_x, rtol=1e-12, atol=0)
    for ours, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mode.value_of(ours), theirs, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(ours, theirs.to(ours.dtype))


def test_autocast_stays_in_float64() -> None:
    """Autocast's bfloat16 is what the program sees, and its values are those without any cast."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1)), torch.randn(4, 8)
    twin = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1)).double()
    twin.load_state_dict(model.state_dict())
    twin(x.double())[:, 0].sum().backward()
    with Float64() as mode, torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model[0](x)
        model(x)[:, 0].sum().backward()

    assert hidden.dtype == torch.bfloat16
    torch.testing.assert_close(mode.value_of(hidden), twin[0](x.double()), rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert ours.grad.dtype == torch.float32
        torch.testing.assert_close(mode.value_of(ours.grad), theirs.grad, rtol=1e-10, atol=1e-12)


def test_half_precision_model_is_computed_in_float64() -> None:
    """A model in float16, with a sum that overflows there, has its float64 values."""
    torch.manual_seed(0)
    model, x = nn.Linear(8, 8).half(), (torch.randn(4, 8) * 100).half()
    with Float64() as mode, torch.no_grad():
        y = (model(x) * 300).square().softmax(-1)
    expected = (functional.linear(x.double(), model.weight.double(), model.bias.double()) * 300).square().softmax(-1)

    torch.testing.assert_close(mode.value_of(y), expected, rtol=1e-10, atol=1e-12)


def test_dropout_drops_the_same_elements() -> None:
    """Dropout draws the mask of the plain run, and scales what it keeps in float64."""
    x = torch.randn(1000)
    torch.manual_seed(3)
    plain_run = functional.dropout(x / 3, 0.3)
    torch.manual_seed(3)
    with Float64() as mode:
        y = functional.dropout(x / 3, 0.3)

    torch.testing.assert_close(
        mode.value_of(y), torch.where(plain_run != 0, x.double() / 3 / 0.7, 0.0), rtol=1e-7, atol=0
    )
    assert torch.equal(y == 0, plain_run == 0)


DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "randn": lambda: torch.randn(50),
    "half": lambda: torch.randn(50, dtype=torch.float16),
    "uniform_": lambda: torch.zeros(50).uniform_(1, 3),
    "normal": lambda: torch.normal(torch.ones(50) / 3, 2.0),
    "bernoulli": lambda: torch.bernoulli(torch.full((50,), 0.4)),
    "multinomial": lambda: torch.multinomial(torch.rand(50), 5),
    "rand_like": lambda: torch.rand_like(torch.ones(50) / 3),
    "randperm": lambda: torch.randperm(50),
    "generator": lambda: torch.randn(50, generator=torch.Generator().manual_seed(5)),
    "init": lambda: nn.Linear(5, 5).weight.detach() * 1,
    "rrelu": lambda: functional.rrelu(torch.linspace(-3, 3, 50), training=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_those_of_the_plain_run(name: str) -> None:
    """Whatever is drawn is what the plain run draws, and so is what is drawn after it."""
    torch.manual_seed(1)
    expected = DRAWS[name](), torch.rand(5)
    torch.manual_seed(1)
    with Float64() as mode:
        found = DRAWS[name](), torch.rand(5)

    assert torch.equal(mode.value_of(found[0]).to(expected[0].dtype), expected[0])
    assert torch.equal(found[1], expected[1])


@pytest.mark.parametrize("dropped", [False, True], ids=["kept", "dropped"])
def test_native_dropout_is_written_out(dropped: bool) -> None:
    """The fused dropout of accelerators keeps its mask and is scaled in float64, also where it drops everything."""
    x, p = torch.randn(64), 1.0 if dropped else 0.25
    with Float64() as mode:
        y, mask = torch.ops.aten.native_dropout(x, p, True)

    torch.testing.assert_close(
        mode.value_of(y), torch.zeros(64).double() if dropped else x.double() * mask / 0.75, rtol=1e-12, atol=0
    )
    assert mode.fell_back == {}


@pytest.mark.parametrize("masked", [False, True], ids=["causal", "masked"])
def test_fused_attention_written_out_has_the_gradients_of_autograd(masked: bool) -> None:
    """Attention and its backward, with grouped heads, are those of the unfused formula differentiated by torch."""
    torch.manual_seed(0)
    q = torch.randn(2, 4, 6, 8, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 2, 6, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    bias = torch.randn(2, 4, 6, 6, dtype=torch.float64, requires_grad=True) if masked else None
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        y = functional.scaled_dot_product_attention(q, k, v, bias, is_causal=not masked, enable_gqa=True)
    grad = torch.randn_like(y)
    inputs = [q, k, v, *([bias] if bias is not None else [])]
    expected = torch.autograd.grad(y, inputs, grad)
    given = {"query": q, "key": k, "value": v, "attn_bias": bias, "is_causal": not masked, "grad_out_": grad}
    name = "aten::_scaled_dot_product_efficient_attention"

    with torch.no_grad():
        torch.testing.assert_close(TWINS[name](given, (y, None))[0], y)
        found = TWINS[f"{name}_backward"](given, (*inputs, *([] if masked else [None])))
    torch.testing.assert_close(found[: len(inputs)], expected)


@torch.library.custom_op("compile_magic_tests::float32_only", mutates_args=("x",))
def float32_only(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """An op of the user's that has no float64 form, and writes to its first argument."""
    if x.dtype != torch.float32:
        raise TypeError("float32 only")
    x.add_(1)
    return x * y


def test_an_op_without_float64_runs_in_its_own_dtype_and_is_counted() -> None:
    """Such an op gives what it gives in its own dtype, writes included, and what follows goes on from there."""
    x, y = torch.ones(3), torch.full((3,), 2.0)
    with Float64() as mode:
        x.add_(1)
        z = float32_only(x, y)
        after = z / 3

    assert (mode.fallbacks, dict(mode.fell_back)) == (1, {"compile_magic_tests::float32_only": 1})
    assert torch.equal(mode.value_of(x), torch.full((3,), 3.0).double())
    assert torch.equal(mode.value_of(after), torch.full((3,), 6.0).double() / 3)


def test_a_grad_scaler_scales_and_steps() -> None:
    """Scaling a loss by 65536 and back changes no digit of the step that is taken."""
    torch.manual_seed(0)
    model, x = nn.Linear(4, 1), torch.randn(8, 4)
    twin = nn.Linear(4, 1).double()
    twin.load_state_dict(model.state_dict())
    twin(x.double()).square().sum().backward()
    torch.optim.SGD(twin.parameters(), 0.1).step()
    with Float64() as mode:
        scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(model.parameters(), 0.1)
        scaler.scale(model(x).square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    torch.testing.assert_close(mode.value_of(model.weight), twin.weight.detach(), rtol=1e-12, atol=0)
    assert (scaler.get_scale(), mode.fell_back) == (65536.0, {})


def test_a_grad_scaler_sees_an_overflow() -> None:
    """Where a gradient is infinite, the step is left out and the scale halved, as in a plain run."""
    model = nn.Linear(4, 1)
    before = model.weight.detach().clone()
    with Float64() as mode:
        scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(model.parameters(), 0.1)
        scaler.scale(model(torch.full((2, 4), float("inf"))).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    assert scaler.get_scale() == 32768
    assert torch.equal(mode.value_of(model.weight), before.double())


def test_whole_numbers_are_written_once() -> None:
    """A mask that is changed in place by floating-point numbers is changed once, though the op runs twice."""
    flags = torch.tensor([True, False, True])
    with Float64():
        flags.logical_xor_(torch.tensor([1.0, 1.0, 0.0]))

    assert flags.tolist() == [False, True, True]


@pytest.mark.gpu
@pytest.mark.parametrize("body", CELLS, ids=lambda body: body.__name__)
def test_values_on_a_gpu_are_those_of_a_float64_twin(body: Cell) -> None:
    """The same on an accelerator, whose recurrent, attention and optimizer kernels are others."""
    with torch.device("cuda"):
        found, mode, _ = precise(body)
        expected = plain(body, double)

    for ours, twin in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, twin, rtol=1e-8, atol=1e-11, check_dtype=False)
    assert mode.fell_back == {}


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"])
@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_on_a_gpu_has_float64_values(backend: str, causal: bool) -> None:
    """Each fused attention in float16, with its softmax to float32 behind it, has the values of the float64 formula."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 64, 32, device="cuda", dtype=torch.float16).requires_grad_() for _ in range(3))
    with Float64() as mode, torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        y.softmax(-1, dtype=torch.float32)[..., 0].sum().backward()
    twins = [one.detach().double().requires_grad_() for one in (q, k, v)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = functional.scaled_dot_product_attention(*twins, is_causal=causal)
    expected.softmax(-1)[..., 0].sum().backward()

    torch.testing.assert_close(mode.value_of(y), expected.detach(), rtol=1e-9, atol=1e-12)
    for ours, twin in zip((q, k, v), twins, strict=True):
        torch.testing.assert_close(mode.value_of(ours.grad), twin.grad, rtol=1e-9, atol=1e-12)
    assert mode.fell_back == {}


def test_higher_order_ops_run_as_written() -> None:
    """torch.cond runs both ways in its own dtype and is counted, and what comes before it keeps its values."""
    x = torch.ones(3)
    # As in a bench: with a mode alone, Dynamo marks the wrapper of torch.cond as skipped for the rest of the process.
    with torch.compiler.set_stance("force_eager"), Float64() as mode:
        y = x / 3
        z = torch.cond(y.sum() > 0, lambda v: v + 1, lambda v: v - 1, (y,))

    assert mode.fallbacks == 1
    torch.testing.assert_close(z, torch.full((3,), 4 / 3))


def test_sparse_tensors_go_through() -> None:
    """A product with a sparse matrix has float64 values, and an op that has a sparse result goes on as written."""
    dense = torch.tensor([[0.0, 0.1], [0.3, 0.0]])
    x = torch.tensor([[0.7], [0.9]])
    with Float64() as mode:
        y = dense.to_sparse() @ x
        z = (dense.to_sparse() * 3).to_dense()

    assert torch.equal(mode.value_of(y), dense.double() @ x.double())
    torch.testing.assert_close(mode.value_of(z).float(), dense * 3)


def test_errors_are_those_of_the_program() -> None:
    """An error in the program comes out as in a plain run, and the mode's switches are put back."""
    before = torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled, torch.get_default_dtype()
    with pytest.raises(RuntimeError, match="size of tensor a"), Float64():
        torch.ones(3) + torch.ones(4)

    assert (torch.backends.cudnn.enabled, torch.backends.mkldnn.enabled, torch.get_default_dtype()) == before


def test_values_of_freed_tensors_are_let_go() -> None:
    """A long loop doesn't pile up float64 values, and memory used again isn't mistaken for what was there before."""
    with Float64() as mode:
        for number in range(2000):
            x = torch.full((50,), float(number))
            y = x / 3
            assert float(y[0]) == number / 3

    assert len(mode._shadows._kept) < 600


def test_conditions_see_the_dtype_as_written() -> None:
    """Code that asks for a dtype, casts, and reinterprets bits behaves as in a plain run."""
    with Float64() as mode:
        x = torch.ones(4) / 3
        bits = x.view(torch.int32)
        half = x.half()
        bits[0] = 0

    assert (x.dtype, half.dtype, torch.finfo(half.dtype).bits) == (torch.float32, torch.float16, 16)
    assert torch.equal(mode.value_of(half), torch.ones(4).double() / 3)
    assert mode.value_of(x)[0] == 0
