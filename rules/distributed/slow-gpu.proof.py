"""Proof of distributed/slow-gpu on several ranks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import ranks


# Rank 2 takes 10 ms longer for the same product: three of four ranks wait 10 ms in steps of 100, 7.5 ms on average.
@fires(cost_ms=7.5, cost_share=0.075, occurrences=12, severity="medium", op="record_param_comms")
def one_rank_takes_longer_for_the_same_product() -> list[TraceBuilder]:
    return ranks({2: 10_000})


# Two ranks: one waits 12 ms for the other, 6 ms on average.
@fires(cost_ms=6.0, occurrences=4)
def of_two_ranks_one_is_slower() -> list[TraceBuilder]:
    return ranks({1: 12_000}, count=2)


# More rows: that is more work, which is another finding.
@quiet
def one_rank_has_longer_sequences() -> list[TraceBuilder]:
    return ranks({2: 10_000}, rows={2: 4779})


# Rank 2 comes late, and the others compute as long as it does behind the message: over the step no GPU is slower.
@quiet
def all_compute_equally_long_in_the_end() -> list[TraceBuilder]:
    return ranks({2: 10_000}, more_us={0: 10_000, 1: 10_000, 3: 10_000})


@quiet
def all_ranks_are_as_fast() -> list[TraceBuilder]:
    return ranks({})


# 5 % of a step of 100 ms is 5 ms on average: with three of four ranks waiting, a lag of 20/3 ms.
@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    return ranks({2: 6_700 if over else 6_630})


@lacks("shapes")
def shapes_were_not_recorded() -> list[TraceBuilder]:
    return ranks({2: 10_000}, shapes=False)


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return ranks({2: 10_000})[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
