"""The replay gives the record back, each kind of edge matters to it, and what it predicts is what was measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.real import NAMES
from support.traces import analysis as analyzed
from support.traces import rules, sample
from support.traces import trace as real

from advisor.engine import run as engine
from advisor.pipeline import analyze
from advisor.replay import graph as graphs
from advisor.replay import simulate as clock
from advisor.replay.effect import effect
from advisor.replay.graph import BLOCKING, PLAIN, WAIT, Graph
from advisor.replay.pricing import Replay
from advisor.replay.simulate import Change
from advisor.replay.steady import clock as steady
from advisor.report.figures import BOUND_BY
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

NOT_REPLAYED = {
    "a100_host_only": "nothing was recorded",
    "cpu_only": "nothing was recorded",
    "cupti_counters": "nothing was recorded",
    "legacy_list_root_cpu": "nothing was recorded",
    "rank_without_gpu": "nothing was recorded",
    "gpu_events_without_host": "idle time cannot be explained",
    "mi210_gpu_only": "idle time cannot be explained",
    "mi300_vllm_graph_replay": "run again unchanged, it is 9 % off",
}


def names() -> list[str]:
    return [name.removesuffix(".json.gz") for name in NAMES]


def drift(trace: Trace, graph: Graph, change: Change | None = None) -> float:
    """Distance of replayed moments from the recorded ones without start-up and both ends, as a share: the 95th percentile."""
    timeline = clock.run(clock.Prepared(graph), change)
    begun = np.abs(timeline.begun - trace.context.once(steady).at(trace.context.recording.work.start[graph.work]))
    start = np.abs(timeline.start - graph.start)
    return float(max(np.quantile(begun, 0.95), np.quantile(start, 0.95)) / trace.ledger.counted_ns)


# ---- identity


@pytest.mark.real
@pytest.mark.parametrize("name", [name for name in names() if name not in NOT_REPLAYED])
def test_run_again_unchanged_it_gives_the_record_back(name: str) -> None:
    trace = real(name)
    replay = Replay(trace.context)
    assert replay.reason == ""
    assert replay.graph is not None
    # Steady work is what is run again: the recorded steps without start-up, work of before and the recording's tail.
    recording = trace.context.recording
    steps = trace.ledger.step_ns(recording.step_count)
    recorded = float(np.median(steps[recording.sampled])) if trace.step_count else trace.ledger.counted_ns
    # Idle time that nothing explains is not run again; before start-up was taken out, it was lost in that.
    unexplained = trace.ledger.by_cause()["unknown"] / trace.ledger.counted_ns if trace.step_count < 2 else 0.0
    assert replay.base.step_ns == pytest.approx(recorded, rel=0.02 + unexplained)
    assert replay.base.window_ns == pytest.approx(trace.ledger.counted_ns, rel=0.05)
    assert drift(trace, replay.graph) <= 0.02 + unexplained


@pytest.mark.real
@pytest.mark.parametrize("name", sorted(NOT_REPLAYED))
def test_what_cannot_be_trusted_says_why(name: str) -> None:
    assert Replay(real(name).context).reason.startswith(NOT_REPLAYED[name])


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("stream", "a100_dlrm_rank3of8"),
        ("launch", "a100_dlrm_rank3of8"),
        ("events", "a100_megatron_tp8/rank3"),
        ("queue", "ns_resolution_rank0"),
        ("think", "v100_resnet50_workers0"),
        ("wait", "a100_copies_pinned"),
        ("blocking", "a100_copies_pageable"),
    ],
)
def test_without_one_kind_of_edge_it_does_not(kind: str, name: str) -> None:
    trace = real(name)
    graph = graphs.build(trace.context)
    assert graph is not None
    assert drift(trace, graph) <= 0.02
    change = None
    if kind == "stream":
        graph = dataclasses.replace(graph, stream=np.arange(len(graph.work)))
    elif kind == "launch":
        graph = dataclasses.replace(graph, lag=np.full_like(graph.lag, -(1 << 50)))
    elif kind == "events":
        graph = dataclasses.replace(graph, depends=np.full_like(graph.depends, -1))
    elif kind == "queue":
        graph = dataclasses.replace(graph, queue=0)
    elif kind == "think":
        graph = dataclasses.replace(graph, think=np.minimum(graph.think, 0))
    else:
        change = Change(free=graph.kind == {"wait": WAIT, "blocking": BLOCKING}[kind])
    assert drift(trace, graph, change) > 0.04


def test_waits_are_worked_out_and_not_copied() -> None:
    """A kernel that is 3 ms longer makes the synchronization behind it 3 ms longer, and the step."""
    b = TraceBuilder(host_us=10, latency_us=2)
    for _ in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=5000)
            b.sync()
            b.idle(us=500)
    trace = built(b)
    replay = Replay(trace.context)
    assert replay.graph is not None
    longer = Change(dur=np.full(len(replay.graph.work), -3_000_000))
    before, after = (clock.run(replay.prepared, change) for change in (None, longer))
    waits = replay.graph.kind == WAIT
    grown = (after.end - after.start)[waits] - (before.end - before.start)[waits]
    assert grown.tolist() == [3_000_000] * 4


# ---- what was measured


def saving(name: str, rule: str) -> tuple[float, float]:
    finding = next(finding for finding in analyzed(name).findings if finding.rule == rule)
    assert finding.saving is not None
    assert finding.saving.basis.startswith("replay")
    return finding.saving.low_ms, finding.saving.high_ms


@pytest.mark.real
def test_the_loader_pair_lies_in_the_predicted_range() -> None:
    """ResNet-50 on a V100 without workers, and with four: nothing in the replay was fitted on either file."""
    before, after = real("v100_resnet50_workers0").step_ms, real("v100_resnet50_workers4").step_ms
    assert before is not None
    assert after is not None
    low, high = saving("v100_resnet50_workers0", "data-loading/single-process-loader")
    assert before - high <= after <= before - low
    assert high - low <= 0.30 * before
    assert (2 * before - low - high) / 2 == pytest.approx(after, rel=0.20)


@pytest.mark.real
def test_the_copies_pair_lies_in_the_predicted_range() -> None:
    before, after = real("a100_copies_pageable").step_ms, real("a100_copies_pinned").step_ms
    assert before is not None
    assert after is not None
    low, high = saving("a100_copies_pageable", "transfer/pageable-copy")
    assert before - high <= after <= before - low


# ---- planted savings


def built(b: TraceBuilder) -> Trace:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return read(str(b.write(Path(folder) / "t.json")))


def price(b: TraceBuilder, rule: str) -> tuple[float, float]:
    """What the fix of one rule returns, replayed alone, in ms: cautiously and hopefully."""
    trace = built(b)
    outcome = engine.run(trace, rules(), only=[rule])
    replay = Replay(trace.context)
    assert replay.reason == ""
    whole = trace.step_ms
    assert whole is not None
    return replay.price(list(outcome.matches.values()), whole).savings[rule]


def test_an_addition_of_a_gradient_takes_its_own_node_along_and_not_the_engine() -> None:
    """100 nodes of 8 us and a launch of 10, with 30 us of autograd's engine before each: 1.8 ms go, and 3 stay."""
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>"
    fill = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1>>"
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(6):
        with b.step():
            with b.annotation("Optimizer.zero_grad#SGD.zero_grad"):
                for _ in range(100):
                    with b.op("aten::zero_"), b.op("aten::fill_"):
                        b.kernel(fill, us=1)
            for _ in range(100):
                b.idle(us=30)
                name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
                with b.op(name), b.op("torch::autograd::AccumulateGrad"), b.op("aten::add_"):
                    b.idle(us=8)
                    b.kernel(add, us=1)
            b.sync()
    trace = built(b)
    outcome = engine.run(trace, rules(), only=["gradient/added-to-zeros"])
    graph = Replay(trace.context).graph
    assert graph is not None
    left = effect(trace.context, graph, next(iter(outcome.matches.values())), hopeful=True)
    gone = graph.think * (1 - left.think) + graph.length * (1 - left.call)
    assert gone.sum() / 6 == pytest.approx(1.8e6, rel=0.01)


def test_a_loader_that_the_gpu_waits_for_returns_all_of_its_wait() -> None:
    """40 ms of loading before 60 ms of kernels, with a wait at the end: 40 ms go at most, 20 ms cautiously."""
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(5):
        with b.step():
            with b.loader(ms=40):
                pass
            b.kernel("volta_sgemm_128x64_nn", us=60_000)
            b.sync()
    low, high = price(b, "data-loading/single-process-loader")
    assert high == pytest.approx(40, rel=0.02)
    assert low == pytest.approx(20, rel=0.02)


def test_a_loader_hidden_in_part_returns_what_shows() -> None:
    """60 ms of kernels run while 80 ms are loaded: without the loading the kernels' 60 ms remain, so 20 ms go."""
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(6):
        with b.step():
            with b.loader(ms=80):
                pass
            b.kernel("volta_sgemm_128x64_nn", us=60_000)
    low, high = price(b, "data-loading/single-process-loader")
    assert high == pytest.approx(20, rel=0.02)
    assert low == pytest.approx(20, rel=0.02)  # half of 80 hides wholly behind 60


def test_faster_kernels_behind_a_slow_host_return_nothing() -> None:
    """The host takes 10 ms for each launch of a 6 ms kernel: it does not matter how fast the kernel is."""
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(5):
        with b.step():
            for _ in range(8):
                b.idle(us=9_990)
                b.kernel("volta_sgemm_128x64_nn", us=6_000)
    trace = built(b)
    outcome = engine.run(trace, rules(), only=["precision/no-tensor-cores"])
    priced = Replay(trace.context).price(list(outcome.matches.values()), 80.0)
    # It returns nothing even alone, which is no price of 0 ms.
    assert (priced.savings, priced.plan, priced.after) == ({}, [], {"precision/no-tensor-cores": ()})


def test_a_readback_returns_the_idle_behind_it() -> None:
    """After each scalar the host needs 4 ms before it launches 10 ms of work: the wait costs the GPU those 4 ms.

    Five of the six waits have a step behind them, so that they own 5 times 4 ms in 6 steps; but the typical step, which the
    price is of, is 4 ms shorter: the host, no longer held, is ahead of the GPU from the second step on.
    """
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(6):
        with b.step():
            b.idle(us=4_000)
            b.kernel("volta_sgemm_128x64_nn", us=10_000)
            b.item()
    _, high = price(b, "sync/scalar-readback")
    assert high == pytest.approx(4, rel=0.02)


def test_a_readback_that_goes_is_not_called_either() -> None:
    """A host that sets the pace: of each of 40 readbacks 43 us are the copy's call and 4 the wait's, which has none to wait for.

    Were the calls still made, each in the 4 us of a call with nothing to wait for, no more than 0.95 of 39 us would go.
    """
    b = TraceBuilder(host_us=40, latency_us=2, with_stack=False)
    for _ in range(6):
        with b.step():
            for _ in range(40):
                b.kernel("vectorized_elementwise_kernel", us=5)
                b.item()
    _, high = price(b, "sync/scalar-readback")
    assert 40 * 0.95 * 0.039 * 1.05 < high <= 40 * 0.95 * 0.047


# ---- the report


@pytest.mark.real
@pytest.mark.parametrize("name", names())
def test_savings_never_exceed_the_step_and_the_plan_goes_down(name: str) -> None:
    analysis = analyzed(name)
    whole = analysis.summary.whole_ms
    savings = [finding.saving for finding in analysis.findings if finding.saving is not None]
    assert sum(saving.high_ms for saving in savings) <= whole * (1 + 1e-9)
    assert all(0 <= saving.low_ms <= saving.high_ms for saving in savings)
    before = whole
    for step in analysis.plan:
        assert step.step_ms_before <= before + 1e-9
        assert 0 <= step.step_ms_after["low"] <= step.step_ms_after["high"]
        assert step.step_ms_after["low"] <= step.step_ms_before
        assert step.bound_by in BOUND_BY
        before = step.step_ms_before
    if name in NOT_REPLAYED:
        assert analysis.plan == []
        assert all("not replayed" in saving.basis for saving in savings)


@pytest.mark.real
def test_safe_leaves_out_what_changes_training_and_what_if_prices_fixes_together() -> None:
    name = "v100_resnet50_workers0"
    plan = analyzed(name).plan
    assert "precision/no-tensor-cores" in [rule for step in plan for rule in step.rules]
    assert {step.rules[0] for step in plan if step.changes_training} == {"precision/no-tensor-cores"}
    safe = analyze(real(name), rules(), views=False, safe=True).plan
    assert safe
    assert not any(step.changes_training for step in safe)
    both = ["data-loading/single-process-loader", "transfer/pageable-copy"]
    asked = analyze(real(name), rules(), views=False, what_if=both).what_if
    assert asked is not None
    assert sorted(asked.rules) == sorted(both)
    assert asked.step_ms_after["low"] < asked.step_ms_before
    assert analyze(real(name), rules(), views=False, what_if=["memory/growth"]).what_if is None


def test_a_graph_of_nothing_is_none() -> None:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mm"):
        b.idle(ms=1)
    assert graphs.build(built(b).context) is None


def test_work_launched_before_the_recording_is_kept_where_it_was() -> None:
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    b.kernel("volta_sgemm_128x64_nn", us=500, launched=False, at_us=100)
    for _ in range(3):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=1000)
            b.sync()
    trace = built(b)
    graph = graphs.build(trace.context)
    assert graph is not None
    assert graph.first[0] == 1
    assert drift(trace, graph) < 0.01
    assert set(np.unique(graph.kind).tolist()) >= {PLAIN, WAIT}


@pytest.mark.real
def test_what_if_in_python_gives_the_step_and_the_timeline() -> None:
    import advisor

    trace = real("v100_resnet50_workers0")
    found = advisor.what_if(trace, ["data-loading/single-process-loader"])
    assert found.step.step_ms_after["low"] == pytest.approx(117, abs=1)
    assert len(found.timeline) == len(trace.context.recording.work)
    assert (
        found.timeline["dur_ns"].sum() == found.timeline["recorded_dur_ns"].sum()
    )  # the loader's wait is no kernel's time
    ends = found.timeline["start_ns"] + found.timeline["dur_ns"]
    recorded = found.timeline["recorded_start_ns"] + found.timeline["recorded_dur_ns"]
    assert (recorded.max() - ends.max()) / 1e6 == pytest.approx(6 * (152 - 117), rel=0.1)
    with pytest.raises(advisor.AdvisorError, match="none of memory/growth fires"):
        advisor.what_if(trace, ["memory/growth"])
    with pytest.raises(advisor.AdvisorError, match="cannot be run again"):
        advisor.what_if(real("mi210_gpu_only"), ["memory/growth"])


@pytest.mark.parametrize(
    ("rung", "rule"),
    [
        ("rung0_baseline", "data-loading/single-process-loader"),
        ("rung1_workers", "transfer/pageable-copy"),
        ("rung2_pinned", "memory/low-peak"),
        ("rung3_batch512", "transfer/large-copy"),
        ("rung4_uint8", "gradient/zeroing-memset"),
        ("rung5_set_to_none", "precision/no-tensor-cores"),
        ("rung6_amp", "kernels/elementwise-chain"),
    ],
)
def test_the_plan_of_each_state_of_the_article_names_its_fix(rung: str, rule: str) -> None:
    found = sample(ROOT / "sample_traces" / "article" / f"{rung}.json.gz")
    named = {step.rules[0] for step in found.plan}
    # What returns a thousandth of the step is a note, and no step of the plan.
    notes = {finding.rule for finding in found.findings if finding.severity == "note"}
    assert rule in (notes if rung == "rung4_uint8" else named)
    assert not named & notes
