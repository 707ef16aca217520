"""The magics: parse the line, run, build the report, show it."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics
from IPython.core.magic import line_cell_magic
from IPython.core.magic import magics_class
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument
from IPython.core.magic_arguments import magic_arguments
from IPython.core.magic_arguments import parse_argstring
from IPython.display import display

from compile_magic.cell import CellRunner

_DYNAMIC = {"auto": None, "true": True, "false": False}


@magics_class
class CompileMagics(Magics):
    """The magics of compile_magic, bound to one shell."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.runner = CellRunner(shell, self._options, self._show)

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
    @argument("--dynamic", choices=sorted(_DYNAMIC), default="auto", help="Dynamic shapes, as for torch.compile.")
    @argument("--fullgraph", action="store_true", help="Take a graph break for a failure, as torch.compile does.")
    @argument("--guards", action="store_true", help="Show each guard in the text as well.")
    @argument("--graphs", action="store_true", help="Show the code of each graph in the text as well.")
    @argument("-q", "--quiet", action="store_true", help="Show nothing; the report is in _compile_report.")
    @argument("-o", "--output", metavar="NAME", help="Bind the report to this name.")
    @argument("--max-breaks", type=int, metavar="N", help="Fail if there are more graph breaks.")
    @argument("--max-recompiles", type=int, metavar="N", help="Fail if there are more recompiles.")
    @argument("--max-graphs", type=int, metavar="N", help="Fail if there are more graphs.")
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
        options, statement = _split_line(line)
        if not statement:
            raise UsageError("%compile_explain needs a statement, such as %compile_explain f(x)")
        return self.runner.run(options, statement, single=True)

    def _options(self, line: str) -> Any:
        try:
            arguments = parse_argstring(self.compile_explain, line)
        except ValueError as error:
            raise UsageError(f"can't read the options {line!r}: {error}") from None
        return _cell_options(arguments)

    def _show(self, options: Any, capture: Any) -> None:
        from compile_magic.session import report_of

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
        report.check(
            max_breaks=options.max_breaks, max_recompiles=options.max_recompiles, max_graphs=options.max_graphs
        )

    def _bind(self, options: Any, report: Any) -> None:
        for name in {"_compile_report", options.output} - {None}:
            self.shell.user_ns[name] = report

    def _display(self, options: Any, report: Any) -> None:
        if options.quiet:
            return
        from compile_magic import render

        shown = {"guards": options.guards, "graphs": options.graphs}
        if not hasattr(self.shell, "kernel") and sys.stdout.isatty():
            print(render.text(report, width=_terminal_width(), color=True, **shown))  # noqa: T201 - the user's terminal
        else:
            display(render.mimebundle(report, **shown), raw=True)


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size((100, 24)).columns


def _cell_options(arguments: argparse.Namespace) -> Any:
    from compile_magic.run import Options
    from compile_magic.session import CellOptions

    if arguments.output is not None and not arguments.output.isidentifier():
        raise UsageError(f"-o needs a name to bind the report to, not {arguments.output!r}")
    if arguments.cell and arguments.targets:
        raise UsageError("--cell compiles the whole body: give either --cell or targets")
    return CellOptions(
        targets=tuple(arguments.targets),
        cell=arguments.cell,
        run=Options(
            backend=arguments.backend,
            dynamic=_DYNAMIC[arguments.dynamic],
            fullgraph=arguments.fullgraph,
            fresh=arguments.fresh,
        ),
        guards=arguments.guards,
        graphs=arguments.graphs,
        quiet=arguments.quiet,
        output=arguments.output,
        max_breaks=arguments.max_breaks,
        max_recompiles=arguments.max_recompiles,
        max_graphs=arguments.max_graphs,
    )


def _split_line(line: str) -> tuple[str, str]:
    """Split the line of a line magic into its options and the statement after them."""
    takes_value = {"-o", "--output", "--backend", "--dynamic", "--max-breaks", "--max-recompiles", "--max-graphs"}
    position, skip = 0, False
    for match in re.finditer(r"\S+", line):
        word = match.group()
        if not skip and not word.startswith("-"):
            break
        skip = not skip and word in takes_value
        position = match.end()
    return line[:position], line[position:].strip()


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
    magics.runner.unregister()
    for kind, names in magics.magics.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
