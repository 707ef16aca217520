"""Reports built by hand, after real cells: one for each thing that a report may have to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compile_magic.model import ExplainReport
from compile_magic.model import FailedGuard
from compile_magic.model import Failure
from compile_magic.model import Fix
from compile_magic.model import Graph
from compile_magic.model import GraphBreak
from compile_magic.model import Guard
from compile_magic.model import LimitHit
from compile_magic.model import Location
from compile_magic.model import Recompile
from compile_magic.model import SkippedFrame
from compile_magic.model import SourceLines
from compile_magic.model import Target
from compile_magic.model import Unread

FILE = "<ipython-input-3-0123456789ab>"
GB_PAGE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html"
CODE = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[8, 4]"):
        h = L_x_.sin()
        return (h,)
"""
SOURCE = (
    "class Block(nn.Module):",
    "    def __init__(self, dim, depth):",
    "        super().__init__()",
    "        self.norm = nn.LayerNorm(dim)",
    "        self.mix = nn.Linear(dim, dim)",
    "        self.depth = depth",
    "",
    "    def forward(self, x):",
    "        h = self.norm(x)",
    "        h = h * self.scale",
    "        for i in range(self.depth):",
    '            print("step", i)',
    "            h = self.mix(h)",
    "        return h",
    "",
    "def head(h):",
    "    if h.mean() > 0:",
    "        h = h.relu()",
    "    return h",
)


def at(line: int, code: str = "", function: str = "f", cell: int | None = 3, file: str = FILE) -> Location:
    """Return a line of the cell."""
    return Location(file, line, cell, code, function)


def clean() -> ExplainReport:
    """One function, one graph, nothing wrong."""
    graph = Graph("0/0", "f", at(2), 2, {"sin": 1, "sum": 1}, {"L_x_": "f32[8, 4]"}, CODE)
    guards = (
        Guard(
            "0/0", "TENSOR_MATCH", "L['x']", "check_tensor(L['x'], Tensor, torch.float32)", at(3), "x is float32, 8 x 4"
        ),
        Guard("0/0", "GLOBAL_STATE", "", "___check_global_state()", internal=True),
    )
    return ExplainReport(
        "calls",
        (Target("f", "compiled"),),
        "eager",
        graph_count=1,
        op_count=2,
        graphs=(graph,),
        guards=guards,
        compile_time_s=0.41,
        phases={"dynamo": 0.4, "backend_compile": 0.012},
        torch_version="2.13.0",
    )


def branch() -> GraphBreak:
    """The break of `if h.mean() > 0`."""
    return GraphBreak(
        at(17, "if h.mean() > 0:", "head"),
        "head",
        "Data-dependent branching",
        "attempted to jump with TensorVariable()",
        "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).",
        (
            "This graph break is fundamental - it is unlikely that Dynamo will ever trace through your code.",
            "Use `torch.cond` to express dynamic control flow.",
        ),
        "GB0170",
        GB_PAGE,
        (at(22, "y = head(model(x))", "<module>"), at(17, "if h.mean() > 0:", "head")),
        raw="Graph break in user code at 1234567890.py:17\nGraph Break Reason: Data-dependent branching",
    )


def broken() -> ExplainReport:
    """A branch on a tensor: two graphs."""
    graphs = (
        Graph("0/0", "head", at(16), 2, {"mean": 1, "gt": 1}, {}, CODE),
        Graph("1/0", "head", at(16), 1, {"relu": 1}, {}, CODE, after_break=True),
    )
    return ExplainReport(
        "calls",
        (Target("head", "compiled"),),
        "eager",
        graph_count=2,
        graph_break_count=1,
        op_count=3,
        graphs=graphs,
        breaks=(branch(),),
        compile_time_s=0.052,
        sources=(SourceLines(FILE, 2, SOURCE[1:], 3),),
    )


def print_in_loop() -> GraphBreak:
    """The break of a print in a loop, which skips the whole function."""
    return GraphBreak(
        at(12, 'print("step", i)', "forward"),
        "Block.forward",
        "Failed to trace builtin operator",
        "builtin print [<class 'str'>] False",
        "Dynamo does not know how to trace builtin operator `print` with argument types ['str', 'int']",
        (
            (
                "If you are attempting to call a logging function (e.g. `print`), "
                "you can try adding it to `torch._dynamo.config.reorderable_logging_functions`."
            ),
            "Please report an issue to PyTorch.",
        ),
        "GB0059",
        "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html",
        (at(21, "h = model(x)", "<module>"), at(12, 'print("step", i)', "forward")),
        12,
        in_loop=True,
        skipped=True,
        cost=310e-6,
    )


def skipped() -> ExplainReport:
    """A function that ran wholly in eager: no graph at all."""
    cause = print_in_loop()
    frame = SkippedFrame("Block.forward", at(8, "def forward(self, x):", "forward"), "graph break in loop", cause)
    return ExplainReport(
        "calls",
        (Target("model", "compiled"),),
        "eager",
        graph_break_count=1,
        skipped_frame_count=1,
        breaks=(cause,),
        skipped_frames=(frame,),
        compile_time_s=0.3,
        sources=(SourceLines(FILE, 1, SOURCE, 3),),
    )


def size_recompile() -> Recompile:
    """A first size that changed."""
    failed = FailedGuard(
        "0/0", "tensor 'x' size mismatch at index 0. expected 8, actual 9", "x.size(0)", "8", "9", at(9)
    )
    fix = Fix(
        "before the first call",
        "annotation",
        "torch._dynamo.mark_dynamic(x, 0)",
        "verified",
        {"graph_count": 2, "recompile_count": 1},
        {"graph_count": 1, "recompile_count": 0},
        outputs_equal=True,
    )
    words = "x.size(0) went from 8 to 9 (guard made by line 9). It is dynamic from now on"
    return Recompile("0/1", "f", at(8), (failed,), "size", words, 2, fix)


def recompiles() -> ExplainReport:
    """Two causes of a further compile, one of them without words."""
    scale = FailedGuard("0/1", "L['self'].scale == 0.5", "self.scale", "0.5", "0.25")
    return ExplainReport(
        "named",
        (Target("f", "compiled"),),
        "eager",
        graph_count=3,
        op_count=6,
        recompile_count=2,
        graphs=tuple(Graph(f"0/{n}", "f", at(8), 2, {"sin": 2}, {}, CODE) for n in range(3)),
        recompiles=(size_recompile(), Recompile("0/2", "f", at(8), (scale,), "python_value")),
        compile_time_s=1.9,
    )


def limit() -> ExplainReport:
    """A function at its recompile limit, and one that failed to compile."""
    failed = FailedGuard("0/7", "len(L['history']) == 7", "len(history)", "7", "8")
    return ExplainReport(
        "calls",
        (Target("rollout", "compiled"), Target("Net", "eager", "a class"), Target("step", "observed")),
        "eager",
        limit_hit_count=1,
        limit_hits=(LimitHit("rollout", at(4), 8, "recompile_limit reached", (failed,)),),
        failures=(Failure("tail", at(9), "BackendCompilerFailed", "no C++ compiler", ran_eager=True),),
        notes=("Calls after the limit leave no record",),
        unread=(Unread("dynamo_guards", 2, "unexpected format"),),
    )


def everything() -> ExplainReport:
    """A cell with a bit of all, as somebody would meet it."""
    cause, library = print_in_loop(), _library_break(0)
    fixed = Fix(
        "choose by torch.where",
        "rewrite",
        "h = torch.where(h.mean() > 0, h.relu(), h)",
        "verified",
        {"graph_break_count": 2},
        {"graph_break_count": 1},
        outputs_equal=True,
    )
    fixed_break = replace(branch(), fix=fixed, cost=24e-6)
    return ExplainReport(
        "calls",
        (Target("model", "compiled"), Target("head", "compiled"), Target("Net", "eager", "a class")),
        "eager",
        graph_count=3,
        graph_break_count=3,
        op_count=17,
        recompile_count=1,
        skipped_frame_count=1,
        graphs=(
            Graph(
                "0/0",
                "Block.norm",
                at(9),
                12,
                {"linear": 6, "layer_norm": 3, "mul": 2, "add": 1},
                {"x": "f32[8, 4]"},
                CODE,
            ),
            Graph("1/0", "head", at(16), 3, {"mean": 1, "gt": 1, "relu": 1}, {}, CODE),
            Graph("2/0", "head", at(16), 2, {"relu": 1, "add": 1}, {}, CODE, after_break=True),
        ),
        breaks=(cause, fixed_break, library),
        skipped_frames=(SkippedFrame("Block.forward", at(8), "graph break in loop", cause, 2),),
        guards=tuple(_guard(n) for n in range(23)),
        recompiles=(size_recompile(),),
        backward_graphs=(Graph("0/0", "Block.norm", at(9), 19, {"mm": 6, "sum": 5, "view": 8}, {}, CODE),),
        compile_time_s=0.41,
        phases={"dynamo": 0.38, "backend_compile": 0.012, "build_guards": 0.0841},
        notes=("model was wrapped by torch.compile(model): its state dict has the prefix _orig_mod.",),
        torch_version="2.13.0",
        sources=(SourceLines(FILE, 1, SOURCE, 3),),
        unread=(Unread("dynamo_guards", 2, "unexpected format"),),
    )


def huge() -> ExplainReport:
    """A transformer of 12 blocks on a bad day: a hundred of everything, and long code."""
    source = tuple(f"    x = layer_{n}(x, {n})  # " + "long " * (n % 40) for n in range(1, 401))
    breaks = tuple(_numbered_break(n) for n in range(1, 101)) + tuple(_library_break(n) for n in range(60))
    graphs = tuple(
        Graph(
            f"{n}/0",
            f"Block{n}.forward",
            at(n),
            300,
            {f"op_{m}": m for m in range(30)},
            {},
            "        h = a + b\n" * 3000,
        )
        for n in range(48)
    )
    return ExplainReport(
        "calls",
        tuple(Target(f"layer_{n}", "compiled" if n % 2 else "eager") for n in range(80)),
        "inductor",
        graph_count=48,
        graph_break_count=160,
        op_count=14400,
        recompile_count=100,
        skipped_frame_count=40,
        limit_hit_count=10,
        graphs=graphs,
        breaks=breaks,
        skipped_frames=tuple(SkippedFrame(f"g{n}", at(n), "graph break in loop", breaks[n]) for n in range(40)),
        guards=tuple(_guard(n) for n in range(900)),
        recompiles=tuple(
            Recompile(
                f"0/{n}", f"f{n}", at(n), size_recompile().failed, "size", f"x.size(0) is {n} " * 30, raw="raw " * 99
            )
            for n in range(100)
        ),
        limit_hits=tuple(LimitHit(f"h{n}", at(n), 8, "limit " * 80) for n in range(10)),
        failures=tuple(
            Failure(f"k{n}", at(n), "BackendCompilerFailed", "why " * 300, ("do " * 90,)) for n in range(20)
        ),
        backward_graphs=graphs,
        compile_time_s=141.0,
        phases={f"phase_{n}": float(n) for n in range(40)},
        notes=tuple(f"note {n} " + "words " * 200 for n in range(30)),
        error="RuntimeError: " + "out of memory " * 100,
        sources=(SourceLines(FILE, 1, source, 3),),
        unread=tuple(Unread(f"kind_{n}", n, "bad format " * 40) for n in range(1, 30)),
    )


def _numbered_break(n: int) -> GraphBreak:
    hints = (f"Hint {n}: " + "consider another way " * 20,)
    file = FILE if n <= 80 else "/home/me/helpers.py"
    stack = tuple(at(m, "x = f(x)", f"level_{m}") for m in range(1, 40))
    kind = f"A kind of break numbered {n} with many words in its name, more than fit on a line of any terminal"
    return GraphBreak(
        at(n * 4, file=file), f"f{n}", kind, hints=hints, gb_id=f"GB{n:04}", stack=stack, raw="text\n" * 900
    )


def _library_break(n: int) -> GraphBreak:
    where = Location("/usr/lib/site-packages/einops/einops.py", 40 + n, function="rearrange")
    return GraphBreak(
        where,
        "rearrange",
        "Attempted to call function marked as skipped",
        hints=("Upgrade einops to 0.8 or newer.",),
        gb_id="GB0007",
        stack=(at(22, "y = model(x)", "<module>"), where),
        count=4,
        owner="library" if n % 2 == 0 else "compiler",
    )


def _guard(n: int) -> Guard:
    frame, internal = f"{n // 19}/0", n % 6 != 0
    if internal:
        return Guard(
            frame, "GLOBAL_STATE", f"L['self']._modules['layer_{n}']", "___check_global_state()", internal=True
        )
    expression = f"check_tensor(L['x{n}'], Tensor, DispatchKeySet(CPU), torch.float32, size=[8, 4], stride=[4, 1])"
    return Guard(frame, "TENSOR_MATCH", f"L['x{n}']", expression, at(9), f"x{n} is a float32 tensor of 8 x 4")


HOSTILE = (
    '<script>alert(1)</script><img src=x onerror="x()">[bold red]bold[/bold red] '
    "\x1b[31mred\x1b[0m \u202eevil\u202c \x07\x00 &amp; 😀"
)


def hostile() -> ExplainReport:
    """Every string that comes from a program, a library or torch is out to do harm."""
    bad = HOSTILE
    where = Location(f"{bad}.py", 2, None, bad, bad)
    long = "x" * 10_000
    script = 'javascript:alert("1")'
    found = GraphBreak(where, bad, bad, bad, bad, (bad, bad), bad, script, (where, where), raw=bad + long)
    fix = Fix(bad, bad, f"{bad}\nb")
    library = GraphBreak(where, bad, bad + long, hints=(long,), owner="library", stack=(where,))
    return ExplainReport(
        "calls",
        (Target(bad, "compiled"), Target(bad, "eager", bad), Target(bad, "observed")),
        bad,
        graph_count=1,
        graph_break_count=2,
        op_count=1,
        skipped_frame_count=1,
        graphs=(Graph(bad, bad, where, 1, {bad: 1}, {bad: bad}, f"{bad}\n{long}\n\ta\r\n"),),
        breaks=(found, library),
        skipped_frames=(SkippedFrame(bad, where, bad, None),),
        guards=(Guard(bad, bad, bad, bad + long, where, bad),),
        recompiles=(Recompile(bad, bad, where, (FailedGuard(bad, bad, bad, bad, bad),), bad, fix=fix),),
        limit_hits=(LimitHit(bad, where, None, bad),),
        failures=(Failure(bad, where, bad, bad, (bad,), raw=bad),),
        compile_time_s=0.1,
        phases={bad: 1.0},
        notes=(bad, long),
        error=bad + "\n" + long,
        torch_version=bad,
        sources=(SourceLines(where.file, 1, ("def f():", f"\t{bad}{long}", "\ud800 \u2028 line"), None),),
        unread=(Unread(bad, 1, bad),),
    )


Build = Callable[[], ExplainReport]

BUILDS: tuple[Build, ...] = (clean, broken, skipped, recompiles, limit, everything, huge, hostile)
REPORTS: dict[str, Build] = {build.__name__: build for build in BUILDS}
