"""Proof of distributed/uneven-stages: ranks of a pipeline on which it fires, and others on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.stages import pipeline
from advisor.testing.workloads import ranks

EVEN, LONG = (1_000, 2_000), (1_500, 3_000)
# Eight micro-batches of 3 ms on each stage, but 4.5 ms on the third: 24, 24, 36 and 24 ms, 27 on average. 7/8 of the 9 ms more are
# waited for: 7.875 ms, but for messages of 50 us that the model does not know of. A step is 43.5 ms, a few messages, the reductions
# of 0.5 and 0.02 ms, 0.2 at its start and the optimizer's 0.5: 45.47.


@fires(cost_ms=7.87, cost_share=0.173, occurrences=8, severity="high")
def a_third_stage_that_takes_half_as_long_again() -> list[TraceBuilder]:
    return pipeline([EVEN, EVEN, LONG, EVEN], 8, replicas=2)


@fires(cost_ms=7.87, severity="high")
def the_same_with_sends_and_receives_in_one_kernel() -> list[TraceBuilder]:
    return pipeline([EVEN, EVEN, LONG, EVEN], 8, replicas=2, coalesced=True)


# Without shapes as well: what a stage computes is all that counts.
@fires(cost_ms=7.87, severity="high")
def the_same_without_shapes() -> list[TraceBuilder]:
    return pipeline([EVEN, EVEN, LONG, EVEN], 8, shapes=False)


# The last stage has the output layer: 24, 24, 24 and 36 ms as well. What it waits less than the others is 9 ms but for three
# messages of 50 us, which on average lie bare on the others: 7/8 of 8.85 ms.
@fires(cost_ms=7.75, severity="high")
def all_forward_then_all_backward() -> list[TraceBuilder]:
    return pipeline([EVEN, EVEN, EVEN, LONG], 8, schedule="gpipe")


@quiet
def equal_stages_that_fill_and_drain() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 4, replicas=2)


# One GPU of the second copy is slower. The stages are equal: the least of a stage's ranks counts.
@quiet
def one_slow_rank() -> list[TraceBuilder]:
    return pipeline([EVEN] * 4, 8, replicas=2, slow={3: 1.3})


# 7/8 of (24 + x) - (24 + x/4) = 0.656 x in steps of some 35 ms + x: 3.5 % of returned time, 0.7 of the cost, are 5 %.
@edge
def five_percent(over: bool) -> list[TraceBuilder]:
    # x = 8 times 0.36 ms: 1.89 of 36.9 ms are 5.1 %; 8 times 0.33: 1.73 of 36.8 are 4.7 %.
    more = 120 if over else 110
    return pipeline([EVEN, EVEN, (1_000 + more, 2_000 + 2 * more), EVEN], 8)


@quiet("not_applicable")
def ranks_of_no_pipeline() -> list[TraceBuilder]:
    return ranks({2: 10_000})


# Which stage is the slowest, ranks that were not given may know.
@quiet("not_run")
def stages_that_were_not_given() -> list[TraceBuilder]:
    return pipeline([EVEN, EVEN, LONG, EVEN], 8)[:3]


@quiet("not_run")
def one_rank_alone() -> TraceBuilder:
    return pipeline([EVEN, EVEN, LONG, EVEN], 8)[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
