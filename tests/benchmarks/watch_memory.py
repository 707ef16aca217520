"""What a watch keeps after many compiles: memory, and how long its report takes to draw.

    python tests/benchmarks/watch_memory.py [compiles]

Recorded compiles are played to a watch again and again as those of ever new functions, ten to a cell: what torch would
say of so many, without the minutes that it would take to compile them.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import sys
import time
from pathlib import Path

from compile_magic import render
from compile_magic.trace import Capture
from compile_magic.trace import Record
from compile_magic.watching import Watch

TRACE = Path(__file__).parents[1] / "traces" / "2.13" / "dtype_then_grad.jsonl"


def renamed(record: Record, number: int) -> Record:
    """Return the record as one of another function's."""
    frame, _, version = record.compile_id.rpartition("/")
    data = dict(record.data)
    if "stack" in data:
        data["stack"] = [*data["stack"][:-1], {**data["stack"][-1], "name": f"f{number}"}]
    return dataclasses.replace(record, compile_id=f"{int(frame or 0) + number}/{version}", call=None, data=data)


def resident() -> float:
    """Return the resident memory in megabytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main(compiles: int) -> None:
    """Play, and print the memory on the way and the time of the report at the end."""
    recorded = [record for record in Capture.from_jsonl(TRACE.open(encoding="utf-8")).records if record.compile_id]
    a_time = sum(record.kind == "dynamo_start" for record in recorded)
    watch = Watch()
    played = 0
    while played < compiles:
        for record in recorded:
            watch._recorder._store(renamed(record, played), logging.makeLogRecord({}))
        played += a_time
        if played % (10 * a_time) == 0:
            watch.take("In[1]")
        if played % (compiles // 4) < a_time:
            print(f"{played:,} compiles: {resident():.0f} MB resident")
    start = time.perf_counter()
    report = watch.report()
    text, html = str(report), render.mimebundle(report)["text/html"]
    took = time.perf_counter() - start
    size = f"{len(text.splitlines())} lines, {len(html):,} characters of HTML"
    print(f"report of {report.compile_count:,} compiles: {took:.2f} s, {size}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
