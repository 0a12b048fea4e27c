"""Proof of distributed/straggler on several ranks: traces on which it fires, and traces on which it does not."""

from collections.abc import Mapping

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"
STEP_US, MESSAGE_US = 100_000, 1_000


def ranks(
    late_us: Mapping[int, int], *, count: int = 4, hidden: bool = False, clock_us: Mapping[int, int] | None = None
) -> list[TraceBuilder]:
    """Four steps on each rank: computation, then an all-reduce that ends when all have come and the message is through.

    A rank computes as much longer as *late_us* says, and the others wait for the latest. With *hidden* they compute
    meanwhile on another stream.
    """
    latest = max(late_us.values(), default=0)
    builders = []
    for rank in range(count):
        late = late_us.get(rank, 0)
        b = TraceBuilder(GPU, rank=rank, world_size=count, start_us=1_000_000 + (clock_us or {}).get(rank, 0))
        for number in range(4):
            with b.step():
                start = number * STEP_US
                b.kernel("ampere_sgemm_128x64_tn", us=60_000 + late - 200, at_us=start + 200)
                if hidden:
                    b.kernel("ampere_sgemm_64x32_tn", us=latest - late, at_us=start + 60_000 + late, stream=9)
                b.collective("all_reduce", 4_000_000, us=latest - late + MESSAGE_US, at_us=start + 60_000 + late)
                b.seek((number + 1) * STEP_US)
        builders.append(b)
    return builders


# Of four ranks three wait 10 ms for the fourth in each step of 100 ms: 7.5 ms on average. The late rank owns nothing,
# so 3 ranks x 4 steps match.
@fires(cost_ms=7.5, cost_share=0.075, occurrences=12, severity="medium", op="record_param_comms")
def one_rank_computes_10_ms_longer() -> list[TraceBuilder]:
    return ranks({2: 10_000})


# Clocks that go before and behind by milliseconds change nothing.
@fires(cost_ms=7.5, occurrences=12)
def the_same_with_clocks_apart() -> list[TraceBuilder]:
    return ranks({2: 10_000}, clock_us={0: 7_000, 1: 31_000, 3: 250})


# Rank 0 waits 15 ms, ranks 1 and 3 wait 20 and 5, rank 2 none: 40 / 4 = 10 ms.
@fires(cost_ms=10.0, severity="medium")
def ranks_late_by_different_amounts() -> list[TraceBuilder]:
    return ranks({0: 5_000, 1: 0, 2: 20_000, 3: 15_000})


@quiet
def all_ranks_come_together() -> list[TraceBuilder]:
    return ranks({})


# The waiting is hidden behind computation on another stream: it costs nothing.
@quiet
def computation_hides_the_waiting() -> list[TraceBuilder]:
    return ranks({2: 10_000}, hidden=True)


# 5 % of a step of 100 ms is 5 ms on average: with three of four ranks waiting, a lag of 20/3 ms.
@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    return ranks({2: 6_700 if over else 6_630})


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return ranks({2: 10_000})[0]


# Two traces that share no collective cannot be compared.
@lacks("ranks")
def ranks_that_share_nothing() -> list[TraceBuilder]:
    builders = ranks({}, count=2)
    second = TraceBuilder(GPU, rank=1, world_size=2)
    with second.step():
        second.collective("all_gather", 8_000, us=50)
    return [builders[0], second]


# Ends that scatter by 40 ms leave open who came when: every other collective of rank 1 ends that much later.
@lacks("ranks")
def clocks_that_jump() -> list[TraceBuilder]:
    builders = []
    for rank in range(2):
        b = TraceBuilder(GPU, rank=rank, world_size=2)
        for number in range(8):
            with b.step():
                start = number * STEP_US + (0, 40_000, 13_000, 25_000)[number % 4] * rank
                b.kernel("ampere_sgemm_128x64_tn", us=10_000, at_us=start + 200)
                b.collective("all_reduce", 4_000_000, us=40_000, at_us=start + 10_200)
                b.seek((number + 1) * STEP_US)
        builders.append(b)
    return builders


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(GPU)
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
