"""What a bench says of its own figures: each check can fail, and says its figure and threshold."""

from __future__ import annotations

from typing import Any

import pytest

from compile_magic.bench_model import BenchCheck
from compile_magic.bench_model import Roofline
from compile_magic.measure import verdicts
from compile_magic.measure.facts import Facts
from compile_magic.measure.findings import Findings
from compile_magic.measure.findings import cache_state
from compile_magic.measure.findings import skipped
from compile_magic.measure.timing.samples import Samples
from compile_magic.measure.timing.statistics import Ratio
from compile_magic.trace import Record


def made(**changed: Any) -> dict[str, BenchCheck]:
    """Return the checks of a good bench, changed in some facts: `eager`, `default` and `found` are dicts of fields."""
    eager = Facts("eager", how="eager", first=[1.0, 1.0, 1.0], walls=[1.0, 1.0, 1.01, 1.0], error_vs_fp64=1e-7)
    default = Facts("default", walls=[0.5] * 4, ratio=Ratio(2.0, 1.99, 2.01))
    alike = BenchCheck("state", passed=True, words="state as before the bench (1 tensor compared)")
    found = Findings(samples=Samples(()), eager_spread=0.001, state=alike)
    for target, fields in ((eager, "eager"), (default, "default"), (found, "found")):
        for name, value in changed.get(fields, {}).items():
            setattr(target, name, value)
    return {one.name: one for one in verdicts.checks(found, {"eager": eager, "default": default})}


def test_a_good_bench_passes_every_check() -> None:
    """Where nothing is wrong every check holds."""
    assert all(check.passed for check in made().values())
    assert set(made()) == {
        "compiles in timing",
        "eager twin",
        "noise",
        "interval",
        "settled",
        "deterministic",
        "float64",
        "state",
    }


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("compiles in timing", {"default": {"thrown_out": 3}}, "3 blocks of default were thrown out"),
        ("eager twin", {"found": {"eager_spread": 0.05}}, "two timings of eager are 5.0% apart (at most 2%"),
        ("eager twin", {"found": {"eager_spread": 12.0}}, "12 times apart"),
        ("noise", {"eager": {"walls": [1.0, 1.0, 2.0, 2.0]}, "default": {"walls": [0.75] * 4}}, "66.7%"),
        ("interval", {"default": {"ratio": Ratio(2.0, 1.9, 2.1)}}, "10.0% of it (over 5%): a larger --budget"),
        ("settled", {"default": {"first": [9.0, 0.5, 0.05]}}, "default is 10 times slower in its steady state"),
        ("agreement", {"default": {"walls": [0.9] * 4}}, "say 1.11x, outside of the interval"),
        ("deterministic", {"found": {"unsteady": "two eager runs give different results: `y`"}}, "`y`"),
        ("state", {"found": {"state": BenchCheck("state", passed=False, words="`x` is another")}}, "`x` is another"),
        ("state", {"found": {"state": None}}, "the state was not compared"),
        ("floor", {"found": {"floor": Roofline(floor_s=1.0)}}, "default is at 200 % of the floor"),
    ],
)
def test_each_check_can_fail(name: str, changed: dict[str, Any], words: str) -> None:
    """A figure beyond its threshold fails the check of its name, and no other, with words that say it."""
    found = made(**changed)

    assert [check.name for check in found.values() if not check.passed] == [name]
    assert words in found[name].words


def record(kind: str) -> Record:
    return Record(kind=kind)


def test_the_state_of_the_cache_is_told_from_hits_and_misses() -> None:
    """A miss of the FX graph cache is cold, only hits are warm, and nothing asked is neither."""
    hit, miss, other = record("fx_graph_cache_hit"), record("fx_graph_cache_miss"), record("dynamo_start")
    outer = record("aotautograd_cache_hit")

    assert [cache_state(found) for found in ([hit], [hit, miss], [other], [outer])] == ["warm", "cold", "", "warm"]


def test_why_there_are_no_cudagraphs_is_told() -> None:
    """Without a CUDA device the mode has none; else it is the first line of torch's reason."""
    facts = Facts("reduce-overhead", mode="reduce-overhead")

    assert "without a CUDA device" in skipped(facts, (), None)
    assert skipped(Facts("default", mode="default"), (), None) == ""
    assert (
        skipped(Facts("default"), ("skipping cudagraphs due to mutated inputs\n  at x.py:3",), None) == "mutated inputs"
    )
