"""What memory is kept: growth, lifetimes, reserved against allocated, and caches that are emptied. Worked by hand."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest
from support.raw_events import kernel, launch, memory
from support.raw_events import read as read_events

from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

MB = 1 << 20


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def facts(trace: Trace) -> pd.Series:
    return trace.frame("trace").iloc[0]


def growing(kept: list[int]) -> TraceBuilder:
    b = TraceBuilder(memory_gb=16)
    b.pool(100 * MB, 200 * MB)
    for nbytes in kept:
        with b.step(), b.op("aten::add"):
            passing = b.memory(7 * MB)
            if nbytes:
                b.memory(nbytes)
            b.kernel("add", us=100)
            b.release(passing)
            b.idle(us=10)
    return b


def test_growth_is_the_median_between_ends_of_steps_after_the_first(tmp_path: Path) -> None:
    # Ends: 150, 153, 155, 156, 160 and so on: after the first step 2, 1, 4 and 5 more; the median is 3.
    trace = trace_of(growing([50 * MB, 3 * MB, 2 * MB, MB, 4 * MB, 5 * MB]), tmp_path)
    assert facts(trace)["memory_growth_bytes"] == 3 * MB


@pytest.mark.parametrize("kept", [[MB, MB, 0, MB, MB, MB], [MB, 0, 0, 0, 0]])
def test_one_step_that_keeps_nothing_more_ends_the_growth(kept: list[int], tmp_path: Path) -> None:
    assert facts(trace_of(growing(kept), tmp_path))["memory_growth_bytes"] == 0


def test_four_steps_tell_nothing_of_growth(tmp_path: Path) -> None:
    assert pd.isna(facts(trace_of(growing([MB] * 4), tmp_path))["memory_growth_bytes"])


def test_an_allocation_lives_until_its_address_is_freed(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        first = b.memory(MB)
        b.idle(us=10)
        b.release(first)  # after 10 us, in the same step
        b.idle(us=10)
        again = b.memory(2 * MB, address=first.address)  # the same place, for another
        batch = b.memory(3 * MB)
        b.idle(us=10)
    with b.step():
        b.idle(us=10)
        b.release(batch)  # began in one step, freed in the next
        b.kernel("add", us=100)
    with b.step():
        b.idle(us=10)
    trace = trace_of(b, tmp_path)
    rows = trace.allocations.set_index("bytes")
    assert rows.loc[MB, "freed_ns"] - rows.loc[MB, "start_ns"] == 10_000
    assert rows.loc[MB, "kept_steps"] == 0
    assert (rows.loc[again.nbytes, "freed_ns"], rows.loc[again.nbytes, "kept_steps"]) == (-1, 2)
    assert rows.loc[3 * MB, "kept_steps"] == 1
    assert rows.loc[-MB, ["freed_ns", "kept_steps"]].tolist() == [-1, -1]


def test_reserved_at_the_peak_and_unused_when_more_was_reserved(tmp_path: Path) -> None:
    b = TraceBuilder(memory_gb=16)
    b.pool(0, 100 * MB)
    with b.step():
        one = b.memory(40 * MB)  # 40 of 100
        b.malloc(50 * MB, us=100)
        two = b.memory(50 * MB)  # 90 of 150: 60 lay unused, enough for the 50
        b.memory(20 * MB)  # 110 of 150: the peak until here
        b.release(one)
        b.release(two)  # 20 of 150
        b.malloc(150 * MB, us=100)
        b.memory(140 * MB)  # 160 of 300: 130 lay unused, which is less than was asked for
        b.kernel("add", us=100)
    row = facts(trace_of(b, tmp_path))
    assert row["peak_allocated_bytes"] == 160 * MB
    assert row["reserved_at_peak_bytes"] == 300 * MB
    assert row["unused_when_reserving_bytes"] == 60 * MB


@pytest.mark.parametrize(
    ("named", "inside", "expected"),
    [
        (True, False, [0, 3, 3, 3, 3, 0]),
        (False, False, [0, 3, 3, 3, 3, 0]),
        (False, True, [0, 0, 0, 0, 0, 0]),  # an allocator short of memory
    ],
)
def test_who_emptied_the_cache(named: bool, inside: bool, expected: list[int], tmp_path: Path) -> None:
    """A malloc before, three frees, a malloc in the next step, and one in the step after that."""
    b = TraceBuilder(with_stack=named)
    b.pool(0, 100 * MB)
    with b.step():
        b.malloc(MB, us=10)
        b.kernel("add", us=100)
        with b.python("torch/cuda/memory.py(170): empty_cache"), b.op("aten::empty") if inside else nullcontext():
            for _ in range(3):
                b.free(MB, us=10)
    for _ in range(2):
        with b.step():
            b.malloc(MB, us=10)
            b.kernel("add", us=100)
            b.sync()
    launches = trace_of(b, tmp_path).launches
    calls = launches[launches["kind"].isin(["malloc", "free"])]
    assert calls["emptied"].tolist() == expected
    assert calls["empty_cache"].tolist() == [named and count > 0 for count in expected]


def test_a_launch_between_two_frees_makes_two_runs(tmp_path: Path) -> None:
    b = TraceBuilder(with_stack=False)
    b.pool(0, 100 * MB)
    with b.step():
        b.free(MB, us=10)
        b.kernel("add", us=100)
        b.free(MB, us=10)
        b.free(MB, us=10)
    launches = trace_of(b, tmp_path).launches
    assert launches.loc[launches["kind"] == "free", "emptied"].tolist() == [1, 2, 2]


def test_flushes_of_a_recording_without_steps_are_counted_by_what_fills_the_cache_again(tmp_path: Path) -> None:
    b = TraceBuilder(with_stack=False)
    b.pool(0, 100 * MB)
    # Two blocks are freed, and two of three allocations fill the cache again; a free of one, and one; two frees that end it.
    for frees, mallocs in ((2, 3), (1, 1), (2, 0)):
        for _ in range(frees):
            b.free(MB, us=10)
        for _ in range(mallocs):
            with b.op("aten::empty"):
                b.malloc(MB, us=10)
        b.kernel("add", us=100)
        b.sync()
    launches = trace_of(b, tmp_path).launches
    calls = launches[launches["kind"].isin(["malloc", "free"])]
    assert calls["emptied"].tolist() == [2, 2, 2, 2, 2, 1, 1, 2, 2]
    assert calls["flush"].tolist() == [0, 0, 1, 1, -1, 1, 2, -1, -1]


def on(types: list[tuple[int, int]], working: list[int], *, api: str = "hip", allocated: int = 5 * MB) -> Trace:
    """A trace with one kernel on each of some devices, and an allocation on each of some pairs of type and number."""
    events = []
    for at, device in enumerate(working):
        events += [launch(at + 1, 10 * at, name=f"{api}LaunchKernel"), kernel(10 * at + 3, 5, at + 1, device=device)]
    totals = {"Total Allocated": allocated, "Total Reserved": 2 * allocated}
    return read_events(
        [*events, *(memory(50 + at, MB, kind, number, **totals) for at, (kind, number) in enumerate(types))]
    )


@pytest.mark.parametrize("kind", [1, 6, 9, 10, 12, 13, 15, 18, 19, 20])
def test_every_type_of_device_but_the_hosts_has_memory(kind: int) -> None:
    """CUDA 1, HIP 6, XLA 9, Vulkan 10, XPU 12, MPS 13, HPU 15, IPU 18, MTIA 19, PrivateUse1 20, as c10 numbers them."""
    trace = on([(kind, 0), (0, -1)], [0], api="cuda" if kind == 1 else "hip")
    assert facts(trace)["peak_allocated_bytes"] == 5 * MB
    assert trace.memory["device"].tolist() == [0, -1]


@pytest.mark.parametrize("kind", [0, 2, 5])
def test_memory_of_the_host_is_no_devices(kind: int) -> None:
    trace = on([(kind, 0)], [0])
    assert trace.memory["device"].tolist() == [-1]
    assert pd.isna(facts(trace)["peak_allocated_bytes"])


def test_tensors_without_memory_take_none() -> None:
    assert on([(14, 0)], [0]).memory.empty


@pytest.mark.parametrize(
    ("allocators", "working", "expected"),
    [
        ([0], [2], [2]),  # two processors are agents 0 and 1
        ([3], [5], [5]),
        ([0, 1, 2], [2, 3, 4], [2, 3, 4]),  # in order, though some numbers are in both
        ([0, 1], [0, 1], [0, 1]),
        ([0, 1], [2], [0, 1]),  # which of them worked is not told
    ],
)
def test_rocm_counts_all_agents_of_the_machine(allocators: list[int], working: list[int], expected: list[int]) -> None:
    trace = on([(6, number) for number in allocators], working)
    assert trace.memory["device"].tolist() == expected


def test_cuda_counts_as_its_allocators_do() -> None:
    assert on([(1, 0)], [2], api="cuda").memory["device"].tolist() == [0]
