"""What a recording does not explain: queued work, full queues, a silent host, another process. Times in us, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.raw_events import Event, host, op, read

import advisor
from advisor.report.causes import meaning
from advisor.testing import TraceBuilder
from advisor.timeline.unexplained import silent
from advisor.trace import Trace


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return advisor.read(str(builder.write(folder / "trace.json")))


def work(b: TraceBuilder, us: float) -> None:
    with b.op("aten::mm"):
        b.kernel("gemm", us=us)


def device_event(name: str, start: float, dur: float, **args: object) -> Event:
    return {
        "ph": "X",
        "cat": "mtia_ccp_events",
        "name": name,
        "pid": 9,
        "tid": 4,
        "ts": start,
        "dur": dur,
        "args": args,
    }


# ---- launches behind a full queue


def queued(launches: int) -> TraceBuilder:
    """A replay that lacks its work, then many launches of what starts at 10 ms, then one that takes 3 ms; 100 us of work before."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=1, latency_us=0)
    with b.step():
        b.kernel("first", us=100)
        b.graph([])
        for _ in range(launches):
            b.kernel("mul", us=1, at_us=10_000)
        b.kernel("mul", us=1, host_us=3_000, at_us=12_000)
        b.seek(us=13_000)
    return b


@pytest.mark.parametrize(("launches", "host_ns"), [(1_000, 0), (700, 3_000_000)])
def test_a_launch_that_waits_for_room_in_the_queue_does_not_keep_the_device_waiting(
    launches: int, host_ns: int, tmp_path: Path
) -> None:
    trace = trace_of(queued(launches), tmp_path)
    assert trace.context.graphs_underrecorded
    assert trace.ledger.by_cause()["host"] == host_ns + 1_000  # before the first work: its launch


def test_where_replays_lack_work_no_busy_share_is_claimed(tmp_path: Path) -> None:
    trace = trace_of(queued(1_000), tmp_path)
    found = advisor.analyze(trace)
    assert not found.summary.replays_whole
    assert found.summary.gpu_busy_share is None
    assert trace.frame("trace")[["busy_share", "idle_share"]].isna().all(axis=None)
    assert meaning("unknown", found.summary) == "not recorded: work of graph replays, or idle"
    assert found.headline is not None
    assert "the GPU idles, or runs unrecorded replays" in found.headline.text
    assert found.headline.text.endswith("First, record without CUDA graphs, to see what they run.")
    assert "gpu-idle/unexplained" in {verdict.rule for verdict in found.verdicts.not_applicable}


def test_where_they_are_whole_it_is(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=1, latency_us=0)
    with b.step():
        b.graph([("part", 999)])  # launched in 1 us, the step's 1,000
    found = advisor.analyze(trace_of(b, tmp_path))
    assert found.summary.replays_whole
    assert found.summary.gpu_busy_share == pytest.approx(0.999)


# ---- work that names no launch


def transfers(op_name: str) -> Trace:
    """Two products on an accelerator, between them an operator of 800 us in which a transfer of 10 runs that names no launch."""
    return read(
        [
            host("user_annotation", "ProfilerStep#1", 0, 1_200),
            op("aten::mm", 0, 100),
            host("mtia_runtime", "runFunction", 10, 80, correlation=1),
            device_event("fc", 100, 100, correlation=1, stream=1),
            op(op_name, 200, 800),
            device_event("dma_request", 600, 10, direction="HOST_TO_DEVICE", size=8),
            op("aten::mm", 1_000, 100),
            host("mtia_runtime", "runFunction", 1_010, 80, correlation=2),
            device_event("fc", 1_100, 100, correlation=2, stream=1),
        ],
        deviceProperties=[],
    )


def test_idle_before_a_transfer_of_unknown_launch_is_told_by_what_follows() -> None:
    # 400 and 490 us of idle between the products: the second was launched behind them, so the host kept the device waiting.
    trace = transfers("aten::_copy_from")
    causes = trace.ledger.by_cause()
    assert causes["host"] == 890_000 + 100_000  # and the launch of the first
    assert causes["unknown"] == 0
    assert trace.gaps.groupby("op", observed=True)["cost_ns"].sum()["aten::_copy_from"] == 890_000


def test_an_operator_in_which_the_device_moves_data_does_not_compute_on_the_cpu() -> None:
    assert transfers("aten::fill_").ledger.by_cause()["operator"] == 0


# ---- a host of which nothing was recorded


def paused(us: int, *, stack: str | None = None, annotation: str | None = None) -> TraceBuilder:
    b = TraceBuilder(host_us=10, latency_us=0)
    work(b, 100)
    if annotation:
        with b.annotation(annotation):
            b.idle(us=us)
    elif stack:
        with b.python(stack):
            b.idle(us=us)
    else:
        b.idle(us=us)
    work(b, 100)
    return b


def silence(b: TraceBuilder, folder: Path) -> tuple[int, float | None, str, str]:
    """The host's idle ns, what of it is said to be without events in ms, the ledger's line, and the headline."""
    trace = trace_of(b, folder)
    found = advisor.analyze(trace)
    assert found.headline is not None
    said = meaning("host", found.summary)
    return trace.ledger.by_cause()["host"], found.summary.silent_ms, said, found.headline.text


def test_a_stretch_without_any_event_is_not_said_to_be_python(tmp_path: Path) -> None:
    # The device idles from 110, where its first work ends, to 5,020, where the second is launched; from 10 to 5,010 the host
    # shows nothing.
    host_ns, silent_ms, line, text = silence(paused(5_000), tmp_path)
    assert (host_ns, silent_ms) == (4_910_000, pytest.approx(4.9))
    assert line == "idle: the host; 4.90 ms without any event of it"
    assert "the GPU waits for the host, most in no recorded operator (4.9 ms)" in text


def test_a_short_one_is(tmp_path: Path) -> None:
    host_ns, silent_ms, line, text = silence(paused(999), tmp_path)
    assert (host_ns, silent_ms, line) == (909_000, None, "idle: Python and launches")
    assert "the GPU waits for Python and launches" in text


@pytest.mark.parametrize("known", [{"stack": "train.py(5): log"}, {"annotation": "Optimizer.step#SGD.step"}])
def test_stacks_and_an_optimizer_tell_what_the_host_did(known: dict[str, str], tmp_path: Path) -> None:
    b = paused(5_000, **known)
    assert silent(trace_of(b, tmp_path).context.recording).length == 0
    host_ns, silent_ms, line, _ = silence(b, tmp_path)
    assert (host_ns, silent_ms, line) == (4_910_000, None, "idle: Python and launches")


def test_a_range_of_the_users_does_not(tmp_path: Path) -> None:
    assert silence(paused(5_000, annotation="## backward ##"), tmp_path)[1] == pytest.approx(4.9)


def test_where_less_is_silent_both_are_said(tmp_path: Path) -> None:
    # 2 ms of silence, and 8 of an operator that launches at its end.
    b = paused(2_000)
    with b.op("aten::index_put_", us=8_000):
        pass
    b.idle(us=100)
    with b.annotation("Optimizer.step#SGD.step"):
        b.idle(us=6_000)
    work(b, 100)
    _, silent_ms, line, _ = silence(b, tmp_path)
    assert silent_ms == pytest.approx(1.9)
    assert line == "idle: Python and launches; 1.90 ms without any event of it"


def test_of_a_device_that_was_not_recorded_the_host_is_not_said_to_work(tmp_path: Path) -> None:
    b = TraceBuilder(None, with_stack=False)
    with b.step():
        with b.op("aten::cudnn_convolution", us=4_000):
            pass
        b.idle(us=5_000)
        with b.op("aten::cudnn_convolution", us=1_000):
            pass
    host_ns, silent_ms, line, text = silence(b, tmp_path)
    assert (host_ns, silent_ms) == (10_000_000, pytest.approx(5))
    assert line == "idle: the host; 5.00 ms without any event of it"
    assert "for 100 % of the 10 ms step the host works or shows nothing" in text


def test_work_that_was_queued_is_named_where_no_call_holds_the_host(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step(), b.op("aten::mm"):
        b.kernel("gemm", us=100)
        b.kernel("gemm", us=100, at_us=900)  # launched at 10, and begun 890 later
        b.kernel("gemm", us=1)
    found = advisor.analyze(trace_of(b, tmp_path)).headline
    assert found is not None
    assert "most in front of queued work (790 µs)" in found.text


# ---- steps of another process


def step_of(pid: int, **tid: int) -> Event:
    return host("user_annotation", "ProfilerStep#1", 0, 13_000) | {"pid": pid} | tid


def program(*more: Event) -> Trace:
    return read(
        [
            *more,
            op("aten::mm", 0, 1_000),
            host("cuda_runtime", "cudaLaunchKernel", 900, 100, correlation=1),
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1_000, "dur": 500,
             "args": {"device": 0, "stream": 7, "correlation": 1}},
        ]
    )  # fmt: skip


def test_a_step_of_another_process_is_said() -> None:
    own = op("aten::mm", 0, 1)["pid"]
    assert isinstance(own, int)
    other = program(step_of(own + 1))
    assert [note.code for note in other.quality if note.code == "other-process"] == ["other-process"]
    same = program(step_of(own, tid=77))  # another thread of the same
    assert (same.steps_recorded, "other-process" in {note.code for note in same.quality}) == (1, False)
