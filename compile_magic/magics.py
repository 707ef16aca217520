"""The magics: parse the line, run, build the report, show it."""

from __future__ import annotations

import argparse
import keyword
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics
from IPython.core.magic import line_cell_magic
from IPython.core.magic import line_magic
from IPython.core.magic import magics_class
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument
from IPython.core.magic_arguments import magic_arguments
from IPython.core.magic_arguments import parse_argstring
from IPython.display import display
from IPython.utils.capture import capture_output

from compile_magic.cell import CellRunner
from compile_magic.notebook import line as lines
from compile_magic.notebook import terminal
from compile_magic.notebook.bench_runner import BenchRunner
from compile_magic.notebook.progress import LiveLine
from compile_magic.notebook.progress import Place
from compile_magic.notebook.silenced import silenced
from compile_magic.notebook.watch_cells import CellWatch
from compile_magic.notebook.watch_cells import WatchOptions


@magics_class
class CompileMagics(Magics):
    """The magics of compile_magic, bound to one shell."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        bench = BenchRunner(shell, self._bench_options, partial(silenced, capture_output), self._live, self._show_bench)
        self.runner = CellRunner(shell, self._options, self._show, bench)
        self.cell_watch = CellWatch(shell, self._show_watched, self._was_explained)
        self._explained = False

    @no_var_expand
    @magic_arguments()
    @argument(
        "targets", nargs="*", help="What to compile, by name: model, loss_fn, opt.step. Default: what the cell calls."
    )
    @argument("--cell", action="store_true", help="Compile the body of the cell as one function.")
    @argument(
        "--fresh", action="store_true", help="Explain the original of what is compiled already, apart from its caches."
    )
    @argument(
        "--backend", default="eager", help="What the graphs are handed to: eager (default), aot_eager, inductor, ..."
    )
    @argument("--dynamic", choices=sorted(lines.DYNAMIC), default="auto", help="Dynamic shapes, as for torch.compile.")
    @argument("--fullgraph", action="store_true", help="Take a graph break for a failure, as torch.compile does.")
    @argument("--guards", action="store_true", help="Show each guard in the text as well.")
    @argument("--graphs", action="store_true", help="Show the code of each graph in the text as well.")
    @argument("-q", "--quiet", action="store_true", help="Show nothing; the report is in _compile_report.")
    @argument("-o", "--output", metavar="NAME", help="Bind the report to this name.")
    @argument("--max-breaks", type=lines.count, metavar="N", help="Fail if there are more graph breaks.")
    @argument("--max-recompiles", type=lines.count, metavar="N", help="Fail if there are more recompiles.")
    @argument("--max-graphs", type=lines.count, metavar="N", help="Fail if there are more graphs.")
    @line_cell_magic
    def compile_explain(self, line: str, cell: str | None = None) -> Any:
        """Run the cell once, as it is, and show what torch.compile makes of what it calls.

        Graphs, graph breaks on their lines, functions left in eager, recompiles with their cause, guards.
        The cell's results, displays and errors are those of a plain cell, and your compiled functions, their
        caches and limits stay as they are. The report is also in _compile_report.

            %%compile_explain
            y = model(x)

            %compile_explain --backend aot_eager model(x)
        """
        __tracebackhide__ = True
        if cell is not None:
            return self.runner.run(line, cell)
        options, statement = lines.split_line(line)
        if not statement:
            raise UsageError("%compile_explain needs a statement, such as %compile_explain f(x)")
        return self.runner.run(options, statement, single=True)

    def _options(self, line: str) -> Any:
        arguments = _parsed(self.compile_explain, line)
        self._check_name(arguments.output)
        return _made(lines.cell_options, arguments)

    @no_var_expand
    @magic_arguments()
    @argument(
        "targets", nargs="*", help="What to compile, by name: model, loss_fn, opt.step. Default: what the cell calls."
    )
    @argument("--cell", "--whole", action="store_true", help="Compile the body of the cell as one function.")
    @argument("--modes", type=lines.names, default=(), help="default,reduce-overhead,max-autotune or some of them.")
    @argument("--backends", type=lines.names, default=(), help="eager,aot_eager,inductor or any that torch knows.")
    @argument("--dynamic", choices=sorted(lines.DYNAMIC), default="auto", help="Dynamic shapes, as for torch.compile.")
    @argument("--fullgraph", action="store_true", help="Take a graph break for a failure, as torch.compile does.")
    @argument("--budget", type=lines.budget, default=3.0, metavar="S", help="Seconds of timing a variant; default 3.")
    @argument("--calls", type=lines.calls, metavar="N", help="Answer for a job of N runs, compiling included.")
    @argument("--cold", action="store_true", help="Compile with empty caches, in a directory of their own.")
    @argument("-q", "--quiet", action="store_true", help="Show nothing; the report is in _compile_report.")
    @argument("-o", "--output", metavar="NAME", help="Bind the report to this name.")
    @line_cell_magic
    def compile_bench(self, line: str, cell: str | None = None) -> Any:
        """Measure whether compiling the cell is worth it, then run it once, as it is.

        The first, second and third run and the steady state of each variant beside eager, with the interval of the
        speed-up and a check of the results. What the cell changes in place is put back in between, and what it prints
        is shown once. The report is also in _compile_report.

            %%compile_bench
            y = model(x)

            %compile_bench --modes default,reduce-overhead model(x)
        """
        __tracebackhide__ = True
        if cell is not None:
            return self.runner.run_bench(line, cell)
        options, statement = lines.split_line(line)
        if not statement:
            raise UsageError("%compile_bench needs a statement, such as %compile_bench f(x)")
        return self.runner.run_bench(options, statement, single=True)

    def _bench_options(self, line: str) -> Any:
        arguments = _parsed(self.compile_bench, line)
        self._check_name(arguments.output)
        return _made(lines.bench_options, arguments)

    def _live(self, options: Any) -> LiveLine:
        talks = hasattr(self.shell, "kernel") or terminal.is_one(self.shell)
        return LiveLine(Place(display, terminal.is_one(self.shell)), talks=talks and not options.quiet)

    def _show_bench(self, options: Any, report: Any, live: LiveLine) -> Callable[[Any, str], None]:
        if not options.quiet:
            live.end(self._bundle(report))
        return partial(self._bind_bench, options)

    def _bind_bench(self, options: Any, report: Any, alarm: str) -> None:
        self._bind(options, report)
        if alarm and not options.quiet:
            sys.stderr.write(f"✗ {alarm}\n")

    def _check_name(self, name: str | None) -> None:
        if name is None:
            return
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"-o needs a name to bind the report to, not {name!r}")
        if name in self.shell.user_ns_hidden:
            raise UsageError(f"-o can't bind the report to {name!r}, which is IPython's own: choose another name")

    @no_var_expand
    @magic_arguments()
    @argument(
        "action", nargs="?", default="on", choices=["on", "off", "status", "report", "clear"], help="Default: on."
    )
    @argument("--only", action="append", default=[], metavar="NAME", help="Watch only this function; may be repeated.")
    @argument("--fail-on-recompile", action="store_true", help="Fail a cell in which something compiles again.")
    @argument("--verbose", action="store_true", help="Show guards and graphs under each cell as well.")
    @argument("-o", "--output", metavar="NAME", help="With report: bind the ledger to this name.")
    @line_magic
    def compile_watch(self, line: str) -> None:
        """Show under each cell what torch compiled in it, and keep a ledger of the notebook.

        While it is on, nothing is compiled differently, and a cell in which nothing was compiled shows nothing.

            %compile_watch            # on
            %compile_watch report     # the ledger, worst function first
            %compile_watch status     # one line
            %compile_watch clear      # an empty ledger
            %compile_watch off
        """
        arguments = self._watch_arguments(line)
        getattr(self, f"_watch_{arguments.action}")(arguments)

    def _watch_arguments(self, line: str) -> argparse.Namespace:
        arguments = _parsed(self.compile_watch, line)
        self._check_name(arguments.output)
        return arguments

    def _watch_on(self, arguments: argparse.Namespace) -> None:
        options = WatchOptions(tuple(arguments.only), arguments.fail_on_recompile, arguments.verbose)
        self.cell_watch.switch_on(options)
        what = f" of {', '.join(options.only)}" if options.only else ""
        then = "; a recompile fails its cell" if options.fail_on_recompile else ""
        print(f"compile_watch is on: compiles, recompiles and fallbacks{what} show under their cell{then}")  # noqa: T201

    def _watch_off(self, _: argparse.Namespace) -> None:
        self.cell_watch.switch_off()
        print("compile_watch is off; the ledger stays until %compile_watch clear")  # noqa: T201 - its answer

    def _watch_clear(self, _: argparse.Namespace) -> None:
        self.cell_watch.clear()
        print("compile_watch: the ledger is empty")  # noqa: T201 - its answer

    def _watch_status(self, _: argparse.Namespace) -> None:
        print(self.cell_watch.status())  # noqa: T201 - its answer

    def _watch_report(self, arguments: argparse.Namespace) -> None:
        report = self.cell_watch.report()
        if arguments.output is not None:
            self.shell.user_ns[arguments.output] = report
        self._publish(report, {})

    def _show_watched(self, report: Any, verbose: bool) -> None:  # noqa: FBT001 - as CellWatch calls it
        self.shell.user_ns["_compile_report"] = report
        self._publish(report, {"guards": verbose, "graphs": verbose})

    def _was_explained(self) -> bool:
        explained, self._explained = self._explained, False
        return explained

    def _show(self, options: Any, capture: Any) -> None:
        from compile_magic.notebook.session import report_of

        self._explained = True
        try:
            report = report_of(capture)
            self._bind(options, report)
            self._display(options, report)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not take the cell's result away
            self.shell.user_ns["_compile_capture"] = capture
            sys.stderr.write(
                f"compile_explain could not make its report: {type(error).__name__}: {error}. "
                "The cell has run as usual. Please report this with the text of _compile_capture.to_jsonl().\n"
            )
            return
        # The cell's own error stops the notebook by itself.
        replace(report, error=None).check(
            max_breaks=options.max_breaks, max_recompiles=options.max_recompiles, max_graphs=options.max_graphs
        )

    def _bind(self, options: Any, report: Any) -> None:
        for name in {"_compile_report", options.output} - {None}:
            self.shell.user_ns[name] = report

    def _display(self, options: Any, report: Any) -> None:
        if not options.quiet:
            self._publish(report, {"guards": options.guards, "graphs": options.graphs})

    def _publish(self, report: Any, shown: dict[str, bool]) -> None:
        bundle = self._bundle(report, **shown)
        if terminal.is_one(self.shell):
            print(bundle["text/plain"])  # noqa: T201 - a terminal
        else:
            display(bundle, raw=True)

    def _bundle(self, report: Any, **shown: bool) -> dict[str, str]:
        from compile_magic import render

        if not terminal.is_one(self.shell):
            return render.mimebundle(report, **shown)
        text = render.text(report, width=terminal.width(), color=terminal.takes_color(), **shown)
        return {"text/plain": text}


def _parsed(magic: Any, line: str) -> argparse.Namespace:
    if "--help" in line.split():
        raise UsageError(f"%{magic.__name__}? shows what there is to give")
    try:
        arguments: argparse.Namespace = parse_argstring(magic, line)
    except ValueError as error:
        raise UsageError(f"can't read the options {line!r}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{error}; %{magic.__name__}? lists the options") from None
    return arguments


def _made(make: Callable[[argparse.Namespace], Any], arguments: argparse.Namespace) -> Any:
    try:
        return make(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from None


_loaded: dict[int, CompileMagics] = {}


def load(shell: Any) -> None:
    """Register the magics with a shell; a second call does nothing."""
    if id(shell) in _loaded:
        return
    magics = _loaded[id(shell)] = CompileMagics(shell)
    shell.register_magics(magics)
    magics.runner.register()


def unload(shell: Any) -> None:
    """Take the magics off a shell; a second call does nothing."""
    magics = _loaded.pop(id(shell), None)
    if magics is None:
        return
    magics.cell_watch.switch_off()
    magics.runner.unregister()
    for kind, names in magics.magics.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
