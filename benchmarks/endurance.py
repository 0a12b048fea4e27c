"""A thousand analyses in one process, and what they leave behind: ``python benchmarks/endurance.py --analyses 1000``.

Each analysis reads a trace, runs all rules, the replay and the plan, and renders every format of a report; traces are the
project's samples in turn, or small built ones (``--built``). Prints JSON: resident memory after the warm-up and at the end,
the slope between, in kB an analysis, and the counts of open files, sockets and threads.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
import tempfile
import threading
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def trim() -> None:
    """Return what is free to the system, where its C library can: what stays resident is then in use, not kept for later."""
    gc.collect()
    release = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if release is not None:
        release(0)


def resident_kb() -> int:
    """Memory of this process that is in use, in kB."""
    trim()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def descriptors() -> tuple[int, int]:
    """Open files, sockets included, and sockets."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(entry))
        except OSError:
            continue  # of the listing itself
    return len(links), sum(link.startswith("socket:") for link in links)


def threads() -> int:
    """Threads of the process, whoever made them."""
    return len(list(Path("/proc/self/task").iterdir()))


def write_traces(folder: Path) -> list[str]:
    """Three small traces: a GPU with a loader and copies, two ranks' communication, a machine without a GPU."""
    from advisor.testing import TraceBuilder

    paths = []
    for kind in ("copies", "readback", "host"):
        b = TraceBuilder(None) if kind == "host" else TraceBuilder()
        for number in range(6):
            with b.step():
                with b.loader(ms=3):
                    pass
                with b.python("train.py(54): step"), b.op("aten::mm", shapes=[[64, 64]], us=500, seq=number):
                    if kind != "host":
                        b.copy("HtoD", nbytes=1 << 22, us=400)
                        b.kernel("volta_sgemm_128x64_nn", us=900)
                if kind == "readback":
                    b.item()
        path = folder / f"{kind}.json.gz"
        b.write(str(path))
        paths.append(str(path))
    return paths


def measure(paths: list[str], analyses: int, warm_up: int, keep: bool) -> dict[str, object]:
    """Analyze *paths* in turn, *analyses* times, and say what grew once *warm_up* of them were done."""
    import advisor
    from advisor import rulebook
    from advisor.report import FORMATS, render

    rules = rulebook.load([rulebook.builtin_rules_dir()])
    previous: list[object] = []
    memory: list[int] = []
    before = (0, 0)
    threads_before = 0
    begin = time.perf_counter()
    for number, path in enumerate(islice(cycle(paths), analyses), 1):
        trace = advisor.read(path)
        analysis = advisor.analyze(trace, rules, views=True, samples=True)
        for name in FORMATS:
            render(name, analysis)
        if keep:
            previous.append((trace, analysis))
        del trace, analysis
        if number == 1:
            gc.freeze()  # modules stay as they are: to look through them each time takes as long as an analysis
        memory.append(resident_kb())
        if number == warm_up:
            before, threads_before = descriptors(), threads()
        if sys.stderr.isatty():
            print(f"\r{number} of {analyses}: {memory[-1] >> 10} MB", end="", file=sys.stderr)
    gc.unfreeze()
    after = descriptors()
    settled = np.array(memory[warm_up:])
    slope = float(np.polyfit(np.arange(len(settled)), settled, 1)[0]) if len(settled) > 1 else 0.0
    return {
        "analyses": analyses,
        "warm_up": warm_up,
        "traces": len(paths),
        "mb_after_warm_up": round(memory[warm_up - 1] / 1024, 1),
        "mb_at_the_end": round(memory[-1] / 1024, 1),
        "mb_at_most": round(max(memory) / 1024, 1),
        "kb_an_analysis": round(slope, 2),
        "files_before": before[0],
        "files_after": after[0],
        "sockets_before": before[1],
        "sockets_after": after[1],
        "threads_before": threads_before,
        "threads_after": threads(),
        "python_threads_after": threading.active_count(),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--analyses", type=int, default=1000)
    options.add_argument("--warm-up", type=int, default=100, help="analyses before memory is looked at")
    options.add_argument("--built", action="store_true", help="small built traces, not the samples")
    options.add_argument("--keep", action="store_true", help="keep every trace, to see that the measure sees it")
    options.add_argument("traces", nargs="*", help="traces to analyze in turn [those of sample_traces/]")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        samples = sorted(str(path) for path in (ROOT / "sample_traces").rglob("*.json.gz"))
        paths = write_traces(Path(folder)) if arguments.built else arguments.traces or samples
        print(json.dumps(measure(paths, arguments.analyses, arguments.warm_up, arguments.keep), indent=1))


if __name__ == "__main__":
    main()
