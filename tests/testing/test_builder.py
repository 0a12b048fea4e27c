"""The builder of traces: its clocks against times worked out by hand, its text against what Kineto writes."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.paths import ROOT

from advisor.testing import TraceBuilder
from advisor.testing.timeline import ns
from advisor.trace import read

ARTICLE = ROOT / "sample_traces" / "article"
Events = list[dict[str, Any]]


def events(b: TraceBuilder, category: str) -> Events:
    root = json.loads(b.to_json())
    return [event for event in root["traceEvents"] if event.get("cat") == category and event["ph"] == "X"]


def only(b: TraceBuilder, category: str) -> dict[str, Any]:
    (event,) = events(b, category)
    return event


def times(event: dict[str, Any], start_us: int = 1_000_000) -> tuple[int, int]:
    """ns since the start of the recording, which stands at 1 s by default."""
    start = round((event["ts"] - start_us) * 1000)
    return start, start + round(event["dur"] * 1000)


# ---- clocks


def test_work_starts_when_its_launch_has_returned_and_the_stream_is_free() -> None:
    b = TraceBuilder(host_us=6, latency_us=2, gap_us=1)
    first, second, third = b.kernel("a", us=100), b.kernel("b", us=10), b.kernel("c", us=5, stream=9)
    # Launches: 0-6, 6-12, 12-18. On stream 7: 6 + 2 = 8 to 108; then free at 108, a gap of 1: 109 to 119.
    # Stream 9 is free: 18 + 2 = 20 to 25.
    assert (first.start_ns, first.end_ns) == (8_000, 108_000)
    assert (second.start_ns, second.end_ns) == (109_000, 119_000)
    assert (third.start_ns, third.end_ns) == (20_000, 25_000)
    assert b.now_ns == 18_000
    b.kernel("late", us=1, after=[second], stream=9)
    b.kernel("fixed", us=1, at_us=500)
    starts = [times(event)[0] for event in events(b, "kernel")]
    assert starts == [8_000, 109_000, 20_000, 119_000, 500_000]


def test_a_step_is_as_long_as_what_happens_in_it() -> None:
    b = TraceBuilder(host_us=6, latency_us=2)
    with b.step() as step:
        with b.loader(ms=20) as wait:
            b.idle(us=5)
        copy = b.copy("HtoD", nbytes=19_267_584, us=1650)
        kernel = b.kernel("volta_sgemm_128x64_nn", us=90)
        waited = b.sync()
    assert (wait.start_ns, wait.dur_ns) == (0, 20_000_000)
    # The call begins at 20,000 us and takes 6, the copy starts 2 later and ends at 21,658 with the call; the wait that
    # follows takes its least, 4: the kernel is launched at 21,662-21,668, runs from 21,670 to 21,760.
    assert (copy.start_ns, copy.end_ns) == (20_008_000, 21_658_000)
    assert copy.call is not None
    assert (copy.call.start_ns, copy.call.end_ns) == (20_000_000, 21_658_000)
    assert (kernel.start_ns, kernel.end_ns) == (21_670_000, 21_760_000)
    assert (waited.start_ns, waited.end_ns) == (21_668_000, 21_760_000)
    assert (step.start_ns, step.end_ns) == (0, 21_760_000)
    assert times(events(b, "user_annotation")[0]) == (0, 21_760_000)


def test_a_pinned_copy_lets_the_host_go_on_unless_it_blocks() -> None:
    b = TraceBuilder(host_us=6, latency_us=2)
    free = b.copy("HtoD", nbytes=12_000_000, gbps=12, pinned=True)  # 12e6 bytes at 12 bytes a ns: 1 ms
    assert (free.start_ns, free.end_ns, b.now_ns) == (8_000, 1_008_000, 6_000)
    held = b.copy("DtoH", nbytes=24_000, gbps=12, pinned=True, blocking=True)
    # Launched 6-12, starts when the stream is free; the host waits in the synchronize.
    assert (held.start_ns, held.end_ns, b.now_ns) == (1_008_000, 1_010_000, 1_010_000)
    assert [event["name"] for event in events(b, "cuda_runtime")] == [
        "cudaMemcpyAsync",
        "cudaMemcpyAsync",
        "cudaStreamSynchronize",
    ]
    assert [event["name"] for event in events(b, "gpu_memcpy")] == [
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
    ]
    assert events(b, "gpu_memcpy")[0]["args"]["memory bandwidth (GB/s)"] == 12.0


def test_a_small_pageable_copy_is_staged_and_waited_for_afterwards() -> None:
    b = TraceBuilder(host_us=6, latency_us=2)
    b.copy("HtoD", nbytes=256, us=1)
    # Call 0-6, copy 8-9, synchronize 6 to its least of 4: 10.
    assert [times(event) for event in events(b, "cuda_runtime")] == [(0, 6_000), (6_000, 10_000)]


def test_a_scalar_is_read_back_with_a_wait() -> None:
    b = TraceBuilder(host_us=6, latency_us=2)
    b.kernel("long", us=1000)
    copy = b.item()
    # The kernel runs 8-1008, the copy 1008-1009 in a call that lasts as long, then the synchronize of 4.
    assert (copy.start_ns, copy.end_ns, b.now_ns) == (1_008_000, 1_009_000, 1_013_000)
    assert [event["name"] for event in events(b, "cpu_op")] == ["aten::item", "aten::_local_scalar_dense"]
    assert [times(event) for event in events(b, "cpu_op")] == [(6_000, 1_013_000)] * 2


def test_another_thread_starts_where_the_first_one_stands_and_is_waited_for() -> None:
    b = TraceBuilder()
    b.idle(us=10)
    with b.thread(4001) as other, b.backward("MulBackward0", seq=3):
        b.idle(us=30)
    assert (other.start_ns, other.end_ns, b.now_ns) == (10_000, 40_000, 40_000)
    with b.thread(4001, join=False):
        b.idle(us=100)
    assert b.now_ns == 40_000
    outer, node = events(b, "cpu_op")
    assert outer["tid"] == node["tid"] == 4001
    assert outer["name"] == "autograd::engine::evaluate_function: MulBackward0"
    assert node["args"]["Sequence number"] == 3
    assert node["args"]["Fwd thread id"] == 1


def test_waits_for_the_device_an_event_and_a_free() -> None:
    b = TraceBuilder(host_us=6, latency_us=2)
    short, _ = b.kernel("a", us=10), b.kernel("b", us=100, stream=9)
    assert b.sync("cudaEventSynchronize", after=[short]).end_ns == 18_000  # the kernel: 8-18
    assert b.sync("cudaDeviceSynchronize").end_ns == 114_000  # stream 9: 12 + 2 to 114
    b.kernel("c", us=10)  # launched 114-120, runs 122-132
    assert b.free(1 << 21, us=3).end_ns == 135_000
    assert b.malloc(1 << 21, us=50).dur_ns == 50_000


def test_pauses_of_collector_and_profiler_take_the_hosts_time() -> None:
    b = TraceBuilder()
    assert b.gc(ms=2).dur_ns == 2_000_000
    assert b.overhead(us=30).start_ns == 2_000_000
    b.overhead("Buffer Flush", us=5, blocks=False)
    assert b.now_ns == 2_030_000
    assert only(b, "python_function")["name"] == "Python GC"
    assert [(event["pid"], event["dur"]) for event in events(b, "overhead")] == [(-1, 30.0), (-1, 5.0)]


def test_times_that_make_no_sense_are_refused() -> None:
    b = TraceBuilder()
    b.idle(us=10)
    with pytest.raises(ValueError, match="cannot go back"):
        b.seek(us=5)
    with pytest.raises(ValueError, match="negative"):
        b.idle(us=-1)
    with pytest.raises(ValueError, match="one of the two"):
        b.idle()
    with pytest.raises(ValueError, match="dialect"):
        TraceBuilder(dialect="2019")
    with pytest.raises(ValueError, match="no GPU"):
        TraceBuilder(device=None).kernel("a", us=1)
    assert (ns(us=0.1), ns(ms=0.000001), ns(us=Decimal("1.005"))) == (100, 1, 1_005)


# ---- links


def test_gpu_work_is_linked_to_its_launch_and_operator() -> None:
    b = TraceBuilder()
    with b.op("aten::mm", shapes=[[2, 3], [3, 4]], dtypes=["c10::Half", "c10::Half"], seq=7) as op:
        kernel = b.kernel("gemm", us=3, driver=True)
        b.memset(4096, us=2)
    call = only(b, "cuda_driver")
    assert call["name"] == "cuLaunchKernel"
    gpu = only(b, "kernel")
    assert gpu["args"]["correlation"] == call["args"]["correlation"] == kernel.correlation
    assert gpu["args"]["External id"] == call["args"]["External id"] == only(b, "cpu_op")["args"]["External id"]
    assert op.start_ns <= times(call)[0] < times(call)[1] <= op.end_ns
    arguments = only(b, "cpu_op")["args"]
    assert arguments["Input Dims"] == [[2, 3], [3, 4]]
    assert (arguments["Sequence number"], arguments["Fwd thread id"]) == (7, 0)
    arrows = [e for e in json.loads(b.to_json())["traceEvents"] if e.get("cat") == "ac2g"]
    by_end = {end: {(e["id"], e["ts"]) for e in arrows if e["ph"] == end} for end in "sf"}
    launches = [*events(b, "cuda_driver"), *events(b, "cuda_runtime")]
    works = [*events(b, "kernel"), *events(b, "gpu_memset")]
    assert by_end["s"] == {(e["args"]["correlation"], e["ts"]) for e in launches}
    assert by_end["f"] == {(e["args"]["correlation"], e["ts"]) for e in works}


def test_a_graph_is_one_launch_of_many_kernels() -> None:
    b = TraceBuilder(host_us=6, latency_us=2)
    works = b.graph([("a", 5), ("b", 7)])
    assert [(work.start_ns, work.end_ns) for work in works] == [(8_000, 13_000), (13_000, 20_000)]
    assert len({event["args"]["correlation"] for event in events(b, "kernel")}) == 1
    assert only(b, "cuda_runtime")["name"] == "cudaGraphLaunch"


def test_work_from_before_the_recording_has_no_launch() -> None:
    b = TraceBuilder()
    early = b.kernel("early", us=50, launched=False)
    assert (early.start_ns, early.end_ns, early.call) == (0, 50_000, None)
    assert events(b, "cuda_runtime") == []
    assert "External id" not in only(b, "kernel")["args"]


def test_a_collective_carries_its_message() -> None:
    b = TraceBuilder(rank=1, world_size=4)
    b.collective("reduce_scatter", nbytes=4096, us=80, dtype="BFloat16")
    message = only(b, "cpu_op")["args"]
    # 4096 bytes are 2048 elements of two bytes; each of four ranks is left with a quarter.
    assert (message["In msg nelems"], message["Out msg nelems"], message["Group size"]) == (2048, 512, 4)
    kernel = only(b, "kernel")
    assert kernel["name"].startswith("ncclDevKernel_ReduceScatter_Sum_bf16")
    assert kernel["args"]["Collective name"] == "reduce_scatter"
    assert kernel["args"]["External id"] == message["External id"]  # the operator's, not the annotation's
    assert only(b, "user_annotation")["name"] == "nccl:reduce_scatter"
    assert json.loads(b.to_json())["distributedInfo"]["rank"] == 1


def test_a_step_leaves_its_copy_on_each_stream_where_asked() -> None:
    b = TraceBuilder(first_step=5, host_us=6, latency_us=2)
    with b.step(gpu=True):
        b.kernel("a", us=10)
        b.kernel("b", us=10)
    with b.step():
        b.idle(us=1)
    copy = only(b, "gpu_user_annotation")
    assert (copy["name"], copy["tid"]) == ("ProfilerStep#5", 7)
    assert times(copy) == (7_999, 28_001)  # 8-18 and 18-28, wider by a ns on either side
    assert [event["name"] for event in events(b, "user_annotation")] == ["ProfilerStep#5", "ProfilerStep#6"]


def test_python_frames_know_their_parents() -> None:
    b = TraceBuilder()
    with b.python("train.py(9): <module>"), b.module("Linear_2"), b.python("model.py(3): forward"):
        b.idle(us=1)
    with b.python("train.py(12): evaluate"):
        b.idle(us=1)
    frames = [event["args"] for event in events(b, "python_function")]
    assert [frame["Python parent id"] for frame in frames] == [None, 1, 2, None]
    assert frames[1]["Python module id"] == 2


def test_memory_keeps_its_totals() -> None:
    b = TraceBuilder()
    b.pool(1000, 4 << 20)
    kept = b.memory(3 << 20)
    b.memory(5 << 20)
    b.release(kept)
    b.memory(64, device=-1)
    root = json.loads(b.to_json())
    seen = [event["args"] for event in root["traceEvents"] if event["name"] == "[memory]"]
    assert [entry["Total Allocated"] for entry in seen] == [1000 + (3 << 20), 1000 + (8 << 20), 1000 + (5 << 20), 64]
    # 8 MiB and 1000 bytes take five blocks of 2 MiB.
    assert [entry["Total Reserved"] for entry in seen] == [4 << 20, 10 << 20, 10 << 20, 0]
    assert [entry["Device Type"] for entry in seen] == [1, 1, 1, 0]
    assert seen[0]["Addr"] == seen[2]["Addr"]


# ---- text


def whole(**options: Any) -> TraceBuilder:
    b = TraceBuilder(**options)
    with b.python("train.py(9): <module>"), b.step(), b.op("aten::mm", shapes=[[2, 2]], us=20):
        b.memory(512)
        b.kernel('quoted "name"\n', us=1.007)
        b.item()
    return b


def test_text_is_json_and_every_time_is_exact() -> None:
    b = TraceBuilder(start_us=5_655_639_633_551)
    b.seek(us=Decimal("0.872"))
    kernel = b.kernel("a", us=Decimal("123.457"))
    text = b.to_json()
    root = json.loads(text, parse_float=Decimal)
    (event,) = [event for event in root["traceEvents"] if event.get("cat") == "kernel"]
    assert (event["ts"] - 5_655_639_633_551) * 1000 == kernel.start_ns
    assert event["dur"] * 1000 == kernel.dur_ns == 123_457
    assert root["baseTimeNanoseconds"] == 1_685_577_600_000_000_000
    assert (
        '    "ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7,\n    "ts": 5655639633559.872, "dur": 123.457,\n'
        in text
    )


def test_the_same_calls_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = whole(), whole()
    assert first.to_bytes() == second.to_bytes() == first.to_bytes()
    packed = first.write(tmp_path / "x.json.gz").read_bytes()
    assert packed == second.to_bytes(gz=True)
    assert packed[4:8] == bytes(4)  # no time of writing
    assert gzip.decompress(packed) == first.write(tmp_path / "x.json").read_bytes()


def test_what_is_switched_off_is_not_in_the_trace() -> None:
    full, bare = (
        json.loads(whole().to_json()),
        json.loads(whole(record_shapes=False, with_stack=False, profile_memory=False).to_json()),
    )
    assert (full["record_shapes"], full["with_stack"], full["profile_memory"]) == (1, 1, 1)
    assert not {"record_shapes", "with_stack", "profile_memory"} & set(bare)
    assert not [event for event in bare["traceEvents"] if event.get("cat") in ("python_function", "cpu_instant_event")]
    assert not [event for event in bare["traceEvents"] if "Input Dims" in event.get("args", {})]


def test_a_device_is_described() -> None:
    root = json.loads(TraceBuilder("Tesla V100-SXM2-16GB", devices=2, memory_gb=1).to_json())
    assert [entry["id"] for entry in root["deviceProperties"]] == [0, 1]
    facts = root["deviceProperties"][0]
    assert (facts["computeMajor"], facts["computeMinor"], facts["numSms"], facts["totalGlobalMem"]) == (
        7,
        0,
        80,
        1 << 30,
    )
    assert "deviceProperties" not in json.loads(TraceBuilder(device=None).to_json())
    b = TraceBuilder()
    b.kernel("a", us=1, grid=(160, 1, 1), block=(512, 1, 1), registers=64)
    arguments = only(b, "kernel")["args"]
    # 160 blocks on 80 SMs; 65,536 registers hold two blocks of 512 threads with 64 each: 1024 of 2048 threads.
    assert (arguments["blocks per SM"], arguments["warps per SM"], arguments["est. achieved occupancy %"]) == (
        2.0,
        32.0,
        50,
    )


def test_on_amd_calls_are_hips() -> None:
    b = whole(device="AMD Instinct MI300X")
    assert [event["name"] for event in events(b, "cuda_runtime")] == ["hipLaunchKernel", "hipMemcpyWithStream"]
    assert only(b, "kernel")["args"]["kind"] == "Dispatch Kernel"
    assert "registers per thread" not in only(b, "kernel")["args"]
    assert "hip_runtime_version" in json.loads(b.to_json())


def test_the_dialect_of_2021() -> None:
    b = whole(dialect="2021")
    root = json.loads(b.to_json())
    timed = [event for event in root["traceEvents"] if event["ph"] == "X"]
    assert {event["cat"] for event in timed} == {"Operator", "Runtime", "Kernel", "Memcpy", "Trace"}
    assert all(isinstance(event[key], int) for event in timed for key in ("ts", "dur"))
    assert min(event["ts"] for event in timed) == 1_685_577_600_000_000 + 1_000_000
    kernel = next(event for event in timed if event["cat"] == "Kernel")
    op = next(event for event in timed if event["name"] == "aten::mm")
    assert (kernel["tid"], op["tid"]) == ("stream 7", "4000")
    assert kernel["args"]["external id"] == op["args"]["External id"]
    assert op["args"]["Call stack"] == "train.py(9): <module>"
    memory = next(event for event in root["traceEvents"] if event["name"] == "[memory]")
    assert set(memory["args"]) == {"Device Type", "Device Id", "Bytes"}
    assert "baseTimeNanoseconds" not in root
    assert isinstance(json.loads(whole(dialect="2021", list_root=True).to_json()), list)


def test_an_event_can_be_given_as_it_stands() -> None:
    b = TraceBuilder()
    b.idle(us=7)
    span = b.event({"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7}, us=3)
    b.event({"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1, "ts": "12", "dur": -1})
    assert (span.start_ns, span.end_ns) == (7_000, 10_000)
    assert times(only(b, "cuda_sync")) == (7_000, 10_000)
    assert only(b, "cpu_op")["ts"] == "12"


@pytest.mark.parametrize("dialect", ["kineto", "2021"])
def test_the_reader_finds_what_was_built(tmp_path: Path, dialect: str) -> None:
    b = TraceBuilder(dialect=dialect, host_us=6, latency_us=2)
    for _ in range(3):
        with b.step(), b.op("aten::relu"):
            b.kernel("a", us=10)
            b.idle(us=50)
    trace = read(str(b.write(tmp_path / "x.json.gz")))
    # Each step is a launch of 6 and 50 of nothing: 56; the kernels run from 8 to 18 in each.
    assert trace.window_ns == 168_000
    assert trace.kernels["start_ns"].tolist() == [8_000, 64_000, 120_000]
    assert trace.kernels["dur_ns"].tolist() == [10_000] * 3
    assert trace.kernels["op"].astype(str).tolist() == ["aten::relu"] * 3
    assert trace.kernels["linked"].all()


# ---- the article's ladder


@pytest.fixture(scope="module")
def ladder() -> Iterator[ModuleType]:
    """build.py under a name of its own: `build` is a package that others may have imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ARTICLE))
        spec = importlib.util.spec_from_file_location("article_build", ARTICLE / "build.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "article_build", module)
        spec.loader.exec_module(module)
        yield module
        for name in ("resnet18", "step", "eager", "compiled"):
            sys.modules.pop(name)


def test_the_article_builds_byte_for_byte(ladder: ModuleType) -> None:
    rows = []
    for rung in ladder.RUNGS:
        built = ladder.build(rung)
        packed = (ARTICLE / rung.file).read_bytes()
        # The deflated bytes are zlib's choice; what they hold is not.
        assert gzip.decompress(packed) == built.to_bytes(), rung.file
        assert len(packed) < 150_000
        root = json.loads(built.to_json())
        assert root["built"] == ladder.LABEL
        rows.append((rung, ladder.measure(root)))
    assert sorted(path.name for path in ARTICLE.glob("*.json.gz")) == [rung.file for rung in ladder.RUNGS]
    shown = (ARTICLE / "README.md").read_text(encoding="utf-8").split(ladder.BEGIN)[1].split(ladder.END)[0]
    assert shown.strip() == ladder.table(rows).strip()
    for rung, found in rows:
        assert 1000 * rung.batch / found["step"] == pytest.approx(rung.samples_s, rel=0.01)
        if rung.utilization is not None:
            assert found["utilization"] == pytest.approx(rung.utilization, abs=0.05)
        if rung.tensor_cores is not None:
            assert found["tensor_cores"] == pytest.approx(rung.tensor_cores, abs=0.05)
    peaks = [found["peak"] for _, found in rows]
    assert max(peaks[:3]) < 1
    assert peaks[3] == pytest.approx(11.3, abs=0.1)
