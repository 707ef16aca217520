"""What a run moves and computes, what a device can do, and the sentence made of both."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import pytest
import torch
from torch.nn import functional

from compile_magic.measure.floor import ceilings
from compile_magic.measure.floor import kernels
from compile_magic.measure.floor.ceilings import Ceilings
from compile_magic.measure.floor.kernels import peak_memory
from compile_magic.measure.floor.kernels import profile
from compile_magic.measure.floor.pointwise import COSTS
from compile_magic.measure.floor.pointwise import CPU_OPS
from compile_magic.measure.floor.pointwise import FMA
from compile_magic.measure.floor.pointwise import GPU_STEPS
from compile_magic.measure.floor.roofline import floor_check
from compile_magic.measure.floor.roofline import percent
from compile_magic.measure.floor.roofline import roofline
from compile_magic.measure.floor.touched import View
from compile_magic.measure.floor.touched import union
from compile_magic.measure.floor.touched import view_of
from compile_magic.measure.floor.traffic import Counted
from compile_magic.measure.floor.traffic import Traffic

CPU = torch.device("cpu")
ONE = 10 * 10 * 4  # the bytes of a 10 x 10 float32


def counted(run: Callable[[], Any], *, held: Callable[[Any], Any] | None = None) -> Counted:
    """What a run of this moves, with what it returns alive at its end."""
    with Traffic() as traffic:
        result = run()
    traffic.finish(held(result) if held is not None else None)
    del result
    return traffic.counted()


def square() -> torch.Tensor:
    return torch.arange(100, dtype=torch.float32).reshape(10, 10)


def moved(run: Callable[[], Any]) -> tuple[int, int]:
    found = counted(run)
    return found.eager_bytes, found.bytes_moved


# --- bytes -----------------------------------------------------------------------------------------------------------


def test_a_chain_moves_each_op_in_eager_and_its_ends_when_fused() -> None:
    """Three pointwise ops read and write three times in eager; fused, the input once and the result once."""
    x = square()
    found = counted(lambda: torch.relu(x * 2 + 1))

    assert (found.eager_bytes, found.bytes_moved, found.op_count, found.largest) == (6 * ONE, 2 * ONE, 3, 100)
    assert found.pointwise == {("mul", "float32"): 100, ("add", "float32"): 100, ("relu", "float32"): 100}
    assert found.flops == {}


def test_a_matrix_product_has_two_flops_for_each_pair() -> None:
    """(8, 16) @ (16, 4) is 8 * 4 sums of 16 products, and moves three matrices."""
    a, b = torch.ones(8, 16), torch.ones(16, 4)
    found = counted(lambda: a @ b)

    assert found.flops == {"float32": 2 * 8 * 16 * 4}
    assert (found.eager_bytes, found.bytes_moved) == (4 * (128 + 64 + 32), 4 * (128 + 64 + 32))


def test_a_training_step_counts_its_backward() -> None:
    """A linear layer's step moves its ops in eager; fused, the input, the weight, its gradient and the loss."""
    layer, x = torch.nn.Linear(16, 8, bias=False), torch.ones(4, 16)

    def step() -> torch.Tensor:
        loss = layer(x).sum()
        loss.backward()
        return loss

    found = counted(step)
    product = 4 * (4 * 16 + 16 * 8 + 4 * 8)
    total = 4 * (4 * 8) + 4
    # The gradient of a sum is one number, expanded.
    ones, backward = 4, 4 * (1 + 4 * 16 + 8 * 16)

    assert found.eager_bytes == product + total + ones + backward
    assert found.bytes_moved == 4 * (4 * 16 + 8 * 16 + 8 * 16 + 1)
    assert found.flops == {"float32": 2 * (2 * 4 * 16 * 8)}


def test_a_lookup_reads_only_the_rows_that_it_takes() -> None:
    """Three rows of eight floats out of a thousand: these, their int64 numbers, and the result."""
    table, rows = torch.ones(1000, 8), torch.tensor([5, 7, 900])
    taken = 3 * 8 * 4

    for look_up in (
        lambda: functional.embedding(rows, table),
        lambda: table[rows],
        lambda: table.index_select(0, rows),
        lambda: torch.gather(table, 0, rows[:, None].expand(3, 8)),
    ):
        assert moved(look_up) == (2 * taken + 24, 2 * taken + 24)


def test_rows_put_in_are_the_rows_that_are_written() -> None:
    """`table[rows] = values` writes as many bytes as the values have."""
    table, rows, values = torch.ones(1000, 8), torch.tensor([5, 7, 900]), torch.zeros(3, 8)

    def put() -> None:
        table[rows] = values

    assert moved(put) == (2 * 96 + 24, 2 * 96 + 24)


@pytest.mark.parametrize(
    ("run", "read", "written"),
    [
        (lambda x: x[2:4] * 2, 80, 80),
        (lambda x: x[:, ::2] * 2, 200, 200),
        (lambda x: x.t() * 2, 400, 400),
        (lambda x: x[:1].expand(10, 10) + 1, 40, 400),
        (lambda x: torch.mul(*x.chunk(2, dim=-1)), 400, 200),
        (lambda x: torch.mul(x[:6], x[4:]), 400, 240),
        (lambda x: (x + 1) * (x + 2), 400, 400),
        (lambda x: x * x, 400, 400),
        (lambda x: x.view(-1)[::10].contiguous(), 40, 40),
        # Six windows of five that step by one, in the first column: its ten numbers.
        (lambda x: x.unfold(0, 5, 1)[:, 0].sum(), 40, 4),
    ],
)
def test_a_view_moves_what_it_touches(run: Callable[[torch.Tensor], Any], read: int, written: int) -> None:
    """Of each storage that was there the distinct bytes are read once, whatever views they are seen through."""
    x = square()

    assert counted(lambda: run(x)).bytes_moved == read + written


def test_views_alone_move_nothing() -> None:
    """Reshapes, transposes, allocations and questions about a tensor are no work."""
    x = square()
    found = counted(lambda: (x.view(4, 25).t()[1:], x.detach(), torch.empty_like(x), x.unsqueeze_(0).squeeze_(0)))

    assert found == Counted()


def test_what_is_written_in_place_is_read_and_written() -> None:
    """`add_` reads and writes its tensor; `copy_`, `zero_` and `out=` only write it."""
    x, y = square(), square()

    assert moved(lambda: x.add_(1)) == (2 * ONE, 2 * ONE)
    assert moved(lambda: x.copy_(y)) == (2 * ONE, 2 * ONE)
    assert moved(x.zero_) == (ONE, ONE)
    assert moved(lambda: torch.add(x, 1, out=y)) == (2 * ONE, 2 * ONE)
    assert moved(lambda: torch._foreach_add_([x, y], 1)) == (4 * ONE, 4 * ONE)


def test_what_was_just_written_need_not_be_fetched() -> None:
    """After `y.copy_(x)`, `y.mul_(2)` costs a fused run nothing: it has the values at hand."""
    x, y = square(), square()

    assert moved(lambda: y.copy_(x).mul_(2)) == (4 * ONE, 2 * ONE)


def test_results_that_nobody_keeps_are_not_written_when_fused() -> None:
    """A fused run need not write what is gone at the end of the run."""
    x = square()

    def run() -> None:
        torch.add(x * 2, 1)

    assert moved(run) == (4 * ONE, ONE)
    assert counted(lambda: [x * 2, x * 3]).bytes_moved == 3 * ONE


def test_what_autograd_keeps_is_no_result_where_the_results_are_told() -> None:
    """With the results given, the activations saved for a backward don't count as written."""
    x = square().requires_grad_()

    def run() -> torch.Tensor:
        return (x * 2).sigmoid().exp()

    assert counted(run).bytes_moved == 3 * ONE
    assert counted(run, held=lambda result: [result]).bytes_moved == 2 * ONE


def test_a_freed_address_is_another_storage() -> None:
    """Temporaries that get the address of an earlier one aren't taken for it, nor for an input."""
    x = square()

    def run() -> torch.Tensor:
        for _ in range(50):
            torch.empty(100).fill_(1)
        return x + 1

    assert moved(run) == (52 * ONE, 2 * ONE)


def test_a_tensor_typed_in_the_cell_is_not_an_input() -> None:
    """`torch.tensor([...])` inside the run is its own, and is gone with it."""
    x = square()

    assert counted(lambda: x * torch.tensor([2.0] * 10)).bytes_moved == 2 * ONE


@pytest.mark.parametrize("seed", range(30))
def test_a_union_counts_each_byte_once(seed: int) -> None:
    """The union of any views has as many bytes as there are distinct addresses in them."""
    chosen = random.Random(seed)  # noqa: S311 - it picks views
    base = torch.arange(720, dtype=chosen.choice([torch.int16, torch.int32, torch.int64]))

    def view() -> torch.Tensor:
        x = base.view(chosen.choice([(720,), (24, 30), (6, 10, 12)]))
        for dim in range(x.ndim):
            start = chosen.randrange(x.shape[dim])
            x = x.narrow(dim, start, chosen.randint(1, x.shape[dim] - start))
        x = x[:: chosen.randint(1, 3)]
        x = x.unfold(-1, min(3, x.shape[-1]), 1) if chosen.random() < 0.3 else x
        return x.transpose(0, -1) if chosen.random() < 0.5 else x

    views = [view() for _ in range(chosen.randint(1, 5))]
    addresses = {number for each in views for number in each.reshape(-1).tolist()}

    assert union([view_of(each) for each in views]) == len(addresses) * base.element_size()


def test_a_union_of_too_many_pieces_is_never_too_large() -> None:
    """Where an exact union would cost too much, the largest view is taken."""
    far = View(0, ((1, 1), (1 << 30, 3)))
    near = View(1, ((1, 1), (1 << 20, 3)))

    assert union([far, near]) == 1 << 30


# --- arithmetic ------------------------------------------------------------------------------------------------------


def test_flops_are_counted_in_the_dtype_that_ops_have() -> None:
    """Under autocast a product is in bfloat16, whatever its inputs are."""
    a = torch.ones(8, 8)

    def run() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return a @ a

    assert counted(run).flops == {"bfloat16": 2 * 8**3}


def test_convolutions_and_attention_have_flops() -> None:
    """A convolution has two for each weight and place, attention four for each query, key and channel that is seen."""
    image, weight = torch.ones(2, 3, 8, 8), torch.ones(5, 3, 3, 3)
    q, k, v = torch.ones(3, 2, 4, 16, 8).unbind()
    whole = 2 * 2 * (2 * 4) * 16 * 16 * 8

    def attend(**kwargs: Any) -> Callable[[], torch.Tensor]:
        return lambda: functional.scaled_dot_product_attention(q, k, v, **kwargs)

    assert counted(lambda: functional.conv2d(image, weight)).flops == {"float32": 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3)}
    assert counted(attend()).flops == {"float32": whole}
    # Of 16 x 16 pairs, a causal one sees 1 + 2 + ... + 16.
    assert counted(attend(is_causal=True)).flops == {"float32": whole * 136 // 256}


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (functional.gelu, {"gelu"}),
        (lambda x: functional.gelu(x, approximate="tanh"), {"gelu_tanh"}),
        (lambda x: torch.softmax(x, -1), {"softmax"}),
        (lambda x: x / 2, {"mul"}),
        (lambda x: x / x, {"div"}),
        (lambda x: x**2, {"mul"}),
        (lambda x: x**0.5, {"sqrt"}),
        (lambda x: x**2.5, {"pow"}),
        (lambda x: x.exp_(), {"exp"}),
        (lambda x: torch.exp(x, out=torch.empty(10, 10)), {"exp"}),
        (lambda x: torch._foreach_exp([x[:5], x[5:]]), {"exp"}),
        (lambda x: x > 2, set()),
        (lambda x: x.long() + 1, set()),
    ],
)
def test_pointwise_ops_are_counted_by_what_they_compute(run: Callable[..., Any], names: set[str]) -> None:
    """An op counts under the name of its arithmetic, with the elements that it computes; integers don't count."""
    x = square()

    assert counted(lambda: run(x)).pointwise == {(name, "float32"): 100 for name in names}


def test_inference_mode_counts_what_no_grad_counts() -> None:
    """Ops that inference mode shows whole (a linear layer) are counted as those that they run."""
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)), torch.ones(3, 8)

    def under(mode: Any) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            with mode():
                return model(x)

        return run

    found = counted(under(torch.inference_mode))
    assert found == counted(under(torch.no_grad))
    assert found.flops == {"float32": 2 * 3 * (8 * 4 + 4 * 2)}


# --- nothing is changed ----------------------------------------------------------------------------------------------


def _step() -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.randn(12, 8)).square().mean()
        loss.backward()
        optimizer.step()
    with torch.inference_mode():
        after = model(torch.randn(12, 8))
    return [loss, after, torch.rand(3), *model.state_dict().values(), *(p.grad for p in model.parameters())]


def test_results_are_the_same_bits() -> None:
    """A training step gives the same bits with the counter on, alone and between other modes."""

    class Other(type(Traffic()).__mro__[1]):  # type: ignore[misc]
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            return op(*args, **(kwargs or {}))

    plain = _step()
    with Traffic() as traffic:
        watched = _step()
    with Other(), Traffic(), Other():
        between = _step()

    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(plain, between, strict=True))
    assert traffic.counted().unread == 0


class Wrapper(torch.Tensor):
    """A wrapper subclass, as people write them: a tensor that holds another."""

    @staticmethod
    def __new__(cls, inner):
        """Look like what is held."""
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        """Run the op on what is held."""

        def bare(value):
            return value.inner if isinstance(value, cls) else value

        return cls(op(*(bare(value) for value in args), **(kwargs or {})).clone())


def test_a_subclass_is_counted_as_what_it_holds() -> None:
    """An op on a wrapper subclass is left to it, and counted as the two ops that it makes of it."""
    x = Wrapper(square())

    assert moved(lambda: x * 2) == (4 * ONE, 2 * ONE)


@pytest.mark.parametrize(
    "run",
    [
        lambda: square().to_sparse() @ square(),
        lambda: square().to_sparse_csr() @ square(),
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2)).coalesce() * 2,
        lambda: torch.quantize_per_tensor(square(), 0.1, 0, torch.qint8).dequantize(),
        lambda: torch.empty(4, device="meta") + 1,
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged) * 2,
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2,
        lambda: square().to_mkldnn().to_dense() if torch.backends.mkldnn.is_available() else square(),
        lambda: torch.ones(4, dtype=torch.complex64).conj() * 2,
        lambda: torch.fft.rfft(square()),
        lambda: torch.ones(0) + 1,
        lambda: torch.nn.LSTM(4, 4)(torch.ones(2, 1, 4)),
        lambda: torch.nn.Parameter(square()) * 2,
        lambda: torch.func.vmap(lambda x: x.sin())(square()),
        lambda: torch.func.grad(lambda x: x.sin().sum())(square()),
        lambda: square().to(torch.float8_e4m3fn).float(),
        lambda: square()[square() > 3].sum().item(),
        lambda: torch.nn.functional.embedding_bag(torch.tensor([[1, 2]]), torch.ones(9, 4)),
        lambda: torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (square(),)),
    ],
)
def test_no_tensor_is_too_strange(run: Callable[[], Any]) -> None:
    """Sparse, quantised, nested, meta, opaque and other tensors give what they give without the counter."""
    torch.manual_seed(0)
    plain = run()
    torch.manual_seed(0)
    # As in a bench: with a mode alone, Dynamo marks the wrapper of torch.cond as skipped for the rest of the process.
    with torch.compiler.set_stance("force_eager"), Traffic() as traffic:
        watched = run()

    def told(value: Any) -> str:
        # Each nested tensor has a new symbol for its ragged size.
        return re.sub(r"\bj\d+", "j", repr(value))

    assert told(watched) == told(plain)
    assert traffic.counted().unread == 0


def test_an_error_of_an_op_is_the_users() -> None:
    """What an op raises comes through as it is, and the mode is off afterwards."""
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), Traffic():
        torch.ones(2, 3) @ torch.ones(2, 3)

    assert moved(lambda: square() + 1)[0] > 0


def test_the_devices_of_a_run_are_told() -> None:
    """The devices are those of the tensors that were used."""
    with Traffic() as traffic:
        torch.ones(2) + 1
        torch.ones(2, device="meta") + 1

    assert traffic.devices == {"cpu", "meta"}


# --- ceilings --------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ceilings]:
    """Ceilings of one core that nothing is known of, with small buffers: several wait for each other if one is busy."""
    monkeypatch.setattr(ceilings, "_CPU_BYTES", 64 << 20)
    monkeypatch.setattr(ceilings, "_CPU_SIDES", (128, 256, 512))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Ceilings(CPU)
    torch.set_num_threads(before)


RATES = {
    "bandwidth": lambda of: of.bandwidth(),
    "working set": lambda of: of.bandwidth(1 << 20),
    "matmul": lambda of: of.matmul_rate("float32"),
    "gelu": lambda of: of.pointwise_rate("gelu", "float32"),
    "add": lambda of: of.pointwise_rate("add", "float32"),
    "half": lambda of: of.pointwise_rate("gelu", "bfloat16"),
    "launch": lambda of: of.launch_s(),
}


@pytest.mark.parametrize("ask", RATES.values(), ids=RATES)
def test_a_ceiling_is_measured_once(fresh: Ceilings, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate is positive, and the second time that it is asked for nothing is measured."""
    first = ask(fresh)
    monkeypatch.setattr(ceilings, "best_s", lambda *_: pytest.fail("measured again"))

    assert first > 0
    assert ask(fresh) == first


def test_ceilings_are_of_the_process() -> None:
    """Everybody who asks for a device's ceilings gets the same ones."""
    assert Ceilings.of(torch.device("cpu")) is Ceilings.of(CPU)


def test_measuring_disturbs_nothing(fresh: Ceilings) -> None:
    """Random states, grad mode and the default dtype are as before, and a user's modes don't spoil a rate."""
    state, enabled = torch.get_rng_state(), torch.is_grad_enabled()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"):
        found = [ask(fresh) for ask in RATES.values()]

    assert all(rate > 0 for rate in found)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled() == enabled


def test_a_rate_is_of_its_own_dtype(fresh: Ceilings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the user's autocast, products of float32 are measured in float32."""
    dtypes = set()

    def once(run: Callable[[], Any], device: torch.device) -> float:
        del device
        dtypes.add(run().dtype)
        return 1.0

    monkeypatch.setattr(ceilings, "best_s", once)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fresh.matmul_rate("float32") == 2 * 128**3
    assert dtypes == {torch.float32}


def test_short_memory_takes_a_smaller_buffer(fresh: Ceilings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a large buffer has no room a smaller one is copied; where none has, there is no ceiling, none is kept."""
    asked, room, real = [], 4 << 20, ceilings._filled

    def filled(count: int, *args: Any) -> torch.Tensor:
        asked.append(4 * count)
        if 4 * count > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(count, *args)

    monkeypatch.setattr(ceilings, "_filled", filled)
    room = 0
    assert fresh.bandwidth() is None
    assert asked == [32 << 20, 8 << 20, 2 << 20, 512 << 10]
    room = 4 << 20
    assert fresh.bandwidth() > 0


def test_the_cpus_own_word_for_no_memory_is_understood() -> None:
    """A buffer that no machine has room for is a MemoryError, not a failure of another kind."""
    with pytest.raises(MemoryError):
        ceilings._filled(1 << 60, torch.float32, CPU, 1.0)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex64", "int8"])
def test_what_cannot_be_multiplied_has_no_rate(fresh: Ceilings, dtype: str) -> None:
    """A dtype whose products torch.mm isn't for has no rate, and no pointwise one."""
    assert fresh.pointwise_rate("gelu", dtype) is None
    assert fresh.matmul_rate(dtype) is None


def test_the_bandwidth_is_that_of_another_copy(fresh: Ceilings) -> None:
    """Copying bytes without torch gives the same bandwidth within a factor of four."""
    source, target = bytearray(64 << 20), bytearray(64 << 20)
    took = []
    for _ in range(4):
        start = time.perf_counter()
        target[:] = source
        took.append(time.perf_counter() - start)
    other = 2 * len(source) / min(took)

    assert other / 4 < fresh.bandwidth() < other * 4


def test_the_matrix_rate_is_that_of_another_product(fresh: Ceilings) -> None:
    """A product timed by hand gives the same rate within a factor of four."""
    a = torch.rand(512, 512)
    took = []
    for _ in range(6):
        start = time.perf_counter()
        a @ a
        took.append(time.perf_counter() - start)
    other = 2 * 512**3 / min(took)

    assert other / 4 < fresh.matmul_rate("float32") < other * 4


def test_a_cost_is_the_sum_of_its_primitives(fresh: Ceilings) -> None:
    """An op of one primitive has its rate, one of several takes the sum of their times, a half step half of it."""
    each = {name: 1 / fresh.pointwise_rate(name, "float32") for name in ("exp", "div", "sqrt")}
    step = 2 / fresh.matmul_rate("float32")

    assert fresh.pointwise_rate("softmax", "float32") == pytest.approx(1 / each["exp"])
    assert 1 / fresh.pointwise_rate("fused_adamw", "float32") == pytest.approx(each["sqrt"] + each["div"] + 3 * step)
    assert 1 / fresh.pointwise_rate("add", "float32") == pytest.approx(step / 2)
    assert fresh.pointwise_rate("no such op", "float32") is None


@pytest.mark.parametrize("primitive", sorted({name for cost in COSTS.values() for name in cost}))
def test_each_primitive_can_be_measured(primitive: str) -> None:
    """Every primitive that an op costs has an op for the CPU and C++ for a GPU."""
    assert primitive in GPU_STEPS
    assert primitive == FMA or ceilings.primitive_rate(CPU, primitive, torch.float32) > 0
    assert primitive in CPU_OPS or primitive == FMA


# --- the roofline ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rates:
    """Set rates, as measured on an H200 by other means; what isn't set is not known."""

    copied: float | None = 4.22e12
    products: dict[str, float] = field(default_factory=dict)
    elements: dict[str, float] = field(default_factory=dict)
    launch: float | None = 5e-6

    def bandwidth(self, working_set: int | None = None) -> float | None:
        """The same for work of any size."""
        del working_set
        return self.copied

    def matmul_rate(self, dtype: str) -> float | None:
        """By dtype."""
        return self.products.get(dtype)

    def pointwise_rate(self, op: str, dtype: str) -> float | None:
        """By op alone."""
        del dtype
        return self.elements.get(op)

    def launch_s(self) -> float | None:
        """As set."""
        return self.launch


@dataclass(frozen=True)
class Ran:
    """A variant that was measured."""

    how: str = "compiled"
    walls: tuple[float, ...] = ()
    busy_s: float | None = None
    mode: str = ""
    skipped: str = ""


N = 4096 * 4096
ROW_1 = Counted(
    device="cuda",
    bytes_moved=2 * 4 * N,
    eager_bytes=60 * 2 * 4 * N,
    pointwise={("mul", "float32"): 20 * N, ("add", "float32"): 20 * N, ("gelu", "float32"): 20 * N},
    op_count=60,
    largest=N,
)
H200 = Rates(elements={"mul": 6e13, "add": 6e13, "gelu": 0.93e12}, products={"float16": 7e14})
MEASURED = (Ran("eager", (2.107e-3,), 2.005e-3), Ran("compiled", (0.389e-3, 0.388e-3, 0.387e-3), 0.385e-3))


def test_twenty_gelus_are_bound_by_arithmetic() -> None:
    """Twenty times gelu(x * 1.01 + 0.01) on an H200 is bound by its 336 million gelu, not by moving 134 MB."""
    roof = roofline(ROW_1, H200, measured=MEASURED)
    gelu, cheap = 20 * N / 0.93e12, 2 * 20 * N / 6e13

    assert roof.bound_by == "arithmetic"
    assert roof.floor_s == pytest.approx(gelu + cheap)
    assert roof.memory_s == pytest.approx(134_217_728 / 4.22e12)
    assert roof.words == (
        "bound by arithmetic: 336 million gelu take 361 µs at the rate measured here; moving 134 MB takes 31.8 µs"
    )
    assert percent(roof.floor_s, 0.388e-3) == pytest.approx(100 * (gelu + cheap) / 0.388e-3)


def test_the_counts_of_twenty_gelus_are_those_of_the_program() -> None:
    """Counted on a small input, the chain moves its ends once when fused and sixty times as much in eager."""
    x = square()

    def chain() -> torch.Tensor:
        y = x
        for _ in range(20):
            y = functional.gelu(y * 1.01 + 0.01)
        return y

    found = counted(chain)

    assert (found.bytes_moved, found.eager_bytes, found.op_count) == (2 * ONE, 60 * 2 * ONE, 60)
    assert found.pointwise == {(name, "float32"): 20 * 100 for name in ("mul", "add", "gelu")}


def test_one_pass_over_memory_is_bound_by_it() -> None:
    """One addition to 134 MB is bound by moving them."""
    one = Counted("cuda", 2 * 4 * N, 2 * 4 * N, {}, {("add", "float32"): N}, 1, N)
    roof = roofline(one, H200, measured=(Ran("eager", (40e-6,), 35e-6),))

    assert (roof.bound_by, roof.floor_s) == ("memory", roof.memory_s)
    assert roof.words == "bound by memory: moving 134 MB takes 31.8 µs at 4.22 TB/s; its arithmetic takes 280 ns"


def test_a_rate_that_is_not_known_is_said() -> None:
    """Arithmetic without a rate leaves the floor to memory, and the words name it."""
    roof = roofline(ROW_1, Rates())

    assert (roof.bound_by, roof.pointwise_s, roof.floor_s) == ("memory", None, roof.memory_s)
    assert roof.words.endswith("; how fast mul is isn't known on this device")
    assert roofline(ROW_1, Rates(None)).words == "no floor: the rates of this device could not be measured"
    assert roofline(Counted(), Rates()).words == "no floor: no op ran"


def test_a_matrix_product_is_bound_by_arithmetic() -> None:
    """A large product in half precision is bound by its flops at the rate of its dtype."""
    side = 8192
    product = Counted("cuda", 3 * 2 * side**2, 3 * 2 * side**2, {"float16": 2 * side**3}, {}, 1, side**2)
    roof = roofline(product, H200)

    assert (roof.bound_by, roof.flops, roof.matmul_rate) == (
        "arithmetic",
        2 * side**3,
        {"float16": pytest.approx(7e14)},
    )
    assert roof.matmul_s == pytest.approx(2 * side**3 / 7e14)
    assert roof.words == (
        "bound by arithmetic: 1.1 TFLOP of matrix products take 1.57 ms at the rate measured here; "
        "moving 403 MB takes 95.4 µs"
    )


SMALL = Counted("cuda", 128_000, 256_000, {"float16": 524_288}, {}, 8, 512)


def test_an_idle_gpu_is_launch_bound() -> None:
    """A GPU that is busy for 17 of 320 µs waits for launches, which fusion doesn't help and cudagraphs may."""
    roof = roofline(SMALL, H200, measured=(Ran("eager", (380e-6,), 21e-6), Ran("compiled", (320e-6,), 17e-6)))

    assert roof.bound_by == "launches"
    assert roof.floor_s == pytest.approx(128_000 / 4.22e12)
    assert roof.words == (
        "This work is launch-bound: the GPU is busy 17 µs of 320 µs a run (5 %). "
        "--modes reduce-overhead tries cudagraphs, which can help; fusion can't."
    )


def test_cudagraphs_are_judged_by_the_fastest_variant() -> None:
    """With cudagraphs the fastest variant decides: still idle is launch-bound, busy is not."""
    slow = Ran("compiled", (320e-6,), 17e-6)
    idle, busy = (Ran("compiled", (wall,), 19e-6, "reduce-overhead") for wall in (130e-6, 25e-6))

    useless = Ran("compiled", (315e-6,), 19e-6, "reduce-overhead")

    words = roofline(SMALL, H200, measured=(slow, idle)).words
    assert "busy 17 µs of 320 µs" in words
    assert words.endswith("Cudagraphs help, fusion can't.")
    assert "Cudagraphs don't help here" in roofline(SMALL, H200, measured=(slow, useless)).words
    assert "on already" in roofline(SMALL, H200, measured=(idle,)).words
    assert roofline(SMALL, H200, measured=(slow, busy)).bound_by == "memory"


def test_tiny_ops_on_a_cpu_are_overhead_bound() -> None:
    """Where issuing the ops is most of eager's time, that is what binds, and its size is said."""
    one = Counted(bytes_moved=32, eager_bytes=32, pointwise={("add", "float32"): 4}, op_count=1, largest=4)
    rates = Rates(1e10, {}, {"add": 1e9}, 1.2e-6)
    roof = roofline(one, rates, measured=(Ran("eager", (1.5e-6,)), Ran("compiled", (9e-6,))))

    assert roof.bound_by == "launches"
    assert roof.words == (
        "overhead-bound: 1 op of 4 elements; computing takes 4 ns of eager's 1.5 µs a run, "
        "and the rest is Python and calling ops"
    )
    # A millisecond of Python around them is overhead as well; only a run that they explain is not.
    assert roofline(one, rates, measured=(Ran("eager", (1e-3,)),)).bound_by == "launches"
    assert roofline(one, rates, measured=(Ran("eager", (5e-9,)),)).bound_by == "arithmetic"


def test_a_variant_below_the_floor_is_flagged() -> None:
    """More than 100 % is returned as it is, and the check says that the floor is wrong."""
    held, broken = floor_check({"eager": 20.0, "default": 95.0}), floor_check({"eager": 20.0, "default": 130.0})

    assert (percent(1.3, 1.0), percent(None, 1.0), percent(1.0, None)) == (130.0, None, None)
    assert held is not None
    assert held.passed
    assert broken is not None
    assert (broken.passed, broken.figure, broken.threshold) == (False, 130.0, 105.0)
    assert broken.words == (
        "default is at 130 % of the floor, above 105: the floor is too high for this work, so don't compare with it"
    )
    assert floor_check({"eager": None}) is None


# --- kernels ---------------------------------------------------------------------------------------------------------


def _event(kind: str, start: float, took: float) -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": "some", "ts": start, "dur": took}


def test_kernels_are_counted_and_annotations_are_not() -> None:
    """Kernels that overlap are busy once, copies count apart, and what spans them all is no kernel."""
    events = [
        _event("gpu_user_annotation", 0, 1000),
        _event("cpu_op", 0, 1000),
        _event("kernel", 10, 20),
        _event("kernel", 20, 20),
        _event("gpu_memcpy", 100, 5),
        _event("kernel", 200, 10),
        _event("gpu_memset", 205, 1),
        {"ph": "s", "cat": "kernel", "ts": 1},
        _event("kernel", 500, 100),
    ]
    found = kernels.summed(events)

    assert (found.kernels, found.copies) == (3, 2)
    assert found.busy_s == pytest.approx((30 + 5 + 10) * 1e-6)


def test_no_kernel_at_all_is_a_failure() -> None:
    """Without even the kernel that the profiler launches itself, nothing was seen."""
    with pytest.raises(kernels._ProfilerError, match="saw no kernels"):
        kernels.summed([_event("cpu_op", 0, 1)])


def test_a_cpu_has_no_kernels() -> None:
    """On a CPU nothing is run and the reason is told."""
    told: list[str] = []

    assert profile(lambda: pytest.fail("ran"), device=CPU, tell=told.append) is None
    assert told == ["kernels are counted on GPUs only"]
    assert peak_memory(lambda: pytest.fail("ran"), CPU) is None


def test_a_profiler_of_the_user_is_left_alone() -> None:
    """While the user profiles, we don't, and say so."""
    told: list[str] = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        found = profile(lambda: pytest.fail("ran"), device=torch.device("cuda"), tell=told.append)
        torch.ones(2) + 1

    assert found is None
    assert told == ["a profiler of yours is running, and there can be only one"]
    assert any("add" in event.key for event in theirs.key_averages())


# --- on a GPU --------------------------------------------------------------------------------------------------------


def _chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = functional.gelu(x * 1.01 + 0.01)
    return x


@pytest.fixture
def large() -> torch.Tensor:
    return torch.randn(4096, 4096, device="cuda")


@pytest.mark.gpu
def test_a_gpu_runs_sixty_kernels_for_the_chain(large: torch.Tensor) -> None:
    """The eager chain is sixty kernels, busy for at most the wall time, whatever annotations stand around it."""

    def run() -> None:
        with torch.profiler.record_function("around"):
            _chain(large)

    run()
    torch.accelerator.synchronize()
    start = time.perf_counter()
    run()
    torch.accelerator.synchronize()
    wall = time.perf_counter() - start
    found = profile(run, device=large.device, tell=pytest.fail)

    assert found is not None
    assert (found.kernels, found.copies) == (60, 0)
    assert 0 < found.busy_s <= wall * 1.1
    assert not torch.autograd._profiler_enabled()


@pytest.mark.gpu
def test_the_kernels_of_a_cudagraph_are_counted_one_by_one(large: torch.Tensor) -> None:
    """A replayed graph has the kernels that were recorded, and profiling it twice gives the same."""
    _chain(large)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _chain(large)
    graph.replay()

    assert [profile(graph.replay, device=large.device, tell=pytest.fail).kernels for _ in range(2)] == [60, 60]


@pytest.mark.gpu
def test_what_a_profiled_run_raises_is_raised(large: torch.Tensor) -> None:
    """An exception of the run comes through, and the profiler is off."""

    def run() -> None:
        raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"):
        profile(run, device=large.device)
    assert not torch.autograd._profiler_enabled()
    assert profile(lambda: None, device=large.device, tell=pytest.fail).kernels == 0


@pytest.mark.gpu
def test_the_peak_of_memory_is_that_of_the_run(large: torch.Tensor) -> None:
    """A run that makes two temporaries of 64 MiB at once peaks that much above what lives."""
    before = torch.accelerator.memory_allocated()
    peak = peak_memory(lambda: (large * 2) + 1, large.device)

    assert peak == before + 2 * large.nbytes


@pytest.mark.gpu
def test_the_ceilings_of_a_gpu_are_plausible() -> None:
    """Bandwidth, matrix rates and a launch lie where those of GPUs lie, and all are measured within seconds."""
    found = Ceilings(torch.device("cuda", 0))
    start = time.perf_counter()

    assert 1e11 < found.bandwidth() < 1e13
    assert found.bandwidth(128_000) >= found.bandwidth()
    assert found.matmul_rate("float16") > found.matmul_rate("float64") > 1e11
    assert 1e-7 < found.launch_s() < 1e-3
    assert time.perf_counter() - start < 5


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("primitive", sorted(GPU_STEPS))
def test_each_primitive_runs_on_a_gpu(primitive: str, dtype: str) -> None:
    """Each primitive compiles, and its rate lies between a thousand million and a hundred million million a second."""
    rate = ceilings.primitive_rate(torch.device("cuda", 0), primitive, getattr(torch, dtype))

    assert rate is not None
    assert 1e9 < rate < 1e14


@pytest.mark.gpu
def test_the_chain_is_bound_by_arithmetic_on_a_gpu(large: torch.Tensor) -> None:
    """The floor of the chain is its gelu: above what moving takes, below what eager takes."""
    found = counted(lambda: _chain(large))
    roof = roofline(found, Ceilings.of(large.device))
    start = time.perf_counter()
    _chain(large)
    torch.accelerator.synchronize()
    wall = time.perf_counter() - start

    assert (found.device, found.bytes_moved, found.eager_bytes) == ("cuda", 2 * large.nbytes, 120 * large.nbytes)
    assert roof.bound_by == "arithmetic"
    assert "336 million gelu" in roof.words
    assert roof.memory_s < roof.floor_s < wall
