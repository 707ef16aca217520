"""Comparing results: figures worked out by hand, and which side is said to be off."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from compile_magic.measure.results import distance as distance_module
from compile_magic.measure.results.compare import Comparison
from compile_magic.measure.results.compare import compare
from compile_magic.measure.results.compare import deterministic
from compile_magic.measure.results.compare import spread
from compile_magic.measure.results.distance import TOLERANCES
from compile_magic.measure.results.distance import Tolerance
from compile_magic.measure.results.distance import distance
from compile_magic.measure.results.results import kept

NAN, INF = math.nan, math.inf


def row(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def compared(ours: Any, eager: Any, precise: Any = None, **options: Any) -> Comparison:
    reference = None if precise is None else kept({"y": precise})
    return compare(kept({"y": ours}), kept({"y": eager}), reference, **options)


@pytest.mark.parametrize("piece", [1, 2, 100])
def test_distances_are_those_worked_out_by_hand(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """|a - b| is 0, 1, 3 and b's root mean square sqrt((9 + 16 + 0) / 3); pieces of any size give the same."""
    monkeypatch.setattr(distance_module, "_PIECE", piece)
    found = distance(row(3, 5, 3), row(3, 4, 0), Tolerance(relative=0.25))
    scale = math.sqrt(25 / 3)

    assert (found.count, found.largest, found.at) == (3, 3, 2)
    assert (found.scale, found.rms) == (pytest.approx(scale), pytest.approx(math.sqrt(10 / 3)))
    assert found.relative == pytest.approx(3 / scale)
    # 5 is exactly 0.25 * 4 from 4, which is not beyond it.
    assert found.beyond == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "largest", "beyond"),
    [
        (row(NAN, INF, -INF), row(NAN, INF, -INF), 0, 0),
        (row(1, NAN), row(1, 2), INF, 1),
        (row(1, 2), row(1, NAN), INF, 1),
        (row(INF, 1), row(-INF, 1), INF, 1),
        (torch.empty(0), torch.empty(0), 0, 0),
        (torch.tensor([True, False]), torch.tensor([True, True]), 1, 1),
        (torch.tensor([2**62 + 1]), torch.tensor([2**62]), 1, 1),
        (torch.tensor([3 + 4j]), torch.tensor([0j]), 5, 1),
        (row(2), row(0), 2, 1),
    ],
)
def test_awkward_numbers_have_a_distance(ours: torch.Tensor, theirs: torch.Tensor, largest: float, beyond: int) -> None:
    """NaN and infinity equal themselves and are infinitely far from all else; whole numbers are exact to 64 bits."""
    found = distance(ours, theirs)

    assert (found.largest, found.beyond) == (largest, beyond)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_tolerances_are_those_of_assert_close(name: str) -> None:
    """The tolerance of each dtype is the one that assert_close names when it refuses."""
    dtype, found = getattr(torch, name), TOLERANCES[name]
    with pytest.raises(AssertionError) as error:
        torch.testing.assert_close(torch.full((1,), 3, dtype=dtype), torch.full((1,), 1, dtype=dtype))

    assert f"up to {found.absolute} allowed" in str(error.value)
    assert f"up to {found.relative} allowed" in str(error.value)


def test_equal_results_match() -> None:
    """Equal results match with errors of zero, and there is nothing to say."""
    found = compared(row(1, NAN), row(1, NAN), row(1, NAN))

    assert found == Comparison(
        matches=True, compared=1, max_abs_error=0, max_rel_error=0, error_vs_fp64=0, eager_vs_fp64=0
    )


def test_errors_are_the_largest_of_all_results() -> None:
    """Each error is the largest over the results, absolute in one of them and relative in another."""
    eager = kept({"big": row(1000, -1000), "small": row(0.5, 0.5)})
    ours = kept({"big": row(1000.5, -1000), "small": row(0.5, 0.75)})
    found = compare(ours, eager, None)

    assert (found.max_abs_error, found.max_rel_error) == (0.5, 0.5)
    assert (found.error_vs_fp64, found.eager_vs_fp64, found.compared, found.differing) == (None, None, 2, 2)


def test_a_wrong_variant_is_named_with_figures() -> None:
    """Eager is 2e-7 from float64 and the variant 7 %: the line has the path, values, errors and the verdict."""
    found = compared(row(0.31), row(0.29), torch.tensor([0.29 / (1 - 2e-7)], dtype=torch.float64))

    assert not found.matches
    assert found.differs.startswith(
        "`y[0]` differs: 0.31 against eager's 0.29 (tolerance 1.3e-06 and 1e-05); eager is "
    )
    assert found.differs.endswith(" from float64, this variant 7e-02: this variant is off")
    assert found.error_vs_fp64 == pytest.approx(0.02 / 0.29, rel=1e-3)


def test_without_float64_nobody_is_blamed() -> None:
    """Where there was no float64 run, a difference is said without a guilty side."""
    found = compared(0.31, 0.29)

    assert not found.matches
    assert found.differs == (
        "`y` differs: 0.31 against eager's 0.29 (tolerance 1.3e-06 and 1e-05); no float64 run says which side is off"
    )


def test_cancellation_in_eager_is_eagers_fault() -> None:
    """(x + 1e8) - 1e8 loses x in float32: a variant that keeps it matches, and eager is said to be off."""
    x = torch.linspace(0.1, 0.9, 20)
    eager, precise = (x + 1e8) - 1e8, (x.double() + 1e8) - 1e8
    found = compared(x, eager, precise)

    assert found.matches
    assert found.differs.endswith("eager is the one that is off")
    assert found.differs.startswith("`y[")


def test_accumulation_in_float16_is_eagers_fault() -> None:
    """A sum of 4096 halves kept in float16 stops growing; a variant that adds in float32 matches."""
    x = torch.full((4096,), 0.7, dtype=torch.float16)
    eager = torch.zeros((), dtype=torch.float16)
    for one in x:
        eager = eager + one
    found = compared(x.float().sum().half(), eager, x.double().sum())

    assert found.matches
    assert "eager is the one that is off" in found.differs


def test_rounding_alike_on_both_sides_matches_in_silence() -> None:
    """Where both are about as far from float64, the difference is rounding: a match without a word."""
    precise = torch.linspace(1, 2, 2000, dtype=torch.float64)
    up = torch.where(torch.arange(2000) % 2 == 0, 1e-4, -1e-4)
    found = compared((precise + up).float(), (precise - 2 * up).float(), precise)

    assert (found.matches, found.differs) == (True, "")
    assert found.max_abs_error == pytest.approx(3e-4, rel=1e-2)


@pytest.mark.parametrize(
    ("times", "count", "matches"), [(2.5, 100, True), (3.6, 100, False), (9, 10, True), (11, 10, False)]
)
def test_the_variant_may_be_three_times_as_far_and_ten_times_where_there_are_few(
    times: float, count: int, matches: bool
) -> None:
    """Eager is 1e-3 from float64 in each element; the variant `times` as much."""
    precise = torch.ones(count, dtype=torch.float64)

    assert compared((precise + times * 1e-3).float(), (precise - 1e-3).float(), precise).matches is matches


def test_both_off_is_said() -> None:
    """Eager is 10 % off and the variant 50 %: neither is right."""
    precise = torch.ones(50, dtype=torch.float64)
    found = compared((precise * 1.5).float(), (precise * 0.9).float(), precise)

    assert not found.matches
    assert found.differs.endswith("both are off")


def test_one_wrong_element_among_many_is_found() -> None:
    """One element of a million that is off by its whole size counts, though the root mean square hardly moves."""
    precise = torch.ones(1_000_000, dtype=torch.float64)
    eager = (precise + 4e-3 * torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))).bfloat16()
    ours = eager.clone()
    ours[777_777] = 0
    found = compared(ours, eager, precise)

    assert not found.matches
    assert found.differs.startswith("`y[777777]` differs: 0 against eager's")


def test_a_small_result_is_not_hidden_by_the_absolute_tolerance() -> None:
    """Gradients of 1e-7 that are wrong throughout lie within 1e-5 of eager's, and are found all the same."""
    precise = torch.linspace(1e-7, 2e-7, 100, dtype=torch.float64)
    found = compared((precise * 1.5).float(), precise.float(), precise)

    assert not found.matches
    assert found.differs.endswith("this variant is off")


def test_noise_around_zero_is_no_difference() -> None:
    """Where the exact result is 0, as a bias's gradient before a batch norm, rounding of any sign matches."""
    precise = torch.full((100,), 1e-18, dtype=torch.float64)

    assert compared(torch.full((100,), 8e-9), torch.full((100,), -1e-9), precise).matches


def test_nan_of_the_variant_is_a_difference() -> None:
    """A NaN that eager doesn't have doesn't match, with float64 or without."""
    for precise in (None, torch.ones(2, dtype=torch.float64)):
        found = compared(row(1, NAN), row(1, 1), precise)

        assert not found.matches
        assert found.differs.startswith("`y[1]` differs: nan against eager's 1")


def test_nan_of_eager_alone_is_eagers_fault() -> None:
    """Where eager overflows and float64 doesn't, a variant within 4 % of float64 matches; a wrong one doesn't."""
    precise = torch.tensor([1.0, 2.0], dtype=torch.float64)
    right, wrong = compared(row(1, 2.01), row(1, NAN), precise), compared(row(1, 3), row(1, INF), precise)

    assert right.matches
    assert right.differs.endswith(
        "eager is infinitely far from float64, this variant 4e-03: eager is the one that is off"
    )
    assert not wrong.matches


def test_whole_numbers_are_exact() -> None:
    """A class that differs is a difference of the side that float64 doesn't share."""
    ours, eager = torch.tensor([1, 2, 7]), torch.tensor([1, 2, 3])

    assert compared(ours, eager).differs == (
        "`y[2]` differs: 7 against eager's 3 (1 of 3 elements, exact); no float64 run says which side is off"
    )
    assert not compared(ours, eager, eager).matches
    assert compared(ours, eager, eager).differs.endswith(
        "eager differs from float64 in 0, this variant in 1: this variant is off"
    )
    assert compared(ours, eager, ours).matches
    assert compared(ours, eager, ours).differs.endswith("eager is the one that is off")


def test_truth_values_are_exact() -> None:
    """A mask that differs in one place doesn't match."""
    found = compared(torch.tensor([True, False]), torch.tensor([True, True]))

    assert "`y[1]` differs: False against eager's True (1 of 2 elements, exact)" in found.differs


@pytest.mark.parametrize(
    ("ours", "eager", "words"),
    [
        (row(1), row(1).double(), "its dtype is float32 against eager's float64"),
        (row(1, 2), row(1), "its shape is (2,) against eager's (1,)"),
        (None, row(1), "its kind is none against eager's tensor"),
        (1, 1.0, "its dtype is int against eager's float"),
        (torch.empty(1, device="meta"), torch.empty(1), "its device is meta against eager's cpu"),
    ],
)
def test_another_kind_of_result_is_a_difference(ours: Any, eager: Any, words: str) -> None:
    """Another dtype, shape or device, and None in the place of a tensor, are differences whatever the values."""
    found = compared(ours, eager)

    assert (found.matches, found.differs) == (False, f"`y` differs: {words}")


def test_missing_and_additional_results_are_differences() -> None:
    """A result that one side lacks doesn't match, and the line counts what else differs."""
    found = compare(kept({"a": 1.0, "c": 3}), kept({"a": 1.0, "b": 2}))

    assert (found.matches, found.differing, found.compared) == (False, 2, 3)
    assert found.differs == "`b` differs: this variant doesn't give it (1 more differ)"


def test_python_numbers_have_the_tolerance_of_float32() -> None:
    """A loss read as a Python number may differ by 1.3e-6 of itself and 1e-5."""
    assert compared(100.0 + 1.3e-4, 100.0).matches
    assert not compared(100.0 + 1.5e-4, 100.0).matches


def test_the_worst_result_is_the_one_named() -> None:
    """Of two results that differ, the line is about the one that is further off relative to its size."""
    eager = kept({"big": row(100), "small": row(1)})
    found = compare(kept({"big": row(110), "small": row(2)}), eager, eager)

    assert (found.worst, found.differing) == ("small", 2)


def test_matrix_elements_are_named_by_row_and_column() -> None:
    """The place of an element is written as one would index it."""
    eager = torch.zeros(2, 3, 4)
    ours = eager.clone()
    ours[1, 0, 2] = 1

    assert "`y[1, 0, 2]`" in compared(ours, eager).differs


def test_digits_tell_the_two_values_apart() -> None:
    """Values that agree in their first digits are written with as many as it takes."""
    assert "differs: 1.0001 against eager's 1 (" in compared(1.0001, 1.0).differs


def test_deterministic_runs_have_no_spread() -> None:
    """Two equal runs have no spread, and nothing is said."""
    first, second = kept({"y": row(1, NAN)}), kept({"y": row(1, NAN)})

    assert (spread(first, second), deterministic(first, second)) == ({}, "")


def test_what_varies_between_eager_runs_is_said_and_allowed() -> None:
    """Eager differs from itself by 0.25 of 2: a variant within three times that matches, one beyond it does not."""
    first, second = kept({"y": row(2, 2), "z": row(1)}), kept({"y": row(2, 2.25), "z": row(1)})
    floor = spread(first, second)

    assert floor == {"y": 0.25}
    # sqrt((4 + 5.0625) / 2) is 2.129, below 2.25, by which the gap is divided.
    assert deterministic(first, second) == (
        "two eager runs give different results: `y` differs by 2.5e-01 (1.1e-01 of its size)"
    )
    assert compare(kept({"y": row(2.7, 2), "z": row(1)}), first, floor=floor).matches
    assert not compare(kept({"y": row(2.8, 2), "z": row(1)}), first, floor=floor).matches
    assert not compare(kept({"y": row(2, 2), "z": row(1.5)}), first, floor=floor).matches


def test_results_that_come_and_go_are_not_compared() -> None:
    """A result whose shape varies between two eager runs is passed over in a variant."""
    first, second = kept({"y": row(1), "z": 1}), kept({"y": row(1, 2), "z": 1})
    floor = spread(first, second)

    assert floor == {"y": INF}
    assert deterministic(first, second).endswith("`y` differs and can't be compared")
    assert compare(kept({"y": row(3), "z": 1}), first, floor=floor).compared == 1


def test_a_time_that_the_cell_takes_is_not_compared() -> None:
    """A number of Python's that differs between two eager runs is passed over, however little it differs."""
    first, second = kept({"t": 104.00, "y": row(1)}), kept({"t": 104.08, "y": row(1)})
    floor = spread(first, second)

    found = compare(kept({"t": 108.0, "y": row(1)}), first, floor=floor)

    assert (found.matches, found.compared) == (True, 1)


def test_rounding_noise_does_not_decide_the_figures() -> None:
    """A result of which nothing is left in eager is compared, but its relative error isn't the one that is told."""
    # Eager has 3e-8 and 1e-8 where float64 has 1e-17: noise. The other result is 1e-6 of its size off.
    eager = kept({"noise": row(3e-8, 1e-8), "y": row(1.0, 1.0)})
    precise = kept({"noise": row(1e-17, 1e-17), "y": row(1.0, 1.0)})

    found = compare(kept({"noise": row(-2e-8, 1e-8), "y": row(1.000001, 1.0)}), eager, precise)

    assert (found.matches, found.noise) == (True, 1)
    assert found.max_rel_error == pytest.approx(1e-6, rel=0.2)
