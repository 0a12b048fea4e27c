"""Proof of distributed/few-cores on several ranks: traces on which it fires, and traces on which it does not."""

from itertools import count

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.turns import Slots, by_itself, in_turn, launching_ranks

HOUR_NS = 3_600_000_000_000


def of_5_ms(rank: int, *, ranks: int, cores: int) -> Slots:
    """Turns of the same length."""
    return ((5_000 * turn, 5_000 * turn + 5_000) for turn in count(rank, ranks))


def of_two_hosts(rank: int, *, ranks: int, cores: int) -> Slots:
    """The first two ranks share a core, and the other two one of another host."""
    return in_turn(rank % 2, ranks=2, cores=1)


def until(us: int, slots: Slots) -> Slots:
    """Some slots, and from a time on a core of one's own."""
    for start, end in slots:
        if end > us:
            break
        yield start, end
    yield max(start, us), 10 * us


# In steps of 20 ms each has two turns of 5 ms. In each step both ranks stand still for 5.08 ms with an idle device; rank 1 for
# 4.06 ms more behind the all-reduce, but in the last step; and rank 0 waits 5 ms for it, but in the first, before which nothing is
# known of either: 8 x 5.08 + 3 x 4.06 + 3 x 5 = 67.8 of the 156.9 ms of both, 8.64 of a step.
@fires(cost_ms=8.64, occurrences=2, severity="high")
def turns_of_5_ms() -> list[TraceBuilder]:
    return launching_ranks(of_5_ms, ranks=2, ops=100)


# Four ranks on one core: each runs for a quarter of the time, and at 95 % of it exactly one of them.
@fires(occurrences=4, severity="high")
def four_ranks_on_one_core() -> list[TraceBuilder]:
    return launching_ranks(in_turn, ranks=4, cores=1)


@fires(occurrences=8, severity="high")
def eight_ranks_on_two_cores() -> list[TraceBuilder]:
    return launching_ranks(in_turn, ranks=8, cores=2)


@fires(occurrences=2, severity="high")
def two_ranks_on_one_core() -> list[TraceBuilder]:
    return launching_ranks(in_turn, ranks=2, cores=1)


# They stop as often and as long, each by itself: the number that runs varies.
@quiet
def stops_that_are_independent() -> list[TraceBuilder]:
    return launching_ranks(by_itself, ranks=4, cores=1)


@quiet
def independent_stops_of_eight() -> list[TraceBuilder]:
    return launching_ranks(by_itself, ranks=8, cores=2)


# One rank goes on when another has come, by a message over the network or by Python's own means: nobody was stopped.
@quiet
def ranks_that_wait_for_each_other() -> list[TraceBuilder]:
    return launching_ranks(in_turn, waits="gloo:recv")


@quiet
def ranks_that_wait_in_python() -> list[TraceBuilder]:
    return launching_ranks(in_turn, waits="-")


# The same clocks, but each process sees one device: they may be of as many hosts.
@quiet
def hosts_that_are_not_known() -> list[TraceBuilder]:
    return launching_ranks(in_turn, devices=1)


# Clocks that are a second apart are of several hosts, whatever the devices say.
@quiet
def clocks_of_several_hosts() -> list[TraceBuilder]:
    return launching_ranks(in_turn, clock_ns={1: 1_000_000_000, 3: -1_000_000_000})


# Two hosts of two ranks, whose clocks are an hour apart: the ranks of each take turns.
@fires(occurrences=4, severity="high")
def two_hosts() -> list[TraceBuilder]:
    return launching_ranks(of_two_hosts, ranks=4, devices=2, clock_ns={2: HOUR_NS, 3: HOUR_NS})


@edge
def most_of_the_time(over: bool) -> list[TraceBuilder]:
    # Until 80 ms they take turns, then each has a core: 80 / (80 + 60) of the time by 0.95 is 0.54; with 60 ms it is 0.46.
    return launching_ranks(lambda rank, **how: until(80_000 if over else 60_000, in_turn(rank, **how)), ranks=4)


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return launching_ranks(in_turn)[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
