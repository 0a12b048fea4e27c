"""Proof of distributed/slow-link: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "AMD Instinct MI300X"


def reductions(us: int = 4_000, *, nbytes: int = 8_000_000, gap_us: int = 20, fast_us: int = 0) -> TraceBuilder:
    """Four steps of 50 ms: 20 of products, then two reductions over 8 ranks, one at once behind the other.

    Behind that of the first step comes one more of *fast_us*.
    """
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        start = number * 50_000
        with b.step():
            with b.op("aten::mm"):
                b.kernel("Cijk_Ailk_Bjlk_BBS_BH_MT256x256x64", us=20_000, at_us=start + 200)
            for index in range(2):
                b.collective("all_reduce", nbytes, us, at_us=start + 20_200 + index * (us + gap_us))
            if fast_us and number == 0:
                b.collective("all_reduce", nbytes, fast_us, at_us=start + 40_000)
            b.sync("hipDeviceSynchronize")
            b.seek((number + 1) * 50_000)
    return b


# 8 MB over 8 ranks: each sends 14 MB, in 4 ms: 3.5 GB/s; twice a step of 50 ms.
@fires(cost_ms=8.0, cost_share=0.16, occurrences=8, severity="medium")
def two_all_reduces_a_step_over_sockets() -> TraceBuilder:
    return reductions()


# 14 MB in 0.28 ms: 50 GB/s.
@quiet
def a_link_inside_the_machine() -> TraceBuilder:
    return reductions(280)


# Each waits for a rank that computes beside it, for all that this one knows.
@quiet
def a_pause_before_each() -> TraceBuilder:
    return reductions(gap_us=1_000)


# One of nine took 0.28 ms: the link is fast, and something else holds up the others.
@quiet
def a_fast_one_among_slow_ones() -> TraceBuilder:
    return reductions(fast_us=280)


@quiet
def messages_too_small_to_tell() -> TraceBuilder:
    return reductions(nbytes=999_996)


@edge
def five_gigabytes_a_second(over: bool) -> TraceBuilder:
    return reductions(2_801 if over else 2_799)


@edge
def one_megabyte(over: bool) -> TraceBuilder:
    return reductions(nbytes=1_000_000 if over else 999_996)


@edge
def fifty_microseconds_behind(over: bool) -> TraceBuilder:
    return reductions(gap_us=50 if over else 51)


# Two steps have a second reduction, or one of them.
@edge
def two_that_follow(over: bool) -> TraceBuilder:
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(2):
        start = number * 50_000
        with b.step():
            with b.op("aten::mm"):
                b.kernel("Cijk_Ailk_Bjlk_BBS_BH_MT256x256x64", us=20_000, at_us=start + 200)
            for index in range(2 if over or number else 1):
                b.collective("all_reduce", 8_000_000, 4_000, at_us=start + 20_200 + index * 4_020)
            b.sync("hipDeviceSynchronize")
            b.seek(start + 50_000)
    return b


@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return reductions(502 if over else 498, nbytes=1_000_000)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(device=GPU, rank=0, world_size=8)
