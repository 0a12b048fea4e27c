"""Measure what a run costs as `.pftrace`, beside the same run as JSON: user time of whole processes, medians of five, in turns.

    python benchmarks/formats.py [--traces DIR] [--runs N] [NAME ...]

The traces are real ones, written anew by the encoder of the tests, which follows torch's: an export of a machine at hand would be
JSON alone. Times are the processor's, without those of a process that only imports; the budget is four times JSON's an event.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from support.pftrace import encode  # noqa: E402

NAMES = ("h100_owlv2_large",)  # of a short one, Python's start is all of the time
BUDGET = 4.0
IMPORTS = "import sys, advisor, advisor.pipeline, advisor.reading.pftrace, duckdb, numpy, msgspec"
READ = f"{IMPORTS}; print(advisor.read(sys.argv[1]).events)"
ANALYZE = "-m", "advisor", "analyze", "-f", "json", "-o", os.devnull


def user_seconds(command: list[str]) -> tuple[float, str]:
    """User time of a process with those that it started, and what it printed."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} exited with {child.returncode}")
    return usage.ru_utime, printed


def in_turns(commands: dict[str, list[str]], runs: int) -> dict[str, list[float]]:
    """User times of each of the commands, one after the other in every turn, behind a turn that does not count."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            seconds, _ = user_seconds(command)
            if turn:
                found[name].append(seconds)
    return found


def written(root: object, folder: Path) -> dict[str, Path]:
    """The run as JSON and in both encodings of `.pftrace`, by what it is shown as."""
    paths = {
        "JSON": folder / "run.json",
        ".pftrace, stages": folder / "s.pftrace",
        ".pftrace, slices": folder / "f.pftrace",
    }
    paths["JSON"].write_text(json.dumps(root))
    for stages, name in ((True, ".pftrace, stages"), (False, ".pftrace, slices")):
        paths[name].write_bytes(encode(root, stages=stages, categories=stages))
    return paths


def main() -> None:
    """Measure each of the traces."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--traces", default=os.environ.get("ADVISOR_TRACES", str(ROOT.parent / "shared" / "traces")))
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it: modules are compiled once, by the first run
    os.environ["ADVISOR_CACHE"] = "off"
    python = sys.executable
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            root = json.loads(gzip.decompress((Path(options.traces) / f"{name}.json.gz").read_bytes()), strict=False)
            paths = written(root, Path(folder))
            counts = {kind: int(user_seconds([python, "-c", READ, str(path)])[1]) for kind, path in paths.items()}
            for what, words in (("reading", ("-c", READ)), ("analyze", ANALYZE)):
                commands = {kind: [python, *words, str(path)] for kind, path in paths.items()}
                times = in_turns({"imports": [python, "-c", IMPORTS]} | commands, options.runs)
                imports = statistics.median(times.pop("imports"))
                show(f"{name}, {what}", times, imports, counts, paths)


def show(
    what: str, times: dict[str, list[float]], imports: float, counts: dict[str, int], paths: dict[str, Path]
) -> None:
    """Print a line a format; the ratio is of the time an event, imports aside."""
    each = {kind: (statistics.median(taken) - imports) / counts[kind] for kind, taken in times.items()}
    print(f"{what}   [imports {imports:.2f} s of each; budget {BUDGET:.0f} times JSON's an event]")
    for kind, taken in times.items():
        print(
            f"  {kind:18} {statistics.median(taken):6.2f} s ({min(taken):.2f}-{max(taken):.2f}), {counts[kind]:,} events of "
            f"{paths[kind].stat().st_size / 1e6:.1f} MB, {1e6 * each[kind]:.2f} us an event, {each[kind] / each['JSON']:.2f}x"
        )


if __name__ == "__main__":
    main()
