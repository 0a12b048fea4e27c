"""The same large trace by the advisor and by two peers, in turn: ``python benchmarks/peers.py TRACE --peers PYTHON``.

PYTHON is the interpreter of an environment with HolisticTraceAnalysis, TraceLens or both; neither is a dependency of
anything here, and what is not installed there is left out. Each loads the trace and takes its first breakdown of it, the
advisor all rules and its JSON report, and reads the trace anew: once with nothing kept, once with the rules kept from an earlier
command, as Python keeps everyone's modules compiled. Prints seconds and peak memory: the operating system's account of each
process.
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

ROOT = Path(__file__).resolve().parent.parent
HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
print(analysis.get_temporal_breakdown(visualize=False).to_dict("records"))
"""
FIRST = "advisor analyze, all rules, JSON"
TRACELENS = """
import sys
from TraceLens import TreePerfAnalyzer
analyzer = TreePerfAnalyzer.from_file(profile_filepath=sys.argv[1])
print(analyzer.get_df_gpu_timeline().to_dict("records"))
"""


def measured(command: list[str], cache: str) -> tuple[float, float]:
    """Seconds and the peak in MB of one whole process that keeps the advisor's rules in *cache*."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "ADVISOR_CACHE": cache}, cwd=ROOT
    )
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        message = child.stderr.read().decode(errors="replace") if child.stderr else ""
        raise SystemExit(f"{command[0]} ended with {status}: {message[-2000:]}")
    return seconds, usage.ru_maxrss / 1000


MODULES = {"HTA": "hta", "TraceLens": "TraceLens"}


def has(python: str, peer: str) -> bool:
    """Tell whether the environment of an interpreter has a peer."""
    command = [python, "-c", f"import {MODULES[peer]}"]
    return not subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


def main() -> int:
    """Run each in turn, as often as asked; print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--peers", required=True, help="the Python of an environment with the peers")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    trace = str(arguments.trace.resolve())
    with tempfile.TemporaryDirectory() as folder:
        advisor = [sys.executable, "-m", "advisor", "analyze", trace, "-q", "-f", "json", "--force"]
        commands = {
            FIRST: [*advisor, "-o", str(Path(folder) / "a.json")],
            "  the same, rules kept": [*advisor, "--no-cache", "-o", str(Path(folder) / "a.json")],
            "HTA, load and temporal breakdown": [arguments.peers, "-c", HTA, trace],
            "TraceLens, load and timeline": [arguments.peers, "-c", TRACELENS, trace],
        }
        for name in MODULES:
            if not has(arguments.peers, name):
                print(f"{name} is not installed there")
                commands = {key: command for key, command in commands.items() if not key.startswith(name)}
        runs_by_name: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        kept = str(Path(folder) / "cache")
        measured(commands[FIRST], kept)  # warms up, and keeps the rules
        for _ in range(arguments.runs):
            for name, command in commands.items():
                runs_by_name[name].append(measured(command, "off" if name == FIRST else kept))
    for name, runs in runs_by_name.items():
        seconds = [second for second, _ in runs]
        spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
        print(f"{name}: {statistics.median(seconds):.1f} s ({spread}), {max(peak for _, peak in runs):,.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
