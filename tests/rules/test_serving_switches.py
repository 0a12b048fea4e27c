"""Eight built misconfigurations of programs that serve or generate: each is named first, with its price; its healthy twin is quiet.

Engines, makers and dialects differ from one to the next. Costs are worked out by hand beside each; savings are the parts of
them that the rule's basis gives.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli import main
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, batch, layers

H100, A100, V100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB", "Tesla V100-SXM2-16GB"
MI300 = "AMD Instinct MI300X"
ABOUT = {
    "inference/eager-decode", "inference/uncaptured-batches", "inference/unchunked-prefill", "inference/small-decode-batch",
    "inference/host-sampling", "inference/scheduler-gap", "inference/copied-cache", "inference/no-cache",
}  # fmt: skip


def built(device: str, *, dialect: str = "kineto") -> TraceBuilder:
    return TraceBuilder(device, dialect=dialect, host_us=1, latency_us=0)


def eager_vllm(faulty: bool) -> TraceBuilder:
    """enforce_eager: 80 kernels of 6 us in each batch, a launch every 20."""
    b = built(H100)
    for _ in range(5):
        batch(b, annotation(VLLM, decoding=100), layers(20, 6), host_us=19 if faulty else 0)
    return b


def graphs_of_sglang(faulty: bool) -> TraceBuilder:
    """cuda_graph_max_bs=80, and every other batch has 96 sequences."""
    b = built(MI300)
    for number in range(10):
        name = annotation(SGLANG, decoding=96 if number % 2 else 80)
        batch(b, name, layers(20, 6), host_us=19 if faulty and number % 2 else 0, ops="sgl_kernel::layer")
    return b


def prefills_of_tensorrt_llm(faulty: bool) -> TraceBuilder:
    """Two prompts of 160 ms between decoding batches of 8 ms; in chunks of 8 ms where it is healthy."""
    b = built(H100)
    for number in range(12):
        whole = number in (4, 8)
        name = annotation(TENSORRT, prompts=int(whole), decoding=0 if whole and faulty else 70 + number)
        us = 16_000 if whole and faulty else 800
        batch(b, name, [("nvjet_tst_256x128_64x4_2x1_v_bz_TNT", us)] * 10, host_us=2, ops="trtllm::layer")
    return b


def weights_of_vllm(faulty: bool) -> TraceBuilder:
    """Eight sequences a batch, whose products in 16 bits take 600 of 1,000 us; 200 sequences where it is healthy."""
    b = built(MI300)
    product = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x256_MI16x16x1_SN"
    for _ in range(6):
        name = annotation(VLLM, decoding=8 if faulty else 200)
        batch(b, name, [(product, 60), ("kernel_unified_attention_3d", 40)] * 10)
    return b


def sampler_of_vllm(faulty: bool) -> TraceBuilder:
    """Scores of 100 sequences, 12.8 MB in 600 us, and 3 ms of the CPU to choose from them, behind 5 ms of the model."""
    b, scores = built(A100), [100, 32_000]
    for _ in range(6):
        with b.annotation(annotation(VLLM, decoding=100)):
            b.graph(layers(10, 125))
            if faulty:
                with b.op("aten::to", shapes=[scores, [], [], [], []]), b.op("aten::_to_copy"):
                    b.copy("DtoH", 12_800_000, us=600)
                with b.op("aten::sort", shapes=[scores, [], []], us=2000):
                    pass
                with b.op("aten::multinomial", shapes=[scores, [], [], []], us=1000):
                    pass
            else:
                with b.op("aten::argmax", shapes=[scores, [], []]):
                    b.kernel("reduce_kernel_argmax", us=30)
        b.sync()
    return b


def scheduler_of_sglang(faulty: bool) -> TraceBuilder:
    """disable_overlap_schedule: 1.5 ms of Python behind each batch of 4 ms; a batch ahead where it is healthy."""
    b, last = built(A100), None
    for _ in range(8):
        with b.annotation(annotation(SGLANG, decoding=100)):
            works = b.graph(layers(10, 100))
        b.sync(after=None if faulty else [last] if last else [])
        last = works[-1]
        with b.python("sglang/srt/managers/scheduler.py(700): get_next_batch_to_run", us=1500):
            pass
    return b


def cache_of_transformers(faulty: bool) -> TraceBuilder:
    """A DynamicCache: 20 concatenations of 100 us in each iteration of 10 ms, for a text that grows by a token."""
    b = built(A100)
    for number in range(8):
        with b.python("transformers/generation/utils.py(2500): _sample"):
            for _ in range(10):
                with b.op("aten::mm", shapes=[[1, 4096], [4096, 32_768]], dtypes=["c10::BFloat16"] * 2):
                    b.kernel("gemv2T_kernel_val_bf16", us=400)
                with b.op("aten::_scaled_dot_product_flash_attention"):
                    b.kernel("flash_fwd_splitkv_kernel_bf16", us=400)
                for _ in range(2):
                    old = [8, 32, 1000 + number, 128]
                    if faulty:
                        with b.op("aten::cat", shapes=[[old, [8, 32, 1, 128]], []]):
                            b.kernel("CatArrayBatchedCopy_aligned16_contig", us=100)
                    else:
                        with b.op("aten::copy_", shapes=[[8, 32, 1, 128], [8, 32, 1, 128], []]):
                            b.kernel("index_put_kernel", us=3)
    return b


def loop_of_2021(faulty: bool) -> TraceBuilder:
    """A loop that computes 2,000 tokens and more of one text for each: 12 products of 1 ms; with a cache one row."""
    b = built(V100, dialect="2021")
    for number in range(8):
        rows = 2000 + number if faulty else 1
        for _ in range(12):
            with b.op("aten::addmm", shapes=[[1024], [rows, 1024], [1024, 1024]], dtypes=["c10::Half"] * 3):
                b.kernel("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", us=1000 if faulty else 10)
        with b.op("aten::argmax", shapes=[[1, 50_000]]):
            b.kernel("reduce_kernel_argmax", us=10)
        with b.op("aten::cat", shapes=[[[1, 2000 + number], [1, 1]], []]):
            b.kernel("CatArrayBatchedCopy", us=2)
        b.sync()
    return b


Program = Callable[[bool], TraceBuilder]
# The rule, its cost a step in ms, what low and high return of it, and a part of the fix's title.
CASES: dict[Program, tuple[str, float, tuple[float, float], str]] = {
    # 80 stretches of 14 us a batch.
    eager_vllm: ("inference/eager-decode", 80 * 0.014, (0.5, 0.97), "Leave eager mode"),
    # 79 such in every second batch: what is idle before the first kernel of it is the wait's for the batch before.
    graphs_of_sglang: ("inference/uncaptured-batches", 79 * 0.014 / 2, (0.5, 0.97), "cuda_graph_max_bs"),
    prefills_of_tensorrt_llm: ("inference/unchunked-prefill", 0.0, (0, 0), "enable_chunked_prefill"),
    weights_of_vllm: ("inference/small-decode-batch", 0.6, (0.2, 0.5), "Quantize the weights"),
    # Six copies and, before the end of the window, five choices: 18.6 of 48.6 ms; a typical step has 8.61.
    sampler_of_vllm: ("inference/host-sampling", 18.6 / 48.6 * 8.61, (0.5, 0.95), "no processor of logits"),
    # Behind seven of eight batches, in 42.5 ms from the first work to the last; a typical step has 5.501.
    scheduler_of_sglang: (
        "inference/scheduler-gap",
        1.5 * 7 / 42.5 * 5.501,
        (0.4, 0.95),
        "disable_overlap_schedule=False",
    ),
    # Seven of eight iterations, in one window.
    cache_of_transformers: ("inference/copied-cache", 7 * 20 * 0.1, (0.4, 1.0), 'cache_implementation="static"'),
    # Of 2,001 to 2,007 rows all but 64.
    loop_of_2021: ("inference/no-cache", 7 * 12, (0.7 * 0.968, 0.95 * 0.968), "Keep keys and values between tokens"),
}


def analyzed(builder: TraceBuilder, tmp_path: Path) -> Analysis:
    """Write the trace, and have the command line say what of it."""
    result = CliRunner().invoke(main, ["analyze", str(builder.write(tmp_path / "built.json.gz")), "-f", "json"])
    assert result.exit_code == 0, result.output
    return Analysis.from_json(result.stdout)


@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_the_misconfiguration_is_what_to_do_first(program: Program, tmp_path: Path) -> None:
    rule, cost, (low, high), title = CASES[program]
    found = analyzed(program(True), tmp_path)
    assert found.verdicts.error == []
    first = found.findings[0]
    assert first.rule == rule
    assert first.cost_ms == pytest.approx(cost, rel=0.02, abs=1e-9)
    assert title in first.fix.title
    assert found.headline is not None
    assert found.headline.first == rule
    assert ABOUT & {finding.rule for finding in found.findings} == {rule}
    if cost:
        assert first.saving is not None
        assert (first.saving.low_ms, first.saving.high_ms) == pytest.approx((low * cost, high * cost), rel=0.03)
        assert first.saving.high_ms <= first.cost_ms * 1.001


@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_the_healthy_twin_has_no_such_finding(program: Program, tmp_path: Path) -> None:
    found = analyzed(program(False), tmp_path)
    assert found.verdicts.error == []
    assert not ABOUT & {finding.rule for finding in found.findings}
    rule = CASES[program][0]
    assert rule in {*found.verdicts.passes, *(verdict.rule for verdict in found.verdicts.not_applicable)}


def test_an_engine_that_is_well_set_up_is_asked_for_nothing(tmp_path: Path) -> None:
    """Full batches that replay graphs, scheduled ahead: no finding at all that is more than a note."""
    found = analyzed(scheduler_of_sglang(False), tmp_path)
    assert [finding.rule for finding in found.findings if finding.severity != "note"] == []
