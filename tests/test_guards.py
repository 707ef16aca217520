"""guards: the printed guard tree -> guards with words."""

from __future__ import annotations

import time

import pytest
from traces.replay import RECORDED
from traces.replay import capture
from traces.replay import line
from traces.replay import report

from compile_magic.read.frames import Places
from compile_magic.read.guards import AMBIENT
from compile_magic.read.guards import WORDS
from compile_magic.read.guards import Reader
from compile_magic.read.guards import plain
from compile_magic.read.guards import read_leaves
from compile_magic.read.guards import words_of
from compile_magic.trace import Roots

HEAD = "\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n"


def yours(name: str) -> list[str]:
    """Return the words of the guards that a person can change."""
    return [guard.words for guard in report(name).guards if not guard.internal]


def test_a_tensor_input_is_said_in_a_readers_words():
    """The guard on the one input is the one that the user can change."""
    assert yours("data_dependent_if") == ["x is float32 [3], cpu, no grad"] * 2


def test_every_kind_of_input_has_words():
    """A tensor, a flag, a number, a string and a None in the arguments are five guards, in the words of the call."""
    first = [g.words for g in report("inputs_of_all_kinds").guards if g.compile_id == "0/0" and not g.internal]
    assert sorted(first) == [
        "extra is None",
        "flag is True",
        "mode is 'sum'",
        "scale is 2",
        "x is float32 [3], cpu, no grad",
    ]


def test_a_guard_on_a_symbolic_shape_is_the_users():
    """A branch on a size makes the size a condition, in plain words."""
    assert "2 <= x.size(0) <= 10" in yours("symbolic_condition")
    assert "11 <= x.size(0)" in yours("symbolic_condition")


def test_training_is_the_users_though_torch_reads_it():
    """dropout.py asks for `training`, and it is the user who calls eval()."""
    assert "self.drop.training is True" in yours("train_eval")
    assert "self.drop.training is False" in yours("train_eval")


def test_the_learning_rate_is_the_users_though_torch_reads_it():
    """sgd.py asks for the learning rate, and a schedule changes it."""
    assert [words for words in yours("optimizer_step") if "lr" in words] == ["self.param_groups[0]['lr'] is 0.1"]


def test_most_guards_are_internal():
    """Of the guards of an optimizer's step hardly any is one that a person can change."""
    guards = report("train_step").guards
    assert sum(not guard.internal for guard in guards) * 10 < len(guards)


def test_the_keys_of_a_dict_are_named_in_order():
    """A dict's keys are guarded by their place."""
    assert "key 0 of batch is 'pixels'" in yours("dict_keys")


def test_a_guard_is_on_the_line_that_made_it():
    """The guard on the global comes from the cell that defines the lambda, the one on the tensor from the function."""
    guards = {guard.source: guard for guard in report("new_lambda").guards if guard.compile_id == "0/0"}
    assert guards["G['w']"].location.cell == 2
    assert guards["L['scores']"].location.cell == 1
    assert guards["G['w']"].location.code == "masked(scores, lambda i: i < w)"


def test_a_guard_of_torchs_has_torchs_file():
    """A place that torch shortens by its own folder is given back in full."""
    guard = next(guard for guard in report("train_eval").guards if guard.expression.endswith(".training == True"))
    assert guard.location.file == "/site-packages/torch/nn/modules/dropout.py"


def test_only_frames_with_a_graph_have_guards():
    """A function without ops has guards in torch's text, and none in the report: nothing of it is compiled."""
    assert {guard.compile_id for guard in report("train_step").guards} == {"1/0", "4/0", "6/0"}


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.endswith("corrupted")])
def test_every_guard_has_words(name):
    """No guard is shown without words, and words have none of torch's bookkeeping in them."""
    for guard in report(name).guards:
        assert guard.words
        if not guard.internal:
            assert not any(odd in guard.words for odd in ("L['", "G['", "___", "check_tensor"))


@pytest.mark.parametrize(
    ("kind", "expression", "words"),
    [
        ("LENGTH_CHECK", "len(L['parts']) == 2", "parts has length 2"),
        ("LENGTH_CHECK", "not L['kwargs']", "kwargs is empty"),
        ("NOT_NONE", "L['p'].grad is not None", "p.grad is not None"),
        (
            "DICT_CONTAINS",
            "not ___dict_contains('forward', G['net'].__dict__)",
            "the global net.__dict__ has no key 'forward'",
        ),
        (
            "ID_MATCH",
            "___check_obj_id(L['rule'].__code__, 14), type=<class 'code'>",
            "rule is the same function as before (by its code)",
        ),
        ("TYPE_MATCH", "___check_type_id(L['self'], 9), type=<class '__main__.Net'>", "self is of type __main__.Net"),
        ("NO_TENSOR_ALIASING", "check_no_aliasing(L['a'], L['b'])", "no two of these are the same tensor: a, b"),
        ("A_KIND_OF_TOMORROW", "L['x'] @ G['y']", "x @ the global y"),
    ],
)
def test_words(kind, expression, words):
    """Each kind of guard has a sentence, and an unknown kind its condition in the user's names."""
    assert words_of(kind, expression) == words


def test_a_tensor_on_a_gpu_says_which():
    """The device is read from the dispatch keys and the index."""
    text = (
        "check_tensor(L['x'], Tensor, DispatchKeySet(CUDA, BackendSelect, ADInplaceOrView, AutogradCUDA), "
        "torch.bfloat16, device=1, requires_grad=True, size=[None, 4], stride=[4, 1])"
    )
    assert words_of("TENSOR_MATCH", text) == "x is bfloat16 [any, 4], cuda:1, requires grad"


def test_names_that_only_dynamo_knows_are_replaced():
    """A value that was computed before a break has no name of the user's."""
    assert plain("L['___stack0'] == 4.0") == "the value computed before the break == 4.0"
    assert plain("L['self']._modules['blocks']._modules['0']._parameters['weight']") == "self.blocks[0].weight"


def test_a_registry_has_no_kind_twice():
    """A kind that is ambient by nature may have words; the lists don't contradict each other on inputs."""
    assert not AMBIENT & {"TENSOR_MATCH", "EQUALS_MATCH", "LENGTH_CHECK", "LAMBDA_GUARD"}
    assert {"TENSOR_MATCH", "EQUALS_MATCH", "LENGTH_CHECK", "LAMBDA_GUARD"} <= WORDS.keys()


def test_a_large_model_is_read_in_a_blink():
    """A 12-block transformer has thousands of guards."""
    payload = next(r.payload for r in capture("train_eval").records if r.kind == "dynamo_cpp_guards_str")
    lines = [text for text in payload.splitlines() if ": " in text] * 100
    start = time.perf_counter()
    guards = list(Reader(Places(Roots(), ())).guards("0/0", read_leaves(HEAD + "\n".join(lines))))
    assert len(guards) > 4000
    assert time.perf_counter() - start < 1


def test_a_text_without_guards_is_refused():
    """What isn't a guard tree is said to be unreadable, not taken for a frame without guards."""
    with pytest.raises(ValueError, match="without a guard"):
        read_leaves(HEAD)


def test_line_of_the_float_guard():
    """The guard on a class attribute is on the line that reads the attribute."""
    guard = next(g for g in report("class_attribute").guards if g.expression == "G['Knobs'].floor == -0.5")
    assert guard.location.code.startswith("return y - Knobs.floor")
    assert guard.location.line == line("class_attribute", "floor")
