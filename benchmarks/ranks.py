"""Many ranks: time and peak memory of whole processes, for 8 ranks and more.

    python benchmarks/ranks.py [--traces DIR] [--ranks 8 32 128 256] [--jobs 1 2] [--format json] [--runs 1]

The eight ranks of a100_megatron_tp8 are written again and again under other rank numbers, each group of eight with the
real run's own waits. `process` is the largest process's peak by the operating system's account; `together` the largest sum
of what all of the command's processes share proportionally (Linux), looked at four times a second. The rules are kept from an
earlier run, as on any day but the first; no trace is.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_RANK = re.compile(rb'"distributedInfo": \{[^}]*\}')


def write(count: int, source: Path, folder: Path) -> int:
    """*count* ranks in *folder*; returns the bytes of their text."""
    texts = [gzip.decompress((source / f"rank{number}.json.gz").read_bytes()) for number in range(8)]
    for number in range(count):
        metadata = f'"distributedInfo": {{"backend": "nccl", "rank": {number}, "world_size": {count}}}'.encode()
        text, changed = _RANK.subn(metadata, texts[number % 8], count=1)
        if not changed:
            raise SystemExit("the traces say no rank")
        (folder / f"rank{number}.json.gz").write_bytes(gzip.compress(text, 1))
    return sum(len(texts[number % 8]) for number in range(count))


def shared_bytes(group: int) -> int:
    """Return the memory of a group's processes, shared pages in proportion; 0 where the system does not tell."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(entry.name)) != group:
                continue
            line = next(row for row in (entry / "smaps_rollup").read_text().splitlines() if row.startswith("Pss:"))
            total += int(line.split()[1]) << 10
        except (OSError, StopIteration):  # gone meanwhile
            continue
    return total


def measure(command: list[str]) -> tuple[float, float, float, float]:
    """Wall and CPU seconds, MB of the largest process, MB of all together."""
    start, together = time.perf_counter(), 0
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, start_new_session=True)
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        together = max(together, shared_bytes(child.pid))
        time.sleep(0.25)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} exited with {child.returncode}")
    wall = time.perf_counter() - start
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, together / 2**20


@contextmanager
def kept_rules() -> Iterator[None]:
    """Keep the rules in a cache of their own, which nothing else is in, for the commands that are measured."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ADVISOR_CACHE"] = cache
        command = [sys.executable, "-m", "advisor", "rules", "list"]
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT, check=True)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default=os.environ.get("ADVISOR_TRACES", ROOT.parent / "shared" / "traces"))
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 32, 128, 256])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--format", default="json")
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    with kept_rules():
        _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    for count in arguments.ranks:
        with tempfile.TemporaryDirectory() as scratch:
            size = write(count, Path(arguments.traces) / "a100_megatron_tp8", Path(scratch))
            for jobs in arguments.jobs:
                command = [
                    sys.executable,
                    "-m",
                    "advisor",
                    "analyze",
                    scratch,
                    "-f",
                    arguments.format,
                    "--no-cache",
                    "--jobs",
                    str(jobs),
                ]
                runs = [measure(command) for _ in range(arguments.runs)]
                wall, cpu, process, together = (statistics.median(column) for column in zip(*runs, strict=True))
                print(
                    f"{count:4} ranks, {size / 1e6:6.0f} MB of text, --jobs {jobs}: {wall:6.1f} s "
                    f"({1000 * wall / count:.0f} ms a rank; CPU {cpu:.1f} s), process {process:.0f} MB, together {together:.0f} MB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
