"""Pitfalls of steps and of the window, one small trace for each.

Times in the traces are us, as the profiler writes them; frames are in ns.
"""

from __future__ import annotations

import pytest
from support.raw_events import facts, gpu, host, kernel, launch, op, read, step


def test_copies_of_annotations_on_the_gpu_are_neither_steps_nor_work() -> None:
    # The annotation ProfilerStep#1 is repeated on the GPU's side, over the kernel [30, 40) with 20 us around it.
    shadow = gpu("gpu_user_annotation", "ProfilerStep#1", 25, 35, 0)
    trace = read([step(1, 0, 100), op("a", 1, 20), launch(1, 5), kernel(30, 10, 1), shadow])
    assert trace.frame("steps")["name"].tolist() == ["ProfilerStep#1"]
    assert trace.steps_recorded == 1
    assert facts(trace)["busy_ns"] == 10_000
    assert trace.window_ns == 100_000


def test_steps_only_on_the_gpus_side_are_no_steps() -> None:
    shadow = gpu("gpu_user_annotation", "ProfilerStep#6", 25, 35, 0)
    trace = read([op("a", 1, 20), launch(1, 5), kernel(30, 10, 1), shadow])
    assert not facts(trace)["has_steps"]
    assert trace.step_ms is None


def test_the_last_step_is_not_dropped() -> None:
    # Six steps of 100 us; the median leaves the first one out, but not the last: the 60 us behind its kernel are as in all.
    steps = [step(number, 100 * number, 100) for number in range(6)]
    work = [
        event
        for n in range(6)
        for event in (op("a", 100 * n + 1, 20), launch(n + 1, 100 * n + 5), kernel(100 * n + 30, 10, n + 1))
    ]
    trace = read([*steps, *work])
    frame = trace.frame("steps")
    assert frame["number"].tolist() == [0, 1, 2, 3, 4, 5]
    assert frame["dur_ns"].tolist() == [100_000] * 6
    assert frame["sampled"].tolist() == [False, True, True, True, True, True]
    assert (trace.step_count, trace.step_ms) == (6, 0.1)


def test_a_last_step_in_which_nothing_happens_is_none() -> None:
    # prof.step() began it, and the recording stopped 5 us later: the two steps before it take 100 us each, not 68 on average.
    work = [
        event
        for n in range(2)
        for event in (op("a", 100 * n + 1, 20), launch(n + 1, 100 * n + 5), kernel(100 * n + 30, 10, n + 1))
    ]
    trace = read([step(0, 0, 100), step(1, 100, 100), step(2, 200, 5), *work])
    assert trace.frame("steps")["sampled"].tolist() == [True, True]
    assert (trace.step_count, trace.step_ms, trace.ledger.counted_ns, trace.window_ns) == (2, 0.1, 200_000, 205_000)
    assert [note.code for note in trace.quality] == ["empty-step"]
    # An operator in it makes it one, and so does work that it launches.
    for event in ([op("b", 201, 1)], [launch(9, 201), kernel(203, 1, 9)]):
        assert read([step(0, 0, 100), step(1, 100, 100), step(2, 200, 5), *work, *event]).step_count == 3


def test_behind_the_last_work_of_the_one_step_lies_the_tail_of_the_recording() -> None:
    # The step goes on for 5 ms in which nothing was recorded; up to a tenth of it is Python behind the last operator.
    silent = read([step(0, 0, 5100), op("a", 1, 99), launch(1, 5), kernel(30, 10)])
    assert silent.ledger.of_extent()["after"] == 5_000_000
    assert silent.ledger.by_cause()["after"] == silent.ledger.by_cause()["unknown"] == 0
    assert (silent.frame("steps")["dur_ns"].tolist(), silent.window_ns) == ([100_000], 5_100_000)
    short = read([step(0, 0, 110), op("a", 1, 99), launch(1, 5), kernel(30, 10)])
    assert (short.ledger.of_extent()["after"], short.frame("steps")["dur_ns"].tolist()) == (0, [110_000])


def test_a_tail_longer_than_that_of_the_other_steps_is_no_step() -> None:
    # Steps of 100 us whose work takes 40, at 0, 100 and 200; the last annotation goes on until 500: 60 us are as usual.
    events = [
        event
        for n in range(3)
        for event in (op("a", 100 * n, 40), launch(n + 1, 100 * n + 5), kernel(100 * n + 20, 20, n + 1))
    ]
    trace = read([step(0, 0, 100), step(1, 100, 100), step(2, 200, 300), *events])
    assert trace.frame("steps")["dur_ns"].tolist() == [100_000, 100_000, 40_000]
    assert trace.ledger.of_extent()["after"] == 260_000


def test_a_wait_for_nothing_is_not_pending() -> None:
    # The first synchronization finds an empty queue, the second a kernel that runs until 140 us, the third none again.
    calls = [host("cuda_runtime", "cudaDeviceSynchronize", at, dur) for at, dur in ((1, 50), (110, 30), (150, 20))]
    trace = read([step(0, 0, 200), op("a", 60, 40), launch(1, 65), kernel(70, 70), *calls])
    assert trace.syncs["pending"].tolist() == [False, True, False]


def test_the_last_step_lasts_until_its_gpu_work_ends() -> None:
    # The step ends at 100 us on the host, its kernel at 130 us.
    trace = read([step(0, 0, 100), op("a", 1, 20), launch(1, 5), kernel(30, 100, 1)])
    assert trace.window_ns == 130_000
    assert trace.frame("steps")["dur_ns"].tolist() == [130_000]


def test_idle_before_the_first_and_behind_the_last_kernel_counts() -> None:
    # Step [0, 100), one kernel [40, 50): from first to last kernel nothing idles, in the step 90 % does.
    trace = read([step(0, 0, 100), op("a", 1, 90), launch(1, 35), kernel(40, 10, 1)])
    assert facts(trace)["idle_share"] == pytest.approx(0.9)
    gaps = trace.gaps.groupby("position", observed=True)["dur_ns"].sum()
    assert (gaps["first"], gaps["last"]) == (40_000, 50_000)


def test_without_steps_the_window_is_one_interval() -> None:
    # From the first GPU event at 10 us to the last one's end at 35 us.
    trace = read([op("a", 0, 50), launch(1, 2), launch(2, 20), kernel(10, 5, 1), kernel(30, 5, 2)])
    frame = trace.frame("steps")
    assert frame["number"].tolist() == [-1]
    assert frame["dur_ns"].tolist() == [25_000]
    assert trace.step_count == 0
    assert trace.step_ms is None


def test_one_step_is_counted() -> None:
    trace = read([step(3, 0, 80), op("a", 1, 79), launch(1, 5), kernel(30, 10, 1)])
    assert (trace.step_count, trace.step_ms) == (1, 0.08)
