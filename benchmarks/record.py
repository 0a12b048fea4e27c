"""Cost of recording, per step: ``python benchmarks/record.py --rounds 5``, in an environment with torch.

One script runs in processes of its own, in turn: by itself, under torch.profiler with shapes and memory, and under
``advisor record --stacks none``, which records the same. Each tells the processor time of the thread that trains for every
step. Prints JSON: the median of the recorded steps of each run, the median over the rounds, and the ratios between them.
Processor time, as other work on the machine does not count in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SKIP, WARMUP = 5, 1

SCRIPT = """
import json, sys, time
from contextlib import nullcontext
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
steps, plain = int(sys.argv[1]), sys.argv[2] == "torch"
wide = int(sys.argv[3])
model = nn.Sequential(*[layer for _ in range(20) for layer in (nn.Linear(wide, wide), nn.ReLU())], nn.Linear(wide, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
count = steps + 10
data = TensorDataset(torch.randn(8 * count, wide), torch.randint(0, 10, (8 * count,)))
schedule = torch.profiler.schedule(wait=5, warmup=1, active=steps, repeat=1)
profiler = torch.profiler.profile(schedule=schedule, record_shapes=True, profile_memory=True) if plain else None
times = []
with profiler or nullcontext():
    last = time.thread_time()
    for x, y in DataLoader(data, batch_size=8):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if profiler:
            profiler.step()
        now = time.thread_time()
        times.append(now - last)
        last = now
print(json.dumps(times))
"""


def run(mode: str, steps: int, wide: int, folder: Path) -> float:
    """The median processor time of the recorded steps of one process, in ms."""
    job = [str(folder / "job.py"), str(steps), mode, str(wide)]
    command = [sys.executable, *job]
    if mode == "advisor":
        options = [
            "--steps",
            str(steps),
            "--skip",
            str(SKIP),
            "--stacks",
            "none",
            "--force",
            "-o",
            str(folder / "t.json.gz"),
        ]
        command = [sys.executable, "-m", "advisor", "record", *options, *job]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    times = json.loads(process.stdout.splitlines()[-1])
    # From the second recorded step to the last but one: the profiler starts and stops at the others.
    return median(times[SKIP + WARMUP + 1 : SKIP + WARMUP + steps - 1]) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument(
        "--wide", type=int, nargs="+", default=[64, 512], help="layers so wide: small ones are all overhead"
    )
    arguments = parser.parse_args()
    out: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.py").write_text(SCRIPT)
        for wide in arguments.wide:
            runs: dict[str, list[float]] = {"alone": [], "torch": [], "advisor": []}
            for _ in range(arguments.rounds):
                for mode, times in runs.items():
                    times.append(run(mode, arguments.steps, wide, folder))
            middle = {mode: median(times) for mode, times in runs.items()}
            out[f"{wide} wide"] = {
                "step_ms": {mode: [round(time, 4) for time in times] for mode, times in runs.items()},
                "median_ms": {mode: round(time, 4) for mode, time in middle.items()},
                "torch_over_alone": round(middle["torch"] / middle["alone"], 4),
                "advisor_over_torch": round(middle["advisor"] / middle["torch"], 4),
            }
    print(json.dumps(out, indent=2))


if __name__ == "__main__":
    main()
