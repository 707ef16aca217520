"""Keeping what a run gave: everything comparable, by its path, as copies."""

from __future__ import annotations

from collections import OrderedDict
from collections import deque
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from compile_magic.measure.results.compare import compare
from compile_magic.measure.results.float64 import Float64
from compile_magic.measure.results.results import SAMPLE
from compile_magic.measure.results.results import kept
from compile_magic.measure.results.results import positions

Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is what people have


@dataclass
class ModelOutput(OrderedDict):
    """As in transformers: a dict and a dataclass at once."""

    loss: Any = None

    def __post_init__(self) -> None:
        self["loss"] = self.loss


@dataclass
class Output:
    """As people write them."""

    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    name: str = "output"


def values(found: Any, path: str) -> list[Any]:
    return found.found[path].values.tolist()


def test_containers_are_opened() -> None:
    """Tuples, lists, dicts, named tuples, dataclasses and model outputs are opened, and paths say where."""
    one = torch.ones(1)
    found = kept(
        {
            "out": (one, [one, {"k": one, 3: one}]),
            "point": Point(one, None),
            "output": Output(one, (one,)),
            "model_output": ModelOutput(one),
            "queue": deque([one]),
        }
    )

    assert set(found.found) == {
        "out[0]",
        "out[1][0]",
        "out[1][1]['k']",
        "out[1][1][3]",
        "point.x",
        "point.y",
        "output.logits",
        "output.hidden[0]",
        "model_output['loss']",
        "queue[0]",
    }
    assert found.found["point.y"].kind == "none"


def test_other_objects_are_ignored() -> None:
    """Strings, sets, modules, optimizers, functions and numbers that fit nowhere are no results."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    found = kept({"a": "text", "b": {1, 2}, "c": model, "d": optimizer, "e": print, "f": 2**70, "g": object(), "h": []})

    assert found.found == {}


def test_a_list_of_numbers_is_one_result() -> None:
    """A list of losses is one row of numbers; one with anything else in it is opened."""
    found = kept({"losses": [0.5, 1, 2.5], "flags": [True, False], "mixed": [1, None], "shape": torch.ones(2, 3).shape})

    assert values(found, "losses") == [0.5, 1.0, 2.5]
    assert values(found, "flags") == [True, False]
    assert (found.found["losses"].dtype, found.found["losses"].shape) == ("float", (3,))
    assert values(found, "mixed[0]") == [1]
    assert values(found, "shape") == [2, 3]


def test_numbers_keep_their_type() -> None:
    """bool, int, float and complex are kept as such."""
    found = kept({"b": True, "i": 2**60 + 1, "f": 0.1, "c": 1j})

    assert [result.dtype for result in found.found.values()] == ["bool", "int", "float", "complex"]
    assert [result.values.item() for result in found.found.values()] == [True, 2**60 + 1, 0.1, 1j]


def test_results_are_copies() -> None:
    """What is written to a result later, as by the next run of a cudagraph, doesn't reach the copy."""
    base = torch.zeros(2, 2)
    results = {"base": base, "view": base.t()[0], "parameter": nn.Parameter(base)}
    found = kept(results)
    base.fill_(7)

    assert [values(found, path) for path in results] == [[0, 0, 0, 0], [0, 0], [0, 0, 0, 0]]
    assert not found.found["parameter"].values.requires_grad


def test_elements_are_in_row_order() -> None:
    """A transposed result, one that is expanded, and lazily conjugated and negated ones read as they print."""
    z = torch.tensor([1 + 2j])
    found = kept(
        {"t": torch.tensor([[1, 2], [3, 4]]).t(), "e": torch.ones(1).expand(3), "c": z.conj(), "n": z.conj().imag}
    )

    assert [values(found, path) for path in "tecn"] == [[1, 3, 2, 4], [1, 1, 1], [1 - 2j], [-2]]


SPARSE = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
KINDS: dict[str, Any] = {
    "bool": torch.tensor([True]),
    "int8": torch.tensor([-3], dtype=torch.int8),
    "uint64": torch.tensor([2**63], dtype=torch.uint64),
    "half": torch.tensor([0.5], dtype=torch.float16),
    "float8": torch.tensor([0.5]).to(torch.float8_e4m3fn),
    "complex": torch.tensor([1j]),
    "zero-size": torch.empty(0, 3),
    "scalar": torch.tensor(2.5),
    "nan and inf": torch.tensor([float("nan"), float("inf")]),
    "coo": SPARSE.to_sparse(),
    "csr": SPARSE.to_sparse_csr(),
    "csc": SPARSE.to_sparse_csc(),
    "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "quantized": torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 0, torch.qint8),
    "meta": torch.empty(3, device="meta"),
    "inference": torch.inference_mode()(lambda: torch.ones(2))(),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_tensor_is_kept_and_compared(name: str) -> None:
    """Tensors of every dtype and layout are kept, and compare equal with themselves."""
    found = kept({"y": KINDS[name]})
    compared = compare(found, kept({"y": KINDS[name]}))

    assert found.unread == ()
    assert compared.matches
    assert compared.compared >= 1


@pytest.mark.parametrize(
    ("value", "other", "worst"),
    [
        (SPARSE.to_sparse(), (SPARSE * 2).to_sparse(), "y.values()"),
        (SPARSE.to_sparse_csr(), SPARSE.t().contiguous().to_sparse_csr(), "y.values()"),
        (KINDS["nested"], torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]), "y[1]"),
        (KINDS["quantized"], torch.quantize_per_tensor(torch.tensor([0.5, 2.0]), 0.5, 0, torch.qint8), "y"),
        (KINDS["float8"], torch.tensor([0.75]).to(torch.float8_e4m3fn), "y"),
        (KINDS["uint64"], torch.tensor([2**63 + 1], dtype=torch.uint64), "y"),
        (KINDS["meta"], torch.empty(4, device="meta"), "y"),
    ],
)
def test_differences_in_every_kind_are_found(value: Any, other: Any, worst: str) -> None:
    """A difference in a part of a sparse, nested or quantized tensor is found at its path."""
    found = compare(kept({"y": other}), kept({"y": value}))

    assert (found.matches, found.worst) == (False, worst)


def test_numpy_arrays_are_kept() -> None:
    """Arrays and scalars of NumPy are results of their own dtype, and are copied."""
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(4, dtype="float32")
    found = kept({"a": array, "s": numpy.float64(0.5), "l": [numpy.float32(1), 2.0], "t": numpy.array(["text"])})
    array[:] = 9

    assert values(found, "a") == [0, 1, 2, 3]
    assert (found.found["a"].kind, found.found["a"].dtype) == ("array", "numpy float32")
    assert values(found, "s") == [0.5]
    assert set(found.found) == {"a", "s", "l[0]", "l[1]"}


def test_a_cycle_has_an_end() -> None:
    """A list that holds itself is opened once."""
    cycle: list[Any] = [torch.ones(1)]
    cycle += [cycle, cycle]

    assert list(kept({"cycle": cycle}).found) == ["cycle[0]"]


def test_what_does_not_fit_is_sampled_alike() -> None:
    """Beyond the byte limit a large result keeps fixed elements, a small one all, and `sampled` names the large one."""
    big = torch.arange(100_000.0).reshape(100, 1000)
    found = kept({"first": big, "second": big.t(), "small": torch.ones(3)}, most_bytes=big.nbytes)
    places = positions(big.numel())

    assert found.sampled == ("second",)
    assert SAMPLE * 0.9 < len(places) <= SAMPLE
    assert torch.equal(found.found["second"].values, big.t().reshape(-1)[places])
    assert torch.equal(places, positions(big.numel()))
    assert values(found, "small") == [1, 1, 1]


def test_a_sample_is_compared_with_a_whole() -> None:
    """Where one run's copy is whole and the other's a sample, the elements that both have are compared."""
    big = torch.arange(100_000.0)
    whole, sample = kept({"y": big}), kept({"y": big}, most_bytes=0)
    place = int(positions(100_000)[7])
    other = big.clone()
    other[place] = -1

    assert compare(sample, whole, whole).matches
    assert compare(whole, sample).matches
    assert f"`y[{place}]`" in compare(kept({"y": other}), sample).differs


def test_sampling_leaves_the_random_numbers_alone() -> None:
    """Choosing elements draws nothing from the program's generator."""
    before = torch.get_rng_state()
    kept({"y": torch.ones(100_000)}, most_bytes=0)

    assert torch.equal(torch.get_rng_state(), before)


def test_float64_values_are_read_with_the_dtype_of_the_program() -> None:
    """After a float64 run, `read` gives the values and the dtype stays the program's, whole and sampled."""
    x = torch.full((100_000,), 2.0)
    with Float64() as mode:
        y = x / 3
        loss = float(y.mean())
    for most_bytes in (10**9, 0):
        found = kept({"y": [y], "loss": loss}, read=mode.value_of, most_bytes=most_bytes)

        assert found.found["y[0]"].dtype == "float32"
        assert (found.found["y[0]"].values == 2 / 3).all()
        assert found.found["loss"].values.item() == pytest.approx(2 / 3, rel=1e-14)


def test_a_compiled_cell_from_start_to_end() -> None:
    """In a training step a factor of 1.01 is found; float32 beside an eager in bfloat16 is right, the other way not."""

    def step(factor: float, dtype: torch.dtype) -> dict[str, Any]:
        torch.manual_seed(0)
        model, x = nn.Linear(64, 64), torch.randn(16, 64)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            y = model(x)
            loss = (y.float() * factor).square().mean()
        loss.backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return {"loss": loss, **dict(model.named_parameters()), "grad": model.weight.grad}

    eager, coarse = kept(step(1.0, torch.float32)), kept(step(1.0, torch.bfloat16))
    wrong = kept(step(1.01, torch.float32))
    with Float64() as mode:
        results = step(1.0, torch.bfloat16)
    reference = kept(results, read=mode.value_of)

    assert compare(eager, eager, reference).error_vs_fp64 < 1e-5
    assert compare(wrong, eager, reference).differs.endswith("this variant is off (3 more differ)")
    assert compare(eager, coarse, reference).differs.endswith("eager is the one that is off")
    assert not compare(coarse, eager, reference).matches


def test_what_cannot_be_read_is_named() -> None:
    """A result whose copying fails is named, and takes no part in a comparison."""

    def failing(tensor: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no copy")

    found = kept({"y": torch.ones(1), "n": 1}, read=failing)

    assert (found.unread, set(found.found)) == (("y",), {"n"})
    assert compare(found, kept({"y": torch.ones(1), "n": 1})).compared == 1
