"""Pitfalls that real traces hold: one small trace for each, with what it must come to worked out by hand.

Times in the traces are us, as the profiler writes them; frames are in ns.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import advisor.trace
from advisor.frames import SCHEMAS
from advisor.trace import Trace

Event = dict[str, Any]
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"


def host(cat: str, name: str, start: float, dur: float, thread: Any = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": thread, "ts": start, "dur": dur, "args": args}


def op(name: str, start: float, dur: float, thread: Any = 1, **args: Any) -> Event:
    return host("cpu_op", name, start, dur, thread, **args)


def step(number: int, start: float, dur: float) -> Event:
    return host("user_annotation", f"ProfilerStep#{number}", start, dur)


def launch(correlation: int, start: float, dur: float = 2, name: str = "cudaLaunchKernel", thread: Any = 1) -> Event:
    return host("cuda_runtime", name, start, dur, thread, correlation=correlation)


def gpu(
    cat: str, name: str, start: float, dur: float, correlation: int, stream: int = 7, device: int = 0, **args: Any
) -> Event:
    args = {"device": device, "stream": stream, "correlation": correlation, **args}
    return {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": start, "dur": dur, "args": args}


def kernel(
    start: float, dur: float, correlation: int = 1, name: str = "sgemm", stream: int = 7, device: int = 0
) -> Event:
    return gpu("kernel", name, start, dur, correlation, stream, device)


def copy(start: float, dur: float, correlation: int, name: str = PAGEABLE, size: Any = 1000) -> Event:
    return gpu("gpu_memcpy", name, start, dur, correlation, bytes=size)


def read(events: list[Event], *, shift: int = 0, **root: Any) -> Trace:
    """The trace of these events, *shift* us later; every frame of it can be built."""
    text = json.dumps({"schemaVersion": 1, **root, "traceEvents": events})
    if shift:
        # In the text: a double has no room for sixteen digits and three decimals.
        text = re.sub(r'(?<="ts": )[\d.]+', lambda found: str(shift + Decimal(found[0])), text)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(text)
        trace = advisor.trace.read(str(path))
    for name in SCHEMAS:
        assert list(trace.frame(name).columns) == [column.name for column in SCHEMAS[name].columns]
    return trace


def facts(trace: Trace) -> Any:
    return trace.frame("trace").iloc[0]


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
    for name in set(SCHEMAS) - {"ops"}:
        assert ours.frame(name).astype(str).equals(theirs.frame(name).astype(str)), name


def test_a_display_unit_of_ns_changes_no_value() -> None:
    events = [op("a", 1.5, 2.125)]
    assert read(events, displayTimeUnit="ns").ops["dur_ns"].tolist() == [2125]
    assert read(events, displayTimeUnit="ms").ops["dur_ns"].tolist() == [2125]


def test_a_shifted_clock_changes_nothing() -> None:
    events = [step(0, 10, 50), op("a", 12, 9.001), launch(1, 15), kernel(20.125, 30.5)]
    # 1,700,000,000,000,000 us is 2023.
    ours, theirs = read(events), read(events, shift=1_700_000_000_000_000)
    for name in SCHEMAS:
        assert ours.frame(name).astype(str).equals(theirs.frame(name).astype(str)), name


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


# ---- steps and window


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
    # Six steps of 100 us; the median leaves the first one out, but not the last, which ends with its own annotation.
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
    assert trace.frame("steps")["sampled"].tolist() == [True, True, False]
    assert (trace.step_count, trace.step_ms, trace.ledger.counted_ns, trace.window_ns) == (2, 0.1, 200_000, 205_000)
    assert [note.code for note in trace.quality] == ["empty-step"]
    # An operator in it makes it one, and so does work that it launches.
    for event in ([op("b", 201, 1)], [launch(9, 201), kernel(203, 1, 9)]):
        assert read([step(0, 0, 100), step(1, 100, 100), step(2, 200, 5), *work, *event]).step_count == 3


def test_behind_the_last_event_of_the_host_nothing_is_known() -> None:
    # The step goes on for 5 ms in which nothing was recorded; 1 ms more or less is Python between two operators.
    silent = read([step(0, 0, 5100), op("a", 1, 99), launch(1, 5), kernel(30, 10)])
    assert silent.ledger.by_cause()["unknown"] == 5_000_000
    assert read([step(0, 0, 1100), op("a", 1, 99), launch(1, 5), kernel(30, 10)]).ledger.by_cause()["unknown"] == 0


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
    trace = read([step(3, 0, 80), op("a", 1, 20), launch(1, 5), kernel(30, 10, 1)])
    assert (trace.step_count, trace.step_ms) == (1, 0.08)


# ---- what belongs to whom


def test_a_triton_operator_with_a_stream_stays_on_the_host() -> None:
    triton = op("triton_poi_fused_add_0", 10, 5, stream=7, grid="grid(1024,)", kernel_file="/tmp/x.py")
    trace = read([triton, launch(1, 11), kernel(20, 5, 1, "triton_poi_fused_add_0")])
    assert trace.ops["name"].tolist() == ["triton_poi_fused_add_0"]
    assert trace.ops["stream"].tolist() == [-1]
    assert len(trace.kernels) == 1
    assert facts(trace)["busy_ns"] == 5_000


def test_python_functions_of_process_0_thread_0_are_the_hosts() -> None:
    # pid 0 is GPU 0 elsewhere in the same file.
    odd = {**host("python_function", "train.py(3): f", 10, 20, 0), "pid": 0}
    trace = read([odd, op("a", 12, 10), launch(1, 15), kernel(30, 5, 1)])
    assert trace.frame("python")["name"].tolist() == ["train.py(3): f"]
    assert trace.frame("python")["device"].tolist() == [-1]
    assert (len(trace.kernels), facts(trace)["devices_used"], facts(trace)["busy_ns"]) == (1, 1, 5_000)


def test_streams_are_only_names() -> None:
    # Stream 0 (ROCm's default) and 13 and 4294967295 overlap: [10, 30) and [20, 40) and [35, 45) are 35 us busy.
    work = [kernel(10, 20, 1, stream=0), kernel(20, 20, 2, stream=13), kernel(35, 10, 3, stream=4294967295)]
    trace = read([op("a", 0, 50), launch(1, 1), launch(2, 4), launch(3, 7), *work])
    assert trace.kernels["stream"].tolist() == [0, 13, 4294967295]
    assert facts(trace)["busy_ns"] == 35_000
    assert facts(trace)["kernel_ns"] == 50_000
    # Between kernels the earlier start owns: 20, then 40 - 30 = 10, then 45 - 40 = 5.
    assert trace.kernels["cost_ns"].tolist() == [20_000, 10_000, 5_000]


def test_a_fill_is_neither_compute_nor_copy() -> None:
    fill = gpu("gpu_memset", "Memset (Device)", 30, 8, 2, bytes=64)
    trace = read([op("a", 0, 50), launch(1, 1), launch(2, 4, name="cudaMemsetAsync"), kernel(20, 5, 1), fill])
    assert trace.memsets["bytes"].tolist() == [64]
    causes = trace.ledger.by_cause()
    assert (causes["compute"], causes["memset"], causes["copy"]) == (5_000, 8_000, 0)
    assert trace.launches["kind"].tolist() == ["kernel", "memset"]


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
        "rcclGenericKernel(ncclDevComm*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)",
        "multimem_all_reduce_kernel",
    ],
)
def test_communication_kernels_by_all_their_names(name: str) -> None:
    # [10, 30) on its own stream beside a kernel [10, 25): 5 us are exposed, and the ledger has as much communication.
    trace = read([op("a", 0, 50), launch(1, 1), launch(2, 4), kernel(10, 15, 1), kernel(10, 20, 2, name, stream=20)])
    assert len(trace.collectives) == 1
    assert trace.collectives["exposed_ns"].tolist() == [5_000]
    assert trace.ledger.by_cause()["communication"] == 5_000
    assert facts(trace)["distributed"]


def test_ranks_are_unknown_where_the_file_does_not_say() -> None:
    events = [op("a", 0, 50), launch(1, 1), kernel(10, 5, 1)]
    for root in ({}, {"distributedInfo": [{"rank": 0}, {"rank": 1}]}, {"distributedInfo": None}):
        trace = read(events, **root)
        assert str(facts(trace)["rank"]) == str(facts(trace)["world_size"]) == "<NA>"
        assert not facts(trace)["distributed"]
    one = read(events, distributedInfo=[{"rank": 2, "world_size": 4}])
    assert (facts(one)["rank"], facts(one)["world_size"], facts(one)["distributed"]) == (2, 4, True)


def test_the_busiest_of_two_devices_is_spoken_of() -> None:
    work = [kernel(10, 10, 1), kernel(10, 30, 2, device=3)]
    trace = read([op("a", 0, 50), launch(1, 1), launch(2, 4), *work])
    assert trace.device == 3
    assert trace.frame("devices")["device"].tolist() == [3, 0]
    assert trace.frame("devices")["busy_ns"].tolist() == [30_000, 10_000]
    assert facts(trace)["devices_used"] == 2


# ---- AMD

MI300 = {
    "id": 0,
    "name": "AMD Instinct MI300X",
    "totalGlobalMem": 192 << 30,
    "computeMajor": 9,
    "computeMinor": 4,
    "numSms": 304,
}


def test_a_device_number_beyond_the_listed_ones() -> None:
    # ROCm numbers the machine's devices, and lists those that the process sees: one of a uniform list stands in.
    events = [
        op("a", 0, 50),
        launch(1, 1, name="hipLaunchKernel"),
        kernel(10, 5, 1, "Cijk_Ailk_Bljk_SB", stream=0, device=9),
    ]
    trace = read(events, deviceProperties=[MI300, {**MI300, "id": 1}])
    device = trace.frame("devices").iloc[0]
    assert (device["device"], device["name"], device["sms"], device["vendor"]) == (9, "AMD Instinct MI300X", 304, "amd")
    assert str(device["capability"]) == "<NA>"
    unlike = read(events, deviceProperties=[MI300, {**MI300, "id": 1, "name": "AMD Instinct MI210", "numSms": 104}])
    assert str(unlike.frame("devices").iloc[0]["sms"]) == "<NA>"


def test_hip_calls_stand_in_for_a_name() -> None:
    # HIP calls are written as cuda_runtime, and the device's name may be empty.
    events = [op("a", 0, 50), launch(1, 1, name="hipExtModuleLaunchKernel"), kernel(10, 5, 1, stream=0)]
    assert read(events, deviceProperties=[{**MI300, "name": ""}]).vendor == "amd"
    assert read([*events[:1], launch(1, 1), kernel(10, 5, 1)], deviceProperties=[]).vendor == "nvidia"


@pytest.mark.parametrize(
    ("name", "direction", "host_memory"),
    [
        (PAGEABLE, "HtoD", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "pinned"),
        ("Memcpy HtoD (Managed -> Device)", "HtoD", "managed"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", None),
        ("Memcpy HtoA (Pinned -> Array)", "other", None),
        ("CopyHostToDevice", "HtoD", "unknown"),
        ("CopyDeviceToHost", "DtoH", "unknown"),
        ("CopyDeviceToDevice", "DtoD", None),
        ("MEMORY_COPY_HOST_TO_DEVICE", "HtoD", "unknown"),
        ("MEMORY_COPY_DEVICE_TO_HOST", "DtoH", "unknown"),
        ("Memcpy", "other", None),
    ],
)
def test_copies_by_all_their_names(name: str, direction: str, host_memory: str | None) -> None:
    trace = read([op("a", 0, 50), launch(1, 1, name="hipMemcpyAsync"), copy(10, 2, 1, name, size="4000")])
    row = trace.copies.iloc[0]
    assert (row["direction"], row["bytes"], row["bandwidth_gbps"]) == (direction, 4000, 2.0)
    assert row["host_memory"] == host_memory or (host_memory is None and row["host_memory"] != row["host_memory"])


def test_a_copy_by_a_kernel_is_a_kernel_that_copies() -> None:
    trace = read(
        [op("aten::copy_", 0, 50), launch(1, 1, name="hipMemcpyAsync"), kernel(10, 5, 1, "__amd_rocclr_copyBuffer")]
    )
    assert trace.kernels["class"].tolist() == ["copy"]
    assert len(trace.copies) == 0


# ---- memory


def memory(start: float, size: int, kind: int, device: int, **args: Any) -> Event:
    args = {"Bytes": size, "Device Type": kind, "Device Id": device, **args}
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 100,
        "tid": 1,
        "ts": start,
        "args": args,
    }


@pytest.mark.parametrize("kind", [1, 6, 12])
def test_memory_of_cuda_hip_and_xpu_is_the_devices(kind: int) -> None:
    # Peak: 300 of GPU 0. The host's own 9999 bytes are no GPU's.
    totals = [("Total Allocated", "Total Reserved")] * 4
    sizes = [(5, 100, 0, 100, 512), (6, 200, 0, 300, 512), (7, -200, 0, 100, 512)]
    points = [
        memory(ts, size, kind, device, **dict(zip(totals[0], both, strict=True))) for ts, size, device, *both in sizes
    ]
    cpu = memory(8, 9999, 0, -1, **{"Total Allocated": 9999, "Total Reserved": 0})
    trace = read([op("a", 0, 50), launch(1, 1), kernel(10, 5, 1), *points, cpu])
    device = trace.frame("devices").iloc[0]
    assert (device["peak_allocated_bytes"], device["peak_reserved_bytes"]) == (300, 512)
    assert trace.allocations["device"].tolist() == [0, 0, 0, -1]
    assert trace.allocations["bytes"].tolist() == [100, 200, -200, 9999]
    assert trace.frame("memory")["device"].tolist() == [0, 0, 0, -1]


def test_memory_of_2021_has_no_totals() -> None:
    old = memory(5, 100, 1, 0)
    del old["cat"]
    trace = read([op("a", 0, 50), launch(1, 1), kernel(10, 5, 1), old])
    assert trace.allocations["bytes"].tolist() == [100]
    assert trace.allocations["allocated_bytes"].isna().all()
    assert trace.allocations["reserved_bytes"].isna().all()
    assert len(trace.frame("memory")) == 0
    assert str(trace.frame("devices").iloc[0]["peak_allocated_bytes"]) == "<NA>"
    assert not facts(trace)["has_memory"]


def test_reserved_memory_is_absent_on_the_host() -> None:
    trace = read([op("a", 0, 50), memory(5, 100, 0, -1, **{"Total Allocated": 100})])
    assert trace.frame("memory")[["device", "allocated_bytes", "reserved_bytes"]].to_numpy().tolist() == [[-1, 100, 0]]


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
