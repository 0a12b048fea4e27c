"""Pitfalls that real traces hold, one small trace for each: names, clocks, overlaps, links, what is missing.

Times in the traces are us, as the profiler writes them; frames are in ns.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.raw_events import Event, copy, facts, gpu, host, kernel, launch, memory, op, read, step

from advisor.frames import SCHEMAS

# ---- names and clocks of the years


def test_the_names_of_2021_come_to_the_same_frames() -> None:
    new = [
        step(0, 0, 100),
        op("aten::mm", 5, 20),
        launch(1, 10),
        kernel(30, 40),
        copy(72, 8, 9),
        gpu("gpu_memset", "Memset (Device)", 82, 3, 8),
    ]
    names = {"cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime"}
    names |= {"kernel": "Kernel", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
    old = [{**event, "cat": names[event["cat"]]} for event in new]
    ours, theirs = read(new), read(old)
    # In 2021 a ProfilerStep was an operator; it counts as a step and stays in the frame of operators.
    assert len(theirs.ops) == len(ours.ops) + 1
    assert [(len(t.frame("annotations")), len(t.steps)) for t in (ours, theirs)] == [(1, 1), (0, 1)]
    for name in set(SCHEMAS) - {"ops", "annotations"}:
        # Only that the recording is older than torch 1.12 differs.
        left, right = (t.frame(name).drop(columns="torch_at_most", errors="ignore") for t in (ours, theirs))
        assert left.astype(str).equals(right.astype(str)), name


def test_a_display_unit_of_ns_changes_no_value() -> None:
    events = [op("a", 1.5, 2.125)]
    assert read(events, displayTimeUnit="ns").ops["dur_ns"].tolist() == [2125]
    assert read(events, displayTimeUnit="ms").ops["dur_ns"].tolist() == [2125]


def test_a_shifted_clock_changes_nothing() -> None:
    events = [step(0, 10, 50), op("a", 12, 9.001), launch(1, 15), kernel(20.125, 30.5)]
    # 1,700,000,000,000,000 us is 2023.
    ours, theirs = read(events), read(events, shift=1_700_000_000_000_000)
    for name in SCHEMAS:
        # Only that no torch was out then that came later differs.
        left, right = (t.frame(name).drop(columns="torch_at_most", errors="ignore") for t in (ours, theirs))
        assert left.astype(str).equals(right.astype(str)), name


def test_kernels_shorter_than_a_us_are_not_rounded_away() -> None:
    # Three kernels of 0.4 us with 0.1 us between them: 1.2 us busy, 0.2 us idle in a window of 1.4 us.
    trace = read([op("a", 0, 3), launch(1, 0.1, 0.1), kernel(1, 0.4), kernel(1.5, 0.4), kernel(2, 0.4)])
    assert (facts(trace)["kernel_ns"], facts(trace)["busy_ns"], facts(trace)["idle_ns"]) == (1200, 1200, 200)


def test_kernels_without_duration_are_kept() -> None:
    # Whole us of 2021: a kernel under 1 us has a duration of 0. It is counted, linked, and owns no time.
    trace = read([op("a", 0, 20), launch(1, 1), launch(2, 4), kernel(10, 0, 1), kernel(12, 5, 2)])
    assert trace.kernels["dur_ns"].tolist() == [0, 5000]
    assert trace.kernels["cost_ns"].tolist() == [0, 5000]
    assert trace.kernels["linked"].tolist() == [True, True]
    assert facts(trace)["kernel_count"] == 2


def test_only_kernels_without_duration() -> None:
    trace = read([op("a", 0, 20), launch(1, 1), kernel(10, 0, 1)])
    assert trace.kernels["dur_ns"].tolist() == [0]
    assert trace.window_ns == 0


def test_a_copy_without_duration_has_no_bandwidth() -> None:
    trace = read([op("a", 0, 20), launch(1, 1, name="cudaMemcpyAsync"), copy(10, 0, 1), copy(12, 2, 2, size=4000)])
    # 4000 bytes in 2000 ns are 2 GB/s; of 1000 bytes in no time nothing is known.
    assert np.isnan(trace.copies["bandwidth_gbps"][0])
    assert trace.copies["bandwidth_gbps"][1] == 2.0


def test_only_a_copy_without_duration() -> None:
    trace = read([op("a", 0, 20), launch(1, 1, name="cudaMemcpyAsync"), copy(10, 0, 1)])
    assert trace.copies["idle_before_ns"].tolist() == [0]


# ---- overlaps


def test_kernels_that_overlap_by_jitter_lose_no_time() -> None:
    # [10, 20) and [19.99, 30) on one stream: both durations stay, together they are busy for 20 us; the first owns the overlap.
    trace = read([op("a", 0, 40), launch(1, 1), launch(2, 4), kernel(10, 10, 1), kernel(19.99, 10.01, 2)])
    assert trace.kernels["dur_ns"].tolist() == [10_000, 10_010]
    assert trace.kernels["cost_ns"].tolist() == [10_000, 10_000]
    assert facts(trace)["busy_ns"] == 20_000


def test_operators_that_overhang_by_jitter_stay_nested() -> None:
    # The inner one ends 3 ns behind the outer one: it is inside, and nothing is thrown away.
    trace = read([op("outer", 10, 20), op("inner", 15, 15.003), launch(1, 16), kernel(40, 5, 1)])
    outer, inner = trace.ops.iloc[0], trace.ops.iloc[1]
    assert (outer["top"], inner["top"]) == (True, False)
    assert abs(inner["dur_ns"] - 15_000) <= 3
    assert abs(outer["self_ns"] - 5_000) <= 3
    assert trace.kernels["op"].tolist() == ["inner"]


def test_an_annotation_opened_inside_a_call_keeps_its_length() -> None:
    """``with record_function(...)``: the annotation begins in __enter__, which returns long before it ends."""
    wait = host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 12, 50)
    trace = read(
        [
            host("python_function", "train.py(5): main", 0, 100),
            host("python_function", "torch/autograd/profiler.py(640): __enter__", 10, 4),
            wait,
            host("python_function", "torch/utils/data/dataloader.py(700): _next_data", 15, 40),
            op("aten::stack", 20, 10),
            host("python_function", "torch/autograd/profiler.py(650): __exit__", 63, 3),
            launch(1, 70),
            kernel(80, 10, 1),
        ]
    )
    # [12, 62) is 50 us long; the operator at 20 us runs inside it, and the launch at 70 us behind it.
    assert trace.loader["dur_ns"].tolist() == [50_000]
    assert trace.ops["op"].tolist() == ["aten::stack"]
    assert trace.ops["file"].tolist() == ["train.py"]
    assert trace.kernels["op"].isna().all()


def test_an_annotation_that_covers_later_operators_explains_them() -> None:
    # Optimizer.step#SGD.step begins inside __enter__ [10, 14) and lasts to 60 us: the kernel launched at 30 us is its own.
    trace = read(
        [
            host("python_function", "torch/autograd/profiler.py(640): __enter__", 10, 4),
            host("user_annotation", "Optimizer.step#SGD.step", 12, 48),
            op("aten::_foreach_add_", 25, 20),
            launch(1, 30),
            kernel(80, 10, 1),
        ]
    )
    assert trace.kernels["phase"].tolist() == ["optimizer"]
    assert facts(trace)["optimizer_seen"]


# ---- links


def test_a_launch_before_the_window_leaves_its_kernel_unlinked() -> None:
    # 30 of 100 us of GPU time were launched before recording began: kept, told, and only counted as unlinked.
    trace = read([op("a", 0, 200), launch(2, 10), kernel(5, 30, 1), kernel(50, 70, 2)])
    assert trace.kernels["linked"].tolist() == [False, True]
    assert trace.kernels["op"].isna().tolist() == [True, False]
    assert trace.kernels["launch_ns"].isna().tolist() == [True, False]
    assert trace.kernels["launch_ns"][1] == 10_000
    assert facts(trace)["unlinked_share"] == pytest.approx(0.3)
    assert facts(trace)["kernel_ns"] == 100_000


def test_a_trace_of_kernels_alone() -> None:
    # [10, 15) and [20, 25): busy 10 of 15 us; who is to blame for the 5 us between them nobody can say.
    trace = read([kernel(10, 5, 1), kernel(20, 5, 2)])
    assert trace.kernels["linked"].tolist() == [False, False]
    assert trace.window_ns == 15_000
    assert trace.ledger.by_cause()["unknown"] == 5_000
    assert not facts(trace)["has_host"]
    assert not facts(trace)["idle_trusted"]


@pytest.mark.parametrize("correlation", [0, -1])
def test_a_correlation_that_is_none_links_nothing(correlation: int) -> None:
    trace = read([op("a", 0, 50), launch(correlation, 10), launch(3, 20), kernel(30, 5, correlation), kernel(40, 5, 3)])
    assert trace.kernels["linked"].tolist() == [False, True]
    assert trace.launches["linked"].tolist() == [False, True]


def test_links_are_by_correlation_and_not_by_flow_or_external_id() -> None:
    # Kineto wrote External id := correlation for years, and flows of three names: neither is asked.
    flows = [
        {"ph": ph, "id": 1, "cat": cat, "name": cat, "pid": 1, "tid": 1, "ts": 5}
        for ph in "sf"
        for cat in ("ac2g", "async_gpu")
    ]
    right = op("right", 10, 10, **{"External id": 77})
    wrong = op("wrong", 30, 10, **{"External id": 1})
    work = {**kernel(50, 5, 1), "args": {**kernel(50, 5, 1)["args"], "External id": 1}}
    trace = read([right, wrong, launch(1, 12), work, *flows])
    assert trace.kernels["op"].tolist() == ["right"]


def test_driver_launches_link_too() -> None:
    # cuBLAS launches through the driver: 42 % of kernel time on an H100.
    call = host("cuda_driver", "cuLaunchKernelEx", 12, 3, correlation=4)
    trace = read([op("aten::mm", 10, 10), call, kernel(20, 5, 4, "nvjet_tst_128x128")])
    assert trace.kernels["op"].tolist() == ["aten::mm"]
    assert trace.launches["kind"].tolist() == ["kernel"]


def test_a_kernel_that_starts_before_its_launch_stays_linked() -> None:
    # Clocks of CPU and GPU differ: the launch ends at 12 us, the kernel starts at 11 us.
    trace = read([op("a", 5, 20), launch(1, 10), kernel(11, 5, 1)])
    assert trace.kernels["linked"].tolist() == [True]
    assert trace.launches["delay_ns"].tolist() == [-1000]


def test_one_graph_launch_owns_many_kernels() -> None:
    # Three kernels of one replay share its correlation: 5 + 6 + 7 = 18 us.
    calls = [op("replay", 0, 30), launch(9, 5, 20, "cudaGraphLaunch")]
    trace = read([*calls, kernel(10, 5, 9), kernel(15, 6, 9), kernel(21, 7, 9)])
    replay = trace.launches.iloc[0]
    assert (replay["kind"], replay["gpu_count"], replay["gpu_dur_ns"], replay["gpu_start_ns"]) == (
        "graph",
        3,
        18_000,
        10_000,
    )
    assert trace.kernels["graph"].all()
    assert (facts(trace)["graph_launches"], facts(trace)["graph_kernels"]) == (1, 3)
    assert facts(trace)["idle_trusted"]


def test_a_graph_replay_without_kernels_leaves_idle_time_unexplained() -> None:
    # Two replays, one of them without any work in the trace: the device may have worked while it seems to idle.
    calls = [
        op("replay", 0, 200),
        launch(9, 5, 5, "cudaGraphLaunch"),
        launch(10, 60, 5, "cudaGraphLaunch"),
        launch(11, 110),
    ]
    trace = read([*calls, kernel(10, 20, 9), kernel(120, 10, 11)])
    assert facts(trace)["graphs_underrecorded"]
    assert not facts(trace)["idle_trusted"]
    assert "idle" not in trace.features
    # The window [10, 130) is busy for 30 us; the other 90 are unknown.
    assert trace.ledger.by_cause()["unknown"] == 90_000


def test_duplicate_correlations_link_to_a_call_and_crash_nothing() -> None:
    trace = read([op("a", 0, 50), launch(5, 1), launch(5, 10), kernel(20, 3, 5), kernel(30, 3, 5)])
    assert trace.kernels["linked"].all()
    assert trace.launches["gpu_count"].sum() == 2


# ---- a trace with half of what it should have


def test_a_machine_without_a_gpu() -> None:
    trace = read([step(0, 0, 100), op("aten::mm", 10, 50)])
    assert facts(trace)["vendor"] == "cpu"
    assert not trace.gpu_expected
    assert trace.window_ns == 100_000
    assert str(facts(trace)["idle_share"]) == "<NA>"


def test_launches_without_kernels_say_that_a_gpu_was_at_work() -> None:
    trace = read([op("aten::mm", 10, 50), launch(1, 12)], deviceProperties=[{"id": 0, "name": "NVIDIA A100"}])
    assert trace.gpu_expected
    assert not facts(trace)["has_gpu"]
    assert facts(trace)["vendor"] == "nvidia"


@pytest.mark.parametrize(
    "alone",
    [
        op("a", 1, 2),
        step(1, 1, 2),
        launch(1, 1),
        kernel(1, 2),
        copy(1, 2, 1),
        gpu("gpu_memset", "Memset (Device)", 1, 2, 1),
        gpu("gpu_user_annotation", "forward", 1, 2, 0),
        gpu("cuda_sync", "Stream Sync", 1, 2, 1, -1),
        host("python_function", "a.py(1): f", 1, 2),
        host("overhead", "Buffer Flush", 1, 2),
        host("Trace", "PyTorch Profiler (0)", 1, 2, "PyTorch Profiler"),
        memory(1, 5, 1, 0, **{"Total Allocated": 5, "Total Reserved": 6}),
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "name": "[OutOfMemory]",
            "pid": 1,
            "tid": 1,
            "ts": 1,
            "args": {"Device Type": 1},
        },
    ],
    ids=lambda event: f"{event['cat']} {event['name']}",
)
def test_a_trace_of_one_event(alone: Event) -> None:
    trace = read([alone])
    assert trace.events == 1
    assert int(trace.ledger.dur_ns.sum()) == trace.window_ns
    assert trace.quality == []
