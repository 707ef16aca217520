"""%compile_watch: nothing is compiled differently, and what was compiled is shown under its cell."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import compile_magic
from compile_magic.errors import CompileBudgetExceeded

SETUP = """
import torch

@torch.compile(backend="eager")
def f(x, scale=1.0):
    return x * scale

@torch.compile(backend="eager")
def fuse(parts):
    return torch.stack(parts).sum(0)
"""


@pytest.fixture
def watched(notebook: Any) -> Any:
    """A notebook with two compiled functions in it and the watch switched on."""
    notebook.ok(SETUP)
    notebook.ok("%compile_watch")
    return notebook


def shown(ran: Any) -> str:
    """Return the text that was shown under a cell, "" if nothing was."""
    return "\n".join(bundle["text/plain"] for bundle in ran.displays if "compile_watch" in bundle["text/plain"])


def flat(text: str) -> str:
    return " ".join(text.replace("┃", " ").split())


def test_bare_switches_on_and_says_so(notebook: Any) -> None:
    """%compile_watch alone begins to watch and says so in one line."""
    ran = notebook.ok("%compile_watch")

    assert ran.stdout.splitlines() == ["compile_watch is on: compiles, recompiles and fallbacks show under their cell"]


def test_a_cell_that_compiles_shows_a_table_and_others_show_nothing(watched: Any) -> None:
    """A first compile is shown; a call from the cache, a cell without torch, and an import are not."""
    first = watched.ok("y = f(torch.ones(3))")
    cached = watched.ok("y = f(torch.ones(3))")
    plain = watched.ok("import math; 1 + 1")

    assert "1 first compile in this cell" in flat(shown(first))
    assert (shown(cached), shown(plain)) == ("", "")
    assert "1 of 8" in shown(first)


def test_a_recompile_says_what_changed_and_which_line_made_the_guard(watched: Any) -> None:
    """A recompile shows the change from and to, and the user line of the guard, across cells."""
    watched.ok("y = f(torch.ones(3))")
    text = flat(shown(watched.ok("y = f(torch.ones(4))")))
    (again,) = watched.get("_compile_report").recompiles

    assert "1 recompile in this cell" in text
    assert "x.size(0) went from 3 to 4" in text
    assert "2 of 8" in text
    assert (again.cause, again.failed[0].expected, again.failed[0].actual) == ("size", "3", "4")


def test_a_float_knows_both_its_values_across_cells(watched: Any) -> None:
    """The new value of a float comes from the new guard, the old one from an earlier cell."""
    watched.ok("y = f(torch.ones(3), 0.5)")
    text = flat(shown(watched.ok("y = f(torch.ones(3), 0.25)")))

    assert "scale was 0.5, now 0.25" in text
    assert "Cell In[2], line 6" in text


def test_the_limit_is_an_alarm_and_stays_in_the_ledger(watched: Any) -> None:
    """A silent fallback is said at once, with what the versions differ in; cells that call it since are noted."""
    hit = flat(shown(watched.ok("for n in range(1, 13): fuse([torch.ones(2)] * n)")))
    later = watched.ok("y = fuse([torch.ones(2)] * 14)")
    watched.ok("z = 1")
    report = flat(watched.ok("%compile_watch report").displays[-1]["text/plain"])

    assert "`fuse` (Cell In[2], line 8) reached its limit of 8 compiled versions and runs in eager from now on" in hit
    assert "Its versions differ only in len(parts): 1, 2, 3, 4, 5, 6, 7, 8." in hit
    assert "7 recompiles, 1 first compile, 1 recompile limit reached in this cell" in hit
    assert shown(later) == ""
    assert "reached its limit of 8 compiled versions in In[4] and runs in eager since, silently." in report
    assert "Called since in In[5]: torch says nothing of these calls." in report


def test_the_report_is_worst_first_and_has_totals(watched: Any) -> None:
    """The ledger of the notebook is bound to a name, worst function first, with totals over all cells."""
    watched.ok("y = f(torch.ones(3)); y = fuse([torch.ones(2)])")
    watched.ok("y = fuse([torch.ones(2)] * 2)")
    watched.ok("%compile_watch report -o ledger")
    ledger = watched.get("ledger")

    assert [(one.function, one.compiles, one.recompiles) for one in ledger.functions] == [("fuse", 1, 1), ("f", 1, 0)]
    assert (ledger.compile_count, ledger.recompile_count, len(ledger.cells)) == (3, 1, 2)
    assert {cell.mode for cell in ledger.cells} == {"watched"}


def test_status_is_one_line(watched: Any) -> None:
    """The status says since when the watch is on and the totals, and when it is off how to switch it on."""
    watched.ok("y = f(torch.ones(3))")
    on = watched.ok("%compile_watch status").stdout.strip()
    watched.ok("%compile_watch off")

    figures = "compiles: 1, recompiles: 0, limits reached: 0, functions: 1"
    assert on.startswith(f"compile_watch is on since In[3] · {figures} · ")
    assert watched.ok("%compile_watch status").stdout.strip() == ("compile_watch is off; %compile_watch switches it on")


def test_off_is_off_and_clear_is_empty(watched: Any) -> None:
    """After `off` nothing is shown, the ledger stays until `clear`."""
    watched.ok("y = f(torch.ones(3))")
    watched.ok("%compile_watch off")
    assert shown(watched.ok("y = f(torch.ones(4))")) == ""

    watched.ok("%compile_watch report -o kept")
    watched.ok("%compile_watch clear")
    watched.ok("%compile_watch report -o empty")
    assert (watched.get("kept").compile_count, watched.get("empty").compile_count) == (1, 0)


def test_a_hundred_times_on_and_off_leaves_nothing(notebook: Any) -> None:
    """No handler, event or transformer is left, however often the watch is switched."""
    shell = notebook.shell
    notebook.ok("import torch")
    before = _hooks(shell)
    for _ in range(100):
        notebook.ok("%compile_watch on")
        notebook.ok("%compile_watch off")

    assert _hooks(shell) == before


def _hooks(shell: Any) -> tuple[int, ...]:
    events = sum(len(callbacks) for callbacks in shell.events.callbacks.values())
    loggers = ("torch.__trace", "torch._dynamo.convert_frame", "torch")
    handlers = [len(logging.getLogger(name).handlers) for name in loggers]
    return (events, *handlers, len(shell.ast_transformers), len(shell.input_transformers_cleanup))


def test_fail_on_recompile_stops_the_notebook(notebook: Any) -> None:
    """With --fail-on-recompile a recompile fails its cell, whose result is kept; a first compile doesn't."""
    notebook.ok(SETUP)
    notebook.ok("%compile_watch on --fail-on-recompile")
    notebook.ok("y = f(torch.ones(3))")
    ran = notebook.run("y = f(torch.ones(4))\ny.shape[0]")

    assert isinstance(ran.error, CompileBudgetExceeded)
    assert str(ran.error) == "1 recompile, allowed are 0"
    assert ran.value == 4


def test_only_shows_the_named_function(notebook: Any) -> None:
    """With --only, other functions are neither shown nor in the ledger."""
    notebook.ok(SETUP)
    notebook.ok("%compile_watch on --only fuse")

    assert shown(notebook.ok("y = f(torch.ones(3))")) == ""
    assert "fuse" in shown(notebook.ok("y = fuse([torch.ones(3)])"))
    notebook.ok("%compile_watch report -o ledger")
    assert [one.function for one in notebook.get("ledger").functions] == ["fuse"]


def test_it_survives_a_reset_an_error_and_a_reload(watched: Any) -> None:
    """torch._dynamo.reset(), a cell that fails and a reload of the extension leave the watch working."""
    watched.ok("y = f(torch.ones(3))")
    watched.ok("torch._dynamo.reset()")
    failed = watched.run("y = f(torch.ones(4))\n1 / 0")
    assert isinstance(failed.error, ZeroDivisionError)
    assert "1 first compile" in shown(failed)

    watched.ok("%reload_ext compile_magic")
    watched.ok("%compile_watch")
    assert "1 recompile" in shown(watched.ok("y = f(torch.ones(5))"))


def test_a_compile_in_a_thread_is_heard(watched: Any) -> None:
    """A function that is first called in a thread is in the table of the cell that started it."""
    ran = watched.ok("import threading\nt = threading.Thread(target=f, args=(torch.ones(3),))\nt.start(); t.join()")

    assert "1 first compile" in shown(ran)


def test_an_explained_cell_has_one_report(watched: Any) -> None:
    """What %%compile_explain compiles is not in the ledger, and what it observes is shown once."""
    watched.ok("def plain(x): return x + 1")
    ran = watched.ok("%%compile_explain\ny = plain(torch.ones(3)); y = f(torch.ones(3))")
    watched.ok("%compile_watch report -o ledger")

    assert [bundle["text/plain"].split(":")[0] for bundle in ran.displays] == ["compile_explain"]
    assert [one.function for one in watched.get("ledger").functions] == ["f"]


def test_nothing_is_compiled_differently(watched: Any) -> None:
    """With the watch on, a function compiles as often, with the same backend, as with it off."""
    watched.ok(
        "from torch._dynamo.testing import CompileCounter\non, off = CompileCounter(), CompileCounter()\n"
        "def g(x): return x * 2\ndef h(x): return x * 2\n"
        "gc, hc = torch.compile(g, backend=on), torch.compile(h, backend=off)\n"
        "for n in (3, 4, 5): gc(torch.ones(n))"
    )
    watched.ok("%compile_watch off")
    watched.ok("for n in (3, 4, 5): hc(torch.ones(n))")

    assert watched.get("on").frame_count == watched.get("off").frame_count == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--bad", "unrecognized arguments: --bad"),
        ("sideways", "invalid choice: 'sideways'"),
        ("on --only", "expected one argument"),
        ("report -o 3x", "-o needs a name to bind the report to, not '3x'"),
    ],
)
def test_a_wrong_use_is_one_line(notebook: Any, line: str, words: str) -> None:
    """A wrong option or word is a usage error that names it, and changes nothing."""
    ran = notebook.run(f"%compile_watch {line}")

    assert type(ran.error).__name__ == "UsageError"
    assert words in str(ran.error)
    assert notebook.ok("%compile_watch status").stdout.startswith("compile_watch is off")


@pytest.mark.usefixtures("fresh_dynamo")
def test_without_a_notebook() -> None:
    """compile_magic.watch() hears the compiles of its block, and none after it."""
    compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
    with compile_magic.watch() as log:
        compiled(torch.ones(3))
        compiled(torch.ones(4))
    compiled(torch.ones(4, dtype=torch.float64))

    assert (log.compile_count, log.recompile_count, log.limit_hit_count) == (2, 1, 0)
    assert [one.causes for one in log.functions] == [{"size": 1}]
    assert log.report().recompile_count == 1


def test_a_table_comes_after_an_explained_cell_without_the_watch(notebook: Any) -> None:
    """A cell that was explained before the watch was switched on doesn't keep the first table from being shown."""
    notebook.ok(SETUP)
    notebook.ok("%compile_explain -q torch.ones(3).sum()")
    notebook.ok("%compile_watch")

    assert "1 first compile" in shown(notebook.ok("y = f(torch.ones(3))"))
    notebook.ok("%compile_explain -q torch.ones(3).sum()")
    assert "1 recompile" in shown(notebook.ok("y = f(torch.ones(4))"))


def test_a_silently_run_cell_shows_its_table(watched: Any) -> None:
    """Cells that IPython runs silently, as those of `ipython notebook.ipynb`, show what they compiled as well."""
    watched.shell.display_pub.outputs.clear()
    watched.shell.run_cell("y = f(torch.ones(3))", silent=True)

    texts = [each["data"]["text/plain"] for each in watched.shell.display_pub.outputs]

    assert ["1 first compile in this cell" in text for text in texts] == [True]


def test_options_keep_the_ledger(watched: Any) -> None:
    """Switching on again with other options keeps what was heard, and says which options hold now."""
    watched.ok("y = f(torch.ones(3))")
    ran = watched.ok("%compile_watch --only fuse --fail-on-recompile")
    watched.ok("%compile_watch report -o ledger")

    assert ran.stdout.strip() == (
        "compile_watch is on: compiles, recompiles and fallbacks of fuse show under their cell; "
        "a recompile fails its cell"
    )
    assert [one.function for one in watched.get("ledger").functions] == ["f"]


def test_a_watch_shows_what_it_heard() -> None:
    """The repr of a watch has its figures."""
    with compile_magic.watch() as log:
        pass

    assert repr(log) == "<watch, off, compiles: 0, recompiles: 0, limits reached: 0>"
