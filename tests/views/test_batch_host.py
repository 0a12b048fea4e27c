"""The host's work in a batch of a serving engine, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report import Options, render
from advisor.testing import TraceBuilder

GEMM = "ampere_sgemm_128x64_nn"
RUNNER = "vllm/v1/worker/gpu_model_runner.py"


def test_a_batch_is_divided_by_the_calls_that_it_is_made_of(tmp_path: Path) -> None:
    """Of 1000 us 200 in preparing, 700 in the model, of which two layers take 300 each, 100 in sampling; its wait is none of it."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(3):
        with (
            b.annotation("execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk400sqsq4sqsk400)"),
            b.python("torch/utils/_contextlib.py(117): decorate_context"),
            b.python(f"{RUNNER}(3380): execute_model"),
        ):
            with b.python(f"{RUNNER}(1518): _prepare_inputs"):
                b.idle(us=200)
            with b.python(f"{RUNNER}(3102): _model_forward"):
                for number in range(2):
                    with b.python(f"nn.Module: Block_{number}"), b.op("aten::mm"):
                        b.idle(us=300)
                        b.kernel(GEMM, us=5000)
                b.idle(us=100)
            with b.python(f"{RUNNER}(3500): sample"):
                b.idle(us=100)
                b.sync()
    made = advisor.analyze(str(b.write(tmp_path / "trace.json")))
    parts = {part.where: (part.kind, round(part.share, 2)) for part in made.summary.batch_host}
    assert parts == {
        "aten::mm": ("operator", 0.6),
        f"{RUNNER}:1518 _prepare_inputs": ("function", 0.2),
        f"{RUNNER}:3500 sample": ("function", 0.1),
        "": ("others", 0.1),
    }
    assert sum(part.ms for part in made.summary.batch_host) == pytest.approx(1.0, abs=0.02)
    told = "CPU of a batch 1.00 ms: aten::mm 60 %, gpu_model_runner.py:1518 _prepare_inputs 20 %"
    assert told in " ".join(render("text", made, Options(width=120)).decode().split())


def test_what_a_context_manager_runs_is_named_in_place_of_contextlib(tmp_path: Path) -> None:
    """300 of 1000 us are in entering a context, which its generator's body takes; torch's dispatch around an operator is none."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(3):
        with (
            b.annotation("execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk400sqsq4sqsk400)"),
            b.python(f"{RUNNER}(3380): execute_model"),
        ):
            with (
                b.python("contextlib.py(132): __enter__"),
                b.python("diffusers/models/cache_utils.py(154): cache_context"),
                b.python("diffusers/hooks/hooks.py(268): _set_context"),
            ):
                b.idle(us=300)
            with b.python("torch/_ops.py(1128): __call__"), b.python(f"{RUNNER}(3500): sample"):
                b.idle(us=300)
            with b.python(f"{RUNNER}(1518): _prepare_inputs"):
                b.idle(us=400)
    made = advisor.analyze(str(b.write(tmp_path / "trace.json")))
    assert {part.where: round(part.share, 2) for part in made.summary.batch_host} == {
        f"{RUNNER}:1518 _prepare_inputs": 0.4,
        "diffusers/models/cache_utils.py:154 cache_context": 0.3,
        f"{RUNNER}:3500 sample": 0.3,
    }


def test_a_program_without_batches_or_captures_has_none() -> None:
    assert real("audited/mi300_vit_batch1").summary.batch_host == []


def test_a_replayed_engine_says_what_its_host_does() -> None:
    """By the raw file: _prepare_inputs 0.647 of 2.41 ms, _model_forward 0.535, _update_states 0.265, compute_logits 0.185."""
    made = real("mi300_vllm_graph_replay").summary.batch_host
    ms = {part.where.rpartition(" ")[2]: part.ms for part in made}
    assert ms["_prepare_inputs"] == pytest.approx(0.647, abs=0.002)
    assert ms["_model_forward"] == pytest.approx(0.535, abs=0.002)
    assert ms["_update_states"] == pytest.approx(0.265, abs=0.002)
    assert sum(part.ms for part in made) == pytest.approx(2.41, abs=0.02)


def test_small_wrappers_of_a_real_engine_are_among_the_others() -> None:
    """_must_dispatch_in_python, a profiler's __exit__ and __torch_function__ take less than 2 % each, and say nothing."""
    made = real("mi300_sglang_decode").summary.batch_host
    assert not [part.where for part in made if "(" in part.where]
    assert made[-1].kind == "others"
    assert sum(part.share for part in made) == pytest.approx(1.0)


def test_contexts_of_a_real_pipeline_are_named_by_their_bodies() -> None:
    """By the raw file contextlib's __enter__ and __exit__ take 27.4 and 27.2 ms, nearly all of it in cache_context."""
    ms = {part.where: part.ms for part in real("audited/mi300_xdit_flux").summary.batch_host}
    assert ms["diffusers/models/cache_utils.py:154 cache_context"] == pytest.approx(27.43, abs=0.02)
    assert ms["diffusers/models/cache_utils.py:162 cache_context"] == pytest.approx(27.22, abs=0.02)
