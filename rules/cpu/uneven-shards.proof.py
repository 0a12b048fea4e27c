"""Proof of cpu/uneven-shards on several ranks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host_ranks import host_ranks
from advisor.testing.proof import edge, fires, lacks, quiet

SHORT, LONG = (600, 700, 500, 650, 550, 600), (1000, 1100, 1000, 950, 1050, 900)


# Rank 0 waits 4, 4, 5, 3, 5 and 3 ms: 24 / 6 / 2 ranks, in steps of 0.3 + 10 + 0.5 + 0.1 ms.
@fires(cost_ms=2.0, occurrences=6, severity="high")
def contiguous_shards_of_sorted_rows() -> list[TraceBuilder]:
    return host_ranks([SHORT, LONG])


# 5 of 10 ms in two of three ranks.
@fires(cost_ms=10 / 3, occurrences=12)
def the_last_of_three_has_more_samples() -> list[TraceBuilder]:
    return host_ranks([(500,) * 6, (500,) * 6, (1000,) * 6])


# Where the last one of two begins while the other still goes round, its part of the exchange is not told from waiting: 0.5 ms of
# steps 3 and 0.25 of step 5 above the 24.
@fires(cost_ms=24.75 / 12)
def two_buckets_are_in_flight_at_once() -> list[TraceBuilder]:
    return host_ranks([SHORT, LONG], buckets=2)


@fires(cost_ms=2.0)
def clocks_of_two_hosts() -> list[TraceBuilder]:
    return host_ranks([SHORT, LONG], clock_ns={1: 3_600_000_000_000})


@quiet
def batches_that_are_dealt_out_in_turn() -> list[TraceBuilder]:
    return host_ranks([SHORT, [length + 10 for length in SHORT]])


@quiet
def larger_batches_now_here_and_now_there() -> list[TraceBuilder]:
    return host_ranks([(600, 1000, 600, 1000, 600, 1000), (1000, 600, 1000, 600, 1000, 600)])


@quiet
def a_rank_that_is_slower_on_equal_batches() -> list[TraceBuilder]:
    return host_ranks(slower={1: 1.5})


@quiet
def a_rank_with_work_of_its_own() -> list[TraceBuilder]:
    return host_ranks(extra_us={0: (4000,) * 6})


@lacks("shapes")
def nothing_tells_how_much_work_it_is() -> list[TraceBuilder]:
    return host_ranks([SHORT, LONG], shapes=False)


@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    # Steps of 10.9 ms: 5 % are 0.545 on average, a lag of 1.09 ms of one of two ranks.
    return host_ranks([(890 if over else 892,) * 6, (1000,) * 6])


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return host_ranks()[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mkldnn_linear", us=1000, shapes=[[8, 8], [8, 8]]):
        pass
    return b
