"""Proof of distributed/uneven-work on several ranks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import ranks


# Rank 2 has a sixth more rows and takes 10 ms longer: three of four ranks wait 10 ms in steps of 100, 7.5 ms on average.
@fires(cost_ms=7.5, cost_share=0.075, occurrences=12, severity="medium", op="record_param_comms")
def one_rank_has_longer_sequences() -> list[TraceBuilder]:
    return ranks({2: 10_000}, rows={2: 4779})


# Rank 0 waits 20 ms, rank 1 too, rank 3 waits 5: 45 / 4 = 11.25 ms.
@fires(cost_ms=11.25, severity="medium")
def two_ranks_have_more_and_the_one_with_most_is_waited_for() -> list[TraceBuilder]:
    return ranks({2: 20_000, 3: 15_000}, rows={2: 5461, 3: 5120})


# The same shapes, as often: the GPU is slower, which is another finding.
@quiet
def one_rank_is_slower_at_the_same_work() -> list[TraceBuilder]:
    return ranks({2: 10_000})


# Without shapes nothing tells more work from a slower GPU: distributed/straggler speaks of it.
@lacks("shapes")
def nothing_tells_how_much_work_it_is() -> list[TraceBuilder]:
    return ranks({2: 10_000}, rows={2: 4779}, shapes=False)


@quiet
def all_ranks_have_as_much() -> list[TraceBuilder]:
    return ranks({})


# 5 % of a step of 100 ms is 5 ms on average: with three of four ranks waiting, a lag of 20/3 ms.
@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    return ranks({2: 6_700 if over else 6_630}, rows={2: 4500})


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return ranks({2: 10_000}, rows={2: 4779})[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
