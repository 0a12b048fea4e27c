"""Steady time that no finding claims, by place, worked out by hand; and the reports' words for it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.analyses import analysis as by_hand
from support.traces import analysis as real

from advisor.pipeline import analyze
from advisor.report import Options, render
from advisor.report.step_time import elsewhere
from advisor.results.analysis import Analysis
from advisor.results.elsewhere import Calls, Elsewhere, Made, SlowRound
from advisor.testing import TraceBuilder
from advisor.trace import read
from advisor.views.cpu_messages import _slow_round
from advisor.views.elsewhere import build


def of(b: TraceBuilder, folder: Path) -> list[tuple[str, str, float]]:
    made = analyze(read(str(b.write(folder / "trace.json"))))
    return [(part.cause, part.where, round(part.ms, 2)) for part in made.elsewhere]


def test_work_lies_in_the_operators_that_launched_it_and_a_twentieth_is_worth_a_word(tmp_path: Path) -> None:
    # Of 10 ms: 6 in mm, 3.2 in attention, 0.4 (4 %) in a sort, which is not worth it, and the rest in kernels of no operator.
    b = TraceBuilder("AMD Instinct MI300X")
    for _ in range(3):
        with b.step():
            for op, us in (("aten::mm", 6000), ("aten::_flash_attention_forward", 3200), ("aten::sort", 400)):
                with b.op(op):
                    b.kernel("Cijk_Ailk_Bljk_HHS_BH", us=us)
            b.kernel("my_own_kernel<float>(float*, int)", us=400)
            b.sync()
    found = of(b, tmp_path)
    assert found[:2] == [("compute", "aten::mm", 6.0), ("compute", "aten::_flash_attention_forward", 3.2)]
    assert len(found) == 2


def test_kernels_without_an_operator_are_told_by_their_kind(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            for name, us in (("volta_sgemm_128x64_nn", 6000), ("my_own_kernel<float>(float*, int)", 3000)):
                b.kernel(name, us=us)
            b.sync()
    assert ("compute", "my_own_kernel", 3.0) in of(b, tmp_path)


def test_collectives_of_a_training_step_are_told_by_what_issued_them(tmp_path: Path) -> None:
    """One kernel carries them all: of 107 ms 20 in the forward pass, 12 in the backward pass, 15 of the optimizer.

    4 and 5 ms in two ranges and 2 in a third are less than a twentieth each.
    """
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=0, world_size=8)

    def exchange(kind: str, ms: int) -> None:
        with b.op(f"c10d::{kind}_"), b.annotation(f"nccl:{kind}"):
            b.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8", us=ms * 1000, stream=20)
        b.sync("cudaDeviceSynchronize")

    for number in range(4):
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=49_000)
            b.sync("cudaDeviceSynchronize")
            with b.op("aten::embedding", seq=number + 10):
                exchange("alltoall_base", 20)
            with b.backward("MmBackward0", seq=number):
                exchange("alltoall_base", 12)
            with b.annotation("Optimizer.step#Shampoo.step"):
                exchange("_allgather_base", 15)
            for name, ms in (("## checks ##", 4), ("## counts ##", 5), ("## losses ##", 2)):
                with b.annotation(name):
                    exchange("allreduce", ms)
    trace = read(str(b.write(tmp_path / "trace.json")))
    found = build(trace.context, trace.whole_ms, [])
    parts = [(part.where, round(part.ms)) for part in found if part.cause == "communication"]
    assert parts == [
        ("all_to_all of the forward pass", 20),
        ("all_gather of Shampoo.step", 15),
        ("all_to_all of the backward pass", 12),
        ("all_reduce of ## counts ##, ## checks ## and others", 11),
    ]


def test_short_kernels_of_many_kinds_are_told_together(tmp_path: Path) -> None:
    # Of 10 ms 9 of products in fp32; of the rest 100 kernels of 4 us of each of two kinds, 4 % each, and 200 us of a longer one.
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=9000)
            for _ in range(100):
                b.kernel("route_tokens", us=4)
                b.kernel("write_cache", us=4)
            b.kernel("my_own_kernel", us=200)
            b.sync()
    # The products are a finding's.
    assert [part for part in of(b, tmp_path) if part[0] == "compute"] == [
        ("compute", "short kernels (under 10 µs each)", 0.8)
    ]


def test_kernels_of_no_known_limit_are_counted_and_named_by_what_they_compute(tmp_path: Path) -> None:
    """A step replays 300 kernels of 4 us, of two kinds, and 100 of 20 us; of these no shapes are recorded."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            for name, us, count in (
                ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3", 4, 200),
                ("triton_poi_fused_add_mul_5", 4, 100),
                ("triton_poi_fused__unsafe_view_mul_silu_2", 20, 100),
            ):
                for _ in range(count):
                    b.kernel(name, us=us)
            b.sync()
    (part,) = [one for one in analyze(read(str(b.write(tmp_path / "trace.json")))).elsewhere if one.cause == "compute"]
    # 2 ms of 20 us each, 0.8 of a norm's, 0.4 of others.
    assert (part.where, round(part.ms, 2)) == ("Triton's kernels", 3.2)
    assert (part.kernels, part.short, round(part.short_ms or 0, 2)) == (400, 300, 1.2)
    assert [(one.name, round(one.ms, 2), one.count) for one in part.made_of] == [
        ("activations", 2.0, 100),
        ("RMS norm", 0.8, 200),
        ("elementwise", 0.4, 100),
    ]
    assert elsewhere([part]).startswith(
        "In no finding: compute, 3.20 ms in Triton's kernels (400, 300 under 10 µs (1.20 ms): activations 2.00 ms, "
        "RMS norm 800 µs, elementwise 400 µs; limit not known"
    )


def test_kernels_of_one_family_are_told_by_their_names(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            with b.op("fbgemm::split_embedding_backward_codegen_rowwise_adagrad"):
                b.kernel("void split_embedding_backward_kernel_cta_per_row_1<float>(int)", us=3000)
                b.kernel("void split_embedding_backward_kernel_warp_per_row_1<float>(int)", us=1000)
            b.sync()
    (part,) = [one for one in analyze(read(str(b.write(tmp_path / "trace.json")))).elsewhere if one.cause == "compute"]
    assert [(one.name, one.ms) for one in part.made_of] == [
        ("split_embedding_backward_kernel_cta_per_row_1", 3.0),
        ("split_embedding_backward_kernel_warp_per_row_1", 1.0),
    ]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        # Of one kernel alone nothing is to be said; of a place that says how short its kernels are, no more than their number.
        (Elsewhere(cause="compute", where="own", ms=3.0, unknown="no shapes", kernels=1), "own (limit not known: no shapes)"),
        (
            Elsewhere(
                cause="compute", where="short kernels (under 10 µs each)", ms=3.0, unknown="no shapes",
                kernels=253, short=253, short_ms=3.0, made_of=[
                    Made(name="casts", ms=2.0, count=200), Made(name="sort", ms=1.0, count=53),
                ],
            ),
            "short kernels (under 10 µs each; 253 kernels: casts 2.00 ms, sort 1.00 ms; limit not known: no shapes)",
        ),
        (
            Elsewhere(
                cause="compute", where="own", ms=3.0, unknown="no shapes", kernels=2,
                made_of=[Made(name="a" * 30 + "_" + "b" * 30 + "_c", ms=2.0, count=1), Made(name="d", ms=1.0, count=1)],
            ),
            f"own (2 kernels: {'b' * 30}_c 2.00 ms, d 1.00 ms; limit not known: no shapes)",
        ),
    ],
)  # fmt: skip
def test_words_for_what_a_place_is_made_of(part: Elsewhere, text: str) -> None:
    assert elsewhere([part]) == f"In no finding: compute, 3.00 ms in {text}."


def test_collectives_on_the_cpu_are_told_with_their_sizes_where_no_finding_owns_them(tmp_path: Path) -> None:
    """Three of 20 ms and one of 60, of a million floats each; the main thread is in operators for a half of the time.

    Before each a broadcast of two million floats, for which nobody waits: it is another collective.
    """
    b = TraceBuilder(None, world_size=300, rank=0, backend="gloo")
    for us in (20_000, 20_000, 60_000, 20_000):
        with b.step():
            with b.thread(77), b.op("gloo:broadcast", us=1000, shapes=[[2_000_000]], dtypes=["float"]):
                pass
            with b.op("aten::mkldnn_convolution", us=us):
                pass
            with b.thread(77), b.op("gloo:all_reduce", us=us, shapes=[[1_000_000]], dtypes=["float"]):
                pass
            b.idle(us)
    context = read(str(b.write(tmp_path / "trace.json"))).context
    (part,) = [one for one in build(context, 60.0, ()) if one.cause == "communication"]
    assert part.where == "gloo:all_reduce"
    assert part.calls is not None
    assert (part.calls.count, part.calls.median_ms, part.calls.longest_ms) == (1, 20, 60)
    # 4 MB in 20 ms.
    assert (part.calls.most_bytes, part.calls.rate, part.calls.ranks) == (4_000_000, pytest.approx(0.2), 300)
    assert part.calls.slow_round == SlowRound(number=3, rounds=4, ms=60, usual_ms=20)


def test_one_slow_round_of_a_real_trace_is_named() -> None:
    """By the raw file two messages are in flight together five times: for 178.8, 184.7, 387.0, 167.4 and 185.1 ms."""
    (part,) = [one for one in real("cpu_only").elsewhere if one.calls is not None]
    assert part.calls is not None
    slow = part.calls.slow_round
    assert slow is not None
    assert (slow.number, slow.rounds) == (3, 5)
    assert (slow.ms, slow.usual_ms) == (pytest.approx(387.0, abs=0.1), pytest.approx(181.7, abs=0.1))
    assert "at most 381 ms: round 3 of 5 took 387 ms, the others 182;" in elsewhere([part])


def slow_round(*lengths: int, sizes: tuple[int, ...] = ()) -> SlowRound | None:
    """Find the slow one of rounds of one message each, of so many ms and of some sizes, 100 ms apart."""
    start = 100_000_000 * np.arange(len(lengths))
    sent = np.array(sizes or [8] * len(lengths))
    return _slow_round(start, start + 1_000_000 * np.array(lengths), sent)


def test_a_round_is_slow_beside_others_that_are_alike() -> None:
    assert slow_round(20, 20, 31, 20) == SlowRound(number=3, rounds=4, ms=31, usual_ms=20)
    assert slow_round(20, 20, 29, 20) is None  # not half as long again
    assert slow_round(20, 31, 31, 20) is None  # two of them
    assert slow_round(20, 31, 20) is None  # too few
    assert slow_round(20, 20, 31, 20, sizes=(8, 8, 16, 8)) is None  # it sends more


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        (
            Calls(count=1, median_ms=20, longest_ms=20, most_bytes=None, rate=None, ranks=None),
            "1 message, 20.0 ms in the median, at most 20.0 ms",
        ),
        (
            Calls(count=4, median_ms=20, longest_ms=60, most_bytes=4 << 20, rate=0.2, ranks=300),
            "4 messages, 20.0 ms in the median, at most 60.0 ms; the largest, of 4.0 MiB, at 0.2 GB/s",
        ),
        (
            Calls(count=4, median_ms=80, longest_ms=80, most_bytes=4 << 20, rate=0.05, ranks=300),
            "4 messages, 80.0 ms in the median, at most 80.0 ms; the largest, of 4.0 MiB, at 0.05 GB/s, under 1 Gbit/s: they "
            "wait for a slow rank, or for a round of 300 ranks each",
        ),
    ],
)
def test_words_for_collectives_on_the_cpu(calls: Calls, text: str) -> None:
    part = Elsewhere(cause="communication", where="gloo:all_reduce", ms=3.0, calls=calls)
    assert elsewhere([part]) == f"In no finding: communication, 3.00 ms in gloo:all_reduce ({text})."


def test_one_screen_says_why_a_limit_is_not_known_only_where_nothing_more_is_known() -> None:
    made = [Made(name="casts", ms=2.0, count=3), Made(name="sort", ms=1.0, count=1)]
    part = Elsewhere(cause="compute", where="own", ms=3.0, unknown="no shapes", kernels=4, made_of=made)
    assert elsewhere([part], tell="made").endswith("own (4 kernels: casts 2.00 ms, sort 1.00 ms; limit not known).")
    assert elsewhere([part], tell="why").endswith("own (limit not known: no shapes).")
    alone = msgspec.structs.replace(part, made_of=made[:1])
    assert elsewhere([alone], tell="made").endswith("own (4 kernels; limit not known: no shapes).")


@pytest.mark.parametrize(
    ("alone_us", "expected"),
    [
        (3000, {("compute", "matrix products"): 5.0}),
        (1000, {("compute", "aten::mm"): 2.0, ("compute", "matrix products"): 1.0}),
    ],
)
def test_products_most_of_which_have_no_operator_go_by_one_name(
    alone_us: int, expected: dict[tuple[str, str], float], tmp_path: Path
) -> None:
    """Beside the headline, which counts kinds, half of the same products by an operator's name reads as another figure."""
    b = TraceBuilder("AMD Instinct MI300X")
    for _ in range(3):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("Cijk_Ailk_Bljk_HHS_BH", us=2000)
            b.kernel("Cijk_Ailk_Bjlk_HHS_BH", us=alone_us)
            b.kernel("my_own_kernel", us=5000)
            b.sync()
    found = {(cause, where): ms for cause, where, ms in of(b, tmp_path) if where != "my_own_kernel"}
    assert found == expected


def test_idle_time_lies_in_the_ranges_that_the_program_marked(tmp_path: Path) -> None:
    # Kernels of 1 ms behind 4 ms of the host in one range and 2 in the other, no launch in either: 6 of 8 ms are the host's.
    b = TraceBuilder(host_us=0, latency_us=0, with_stack=False)
    for _ in range(3):
        with b.step():
            for name, us in (("## forward ##", 4000), ("## backward ##", 2000)):
                with b.annotation(name):
                    b.idle(us)
                    with b.op("aten::sort", us=1000):
                        b.kernel("my_own_kernel", us=1000)
    found = {(cause, where): ms for cause, where, ms in of(b, tmp_path) if cause == "host"}
    assert found == {
        ("host", "## forward ##"): pytest.approx(4.0, abs=0.02),
        ("host", "## backward ##"): pytest.approx(2.0, abs=0.02),
    }


def test_one_range_around_all_of_the_host_is_divided_among_its_operators(tmp_path: Path) -> None:
    # Nothing of the GPU was recorded: of 10 ms 4 lie in linear, 3 in an operator that calls another, 3 between them.
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step(), b.annotation("model_inference"):
        with b.op("aten::linear", us=4_000):
            b.call("cudaLaunchKernel", 10)
        with b.op("aten::layer_norm"), b.op("aten::native_layer_norm", us=3_000):
            b.call("cudaLaunchKernel", 10)
        b.idle(us=3_000)
    assert sorted(of(b, tmp_path)) == [
        ("host", "aten::layer_norm", 3.0),
        ("host", "aten::linear", 4.0),
        ("host", "model_inference, between operators", 3.0),
    ]


@pytest.mark.parametrize(("mib", "where"), [(64, "the freeing of large tensors"), (8, "no recorded operator")])
def test_time_behind_the_free_of_a_large_tensor_lies_in_its_freeing(mib: int, where: str, tmp_path: Path) -> None:
    # On the CPU: 6 ms of an operator, then a tensor is freed, and 1 ms later the next operator
    # begins. A small one's memory is kept.
    b = TraceBuilder(None, host_us=0, with_stack=False)
    for _ in range(3):
        with b.op("aten::mm", us=6000):
            b.memory(mib << 20, device=-1)
        b.memory(-(mib << 20), device=-1)
        b.idle(1000)
    b.op("aten::mm", us=6000)
    assert ("host", where, 2.0) in of(b, tmp_path)


def test_idle_before_a_batch_s_copy_is_no_launch_of_the_forward_pass(tmp_path: Path) -> None:
    # Before the copy the host makes the batch, in pieces: 2 ms of a step lie there, and 1 behind it.
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            for _ in range(4):
                b.idle(us=400)
                with b.op("aten::lift_fresh", us=100):
                    pass
            b.copy("HtoD", 1000, us=10, pinned=True)
            b.idle(us=1000)
            with b.op("aten::mm", seq=number):
                b.kernel("volta_sgemm_128x64_nn", us=100)
            with b.backward("MmBackward0", number):
                b.kernel("volta_sgemm_128x64_nt", us=100)
    context = read(str(b.write(tmp_path / "trace.json"))).context
    found = {part.where: part.ms for part in build(context, 3.2, ()) if part.cause == "host"}
    assert found.keys() == {"what precedes copies to the GPU", "launches of the forward pass"}
    assert found["launches of the forward pass"] == pytest.approx(1, abs=0.2)


def test_a_namespace_without_a_name_is_no_part_of_a_kernel_s(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            b.kernel("at::cuda::(anonymous namespace)::spin_kernel(long)", us=3000)
            b.sync()
    assert ("compute", "at::cuda::spin_kernel", 3.0) in of(b, tmp_path)


@pytest.mark.parametrize(
    ("name", "cause", "where", "ms"),
    [
        # By the raw files: kernels' time by the operator around their launch, calls by their own length.
        ("rank_without_gpu", "sync", "aten::_local_scalar_dense in aten::item under ## all2all_tw_data:init ##", 4.72),
        ("audited/mi300_xdit_flux", "compute", "Triton's kernels", 38.8),
        ("cpu_only", "communication", "gloo:all_reduce", 179.0),
    ],
)
def test_what_blind_audits_expected_is_said(name: str, cause: str, where: str, ms: float) -> None:
    found = {(part.cause, part.where): part.ms for part in real(name).elsewhere}
    assert found[cause, where] == pytest.approx(ms, rel=0.01)


def test_waits_lie_in_the_range_that_the_program_marked_around_them(tmp_path: Path) -> None:
    """Three steps in which the host reads a value back from the GPU, whose answer takes 2 ms, in a range of the program's."""
    b = TraceBuilder(host_us=10, latency_us=2_000)
    for _ in range(3):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=3_000)
            with b.annotation("## input exchange ##"):
                b.item()
    made = analyze(read(str(b.write(tmp_path / "t.json"))), only=["profile/*"])
    assert [(part.cause, part.where) for part in made.elsewhere if part.cause == "sync"] == [
        ("sync", "aten::_local_scalar_dense in aten::item under ## input exchange ##")
    ]


def test_short_kernels_of_replays_are_counted_as_blind_audits_counted_them() -> None:
    # By the raw file: 3,796 Triton kernels in the step, 2,803 of them under 10 us, 16.9 ms.
    (part,) = [one for one in real("audited/mi300_xdit_flux").elsewhere if one.where == "Triton's kernels"]
    assert (part.kernels, part.short) == (3796, 2803)
    assert part.short_ms == pytest.approx(16.9, rel=0.01)


def test_what_a_finding_owns_lies_nowhere_else() -> None:
    """Attention takes 3.68 ms, at two fifths of what an MI300X reaches."""
    made = real("mi300_compile_triton")
    (found,) = [finding for finding in made.findings if finding.rule == "kernels/far-from-limit"]
    assert found.cost_ms > 3.68
    assert not [part for part in made.elsewhere if part.where == "aten::_flash_attention_forward"]


def test_what_was_not_recorded_of_replays_lies_nowhere() -> None:
    assert [part for part in real("audited/a100_dlrm_rank0of16").elsewhere if part.cause == "unknown"] == []


def parted(made: Analysis, *parts: Elsewhere) -> Analysis:
    return msgspec.structs.replace(made, elsewhere=list(parts))


def test_reports_say_it_in_one_line_a_cause_after_the_other() -> None:
    parts = [
        Elsewhere(cause="compute", where="aten::mm", ms=8.03),
        Elsewhere(cause="compute", where="attention", ms=3.68),
        Elsewhere(cause="blocking_copy", where="aten::to", ms=1.0),
    ]
    text = "In no finding: compute, 8.03 ms in aten::mm and 3.68 ms in attention; blocking copy, 1.00 ms in aten::to."
    assert elsewhere(parts) == text
    assert elsewhere([]) == ""
    shown = render("text", parted(by_hand(), *parts), Options(width=200)).decode()
    assert text in shown
    assert Analysis.from_json(parted(by_hand(), *parts).to_json()).elsewhere == parts


def test_of_a_place_with_some_kernels_of_unknown_limits_nearness_lies_between_bounds(tmp_path: Path) -> None:
    # Of 10 ms in the layer 8 are products whose weights, 214 and 107 MB, and rows take an H100 under 0.12 ms; of 2 ms
    # nothing is known.
    name = "bmm_{}_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_rM_TN_transOut_{}dynBatch_sm100f"
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(3):
        with b.step():
            kinds = ["c10::BFloat16", "c10::BFloat16", ""]
            with b.op("vllm::moe_forward", shapes=[[888, 3072], [888, 128], []], dtypes=kinds):
                b.kernel("void moe::dev::routing::routingIndicesHistogramKernel<int>()", us=2000)
                b.kernel(name.format("MxE4m3", "swiGlu_"), us=4000, grid=(8, 342, 1))
                b.kernel(name.format("Bfloat16", ""), us=4000, grid=(24, 342, 1))
            b.kernel("my_own_kernel", us=100_000)  # beside which 8 ms are no tenth, and stand with the 2
            b.sync()
    context = read(str(b.write(tmp_path / "trace.json"))).context
    [part] = [part for part in build(context, 110.0, []) if part.where == "vllm::moe_forward"]
    assert part.of_reachable is not None
    assert part.most_of_reachable is not None
    assert 0.005 < part.of_reachable < 0.012  # as if all of the 2 ms were in vain
    assert 0.205 < part.most_of_reachable < 0.212  # as if none were
    assert part.unknown is None
