"""Try a great many damaged and hostile inputs: ``python fuzz/run.py --inputs 200000 --seed 1 --jobs 2 -o summary.json``.

Three of four are traces. Each is read, linked and accounted for to the ns; those in the share ``--whole`` (all, unless told
otherwise) go on through all rules, the replay, the plan and every format of a report, which takes twenty times as long. The
others (``--kinds``) are baselines, rules, settings, recorded settings, folders of ranks and recordings in other formats than JSON,
each used as its command would.
Allowed is a result that holds ``fuzz/checks.py``, or an error of the advisor's own that says what is wrong. An input is its
seed and its number: ``--only NUMBER`` tries it again, and ``--keep PLACE`` writes it. Children do the work, so that a crash, ten
seconds of CPU or a gigabyte of memory end one input and not the run. Exit code 1 where anything failed.

``--minutes 8 --work DIR`` ends a piece of the run after that time; with ``--resume`` the next one goes on where the last one
ended, however that was. The summary is of all pieces.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

from fuzz import kinds  # noqa: E402
from fuzz.seeds import prepare  # noqa: E402
from fuzz.summary import Summary  # noqa: E402

WALL_SECONDS = 600.0
"""Without a word for so long a child hangs without using the processor."""
BATCH = 5000
CHILD = __file__
"""The script that a child runs."""
SAVE_SECONDS = 5.0
"""So much of a run is lost where it is killed."""
_MOST_STILLBORN = 5


class Stillborn(Exception):
    """A child that ended before its first input: a machine too busy to start it, or code that cannot be imported."""


def drive(
    folder: Path, seed: int, share: float, numbers: range, summary: Summary, chosen: Sequence[str] = kinds.KINDS
) -> None:
    """Have children try *numbers*; a child that dies has failed the input it was at, and another goes on behind it."""
    start, stillborn = numbers.start, 0
    while start < numbers.stop and not summary.ended():
        try:
            stop = min(kinds.numbers(start, BATCH, chosen).stop, numbers.stop)
            start = _child(folder, seed, share, range(start, stop), summary, chosen)
            stillborn = 0
        except Stillborn as error:
            stillborn += 1
            if stillborn == _MOST_STILLBORN:
                summary.add(start, {"outcome": "crash", "said": str(error)})
                return  # what is left is not counted as tried


def _child(folder: Path, seed: int, share: float, numbers: range, summary: Summary, chosen: Sequence[str]) -> int:
    """Run one child; returns the number to go on with."""
    arguments = [str(folder), str(seed), str(numbers.start), str(numbers.stop), str(share), ",".join(chosen)]
    with tempfile.TemporaryFile("w+") as trouble:
        child = subprocess.Popen([sys.executable, CHILD, "--child", *arguments], stdout=subprocess.PIPE, stderr=trouble)
        current, outcome = None, ""
        finished = numbers.start
        for line in _lines(child):
            if line.startswith(b"{") and current is not None:
                result = json.loads(line)
                outcome = result["outcome"]
                summary.add(current, result)
                finished, current = current + 1, None
                if summary.ended():
                    child.kill()
                    break
            else:
                current = int(line)
        code = child.wait()
        if child.stdout is not None:
            child.stdout.close()
        shutil.rmtree(folder / f"input-{child.pid}", ignore_errors=True)
        if summary.ended():
            return finished
        if code == 0 and outcome == "memory":
            return finished
        if code == 0:
            summary.done(numbers)
            return numbers.stop
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
    options.add_argument(
        "--whole", type=float, default=1.0, help="the share of traces that goes through rules and reports"
    )
    options.add_argument(
        "--kinds", type=kinds.chosen, default=kinds.KINDS, help=f"some of {','.join(kinds.KINDS)}; else all"
    )
    options.add_argument("--start", type=int, default=0, help="the first number")
    options.add_argument("--only", type=int, help="try this number alone, here, with all of its rules and reports")
    options.add_argument("--keep", metavar="PLACE", help="with --only: write the input there, its files in a folder")
    options.add_argument(
        "--largest", type=float, default=math.inf, metavar="KB", help="leave out recordings of more than that"
    )
    options.add_argument(
        "--work", metavar="DIR", help="where seeds, tracebacks and the state go; else a folder that is removed"
    )
    options.add_argument("--minutes", type=float, default=math.inf, help="end this piece of the run after so long")
    options.add_argument("--resume", action="store_true", help="go on with the run in --work")
    options.add_argument("-o", "--output", metavar="FILE", help="where the summary goes, renewed as the run goes on")
    options.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.child:
        from fuzz.worker import work

        folder, seed, start, stop, share, chosen = arguments.child
        work(Path(folder), int(seed), range(int(start), int(stop)), float(share), kinds.chosen(chosen))
        return 0
    if arguments.resume and not arguments.work:
        options.error("--resume needs --work")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        folder = Path(arguments.work or scratch)
        if not any((folder / "seeds").glob("*.json")):
            print(f"{prepare(folder / 'seeds', arguments.largest)} seeds", file=sys.stderr)
        if arguments.only is not None:
            return _again(folder, arguments.seed, arguments.only, arguments.keep)
        asked = {"seed": arguments.seed, "whole": arguments.whole, "kinds": list(arguments.kinds)}
        numbers = kinds.numbers(arguments.start, arguments.inputs, arguments.kinds)
        try:
            summary = Summary.of(folder / "state.json", asked, numbers, arguments.jobs, arguments.resume)
        except ValueError as error:
            options.error(str(error))
        summary.end_after(60 * arguments.minutes)
        _run(folder, arguments, summary)
        print(json.dumps(summary.as_dict(), indent=1))
        count = summary.count
        if summary.left:
            print(f"{count:,} of {arguments.inputs:,} inputs; go on with --resume", file=sys.stderr)
        return 1 if summary.failures else 0


def _run(folder: Path, options: argparse.Namespace, summary: Summary) -> None:
    threads = [
        threading.Thread(
            target=drive, args=(folder, options.seed, options.whole, part, summary, options.kinds), daemon=True
        )
        for part in summary.left
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(SAVE_SECONDS / len(threads))
        summary.save(options.output)
    summary.save(options.output)


def _again(folder: Path, seed: int, number: int, keep: str | None) -> int:
    """Try one input in this process, and let what it raises be seen."""
    from random import Random

    from fuzz.worker import clocks, make, write
    from fuzz.world import World

    world, kind = World.of(folder / "seeds"), kinds.kind_of(number)
    damage, files = make(seed, number, world)
    print(f"{number}: {kind}, {damage}, {sum(map(len, files.values())):,} bytes", file=sys.stderr)
    place = Path(keep) if keep else folder / "again"
    write(place, files)
    clocks(kind)
    print(kinds.module(kind).tried(place, Random(f"{seed} {number} whole"), world))
    return 0


if __name__ == "__main__":
    sys.exit(main())
