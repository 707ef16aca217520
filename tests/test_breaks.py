"""breaks: what torch's text on a graph break says, on whose line."""

from __future__ import annotations

import pytest
from traces.replay import line
from traces.replay import report

from compile_magic.read.breaks import MOST_RAW
from compile_magic.read.breaks import read_break
from compile_magic.read.breaks import read_reasons
from compile_magic.read.breaks import user_stack
from compile_magic.read.frames import Frame
from compile_magic.read.frames import Places
from compile_magic.trace import Roots

RESUMED = {
    "data_dependent_if": ("if", "GB0170", "Data-dependent branching"),
    "nonzero": ("index", "GB0036", "Dynamic shape operator"),
    "item_multiplier": ("item", "GB0124", "Unsupported Tensor.item() call with capture_scalar_outputs=False"),
    "disabled_helper": ("call", "GB0098", "Skip calling `torch.compiler.disable()`d function"),
    "logging": ("log", "GB0291", "logging.Logger method not supported for non-export cases"),
    "terminal_bincount": ("bincount", "GB0036", "Dynamic shape operator"),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_break_is_named_on_the_users_line(name):
    """Each kind of break is one site, with torch's name and number for it, on the line that the user wrote."""
    mark, gb_id, kind = RESUMED[name]
    (found,) = report(name).breaks
    assert (found.location.line, found.gb_id, found.kind) == (line(name, mark), gb_id, kind)
    assert found.url.endswith(f"/gb/{gb_id.lower()}.html")
    assert (found.owner, found.skipped, found.in_loop, found.count) == ("your code", False, False, 1)
    assert found.explanation
    assert found.hints


def test_the_hints_and_the_explanation_are_whole():
    """A hint is one line of torch's, and an explanation keeps its own lines without the developer context."""
    (found,) = report("data_dependent_if").breaks
    assert len(found.hints) == 3
    assert found.hints[-1] == "Use `torch.cond` to express dynamic control flow."
    assert found.explanation.startswith("Detected data-dependent branching")
    assert "gt = gt(sum_1, 0)" in found.explanation
    assert "TensorVariable" not in found.explanation
    assert "TensorVariable" in found.raw


def test_a_break_in_an_inlined_helper_is_one_site():
    """It is recorded for the caller and again for the helper: it is one line of the user's, seen twice."""
    (found,) = report("helper_with_print").breaks
    assert (found.function, found.location.line, found.count) == ("helper", line("helper_with_print", "print"), 2)
    assert [place.line for place in found.stack][-1] == line("helper_with_print", "print")
    assert report("helper_with_print").graph_count == 4


def test_a_print_in_a_loop_says_that_the_loop_is_the_trouble():
    """The break is the print, with the print's hints and number, and that it is in a loop is kept beside it."""
    (found,) = report("print_in_loop").breaks
    assert (found.in_loop, found.skipped, found.gb_id) == (True, True, "GB0059")
    assert found.location.line == line("print_in_loop", "print")
    assert any("reorderable_logging_functions" in hint for hint in found.hints)
    assert not any("earlier graph break" in hint for hint in found.hints)


def test_a_break_in_a_with_block_is_not_in_a_loop():
    """What made the frame unresumable is named as torch names it, and a `with` is no loop."""
    (found,) = report("break_in_with").breaks
    assert (found.in_loop, found.skipped) == (False, True)
    assert "Graph break under GenericContextWrappingVariable" in found.reason


def test_a_break_in_a_generator_is_on_its_line_and_skips_the_caller():
    """The print is in the generator, the function that runs in eager is the one that loops over it."""
    found = report("generator")
    assert (found.breaks[0].function, found.skipped_frames[0].function) == ("pieces", "total")


def test_a_break_in_the_standard_library_is_shown_where_the_user_called_it():
    """`copy.deepcopy` breaks deep in copy.py; the row is the user's call, and the stack ends in copy.py."""
    (found,) = report("deepcopy").breaks
    assert (found.location.line, found.owner) == (line("deepcopy", "deepcopy"), "your code")
    assert (found.function, found.location.code) == ("sample", "local = copy.deepcopy(cfg)  # <- deepcopy")
    assert found.stack[-1].file == "/lib/python3.11/copy.py"


def test_a_stack_has_no_frame_of_the_tool_or_of_torchs_machinery():
    """A stack runs from the cell's line to the break, through the user's code only."""
    for name in ("helper_with_print", "train_step", "deepcopy", "logging"):
        for found in report(name).breaks:
            inner = found.stack[:-1]
            assert all(place.cell is not None for place in inner)
            assert found.stack[0].cell == 2


@pytest.mark.parametrize("name", ["<module>", "<cell line: 2>"])
def test_a_stack_begins_where_the_cells_body_runs(name):
    """A cell that runs another cell (a magic over a body) stands below it on the stack and is no caller of anything."""
    frames = (
        Frame("<ipython-input-7-ab>", 1, name),
        Frame("/sp/site-packages/IPython/core/interactiveshell.py", 9, "run_cell_magic"),
        Frame("<ipython-input-7-cd>", 3, name),
        Frame("<ipython-input-2-ef>", 5, "f"),
        Frame("/sp/site-packages/torch/nn/functional.py", 70, "relu"),
    )
    places = Places(Roots(torch="/sp/site-packages/torch"), ())
    assert [str(place) for place in user_stack(frames, places)] == [
        "Cell In[7], line 3",
        "Cell In[2], line 5",
        "functional.py:70",
    ]


def test_the_users_breaks_come_before_the_librarys():
    """`zero_grad` and `backward` are the user's to change; torch's deliberate breaks in `step` are one library row."""
    found = report("train_step").breaks
    marks = [line("train_step", mark) for mark in ("zero_grad", "backward", "step")]
    assert [each.location.line for each in found] == marks
    assert [each.owner for each in found] == ["your code", "your code", "library"]
    assert [each.count for each in found] == [1, 1, 2]
    assert found[1].kind == "Unsupported Tensor.backward() call"
    assert found[2].stack[-1].file.endswith("torch/optim/optimizer.py")


def test_addresses_are_masked():
    """An object's address differs from run to run and would make two runs' reports differ."""
    (found,) = report("disabled_helper").breaks
    assert "0x…" in found.explanation
    assert "0x7" not in found.explanation + found.kind + found.reason


def test_raw_keeps_the_text_and_not_the_compilers_traceback():
    """The text is kept up to torch's own traceback, and is bounded."""
    (found,) = report("disabled_helper").breaks
    assert found.raw.startswith("Graph break in user code at ")
    assert "symbolic_convert.py" not in found.raw
    long = "Graph Break Reason: Odd\n  Explanation: " + "x" * 3 * MOST_RAW
    assert len(read_break(long).raw) == MOST_RAW


def test_a_header_on_the_reasons_own_line_is_the_kind():
    """Where nothing was added in front, the kind stands on the line of the reason itself."""
    read = read_break("Graph break in user code at a.py:7\nGraph Break Reason: Odd thing\n  Explanation: Why.\n")
    assert (read.told.kind, read.told.explanation, read.skipped) == ("Odd thing", "Why.", False)
    assert [(frame.file, frame.line) for frame in read.stack] == [("a.py", 7)]


def test_further_breaks_are_told_apart_from_the_first():
    """A message with two breaks has two entries, each with its own number."""
    first, second = read_reasons(
        "A\n  Hint: a.\n visit: https://x/gb/gb0001.html\n\n"
        "*** While handling this graph break, another graph break occurred: ***\n\n"
        "B\n  Hint: b.\n visit: https://x/gb/gb7000.html\n"
    )
    assert (first.kind, first.gb_id, second.kind, second.gb_id) == ("A", "GB0001", "B", "GB7000")
    assert (first.hints[0].splitlines()[0], second.hints[0].splitlines()[0]) == ("a.", "b.")


def test_a_text_without_a_reason_is_refused():
    """What isn't a break's text is said to be unreadable, not taken for one."""
    with pytest.raises(ValueError, match="without a reason"):
        read_break("all is well")
