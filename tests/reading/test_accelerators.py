"""Accelerators other than CUDA's and ROCm's: their events are work of a device of that name."""

from __future__ import annotations

import pytest
from support.raw_events import Event, facts, host, kernel, op, read

from advisor.reading.accelerators import from_backend, group_of, name_of


def device_event(cat: str, name: str, start: float, dur: float, pid: int, tid: int, **args: object) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur, "args": args}


@pytest.mark.parametrize(
    ("category", "group", "name"),
    [
        ("mtia_ccp_events", "accelerator", "MTIA"),
        ("mtia_runtime", "runtime", "MTIA"),
        ("hpu_op", "accelerator", "HPU"),
        ("xpu_driver", "runtime", "XPU"),
        ("privateuse1_runtime", "runtime", "PrivateUse1"),
        ("npu_runtime", "runtime", "NPU"),
        ("mlu_memcpy", "copy", "MLU"),
        ("gcu_user_annotation", "gpu_annotation", "GCU"),
        ("xpu_sync", "device_sync", "XPU"),
        ("gpu_memcpy", "copy", None),
        ("cuda_runtime", "runtime", None),
        ("user_annotation", None, None),
        ("cpu_op", None, None),
        ("torch_op", None, None),
        ("martian", None, None),
    ],
)
def test_a_category_says_what_its_events_are_and_of_which_accelerator(
    category: str, group: str | None, name: str | None
) -> None:
    assert (group_of(category), name_of(category)) == (group, name)


def test_mtia_without_device_properties() -> None:
    # 20 us of fc and 5 us of DMA on device 9, in a window of 40 us: [10, 30) and [45, 50).
    trace = read(
        [
            op("aten::linear", 0, 60),
            host("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", 2, 5, correlation=18),
            device_event("mtia_ccp_events", "fc-dtype_Float", 10, 20, 9, 4, correlation=18, stream=1),
            device_event("mtia_ccp_events", "dma_request", 45, 5, 9, 801, direction="DEVICE_TO_HOST", size=16),
        ],
        deviceProperties=[],
    )
    assert trace.window_ns == 40_000
    assert trace.ledger.by_cause()["compute"] == 20_000
    assert trace.ledger.by_cause()["copy"] == 5_000
    assert trace.kernels[["name", "device", "stream", "linked", "op"]].values.tolist() == [
        ["fc-dtype_Float", 9, 1, True, "aten::linear"]
    ]
    assert trace.copies[["name", "direction", "stream"]].values.tolist() == [["dma_request", "other", 801]]
    assert (facts(trace)["device_name"], facts(trace)["vendor"]) == ("MTIA", "unknown")
    assert facts(trace)["has_gpu"]
    assert not facts(trace)["cpu_only"]


def test_hpu_events_of_host_threads_are_calls_and_the_others_work() -> None:
    # HPU has one category for both; here the device's events stand before the host's in the file.
    trace = read(
        [
            device_event("hpu_op", "batch_gemm", 20, 30, 0, 2),
            device_event("hpu_op", "memcpy_0", 50, 4, 0, 3),
            host("hpu_op", "synLaunchWithExternalEvents", 6, 3),
            op("aten::bmm", 5, 10),
        ]
    )
    assert trace.kernels[["name", "dur_ns", "device"]].values.tolist() == [["batch_gemm", 30_000, 0]]
    assert trace.copies["dur_ns"].tolist() == [4_000]
    assert trace.launches["name"].tolist() == ["synLaunchWithExternalEvents"]
    assert (facts(trace)["device_name"], facts(trace)["vendor"]) == ("HPU", "intel")


def test_a_backend_outside_pytorch_goes_by_the_name_in_its_process_group() -> None:
    events = [
        op("aten::mm", 0, 20),
        host("privateuse1_runtime", "aclrtLaunchKernel", 2, 3, correlation=1),
        kernel(10, 5, 1, "MatMulV2"),
    ]
    assert facts(read(events))["device_name"] == "PrivateUse1"
    named = read(events, distributedInfo={"backend": "cpu:gloo,npu:hccl", "rank": 0, "world_size": 2})
    assert facts(named)["device_name"] == "NPU"
    assert named.kernels["linked"].tolist() == [True]
    # What the properties call the device comes first.
    assert facts(read(events, deviceProperties=[{"id": 0, "name": "Ascend910B"}]))["device_name"] == "Ascend910B"


def test_an_accelerators_calls_without_its_work_are_no_program_of_the_cpu() -> None:
    trace = read([op("aten::mm", 0, 20), host("privateuse1_driver", "submit", 2, 3)])
    assert (facts(trace)["gpu_used"], facts(trace)["cpu_only"]) == (True, False)


def test_a_cuda_trace_has_no_accelerator() -> None:
    trace = read(
        [op("aten::mm", 0, 20), host("cuda_runtime", "cudaLaunchKernel", 2, 3, correlation=1), kernel(10, 5, 1)]
    )
    assert trace.metadata.accelerator is None
    assert trace.vendor == "nvidia"


def test_backends_of_process_groups() -> None:
    assert from_backend("mtia:hccl,cpu:gloo") == "MTIA"
    assert from_backend("cpu:gloo,cuda:nccl") is None
    assert from_backend("nccl") is None
    assert from_backend(None) is None


def test_calls_join_a_table_that_knows_more_of_its_own() -> None:
    """A fuzzer's find: copies with External ids beside an accelerator's, which have none."""
    import numpy as np

    from advisor.reading.accelerators import _append

    one = np.ones(1, np.int64)
    table = dict.fromkeys(("name", "thread", "ts", "dur", "correlation", "device", "stream", "bytes", "external"), one)
    tables = {"copy": table}
    _append(tables, "copy", {key: column * 7 for key, column in table.items() if key != "external"})
    assert tables["copy"]["external"].tolist() == [1, -1]
    assert tables["copy"]["ts"].tolist() == [1, 7]
