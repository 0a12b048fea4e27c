"""Try a great many damaged and hostile traces: ``python fuzz/run.py --inputs 200000 --seed 1 --jobs 2 -o summary.json``.

Every input is read, linked and accounted for to the ns; those in the share ``--whole`` (all, unless told otherwise) go on
through all rules, the replay, the plan and every format of a report, which takes twenty times as long. Allowed is a report
that holds ``fuzz/checks.py``, or a TraceError that says what is wrong. An input is its number: ``--only NUMBER`` tries it
again, and ``--keep FILE`` writes it. Children do the work, so that a crash, ten seconds of CPU or a gigabyte of memory end one
input and not the run. Exit code 1 where anything failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

from fuzz.seeds import load, prepare  # noqa: E402

WALL_SECONDS = 600.0
"""Without a word for so long a child hangs without using the processor."""
BATCH = 5000
CHILD = __file__
"""The script that a child runs."""
_MOST_FAILURES = 200


_MOST_STILLBORN = 5


class Stillborn(Exception):
    """A child that ended before its first input: a machine too busy to start it, or code that cannot be imported."""


class Summary:
    """Outcomes of the inputs so far."""

    def __init__(self, seed: int, share: float) -> None:
        self.lock = threading.Lock()
        self.outcomes: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.slowest: dict[str, Any] = {"seconds": 0.0}
        self.begin = time.monotonic()
        self.settings = {"seed": seed, "whole": share}

    def add(self, number: int, result: dict[str, Any]) -> None:
        """Count one input."""
        with self.lock:
            self.outcomes[result["outcome"]] += 1
            self.sources[result.get("input", "?").partition(":")[0]] += 1
            seconds = result.get("seconds", 0.0)
            self.seconds += seconds
            if seconds > self.slowest["seconds"]:
                self.slowest = {"number": number, "seconds": seconds, "input": result.get("input")}
            if result["outcome"] not in ("analyzed", "read", "refused") and len(self.failures) < _MOST_FAILURES:
                self.failures.append({"number": number, **result})

    def as_dict(self) -> dict[str, Any]:
        """The summary as it goes to JSON."""
        count = sum(self.outcomes.values())
        return {
            **self.settings,
            "inputs": count,
            "outcomes": dict(self.outcomes),
            "damage": dict(self.sources),
            "failures": self.failures,
            "cpu_seconds": round(self.seconds, 1),
            "cpu_ms_an_input": round(1000 * self.seconds / count, 2) if count else None,
            "slowest": self.slowest,
            "wall_seconds": round(time.monotonic() - self.begin, 1),
        }


def drive(folder: Path, seed: int, share: float, numbers: range, summary: Summary) -> None:
    """Have children try *numbers*; a child that dies has failed the input it was at, and another goes on behind it."""
    start, stillborn = numbers.start, 0
    while start < numbers.stop:
        try:
            start = _child(folder, seed, share, range(start, min(start + BATCH, numbers.stop)), summary)
            stillborn = 0
        except Stillborn as error:
            stillborn += 1
            if stillborn == _MOST_STILLBORN:
                summary.add(start, {"outcome": "crash", "said": str(error)})
                return  # what is left is not counted as tried


def _child(folder: Path, seed: int, share: float, numbers: range, summary: Summary) -> int:
    """Run one child; returns the number to go on with."""
    arguments = [str(folder), str(seed), str(numbers.start), str(numbers.stop), str(share)]
    with tempfile.TemporaryFile("w+") as trouble:
        child = subprocess.Popen([sys.executable, CHILD, "--child", *arguments], stdout=subprocess.PIPE, stderr=trouble)
        current = None
        finished = numbers.start
        for line in _lines(child):
            if line.startswith(b"{") and current is not None:
                summary.add(current, json.loads(line))
                finished, current = current + 1, None
            else:
                current = int(line)
        code = child.wait()
        (folder / f"input-{child.pid}.json").unlink(missing_ok=True)
        if code == 0:
            return finished
        trouble.seek(0)
        stderr_tail = trouble.read()[-2000:]
        outcome = {-27: "hang", -9: "hang"}.get(code, "crash")
        if current is None and finished == numbers.start:
            raise Stillborn(f"a child came to nothing (exit {code}): {stderr_tail}")
        next_number = finished if current is None else current
        summary.add(next_number, {"outcome": outcome, "said": f"exit {code}: {stderr_tail}", "seconds": 0.0})
        return next_number + 1


def _lines(child: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield a child's output, line by line; one that is silent for too long is ended."""
    assert child.stdout is not None
    rest = b""
    with child.stdout as pipe:
        while select.select([pipe], [], [], WALL_SECONDS)[0]:
            text = os.read(pipe.fileno(), 1 << 16)
            if not text:
                return
            *lines, rest = (rest + text).split(b"\n")
            yield from lines
    child.kill()


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--inputs", type=int, default=10_000, help="how many to try")
    options.add_argument("--seed", type=int, default=1, help="of the run; an input is its seed and its number")
    options.add_argument("--jobs", type=int, default=2, help="how many at once")
    options.add_argument("--whole", type=float, default=1.0, help="the share that goes through rules and reports")
    options.add_argument("--start", type=int, default=0, help="the first number")
    options.add_argument("--only", type=int, help="try this number alone, here, with all of its rules and reports")
    options.add_argument("--keep", metavar="FILE", help="with --only: write the input there")
    options.add_argument(
        "--largest", type=float, default=math.inf, metavar="KB", help="leave out recordings of more than that"
    )
    options.add_argument("--work", metavar="DIR", help="where seeds and tracebacks go; else a folder that is removed")
    options.add_argument("-o", "--output", metavar="FILE", help="where the summary goes, renewed as the run goes on")
    options.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.child:
        from fuzz.worker import work

        folder, seed, start, stop, share = arguments.child
        work(Path(folder), int(seed), range(int(start), int(stop)), float(share))
        return 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        folder = Path(arguments.work or scratch)
        if not any((folder / "seeds").glob("*.json")):
            print(f"{prepare(folder / 'seeds', arguments.largest)} seeds", file=sys.stderr)
        if arguments.only is not None:
            return _again(folder, arguments.seed, arguments.only, arguments.keep)
        summary = Summary(arguments.seed, arguments.whole)
        _run(folder, arguments, summary)
        print(json.dumps(summary.as_dict(), indent=1))
        return 1 if summary.failures else 0


def _run(folder: Path, options: argparse.Namespace, summary: Summary) -> None:
    jobs = max(1, options.jobs)
    bounds = [options.start + options.inputs * job // jobs for job in range(jobs + 1)]
    parts = [range(low, high) for low, high in pairwise(bounds)]
    threads = [
        threading.Thread(target=drive, args=(folder, options.seed, options.whole, part, summary), daemon=True)
        for part in parts
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(5.0) if threads[0].is_alive() else time.sleep(1.0)
        if options.output:
            beside = Path(f"{options.output}.part")
            beside.write_text(json.dumps(summary.as_dict(), indent=1))
            os.replace(beside, options.output)


def _again(folder: Path, seed: int, number: int, keep: str | None) -> int:
    """Try one input in this process, and let what it raises be seen."""
    from advisor import rulebook
    from fuzz import checks
    from fuzz.inputs import make

    damage, content = make(seed, number, load(folder / "seeds"))
    print(f"{number}: {damage}, {len(content):,} bytes", file=sys.stderr)
    path = Path(keep) if keep else folder / "input.json"
    path.write_bytes(content)
    trace = checks.read(path)
    if isinstance(trace, str):
        print(f"refused: {trace}")
        return 0
    checks.frames(trace)
    analysis = checks.analyzed(trace, rulebook.load([rulebook.builtin_rules_dir()]))
    checks.reports(analysis)
    checks.judged(analysis, analysis)
    print("analyzed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
