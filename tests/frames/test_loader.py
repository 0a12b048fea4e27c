"""The frame `loader`: how many workers deliver, and how many batches a second are short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import advisor
from advisor.frames.loader import rhythm
from advisor.testing import TraceBuilder

MS = 1_000_000


def frame(tmp_path: Path, waits_ms: list[int], *, workers: int = 4) -> pd.DataFrame:
    """Build steps of a wait and 30 ms of work."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for wait in waits_ms:
        with b.step():
            with b.loader(ms=wait, workers=workers):
                pass
            with b.op("aten::mm", us=30_000):
                b.kernel("volta_sgemm_128x64_nn", us=30_000)
    return advisor.read(str(b.write(tmp_path / "trace.json"))).frame("loader")


@pytest.mark.parametrize(
    ("waits", "workers"),
    [
        ([60, 0, 0, 0] * 5, 4),
        ([60, 20, 0] * 4, 3),
        ([2_000, 0, 0, 0, *[60, 30, 0, 0] * 5], 4),  # the first batch is late for another reason
        ([60, 0, 0, 0] * 3, -1),  # three bursts are no rhythm: four are
        ([20] * 20, -1),
        ([0, 20, 5, 60, 30, 1, 44, 12, 8, 51, 2, 37, 19, 3, 28, 40, 9], -1),
        ([60, 0], -1),
        ([], -1),
    ],
)
def test_workers_that_started_together_deliver_together(waits: list[int], workers: int) -> None:
    assert rhythm(np.array(waits, np.int64) * MS) == workers


def test_bursts_are_those_of_worker_processes(tmp_path: Path) -> None:
    table = frame(tmp_path, [60, 0, 0, 0] * 5)
    assert table["burst"].tolist() == [4] * 20
    # Steps of 90, 30, 30 and 30 ms: 180 ms for what takes 120 without the waits.
    assert table["short_by"].tolist() == pytest.approx([1.5] * 20, rel=0.01)
    assert frame(tmp_path, [60, 0, 0, 0] * 5, workers=0)["burst"].isna().all()
    assert frame(tmp_path, [20] * 20)["burst"].isna().all()


def test_batches_that_were_held_ready_say_nothing_of_the_pace(tmp_path: Path) -> None:
    """The workers start, and eight batches lie ready; then four take 210 ms where the steps take 120: short by 1.75, not 1.5."""
    table = frame(tmp_path, [60, *[0] * 8, *[90, 0, 0, 0] * 5])
    assert table["short_by"].tolist() == pytest.approx([1.75] * len(table), rel=0.01)
