"""Proof of distributed/pipeline-bubble: ranks of a pipeline on which it fires, and others on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.stages import pipeline
from advisor.testing.workloads import ranks

EVEN = (1_000, 2_000)


# Four stages, eight micro-batches of 3 ms: 33 ms, of which each stage waits 9 to fill and drain, 3/11. Messages, the reductions,
# the optimizer and the start make the step 34.97 ms long.
@fires(cost_ms=9.0, cost_share=0.257, occurrences=8, severity="medium")
def eight_micro_batches_on_four_stages() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 8, replicas=2)


@fires(cost_ms=9.0, occurrences=8, severity="medium")
def the_same_with_sends_and_receives_in_one_kernel() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 8, replicas=2, coalesced=True)


@fires(cost_ms=9.0, severity="medium")
def all_forward_then_all_backward() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 8, schedule="gpipe")


# No collective joins the ranks, and the clocks cannot be compared: messages tell all the same. Ranks that are done wait in the
# first receive of the next step.
@fires(cost_ms=9.0, severity="medium")
def stages_that_share_no_collective() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 8, norm=False)


# Without micro-batches one stage works at a time: of four, three wait. 3 x 12 = 36 of 48 ms.
@fires(cost_ms=36.0, severity="high")
def one_stage_at_a_time() -> list[TraceBuilder]:
    return pipeline([(4_000, 8_000)] * 4, 1)


# Stages of 24, 24, 36 and 24 ms wait 16.8 ms on average. 7.87 of that uneven stages cost, and the rest is no more than 3/8 of 27.
@fires(cost_ms=8.93)
def beside_an_uneven_stage_only_the_rest() -> list[TraceBuilder]:
    return pipeline([EVEN, EVEN, (1_500, 3_000), EVEN], 8)


# 3/35 of the passes are 8.6 %.
@quiet
def thirty_two_micro_batches() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 32)


# The middle of what is returned is half of the bubble: 5 % of a step of (m + 3) x 3 ms and some 1.4 for the rest.
# With 25 micro-batches 9 of 85.4 ms are 10.5 %, with 28 9 of 94.4 are 9.5 %.
@edge
def ten_percent(over: bool) -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 25 if over else 28)


@quiet("not_applicable")
def ranks_of_no_pipeline() -> list[TraceBuilder]:
    return ranks({2: 10_000})


@quiet("not_run")
def one_rank_alone() -> TraceBuilder:
    return pipeline([EVEN] * 4, 8)[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
