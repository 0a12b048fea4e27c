"""Proof of cpu/uneven-work on several ranks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host_ranks import host_ranks
from advisor.testing.proof import edge, fires, lacks, quiet

ONE, OTHER = (600, 1000, 600, 1000, 600, 1000), (1000, 600, 1000, 600, 1000, 600)


# One of the two waits 4 ms in each step.
@fires(cost_ms=2.0, occurrences=6, severity="high")
def lengths_as_chance_has_them() -> list[TraceBuilder]:
    return host_ranks([ONE, OTHER])


# A loop over the places of a sequence, longer now on this rank, now on that.
@fires(cost_ms=2.0)
def loops_of_different_length() -> list[TraceBuilder]:
    return host_ranks(extra_us={0: (4000, 0) * 3, 1: (0, 4000) * 3})


# Four steps do not tell whether it is always this rank.
@fires(cost_ms=2.0, occurrences=4)
def one_rank_in_a_recording_of_four_steps() -> list[TraceBuilder]:
    return host_ranks([(600,) * 4, (1000,) * 4])


@quiet
def one_rank_in_all_of_six_steps() -> list[TraceBuilder]:
    return host_ranks([(600,) * 6, (1000,) * 6])


@quiet
def rows_of_like_length_in_each_step() -> list[TraceBuilder]:
    return host_ranks([ONE, ONE])


# The sizes vary alike on both, and one was held up.
@quiet
def another_process_has_the_core() -> list[TraceBuilder]:
    return host_ranks([ONE, ONE], slower={1: 1.4})


@lacks("shapes")
def nothing_tells_how_much_work_it_is() -> list[TraceBuilder]:
    return host_ranks([ONE, OTHER], shapes=False)


@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    # Steps of 10.9 ms: 5 % are 0.545 on average, a lag of 1.09 ms of one of two ranks.
    short = 890 if over else 892
    return host_ranks([(short, 1000) * 3, (1000, short) * 3])


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return host_ranks()[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mkldnn_linear", us=1000, shapes=[[8, 8], [8, 8]]):
        pass
    return b
