"""Proof of cpu/late-loader on several ranks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host_ranks import host_ranks
from advisor.testing.proof import edge, fires, lacks, quiet


# Rank 0 waits 4 ms in each step.
@fires(cost_ms=2.0, occurrences=6, severity="high")
def one_rank_reads_larger_files() -> list[TraceBuilder]:
    return host_ranks(loader_us={1: (4000,) * 6})


@quiet
def all_ranks_wait_for_their_loaders() -> list[TraceBuilder]:
    return host_ranks(loader_us={0: (4000,) * 6, 1: (4000,) * 6})


@quiet
def one_slow_batch() -> list[TraceBuilder]:
    return host_ranks(loader_us={1: (0, 0, 9000, 0, 0, 0)})


@quiet
def a_rank_with_larger_batches() -> list[TraceBuilder]:
    return host_ranks([(600,) * 6, (1000,) * 6])


@lacks("shapes")
def nothing_tells_how_slow_the_rank_is() -> list[TraceBuilder]:
    return host_ranks(loader_us={1: (4000,) * 6}, shapes=False)


@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    # A lag of 1.2 ms in steps of 10.9 + 1.2 is 0.6 on average, 4.96 %.
    return host_ranks(loader_us={1: (1220 if over else 1200,) * 6})


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return host_ranks()[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mkldnn_linear", us=1000, shapes=[[8, 8], [8, 8]]):
        pass
    return b
