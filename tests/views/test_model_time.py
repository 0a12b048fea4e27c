"""Time of the models that a program calls. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.analyses import analysis as by_hand
from support.traces import analysis as real

import advisor
from advisor.report import step_time
from advisor.results.analysis import Summary
from advisor.results.model_time import ModelTime
from advisor.testing import TraceBuilder

GEMM = "ampere_sgemm_128x64_nn"


def pipeline(*models: tuple[str, int]) -> TraceBuilder:
    """Three steps; in each every model launches a product of so many us from inside of a layer of its own."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(3):
        with b.step():
            for name, us in models:
                with b.module(f"{name}_0"), b.module("Linear_0"), b.op("aten::mm"):
                    b.kernel(GEMM, us=us)
            b.sync()
    return b


def of(b: TraceBuilder, folder: Path) -> list[tuple[str, float]]:
    summary = advisor.analyze(str(b.write(folder / "trace.json"))).summary
    return [(part.model, round(part.kernel_ms, 1)) for part in summary.model_time]


def test_each_of_several_models_has_its_kernels(tmp_path: Path) -> None:
    assert of(pipeline(("TextEncoder", 2000), ("Transformer", 7000), ("Decoder", 1000)), tmp_path) == [
        ("Transformer", 7.0),
        ("TextEncoder", 2.0),
        ("Decoder", 1.0),
    ]


def test_one_model_beside_next_to_nothing_is_alone(tmp_path: Path) -> None:
    # A loss of 0.1 of 10.1 ms is under a fiftieth.
    assert of(pipeline(("Net", 10_000), ("CrossEntropyLoss", 100)), tmp_path) == []


def test_a_layer_whose_forward_runs_again_is_its_model_s(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(3):
        with b.step():
            for name in ("Net_0", "Critic_0"):
                with b.module("DDP_0"), b.module(name), b.module(f"Linear_{len(name)}"), b.op("aten::mm"):
                    b.kernel(GEMM, us=1000)
            # Activation checkpointing, within the backward pass.
            with b.module("Linear_5"), b.op("aten::mm"):
                b.kernel(GEMM, us=1000)
            b.sync()
    assert of(b, tmp_path) == [("Net", 2.0), ("Critic", 1.0)]


def test_what_wraps_a_model_is_none(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(3):
        with b.step():
            for name in ("Student", "Teacher"):
                with b.module("OptimizedModule_0"), b.module(f"{name}_0"), b.op("aten::mm"):
                    b.kernel(GEMM, us=1000)
            b.sync()
    assert sorted(of(b, tmp_path)) == [("Student", 1.0), ("Teacher", 1.0)]


def test_idle_time_inside_of_a_model_s_call_is_its_own(tmp_path: Path) -> None:
    """Of each step the GPU waits 3 ms inside of the encoder's call, and 1 between the calls: 2 ms behind a kernel of 1."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            with b.module("Encoder_0"):
                b.idle(us=3000)
                with b.op("aten::mm", us=100):
                    b.kernel(GEMM, us=1000)
            b.idle(us=2000)
            with b.module("Decoder_0"), b.op("aten::mm", us=100):
                b.kernel(GEMM, us=4000)
            b.idle(us=4000)
    found = {part.model: part for part in advisor.analyze(str(b.write(tmp_path / "t.json"))).summary.model_time}
    assert found["Encoder"].idle_ms == pytest.approx(3.0, abs=0.2)
    assert found["Decoder"].idle_ms == pytest.approx(0.0, abs=0.2)


def test_idle_time_in_the_backward_pass_is_in_no_call_of_a_model(tmp_path: Path) -> None:
    """Of each step the GPU waits 3 ms in the encoder's call, and 2 in an operator of its backward pass."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for number in range(3):
        with b.step():
            with b.module("Encoder_0"):
                b.idle(us=3000)
                with b.op("aten::mm", us=100, seq=2 * number):
                    b.kernel(GEMM, us=1000)
            with b.module("Decoder_0"), b.op("aten::mm", us=100, seq=2 * number + 1):
                b.kernel(GEMM, us=4000)
            b.idle(us=5000)
            with b.backward("MmBackward0", 2 * number):
                b.idle(us=2000)
                with b.op("aten::mm", us=100):
                    b.kernel(GEMM, us=1000)
            b.idle(us=1000)
    found = {part.model: part for part in advisor.analyze(str(b.write(tmp_path / "t.json"))).summary.model_time}
    assert found["Encoder"].kernel_ms == pytest.approx(2.0, abs=0.01)
    assert found["Encoder"].idle_ms == pytest.approx(3.0, abs=0.2)


def test_idle_time_is_of_the_thread_that_launches_next(tmp_path: Path) -> None:
    """For 3 ms the main thread is in the encoder's call, and launches then; a second one is in the actor's, and launches later."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for number in range(3):
        start = 10_000 * number
        with b.step():
            b.seek(start)
            with b.thread(77, join=False), b.module("Actor_0"):
                b.idle(us=3500)
                with b.op("aten::mm", us=100):
                    b.kernel(GEMM, us=1000, stream=8)
            with b.module("Encoder_0"):
                b.idle(us=3000)
                with b.op("aten::mm", us=100):
                    b.kernel(GEMM, us=1000)
            b.seek(start + 10_000)
    found = {part.model: part for part in advisor.analyze(str(b.write(tmp_path / "t.json"))).summary.model_time}
    assert found["Encoder"].idle_ms == pytest.approx(3.0, abs=0.2)
    assert found["Actor"].idle_ms == pytest.approx(0.0, abs=0.2)


def test_a_loss_is_no_model(tmp_path: Path) -> None:
    assert of(pipeline(("Net", 9_000), ("CrossEntropyLoss", 1000)), tmp_path) == []
    assert of(pipeline(("Net", 8_000), ("LabelSmoothingCriterion", 1000), ("Critic", 1000)), tmp_path) == [
        ("Net", 8.0),
        ("Critic", 1.0),
    ]


def test_a_model_within_a_model_within_a_model_is_the_outermost_one_s(tmp_path: Path) -> None:
    """Each is called by the one around it, and once alone: Trainer calls Net, Net calls Block."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=10, latency_us=0)
    for _ in range(3):
        with b.step():
            for path in (
                ("Trainer_0", "Net_0"),
                ("Net_0", "Block_0"),
                ("Block_0", "Linear_0"),
                ("Teacher_0", "Linear_1"),
            ):
                with b.module(path[0]), b.module(path[1]), b.op("aten::mm"):
                    b.kernel(GEMM, us=1000)
            b.sync()
    assert of(b, tmp_path) == [("Trainer", 3.0), ("Teacher", 1.0)]


def test_reports_say_it_in_a_line() -> None:
    parts = [
        ModelTime(model="Transformer", kernel_ms=171.0, idle_ms=1.0),
        ModelTime(model="CLIPTextModel", kernel_ms=1.25, idle_ms=7.5),
    ]
    summary: Summary = replace(by_hand().summary, model_time=parts)
    assert step_time.models(summary) == "Models: Transformer 172 ms, CLIPTextModel 8.75 ms (7.50 ms of it idle)."
    assert step_time.models(replace(summary, model_time=parts[:1])) == ""


def test_text_encoders_of_a_diffusion_pipeline_are_told() -> None:
    # By the raw file: kernels launched in T5's and CLIP's calls, 23.5 and 1.3 ms, and idle time in these, 5.0 and 7.5 ms.
    found = {part.model: (part.kernel_ms, part.idle_ms) for part in real("audited/mi300_xdit_flux").summary.model_time}
    assert found["T5EncoderModel"] == (pytest.approx(23.5, rel=0.02), pytest.approx(5.0, rel=0.05))
    assert found["CLIPTextModel"] == (pytest.approx(1.3, rel=0.02), pytest.approx(7.5, rel=0.05))
