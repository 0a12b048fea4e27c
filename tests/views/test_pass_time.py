"""A training step's time by its passes. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.analyses import analysis as by_hand
from support.traces import analysis as real

import advisor
from advisor.report import step_time
from advisor.results.analysis import Summary
from advisor.results.pass_time import PassTime
from advisor.testing import TraceBuilder

GEMM = "ampere_sgemm_128x64_nn"


def training(*, sync: bool = True) -> TraceBuilder:
    """Four steps: kernels of 1000 us, 2000 in the backward pass, and 100 in the optimizer, 400 us after its step began."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, us=1000)
            with b.op("autograd::engine::evaluate_function: MmBackward0"), b.op("MmBackward0"), b.op("aten::mm"):
                b.kernel(GEMM, us=2000)
            if sync:
                b.sync()
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_"):
                b.idle(us=400)
                b.kernel("vectorized_elementwise_kernel", us=100)
            b.sync()
    return b


def of(b: TraceBuilder, folder: Path) -> dict[str, PassTime]:
    summary = advisor.analyze(str(b.write(folder / "trace.json"))).summary
    assert sum(part.ms for part in summary.pass_time) == pytest.approx(summary.whole_ms)
    return {part.name: part for part in summary.pass_time}


def test_work_is_of_the_pass_that_launched_it_and_idle_time_of_that_which_the_host_is_in(tmp_path: Path) -> None:
    passes = of(training(), tmp_path)
    assert passes["forward"].ms == pytest.approx(1.0, abs=0.02)
    assert passes["backward"].ms == pytest.approx(2.0, abs=0.02)
    assert passes["optimizer"].ms == pytest.approx(0.5, abs=0.02)
    assert passes["optimizer"].idle_ms == pytest.approx(0.4, abs=0.02)
    assert passes["optimizer"].host_ms == pytest.approx(0.41, abs=0.01)


def test_metrics_are_no_part_of_the_forward_pass(tmp_path: Path) -> None:
    """In a range of metrics the host works for 300 us, then 500 us of a kernel; what the model launches is forward as before."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, us=1000)
            with b.op("autograd::engine::evaluate_function: MmBackward0"), b.op("MmBackward0"), b.op("aten::mm"):
                b.kernel(GEMM, us=2000)
            b.sync()
            with b.annotation("## metrics compute ##"), b.op("aten::div"):
                b.idle(us=300)
                b.kernel("vectorized_elementwise_kernel", us=500)
            b.sync()
    passes = of(b, tmp_path)
    assert passes["forward"].ms == pytest.approx(1.0, abs=0.02)
    assert (passes["metrics"].ms, passes["metrics"].idle_ms) == (
        pytest.approx(0.8, abs=0.02),
        pytest.approx(0.3, abs=0.02),
    )


def test_metrics_of_a_real_trace_are_told_from_its_forward_pass() -> None:
    """By the raw file `## forward ##` takes 2,527 ms, and four ranges of metrics 739 ms behind the optimizer."""
    passes = {part.name: part for part in real("audited/mtia_inference_rank0").summary.pass_time}
    assert passes["forward"].ms == pytest.approx(2_527, rel=0.01)
    assert passes["metrics"].ms == pytest.approx(739, rel=0.01)


def test_what_the_host_does_beside_the_device_is_told_apart(tmp_path: Path) -> None:
    """Without a wait before them the optimizer's 400 us lie beside kernels: it is 0.1 ms of the step, and 0.41 of the host."""
    optimizer = of(training(sync=False), tmp_path)["optimizer"]
    assert (optimizer.ms, optimizer.idle_ms) == (pytest.approx(0.1, abs=0.01), 0.0)
    assert optimizer.host_ms == pytest.approx(0.41, abs=0.01)


def test_inference_has_one_pass_and_so_none(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(3):
        with b.step(), b.op("aten::mm"):
            b.kernel(GEMM, us=1000)
    assert of_none(b, tmp_path) == []


def of_none(b: TraceBuilder, folder: Path) -> list[PassTime]:
    return advisor.analyze(str(b.write(folder / "trace.json"))).summary.pass_time


def told(*parts: PassTime, step: float = 100.0) -> str:
    summary: Summary = replace(by_hand().summary, pass_time=list(parts), steady_ms=step)
    return step_time.passes(summary)


def test_idle_time_work_again_and_the_hosts_time_are_said_where_they_are_much() -> None:
    forward = PassTime(name="forward", ms=30.0, idle_ms=5.0, host_ms=31.0)
    backward = PassTime(name="backward", ms=60.0, idle_ms=15.0, host_ms=20.0, again_ms=12.0)
    optimizer = PassTime(name="optimizer", ms=1.5, idle_ms=0.0, host_ms=20.0)
    zero = PassTime(name="zero_grad", ms=1.0, idle_ms=1.0, host_ms=1.0)
    assert told(forward, backward, optimizer, zero) == (
        "passes: forward 30.0 ms, backward 60.0 ms (15.0 ms idle, 12.0 ms forward again), optimizer 1.50 ms (20.0 ms on the CPU)"
    )
    assert told(forward) == ""
    thinned = replace(by_hand().summary, pass_time=[backward, optimizer], steady_ms=100.0, taken_out_share=0.5)
    assert "backward 60.0 ms (15.0 ms idle or taken out, 12.0 ms forward again)" in step_time.passes(thinned)


def test_in_brief_the_hosts_time_is_said_where_it_is_several_times_the_devices() -> None:
    forward = PassTime(name="forward", ms=30.0, idle_ms=5.0, host_ms=80.0)
    optimizer = PassTime(name="optimizer", ms=1.5, idle_ms=0.0, host_ms=20.0)
    zero = PassTime(name="zero_grad", ms=4.0, idle_ms=4.0, host_ms=4.0)
    unknown = PassTime(name="backward", ms=60.0, idle_ms=1.0, host_ms=None)
    summary: Summary = replace(by_hand().summary, pass_time=[forward, unknown, optimizer, zero], steady_ms=100.0)
    assert step_time.passes(summary, brief=True) == (
        "passes: forward 30.0 ms, backward 60.0 ms, optimizer 1.50 ms (host 20.0 ms), zero_grad 4.00 ms"
    )
    assert "zero_grad" not in step_time.passes(summary, brief=True, least=0.05)


def test_where_replays_lack_work_nobody_knows_what_is_idle() -> None:
    assert real("audited/a100_dlrm_rank0of16").summary.pass_time == []


def test_ranges_of_a_real_program_come_to_what_its_host_was_in() -> None:
    """Of shampoo's step the audit counts 223 ms in the backward's range and 222 in the optimizer's."""
    host = {part.name: part.host_ms for part in real("audited/a100_dlrm_shampoo_rank1of128").summary.pass_time}
    assert host["backward"] == pytest.approx(223, rel=0.1)
    assert host["optimizer"] == pytest.approx(222, rel=0.02)


@pytest.mark.real
def test_of_a_host_that_is_steps_ahead_nobody_tells_its_time_in_a_step() -> None:
    """The device works on the first step from 30.4 ms on, when the host has launched two of three; then the host waits 37.8."""
    passes = real("mi300_resnet_ddp_checkpointing").summary.pass_time
    assert {part.name for part in passes} >= {"forward", "backward"}
    assert all(part.host_ms is None for part in passes)


def test_what_autograds_engine_does_between_its_nodes_is_of_the_backward_pass(tmp_path: Path) -> None:
    """Two gradients that meet are added in the engine's thread, in no node: 500 us of the backward pass, which lasts 2500."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", seq=1):
                b.kernel(GEMM, us=1000)
            with b.thread(2):
                with b.backward("MmBackward0", 1), b.op("aten::mm"):
                    b.kernel(GEMM, us=1000)
                with b.op("aten::add"):
                    b.idle(us=1500)
                    b.kernel("vectorized_elementwise_kernel", us=500)
                with b.backward("MmBackward0", 1), b.op("aten::mm"):
                    b.kernel(GEMM, us=1000)
            b.sync()
    passes = of(b, tmp_path)
    assert passes["forward"].ms == pytest.approx(1.0, abs=0.02)
    assert passes["backward"].ms == pytest.approx(2.5, abs=0.02)
    assert passes["backward"].host_ms == pytest.approx(1.53, abs=0.01)


def test_the_forward_pass_between_two_backward_passes_of_one_thread_is_its_own(tmp_path: Path) -> None:
    """Gradients are accumulated over two passes, all in one thread: 1000 us forward twice, 2000 us backward twice."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(4):
        with b.step():
            for _ in range(2):
                with b.op("aten::mm", seq=1):
                    b.kernel(GEMM, us=900)
                with b.op("aten::argmax"):
                    b.kernel("reduce_kernel", us=100)
                with b.backward("MmBackward0", 1), b.op("aten::mm"):
                    b.kernel(GEMM, us=2000)
            b.sync()
    passes = of(b, tmp_path)
    assert passes["forward"].ms == pytest.approx(2.0, abs=0.02)
    assert passes["backward"].ms == pytest.approx(4.0, abs=0.02)


def test_work_without_a_launch_is_of_the_pass_around_it_else_of_none(tmp_path: Path) -> None:
    """300 us lie between kernels of the backward pass, 200 between its last and the optimizer's."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, us=1000)
            for name, lost in (("MmBackward0", 300), ("MulBackward0", 200)):
                with b.backward(name, 1), b.op("aten::mm"):
                    b.kernel(GEMM, us=1000)
                b.kernel("lost", us=lost, launched=False)
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_"):
                b.kernel("vectorized_elementwise_kernel", us=100)
            b.sync()
    passes = of(b, tmp_path)
    assert passes["forward"].ms == pytest.approx(1.0, abs=0.02)
    assert passes["backward"].ms == pytest.approx(2.3, abs=0.02)
    assert passes["between"].ms == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize(
    ("path", "forward", "backward"),
    [("v100_resnet50_workers0", 206.86, 386.39), ("audited/v100_resnet50_workers4_b", 215.18, 388.08)],
)
def test_kernels_of_a_real_program_are_divided_as_in_the_raw_file(path: str, forward: float, backward: float) -> None:
    """Those that autograd's thread launched come to *backward* ms over all steps, 18.8 of them outside its nodes."""
    busy = {part.name: part.ms - part.idle_ms for part in real(path).summary.pass_time}
    assert busy["backward"] / busy["forward"] == pytest.approx(backward / forward, rel=0.01)
