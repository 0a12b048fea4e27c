"""Verdicts of an expert on nineteen real traces, row by row, as ``shared/audited/README.md`` holds it.

What comes first for the expert is said, by the headline or a finding, with its place, and its time within a third; what an
earlier version said wrongly is gone. Left to a later issue are prices that shapes and the device's rates allow, how far
kernels are from what the hardware can do, and experts that compute every token. Times are the expert's own.
"""

from __future__ import annotations

import pytest
from support.prices import owned_ms
from support.traces import analysis

from advisor.report import Options, render
from advisor.results.analysis import Analysis, Finding

pytestmark = pytest.mark.real
ORDER = ("note", "low", "medium", "high")
FOLDER = "audited/"


def read(name: str) -> Analysis:
    return analysis(FOLDER + name)


def text(result: Analysis) -> str:
    return render("text", result, Options(verbosity=1)).decode().partition("\nRules: ")[0]


def found(result: Analysis, rule: str) -> Finding:
    named = {finding.rule: finding for finding in result.findings}
    assert rule in named, f"{rule} is not among {', '.join(named)}"
    return named[rule]


def rules(result: Analysis) -> list[str]:
    """Rules of the findings that are more than notes, in order."""
    return [finding.rule for finding in result.findings if finding.severity != "note"]


def headline(result: Analysis) -> str:
    assert result.headline is not None
    return result.headline.text


def about(value: float, expert: float) -> bool:
    """Tell whether a time is within a third of the expert's."""
    return expert * 2 / 3 <= value <= expert * 4 / 3


def parts(result: Analysis) -> dict[str, float]:
    """Start-up by kind and place, in ms."""
    return {f"{part.kind} {part.where or ''}".strip(): part.ms for part in result.summary.startup}


def code(finding: Finding) -> str:
    return f"{finding.fix.before}\n{finding.fix.after}\n{finding.fix.caveat}"


def column(finding: Finding, name: str) -> list[object]:
    at = finding.evidence.columns.index(name)
    return [row[at] for row in finding.evidence.rows]


def test_a_mixture_of_experts_in_fp32_wants_16_bits_and_no_training_code() -> None:
    result = read("a100_switch_transformer_8x1024")
    assert result.headline is not None
    assert (result.headline.kind, result.headline.first) == ("inference", "precision/no-tensor-cores")
    first = result.findings[0]
    # 519 ms of products: the expert has 34 of them left in bf16. What they save computed from shapes is another issue's.
    assert (first.rule, first.severity) == ("precision/no-tensor-cores", "high")
    assert about(first.cost_ms, 519)
    assert first.where[0].file is not None
    assert first.where[0].file.endswith("feedforward.py")
    assert "backward" not in code(first)
    assert "GradScaler" not in text(result)


def test_steps_that_wait_for_the_loader_are_found_and_the_workers_counted() -> None:
    result = read("rtx2080ti_resnet_annotated")
    assert (result.summary.steps, result.summary.steps_by) == (30, "Optimizer.step of SGD")
    assert result.summary.step_ms is not None
    # 334 over all but the first; the expert speaks of those where the batches of the beginning are used up.
    assert about(result.summary.steady_ms or 0, 362)
    first = result.findings[0]
    assert (first.rule, first.severity) == ("data-loading/loader-stall", "high")
    assert about(first.cost_ms, 189)
    # Bursts of four: four workers, where it takes about nine.
    assert column(first, "bursts_of") == [4]
    assert about(float(str(column(first, "workers_needed")[0])), 9)
    assert not [verdict for verdict in result.verdicts.not_run if "steps" in verdict.needs]
    # Every other step waits: none of them stands out.
    assert "gpu-idle/step-outlier" not in {finding.rule for finding in result.findings}


def test_a_model_on_the_cpu_beside_a_gpu() -> None:
    result = read("a100_particle_on_cpu")
    assert "on the CPU beside an idle NVIDIA A100" in headline(result)
    dropout, left = found(result, "inference/train-mode"), found(result, "cpu/gpu-left-idle")
    assert left.severity == "high"
    assert about(dropout.cost_ms, 985)
    # The move to the GPU takes the dropouts along, which an A100 does in 4 to 7 ms: they are part of it, and so is eval().
    assert dropout.after == ["cpu/gpu-left-idle"]
    assert "in evaluation mode" in left.fix.title
    assert ".eval()" in code(left)
    # 3.7 to 4.9 s take 96 ms on the GPU.
    assert left.saving is not None
    assert about(left.saving.high_ms, 4_867 - 96)
    assert 4_570 < left.saving.high_ms < 4_867
    # Tensors of the CPU, 44.6 GB of them of 32 MiB and more, need no memory of the system there: 436 ms of freeing go as well.
    assert found(result, "cpu/fresh-memory").done_by == "cpu/gpu-left-idle"


@pytest.mark.parametrize(
    ("name", "steady", "idle"), [("a100_particle_batch4", 32.0, 26.4), ("a100_particle_batch8_cold", 30.0, 0.79 * 30)]
)
def test_small_batches_are_launch_bound(name: str, steady: float, idle: float) -> None:
    result = read(name)
    assert about(result.summary.steady_ms or 0, steady)
    first = result.findings[0]
    assert (first.rule, first.severity) == ("gpu-idle/launch-bound", "high")
    assert about(first.cost_ms, idle)
    assert first.saving is not None
    assert first.saving.high_ms < owned_ms(first, result.findings)
    assert "kernels/many-tiny" not in {finding.rule for finding in result.findings}
    assert "the GPU waits for Python and launches" in headline(result)


def test_two_first_calls_are_start_up_and_what_is_left_is_judged() -> None:
    result = read("a100_particle_batch512_cold")
    started = parts(result)
    assert about(started["loading aten::cudnn_convolution"], 628.8)
    assert about(started["specialization delta_r2"], 293)
    assert headline(result).startswith("924 of 1,022 ms are start-up")
    assert "TorchScript specializes delta_r2" in text(result) or "specialization 293 ms in delta_r2" in text(result)
    assert about(result.summary.steady_ms or 0, 96)
    for rule, share in (
        ("precision/cast-churn", 0.187),
        ("kernels/elementwise-chain", 0.21),
        ("kernels/unfused-attention", 0.137),  # 9 % between the products, and these
    ):
        finding = found(result, rule)
        # Chains are compiled with the normalizations, whose finding has the price of both.
        assert (finding.done_by, finding.severity) == (
            ("kernels/normalization-chain", "note") if rule == "kernels/elementwise-chain" else (None, "high")
        )
        assert about(finding.cost_ms, share * 96)
    assert result.plan[-1].speedup > 1.2


def test_a_specialization_silences_nothing() -> None:
    result = read("a100_particle_batch8_cold")
    assert about(parts(result)["specialization delta_r2"], 300)
    assert headline(result).startswith("299 of 330 ms are start-up: TorchScript specializes delta_r2.")


def test_a_first_call_is_no_gap() -> None:
    result = read("event_sync_first_call")
    assert about(parts(result)["first call aten::empty"], 2.19)
    assert "2.19 of 3.15 ms of this cold step are start-up" in headline(result)
    assert "SummaryWriter" not in text(result)
    assert "add_histogram" not in text(result)
    assert all(finding.severity in ("low", "note") for finding in result.findings)


def test_one_all_reduce_a_parameter_in_a_program_that_is_compiled_and_not_fused() -> None:
    result = read("v100_aot_allreduce_rank1of2")
    reduced = found(result, "distributed/unbucketed-gradients")
    assert about(reduced.cost_ms, 71)
    assert reduced.occurrences == 404 * 5
    # The loop's idle time is its own, 60 ms in four of the five steps, and one change with it: compiling does not touch it.
    waits = found(result, "distributed/unbucketed-wait")
    assert about(waits.cost_ms, 4 / 5 * 60)
    assert reduced.done_by == waits.rule
    assert waits.saving is not None
    # Of the loop 48 ms, and 50 to 60 of the 71 that DDP before compile would hide: 95 to 105 by an auditor's count.
    assert 40 <= waits.saving.low_ms <= waits.saving.high_ms <= 105
    assert waits.severity in ("medium", "high")
    assert "in buckets" in waits.fix.title
    launches = found(result, "gpu-idle/launch-bound")
    assert about(launches.cost_ms, 69)
    # Nothing else owns those 71 ms, and nothing speaks of sizes that were not recorded.
    assert "distributed/exposed-communication" not in {finding.rule for finding in result.findings}
    assert "distributed/small-messages" not in result.verdicts.passes
    shown = text(result)
    for wrong in ("bf16_compress_hook", "bfloat16", "AdamW", "torch.compile(model)  #", "compile the model:"):
        assert wrong not in shown
    assert "backend" in found(result, "gpu-idle/launch-bound").fix.title
    # The GPU idles 9.5 ms a step in zero_grad and 7.3 in SGD's step: both are named, with their idle time and not only kernels.
    assert about(found(result, "gradient/zeroing-wait").cost_ms, 9.5)
    assert about(found(result, "gpu-idle/foreach-grouping").cost_ms, 7.3)
    assert "eager" not in headline(result)
    batch = found(result, "memory/low-peak")
    assert rules(result).index("memory/low-peak") == len(rules(result)) - 1
    assert batch.saving is not None
    assert batch.saving.high_ms <= batch.cost_ms
    # Both ends of what the plan comes to.
    last = result.plan[-1]
    assert last.speedup_low is not None
    assert f"{last.speedup_low:.2f} to {last.speedup:.2f}×" in shown


def test_a_benchmark_that_clears_the_cache() -> None:
    result = read("a100_param_bench")
    assert headline(result).startswith("19.6 of 19.8 s are start-up")
    # Its own flush is the benchmark's: named, and nobody's fault. 41.2 ms of aten::fill_ and 45.5 of aten::mul.
    assert "clear_cache] (85.7 ms)" in headline(result)
    assert "cpu/work-off-the-gpu" not in {finding.rule for finding in result.findings}
    assert "every step" not in text(result)
    assert "sync/explicit-synchronize" not in {finding.rule for finding in result.findings}


def test_an_accelerator_of_another_maker_is_work() -> None:
    result = read("mtia_inference_rank0")
    causes = result.summary.causes
    busy = (causes["compute"] + causes["copy"]) * result.summary.window_ms
    assert about(busy, 7_700)
    assert result.trace.devices[0].name == "MTIA"
    shown = text(result)
    assert "no GPU event" not in shown
    assert "On AMD" not in shown
    # Of 5,634 ms of idle 3,254 lie in _copy_from and fill_, none of it inside a launch: they copy through the host, and wait
    # (a later audit). What is left, 2,381, is launches (1,055), scalars compared, and Python between operators.
    idle = {
        cause: causes.get(cause, 0.0) * result.summary.window_ms
        for cause in ("blocking_copy", "host", "sync", "operator")
    }
    assert idle["blocking_copy"] == pytest.approx(3_254, rel=0.01)
    assert idle["host"] + idle["sync"] + idle["operator"] == pytest.approx(2_381, rel=0.01)
    assert causes["operator"] < 0.02
    assert causes.get("unknown", 0.0) < 0.01


def test_an_accelerator_whose_operators_copy_through_the_host() -> None:
    result = read("mtia_inference_rank0")
    optimizer, products, launches, copies, metrics = result.findings[:5]
    # 3,490 ms of idle in the optimizer's step, 2,038 in such copies; foreach or fused alone return 2,500 to 3,300 (audit).
    assert (optimizer.rule, optimizer.severity) == ("kernels/slow-optimizer", "high")
    assert optimizer.saving is not None
    assert (optimizer.saving.low_ms, optimizer.saving.high_ms) == pytest.approx((2_500, 3_300), rel=0.1)
    # 5,752 of 7,702 busy ms are products in fp32, at 0.055 TFLOP/s (audit): their kernel is at fault before their precision.
    assert products.rule == "kernels/fallback-product"
    assert "precision/fp32-accelerator" not in rules(result)
    assert products.cost_ms == pytest.approx(5_752, rel=0.02)  # of mm and addmm
    # When launches return at once, no more than 2,381 ms do.
    assert launches.rule == "sync/launch-blocking"
    assert launches.cost_ms <= 2_381
    assert launches.fix.title.startswith("Let launches return")
    assert "ASCEND" not in launches.fix.after
    assert copies.rule == "transfer/copy-through-host"
    # 3,254 ms, of which 313 lie in the metrics: "metrics update" and "metrics compute" hold the host for 717 ms (raw trace).
    assert copies.cost_ms == pytest.approx(3_254 - 313, rel=0.01)
    assert metrics.rule == "gpu-idle/metrics"
    assert 0.98 * 717 <= metrics.cost_ms <= 717
    assert {place.op for place in copies.where[:2]} == {"aten::_copy_from", "aten::fill_"}


def test_a_product_that_is_certain_leads_and_the_blocked_host_is_named() -> None:
    result = read("a100_dlrm_rank0of16")
    first = result.findings[0]
    assert (first.rule, first.severity) == ("precision/misaligned-matmul", "medium")
    # 117 ms are of six backward passes; that of before the recording is no step's (a later audit).
    assert first.cost_ms == pytest.approx(117 / 6, rel=0.03)
    # One copy blocks the host for 147 ms a step, of which the GPU idles for 81. Graph replays lack work there, so that nobody
    # knows what the GPU did: the headline names the call and its place, and no finding blames it for the idle time.
    assert "_data_dist ##" in headline(result)
    assert "cudaMemcpy" in headline(result)
    # Of 750 ms of the copy 612 lie in the five steps of the device, which begin 155 ms behind the host's: 122 each (raw trace).
    assert "(75.4 of 124 ms)" in headline(result)


def test_an_optimizer_that_takes_a_third_of_the_step() -> None:
    result = read("a100_dlrm_shampoo_rank1of128")
    first = result.findings[0]
    # Of the 111 ms of the GPU's work in a step of Shampoo 105 are an all_gather, as a second audit showed: communication, which
    # no cheaper step returns. The host's 209 ms are said.
    assert first.rule == "kernels/slow-optimizer"
    # 52 ms more are idle before an all-reduce that was launched before the optimizer's step began (third audit: 61.9 at most).
    assert about(first.cost_ms, 61.9)
    # Of these 57 lie where events were taken out, and so does what may hide the exchange (fourth audit: thousands of launches
    # are missing beside each all_to_all): neither has a price.
    assert (first.severity, first.saving) == ("medium", None)
    assert "distributed/exposed-communication" not in rules(result)
    assert first.where[0].op == "Optimizer.step#Shampoo.step"
    # 99 of 100 operators were taken out of this file (a later audit: numbers of events 43,306 to 297,173, 2,302 there): what
    # reads as idle time is none that was seen, and nothing is advised on it.
    assert "gpu-idle/unexplained" not in rules(result)
    assert "profile/thinned" in result.verdicts.noted
    assert "taken out of the file" in headline(result)
    assert "record a few steps" not in headline(result)


def test_the_tail_of_a_recording_is_no_step() -> None:
    result = read("v100_resnet50_workers4_b")
    assert result.summary.step_ms is not None
    assert result.summary.step_ms.median == pytest.approx(123, abs=1)
    assert about(result.summary.causes["after"] * result.summary.window_ms, 80.4)
    assert {"gpu-idle/long-gap", "gpu-idle/step-outlier"}.isdisjoint(finding.rule for finding in result.findings)
    # Conv-net prices are of 123 ms, not 143.
    assert result.plan[0].step_ms_before == pytest.approx(123, abs=1)


def test_an_engine_in_eager_mode() -> None:
    result = read("b200_vllm_gptoss_eager")
    first = result.findings[0]
    assert (first.rule, first.severity) == ("gpu-idle/launch-bound", "high")
    assert "enforce_eager=False" in first.fix.after
    assert result.summary.tensor_core_share == pytest.approx(0.60, abs=0.02)
    assert "vLLM" in headline(result)
    assert rules(result) == ["gpu-idle/launch-bound"]
    assert "backward" not in text(result)


def test_images_prepared_on_the_cpu_and_attention_by_hand() -> None:
    result = read("h100_timesformer")
    first, second = result.findings[:2]
    assert (first.rule, first.severity) == ("gpu-idle/processor", "high")
    assert about(first.cost_ms, 218)
    holder = str(column(first, "mostly_in")[0])
    assert holder == "__call__ 82 %, read_video_pyav 17 %"  # the processor, and the decoder before it
    assert "use_fast=True" in first.fix.after
    assert (second.rule, second.severity) == ("kernels/unfused-attention", "high")
    assert about(second.cost_ms, 120)
    # What pads the products of that attention is worth nothing behind it.
    padding = found(result, "precision/misaligned-matmul")
    assert padding.severity == "note"
    assert padding.saving is None
    assert "kernels/unfused-attention" in (padding.after or [])
    assert "add_histogram" not in text(result)
    # Of 379 ms those of the processor, 218, and of the attention, 120, can go.
    assert result.plan[-1].speedup < 379 / (379 - 218 - 120)


def test_a_graph_capture_is_no_idle_gpu() -> None:
    result = read("mi300_vllm_graph_capture")
    assert result.headline is not None
    assert result.headline.kind == "capture only"
    assert "idle means nothing here" in headline(result)
    assert result.findings == []
    assert any(name.startswith("capture") and about(ms, 57) for name, ms in parts(result).items())


def test_functions_of_a_library_are_named() -> None:
    result = read("mi300_xdit_flux")
    idle, products = result.findings[:2]
    assert products.rule == "precision/half-products"
    assert products.cost_ms is not None
    assert about(products.cost_ms, 133.5)  # those of at least 20 us
    assert idle.rule == "gpu-idle/host-function"
    calls = dict(zip(column(idle, "function"), column(idle, "all_calls_ms"), strict=True))
    assert about(float(str(calls["_execution_device"])), 10.7)
    assert about(float(str(calls["reset_stateful_hooks"])), 9.0)
    assert "_execution_device" in text(result)
    assert "reset_stateful_hooks" in text(result)


def test_one_image_a_batch_is_launch_bound_and_no_time_of_it_counts_twice() -> None:
    """Three Linears of one input are named behind it: what they return beside a compiled model is in their price."""
    result = read("mi300_vit_batch1")
    assert rules(result) == ["gpu-idle/launch-bound", "inference/separate-projections"]
    first = result.findings[0]
    assert first.severity == "high"
    assert first.saving is not None
    assert first.saving.high_ms < first.cost_ms


def test_the_first_call_of_an_operator_is_start_up() -> None:
    result = read("mi300_normalization_layers")
    assert parts(result)["first call aten::arange"] >= 28.5 * 2 / 3
    assert "cpu/work-off-the-gpu" not in {finding.rule for finding in result.findings}
    # Of the 30.4 ms that single calls leave 24.2 belong to the first of three iterations: the others take 2.8 ms each.
    assert parts(result)["first iteration"] >= 20
    assert headline(result).startswith("1,062 of 1,069 ms are start-up")
    assert about(result.summary.steady_ms, 5.8)
    assert "gpu-idle/unexplained" not in {finding.rule for finding in result.findings}
