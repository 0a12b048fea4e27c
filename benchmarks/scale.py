"""Measure how time and memory grow with a trace: the same trace 1, 3, 10 and 30 times over, without and with the cache.

    python benchmarks/scale.py [--traces DIR] [--trace NAME] [--times 1,3,10,30] [--runs N]

Prints one line a size: seconds of the whole process, peak memory, and both for an event beyond what a process takes that
analyzes nothing but imports. Peak memory is the operating system's own account of the process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = "import numpy, duckdb, msgspec, click, isal.isal_zlib, advisor.pipeline, advisor.trace"
START = """
import sys, time
import numpy, duckdb, msgspec
import advisor.trace
start = time.perf_counter()
trace = advisor.trace.read(sys.argv[1], cache=True)
trace.context.recording.host
print(time.perf_counter() - start, trace.events)
"""


class Cost(NamedTuple):
    """Of one process: wall seconds, CPU seconds and peak memory in MB."""

    wall: float
    cpu: float
    peak: float


def run(command: list[str], cache: str) -> Cost:
    """Run once. Raises ``SystemExit`` where the command fails."""
    start = time.perf_counter()
    environment = os.environ | {"ADVISOR_CACHE": cache}
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} exited with {child.returncode}")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median(command: list[str], cache: str, runs: int) -> Cost:
    """The median of each figure over *runs*."""
    costs = [run(command, cache) for _ in range(runs)]
    return Cost(*(statistics.median(figures) for figures in zip(*costs, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default=os.environ.get("ADVISOR_TRACES", str(ROOT.parent / "shared" / "traces")))
    parser.add_argument("--trace", default="h100_owlv2_large.json.gz")
    parser.add_argument("--times", default="1,3,10,30")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    source = Path(options.traces) / options.trace
    tool = Path(options.traces).parent / "tools" / "repeat_trace.py"
    python = sys.executable
    base = median([python, "-c", IMPORTS], "off", options.runs)
    print(f"imports alone: {base.wall:.2f} s, {base.cpu:.2f} s of CPU, {base.peak:.0f} MB")
    print(
        "times      MB     events | analyze, no cache            us/event  B/event | first with  again   read and linked again"
    )
    for times in map(int, options.times.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            subprocess.check_call([python, str(tool), str(source), str(times), str(path)])
            analyze = [python, "-m", "advisor", "analyze", str(path), "-f", "json"]
            alone = median(analyze, "off", options.runs)
            cache = str(Path(folder) / "cache")
            first, again = run(analyze, cache), median(analyze, cache, options.runs)
            environment = os.environ | {"ADVISOR_CACHE": cache}
            output = subprocess.check_output([python, "-c", START, str(path)], cwd=ROOT, env=environment)
            seconds, events = float(output.split()[0]), int(output.split()[1])
            microseconds = (alone.cpu - base.cpu) / events * 1e6
            memory = (alone.peak - base.peak) * (1 << 20) / events
            print(
                f"{times:5} {path.stat().st_size / 1e6:7.0f} {events:10,} | {alone.wall:6.2f} s, {alone.cpu:6.2f} s CPU, "
                f"{alone.peak:5.0f} MB {microseconds:8.2f} {memory:8.0f} | {first.wall:6.2f} s {again.wall:6.2f} s   "
                f"{seconds:6.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
