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


def inside(tmp_path: Path, parts: list[tuple[float, float, str, str]]) -> tuple[list[str], list[float | None]]:
    """Lines, and their shares, of waits on the CPU; *parts*: Python of so many us before an operator of so many, its stack, and
    the stack of that Python where the recorder found it.
    """
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.python("train.py(8): main"):
            with b.loader():
                for python, us, stack, before in parts:
                    b.idle(us=python)
                    places = {"Call stack": stack, **({"Python before": before} if before else {})}
                    with b.op("aten::stack", us=us, args=places):
                        pass
            with b.op("aten::mkldnn_linear", us=500, args={"Call stack": "train.py(9): main"}):
                pass
    table = advisor.read(str(b.write(tmp_path / "trace.json"))).frame("loader")
    lines = [f"{file}:{line}" for file, line in zip(table["file"], table["line"], strict=True)]
    return lines, [None if np.isnan(share) else round(share, 2) for share in table["line_share"]]


LOOP, ITEM = "train.py(8): main", "data.py(5): __getitem__;train.py(8): main"


def test_a_wait_has_the_line_of_the_dataset_that_takes_half_of_it(tmp_path: Path) -> None:
    # 100 us of Python that has no place, 700 found in line 7, and operators of 100 us in lines 5 and 8.
    parts = [(100.0, 100.0, ITEM, ""), (700.0, 100.0, LOOP, "data.py(7): resize;" + ITEM)]
    assert inside(tmp_path, parts) == (["data.py:7"] * 3, [0.7] * 3)


def test_python_between_two_operators_of_a_line_is_that_lines(tmp_path: Path) -> None:
    assert inside(tmp_path, [(0, 100, ITEM, ""), (800, 100, ITEM, "")]) == (["data.py:5"] * 3, [1.0] * 3)


def test_a_wait_of_which_no_line_takes_half_is_the_loops(tmp_path: Path) -> None:
    """So is one that the loop's own line takes: default_collate stacks for it."""
    assert inside(tmp_path, [(900, 100, ITEM, "")]) == (["train.py:8"] * 3, [None] * 3)
    assert inside(tmp_path, [(0, 900, LOOP, ""), (0, 100, ITEM, "")]) == (["train.py:8"] * 3, [None] * 3)


def test_of_a_wait_the_part_between_two_operators_is_told_apart(tmp_path: Path) -> None:
    """200 us of reading, and 700 us of Python between two operators of 50 us: a conversion takes 70 % of the wait, not all."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.loader():
            b.idle(us=200)
            with b.op("aten::empty", us=50):
                pass
            b.idle(us=700)
            with b.op("aten::to", us=50):
                pass
    gaps = advisor.read(str(b.write(tmp_path / "trace.json"))).frame("gaps")
    waits = gaps[gaps["cause"] == "loader"]
    assert waits["dur_ns"].tolist() == [1_000_000] * 3
    assert waits["apart_ns"].tolist() == [700_000] * 3
    assert waits["since_op"].tolist() == ["aten::empty"] * 3


@pytest.mark.parametrize(
    ("stack", "before", "waits_us"),
    [
        (LOOP, "", [100, 700]),  # 600 us of forking, told by a seeding operator on the loop's own line
        ("train.py(12): save;train.py(8): main", "", [100, 100]),  # the program's own work at the end of an epoch
        (LOOP, "train.py(12): save;train.py(8): main", [100, 100]),
    ],
)
def test_starting_workers_belongs_to_the_first_wait_of_an_epoch(
    tmp_path: Path, stack: str, before: str, waits_us: list[int]
) -> None:
    b = TraceBuilder(None, host_us=0)
    places = {**({"Call stack": stack} if stack else {}), **({"Python before": before} if before else {})}
    for number in range(3):
        with b.step(), b.python("train.py(8): main"):
            with b.loader(us=100, workers=2):
                pass
            if number == 1:
                b.idle(us=500)
                with b.op("aten::random_", us=50, args=places):
                    pass
                b.idle(us=50)
                with b.loader(us=100, workers=2):
                    pass
            with b.op("aten::mkldnn_linear", us=500, args={"Call stack": "train.py(9): main"}):
                pass
    table = advisor.read(str(b.write(tmp_path / "trace.json"))).frame("loader")
    restart = table[table["restart"]]
    assert (restart["dur_ns"] // 1000).tolist() == waits_us


def test_a_batch_that_was_ready_is_no_wait(tmp_path: Path) -> None:
    """Eight batches: for four the GPU idles 50 ms; four come within 2 ms, while it computes. Their median is not 26 ms."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for late in [True, False] * 4:
        with b.step():
            if not late:
                with b.op("aten::mm"):
                    b.kernel("volta_sgemm_128x64_nn", ms=20)
            with b.loader(ms=50 if late else 2, workers=4):
                pass
            with b.op("aten::mm", us=30_000):
                b.kernel("volta_sgemm_128x64_nn", us=30_000)
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "trace.json"))), only=["data-loading/loader-stall"])
    evidence = made.findings[0].evidence
    row = dict(zip(evidence.columns, evidence.rows[0], strict=True))
    assert (row["batches"], row["waits"], row["median_wait_ms"]) == (8, 4, 50)
