"""Figures of the distance from the hardware's limit: what is near it, and what is computed twice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.reading import trace_of
from support.traces import analysis as real_analysis

import advisor
from advisor.report.limit_line import distance_of, limit
from advisor.results.headline import Headline
from advisor.testing import TraceBuilder


def products(us: float, *, unknown_us: float = 0) -> TraceBuilder:
    """Steps of ten products of 137 GFLOP, which take 173 us at the 791 TFLOP/s that an H100 reaches."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(3):
        with b.step():
            for _ in range(10):
                with b.op("aten::mm", us=5, shapes=[[4096, 4096], [4096, 4096]], dtypes=["c10::BFloat16"] * 2):
                    b.kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", us=us)
            if unknown_us:
                with b.op("mine::kernel", us=5):
                    b.kernel("my_kernel", us=unknown_us)
            b.sync()
    return b


def test_kernels_near_their_limit_are_said_to_be() -> None:
    analysis = advisor.analyze(trace_of(products(200).to_json()))
    assert analysis.summary.kernel_efficiency == pytest.approx(0.87, abs=0.02)
    assert limit(analysis.summary).startswith("Kernels are at 8")


def test_kernels_far_from_it_are_not() -> None:
    analysis = advisor.analyze(trace_of(products(400).to_json()))
    assert "Kernels are at" not in limit(analysis.summary)


def test_kernels_of_which_nothing_is_known_are_said_to_be_left_out() -> None:
    analysis = advisor.analyze(trace_of(products(200, unknown_us=1000).to_json()))
    assert analysis.summary.modelled_share == pytest.approx(2 / 3, rel=0.01)
    assert "limits are known for 67 % of kernel time" in limit(analysis.summary)


@pytest.mark.real
def test_checkpointing_does_the_forward_pass_twice() -> None:
    """Forward and backward are three parts, the second forward pass a fourth."""
    summary = real_analysis("mi300_resnet_ddp_checkpointing").summary
    assert summary.hfu is not None
    assert summary.mfu is not None
    assert summary.hfu / summary.mfu == pytest.approx(4 / 3, rel=0.03)


def test_a_step_that_stacks_slow_down_says_so_where_faster_kernels_leave_it_as_it_is() -> None:
    # Recording stacks makes the host slower: that kernels do not bound the step may be the recording's doing.
    summary = advisor.analyze(trace_of(products(400).to_json())).summary
    summary = replace(summary, limit_ms=summary.priced_ms, reachable_ms=summary.priced_ms)
    causes = {"compute": 0.4, "host": 0.5, "loader": 0.1}
    summary = replace(summary, steady_causes=causes, causes=causes, rank_wait_ms=None)
    alone = "Faster kernels alone would not shorten the step: the CPU limits it"
    assert limit(summary, stacks=True).startswith(
        "Faster kernels alone would not shorten the step: the CPU limits it (stacks were recorded, which slows the CPU)"
    )
    assert limit(summary).startswith(alone)
    assert limit(replace(summary, unprofiled_ms=summary.priced_ms), stacks=True).startswith(alone)
    waits = replace(summary, steady_causes={"compute": 0.4, "loader": 0.5, "host": 0.1})
    assert "the loader and the CPU limit it (stacks were recorded" in limit(waits, stacks=True)
    assert "the loader limits it" in limit(waits)


def test_stacks_of_a_second_pass_slowed_nothing() -> None:
    """The same recording, with the stacks in it and from a pass of their own."""
    analysis = advisor.analyze(trace_of(products(400).to_json()))
    summary = replace(analysis.summary, limit_ms=analysis.summary.priced_ms, reachable_ms=analysis.summary.priced_ms)
    causes = {"compute": 0.4, "host": 0.5, "loader": 0.1}
    summary = replace(summary, steady_causes=causes, causes=causes, rank_wait_ms=None)

    def said(*, apart: bool) -> str:
        features = replace(analysis.trace.features, stacks=True, stacks_apart=apart)
        return distance_of(replace(analysis, summary=summary, trace=replace(analysis.trace, features=features)))

    assert "(stacks were recorded, which slows the CPU)" in said(apart=False)
    assert said(apart=True).startswith("Faster kernels alone would not shorten the step: the CPU limits it")
    assert "stacks" not in said(apart=True)


def test_a_step_that_other_ranks_hold_up_is_not_said_to_be_as_long_with_faster_kernels_on_all() -> None:
    """Beside it findings promise what a change of the code returns, which is one of all ranks."""
    summary = advisor.analyze(trace_of(products(400).to_json())).summary
    causes = {"compute": 0.2, "communication": 0.7, "host": 0.1}
    summary = replace(summary, steady_causes=causes, limit_ms=summary.priced_ms, reachable_ms=summary.priced_ms)
    late = replace(summary, rank_wait_ms=0.6 * summary.whole_ms)
    assert limit(late).startswith("Faster kernels would hardly shorten this rank's step: it waits for other ranks")
    assert limit(summary).startswith("Faster kernels alone would not shorten the step: collectives limit it")


def test_where_something_else_takes_over_that_is_said_once() -> None:
    """100 ms: kernels at the device's limit or at what is reachable leave the same 65, in which the CPU is busy."""
    summary = advisor.analyze(trace_of(products(400).to_json())).summary
    whole = summary.priced_ms
    causes = {"compute": 0.6, "host": 0.4}
    summary = replace(summary, steady_causes=causes, limit_ms=0.65 * whole, reachable_ms=0.65 * whole)
    text = limit(summary)
    assert "then the CPU limits the step" in text
    assert "theoretical" not in text
    assert "at its theoretical peak" in limit(replace(summary, reachable_ms=0.8 * whole))


def test_nothing_is_shorter_where_nothing_is_steady() -> None:
    summary = advisor.analyze(trace_of(products(400).to_json())).summary
    headline = Headline(text="A graph capture.", kind="capture only", bound=None, first=None)
    assert limit(summary, headline=replace(headline, kind="training"))
    assert limit(summary, headline=headline) == ""


def test_what_the_gpu_can_do_in_fp32_is_said_to_be_that() -> None:
    """Beside advice to take a shorter format: in 16 bits the same kernels could be much faster."""
    summary = advisor.analyze(trace_of(products(400).to_json())).summary
    assert limit(summary, precision="fp32").startswith("With today's kernels as fast as the GPU can run them at fp32: ")
    for other in ("bf16", None):
        assert limit(summary, precision=other).startswith("With today's kernels as fast as the GPU can run them: ")
    near = advisor.analyze(trace_of(products(200).to_json())).summary
    assert "of what this GPU reaches at fp32: at its limit" in limit(near, precision="fp32")
