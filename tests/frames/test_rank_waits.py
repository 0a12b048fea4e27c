"""Waiting for other ranks inside collectives, told by the fastest of their size, or of a larger one. Worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.frames.rank_waits import rank_waits, told
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

LARGE, SMALL = 64 << 20, 32 << 10


def trace_of(folder: Path, *, small: int, group: str = "0") -> Trace:
    """Six all-reduces of 64 MB, one of which takes 5 ms and the others 1, and two of so many bytes that take 4 ms each."""
    b = TraceBuilder(world_size=8, rank=0, host_us=10, latency_us=0)
    with b.step():
        for us in (1_000, 1_000, 5_000, 1_000, 1_000, 1_000):
            b.collective("all_reduce", LARGE, us)
        for _ in range(2):
            b.collective("all_reduce", small, 4_000, group=group)
        b.sync()
    return trace_read(b, folder)


def trace_read(b: TraceBuilder, folder: Path) -> Trace:
    return read(str(b.write(folder / "trace.json")))


def test_a_smaller_collective_takes_no_longer_than_a_larger_one(tmp_path: Path) -> None:
    # 4 ms of the one that is beyond its like; and of the two small ones, whose own length nothing tells, 3 ms each at least.
    found = rank_waits(trace_of(tmp_path, small=SMALL).context)
    assert found is not None
    assert found.waited_ns == 4_000_000 + 2 * 3_000_000
    assert found.last_share == pytest.approx(5 / 6)  # small ones say nothing of who came last


@pytest.mark.parametrize(("small", "group"), [(LARGE + 4, "0"), (SMALL, "1")])
def test_a_larger_one_or_another_group_may(small: int, group: str, tmp_path: Path) -> None:
    context = trace_of(tmp_path, small=small, group=group).context
    found = rank_waits(context)
    assert found is not None
    assert found.waited_ns == 4_000_000
    assert len(told(context).smaller) == 0


def test_of_one_size_that_always_waits_a_larger_message_tells(tmp_path: Path) -> None:
    """Before six of 1 MB the ranks meet, which takes 4 ms; five about 64 MB follow at once, no two of a size, in 1 to 2 ms."""
    b = TraceBuilder(world_size=8, rank=0, host_us=10, latency_us=0)
    with b.step():
        for _ in range(6):
            b.collective("all_reduce", 1 << 20, 4_000)
        for at, us in enumerate((1_500, 1_000, 1_000, 2_000, 1_000)):
            b.collective("all_reduce", LARGE + 4 * at, us)
        b.sync()
    context = trace_read(b, tmp_path).context
    found, known = rank_waits(context), told(context)
    assert found is not None
    assert known.fastest.tolist() == [1_000_000] * 6
    # Five are enough to tell of the smallest of them; of larger ones, four or fewer, nothing does.
    assert known.at_most.tolist() == [1_000_000]
    assert found.waited_ns == 6 * 3_000_000 + 500_000
    assert found.last_share == 0
