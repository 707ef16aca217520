"""What an explain costs beside a plain compile of the same model, and how much it prints: ratios from one run.

    python tests/benchmarks/explain_overhead.py [rounds]

In each round a new 12-block transformer is compiled with `torch.compile(backend="eager")` and called once, and an
equal one is explained; the order changes from round to round. Printed are the median of each, the median of the rounds'
ratios, and the size of the text beside that of `torch._dynamo.explain`.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch

from compile_magic import ExplainReport
from compile_magic import explain
from compile_magic import render

BLOCKS, WIDTH, HEADS, LENGTH, BATCH = 12, 64, 4, 16, 2


class Block(torch.nn.Module):
    """A transformer block: attention and a feed-forward net, each after a layer norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(self.norm2(x))


class Transformer(torch.nn.Module):
    """A stack of equal blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the last block."""
        for block in self.blocks:
            x = block(x)
        return x


def plain(x: torch.Tensor) -> None:
    """Compile a model as a user would, and call it once."""
    torch.compile(Transformer(), backend="eager")(x)


def explained(x: torch.Tensor) -> ExplainReport:
    """Explain a call of a model."""
    return explain(Transformer(), x)


def timed(run: Callable[[torch.Tensor], object], x: torch.Tensor) -> float:
    """Return how long one run takes from an empty Dynamo cache, in seconds."""
    torch.compiler.reset()
    start = time.perf_counter()
    run(x)
    return time.perf_counter() - start


def main(rounds: int) -> None:
    """Measure, and print one line for each figure."""
    warnings.simplefilter("ignore")
    x = torch.randn(BATCH, LENGTH, WIDTH)
    for run in (plain, explained):
        timed(run, x)
    pairs = []
    for number in range(rounds):
        order = (plain, explained) if number % 2 else (explained, plain)
        took = {run: timed(run, x) for run in order}
        pairs.append((took[plain], took[explained]))
    ratios = sorted(after / before for before, after in pairs)
    print(f"torch {torch.__version__}, {BLOCKS} blocks, {rounds} rounds")
    print(f"torch.compile(backend='eager') and a call: {statistics.median(p for p, _ in pairs):.3f} s")
    print(f"explain of the same:                       {statistics.median(e for _, e in pairs):.3f} s")
    print(f"ratio of a round: {statistics.median(ratios):.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f})")
    sizes(x)


def sizes(x: torch.Tensor) -> None:
    """Print how long our text is, and torch's."""
    report = explained(x)
    text = render.text(report, width=120)
    torchs = str(torch._dynamo.explain(Transformer())(x))
    print(f"text/plain: {len(text.splitlines())} lines, {len(text):,} characters; unread records: {len(report.unread)}")
    print(f"text/html: {len(render.mimebundle(report)['text/html']):,} characters")
    print(f"torch._dynamo.explain: {len(torchs.splitlines()):,} lines, {len(torchs):,} characters")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
