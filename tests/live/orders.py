"""Orders of what a user and compile_magic do by turns over shared globals, run with us and without us.

`python tests/live/orders.py --orders 300 --seed 0` runs many and prints what differed; test_orders.py runs some.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

FIRST = """
import dataclasses, random, torch
k = 2.0
@dataclasses.dataclass
class Box:
    x: torch.Tensor
def boxed(b):
    return b.x.sum() * k
def leaf(x):
    return x * k + 1
def talking(x):
    print(end='')
    return leaf(x)
def branching(x):
    if x.sum() > 0:
        x = x + k
    return x * 2
def counting(x):
    return x * x.sum().item()
def masking(x):
    return x[x > 0].sum() * k
@torch.compiler.disable
def left_out(x):
    return x + k
def calling(x):
    return left_out(x * 2) - 1
def looping(x):
    for _ in range(2):
        print(end='')
        x = x + k
    return x
def drawing(x):
    y = x + 0 * random.random()
    print(end='')
    return y * k
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((1,), 3.0))
    def forward(self, x):
        return masking(x) + branching(x * self.w)
net = Net()
"""
# Those with a graph break of their own: torch.compile calls what is compiled already there, and inlines it elsewhere.
BREAKING = ("talking", "branching", "counting", "masking", "calling", "looping", "drawing", "net")
WHOLE = ("leaf", "boxed")
ALL = (*BREAKING, *WHOLE)
MAGICS = ("%%compile_explain -q", "%%compile_explain -q --fresh", "%%compile_bench -q --backends eager --budget 0.01")


@dataclass(frozen=True)
class Step:
    """A cell, and the magic line over it where compile_magic is at work: "" for a plain cell."""

    magic: str
    cell: str


def argument(name: str, size: int) -> str:
    """Return what a function of FIRST is given, of a size."""
    made = f"torch.ones({size})"
    return f"Box({made})" if name == "boxed" else made


def order(seed: int, *, benches: bool = True) -> list[Step]:
    """Return the steps of one order: what is in it depends on the seed alone."""
    draw = random.Random(seed)  # noqa: S311 - it is to be the same each time
    names = draw.sample(ALL, 3)
    compiled: list[str] = []
    steps = []
    for number in range(draw.randint(5, 9)):
        name, size = draw.choice(names), draw.choice((3, 3, 4, 5))
        kind = draw.choice(("compile", "call", "explain", "explain", "explain", "both", "bench", "watch", "change"))
        if kind == "compile" or not compiled:
            options = draw.choice(("", "", ", dynamic=False", ", dynamic=True"))
            steps.append(Step("", f"fast_{name} = torch.compile({name}, backend=counter({name!r}){options})"))
            if name in BREAKING:
                steps[-1] = Step("", f"{steps[-1].cell}\ndef outer_{name}(x):\n    return fast_{name}(x) + 1")
            compiled.append(name)
        elif kind == "watch":
            steps.append(Step(draw.choice(("%compile_watch on", "%compile_watch off")), ""))
        elif kind == "change":
            steps.append(Step("", draw.choice((f"k = {number + 3}.0", "torch._dynamo.reset()", _again(name)))))
        else:
            other = draw.choice(compiled)
            cells = [
                f"y{number} = {name}({argument(name, size)})",
                f"z{number} = fast_{other}({argument(other, size)})",
            ]
            if other in BREAKING:
                cells.append(f"v{number} = outer_{other}({argument(other, size)})")
            magic = draw.choice(MAGICS[:2]) if kind in ("explain", "both") else ""
            chosen = draw.sample(cells, draw.randint(2, len(cells))) if kind == "both" else [draw.choice(cells)]
            # What is compiled anew in each run, as here for each number drawn, is so in each run of a bench, too.
            if kind == "bench" and benches and not any("drawing" in cell for cell in chosen):
                magic = MAGICS[2]
            elif any("fast_" in cell for cell in chosen):
                # --fresh asks for the original in the place of what the user has compiled.
                magic = magic and MAGICS[0]
            steps.append(Step(magic, "\n".join(chosen)))
    return steps


def _again(name: str) -> str:
    if name == "net":
        return "net = Net()"
    body = FIRST[FIRST.index(f"def {name}(") :]
    lines = body.splitlines()
    last = next(n for n, text in enumerate(lines) if n and not text.startswith(" "))
    return "\n".join(lines[:last])


def asked() -> list[Any]:
    """Return what the user's backends were asked for, and forget it.

    It is kept where nothing of a notebook leads to, so that no bench puts it back.
    """
    import torch

    found: list[Any] = vars(torch).setdefault("asked_by_orders", [])
    vars(torch)["asked_by_orders"] = []
    return found


def counter(name: str) -> Any:
    """Return a backend that notes the shapes that it is asked to compile for."""

    def backend(graph: Any, inputs: list[Any]) -> Any:
        import torch

        torch.asked_by_orders.append((name, [str(getattr(each, "shape", each)) for each in inputs]))
        return graph.forward

    return backend


def play(steps: list[Step], *, ours: bool) -> dict[str, Any]:
    """Run an order in this process, and return what the user sees: values, errors, compiles, entries, headroom."""
    import torch
    from notebook import Notebook

    from compile_magic import _torch

    book = Notebook(load=ours)
    book.shell.user_ns["counter"] = counter
    book.ok(FIRST)
    torch.manual_seed(0)
    random.seed(0)
    seen: list[Any] = []
    for step in steps:
        asked()
        if step.magic and not step.cell:
            if ours:
                book.ok(step.magic)
            continue
        ran = book.run(f"{step.magic if step.magic and ours else '# plain'}\n{step.cell}")
        values = {n: v.tolist() for n, v in book.shell.user_ns.items() if n[0] in "yzv" and hasattr(v, "tolist")}
        seen.append([step.cell, values, repr(ran.error), asked(), _code_state(book, _torch)])
    names = book.shell.user_ns
    left = sorted(n for n in names if n.startswith("__import_"))
    return {"steps": seen, "headroom": _headroom(book), "shared names": left, "draw": random.getstate()[1][:4]}


def _code_state(book: Any, _torch: Any) -> list[Any]:
    names = book.shell.user_ns
    functions = [*(names[name] for name in ALL if name != "net"), names["Net"].forward]
    return [[function.__qualname__, len(_torch.entries(function.__code__))] for function in functions]


def _headroom(book: Any) -> dict[str, list[Any]]:
    """Return what each function of the user's is still compiled for: new sizes and dtypes, until torch gives up."""
    import torch

    found = {}
    for name in ALL:
        fast = book.shell.user_ns.get(f"fast_{name}")
        if fast is None:
            continue
        asked()
        raised = []
        for number in range(10):
            made = torch.ones(3 + number % 5, 2, dtype=(torch.float32, torch.float64, torch.float16)[number % 3])
            made.requires_grad_(number % 2 == 1)
            try:
                fast(book.shell.user_ns["Box"](made) if name == "boxed" else made)
            except Exception as error:  # noqa: BLE001 - what it raises is compared
                raised.append(repr(error))
        found[name] = [raised, asked()]
    return found


def apart(steps: list[Step], *, ours: bool, limit_s: int = 120) -> dict[str, Any]:
    """Run an order in a process of its own, which begins as this one is now."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(limit_s)
        os.close(reading)
        # Collections pass over what is older, and copy no memory of the parent's.
        gc.freeze()
        try:
            found: Any = play(steps, ours=ours)
        except BaseException:  # noqa: BLE001 - the parent tells
            found = {"failed": traceback.format_exc()}
        with os.fdopen(writing, "w") as out:
            out.write(json.dumps(found, default=str))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as into:
        text = into.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"failed": f"no answer in {limit_s} s"}


def difference(steps: list[Step]) -> str:
    """Return where an order with us differs from the same without us, "" if nowhere."""
    with_us, without = apart(steps, ours=True), apart(steps, ours=False)
    if "failed" in with_us or "failed" in without:
        return f"failed: {with_us.get('failed')} {without.get('failed')}"
    for mine, plain in zip(with_us.pop("steps"), without.pop("steps"), strict=True):
        if mine != plain:
            return f"after {mine[0]!r}:\n  with us {mine[1:]}\n  without {plain[1:]}"
    differ = [name for name in without if with_us[name] != without[name]]
    return "\n".join(f"{name} in the end:\n  with us {with_us[name]}\n  without {without[name]}" for name in differ)


def warm_up() -> None:
    """Import what each order needs, so that a fork has it."""
    import torch
    from notebook import Notebook

    book = Notebook()
    book.ok("import torch\ndef f(x):\n    return x + 1\nx = torch.ones(2)")
    book.ok("%%compile_explain -q\ny = f(x)")
    book.ok("%%compile_bench -q --backends eager --budget 0.01\ny = f(x)")
    book.close()
    torch.compiler.reset()


def main() -> None:
    """Run orders and print those that differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-bench", action="store_true")
    given = parser.parse_args()
    warm_up()
    bad = 0
    for seed in range(given.seed, given.seed + given.orders):
        steps = order(seed, benches=not given.no_bench)
        found = difference(steps)
        if found:
            bad += 1
            print(f"--- seed {seed}\n" + "\n".join(f"[{s.magic}] {s.cell}" for s in steps) + f"\n{found}", flush=True)
    print(f"{given.orders} orders, {bad} differ")


if __name__ == "__main__":
    main()
