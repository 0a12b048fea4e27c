"""Functions of a dataset whose arguments come again, where the training process fetches its samples itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
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
    script = SCRIPT.replace("CALL", call).replace("WORKERS", str(workers))
    process = record_script(script, folder, "--steps", "20", "--skip", "3", "--no-stacks", anew=True)
    assert "Traceback" not in process.stderr
    settings: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))["advisor"]
    return settings


def test_a_function_of_the_same_numbers_takes_most_of_the_waits(tmp_path: Path) -> None:
    """It runs 400,000 turns for each sample, and nothing else of weight does."""
    found = recorded(tmp_path, "taps(400_000, 0.5 + index % 2)")["fetch_repeat"]
    assert (found["file"], found["function"]) == ("job.py", "taps")
    assert found["share"] > 0.6


@pytest.mark.parametrize("call", ["taps(400_000, index)", "jitter(400_000, 0.5)"], ids=["other numbers", "drawn"])
def test_what_differs_from_sample_to_sample_is_not_made_again(tmp_path: Path, call: str) -> None:
    assert "fetch_repeat" not in recorded(tmp_path, call)


def test_workers_are_told_of_apart(tmp_path: Path) -> None:
    assert "fetch_repeat" not in recorded(tmp_path, "taps(400_000, 0.5)", workers=1)
