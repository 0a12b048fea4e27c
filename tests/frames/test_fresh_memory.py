"""Operators on the CPU that write into memory which the system has just given."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

MIB = 1 << 20
PAGE = 140_000_000_000_000 // 4096 * 4096


def found(tmp_path: Path, b: TraceBuilder) -> list[dict[str, object]]:
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    rows: list[dict[str, object]] = table[table["kind"] == "fresh-memory"].to_dict("records")
    return rows


def steps(b: TraceBuilder, *, behind_us: float = 2_000) -> TraceBuilder:
    """Four products of 50 ms that are given 64 MiB each; *behind_us* pass behind each free."""
    for step in range(4):
        with b.op("aten::mul", us=50_000, shapes=[[4096, 4096], []]):
            made = b.memory(64 * MIB, device=-1, address=PAGE + 64 + (step << 30))
        b.release(made)
        b.idle(behind_us)
        with b.op("aten::sum", us=5_000):
            pass
    return b


# 2 ms for 64 MiB are 0.0298 ns a byte, and no less than 0.03 is believed: 2.01 ms, and for the first write so many times as much.
@pytest.mark.parametrize(("threads", "times"), [(None, 2.1), (1, 12.0), (2, 3.5), (16, 1.5)])
def test_the_first_write_takes_as_long_as_threads_share_it(threads: int | None, times: float, tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0, with_stack=False)
    if threads is not None:
        b.ran_with(threads=threads)
    rows = found(tmp_path, steps(b))
    assert [row["bytes"] for row in rows] == [64 * MIB] * 4
    assert [row["idle_ns"] for row in rows] == [2_000_000] * 4
    assert [row["part"] for row in rows] == [pytest.approx((2.013 * times + 2) / 52, rel=1e-3)] * 4


def test_without_frees_in_python_the_usual_rate_is_taken_as_slow_as_the_machine_was(tmp_path: Path) -> None:
    """A backward pass frees: 0.05 ns a byte, on cores that the program had a quarter of the time 0.2. 0.2 x 67.1 MB are 13.4 ms."""

    def parts(threads: int) -> list[object]:
        b = TraceBuilder(None, host_us=0, with_stack=False).ran_with(threads=threads, waited_share=0.75)
        for step in range(4):
            with b.op("aten::mul", us=50_000):
                made = b.memory(64 * MIB, device=-1, address=PAGE + 64 + (step << 30))
            with b.op("autograd::engine::evaluate_function: MulBackward0", us=20_000):
                b.release(made)
        return [row["part"] for row in found(tmp_path, b)]

    assert parts(16) == [pytest.approx(1.5 * 13.42 / 50, rel=1e-3), pytest.approx(13.42 / 20, rel=1e-3)] * 4
    # One thread would take 94 ms: no more than nine tenths of the operator's 50 are the pages'.
    assert parts(1)[0] == pytest.approx(0.9)


def test_what_lives_on_is_mapped_once_by_any_allocator(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0, with_stack=False)
    for step in range(4):
        with b.op("aten::copy_", us=50_000):
            b.memory(64 * MIB, device=-1, address=PAGE + 64 + (step << 30))
    assert not found(tmp_path, b)


def test_python_behind_one_operator_is_not_believed_to_be_the_system(tmp_path: Path) -> None:
    """A log line of 60 ms behind each free: giving 64 MiB back takes 6.7 ms at most, so that none of it is the row's."""
    rows = found(tmp_path, steps(TraceBuilder(None, host_us=0, with_stack=False), behind_us=60_000))
    assert [row["idle_ns"] for row in rows] == [0] * 4
    assert rows[0]["part"] == pytest.approx(0.1 * 67.1 * 2.1 / 50, rel=1e-2)


def test_what_python_makes_itself_belongs_to_no_operator(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0, with_stack=False)
    for step in range(4):
        with b.op("aten::empty", us=100):
            made = b.memory(64 * MIB, device=-1, address=PAGE + 64 + (step << 30))
        b.release(made)
        b.idle(3_000)
        with b.op("aten::sum", us=5_000):
            pass
    assert not found(tmp_path, b)


def test_what_is_freed_behind_an_operator_is_given_back_there_whichever_thread_it_ran_on(tmp_path: Path) -> None:
    """The main thread frees for 2 ms behind each of its products; another one then works on memory of its own beside its sums."""
    b = TraceBuilder(None, host_us=0, with_stack=False)
    for step in range(4):
        with b.op("aten::mul", us=50_000, shapes=[[4096, 4096], []]):
            made = b.memory(64 * MIB, device=-1, address=PAGE + 64 + (step << 30))
        b.release(made)
        b.idle(2_000)
        with b.thread(900, join=False):
            with b.op("aten::exp", us=20_000, shapes=[[4096, 4096]]):
                other = b.memory(64 * MIB, device=-1, address=PAGE + 64 + (step << 30))
            with b.op("aten::log", us=5_000):
                b.release(other)
        with b.op("aten::sum", us=30_000):
            pass
    rows = sorted((row["start_ns"], row["idle_ns"]) for row in found(tmp_path, b))
    assert [idle for _, idle in rows] == [2_000_000, 0, 0] * 4
