"""parse: a capture -> what happened. Replays recorded traces; neither torch nor IPython is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from traces.replay import RECORDED
from traces.replay import capture
from traces.replay import line
from traces.replay import report

from compile_magic.model import ExplainReport
from compile_magic.read.parse import parse
from compile_magic.trace import Capture
from compile_magic.trace import Record
from compile_magic.trace import Roots
from compile_magic.trace import SourceFile

SOUND = [name for name in RECORDED if not name.endswith("corrupted")]


def without(name: str, *kinds: str, **changes: object) -> Capture:
    """Return a recorded capture without the records of some kinds."""
    kept = tuple(record for record in capture(name).records if record.kind not in kinds)
    return replace(capture(name), records=kept, **changes)


@pytest.mark.parametrize("name", SOUND)
def test_every_record_of_a_sound_trace_is_read(name):
    """What torch says in these versions is understood in full: no unread record, and no two sources that disagree."""
    found = report(name)
    assert found.unread == ()
    assert [note for note in found.notes if "ops" in note] == []


@pytest.mark.parametrize("name", RECORDED)
def test_a_report_survives_json(name):
    """A report of any trace can be saved and loaded again without a difference."""
    assert ExplainReport.from_json(report(name).to_json()).to_dict() == report(name).to_dict()


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_cut_off_texts_never_raise(name, share):
    """A torch that words its texts otherwise costs rows of the report, never the report."""
    cut = tuple(
        replace(r, payload=r.payload and r.payload[: int(len(r.payload) * share)]) for r in capture(name).records
    )
    json.dumps(parse(replace(capture(name), records=cut)).to_dict())


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("value", [None, -1, "text", [], {}])
def test_fields_of_another_type_never_raise(name, value):
    """A torch that puts something else in a record's fields costs rows of the report, never the report."""
    odd = tuple(replace(record, data=dict.fromkeys(record.data, value)) for record in capture(name).records)
    json.dumps(parse(replace(capture(name), records=odd)).to_dict())


def test_damaged_records_are_counted_and_the_rest_is_kept():
    """One damaged record of each kind costs no other record, and each is counted with its reason."""
    found = report("corrupted")
    assert {missed.kind: missed.count for missed in found.unread} == {
        "dynamo_start": 1,
        "dynamo_graph_break_reason": 1,
        "dynamo_output_graph": 1,
        "dynamo_cpp_guards_str": 1,
        "recompile_reasons": 1,
        "graph_break_of_the_future": 1,
        "unreadable": 1,
    }
    assert all(missed.why for missed in found.unread)
    assert found.graph_count == report("two_breaks_two_sizes").graph_count
    assert found.recompile_count == report("two_breaks_two_sizes").recompile_count
    assert any(broken.raw == "Something broke, and torch words it otherwise now." for broken in found.breaks)


def test_parse_needs_neither_torch_nor_ipython():
    """A trace in a bug report can be read where torch isn't installed."""
    script = "import sys; sys.modules['torch'] = sys.modules['IPython'] = None; import compile_magic.read.parse"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_empty_capture_is_an_empty_report():
    """A cell in which nothing was compiled gives a report of zeros."""
    found = parse(Capture(mode="named", backend="aot_eager", notes=("nothing",), error="E", torch_version="2.13.0"))
    assert (found.graph_count, found.graph_break_count, found.recompile_count, found.op_count) == (0, 0, 0, 0)
    assert (found.mode, found.backend, found.notes, found.error) == ("named", "aot_eager", ("nothing",), "E")


# --- graphs ----------------------------------------------------------------------------------------------------------


def test_a_break_splits_the_function_in_two_graphs():
    """The sum and the comparison come before the branch, the product after it."""
    before, after = report("data_dependent_if").graphs
    assert (dict(before.ops), dict(after.ops)) == ({"sum": 1, "gt": 1}, {"mul": 1})
    assert (before.after_break, after.after_break) == (False, True)
    assert (before.function, after.function) == ("choosy", "choosy")
    assert before.location.line == line("data_dependent_if", "if")
    assert dict(before.shapes) == {"x": "f32[3]"}


def test_graphs_are_not_breaks_plus_one():
    """A break at the very end gives one graph and one break: neither figure comes from the other."""
    found = report("terminal_bincount")
    assert (found.graph_count, found.graph_break_count) == (1, 1)


def test_the_users_own_compiled_code_is_counted_from_the_printed_graph():
    """Of `x[0] = 1`, a split, its two parts, a product, `x[1]` and a sum, every one is an op."""
    (graph,) = report("observed").graphs
    assert dict(graph.ops) == {"setitem": 1, "split": 1, "getitem": 3, "mul": 1, "add": 1}
    assert graph.op_count == 7


@pytest.mark.parametrize("name", SOUND)
def test_the_printed_graph_counts_what_the_backend_was_handed(name):
    """Two independent sources agree on the ops of every recorded graph."""
    by_backend = [dict(graph.ops) for graph in report(name).graphs]
    printed = parse(
        replace(
            without(name, "backend_graph", "call"),
            records=tuple(replace(record, call=None) for record in without(name, "backend_graph", "call").records),
        )
    )
    foreign = any("backend of its own" in note for note in report(name).notes)
    assert foreign or by_backend == [dict(graph.ops) for graph in printed.graphs]


def test_a_split_graph_counts_as_what_the_backend_was_handed():
    """A backend that splits (DDP's buckets) is handed several graphs, and the note gives both figures."""
    records = list(capture("data_dependent_if").records)
    first = next(i for i, record in enumerate(records) if record.kind == "backend_graph")
    halves = [replace(records[first], data={"ops": {name: 1}}) for name in ("sum", "gt")]
    found = parse(replace(capture("data_dependent_if"), records=(*records[:first], *halves, *records[first + 1 :])))
    assert [graph.op_count for graph in found.graphs] == [1, 1, 1]
    assert "split the graph of 2 ops into 2 of 1, 1 ops" in found.notes[0]


def test_a_compile_that_starts_over_gives_one_graph():
    """Where Dynamo traces again after it had handed a graph over, only the last graph runs."""
    kinds = ("dynamo_output_graph", "backend_graph")
    again = tuple(record for record in capture("strides").records if record.kind in kinds)
    found = parse(replace(capture("strides"), records=again + capture("strides").records))
    assert found.op_count == report("strides").op_count
    assert found.notes == ()


def test_sources_that_disagree_are_both_named():
    """Where torch prints other ops than the backend was handed, the note has both figures."""
    records = tuple(
        replace(r, data={"ops": {"mul": 5}}) if r.kind == "backend_graph" else r for r in capture("strides").records
    )
    notes = parse(replace(capture("strides"), records=records)).notes
    assert "double [0/0]: the backend was handed 5 ops, torch's trace prints 1; the first is counted." in notes


def test_a_graph_of_another_backend_in_the_call_is_left_out():
    """A function that the user compiled himself and that a target calls isn't the target's graph; a note names it."""
    found = report("inner_compiled")
    assert found.graph_count == 0
    assert any(note.startswith("inner: ") for note in found.notes)


def test_the_optimizers_graph_is_counted_though_its_frame_is_torchs():
    """`opt.step()` in a compiled training step gives a graph of its own, with one addition for each parameter."""
    assert [(graph.function, dict(graph.ops)) for graph in report("train_step").graphs] == [
        ("train_step", {"linear": 1, "mse_loss": 1}),
        ("step", {"add_": 2}),
        ("train_step", {"detach": 1}),
    ]


def test_backward_graphs_are_attached_to_their_function():
    """A backward pass outside the compiled function has one graph, of the loss function's frame, once."""
    (graph,) = report("backward_outside").backward_graphs
    assert (graph.compile_id, graph.function, graph.ops["mm"]) == ("0/0", "loss_of", 1)
    doubled = replace(capture("backward_outside"), records=capture("backward_outside").records * 2)
    assert len(parse(doubled).backward_graphs) == 1


# --- functions left in eager, and failures ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "function", "how"),
    [
        ("print_in_loop", "chain", "in a loop"),
        ("break_in_with", "block", "inside a `with` block"),
        ("break_in_try", "guarded", ""),
    ],
)
def test_a_break_that_cannot_be_resumed_leaves_the_function_in_eager(name, function, how):
    """A print in a loop, a `with` or a `try` is no split: nothing is compiled, and the cause is on the print's line."""
    found = report(name)
    (skipped,) = found.skipped_frames
    assert (found.graph_count, found.graph_break_count, skipped.function) == (0, 1, function)
    assert skipped.cause == found.breaks[0]
    assert skipped.cause.location.line == line(name, "print")
    assert skipped.reason == f"Failed to trace builtin operator on line {line(name, 'print')} {how}".strip()


def test_a_skip_is_found_where_torch_has_no_break_record_of_it():
    """Before torch 2.11 only the metrics tell of a function left in eager; the row is the same."""
    found = parse(without("print_in_loop", "dynamo_graph_break_reason", torch_version="2.9.1"))
    expected = report("print_in_loop")
    assert (found.graph_break_count, found.skipped_frame_count) == (1, 1)
    assert found.skipped_frames[0].reason == expected.skipped_frames[0].reason
    for name in ("kind", "gb_id", "hints", "location", "in_loop", "skipped", "owner"):
        assert getattr(found.breaks[0], name) == getattr(expected.breaks[0], name), name


def test_a_skip_in_the_users_own_compiled_code_is_found_before_2_11_too():
    """Only an error that ended the cell, or a newer torch, makes a failure of a compile without a break record."""
    records = tuple(
        replace(record, call=None) for record in without("print_in_loop", "dynamo_graph_break_reason").records
    )
    old = replace(capture("print_in_loop"), records=records, torch_version="2.9.1")
    ended = replace(old, error="Unsupported: Failed to trace builtin operator")
    assert [(f.skipped_frame_count, len(f.failures)) for f in (parse(old), parse(ended))] == [(1, 0), (0, 1)]


def test_an_exception_of_the_users_is_said_as_what_it_is():
    """A function that raises in eager as well is no alarm: it raised."""
    (skipped,) = report("user_exception").skipped_frames
    assert skipped.reason == "it raised ValueError"
    assert report("user_exception").failures == ()


def test_fullgraph_shows_the_break_that_made_it_fail():
    """With fullgraph the failure is named, and the break is the row that it is without fullgraph."""
    found, without_it = report("fullgraph"), report("data_dependent_if")
    (failure,) = found.failures
    assert (failure.function, failure.kind, failure.ran_eager) == ("choosy", "Unsupported", True)
    assert (found.graph_count, found.skipped_frames) == (0, ())
    for name in ("kind", "gb_id", "url", "hints", "function", "owner", "in_loop"):
        assert getattr(found.breaks[0], name) == getattr(without_it.breaks[0], name), name
    assert found.breaks[0].location.line == failure.location.line == line("fullgraph", "if")
    assert found.breaks[0].skipped


def test_a_failing_fullgraph_of_the_users_own_is_a_failure():
    """Code that the user compiled with fullgraph raises: it did not run in eager, and isn't listed as if it had."""
    records = tuple(replace(record, call=None) for record in without("fullgraph", "call").records)
    found = parse(replace(capture("fullgraph"), records=records))
    assert (found.skipped_frame_count, [failure.ran_eager for failure in found.failures]) == (0, [False])


def test_a_backend_that_raises_is_quoted():
    """The backend's own words are the reason, without the address of our wrapper; the graph was handed over."""
    (failure,) = report("backend_failure").failures
    assert failure.kind == "BackendCompilerFailed"
    assert failure.reason == "the backend raised RuntimeError: this backend refuses every graph"
    assert failure.location.line == line("backend_failure", "def")
    assert report("backend_failure").graph_count == 1


@pytest.mark.parametrize(
    ("name", "mark", "words"),
    [("mm_shapes", "mm", "reduction dim"), ("custom_op", "op", "register_fake")],
)
def test_an_op_that_fails_while_tracing_is_quoted_on_its_line(name, mark, words):
    """A shape error, or a custom op without a fake kernel, is shown in the op's own words on the user's line."""
    (failure,) = report(name).failures
    assert (failure.kind, failure.location.line) == ("TorchRuntimeError", line(name, mark))
    assert failure.reason.startswith("RuntimeError: ")
    assert words in failure.reason


# --- whose code ------------------------------------------------------------------------------------------------------


def stack(*frames: tuple[str, int, str]) -> dict[str, object]:
    """Return the data of a dynamo_start record."""
    return {"stack": [{"filename": file, "line": number, "name": name} for file, number, name in frames]}


def test_frames_of_the_notebook_are_neither_counted_nor_shown():
    """A print in a live kernel compiles the kernel's own functions: they and their breaks are none of the user's."""
    roots = Roots(torch="/sp/torch", packages=("/sp",), stdlib=("/lib/python3.11",), tool="/sp/compile_magic")
    cell = ("/kernel/1.py", 3, "f")
    ours = [
        ("/sp/ipykernel/iostream.py", 9, "write"),
        ("/lib/python3.11/threading.py", 5, "run"),
        ("/sp/zmq/a.py", 1, "send"),
    ]
    reason = (
        'Graph break in user code at x:1\nGraph Break Reason: Odd\n\nUser code traceback:\n  File "{}", line 1, in g\n'
    )
    records = []
    for number, frame in enumerate(ours):
        records.append(Record("dynamo_start", f"{number}/0", call=0, data=stack(cell, ours[0], frame)))
        records.append(Record("dynamo_graph_break_reason", f"{number}/0", call=0, payload=reason.format(frame[0])))
        metrics = {"co_name": frame[2], "co_filename": frame[0], "fail_type": "Unsupported", "duration_us": 1}
        records.append(Record("compilation_metrics", f"{number}/0", call=0, data=metrics))
    source = SourceFile("/kernel/1.py", "a\nb\nprint(1)\n", cell=1)
    found = parse(Capture(records=tuple(records), sources=(source,), roots=roots))
    assert (found.breaks, found.skipped_frames, found.failures, found.compile_time_s) == ((), (), (), 0.0)


def test_frames_of_the_standard_library_are_not_shown():
    """What Dynamo tried in the standard library on the user's behalf is no break of the user's."""
    reason = "Graph break in user code at x:1\nGraph Break Reason: Odd\n\nUser code traceback:\n"
    traceback = (
        '  File "<ipython-input-1-a>", line 1, in f\n  File "/lib/python3.11/logging/__init__.py", line 9, in info\n'
    )
    frames = stack(("<ipython-input-1-a>", 1, "f"), ("/lib/python3.11/logging/__init__.py", 9, "info"))
    records = (
        Record("dynamo_start", "0/0", call=0, data=frames),
        Record("dynamo_graph_break_reason", "0/0", call=0, payload=reason + traceback),
    )
    assert parse(Capture(records=records, roots=Roots(stdlib=("/lib/python3.11",)))).breaks == ()


def test_ids_that_start_anew_after_a_reset_are_other_compiles():
    """A reset in the cell gives ids out again: two compiles 0/0 of two epochs are two graphs."""
    again = tuple(replace(record, epoch=1) for record in capture("strides").records)
    both = replace(capture("strides"), records=capture("strides").records + again)
    assert parse(both).graph_count == 2 * report("strides").graph_count


def test_lines_are_those_of_the_gutter():
    """The first line of a cell's body is line 2 under a `%%` line, and the place is written as IPython writes it."""
    found = report("data_dependent_if").breaks[0].location
    assert str(found) == f"Cell In[1], line {line('data_dependent_if', 'if')}"
    assert found.code == "if x.sum() > 0:  # <- if"


def test_source_excerpts_hold_the_whole_function_and_its_numbers():
    """The excerpt of a finding is its function, numbered as displayed."""
    (excerpt,) = report("data_dependent_if").sources
    number = line("data_dependent_if", "if")
    assert excerpt.lines[number - excerpt.first_line] == "    if x.sum() > 0:  # <- if"
    assert excerpt.lines[0] == "def choosy(x):"
    assert excerpt.lines[-1] == "    return x - 1"
    assert excerpt.cell == 1


def test_excerpts_of_a_long_function_are_short():
    """Of a function of more than sixty lines only the lines around a finding are shown."""
    source = capture("data_dependent_if").sources[0]
    long = replace(source, text=source.text + "    # filler\n" * 80 + "    return None\n")
    found = parse(replace(capture("data_dependent_if"), sources=(long,)))
    assert max(len(part.lines) for part in found.sources) <= 9


# --- time ------------------------------------------------------------------------------------------------------------


def test_compile_time_is_the_sum_of_the_compiles():
    """The time is the sum over torch's metrics of every compile, the backward's included."""
    metrics = [r.data for r in capture("backward_outside").records if r.kind.endswith("compilation_metrics")]
    assert len(metrics) == 2
    assert report("backward_outside").compile_time_s == pytest.approx(sum(m["duration_us"] for m in metrics) / 1e6)
    assert report("backward_outside").phases.keys() >= {"dynamo", "aot_autograd", "backward"}
    assert all(took > 0 for took in report("backward_outside").phases.values())
