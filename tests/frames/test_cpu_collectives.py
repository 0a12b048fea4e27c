"""The frame `cpu_collectives`: what part of a message's time is a round of the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read


def shares(folder: Path, *, gap_us: int = 0, elements: int = 4096) -> list[float]:
    """`round_share` of four messages of a run of 0.3 ms each, but 5 ms for the first and 3 ms for the third.

    *gap_us* lie between the end of one and the call of the next; the third has so many *elements*, the others 4,096.
    """
    b = TraceBuilder(None, world_size=2, rank=0, backend="gloo")
    with b.step():
        for us, size in ((5_000, 4096), (300, 4096), (3_000, elements), (300, 4096)):
            with b.op("c10d::allreduce_", us=10, shapes=[[[size]], [], []]):
                pass
            with b.thread(77), b.annotation("gloo:all_reduce", us=us):
                pass
            with b.op("aten::div_", us=gap_us):
                pass
    frame = read(str(b.write(folder / "t.json"))).frame("cpu_collectives")
    assert frame["run"].tolist() == [4, 4, 4, 4]
    return [round(share, 3) for share in frame["round_share"].tolist()]


def test_behind_one_of_its_run_a_small_message_waits_for_no_late_rank(tmp_path: Path) -> None:
    # The median of 0.3, 0.3, 3 and 5 ms is 1.65: of the first's 5 ms that are 0.33.
    assert shares(tmp_path) == pytest.approx([0.33, 1, 1, 1])


def test_of_a_large_message_only_the_median_is_the_round(tmp_path: Path) -> None:
    # Of 0.3, 0.3 and 5 ms it is 0.3: a tenth of the third's 3 ms.
    assert shares(tmp_path, elements=1 << 20) == pytest.approx([0.06, 1, 0.1, 1])


def test_where_the_program_computes_between_them_each_may_wait_for_a_late_rank(tmp_path: Path) -> None:
    assert shares(tmp_path, gap_us=2_000) == pytest.approx([0.33, 1, 0.55, 1])
