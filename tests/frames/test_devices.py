"""Pitfalls of devices: what belongs to which, what AMD does otherwise, whose memory it is.

Times in the traces are us, as the profiler writes them; frames are in ns.
"""

from __future__ import annotations

import pytest
from support.raw_events import PAGEABLE, copy, facts, gpu, host, kernel, launch, memory, op, read

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


def test_a_wait_for_another_device_is_that_device_s() -> None:
    """GPU 0 works 30 us and GPU 1 from then on 40; the host waits for both, 60 us, of which 30 - 10 are before GPU 1 begins."""
    work = [kernel(10, 30, 1), kernel(40, 40, 2, device=1)]
    wait = host("cuda_runtime", "cudaDeviceSynchronize", 20, 60, 1)
    trace = read([op("a", 0, 15), launch(1, 1), launch(2, 4), *work, wait])
    assert trace.device == 1
    assert trace.ledger.by_cause()["other_device"] == 30_000
    assert trace.kernels["awaited_ns"].tolist() == [30_000, 0]
    alone = read([op("a", 0, 15), launch(1, 1), *work[:1], host("cuda_runtime", "cudaDeviceSynchronize", 20, 20, 1)])
    assert alone.ledger.by_cause()["other_device"] == 0


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
