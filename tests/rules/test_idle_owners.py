"""Owners of idle time on real traces that an expert read: figures are worked out from the raw JSON, apart from the advisor."""

from __future__ import annotations

from typing import Any

import pytest
from support.traces import analysis, trace

from advisor.results.analysis import Finding


def finding(name: str, rule: str) -> Finding:
    found = [finding for finding in analysis(name).findings if finding.rule == rule]
    assert len(found) == 1, [finding.rule for finding in analysis(name).findings]
    return found[0]


def rows(found: Finding) -> list[dict[str, Any]]:
    return [dict(zip(found.evidence.columns, row, strict=True)) for row in found.evidence.rows]


def test_an_image_processor_on_the_cpu_is_named_with_what_takes_its_time() -> None:
    found = finding("audited/h100_timesformer", "gpu-idle/processor")
    # The pipeline's preprocess: 217.5 ms, all of it idle; the processor 178.2, of which normalize 106.4, rescale 33.4, resize 18.7.
    assert found.cost_ms == pytest.approx(217.5, rel=0.01)
    assert found.severity == "high"
    first = rows(found)[0]
    # The processor holds 82 % of the stretch and the decoder 17: what holds it is the stage that calls both.
    assert first["holder"] == "transformers/pipelines/video_classification.py:129 preprocess"
    assert first["mostly_in"] == "__call__ 82 %, read_video_pyav 17 %"
    assert first["all_calls_ms"] == pytest.approx(217.5, rel=0.01)
    assert found.fix is not None
    assert "use_fast=True" in found.fix.after


def test_functions_of_a_library_are_named_with_their_calls() -> None:
    found = finding("audited/mi300_xdit_flux", "gpu-idle/host-function")
    named = {row["holder"].rpartition(" ")[2]: row for row in rows(found)}
    assert named["_execution_device"]["all_calls_ms"] == pytest.approx(10.71, rel=0.01)
    assert named["reset_stateful_hooks"]["all_calls_ms"] == pytest.approx(9.01, rel=0.01)
    # Eight calls, of which only the first is idle.
    assert (named["_set_context"]["calls"], named["_set_context"]["cost_ms"]) == (8, pytest.approx(7.1, rel=0.01))
    # `forward`, which launches a graph of 1,566 kernels in each call, is none of them.
    assert (len(named), found.cost_ms) == (3, pytest.approx(29.2, rel=0.01))
    assert found.fix is not None
    assert found.fix.title.startswith("Call _execution_device, reset_stateful_hooks and _set_context outside the step")


@pytest.mark.parametrize(
    ("name", "cost_ms"),
    # Idle inside zero_grad, per step.
    [
        ("audited/v100_aot_allreduce_rank1of2", 9.5),
        ("v100_resnet50_workers4", 6.36),
        ("v100_resnet50_workers0", 5.79),
        ("audited/v100_resnet50_workers4_b", 6.18),
    ],
)
def test_gradients_that_are_filled_one_by_one(name: str, cost_ms: float) -> None:
    # What queued work explains, and what begins before the annotation, is not the optimizer's.
    assert finding(name, "gradient/zeroing-wait").cost_ms == pytest.approx(cost_ms, rel=0.13)


@pytest.mark.parametrize(("rank", "cost_ms"), [(0, 185.5), (2, 50.8), (6, 194.6)])
def test_a_rank_whose_thread_is_stopped(rank: int, cost_ms: float) -> None:
    found = finding(f"a100_megatron_tp8/rank{rank}", "cpu/stalled-thread")
    assert found.cost_ms == pytest.approx(cost_ms, rel=0.08)


@pytest.mark.parametrize("rank", [1, 4, 5])
def test_ranks_that_only_wait_for_the_others(rank: int) -> None:
    assert "cpu/stalled-thread" in analysis(f"a100_megatron_tp8/rank{rank}").verdicts.passes


def test_an_operator_owns_no_more_than_its_calls_last() -> None:
    gaps = trace("audited/a100_param_bench").frame("gaps")
    gaps = gaps[gaps["cause"] == "operator"]
    cost = gaps.groupby("op", observed=True)["cost_ns"].sum() / 1e6
    assert cost["aten::mul"] == pytest.approx(45.97, rel=0.01)
    assert 0 < cost["aten::fill_"] <= 41.17


def test_a_copy_is_not_blamed_for_idle_in_which_work_was_queued() -> None:
    """Five calls of 138.8 to 146.9 ms hold the host, and the GPU idles 83 to 88.1 ms in each.

    The memset or kernel that ends each long stretch was launched by cudaGraphLaunch 49 to 176 ms before it began: the replay
    lacks work, and nobody knows what the GPU did. This was the copy's before, at 80.9 ms a step.
    """
    made = analysis("audited/a100_dlrm_rank0of16")
    costs = [found.cost_ms for found in made.findings if found.rule == "transfer/d2h-sync-copy"]
    assert sum(costs) <= 27.7
    assert made.summary.steady_causes["blocking_copy"] < 0.01
    assert made.summary.steady_causes["unknown"] > 0.4
    assert made.headline is not None
    assert made.headline.bound == "unknown"
    assert "cuda" in made.headline.text


def test_an_optimizer_that_takes_a_third_of_the_step() -> None:
    found = finding("audited/a100_dlrm_shampoo_rank1of128", "kernels/slow-optimizer")
    first = rows(found)[0]
    assert (first["name"], first["median_host_ms"]) == ("Shampoo", pytest.approx(209.1, rel=0.01))
    assert first["of_the_host"] == pytest.approx(0.339, rel=0.01)
    # 57 of its 62 ms of idle time lie where events were taken out of the file: no price, and so at most medium.
    assert (found.severity, found.saving) == ("medium", None)


def test_first_calls_are_nobodys_finding() -> None:
    made = analysis("audited/mi300_normalization_layers")
    rules = {found.rule for found in made.findings}
    assert rules.isdisjoint({"cpu/work-off-the-gpu", "gpu-idle/host-function", "cpu/stalled-thread"})
