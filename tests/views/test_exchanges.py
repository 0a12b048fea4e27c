"""Collectives against the link: what is told apart by a fit over the sizes of one recording."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.reading import trace_of

import advisor
from advisor.results.links import Exchange
from advisor.testing import TraceBuilder

H100 = "NVIDIA H100 80GB HBM3"
ALONE = 2 * 7 / 8
"""Share of an all-reduce that each of eight ranks sends, in messages."""


def exchanges(calls: Sequence[tuple[int, float]], *, ranks: int = 8, device: str = H100) -> list[Exchange]:
    """Steps of all-reduces of so many bytes that take so many us."""
    b = TraceBuilder(device, rank=0, world_size=ranks)
    for _ in range(3):
        with b.step():
            b.kernel("ampere_sgemm_128x64_tn", us=500)
            for sent, us in calls:
                b.collective("all_reduce", sent, us=us)
            b.sync()
    return advisor.analyze(trace_of(b.to_json()), views=False).summary.exchanges


def timed(sizes: Sequence[int], *, fixed_us: float, gbps: float) -> list[tuple[int, float]]:
    """Return the sizes with the time that a link of a fixed time and rate takes for them."""
    return [(size, fixed_us + ALONE * size / gbps / 1e3) for size in sizes]


def test_the_fit_is_that_of_a_fixed_time_and_a_rate() -> None:
    (found,) = exchanges(timed([400_000, 4_000_000, 40_000_000, 200_000_000], fixed_us=20, gbps=300))
    assert (found.kind, found.group_size, found.count) == ("all_reduce", 8, 12)
    assert found.latency_us == pytest.approx(20, rel=0.05)
    assert found.fitted_gbps == pytest.approx(300, rel=0.02)
    assert found.link_gbps == 450
    assert found.waited_share == pytest.approx(0, abs=0.01)
    assert found.limited_by == "link"


def test_small_messages_are_limited_by_latency() -> None:
    (found,) = exchanges(timed([1_000, 4_000, 16_000, 64_000], fixed_us=25, gbps=300))
    assert found.limited_by == "latency"
    assert found.best_gbps < 5


def test_a_slow_link_is_told_by_the_rate_that_large_messages_reach() -> None:
    (found,) = exchanges(timed([400_000, 4_000_000, 40_000_000], fixed_us=20, gbps=11))
    assert found.fitted_gbps == pytest.approx(11, rel=0.02)
    assert found.limited_by == "slow link"


def test_what_exceeds_the_fastest_of_its_size_is_waiting_for_others() -> None:
    # Of five equal ones the fastest takes 100 us and the others 900 us more.
    (found,) = exchanges([(8_000_000, 100), *[(8_000_000, 1000)] * 4])
    assert found.latency_us is None
    assert found.waited_share == pytest.approx(4 * 900 / 4100, rel=0.01)
    assert found.limited_by == "late ranks"


def test_a_few_smaller_ones_beside_them_hide_no_waiting_and_the_rate_is_that_of_the_exchange() -> None:
    # Too few of 4 MB to tell: over the same link they take no longer than those of 8 MB, 100 us, and last 60 us.
    (found,) = exchanges([(8_000_000, 100), *[(8_000_000, 1000)] * 4, (4_000_000, 60)])
    assert found.waited_share == pytest.approx(4 * 900 / 4160, rel=0.01)
    assert found.bus_gbps == pytest.approx(ALONE * 44_000_000 / 560e3, rel=0.01)
    assert found.limited_by == "late ranks"


def test_groups_of_more_than_a_machine_have_no_link_of_the_table() -> None:
    (found,) = exchanges(timed([400_000, 4_000_000, 40_000_000], fixed_us=40, gbps=11), ranks=64)
    assert found.link_gbps is None
    assert found.limited_by is None


def test_of_few_small_messages_nothing_is_said() -> None:
    (found,) = exchanges([(4_000, 30)])
    assert (found.latency_us, found.waited_share, found.limited_by) == (None, None, None)


def test_a_program_of_one_process_has_none() -> None:
    b = TraceBuilder(H100)
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=500)
    assert advisor.analyze(trace_of(b.to_json()), views=False).summary.exchanges == []
