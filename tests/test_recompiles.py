"""recompiles: why a function was compiled again, in words, and the alarm at the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from traces.replay import RECORDED
from traces.replay import capture
from traces.replay import line
from traces.replay import report

from compile_magic.read.causes import CAUSES
from compile_magic.read.causes import understand
from compile_magic.read.changes import Facts
from compile_magic.read.parse import parse

CHANGES = {
    "dtype_then_grad": [
        ("dtype", "x was float32, now int64"),
        ("requires_grad", "x.requires_grad went from False to True"),
    ],
    "sizes_default": [("size", "x.size(0) went from 3 to 4")],
    "strides": [("stride", "x.stride(0) went from 4 to 1")],
    "float_attribute": [
        ("python_value", "self.scale was 0.5, now 0.6"),
        ("python_value", "self.scale was 0.6, now 0.7"),
        ("python_value", "self.scale was 0.7, now 0.8"),
    ],
    "list_length": [("length", "len(parts) was 1, now 2"), ("length", "len(parts) was 2, now 3")],
    "dict_keys": [
        ("keys", "the dict batch had 1 key, now 2: 'pixels', 'norm'"),
        ("order", "the dict keys of batch are in another order: key 0 was 'pixels', now 'norm'"),
    ],
    "train_eval": [("training", "the model went from train() to eval() (guard on self.drop.training)")],
    "grad_mode": [
        ("grad_mode", "grad mode went from on to off (no_grad around the call)"),
        ("inference_mode", "inference_mode was switched on around the call"),
        ("inference_mode", "a was a normal tensor, now an inference tensor (made under torch.inference_mode)"),
        ("requires_grad", "a.requires_grad went from False to True"),
        ("grad_mode", "grad mode went from on to off (no_grad around the call)"),
    ],
    "new_lambda": [
        ("python_value", "the global w was 0, now 1"),
        ("python_value", "the global w was 1, now 2"),
        ("identity", "rule is another function (its code differs)"),
    ],
    "class_attribute": [("python_value", "the global Knobs.floor was -0.5, now 2.25")],
    "inputs_of_all_kinds": [
        ("python_value", "flag was True, now False"),
        ("python_value", "mode was 'sum', now 'mean'"),
        ("python_value", "scale was 2, now 3"),
        ("none", "extra was None, now a tensor"),
        ("rank", "x had 1 dimension, now 2"),
    ],
    "symbolic_condition": [
        ("size", "x.size(0) went from 3 to 4"),
        ("size", "x.size(0) is 20 now: the compiled code holds for 2 <= x.size(0) <= 10"),
    ],
    "two_backends": [("backend", "it was compiled with backend eager, now with aot_eager")],
    "optimizer_step": [("python_value", "self.param_groups[0]['lr'] was 0.1, now 0.05")],
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_recompile_says_what_changed_between_the_calls(name):
    """The cause is what differs from the nearest compiled version, with from and to, in the order of the calls."""
    assert [(again.cause, again.words) for again in report(name).recompiles] == CHANGES[name]


@pytest.mark.parametrize("name", RECORDED)
def test_the_rows_add_up_to_the_events(name):
    """Folding resume functions into one row loses no recompile, and compiles that were refused are none."""
    found = report(name)
    assert found.recompile_count == sum(again.count for again in found.recompiles)
    told = {(r.epoch, r.compile_id) for r in capture(name).records if r.kind == "recompile_reasons"}
    made = {(r.epoch, r.compile_id) for r in capture(name).records if r.kind in ("dynamo_start", "dynamo_output_graph")}
    foreign = any("backend of its own" in note for note in found.notes)
    assert foreign or found.recompile_count == len(told & made)


@pytest.mark.parametrize("name", RECORDED)
def test_no_words_have_names_that_only_dynamo_knows(name):
    """Words are for a person who never read a guard."""
    for again in report(name).recompiles:
        assert not any(odd in again.words for odd in ("L['", "G['", "___", "GLOBAL_STATE", "expected "))


def test_a_size_that_changes_around_breaks_is_one_row():
    """One new size recompiles the function and both of its resume functions: one cause, three compiles."""
    (again,) = report("two_breaks_two_sizes").recompiles
    assert (again.function, again.cause, again.count) == ("wordy", "size", 3)
    assert again.words == "x.size(0) went from 8 to 9"
    assert report("two_breaks_two_sizes").recompile_count == 3


def test_recompiles_of_different_calls_are_different_rows():
    """The same change in another call is another event, not a multiple of the first."""
    records = [
        replace(r, call=0 if r.compile_id.endswith("/0") else 1) for r in capture("two_breaks_two_sizes").records
    ]
    third = [replace(r, compile_id=r.compile_id.replace("/1", "/2"), call=2) for r in records if r.call == 1]
    (first, second) = parse(replace(capture("two_breaks_two_sizes"), records=(*records, *third))).recompiles
    assert (first.count, second.count) == (3, 3)


def test_a_resume_function_alone_is_a_row_of_its_own():
    """A later call in which only the part after the break is compiled again isn't a part of the earlier call's row."""
    calls = {"0/1": 1, "1/1": 2, "2/1": 2}
    records = tuple(replace(r, call=calls.get(r.compile_id, 0)) for r in capture("two_breaks_two_sizes").records)
    found = parse(replace(capture("two_breaks_two_sizes"), records=records)).recompiles
    assert [(again.compile_id, again.count) for again in found] == [("0/1", 1), ("1/1", 2)]


def test_a_value_from_before_a_break_is_named_by_its_line():
    """`.item()` turned the maximum into a number that the rest of the function depends on; it has no name."""
    (again,) = report("item_multiplier").recompiles
    number = line("item_multiplier", "item")
    assert again.words == f"the value after the break on line {number} was 4.0, now 40.0"
    assert (again.function, again.cause) == ("rescale", "python_value")


def test_every_entrys_failed_guard_is_kept():
    """The third version was refused by both versions before it, for different reasons; both are there."""
    failed = report("dtype_then_grad").recompiles[1].failed
    assert [(guard.entry, guard.source, guard.expected, guard.actual) for guard in failed] == [
        ("0/1", "x", "int64", "float32"),
        ("0/0", "x", "False", "True"),
    ]


def test_a_failed_guard_is_on_the_line_that_made_it():
    """The guard on the global in a lambda is on the line of the lambda, the recompile on its function."""
    again = report("new_lambda").recompiles[0]
    assert (again.location.cell, again.failed[0].location.cell) == (1, 2)
    assert again.location.code == "def masked(scores, rule):"


def test_a_recompile_in_torch_is_shown_where_the_user_calls_it():
    """A schedule that changes the learning rate recompiles torch's own `step`; the place is the user's `opt.step()`."""
    (again,) = report("optimizer_step").recompiles
    assert (again.function, again.location.line) == ("step", line("optimizer_step", "step"))


def test_the_refused_compile_is_an_alarm_and_no_recompile():
    """Five sizes at a limit of two: two versions, one recompile, and from the third size on silently eager."""
    found = report("five_sizes")
    (hit,) = found.limit_hits
    assert (found.graph_count, found.recompile_count, found.limit_hit_count) == (2, 1, 1)
    assert (hit.function, hit.limit, hit.location.line) == ("double", 2, line("five_sizes", "def"))
    assert hit.reason == "x.size(0) went from 2 to 3"
    assert [guard.entry for guard in hit.failed] == ["0/1", "0/0"]
    assert (found.skipped_frames, found.breaks, found.failures) == ((), (), ())


def test_a_function_and_its_resume_functions_hit_the_limit_once():
    """The part before a break and the part after it are both refused; it is one function that is eager from here."""
    refused = (r for r in capture("limit_after_break").records if r.compile_id == "0/2")
    second = tuple(replace(r, compile_id="1/2") for r in refused)
    both = replace(capture("limit_after_break"), records=capture("limit_after_break").records + second)
    (hit,) = parse(both).limit_hits
    assert (hit.function, hit.location.line) == ("wordy", line("limit_after_break", "def"))


def test_the_limits_older_spelling_is_understood():
    """Before 2.11 torch says "cache limit"."""
    records = tuple(
        replace(r, data={**r.data, "fail_reason": r.data["fail_reason"].replace("recompile limit", "cache limit")})
        if r.data.get("fail_reason")
        else r
        for r in capture("five_sizes").records
    )
    assert parse(replace(capture("five_sizes"), records=records)).limit_hit_count == 1


def test_a_function_of_an_earlier_cell_is_named_by_torchs_warning():
    """The refused compile of a function compiled before the cell has no name in the trace; the warning has it."""
    refused = tuple(r for r in capture("five_sizes").records if r.compile_id == "0/2")
    warning = "torch._dynamo hit config.recompile_limit (2)\n   function: 'double' (<ipython-input-1-five_sizes>:3)\n"
    log = replace(refused[0], kind="log", compile_id="", payload=warning)
    (hit,) = parse(replace(capture("five_sizes"), records=(*refused, log))).limit_hits
    assert (hit.function, hit.location.line) == ("double", line("five_sizes", "def"))


@pytest.mark.parametrize(
    ("expression", "cause", "words"),
    [
        ("tensor 'x' dtype mismatch. expected BFloat16, actual Half", "dtype", "x was bfloat16, now float16"),
        (
            "tensor '___stack0' rank mismatch. expected 2, actual 1",
            "rank",
            "the value computed before the break had 2 dimensions, now 1",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, Dense), actual DispatchKeySet(CUDA)",
            "device",
            "x was on cpu, now on cuda",
        ),
        ("len(parts) == 8", "length", "len(parts) was 8, now another"),
        ("not kwargs", "length", "kwargs was empty, now it is not"),
        ("self.scale == 0.5", "python_value", "self.scale was 0.5, now another"),
        (
            "GLOBAL_STATE changed: autocast(cpu)_enabled ",
            "autocast",
            "autocast on cpu changed (torch.autocast around the call)",
        ),
        (
            "expected type of 'a' to be a tensor type, ' but found <class 'int'>",
            "type",
            "a was a tensor, now an int",
        ),
        ("Duplicate tensor found where not expected! x", "aliasing", "two arguments are the same tensor now"),
        ("not hasattr(self, 'cache')", "attribute", "self now has the attribute cache"),
        ("BACKEND_MATCH failure", "backend", "it was compiled with another backend"),
        ("", "unknown", "torch gave no reason"),
        (
            "Unexpected recompilation: runtime guards failed even though they passed",
            "unknown",
            "a guard failed in the call and held when torch looked for the reason",
        ),
        (
            "Tensor 'x' device index mismatch. Expected device index to be 0, actual 1",
            "device",
            "the device index of x went from 0 to 1",
        ),
        ("GLOBAL_STATE changed: ", "global_state", "torch's global state changed: it says no more"),
        ("GLOBAL_STATE changed: a_new_flag ", "global_state", "a_new_flag changed"),
        (
            "GLOBAL_STATE changed: num_threads allow_x ",
            "global_state",
            "the number of threads changed (torch.set_num_threads); allow_x changed",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, Old), actual DispatchKeySet(CPU, New)",
            "dispatch_keys",
            "x is another kind of tensor (dispatch keys New, Old changed)",
        ),
        (
            "utils_device.CURRENT_DEVICE == None",
            "global_state",
            "the default device was None, now another (torch.set_default_device)",
        ),
        (
            "torch._functorch.pyfunctorch.compare_functorch_state([])",
            "transform",
            "the torch.func transforms around the call changed (vmap, grad, jvp)",
        ),
        (
            "torch.autograd.forward_ad._current_level == -1",
            "transform",
            "the level of forward-mode AD around the call was -1, now another",
        ),
        (
            "torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None",
            "hooks",
            "the saved-tensor hooks around the call changed (torch.autograd.graph)",
        ),
        ("not ___dict_contains('k', self.__dict__)", "attribute", "self now has the attribute k"),
        ("getattr failed on source c", "attribute", "c no longer has an attribute that the compiled code reads"),
        (
            "Cache line invalidated because L['opt'] got deallocated",
            "identity",
            "opt is another object: the one that it was compiled for no longer exists",
        ),
        (
            "___skip_backend_check() or ___current()",
            "unknown",
            "this no longer held: ___skip_backend_check() or ___current()",
        ),
    ],
)
def test_words(expression, cause, words):
    """Each way in which a guard fails has a sentence; the new value is given only where torch gives it."""
    change = understand(expression, Facts(), Facts())
    assert (change.cause, change.words) == (cause, words)


def test_an_empty_reason_is_called_one():
    """Where torch names the entry and says nothing of it, the words say that torch gave no reason."""
    records = tuple(
        replace(r, payload="0/0: ") if r.kind == "recompile_reasons" else r for r in capture("strides").records
    )
    (again,) = parse(replace(capture("strides"), records=records)).recompiles
    assert (again.cause, again.words, again.fix) == ("unknown", "torch gave no reason", None)


def test_a_size_has_the_line_that_uses_it():
    """Torch gives no line with a tensor's guard that failed; the guard tree of the entry has it."""
    (guard,) = report("sizes_default").recompiles[0].failed
    assert (guard.location.code, guard.location.cell) == ("return x * 2", 1)


def test_a_fix_is_told_where_one_is_known():
    """A size is marked, a learning rate made a tensor, a float attribute a buffer; a rank has no such way out."""
    fixes = {name: report(name).recompiles[-1].fix for name in ("sizes_default", "optimizer_step", "float_attribute")}
    assert {name: fix.snippet for name, fix in fixes.items()} == {
        "sizes_default": "torch._dynamo.mark_dynamic(x, 0)",
        "optimizer_step": "lr=torch.tensor(0.1)",
        "float_attribute": "self.register_buffer('scale', torch.tensor(0.7))  # then self.scale.fill_(value)",
    }
    assert report("inputs_of_all_kinds").recompiles[-1].fix is None


def test_an_unknown_reason_is_kept_raw():
    """A reason that no pattern knows is shown as torch words it."""
    records = tuple(
        replace(r, payload="0/0: ~~~") if r.kind == "recompile_reasons" else r for r in capture("strides").records
    )
    (again,) = parse(replace(capture("strides"), records=records)).recompiles
    assert (again.cause, again.raw, again.failed[0].expression) == ("unknown", "0/0: ~~~", "~~~")


ENTRIES = [entry for entry in CAUSES if entry.pattern.search("") is None]


@pytest.mark.parametrize("cause", ENTRIES, ids=lambda cause: f"{cause.name}:{cause.pattern.pattern[:24]}")
def test_a_cause_takes_no_other_causes_text(cause):
    """A text of nothing in particular is no cause's."""
    assert cause.pattern.search("~~~") is None
