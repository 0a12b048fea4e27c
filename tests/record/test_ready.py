"""Batches that workers hold ready, and the waits for those that they do not: by hand, and of a program whose workers are slow."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.recording import needs_torch, record_script

from advisor.record.ready import Ready

SLOW_WORKERS = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        time.sleep(0.06)
        return torch.zeros(4)

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for rows in DataLoader(Rows(), batch_size=1, num_workers=2, prefetch_factor=3):
    model(rows).sum().backward()
    optimizer.step()
    time.sleep(0.001)
"""


def asked(given: int, *, workers: int = 4, prefetch: int | None = 2, length: int | None = None) -> Ready:
    """A loader that has given so many batches."""

    class Iterator(SimpleNamespace):
        def __len__(self) -> int:
            if length is None:
                raise TypeError("an iterable has no length")
            return length

    ready = Ready()
    ready.note(Iterator(_num_workers=workers, _prefetch_factor=prefetch, _num_yielded=given))
    return ready


@pytest.mark.parametrize(("given", "feeds"), [(1, True), (12, True), (13, False), (40, False)])
def test_ready_batches_and_five_steps_behind_them(given: int, feeds: bool) -> None:
    """Four workers hold two batches each: eight, and five behind them."""
    assert asked(given).feeds(given, 8) is feeds


def test_steps_of_several_batches_are_five_steps_too() -> None:
    assert asked(20).feeds(10, 8) is False
    assert asked(17).feeds(8, 8) is True  # 8 + 5 * 17 / 8 is more than 18


def test_a_loader_without_workers_holds_nothing_ready() -> None:
    assert asked(1, workers=0, prefetch=None).feeds(1, 8) is False


@pytest.mark.parametrize(("length", "feeds"), [(20, False), (21, True)])
def test_a_loader_that_ends_before_all_is_recorded_is_not_waited_for(length: int, feeds: bool) -> None:
    """Thirteen batches are left out, and eight more wanted."""
    assert asked(3, length=length).feeds(3, 8) is feeds


@needs_torch
def test_waits_for_slow_workers_are_those_of_steps_behind_the_ready_batches(tmp_path: Path) -> None:
    """Two workers hold six batches ready while the first step takes its time; then one comes every 30 ms."""
    said = record_script(SLOW_WORKERS, tmp_path, anew=True).stderr
    recorded = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    steps, waits = recorded["unprofiled_step_ms"], recorded["unprofiled_wait_ms"]
    assert len(steps) == len(waits) == 10  # eleven batches, the first of which no step before has ended
    assert "skipped 11 before" in said
    assert sum(waits) == pytest.approx(sum(steps), rel=0.25)
    assert sum(waits[6:]) > 60
