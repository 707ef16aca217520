"""Warnings of the user's code are shown, recorded and raised as in a plain cell, and torch's own are not."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest
import torch
from side_by_side import both

from compile_magic.run.quiet import Quiet

_WARNS = "import warnings\ndef w(x):\n    y = x + 1\n    warnings.warn('mine', {})\n    return y * 2\n"
_DEEP = _WARNS.format("FutureWarning, stacklevel=2") + "def deep(x):\n    return w(x) + 1\n"
_RECORDED = (
    "with warnings.catch_warnings(record=True) as got:\n    warnings.simplefilter('always')\n    y = {}\n"
    "got = [(str(one.message), one.category.__name__) for one in got]"
)

CELLS = {
    "stacklevel 2": (_WARNS.format("FutureWarning, stacklevel=2"), _RECORDED.format("w(x)")),
    "stacklevel 1": (_WARNS.format("UserWarning"), _RECORDED.format("w(x)")),
    "stacklevel 9": (_WARNS.format("UserWarning, stacklevel=9"), _RECORDED.format("w(x)")),
    "in an inlined helper": (_DEEP, _RECORDED.format("deep(x)")),
    "an object": (_WARNS.replace("'mine', {}", "UserWarning('mine'), stacklevel=2"), _RECORDED.format("w(x)")),
    "explicit": (
        "import warnings\ndef w(x):\n    warnings.warn_explicit('mine', UserWarning, torch.__file__, 3)\n"
        "    return x\n",
        _RECORDED.format("w(x)"),
    ),
    "in a method of a module": (
        "import warnings\nclass Warns(nn.Module):\n    def forward(self, x):\n"
        "        warnings.warn('mine', UserWarning, stacklevel=2)\n        return x * 2\nwarns = Warns()\n",
        _RECORDED.format("warns(x)"),
    ),
    "made an error": (
        _WARNS.format("FutureWarning"),
        "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    try:\n        w(x)\n"
        "    except FutureWarning as e:\n        got = str(e)",
    ),
    "once": (
        _WARNS.format("UserWarning"),
        "with warnings.catch_warnings(record=True) as got:\n    warnings.simplefilter('once')\n    w(x); w(x); w(x)\n"
        "got = len(got)",
    ),
    "ignored": (
        _WARNS.format("UserWarning, stacklevel=2"),
        _RECORDED.replace("'always'", "'ignore'").format("w(x)"),
    ),
    "a showwarning of his own": (
        _WARNS.format("UserWarning, stacklevel=2"),
        "got, old = [], warnings.showwarning\nwarnings.showwarning = lambda m, *rest, **more: got.append(str(m))\n"
        "warnings.simplefilter('always')\ny = w(x)\nwarnings.showwarning = old\ndel old",
    ),
    "captured by logging": (
        _WARNS.format("UserWarning"),
        "import logging\nclass Keep(logging.Handler):\n    def emit(self, record):\n"
        "        got.append(record.levelname)\n"
        "got, keep = [], Keep()\nlogging.getLogger('py.warnings').addHandler(keep)\nlogging.captureWarnings(True)\n"
        "warnings.simplefilter('always')\ny = w(x)\nlogging.captureWarnings(False)\n"
        "logging.getLogger('py.warnings').removeHandler(keep)",
    ),
    "shown": (_WARNS.format("UserWarning"), "warnings.simplefilter('always')\ny = w(x)"),
}


@pytest.mark.parametrize("line", ["-q", "-q w"])
@pytest.mark.parametrize("how", CELLS)
def test_a_warning_of_the_user_comes_as_in_a_plain_cell(how: str, line: str) -> None:
    """It is shown, recorded, counted or raised as often as in a plain cell, whatever frame its stacklevel names."""
    setup, cell = CELLS[how]
    if "w(x)" not in cell or "deep" in cell:
        line = "-q"
    plain, explained, report = both(cell, "warnings.warn('later')", setup=setup, line=line)

    assert explained == plain
    assert not any("mine" in note for note in report.notes)


def test_a_remark_of_the_compiler_is_kept_for_the_report(notebook: Any) -> None:
    """What torch's compiler warns about while it works is a note, and neither shown nor recorded."""
    cached = "@functools.lru_cache\ndef two():\n    return 2\ndef f(x):\n    return x * two()"
    notebook.ok(f"import functools, torch, warnings\nx = torch.ones(3)\n{cached}")
    report = notebook.explain(
        "with warnings.catch_warnings(record=True) as got:\n    warnings.simplefilter('always')\n    y = f(x)", "-q"
    )

    assert notebook.get("got") == []
    assert any(note.startswith("torch warned while compiling") for note in report.notes)


@pytest.mark.parametrize("ends", [0, 1, 2, 3])
def test_runs_that_overlap_and_end_in_any_order_leave_nothing(ends: int) -> None:
    """Whoever stops first, second or never: a warning gets through once, and showwarning is the user's all the time."""
    shower, inner = warnings.showwarning, warnings._showwarnmsg  # type: ignore[attr-defined]
    runs = [Quiet(lambda: False, lambda *_: None) for _ in range(3)]
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        recording = warnings.showwarning
        for run in runs:
            run.enter()
        stopped = [*runs[ends:], *runs[:ends]][: 3 if ends < 3 else 2]
        for number, run in enumerate(stopped):
            warnings.warn(f"{number}", stacklevel=1)
            run.stop()
            run.enter()

        assert warnings.showwarning is recording
    for run in runs:
        run.stop()

    assert [str(one.message) for one in got] == [str(number) for number in range(len(stopped))]
    assert warnings.showwarning is shower
    assert warnings._showwarnmsg is inner  # type: ignore[attr-defined]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("step", ["enter", "stop", "_watch_handlers", "_filter"])
def test_an_interrupt_anywhere_leaves_warnings_to_the_user(
    step: str, stop: type[BaseException], notebook: Any, monkeypatch: Any
) -> None:
    """Interrupted in any step of ours, warnings.showwarning is the user's and a warning is shown once."""

    def interrupted(*_: Any) -> None:
        raise stop

    interrupted.__name__ = step
    inner = warnings._showwarnmsg  # type: ignore[attr-defined]
    notebook.ok("import torch, warnings\nx = torch.ones(3)\ndef f(x):\n    return x + 1\nshower = warnings.showwarning")
    monkeypatch.setattr(Quiet, step, interrupted)
    notebook.run("%%compile_explain -q\nf(x)")
    monkeypatch.undo()
    notebook.ok("same = warnings.showwarning is shower\n" + _RECORDED.format("warnings.warn('mine')"))

    # Where nothing of `stop` is done, Python's own name is left exchanged, and lets everything through.
    warnings._showwarnmsg = inner  # type: ignore[attr-defined]

    assert notebook.get("same")
    assert notebook.get("got") == [("mine", "UserWarning")]
    assert notebook.explain("f(x)", "-q").graph_count == 1


def test_a_warning_of_another_thread_gets_through() -> None:
    """While one thread is in an explained call, what another one warns about is shown."""
    inside = threading.local()
    quiet = Quiet(lambda: getattr(inside, "now", False), lambda *_: None)
    inside.now = True
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        quiet.enter()
        torchs = "import warnings\nwarnings.warn('torch')"
        exec(compile(torchs, f"{torch.__path__[0]}/_dynamo/x.py", "exec"), {})  # noqa: S102 - as if torch warned
        thread = threading.Thread(target=warnings.warn, args=("other",))
        thread.start()
        thread.join()
        quiet.stop()

    assert [str(one.message) for one in got] == ["other"]
