"""The ends of a recording, worked out by hand: work of before and the tail behind the last belong to no step. Times in us."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.raw_events import host, kernel, launch, op, read, step

import advisor
from advisor.testing import TraceBuilder
from advisor.trace import Trace
from advisor.trace import read as read_file

CUDA, ROCM = "Tesla V100-SXM2-16GB", "AMD Instinct MI300X"
both = pytest.mark.parametrize("device", [CUDA, ROCM])


def builder(device: str = CUDA) -> TraceBuilder:
    return TraceBuilder(device, host_us=0, latency_us=0)


def api(device: str, name: str) -> str:
    return name.replace("cuda", "hip") if device == ROCM else name


def trace_of(b: TraceBuilder, folder: Path) -> Trace:
    return read_file(str(b.write(folder / "trace.json")))


def work(b: TraceBuilder, us: int = 1000) -> None:
    with b.op("aten::mm", us=us):
        b.kernel("gemm", us=us)


def ends(trace: Trace, *, host: bool = False) -> tuple[int, int, int]:
    """Us of before, of what is steady, and of after. The three make up the window; of the *host*, its span."""
    causes = trace.ledger.of_extent()
    recording = trace.context.recording
    low, high = recording.extent
    assert (recording.extent != recording.window) == host
    assert sum(causes.values()) == high - low
    counted = trace.ledger.counted_ns
    outside = trace.ledger.through("before", "after")
    assert (trace.ledger.step[outside] == -1).all()
    assert not trace.ledger.counted[outside].any()
    return causes["before"] // 1000, counted // 1000, causes["after"] // 1000


# ---- before


@both
def test_a_first_synchronization_drains_what_was_queued_before(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step():
        b.call(api(device, "cudaDeviceSynchronize"), 13_000)
        work(b)
    with b.step():
        work(b)
    trace = trace_of(b, tmp_path)
    assert ends(trace) == (13_000, 2000, 0)
    assert trace.window_ns == 15_000_000
    assert trace.context.step_ns == 1_000_000


@both
def test_a_small_blocking_copy_behind_work_that_is_not_recorded(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step():
        work(b, 100)
        b.copy("DtoH", nbytes=60, us=2, latency_us=463_000)
        work(b)
    with b.step():
        work(b)
    trace = trace_of(b, tmp_path)
    # The copy begins when the device is done with what the trace does not hold, 463.1 ms after the start.
    before, steady, after = ends(trace)
    assert (before, after) == (463_100, 0)
    assert steady == pytest.approx(2000, abs=10)


@both
def test_a_large_pageable_copy_is_staged_meanwhile(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step():
        # 64 MB staged at 1 GB/s or faster take up to 64 ms.
        b.copy("HtoD", nbytes=64_000_000, us=6000, latency_us=30_000)
        work(b)
    assert ends(trace_of(b, tmp_path))[0] == 0


@both
def test_a_wait_behind_recorded_work_drains_nothing(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step():
        b.kernel("gemm", us=20_000)
        b.sync()
        work(b)
    assert ends(trace_of(b, tmp_path)) == (0, 21_000, 0)


@both
def test_a_short_wait_far_behind_the_beginning_drains_nothing(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step():
        with b.loader(ms=300):
            pass
        b.call(api(device, "cudaStreamSynchronize"), 400)
        work(b)
    assert ends(trace_of(b, tmp_path))[0] == 0


def test_a_wait_of_less_than_a_tenth_of_a_ms_drains_nothing(tmp_path: Path) -> None:
    b = builder()
    with b.step():
        b.call("cudaDeviceSynchronize", 99)
        work(b)
    assert ends(trace_of(b, tmp_path))[0] == 0


@both
def test_unlinked_kernels_while_the_host_runs_ahead(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step():
        for _ in range(3):
            b.kernel("gemm_of_before", us=5000, launched=False)
        for _ in range(10):
            with b.op("aten::mm", us=10):
                b.kernel("gemm", us=1000)
    # Launched within 0.1 ms, run behind what was queued: 15 ms of before, 10 of the step.
    assert ends(trace_of(b, tmp_path)) == (15_000, 10_000, 0)


def test_a_stray_kernel_that_opens_the_window(tmp_path: Path) -> None:
    b = builder()
    b.kernel("stray", us=5, launched=False)
    b.idle(us=80_000)
    for _ in range(20):
        work(b)
    # Without steps the window begins with it; the program with its own first launch.
    assert ends(trace_of(b, tmp_path)) == (80_000, 20_000, 0)


def test_where_most_work_is_unlinked_the_links_say_nothing(tmp_path: Path) -> None:
    b = builder()
    for _ in range(8):
        b.kernel("gemm", us=1000, launched=False)
    b.seek(us=8000)
    work(b)
    assert ends(trace_of(b, tmp_path)) == (0, 9000, 0)


# ---- after


@both
def test_the_tail_of_the_only_step(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.step(us=100_000):
        work(b, 10_000)
    assert ends(trace_of(b, tmp_path)) == (0, 10_000, 90_000)


@both
def test_the_tail_of_the_last_step_that_the_others_lack(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for us in (0, 0, 0, 90_000):
        with b.step(us=us):
            work(b, 10_000)
    trace = trace_of(b, tmp_path)
    assert ends(trace) == (0, 40_000, 80_000)
    assert trace.context.step_ns == 10_000_000


@both
def test_a_tail_as_every_step_has_it_is_part_of_the_step(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for _ in range(4):
        with b.step(us=30_000):
            work(b, 10_000)
    assert ends(trace_of(b, tmp_path)) == (0, 120_000, 0)


def test_a_tail_of_under_a_ms_stays(tmp_path: Path) -> None:
    b = builder()
    with b.step(us=10_999):
        work(b, 10_000)
    assert ends(trace_of(b, tmp_path)) == (0, 10_999, 0)


def test_python_of_the_program_is_no_tail(tmp_path: Path) -> None:
    b = builder()
    with b.step(), b.python("detect.py(9): main"):
        work(b, 10_000)
        with b.python("detect.py(40): suppress_overlaps", us=60_000):
            pass
        b.idle(us=10)
    # The function's 60 ms are the step's; the frame around it goes on to the end either way.
    assert ends(trace_of(b, tmp_path))[2] == 0


def test_what_the_profiler_does_at_the_end_is_the_tail() -> None:
    frame = host("python_function", "torch/profiler/profiler.py(790): step", 10_000, 89_000)
    events = [step(0, 0, 100_000), op("aten::mm", 0, 10_000), launch(1, 1), kernel(10, 9_990, 1), frame]
    assert ends(read(events)) == (0, 10_000, 90_000)


def test_an_evaluation_behind_the_last_step_is_after(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.step():
            work(b)
    b.idle(us=10)
    work(b, 7000)
    assert ends(trace_of(b, tmp_path)) == (0, 3000, 7010)


# ---- the host's span


@both
def test_a_program_with_one_kernel_is_not_that_kernel(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for _ in range(49):
        with b.op("aten::randn", us=1000):
            pass
    b.kernel("fill", us=3)
    with b.op("aten::randn", us=600):
        pass
    trace = trace_of(b, tmp_path)
    assert trace.window_ns == 3000
    low, high = trace.context.recording.extent
    assert high - low == 49_600_000
    assert sum(trace.ledger.of_extent().values()) == 49_600_000


def test_a_host_of_up_to_twice_the_window_leaves_it(tmp_path: Path) -> None:
    b = builder()
    with b.op("aten::randn", us=1000):
        pass
    work(b)
    recording = trace_of(b, tmp_path).context.recording
    assert recording.extent == recording.window


def test_a_wait_is_no_work_of_the_host(tmp_path: Path) -> None:
    b = builder()
    b.kernel("fill", us=3)
    b.call("cudaDeviceSynchronize", 50_000)
    recording = trace_of(b, tmp_path).context.recording
    assert recording.extent == recording.window


def test_steps_leave_the_window_as_it_is(tmp_path: Path) -> None:
    b = builder()
    with b.step():
        with b.op("aten::randn", us=50_000):
            pass
        b.kernel("fill", us=3)
    recording = trace_of(b, tmp_path).context.recording
    assert recording.extent == recording.window


@both
@pytest.mark.parametrize("call", ["cudaFree", "cudaStreamDestroy", "cudaModuleUnload", "cuModuleUnload"])
def test_a_program_that_is_taken_down_did_its_work_before(device: str, call: str, tmp_path: Path) -> None:
    # 50 ms of operators and a kernel of 3 us, then Python for 56 ms, and two calls of 4 ms that give back what it held.
    b = builder(device)
    with b.op("aten::randn", us=50_000):
        pass
    b.kernel("fill", us=3)
    b.idle(us=56_000)
    b.call(api(device, call), 4_000)
    b.call(api(device, call), 4_000)
    trace = trace_of(b, tmp_path)
    # The kernel runs in the first 3 us of the 56 ms.
    assert ends(trace, host=True) == (0, 50_003, 63_997)


@both
def test_memory_that_is_given_back_before_other_work_is_part_of_the_program(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.op("aten::randn", us=50_000):
        pass
    b.kernel("fill", us=3)
    b.call(api(device, "cudaFree"), 4_000)
    with b.op("aten::randn", us=6_000):
        pass
    before, _, after = ends(trace_of(b, tmp_path), host=True)
    assert (before, after) == (0, 0)


def test_taking_a_program_down_makes_it_no_program_of_the_host(tmp_path: Path) -> None:
    b = builder()
    work(b)
    b.call("cudaFree", 50_000)
    recording = trace_of(b, tmp_path).context.recording
    assert recording.extent == recording.window


@both
def test_what_follows_the_last_step_only_to_take_the_program_down(device: str, tmp_path: Path) -> None:
    # The tail of the last step is its own where the program goes on behind it: a call that frees is not that.
    b = builder(device)
    for us in (0, 0, 0, 90_000):
        with b.step(us=us):
            work(b, 10_000)
    b.idle(us=10)
    b.call(api(device, "cudaFree"), 4_000)
    assert ends(trace_of(b, tmp_path)) == (0, 40_000, 80_000)
    b = builder(device)
    for us in (0, 0, 0, 90_000):
        with b.step(us=us):
            work(b, 10_000)
    with b.op("aten::randn", us=4_000):
        pass
    assert ends(trace_of(b, tmp_path))[1:] == (120_000, 0)


def test_a_thread_that_shows_nothing_is_not_said_to_be_in_python(tmp_path: Path) -> None:
    b = builder()
    work(b, 100)
    b.idle(us=18_500)
    work(b, 100)
    found = advisor.analyze(trace_of(b, tmp_path)).headline
    assert found is not None
    assert "most in no recorded operator" in found.text
    assert "in Python outside" not in found.text


def test_work_of_no_call_is_told_apart_from_work_of_before(tmp_path: Path) -> None:
    """Of 50 ms, 20 have no launch: 10 of them begin before any work that has one, 10 between two such pieces."""
    b = TraceBuilder()
    for linked in (False, True, True, False, True):
        b.kernel("volta_sgemm_128x64_nn", ms=10, launched=linked)
    found = read_file(str(b.write(tmp_path / "t.json"))).facts
    assert (found["unlinked_share"], found["unlinked_inside_share"]) == (pytest.approx(0.4), pytest.approx(0.2))
