"""What distributed/slow-gpu says of several ranks, and where it is silent."""

from collections.abc import Mapping

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"
STEP_US, COMPUTE_US, MESSAGE_US = 100_000, 60_000, 1_000


def ranks(
    late_us: Mapping[int, int],
    *,
    count: int = 4,
    rows: Mapping[int, int] | None = None,
    more_us: Mapping[int, int] | None = None,
    shapes: bool = True,
) -> list[TraceBuilder]:
    """Four steps on each rank: a matrix product, then an all-reduce that ends when all have come and the message is through.

    A rank computes as much longer as *late_us* says, on as many rows as *rows* says (4096), and the others wait for the
    latest; *more_us* is computed behind the message, where nobody waits.
    """
    latest = max(late_us.values(), default=0)
    made = []
    for rank in range(count):
        own = late_us.get(rank, 0)
        b = TraceBuilder(GPU, rank=rank, world_size=count, record_shapes=shapes)
        for number in range(4):
            with b.step():
                start = number * STEP_US
                size = [[(rows or {}).get(rank, 4096), 4096], [4096, 4096]]
                with b.op("aten::mm", shapes=size):
                    b.kernel("ampere_sgemm_128x64_tn", us=COMPUTE_US + own - 200, at_us=start + 200)
                b.collective("all_reduce", 4_000_000, us=latest - own + MESSAGE_US, at_us=start + COMPUTE_US + own)
                if after := (more_us or {}).get(rank, 0):
                    with b.op("aten::mm", shapes=[[4096, 4096], [4096, 4096]]):
                        b.kernel("ampere_sgemm_128x64_tn", us=after, at_us=start + COMPUTE_US + latest + 2_000)
                b.seek((number + 1) * STEP_US)
        made.append(b)
    return made


# Rank 2 takes 10 ms longer for the same product: three of four ranks wait 10 ms in steps of 100, 7.5 ms on average.
@fires(cost_ms=7.5, cost_share=0.075, occurrences=12, severity="low", op="record_param_comms")
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
    b = TraceBuilder(GPU)
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
