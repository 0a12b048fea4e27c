"""Proof of cpu/lone-work on several ranks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host_ranks import host_ranks
from advisor.testing.proof import edge, fires, lacks, quiet


# Rank 1 waits 4 ms in each step.
@fires(cost_ms=2.0, occurrences=6, severity="high")
def the_first_rank_evaluates_in_each_step() -> list[TraceBuilder]:
    return host_ranks(extra_us={0: (4000,) * 6})


@fires(cost_ms=2.0, occurrences=6)
def the_first_rank_logs_in_each_step() -> list[TraceBuilder]:
    return host_ranks(host_us={0: (4000,) * 6})


# A loop over the places of a sequence, longer now on this rank, now on that.
@quiet
def loops_of_different_length() -> list[TraceBuilder]:
    return host_ranks(extra_us={0: (4000, 0) * 3, 1: (0, 4000) * 3})


@quiet
def all_ranks_evaluate() -> list[TraceBuilder]:
    return host_ranks(extra_us={0: (4000,) * 6, 1: (4000,) * 6})


# Once in the recording, as any pause that the machine makes.
@quiet
def python_that_stops_once() -> list[TraceBuilder]:
    return host_ranks(host_us={0: (0, 0, 9000, 0, 0, 0)})


@quiet
def a_rank_with_larger_batches() -> list[TraceBuilder]:
    return host_ranks([(600,) * 6, (1000,) * 6])


# Twice as slow at operators, and at Python as well.
@quiet
def a_rank_on_a_slower_core() -> list[TraceBuilder]:
    return host_ranks(slower={0: 2.0}, host_us={0: (6000,) * 6, 1: (3000,) * 6})


@lacks("shapes")
def nothing_tells_which_operators_are_more() -> list[TraceBuilder]:
    return host_ranks(extra_us={0: (4000,) * 6}, shapes=False)


@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    # A lag of 1.2 ms in steps of 10.9 + 1.2 is 0.6 on average, 4.96 %.
    return host_ranks(extra_us={0: (1220 if over else 1200,) * 6})


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return host_ranks()[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mkldnn_linear", us=1000, shapes=[[8, 8], [8, 8]]):
        pass
    return b
