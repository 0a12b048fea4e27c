"""Prices keep their own basis, beside each other: worked out by hand on built traces."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from support.paths import ROOT
from support.traces import analysis

import advisor
from advisor import hardware
from advisor.engine import run as engine
from advisor.engine.ranking import LITTLE
from advisor.replay import plan as plans
from advisor.replay.effect import effect, launches_of_model
from advisor.replay.graph import build
from advisor.replay.pricing import Replay
from advisor.replay.rungs import Rung, as_recorded, joined, returned
from advisor.report import Options, render
from advisor.report.savings import durations
from advisor.results.analysis import Analysis, Finding
from advisor.rulebook import builtin_rules_dir, load
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

A100, V100 = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB"
GEMM = "volta_sgemm_128x64_nn"


def built(b: TraceBuilder) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        return read(str(b.write(Path(folder) / "t.json")))


def analyzed(b: TraceBuilder) -> Analysis:
    return advisor.analyze(built(b))


def finding(result: Analysis, rule: str) -> Finding:
    return next(one for one in result.findings if one.rule == rule)


def eager(kernel: str = "volta_sgemm_128x64_nn", *, kernel_us: int = 30, host_us: int = 60) -> TraceBuilder:
    """Five steps of 40 products, each of which takes the host twice as long to launch as the GPU to run."""
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            for _ in range(40):
                with b.op("aten::mm"):
                    b.idle(us=host_us)
                    b.kernel(kernel, us=kernel_us)
            b.sync()
    return b


def test_after_captured_launches_precision_is_worth_what_the_kernels_gain() -> None:
    """Step 2.4 ms and more: 40 launches of 60 us, 1.2 ms of kernels. Captured, the kernels' 1.2 ms set the pace.

    Tensor Cores, 125 TFLOP/s to 15.7, leave an eighth of it: 1.05 ms go. With 3 % of the launches left behind them, 0.07 ms,
    nothing hides that.
    """
    result = analyzed(eager())
    launch, cores = finding(result, "gpu-idle/launch-bound"), finding(result, "precision/no-tensor-cores")
    assert launch.saving is not None
    assert cores.saving is not None
    assert launch.saving.high_ms == pytest.approx(0.97 * launch.cost_ms, rel=0.02)
    assert launch.saving.low_ms == pytest.approx(0.3 * launch.cost_ms, rel=0.02)
    assert cores.saving.high_ms == pytest.approx((1 - 15.7 / 125) * 1.2, rel=0.05)
    assert cores.saving.low_ms == pytest.approx(0.0, abs=0.05)  # with 70 % of the launches left, the host sets the pace
    assert [rule for step in result.plan for rule in step.rules] == [launch.rule, cores.rule]


def test_captured_launches_return_what_other_fixes_leave_the_gpu_to_wait_for() -> None:
    """A step of 3.6 ms: 10 products of 10 us, launched in 60 each, then 30 of 100 us, which 30 launches of 60 us hide behind.

    Today the GPU waits 0.5 ms for launches. Tensor Cores leave an eighth of the kernels' time: then the host takes the 2.4 ms
    of its launches, and 1.2 ms are returned; without the profiler, which takes 5 us for each operator and each launch, 0.4 ms
    more of 3.5. So much more the captured launches are worth: 97 % of 0.5, and what the kernels return.
    """
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            for kernel_us in [10] * 10 + [100] * 30:
                with b.op("aten::mm"):
                    b.idle(us=60)
                    b.kernel("volta_sgemm_128x64_nn", us=kernel_us)
            b.sync()
    result = analyzed(b)
    launch, cores = finding(result, "gpu-idle/launch-bound"), finding(result, "precision/no-tensor-cores")
    assert [rule for step in result.plan for rule in step.rules][:1] == [cores.rule]
    assert launch.saving is not None
    assert cores.saving is not None
    assert launch.cost_ms == pytest.approx(0.5, rel=0.05)
    assert cores.saving.high_ms == pytest.approx(1.55, rel=0.05)
    assert 0.97 * 0.5 + 1.2 <= launch.saving.high_ms <= 0.97 * 0.5 + 1.55
    assert launch.saving.low_ms <= 0.3 * launch.cost_ms


def test_launches_of_gradients_that_are_added_and_communicated_stay_when_a_model_is_captured() -> None:
    """Of 60 launches that the GPU's work hides, 20 lie in autograd's node that adds to a gradient: 40 of 50 us may go."""
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=10_000)
        for at in range(60):
            name = "torch::autograd::AccumulateGrad" if at % 3 == 0 else "MulBackward0"
            with b.op(name), b.op("aten::add_" if at % 3 == 0 else "aten::mul"):
                b.idle(us=50)
                b.kernel("vectorized_elementwise_kernel_add", us=1)
        b.sync()
    trace = built(b)
    graph = build(trace.context)
    assert graph is not None
    of_model = launches_of_model(trace.context, graph)
    assert int(of_model.sum()) == 1 + 40


def test_no_price_is_above_its_basis_though_launches_go_with_the_kernels() -> None:
    """A chain of 60 pointwise kernels of 5 us that take the host 20 each: a quarter of the time is the kernels'.

    Five of six launches go, and with them 1,000 us of a step. Five sixths of the kernels' own time are 250 us, and as much of
    the host's time lies behind them; the other 15 us of each launch are idle time of the GPU, which is not this rule's.
    """
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False)
    names = ("add", "mul", "sigmoid")
    for _ in range(5):
        with b.step():
            for _ in range(20):
                for name in names:
                    with b.op(f"aten::{name}"):
                        b.idle(us=20)
                        b.kernel(f"void at::native::vectorized_elementwise_kernel<4, {name}>", us=5)
            b.sync()
    trace = built(b)
    result = advisor.analyze(trace, only=["kernels/elementwise-chain"])
    chain = finding(result, "kernels/elementwise-chain")
    assert chain.saving is not None
    assert chain.cost_ms == pytest.approx(0.3, rel=0.01)
    assert chain.host_ms == pytest.approx(58 * 0.005, rel=0.01)  # before the first two launches the GPU is not busy
    # Six and more in a chain return 1.25 times what three do: five sixths for two thirds.
    assert chain.saving.high_ms == pytest.approx(1.25 * 0.67 * 0.59, rel=0.01)
    assert chain.saving.low_ms == pytest.approx(1.25 * 0.30 * 0.59, rel=0.01)


def converting(*, layers: int = 40) -> TraceBuilder:
    """Five steps of linear layers that take the host 80 us each, 30 of these for the conversion of the weight, in a kernel of 6."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False)
    halves = {"shapes": [[512, 512], [512, 512], []], "dtypes": ["c10::Half", "float", "Scalar"]}
    for _ in range(5):
        with b.step():
            for _ in range(layers):
                with b.op("aten::linear", shapes=[[64, 512], [512, 512], []], dtypes=["c10::Half", "float", ""]):
                    b.idle(us=20)
                    with b.op("aten::to"), b.op("aten::_to_copy"), b.op("aten::copy_", **halves):
                        b.idle(us=20)
                        b.kernel("void at::native::vectorized_elementwise_kernel<4, copy>", us=6)
                        b.idle(us=10)
                    with b.op("aten::addmm"):
                        b.idle(us=30)
                        b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=24)
            b.sync()
    return b


def test_alone_a_conversion_returns_the_idle_time_that_its_launch_makes() -> None:
    """Of each of 40 layers 30 of 80 us go, in which the GPU works for 6: what the layer does around its conversion stays."""
    result = advisor.analyze(built(converting()), only=["gpu-idle/launch-bound", "precision/cast-churn"])
    launches, casts = finding(result, "gpu-idle/launch-bound"), finding(result, "precision/cast-churn")
    assert result.findings.index(launches) < result.findings.index(casts)
    assert casts.cost_ms == pytest.approx(40 * 0.006, rel=0.02)
    assert casts.saving is not None
    assert casts.saving.high_ms < 0.5
    assert casts.saving.alone_ms == {
        "low": pytest.approx(0.4 * 1.2, rel=0.03),
        "high": pytest.approx(1.2, rel=0.03),
    }


def batches(device: str, *, us: int = 4000, pinned: bool = False) -> TraceBuilder:
    """Five steps: 26 MB from pageable memory in *us*, and 6 ms of kernels; *pinned*: a copy of 2.6 MB at 20 GB/s beside."""
    b = TraceBuilder(device, host_us=10, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            b.copy("HtoD", 26_000_000, us=us, pinned=False)
            if pinned:
                b.copy("HtoD", 2_600_000, us=130, pinned=True, blocking=False)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=6000)
            b.sync()
    return b


def test_alone_a_copy_that_no_longer_holds_the_host_returns_the_idle_time_that_the_host_then_runs_ahead_of() -> None:
    """Each batch waits 8 ms behind the last step's product, and then 100 launches of 100 us let the GPU idle for 80 us each.

    Pinned, the host is 8 ms ahead, and the GPU waits for no launch. Compiled, it does not wait for them either: behind that the
    copy returns a part of the 2 ms that it owns, and alone the 8 ms as well.
    """
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(6):
        with b.step():
            b.copy("HtoD", 13_000_000, us=2000, pinned=False)
            for _ in range(100):
                with b.op("aten::relu"):
                    b.idle(us=100)
                    b.kernel("void at::native::vectorized_elementwise_kernel<4, relu>", us=20)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=8_000)
    result = advisor.analyze(built(b), only=["gpu-idle/launch-bound", "transfer/pageable-copy"])
    launches, copies = finding(result, "gpu-idle/launch-bound"), finding(result, "transfer/pageable-copy")
    assert result.findings.index(launches) < result.findings.index(copies)
    assert copies.saving is not None
    assert copies.saving.high_ms <= copies.cost_ms
    assert copies.saving.alone_ms is not None
    # A step of 8 + 2 + 10 ms becomes one of the GPU's 8 + 1 (the link) + 2: the host, held for 1 of 10 ms, takes as long.
    assert copies.saving.alone_ms["high"] == pytest.approx(20.0 - 11.0, rel=0.02)
    assert f"alone {durations(*copies.saving.alone_ms.values())}" in render("text", result, Options()).decode()


@pytest.mark.parametrize(
    ("device", "pinned", "least_ms"),
    [
        (V100, False, 2.0),  # 26 MB over PCI Express 3 at 13 GB/s
        (A100, False, 1.0),  # at 26
        (A100, True, 1.3),  # at the 20 that pinned copies reach in this trace
        ("A new device", False, 0.4),  # nothing is known of the link: a tenth stays, by the rule's basis
    ],
)
def test_no_copy_is_faster_than_the_link(device: str, pinned: bool, least_ms: float) -> None:
    copy = finding(analyzed(batches(device, pinned=pinned)), "transfer/pageable-copy")
    assert copy.saving is not None
    assert copy.saving.high_ms <= copy.cost_ms - least_ms + 0.03
    assert copy.saving.high_ms == pytest.approx(4.0 - least_ms, abs=0.1)


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("Tesla T4", 13.0), ("NVIDIA GeForce RTX 2080 Ti", 13.0), ("Tesla V100-DGXS-32GB", 13.0), ("NVIDIA A100-SXM4-40GB", 26.0),
        ("NVIDIA GeForce RTX 4090", 26.0), ("NVIDIA RTX A6000", 26.0), ("AMD Instinct MI250X", 26.0), ("NVIDIA L40S", 26.0),
        ("NVIDIA H100 80GB HBM3", 54.0), ("NVIDIA B200", 54.0), ("AMD Instinct MI300X", 54.0),
        ("NVIDIA GH200 480GB", None), ("AMD Instinct MI300A", None), ("a device", None), (None, None),
    ],
)  # fmt: skip
def test_the_link_of_a_device(name: str | None, gbps: float | None) -> None:
    assert hardware.link_gbps(name) == gbps


def attention(*, beside_us: int = 0) -> TraceBuilder:
    """Four steps of attention in steps over 3,601 tokens, 2 ms for each product, 4 between; and a product beside it."""
    b = TraceBuilder(A100, host_us=10, latency_us=0, with_stack=False)
    product = "ampere_fp16_s16816gemm_fp16_128x128_ldg1_f2f_stages_32x5_nn_align1"
    scores = [8, 3601, 3601]
    for _ in range(4):
        with b.step():
            with b.op("aten::bmm", shapes=[[8, 3601, 64], [8, 64, 3601]], dtypes=["c10::Half"] * 2):
                b.kernel(product, us=2000)
            with b.op("aten::mul", shapes=[scores], dtypes=["c10::Half"]):
                b.kernel("void at::native::vectorized_elementwise_kernel<4, mul>", us=2000)
            with b.op("aten::_softmax", shapes=[scores], dtypes=["c10::Half"]):
                b.kernel("void softmax_warp_forward", us=2000)
            with b.op("aten::bmm", shapes=[scores, [8, 3601, 64]], dtypes=["c10::Half"] * 2):
                b.kernel(product, us=2000)
            if beside_us:
                with b.op("aten::mm", shapes=[[64, 3601], [3601, 64]], dtypes=["c10::Half"] * 2):
                    b.kernel(product, us=beside_us)
            b.sync()
    return b


def test_products_inside_an_attention_that_is_fused_are_not_padded_as_well() -> None:
    result = analyzed(attention())
    fused, padded = finding(result, "kernels/unfused-attention"), finding(result, "precision/misaligned-matmul")
    assert fused.saving is not None
    # The 4 ms between the products go, at least 70 % of them; of the 4 ms of the products at most 85 %.
    assert fused.cost_ms == pytest.approx(8.0, rel=0.02)
    assert fused.saving.low_ms == pytest.approx(2.8, rel=0.02)
    assert fused.saving.high_ms == pytest.approx(7.4, rel=0.02)
    assert padded.cost_ms == pytest.approx(4.0, rel=0.02)
    assert (padded.saving, padded.after, padded.severity) == (None, ["kernels/unfused-attention"], "note")


def test_products_beside_it_are() -> None:
    """Of the 7 ms that misaligned products take, 3 lie outside of the attention: 27 to 45 % of these."""
    padded = finding(analyzed(attention(beside_us=3000)), "precision/misaligned-matmul")
    assert padded.saving is not None
    assert padded.cost_ms == pytest.approx(7.0, rel=0.02)
    assert (padded.saving.low_ms, padded.saving.high_ms) == (
        pytest.approx(0.81, rel=0.03),
        pytest.approx(1.35, rel=0.03),
    )


def test_gradients_in_inference_are_worth_a_fifth_of_the_host_at_most_and_nothing_behind_the_gpu() -> None:
    def inference(kernel_us: int) -> Analysis:
        b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False)
        for step in range(5):
            with b.step():
                for number in range(40):
                    with b.op("aten::linear", seq=40 * step + number):
                        b.idle(us=50)
                        b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8", us=kernel_us)
                b.sync()
        return advisor.analyze(built(b), only=["inference/grad-enabled"])

    waits, sets = finding(inference(10), "inference/grad-enabled"), finding(inference(200), "inference/grad-enabled")
    assert waits.saving is not None
    # Of each 50 us of the host 40 show: a fifth of them is 8, times 40.
    assert waits.saving.high_ms == pytest.approx(0.2 * waits.cost_ms, rel=0.02)
    assert waits.saving.high_ms == pytest.approx(0.32, rel=0.1)
    assert sets.saving is None or sets.saving.high_ms < 0.02


def slowed_by_stacks(host_us: int) -> TraceBuilder:
    """Five steps of 20 products of 100 us on the GPU, each launched in *host_us*; with stacks."""
    b = TraceBuilder(V100, host_us=0, latency_us=0)
    for _ in range(5):
        with b.step():
            for _ in range(20):
                with b.python("model.py(7): forward"), b.op("aten::mm"):
                    b.idle(us=host_us)
                    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


def test_behind_a_host_that_stacks_slowed_work_on_the_gpu_is_not_worth_nothing() -> None:
    """A host as slow as the GPU, 100 us a product: as recorded nothing is gained by faster products.

    Without stacks it takes 78 us at most: of the step of 2 ms, products of 59.5 us (cautiously) leave the host's 1.56 ms; those
    of 12.6 us leave 1 ms of a host at half its time.
    """
    cores = finding(analyzed(slowed_by_stacks(100)), "precision/no-tensor-cores")
    assert cores.saving is not None
    assert cores.saving.low_ms == pytest.approx(0.44, abs=0.03)
    assert cores.saving.high_ms == pytest.approx(1.0, abs=0.06)


def test_what_sets_the_pace_leads_before_what_returns_nothing_with_the_host_as_recorded() -> None:
    """A host of 130 us a product of 100: faster products return nothing, and no more with the 101 us that stacks leave at most.

    They would with a host of half the time, but that is supposed; the launches' 30 us a product are idle as recorded.
    """
    result = advisor.analyze(built(slowed_by_stacks(130)), only=["precision/no-tensor-cores", "gpu-idle/launch-bound"])
    assert [one.rule for one in result.findings] == ["gpu-idle/launch-bound", "precision/no-tensor-cores"]
    launches, cores = result.findings
    assert launches.saving is not None
    assert cores.saving is not None
    assert launches.saving.low_ms > 0
    assert cores.saving.alone_ms is not None
    assert cores.saving.alone_ms["low"] == 0


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        # The host was a third of a step ahead when the recording began: what recording stacks does to it is no sure fault.
        ("v100_resnet50_workers4", "precision/no-tensor-cores", "gpu-idle/launch-bound"),
        ("audited/mi300_xdit_flux", "gpu-idle/host-function", "precision/half-products"),
    ],
)
def test_what_is_sure_leads_on_real_traces(name: str, first: str, second: str) -> None:
    assert [one.rule for one in analysis(name).findings[:2]] == [first, second]


def test_a_host_that_was_steps_ahead_when_the_recording_began_still_sets_the_least_step() -> None:
    """Steps of 10 ms on the GPU and 8 on the host, behind 30 ms that were queued before them: the host begins three steps ahead.

    Products of an eighth of the time would leave 1.3 ms a step on the GPU, and the host's 8: of 10 ms 2 are returned.
    """
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    b.kernel("volta_sgemm_128x64_nn", us=30_000, launched=False, at_us=0)
    for _ in range(5):
        with b.step():
            for _ in range(10):
                with b.op("aten::mm"):
                    b.idle(us=800)
                    b.kernel("volta_sgemm_128x64_nn", us=1_000)
    b.sync()
    cores = finding(advisor.analyze(built(b), only=["precision/no-tensor-cores"]), "precision/no-tensor-cores")
    assert cores.saving is not None
    assert "not replayed" not in cores.saving.basis
    assert cores.saving.low_ms == pytest.approx(2, abs=0.1)
    assert cores.saving.high_ms == pytest.approx(2.1, abs=0.1)  # with 5 us less for each of 20 calls at most


def test_where_a_careful_host_is_faster_than_the_recorded_one_both_figures_say_so() -> None:
    """A host as slow as the GPU, 100 us a product, with stacks: as recorded faster products return nothing.

    Cautiously the host takes 78 % of that: of the step of 2 ms 0.44 are returned.
    """
    cores = finding(
        advisor.analyze(built(slowed_by_stacks(100)), only=["precision/no-tensor-cores"]), "precision/no-tensor-cores"
    )
    assert cores.saving is not None
    assert cores.saving.recorded_ms == 0.0
    assert cores.saving.low_ms == pytest.approx(0.44, abs=0.03)
    assert "both figures suppose a CPU that recording did not slow: with the one recorded it is" in cores.saving.basis


def test_what_begins_a_little_behind_the_work_before_it_is_not_held_to_the_time_since_its_launch() -> None:
    """Ten products of 1 ms, launched at once, with 25 us between them that nothing explains: 10.2 ms a step.

    From the fourth on these are less than a hundredth of what a product waited since its launch: it follows the work before it. The
    second and the third begin when they did, 2.05 ms after their launch at the latest; eight of an eighth of the time follow: 1 ms.
    """
    b = TraceBuilder(V100, host_us=1, latency_us=0, gap_us=25, with_stack=False)
    for _ in range(5):
        with b.step():
            for _ in range(10):
                with b.op("aten::mm"):
                    b.kernel("volta_sgemm_128x64_nn", us=1_000)
            b.sync()
    cores = finding(advisor.analyze(built(b), only=["precision/no-tensor-cores"]), "precision/no-tensor-cores")
    assert cores.saving is not None
    assert cores.saving.high_ms == pytest.approx(10.2 - 2.05 - 8 / 8, abs=0.2)


def test_a_copy_returns_all_that_it_holds_the_host_where_the_host_sets_the_pace() -> None:
    """Steps of 4 ms in a copy, and 100 launches of 100 us for kernels of 30: 14 ms.

    26 MB take 2 ms over the link, pinned too; but the GPU has 7 ms to spare for them while the host launches. So 0.9 of 4 ms go.
    """
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            b.copy("HtoD", 26_000_000, us=4000, pinned=False)
            for _ in range(100):
                with b.op("aten::mm"):
                    b.idle(us=100)
                    b.kernel("ampere_fp16_s16816gemm_fp16_128x128", us=30)
            b.sync()
    result = advisor.analyze(built(b), only=["transfer/pageable-copy"])
    copy = finding(result, "transfer/pageable-copy")
    assert copy.saving is not None
    assert copy.saving.high_ms == pytest.approx(0.9 * 4, abs=0.03)


def test_an_optimizer_behind_a_busy_gpu_returns_its_host_time_once_the_gpu_has_less_to_do() -> None:
    """A GPU that works 20 ms a step, and a host that takes 24: 4 before the products, 20 for 200 kernels of the optimizer.

    The kernels of 10 us queue up behind the products, and the last of them ends when the host has launched it: all of the 20 ms
    is hidden. In one launch instead of 200 the host takes 4 ms a step, and the step is as long as the GPU's work.
    """
    b = TraceBuilder(A100, host_us=10, latency_us=0, with_stack=False)
    for _ in range(6):
        with b.step():
            b.idle(us=4_000)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=18_000)
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(200):
                    with b.op("aten::add_"):
                        b.idle(us=90)
                        b.kernel("void at::native::vectorized_elementwise_kernel<4, add>", us=10)
    result = advisor.analyze(built(b), only=["kernels/single-tensor-optimizer"])
    found = finding(result, "kernels/single-tensor-optimizer")
    assert found.saving is not None
    assert found.host_ms == pytest.approx(20.0, rel=0.01)
    assert found.cost_ms == pytest.approx(2.0, rel=0.01)
    assert found.cost_ms < found.saving.high_ms <= found.cost_ms + found.host_ms
    assert (
        f"{found.host_ms:.1f} ms of CPU time that the GPU's work hides"
        in render("text", result, Options(verbosity=1)).decode()
    )


def test_the_copies_of_a_batch_are_copied_without_blocking_together() -> None:
    """A batch of 26 MB in 4 ms and its labels, small, both pageable; then 10 ms of the host's time.

    Were the labels still to block, they would wait for the batch before them, now pinned: 26 MB take a V100's link 2.1 ms.
    """
    b = TraceBuilder("Tesla V100-SXM2-16GB", host_us=10, latency_us=0, with_stack=False)
    for _ in range(6):
        with b.step():
            b.copy("HtoD", 26_000_000, us=4_000, pinned=False)
            b.copy("HtoD", 512, us=2, pinned=False)
            with b.op("aten::mm"):
                b.idle(us=10_000)
                b.kernel("volta_sgemm_128x64_nn", us=1_000)
    copies = finding(advisor.analyze(built(b), only=["transfer/pageable-copy"]), "transfer/pageable-copy")
    assert copies.saving is not None
    assert 0.9 * 4.0 <= copies.saving.high_ms <= 4.03


def test_a_fix_is_worth_more_behind_one_that_returns_little() -> None:
    """The first fix returns 10 to 60 of 100 ms. Behind 10 the second returns 30, behind 60 no more than 5: 5 to 30."""
    first = Rung("launch", before=100, low=90, high=40, bound_by="host", low_before=100)
    second = Rung("batch", before=40, low=60, high=35, bound_by="compute", low_before=90)
    priced = joined([[first], [second]], 0.05, {})
    assert priced.savings == {"launch": (10, 60), "batch": (5, 30)}
    assert [(step.low, step.high) for step in priced.plan] == [(90, 40), (60, 35)]


def test_behind_a_fix_left_out_as_a_note_the_shorter_step_is_the_better_end() -> None:
    """Padding had eased the hopeful run, so that the wait behind it was worth 8 there and 10 cautiously."""
    padded = Rung("padding", before=100, low=100, high=95, bound_by="work", low_before=100)
    wait = Rung("wait", before=95, low=90, high=87, bound_by="work", low_before=100)
    (left,) = plans._without([padded, wait], {"padding"}, 100)
    assert (left.before, left.low_before) == (100, 100)
    assert (left.low, left.high) == (92, 90)


def test_a_fix_that_returns_more_in_the_cautious_run_takes_nothing_from_the_other() -> None:
    """Coarser numbers leave 30 of 100 ms, or 80; of the experts' work behind them 10 go, or 40: 20 are left, or 40."""
    coarse = Rung("coarse", before=100, low=80, high=30, bound_by="work", low_before=100)
    experts = Rung("experts", before=30, low=40, high=20, bound_by="work", low_before=80)
    left = plans._without([coarse, experts], set(), 100)
    assert [(rung.low, rung.high) for rung in left] == [(80, 30), (40, 20)]
    assert returned(experts) == (10, 40)
    # No host is behind the larger figure: nothing is said of the one recorded.
    assert as_recorded(replace(experts, recorded=10)) == 40


@pytest.mark.parametrize(
    ("share", "alone", "stands"),
    [
        (0.014, (0.0, 0.0), False),
        (0.014, (0.014, 0.0145), False),  # no other figure is said of it
        (0.014, (0.03, 0.04), True),
        (0.016, (0.0, 0.0), True),
    ],
)
def test_what_returns_too_little_of_the_step_is_folded(share: float, alone: tuple[float, float], stands: bool) -> None:
    only = Rung("layout", before=100, low=100, high=100 * (1 - share), bound_by="", low_before=100)
    priced = joined([[only]], 0.5, {}, little_ms=100 * LITTLE, alone=lambda rules: (100 * alone[0], 100 * alone[1]))
    assert list(priced.savings) == (["layout"] if stands else [])
    assert (priced.after == {}) == stands


@pytest.mark.parametrize(("returned", "alone", "stands"), [(2.0, 0.0, False), (2.0, 1.0, True), (8.0, 0.0, True)])
def test_copies_that_nothing_waits_for_are_folded_unless_much_is_behind_them(
    returned: float, alone: float, stands: bool
) -> None:
    """Of 100 ms: 2 with a host that is faster, and nothing as recorded, are none; 8 are more than a low finding."""
    only = Rung("copy", before=100, low=100 - returned, high=100 - returned, bound_by="", low_before=100)
    priced = joined([[only]], 0.5, {}, little_ms=100 * LITTLE, alone=lambda rules: (alone, alone), copies={"copy"})
    assert (list(priced.savings), priced.after) == ((["copy"], {}) if stands else ([], {"copy": ()}))


def stepping(*, clips: bool) -> TraceBuilder:
    """Four steps of 17 ms behind 2 ms in which the host looks at every parameter, in the optimizer or to clip gradients."""
    frame = "torch/nn/utils/clip_grad.py(43): _get_total_norm" if clips else "torch/optim/adamw.py(30): step"
    b = TraceBuilder(V100, host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(20): main"):
            with b.python(f"/venv/lib/python3.12/site-packages/{frame}"):
                b.idle(us=2000)
            with b.op("aten::mm", us=17_000):
                b.kernel("volta_sgemm_128x64_nn", us=17_000)
    return b


def test_a_fused_optimizer_leaves_the_clipping_of_gradients() -> None:
    """Three to nine tenths of 2 ms in the optimizer; a quarter of both in clipping."""
    for clips, part in ((False, 1.0), (True, 0.25)):
        saving = finding(analyzed(stepping(clips=clips)), "gpu-idle/foreach-grouping").saving
        assert saving is not None
        assert saving.low_ms == pytest.approx(0.3 * 2 * part, rel=0.02)
        assert saving.high_ms == pytest.approx(0.9 * 2 * part, rel=0.02)


@pytest.mark.parametrize("rung", ["rung1_workers", "rung2_pinned"])
def test_a_larger_batch_takes_no_step_under_the_shortest_that_was_run(rung: str) -> None:
    """With stacks the host may be faster than recorded: what fixes return with one host and with another never adds up to all."""
    trace = read(str(ROOT / "sample_traces" / "article" / f"{rung}.json.gz"))
    plan = advisor.analyze(trace).plan
    assert plan[-1].rules == ["memory/low-peak"]
    # Products become at most eight times as fast, all else less: of 27 ms of kernels no sixth is the least that can stay.
    busy = trace.steps.compute_ns.median() / 1e6
    last = plan[-1].step_ms_after["low"]
    assert busy / 6 < last < plan[-1].step_ms_before
    assert plan[-1].speedup == pytest.approx(plan[0].step_ms_before / last)
    assert plan[-1].speedup > plan[-1].speedup_low


def attending() -> TraceBuilder:
    """Five steps of 20 attentions in steps of 5 us on the GPU, each of three operators that take the host 40 us; others beside."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False)
    scores, values = [[16, 64, 64], [16, 64, 64]], [[16, 64, 64], [16, 64, 32]]
    parts = [
        ("aten::bmm", [[16, 64, 32], [16, 32, 64]]),
        ("aten::_softmax", [scores[0], [], []]),
        ("aten::bmm", values),
    ]
    names = {
        "aten::bmm": "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
        "aten::_softmax": "softmax_warp_forward",
    }
    for _ in range(5):
        with b.step():
            for _ in range(20):
                for name, shapes in parts:
                    with b.op(name, shapes=shapes, dtypes=["c10::Half"] * len(shapes)):
                        b.idle(us=35)
                        b.kernel(names[name], us=5)
                        b.idle(us=5)
                with b.op("aten::relu"):
                    b.idle(us=80)
                    b.kernel("void at::native::vectorized_elementwise_kernel<4, relu>", us=5)
            b.sync()
    return b


def test_alone_a_pattern_returns_the_idle_time_of_its_launches() -> None:
    """Attention's kernels take 15 us of each 200; the host's 120 us for them go as well, but for what the rule leaves of them."""
    result = advisor.analyze(built(attending()), only=["gpu-idle/launch-bound", "kernels/unfused-attention"])
    attention = finding(result, "kernels/unfused-attention")
    assert attention.saving is not None
    assert attention.saving.alone_ms is not None
    assert attention.cost_ms == pytest.approx(20 * 0.015, rel=0.02)
    assert attention.saving.high_ms < 0.3
    part = attention.saving.alone_ms["high"] / (20 * 0.120)
    assert 0.8 < part <= 1.0


def sending() -> TraceBuilder:
    """Four steps of 700 us: behind 80 us of Python a tensor is made on the host in 50 us, and sent by an operator.

    That takes 40 us before its call, which holds the host for 120 us, of which the copy is the last 100, and 60 us behind it.
    """
    b = TraceBuilder("AMD Instinct MI250X", host_us=0, latency_us=0, with_stack=False)
    shape = [256, 1024]
    for _ in range(4):
        with b.step():
            for _ in range(5):
                with b.op("aten::relu"):
                    b.idle(us=70)
                    b.kernel("void at::native::vectorized_elementwise_kernel<4, relu>", us=5)
            b.idle(us=80)
            dtypes = ["ScalarList", "Scalar"]
            with b.op("aten::randn", shapes=[[], []], dtypes=dtypes), b.op("aten::normal_", shapes=[shape, []], us=50):
                pass
            with b.op("aten::to", shapes=[shape, [], []]), b.op("aten::_to_copy", shapes=[shape, [], []]):
                b.idle(us=40)
                b.copy("HtoD", 1 << 20, us=100, op="aten::copy_", latency_us=20)
                b.idle(us=60)
            with b.op("aten::relu"):
                b.kernel("void at::native::vectorized_elementwise_kernel<4, relu>", us=5)
            b.sync()
    return b


def test_a_copy_that_is_gone_holds_the_host_no_more() -> None:
    """Alone the 220 us of the operator that sends go, but for the 20 that a call takes here at least; making the numbers stays.

    The rule owns 180 of them: the GPU idles for the first 40 within a stretch that began in Python, which is another's.
    """
    rule = "transfer/cpu-created-tensor"
    trace = built(sending())
    replay = Replay(trace.context)
    assert replay.graph is not None
    claim = engine.run(trace, load([builtin_rules_dir()]), only=[rule]).matches[rule]
    assert claim.cost_ns == 4 * 180_000
    keep = effect(trace.context, replay.graph, claim, hopeful=True)
    returned_us = (replay.step_ns(replay.base) - replay.step_ns(replay.run(keep)[1])) / 1e3
    assert returned_us == pytest.approx(200, rel=0.01)


def behind_earlier_work(launch_us: int) -> TraceBuilder:
    """A kernel, then 40 ms of work from before the recording; behind it a kernel and a copy to the host, which waits so long.

    400 us later it launches 50 kernels of 200 us each, every *launch_us* one: 10 ms.
    """
    b = TraceBuilder(A100, host_us=5, latency_us=0, with_stack=False)
    for at_us in (10, 40_000):
        with b.op("aten::mul"):
            b.kernel("mul_kernel", us=5, at_us=at_us)
    b.copy("DtoH", 256, us=5, pinned=True, blocking=True)
    b.idle(us=400)
    for _ in range(50):
        with b.op("aten::mm"):
            b.idle(us=launch_us - 5)
            b.kernel("ampere_fp16_s16816gemm_fp16_128x128", us=200)
    return b


def test_a_host_that_waits_for_work_of_before_the_recording_would_be_that_far_ahead() -> None:
    """All of the 400 us and of the first launch is idle time that a host 40 ms ahead leaves out."""
    result = advisor.analyze(built(behind_earlier_work(20)), only=["transfer/d2h-sync-copy"])
    copy = finding(result, "transfer/d2h-sync-copy")
    idle_ms = result.summary.whole_ms - 10.01
    assert idle_ms == pytest.approx(0.42, abs=0.02)
    assert copy.saving is not None
    assert copy.saving.high_ms == pytest.approx(0.95 * idle_ms, rel=0.05)
    assert copy.saving.low_ms == pytest.approx(0.3 * idle_ms, rel=0.05)
    assert copy.saving.high_ms <= copy.cost_ms + copy.host_ms


def test_a_host_as_slow_as_the_interval_is_long_is_not_ahead_for_long() -> None:
    """The launches take 210 us each, 10.5 ms in all: that stays the host's pace.

    What goes is the next copy's wait for the last kernel's 200 us, and its own 5.
    """
    result = advisor.analyze(built(behind_earlier_work(210)), only=["transfer/d2h-sync-copy"])
    copy = finding(result, "transfer/d2h-sync-copy")
    assert copy.saving is not None
    assert copy.saving.high_ms == pytest.approx(0.205, abs=0.01)


def recomputing() -> TraceBuilder:
    """Four steps of a product of 3 ms; behind it a backward node runs a block again, which takes the host 1 ms and two calls."""
    b = TraceBuilder(A100, host_us=10, latency_us=0, with_stack=False)
    for step in range(4):
        seq = 100 * (step + 1)
        with b.step():
            with b.op("CheckpointFunction", seq=seq), b.op("aten::mm"):
                b.kernel(GEMM, us=3_000)
            b.idle(us=10)
            with b.backward("CheckpointFunctionBackward", seq):
                b.idle(us=200)  # what was kept is taken out
                with b.op("aten::linear", seq=seq + 1):
                    b.kernel(GEMM, us=100)
                b.idle(us=1_000)
                with b.op("aten::gelu", seq=seq + 2):
                    b.kernel("void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", us=100)
                b.idle(us=10)
            b.sync()
    return b


def test_a_forward_pass_that_is_not_run_again_takes_the_host_no_time_though_the_gpu_works_meanwhile() -> None:
    rule = "memory/unmeasured-checkpointing"
    trace = built(recomputing())
    replay = Replay(trace.context)
    assert replay.graph is not None
    claim = engine.run(trace, load([builtin_rules_dir()]), only=[rule]).matches[rule]
    assert replay.behind_ms(claim, []) == pytest.approx(1.02)
    keep = effect(trace.context, replay.graph, claim, hopeful=True)
    gone = (1 - keep.think) * np.maximum(replay.graph.think, 0)
    # And the 210 us that lead to the first launch go with it, as with any that is removed.
    assert gone.sum() / 4e3 == pytest.approx(1_210)


@pytest.mark.parametrize("norm_us", [50, 400])
def test_kernels_that_only_get_shorter_are_launched_as_before(norm_us: int) -> None:
    """Ten convolutions with two transposes of 20 us, which the host launches in 30, and ten batch norms, which take it longer.

    The host limits the step: with the transposes its 20 times 30 us go, however long it takes to launch a batch norm.
    """
    b = TraceBuilder("NVIDIA A100-PCIE-40GB", host_us=0, latency_us=0, with_stack=False)
    names = ("nchwToNhwcKernel", "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", "nhwcToNchwKernel")
    for _ in range(5):
        with b.step():
            for _ in range(10):
                with b.op("aten::cudnn_convolution"):
                    for name in names:
                        b.idle(us=30)
                        b.kernel(f"void cudnn::ops::{name}<__half, __half, float>", us=20)
                with b.op("aten::cudnn_batch_norm"):
                    b.idle(us=norm_us)
                    b.kernel("void cudnn::bn_fw_tr_1C11_kernel_NCHW<__half, float>", us=20, grid=(64, 1, 1))
            b.sync()
    found = next(one for one in advisor.analyze(built(b)).findings if one.rule == "kernels/layout-transpose")
    assert found.saving is not None
    price = found.saving.alone_ms or {"low": found.saving.low_ms, "high": found.saving.high_ms}
    assert 0.15 < price["low"] <= price["high"] <= 0.65
