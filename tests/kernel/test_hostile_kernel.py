"""Hostile cells in a real kernel: interrupts, errors, what a front end gets, and in which order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kernel import Kernel
from kernel import running

pytestmark = pytest.mark.kernel

SETUP = """import sys, time, torch
from IPython.display import display
x = torch.ones(3)
def f(x): return x.sin() + 1
def slow(x):
    x = x + 1
    time.sleep(60)
    return x
def busy(x):
    print(end="")
    n = 0
    while n < 10**10:
        n += 1
    return x
"""

STATE = (
    "[torch._dynamo.config.suppress_errors, __import__('warnings').showwarning.__module__,"
    " get_ipython().custom_exceptions == (), torch._dynamo.convert_frame.FRAME_COUNTER,"
    " sorted(name for name in vars(__import__('builtins')) if 'compile_magic' in name),"
    " [name for name in globals() if name.startswith(('__compiled_fn', '__builtins_dict', '__resume_at'))]]"
)


@pytest.fixture(scope="module")
def explained() -> Iterator[Kernel]:
    """One kernel for all explained cells: each has to leave it as it was."""
    with running() as kernel:
        kernel.ok("%load_ext compile_magic")
        kernel.ok(SETUP)
        kernel.explain("f(x)", "-q")
        yield kernel


@pytest.fixture(scope="module")
def plain(plain_kernel: Kernel) -> Kernel:
    """One kernel for the same cells without the magic."""
    plain_kernel.ok(SETUP)
    return plain_kernel


def _executed(kernel: Kernel, source: str, **options: Any) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    messages: list[Mapping[str, Any]] = []
    reply = kernel._execute(source, output_hook=messages.append, **options)
    return reply, [message for message in messages if message["msg_type"] not in ("status", "execute_input")]


def _traceback(messages: list[Mapping[str, Any]]) -> str:
    errors = [message["content"]["traceback"] for message in messages if message["msg_type"] == "error"]
    return "\n".join("\n".join(lines) for lines in errors)


@contextmanager
def stopped(kernel: Kernel, mark: Path, delay: float) -> Iterator[str]:
    """Press stop `delay` seconds after the cell inside has begun, and again if it hasn't ended long after that.

    Gives the line that the cell has to begin with: an interrupt that comes before the cell is lost, and Python itself
    swallows one that falls into a callback of its own.
    """
    ended = threading.Event()

    def press() -> None:
        while not mark.exists() and not ended.wait(0.01):
            pass
        ended.wait(delay)
        while not ended.is_set():
            kernel.interrupt()
            ended.wait(3)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield f"open({str(mark)!r}, 'w').close()"
    finally:
        ended.set()
        thread.join()


def _swallowed(message: Mapping[str, Any]) -> bool:
    """Whether Python says that an interrupt fell into a callback, so that another one was needed."""
    return message["msg_type"] == "stream" and message["content"]["text"].startswith("Exception ignored in")


LOOPS = {
    "a loop of explained calls": "while True:\n    f(x)",
    "a plain loop": "y = f(x)\nwhile True:\n    pass",
    "a call that sleeps": "slow(x)",
    "a call that computes after a break": "busy(x)",
}


@pytest.mark.parametrize("cell", LOOPS.values(), ids=LOOPS)
def test_an_interrupt_ends_the_cell_and_leaves_nothing(cell: str, explained: Kernel, tmp_path: Path) -> None:
    """Stop ends an explained cell with KeyboardInterrupt, its report is shown, and the next cell is explained anew."""
    before = explained.get(STATE)
    with stopped(explained, tmp_path / "begun", 1.0) as begin:
        reply, messages = _executed(explained, f"%%compile_explain\n{begin}\n{cell}")

    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert [message["msg_type"] for message in messages if not _swallowed(message)] == ["error", "display_data"]
    assert "compile_magic/" not in _traceback(messages)
    assert explained.get(STATE) == before
    assert explained.explain("f(x)", "-q").graph_count == 1


def test_interrupts_in_quick_succession_leave_nothing(explained: Kernel, tmp_path: Path) -> None:
    """Wherever in a short call the interrupt falls, torch's settings are the user's own again after the cell."""
    before = explained.get(STATE)
    for delay in (0.0, 0.02, 0.1, 0.2, 0.21, 0.22, 0.23, 0.24):
        with stopped(explained, tmp_path / str(delay), delay) as begin:
            explained.run(f"%%compile_explain -q\n{begin}\nwhile True:\n    f(x)")

    assert explained.get(STATE) == before


SHOWN = {
    "displays, streams and the value": "y = f(x)\nprint('a')\ndisplay(1)\nprint('e', file=sys.stderr)\ny",
    "no value": "y = f(x);",
    "await": "import asyncio\nawait asyncio.sleep(0)\ny = f(x)\ny",
    "windows line ends": "y = f(x)\r\ny",
    "an error": "print('a')\nf(x)\n1 / 0",
    "an error in a call": "f(x)\nf(x, x)",
}


@pytest.mark.parametrize("options", [{}, {"store_history": False}, {"silent": True}], ids=str)
@pytest.mark.parametrize("cell", SHOWN.values(), ids=SHOWN)
def test_the_report_comes_last(cell: str, options: dict[str, bool], plain: Kernel, explained: Kernel) -> None:
    """Messages, status and error are the plain cell's, then comes the report, also without history and silently."""
    theirs, plainly = _executed(plain, f"#\n{cell}", **options)
    ours, messages = _executed(explained, f"%%compile_explain\n{cell}", **options)

    assert [_content(message) for message in messages[:-1]] == [_content(message) for message in plainly]
    assert messages[-1]["msg_type"] == "display_data"
    assert "compile_explain: " in messages[-1]["content"]["data"]["text/plain"]
    assert [ours.get(key) for key in ("status", "ename", "evalue")] == [
        theirs.get(key) for key in ("status", "ename", "evalue")
    ]
    assert "compile_magic/" not in _traceback(messages)


def _content(message: Mapping[str, Any]) -> Any:
    content = message["content"]
    shown = content.get("text") or content.get("data") or content.get("ename")
    return message["msg_type"], shown


def test_history_is_kept_as_for_a_plain_cell(explained: Kernel) -> None:
    """Without store_history the number of the cell doesn't change; with it, Out has the value under that number."""
    count = explained.run("%%compile_explain -q\nf(x)").count
    unstored, _ = _executed(explained, "%%compile_explain -q\nf(x)", store_history=False)

    assert explained.get(f"[{count} in Out, Out[{count}].tolist() == f(x).tolist()]") == [True, True]
    assert unstored["execution_count"] == count
    assert explained.run("1").count == count + 1


def test_queued_cells_stop_after_an_error(explained: Kernel) -> None:
    """Run all stops at an explained cell that fails, as at a plain one."""
    client = explained._client
    first = client.execute("%%compile_explain -q\nf(x)\n1 / 0", stop_on_error=True)
    second = client.execute("never = 1", stop_on_error=True)
    replies = {}
    while {first, second} - set(replies):
        reply = client.get_shell_msg(timeout=60)
        replies[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    # It may go on aborting what it is asked to run, until it has looked at its queue once more.
    client.kernel_info(reply=True, timeout=60)

    assert (replies[first], replies[second]) == ("error", "aborted")
    assert explained.get("'never' in globals()") is False
