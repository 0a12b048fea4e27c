"""Figures of the phases of a serving engine, worked out by hand on built traces."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import real_trace

import advisor
from advisor.report.phases import rows, sentence
from advisor.testing import TraceBuilder
from advisor.views.phases import phases_of


def test_prefill_and_decode_have_figures_of_their_own(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=5, latency_us=2)
    with b.annotation("execute_context_1(100_10000)_generation_0(0)"):
        b.kernel("sgemm_128x64_nn", us=400)
        b.kernel("flash_fwd_kernel", us=100)
    b.sync()
    for _ in range(2):
        with b.annotation("execute_context_0(0)_generation_4(4)"):
            b.kernel("sgemm_128x64_nn", us=60)
            b.kernel("flash_fwd_kernel", us=30)
            b.kernel("moe_align_block_size_kernel", us=10)
        b.sync()
    path = tmp_path / "serve.json.gz"
    b.write(path)
    prefill, decode = phases_of(advisor.read(str(path)))
    assert (prefill.phase, prefill.iterations, prefill.sequences, prefill.tokens) == ("prefill", 1, 1, 100)
    assert (prefill.ms, prefill.token_ms) == pytest.approx((0.5, 0.005))
    assert (prefill.launches, prefill.kernels, prefill.busy_share) == (2, 2, 1.0)
    assert (prefill.attention_share, prefill.experts_share) == (0.2, None)
    assert (decode.phase, decode.iterations, decode.sequences, decode.tokens) == ("decode", 2, 4, 4)
    assert (decode.ms, decode.token_ms, decode.kernels) == pytest.approx((0.1, 0.025, 3))
    assert (decode.attention_share, decode.experts_share, decode.sampling_share) == (0.3, 0.1, None)
    text = sentence([prefill, decode])
    assert text.startswith(
        "Prefill (vLLM): 1 batch of 1 sequence, 100 tokens, 500 µs from its first to its last kernel (5.00 µs for each token of "
        "the batch), busy 100.0 % of it; of the time of all its kernels, collectives too: attention 20.0 %"
    )
    assert (
        "Decode (vLLM): 2 batches of 4 sequences, 100 µs from its first to its last kernel (25.0 µs for each token of the batch)"
        in text
    )
    figures = {name: values for name, values, _ in rows([prefill, decode])}
    assert figures["sampling"] == ["–", "–"]
    assert "drafting" not in figures


def test_drafts_are_told_with_what_they_must_return(tmp_path: Path) -> None:
    """100 us verify 3 tokens of each sequence, 20 sample and 30 draft: of 150 us 20 %, so 1.25 tokens a batch must be kept."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(3):
        with b.annotation("execute_context_0(0)_generation_4(12)"):
            b.kernel("sgemm_128x64_nn", us=100)
        with b.annotation("gpu_model_runner: sample"):
            b.kernel("radixSortKVInPlace", us=20)
        with b.annotation("gpu_model_runner: draft"):
            b.kernel("sgemm_64x64_nn", us=30)
        b.sync()
    path = tmp_path / "drafts.json.gz"
    b.write(path)
    (decode,) = phases_of(advisor.read(str(path)))
    assert (decode.tokens, decode.kernels, decode.ms) == (12, 3, pytest.approx(0.15))
    assert (decode.drafting_share, decode.sampling_share) == pytest.approx((0.2, 20 / 150))
    # How many of the 12 are kept, the trace does not say.
    assert decode.token_ms is None
    figures = {name: values for name, values, _ in rows([decode])}
    assert (figures["drafting"], figures["worth it from"], figures["time a token"]) == (["20.0 %"], ["1.25"], ["–"])
    assert "drafting 20.0 %" in sentence([decode])


def test_all_reduces_of_a_batch_are_a_figure_of_their_own(tmp_path: Path) -> None:
    """Two all-reduces of 20 us beside 160 us of other kernels are a fifth of 200; one of 5 us beside 160 is little."""
    for us, share in ((20, 0.2), (2.5, 5 / 165)):
        b = TraceBuilder(host_us=1, latency_us=0)
        for _ in range(3):
            with b.annotation("execute_context_0(0)_generation_4(4)"):
                for _ in range(2):
                    b.kernel("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", us=80)
                    b.kernel("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", us=us)
            b.sync()
        path = tmp_path / "parallel.json.gz"
        b.write(path)
        (decode,) = phases_of(advisor.read(str(path)))
        assert (decode.collectives_share, decode.collective) == (pytest.approx(share), "all_reduce")
        assert decode.collectives_ms == pytest.approx(us * 2e-3)
        assert ("all-reduce 20.0 % (40.0 µs)" in sentence([decode])) == (us == 20)


def test_all_reduces_of_a_real_batch() -> None:
    """By the raw file 73 all-reduces take 2.120 ms and an all-gather 0.022, of 10.863 ms of kernels."""
    (prefill,) = phases_of(advisor.read(str(real_trace("audited/b200_vllm_gptoss_eager"))))
    assert (prefill.collective, prefill.collectives_ms) == ("all_reduce", pytest.approx(2.142, abs=0.002))


def test_trace_of_no_engine_has_no_phase(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        b.kernel("sgemm_128x64_nn", us=100)
    path = tmp_path / "plain.json.gz"
    b.write(path)
    assert phases_of(advisor.read(str(path))) == []
    assert sentence([]) == ""


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mi300_sglang_decode", ("decode", "SGLang", 32, 32)),
        ("mi300_vllm_graph_replay", ("decode", "vLLM", 32, 32)),
        ("audited/b200_vllm_gptoss_eager", ("prefill", "vLLM", 1, 888)),
        ("audited/mi300_xdit_flux", ("diffusion", "xDiT", 1, None)),
    ],
)
def test_phases_of_real_engines_are_those_that_they_annotate(name: str, expected: tuple[object, ...]) -> None:
    (phase,) = phases_of(advisor.read(real_trace(name)))
    assert (phase.phase, phase.engine, phase.sequences, phase.tokens) == expected
    assert phase.iterations == 1
    assert phase.ms is not None
    assert phase.attention_share is not None
    assert phase.sampling_share is None or phase.phase != "diffusion"


@pytest.mark.real
def test_work_queued_before_the_recording_is_no_part_of_a_batch() -> None:
    """The first kernels of the batch ran, then 463 ms of what was queued before, then the rest of it in 10 ms."""
    (phase,) = phases_of(advisor.read(real_trace("mi300_sglang_decode")))
    assert phase.ms == pytest.approx(10.5, abs=0.1)
    assert phase.token_ms == pytest.approx(phase.ms / 32)
    assert phase.busy_share == pytest.approx(0.93, abs=0.03)
