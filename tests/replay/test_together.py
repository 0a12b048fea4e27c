"""Fixes together: one host for all of them, and no step shorter than what the GPU has left to do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support.real import NAMES
from support.traces import analysis as analyzed
from support.traces import rules
from support.traces import trace as real

from advisor.engine.run import run
from advisor.intervals import union
from advisor.pipeline import analyze
from advisor.replay.apart import apart
from advisor.replay.pricing import Host, Replay
from advisor.replay.queue import World, effects
from advisor.report import Options, render
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

V100 = "Tesla V100-SXM2-16GB"
GEMM = "volta_sgemm_128x64_nn"


def built(b: TraceBuilder, folder: Path) -> tuple[Trace, Analysis]:
    trace = read(str(b.write(folder / "trace.json")))
    return trace, analyze(trace, rules())


def slowed(*, product_us: int = 100, host_us: int = 100, others: int = 100) -> TraceBuilder:
    """Five steps, with stacks: 100 products, each launched in *host_us*; then small kernels of 5 us, launched in 40 each."""
    b = TraceBuilder(V100, host_us=0, latency_us=0)
    for _ in range(5):
        with b.step(), b.python("train.py(7): step"):
            for _ in range(100):
                with b.op("aten::mm"):
                    b.idle(us=host_us)
                    b.kernel(GEMM, us=product_us)
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(others):
                    with b.op("aten::add_"):
                        b.idle(us=40)
                        b.kernel("vectorized_elementwise_kernel_add", us=5)
    b.sync()
    return b


def left_ms(trace: Trace, result: Analysis) -> list[float]:
    """The ms a step that the busiest GPU works with the fixes so far, all as hopeful as they are, after each step of the plan."""
    claims = [claim for claim in run(trace, rules()).matches.values() if claim.has_price]
    replay = Replay(trace.context)
    assert replay.graph is not None
    world = World(replay, effects(replay, apart(trace.context, claims).claims), Host())
    device = trace.context.recording.work.device[replay.graph.work]
    steps = len(trace.context.ledger.counted_steps()) if trace.context.recording.steps else 1
    scale = trace.context.ledger.counted_ns / replay.base.window_ns
    found = []
    for step in result.plan:
        for rule in step.rules:
            world.take(rule, cautiously=False)
        timeline = world.timeline()
        begun, ended = timeline.begun, timeline.ended
        busy = [union(begun[device == one], ended[device == one]) for one in np.unique(device)]
        found.append(max(int((one.end - one.start).sum()) for one in busy) * scale / max(steps, 1) / 1e6)
    return found


def holds(trace: Trace, result: Analysis, slack: float) -> None:
    """No step of the plan is shorter than the GPU's work, nor do the savings exceed what there is."""
    whole = result.summary.priced_ms
    for step, left in zip(result.plan, left_ms(trace, result), strict=True):
        assert step.step_ms_after["low"] >= min(left, whole) - slack * whole, step.rules
        assert step.step_ms_after["low"] <= step.step_ms_after["high"] <= whole * (1 + 1e-9)
    assert sum(one.saving.high_ms for one in result.findings if one.saving) <= whole * (1 + 1e-9)


@pytest.mark.parametrize("product_us", [30, 100, 130])
@pytest.mark.parametrize("others", [10, 100, 300])
def test_no_step_of_the_plan_is_shorter_than_the_work_that_is_left(
    product_us: int, others: int, tmp_path: Path
) -> None:
    trace, result = built(slowed(product_us=product_us, others=others), tmp_path)
    assert result.plan
    holds(trace, result, 0.005)


def test_fixes_together_return_what_they_do_with_one_host(tmp_path: Path) -> None:
    """A host of 14 ms, 10 for products and 4 for the optimizer, beside a GPU of 10.5: two fixes, each of which has its own host.

    As recorded a fused optimizer returns 14 less the 10 of the other launches, nine tenths of 0.4 to 4: 3.06 ms by the replay,
    and faster products nothing: so the optimizer leads. Without stacks the host takes 7, so the GPU's 10.5 set the pace: behind
    the optimizer products of an eighth return no more than what leaves the host 5 + 0.4. Together it is 5.03 by the replay, and
    never 3.06 and 5.1: 14 → 9.
    """
    trace, result = built(slowed(), tmp_path)
    optimizer, cores = [one.saving for one in result.findings if one.saving]
    assert [one.rule for one in result.findings[:2]] == ["gpu-idle/foreach-grouping", "precision/no-tensor-cores"]
    assert optimizer is not None
    assert cores is not None
    assert optimizer.recorded_ms == pytest.approx(3.06, abs=0.05)
    assert cores.recorded_ms == 0.0
    assert 3.5 < cores.high_ms < 10.5 - 5.4
    assert result.plan[-1].step_ms_after["low"] == pytest.approx(14 - (10.5 - 5.4), abs=0.1)
    text = " ".join(render("text", result, Options()).decode().split())
    assert "each saving counts after those above it; where one is high, later ones are low" in text
    assert b"where one is high, later ones are low" in render("html", result, Options())
    holds(trace, result, 0.005)


@pytest.mark.real
@pytest.mark.parametrize("name", [name.removesuffix(".json.gz") for name in NAMES])
def test_nor_is_one_of_a_real_trace(name: str) -> None:
    result = analyzed(name)
    if result.plan and not real(name).context.cpu_program:
        holds(real(name), result, 0.02)


def test_what_a_fix_returns_alone_is_said_where_it_is_another_figure(tmp_path: Path) -> None:
    """A host of 10 ms, 100 us for each product, beside products of 80 us: faster ones return nothing while it sets the pace.

    Launched as one, or nearly, the products' 8 ms set it, and then an eighth of them is 1.
    """
    b = TraceBuilder(V100, host_us=0, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            for _ in range(100):
                with b.op("aten::mm"):
                    b.idle(us=100)
                    b.kernel(GEMM, us=80)
    b.sync()
    _, result = built(b, tmp_path)
    launches, products = result.findings
    assert (launches.rule, products.rule) == ("gpu-idle/launch-bound", "precision/no-tensor-cores")
    assert launches.saving is not None
    assert products.saving is not None
    assert launches.saving.alone_ms is None
    assert products.saving.high_ms == pytest.approx(8 * 0.874, abs=0.02)
    assert products.saving.alone_ms == {"low": 0.0, "high": 0.0}
    assert "(9.8–70 %) after those above, alone nothing" in " ".join(render("text", result, Options()).decode().split())
    for form in ("html", "markdown"):
        assert b"; alone nothing" in render(form, result, Options()), form


@pytest.mark.real
def test_waits_for_single_values_return_more_alone_than_behind_faster_products() -> None:
    """11.6 ms by an auditor's replay without the waits, 0.65 to 0.81 behind bf16 (switch_transformer)."""
    (waits,) = [one for one in analyzed("a100_switch_transformer").findings if one.rule == "sync/scalar-readback"]
    assert waits.saving is not None
    assert waits.saving.alone_ms is not None
    assert waits.saving.alone_ms["high"] == pytest.approx(11.6, rel=0.02)
    assert waits.saving.high_ms < 1


def test_the_copies_of_parts_that_are_not_run_again_are_not_priced_beside_that(tmp_path: Path) -> None:
    """Each of five labels' parts copies 0.1 ms in and 0.3 back: one part's stay, a quarter of a hundredth of the 152 ms."""
    folder = "/usr/lib/python3/site-packages/transformers/pipelines"
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=0, latency_us=0)
    with b.step(), b.python("serve.py(12): serve"):
        for label in range(5):
            with b.python(f"{folder}/zero_shot_object_detection.py({176 if label else 164}): preprocess"):
                b.idle(ms=20)
            with b.python(f"{folder}/base.py(1266): forward"):
                b.copy("HtoD", 1 << 20, us=100)
                with b.python(f"{folder}/zero_shot_object_detection.py(184): _forward"), b.op("aten::linear"):
                    b.kernel("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", us=10_000)
                b.copy("DtoH", 3 << 20, us=300)
    _, result = built(b, tmp_path)
    by_rule = {finding.rule: finding for finding in result.findings}
    parts, copies = by_rule["inference/label-parts"], by_rule["transfer/pageable-copy"]
    assert parts.saving is not None
    assert parts.saving.high_ms == pytest.approx(4 * 30.4, rel=0.01)
    assert (copies.saving, copies.after) == (None, ["inference/label-parts"])


def test_a_search_for_algorithms_stands_beside_another_format_of_numbers(tmp_path: Path) -> None:
    """Who stays in fp32 can search all the same: alone it returns up to 30 % of 6 ms, and little behind 16 bits."""
    b = TraceBuilder(V100, host_us=5, latency_us=0)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                shapes = [[32, 64, 56, 56], [64, 64, 3, 3]]
                with b.op("aten::conv2d"), b.op("aten::cudnn_convolution", shapes=shapes, dtypes=["float", "float"]):
                    b.kernel("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>", us=300)
                with b.op("aten::relu"):
                    b.kernel("void at::native::vectorized_elementwise_kernel<4, relu>", us=100)
            b.sync()
    _, result = built(b, tmp_path)
    cores, search = (
        next(found for found in result.findings if found.rule == rule)
        for rule in ("precision/no-tensor-cores", "kernels/cudnn-autotune-off")
    )
    assert result.findings.index(cores) < result.findings.index(search)
    assert search.saving is not None
    assert search.saving.alone_ms == {"low": 0.0, "high": pytest.approx(0.3 * 6.0, rel=0.02)}
    assert search.saving.high_ms < 0.3 * 6.0 / 2


def test_what_returns_idle_time_of_others_alone_says_so() -> None:
    """Attention of 18 us a step on a GPU that waits for the host 84 % of the time: alone its launches go as well, up to 46 us."""
    (found,) = [one for one in analyzed("h100_transformer_run2").findings if one.rule == "kernels/unfused-attention"]
    assert found.saving is not None
    assert found.saving.alone_ms is not None
    assert found.saving.alone_ms["high"] > 2 * found.cost_ms
    assert "which is another finding's" in found.saving.basis


def test_what_a_change_returns_alone_beside_a_faster_cpu_says_so() -> None:
    """Pageable copies of 3.3 ms, into which the CPU never comes early: pinned they free it for at most 3.4 ms, a faster one 5.9."""
    (found,) = [one for one in analyzed("v100_resnet50_workers4").findings if one.rule == "transfer/pageable-copy"]
    assert found.saving is not None
    assert found.saving.alone_ms is not None
    assert found.saving.alone_ms["high"] > 1.5 * found.cost_ms
    said = re.search(
        r"alone, the upper figure supposes a CPU that recording did not slow: with the one recorded it is ([\d.]+) ms",
        found.saving.basis,
    )
    assert said is not None
    assert 0.8 * 0.9 * found.cost_ms < float(said[1]) < 1.1 * found.cost_ms
