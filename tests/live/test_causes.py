"""Each cause of a recompile has a small program in its registry entry: torch, run on it, gives that cause."""

from __future__ import annotations

import pytest
from observing import observe

from compile_magic.read.causes import CAUSES
from compile_magic.read.causes import EXAMPLES
from compile_magic.read.key_causes import KEY_CHANGES
from compile_magic.read.recompile_fixes import FIXES
from compile_magic.read.state_causes import STATES

# No torch at hand fails these for itself: an older one's wording, a device that CI lacks, a fault of torch's, or the
# last entry of a registry, which takes what no other does. test_recompiles.py has their words.
WITHOUT_EXAMPLE = {
    "unknown": 2,
    "device": 1,
    "global_state": 2,
    "transform": 2,
    "hooks": 1,
    "attribute": 1,
    "identity": 1,
    "dispatch_keys": 1,
}


@pytest.mark.parametrize("cause", EXAMPLES, ids=lambda cause: f"{cause.name}:{cause.words[:32]}")
def test_the_example_recompiles_for_its_cause(cause):
    """The example is compiled again exactly once, for the cause of its entry and in its words."""
    (again,) = observe(cause.example).recompiles

    assert (again.cause, again.words, again.count) == (cause.name, cause.words, 1)


def test_an_entry_without_an_example_is_an_exception():
    """An entry that is added without an example has to be counted among the exceptions."""
    bare = [entry.name for entry in (*CAUSES, *STATES, *KEY_CHANGES) if not entry.example]

    assert {name: bare.count(name) for name in bare} == WITHOUT_EXAMPLE


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: f"{fix.cause}:{fix.title[:32]}")
def test_the_fix_saves_recompiles(fix):
    """The program gets this fix told, not tried and without placeholders; with it in, there are fewer recompiles."""
    before, after = observe(fix.before), observe(fix.after)
    (told, *_) = [again.fix for again in before.recompiles if again.fix and again.fix.title == fix.title]

    assert (told.kind, told.status, "{" in told.snippet) == (fix.kind, "not tried", False)
    assert after.recompile_count < before.recompile_count
