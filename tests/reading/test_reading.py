"""Reading what is sound: every dialect, and the real traces whole, whatever the size of the pieces they are read in."""

from __future__ import annotations

import gzip
import json

import pytest
from support.reading import contents, dump, event, read, trace_of
from support.real import NAMES
from support.traces import real_trace, reference

from advisor.reading import stream

# ---- dialects


# The name of 2021 first, then the names since, and the group of columns that they all go to.
DIALECTS = [
    (["Operator", "cpu_op"], "op"),
    (["user_annotation"], "annotation"),
    (["Runtime", "cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "mtia_runtime"], "runtime"),
    # Kineto of 2026 has one word for the calls of all makers; a fork of it has a word of its own for each.
    (["driver", "privateuse1_driver", "gcu_runtime"], "runtime"),
    # Events of HPU and MTIA were read as operators: what a device did was missing. They are its work, unless their thread
    # is one of the host's.
    (["Kernel", "kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"], "kernel"),
    (["Memcpy", "gpu_memcpy", "mlu_memcpy"], "copy"),
    (["Memset", "gpu_memset", "gcu_memset"], "memset"),
    (["Trace"], "span"),
    (["python_function"], "python"),
    (["overhead"], "overhead"),
    (["gpu_user_annotation"], "gpu_annotation"),
    (["cuda_sync", "xpu_sync"], "device_sync"),
]


@pytest.mark.parametrize(("names", "group"), DIALECTS)
def test_categories_by_all_their_names(names: list[str], group: str) -> None:
    for cat in [spelling for name in names for spelling in (name, name.upper(), name.capitalize())]:
        recorded = read(dump([event("x", cat)]))
        assert list(recorded.tables) == [group], cat
        assert recorded.notes == []


def test_the_dialect_of_2021() -> None:
    """Whole us since 1970, threads and streams as text, lower-case dims, call stacks as text, no category on memory."""
    us = 1_623_143_089_861_000
    stack = "/home/alice/train.py(12): step;torch/nn/functional.py(3): conv2d"
    operator = event(
        "aten::conv2d", "Operator", tid="25738", ts=us, dur=9, args={"Input dims": [[1, 3]], "Call stack": stack}
    )
    call = event(
        "cudaLaunchKernel", "Runtime", tid="25738", ts=us + 1, dur=2, args={"correlation": 5, "external id": "4"}
    )
    kernel = event("sgemm", "Kernel", pid=0, tid="stream 7", ts=us + 5, dur=0, args={"correlation": 5, "device": 0})
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 25738, "ts": us + 2}
    memory["args"] = {"Device Type": 1, "Device Id": 0, "Bytes": 1024}
    trace = trace_of(json.dumps([operator, call, kernel, memory]))
    assert trace.ops.loc[0, ["thread", "shapes", "file", "line", "library"]].tolist() == [
        25738, "[[1,3]]", "train.py", 12, pytest.approx(float("nan"), nan_ok=True),
    ]  # fmt: skip
    assert trace.kernels.loc[0, ["stream", "op", "linked", "dur_ns", "start_ns"]].tolist() == [
        7,
        "aten::conv2d",
        True,
        0,
        5000,
    ]
    assert trace.allocations["bytes"].tolist() == [1024]
    assert trace.allocations["allocated_bytes"].isna().all()


def test_events_without_a_category_are_operators_of_a_legacy_export() -> None:
    bare = {"name": "aten::mm", "ph": "X", "ts": 5, "dur": 2, "tid": 1, "pid": "CPU functions", "args": {}}
    recorded = read(json.dumps([bare, {"name": "Iteration Start", "ph": "i", "ts": 1}]))
    assert contents(recorded)["op"][0]["name"] == "aten::mm"
    assert recorded.events == 2


def test_flows_metadata_and_counters_are_passed_over() -> None:
    skipped = ["ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd", "forward_backward"]
    flows = [
        {"ph": ph, "id": 1, "cat": cat, "name": cat, "pid": 1, "tid": 1, "ts": 5} for cat in skipped for ph in "sf"
    ]
    counters = [
        {"ph": "C", "cat": cat, "name": "x", "pid": 1, "ts": 1, "args": {"v": 1}}
        for cat in ("mtia_counters", "hardware_counters", "gpu_pm_counter")
    ]
    others = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "x"}},
        {"ph": "i", "name": "Record Window End", "ts": 9},
    ]
    profiled = [event("smsp__x.sum", "cuda_profiler_range"), event("e", "cuda_event")]
    recorded = read(dump([event(), *flows, *counters, *others, *profiled]))
    assert recorded.events == 1 + len(flows) + len(counters) + len(others) + len(profiled)
    assert list(recorded.tables) == ["op"]
    assert recorded.notes == []


def test_unknown_categories_are_counted_and_named() -> None:
    unfinished = event("b", "cpu_op", ph="B")
    recorded = read(dump([event(), event(cat="martian"), event(cat="martian"), event(cat="\x1b[31m"), unfinished]))
    assert dict(recorded.notes)["unknown-categories"] == (
        "events of unknown categories were passed over: 'martian' (2), '\\x1b[31m' (1), 'cpu_op with ph B' (1)"
    )


def test_many_unknown_categories_do_not_fill_the_report() -> None:
    recorded = read(dump([event(), *(event(cat=f"c{at}" * 100) for at in range(500))]))
    assert len(dict(recorded.notes)["unknown-categories"]) < 600


# ---- the real traces


@pytest.mark.real
def test_all_real_traces_are_here() -> None:
    assert len({real_trace(name) for name in NAMES}) == len(NAMES) >= 41
    assert sorted(reference()) == NAMES


@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_the_real_traces_are_read_whole(name: str) -> None:
    recorded = stream.read(real_trace(name))
    assert recorded.events == reference()[name]["events"]
    # All its events are of process 1670242, but for the one step of 13 s: that is of 3100453.
    foreign = ["other-process"] if name == "triton_example.json.gz" else []
    assert [code for code, _ in recorded.notes] == foreign
    assert (recorded.repaired, recorded.skipped, recorded.truncated) == (0, 0, False)


@pytest.mark.real
@pytest.mark.parametrize(
    "name", ["h100_transformer_run1.json.gz", "triton_example.json.gz", "legacy_list_root_cpu.json.gz"]
)
@pytest.mark.parametrize("size", [64, 1000, 40_000])
def test_the_real_traces_in_small_pieces(name: str, size: int) -> None:
    with gzip.open(real_trace(name)) as file:
        text = file.read()
    assert contents(read(text, chunk=size, block=size)) == contents(read(text))
