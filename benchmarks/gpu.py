"""Rates that a device reaches: ``python benchmarks/gpu.py --out DIR [--budget 480] [--device cuda|cpu]``; needs torch 2.9 or newer.

Measures reachable rates, records sample traces with known faults, times operators against the reachable rates, and what
changes of settings return. Each part is a process of its own that logs every figure at once: what fails costs its own figure,
and the end of the budget what comes last. ``--only cases`` times and records slow kernels beside their remedies. Writes
gpu.json, gpu.md, traces/ and cases/ below DIR. Without a GPU: small sizes, a minute.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu_parts.report import PARTS, USUAL, markdown, merged

# Ends of the parts, as shares of the budget: what one does not need, the next has.
ENDS = {"rates": 0.32, "traces": 0.58, "operators": 0.84, "settings": 1.0, "cases": 1.0}
RESERVE = 15.0  # seconds at the end: the figure at work when the time is up, and the report
RESTARTS = 12


def child(arguments: argparse.Namespace) -> None:
    """Run one part in this process."""
    from gpu_parts.bench import Bench

    bench = Bench(arguments.out / f"{arguments.part}.jsonl", arguments.deadline, arguments.device)
    importlib.import_module(f"gpu_parts.{arguments.part}").run(bench)


def part(arguments: argparse.Namespace, name: str, deadline: float, last: float, compiled: str) -> None:
    """Run part *name* in processes of its own, again behind what killed one, until it ends or its time is up."""
    command = [sys.executable, __file__, "--out", str(arguments.out), "--device", arguments.device, "--part", name]
    command += ["--deadline", str(deadline)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "KINETO_LOG_LEVEL": "99"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": compiled, "TRITON_CACHE_DIR": compiled}
    for _ in range(RESTARTS):
        process = subprocess.Popen(command, env=environment)
        try:
            # A figure begun just before the deadline may end.
            code = process.wait(timeout=max(1.0, min(deadline + 25.0, last) - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            print(f"{name}: stopped, its time was up", flush=True)
            return
        if code == 0 or time.time() > deadline:
            return
        print(f"{name}: ended with {code}; again behind what it was at", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=480.0, help="seconds, all in all")
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(USUAL))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    if arguments.part:
        child(arguments)
        return
    begun = time.time()
    if not arguments.device:
        import torch

        arguments.device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        if name in arguments.only:
            (arguments.out / f"{name}.jsonl").unlink(missing_ok=True)
    last = begun + arguments.budget - 5.0
    for name in [name for name in PARTS if name in arguments.only]:
        print(f"== {time.time() - begun:.0f} s  {name}", flush=True)
        with tempfile.TemporaryDirectory() as compiled:
            part(arguments, name, begun + (arguments.budget - RESERVE) * ENDS[name], last, compiled)
        found = merged(arguments.out, time.time() - begun)
        (arguments.out / "gpu.json").write_text(json.dumps(found, indent=1))
        (arguments.out / "gpu.md").write_text(markdown(found))
    print(f"== {time.time() - begun:.0f} s  {arguments.out / 'gpu.json'}", flush=True)


if __name__ == "__main__":
    main()
