"""Measure how the advisor grows with its input, and write it down: ``python benchmarks/growth.py [--large] [--publish]``.

Three rows of traces: one large trace 1, 4, 30 and (``--large``) 120 times over; three steps 1 to 1,000 times over; and the eight
ranks of one run again under other numbers, 1 to 1,024 of them. Each is analyzed by a whole process as a user runs it, with the
rules kept from an earlier command and no trace kept; seconds of the clock and of processors, and the largest sum of what all of
its processes hold, pages that they share counted once (Linux). ``--peers PYTHON`` names the interpreter of an environment with
TraceLens, HolisticTraceAnalysis or both: they load the first row and take their first breakdown of it, beside.

``--publish`` writes the table into ``benchmarks/README.md`` and the plot beside it, which needs matplotlib; with the commit and
the machine. Nothing here fails a build.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import peers
import ranks

ROOT = Path(__file__).resolve().parent.parent
README = Path(__file__).with_name("README.md")
PLOT = Path(__file__).with_name("growth.svg")
BEGIN, END = "<!-- growth: written by growth.py -->", "<!-- end of growth -->"
LARGE, STEPS = "h100_owlv2_large.json.gz", "h100_transformer_run1.json.gz"


class Row(NamedTuple):
    """One measured size: *megabytes* of text, seconds, and MB of all processes together."""

    what: str
    size: int
    megabytes: float
    wall: float
    cpu: float
    together: float


def analyzed(what: str, size: int, megabytes: float, path: str, runs: int) -> Row:
    """Analyze what lies at *path*, *runs* times; the median of each figure."""
    command = [sys.executable, "-m", "advisor", "analyze", path, "-q", "-f", "json", "--no-cache"]
    measured = [ranks.measure(command) for _ in range(runs)]
    wall, cpu, _, together = (statistics.median(column) for column in zip(*measured, strict=True))
    return told(Row(what, size, megabytes, wall, cpu, together))


def told(row: Row) -> Row:
    """Print a row."""
    print(
        f"{row.what:28} {row.size:5}  {row.megabytes:6.0f} MB: {row.wall:7.2f} s, {row.cpu:7.2f} s CPU, {row.together:6.0f} MB",
        flush=True,
    )
    return row


def repeated(traces: Path, name: str, times: int, folder: Path) -> Path:
    """Write a trace *times* over."""
    path = folder / "trace.json"
    tool = traces.parent / "tools" / "repeat_trace.py"
    subprocess.run([sys.executable, str(tool), str(traces / name), str(times), str(path)], check=True)
    return path


def rows(traces: Path, large: bool, runs: int, other: str | None) -> Iterator[Row]:
    """Measure one size after the other."""
    for times in (1, 4, 30, 120) if large else (1, 4, 30):
        with tempfile.TemporaryDirectory() as scratch:
            path = repeated(traces, LARGE, times, Path(scratch))
            megabytes = path.stat().st_size / 1e6
            yield analyzed("one trace, times over", times, megabytes, str(path), runs if times < 100 else 1)
            for peer, code in (("TraceLens", peers.TRACELENS), ("HTA", peers.HTA)):
                most = 30 if peer == "TraceLens" and large else 4  # 73 s and 9 GB for 30
                if other and times <= most and peers.has(other, peer):
                    wall, cpu, _, together = ranks.measure([other, "-c", code, str(path)])
                    yield told(Row(peer, times, megabytes, wall, cpu, together))
    for times in (1, 10, 100, 1000):
        with tempfile.TemporaryDirectory() as scratch:
            path = repeated(traces, STEPS, times, Path(scratch))
            yield analyzed("steps", 3 * times, path.stat().st_size / 1e6, str(path), runs)
    for count in (1, 8, 64, 256, 1024) if large else (1, 8, 64):
        with tempfile.TemporaryDirectory() as scratch:
            megabytes = ranks.write(count, traces / "a100_megatron_tp8", Path(scratch)) / 1e6
            yield analyzed("ranks", count, megabytes, scratch, runs if count < 64 else 1)


def published(found: list[Row]) -> str:
    """Return the table, with the commit and the machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = [
        BEGIN,
        "",
        f"At commit {commit}, Python {platform.python_version()}, {os.cpu_count()} processors of which this process may use "
        f"{len(os.sched_getaffinity(0))}, {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory:",
        "",
        "| what | size | text, MB | time, s | processor time, s | all processes, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.what} | {row.size:,} | {row.megabytes:,.1f} | {row.wall:.2f} | {row.cpu:.2f} | {row.together:.0f} |"
        for row in found
    ]
    return "\n".join([*lines, "", f"![Seconds and memory by MB of text]({PLOT.name})", "", END])


def plot(found: list[Row]) -> None:
    """Draw seconds and memory over the text, both axes in powers of ten."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"  # the same figures draw the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    for axis, field, label in ((axes[0], "wall", "seconds"), (axes[1], "together", "MB, all processes")):
        for what in dict.fromkeys(row.what for row in found):
            chosen = [row for row in found if row.what == what]
            axis.loglog([row.megabytes for row in chosen], [getattr(row, field) for row in chosen], "o-", label=what)
        axis.set_xlabel("MB of text")
        axis.set_ylabel(label)
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Measure, print, and write down where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default=os.environ.get("ADVISOR_TRACES", str(ROOT.parent / "shared" / "traces")))
    parser.add_argument(
        "--large",
        action="store_true",
        help="with 4.8 GB, 1,024 ranks and TraceLens on 1.19 GB; needs 6 GB of disk and ten minutes",
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    with ranks.kept_rules():
        found = list(rows(Path(options.traces), options.large, options.runs, options.peers))
    print(f"{time.perf_counter() - start:.0f} s in all")
    if options.publish:
        text = README.read_text()
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        README.write_text(f"{before.rstrip()}\n\n{published(found)}{after or chr(10)}")
        plot(found)


if __name__ == "__main__":
    main()
