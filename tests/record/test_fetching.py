"""Functions of a dataset whose arguments come again, where the training process fetches its samples itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from support.recording import needs_torch, record_script

pytestmark = needs_torch
SCRIPT = """
import random, torch
from torch.utils.data import DataLoader, Dataset

def taps(width, sigma):
    total = 0
    for number in range(width): total += number * sigma
    return torch.full((4,), float(total))

def jitter(width, sigma):
    total = random.random()
    for number in range(width): total += number * sigma
    return torch.full((4,), float(total))

class Filter(torch.nn.Module):
    def __init__(self, width, sigma):
        super().__init__()
        self.taps = taps(width, sigma)

    def forward(self, numbers):
        return self.taps + numbers

class Waves(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return CALL

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step, batch in enumerate(DataLoader(Waves(), batch_size=4, num_workers=WORKERS)):
        model(batch).sum().backward()
        optimizer.step()
        if step == 40:
            break
"""


def recorded(folder: Path, call: str, workers: int = 0) -> dict[str, Any]:
    """Record steps of four samples; workers are started by an interpreter of their own."""
    script = SCRIPT.replace("CALL", call).replace("WORKERS", str(workers))
    process = record_script(script, folder, "--steps", "8", "--skip", "3", "--no-stacks", "--stop", anew=workers > 0)
    assert "Traceback" not in process.stderr
    settings: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))["advisor"]
    return settings


def test_a_function_of_the_same_numbers_takes_its_part_of_the_waits(tmp_path: Path) -> None:
    """Half of the turns for a sample are of two pairs of numbers; of the others some differ and some come with a draw."""
    call = "taps(1_200_000, 0.5 + index % 2) + taps(600_000, index) + jitter(600_000, 0.5)"
    found = recorded(tmp_path, call)["fetch_repeat"]
    assert (found["file"], found["function"]) == ("job.py", "taps")
    assert 0.3 < found["share"] < 0.7


def test_a_module_that_each_sample_makes_anew(tmp_path: Path) -> None:
    """Its constructor asks for `super()`, and is given the same two numbers each time."""
    found = recorded(tmp_path, "Filter(1_200_000, 0.5)(torch.zeros(4))")["fetch_repeat"]
    assert found["function"] == "Filter"
    assert found["share"] > 0.5


def test_workers_are_told_of_apart(tmp_path: Path) -> None:
    assert "fetch_repeat" not in recorded(tmp_path, "taps(300_000, 0.5)", workers=1)
