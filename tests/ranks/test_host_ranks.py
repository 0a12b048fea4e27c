"""Ranks on the CPU: when each comes to gloo's collectives, and why one comes late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from support.ranks import BOOK, close, read

from advisor.cache import codec
from advisor.pipeline import analyze_many
from advisor.ranks.digest import Digest, digest
from advisor.ranks.excess import _others, excess
from advisor.ranks.job import Job
from advisor.ranks.summary import ranks_of
from advisor.testing import TraceBuilder
from advisor.testing.host_ranks import host_ranks
from advisor.timeline.ledger import CODE

SHORT, LONG = (600, 700, 500, 650, 550, 600), (1000, 1100, 1000, 950, 1050, 900)


def job(folder: Path, builders: list[TraceBuilder]) -> Job:
    found, _ = ranks_of([digest(trace) for trace in read(folder, builders)])
    assert found is not None
    return found


def test_what_a_rank_waits_for_another_is_no_longer_its_own_findings(tmp_path: Path) -> None:
    # 4 ms a step of rank 0 pass before rank 1 has come, and 0.5 in the exchange.
    analyses, across = analyze_many(read(tmp_path, host_ranks([SHORT, LONG])), BOOK, only=("cpu/*",))
    assert across is not None
    assert [finding.rule for finding in across.findings] == ["cpu/uneven-shards"]
    assert close(across.ranks[1].caused_ms, 2.0)
    waits = next(finding for finding in analyses[0].findings if finding.rule == "cpu/collective-wait")
    assert waits.title == "Waiting in collectives, mostly for rank 1"
    assert close(waits.cost_ms, 4.5)
    # What hides messages returns no more than the exchange: 0.07 to 0.7 of 0.5 ms.
    assert waits.saving is not None
    assert close(waits.saving.high_ms, 0.35)


def test_a_clock_that_no_collective_contradicts_is_taken_as_it_is(tmp_path: Path) -> None:
    # Rank 1 gets a core 3 ms late behind each collective: by the ends its clock would go ahead, and rank 0 would be late.
    builders = []
    for rank in range(2):
        b = TraceBuilder(None, rank=rank, world_size=2, backend="gloo")
        for step in range(5):
            with b.step():
                with b.op("aten::mkldnn_linear", us=5000, shapes=[[8, 64], [64, 64]]):
                    pass
                with b.thread(77), b.annotation("gloo:all_reduce", us=500 + 3000 * rank):
                    pass
                b.seek(10_000 * (step + 1))
        builders.append(b)
    found = job(tmp_path, builders)
    assert found.clocks.offset_ns.tolist() == [0, 0]
    assert found.arrivals.noise_ns == 3_000_000  # either reading of the clocks leaves that open
    assert not found.obstacle


def test_what_a_rank_did_counts_from_the_last_collective_in_which_all_met(tmp_path: Path) -> None:
    # Python makes rank 0 4 ms late for its first bucket, and so for its second. Rank 1 computes its part of that while the first is
    # in flight: from the end of the first on rank 0 computes more, but rank 1 did as much before.
    found = job(tmp_path, host_ranks(host_us={0: (4000,) * 6}, buckets=2))
    frame = found.arrivals.frame
    late = frame[frame["late"].to_numpy(bool) & (frame["step"] > 0).to_numpy()]
    assert len(late) == 10
    assert set(late["late_cause"]) == {"host"}
    assert set(late["late_rank"]) == {0}


def test_a_weight_is_no_work_and_a_row_is_priced_at_what_it_takes(tmp_path: Path) -> None:
    digests = [digest(trace) for trace in read(tmp_path, host_ranks([(600,) * 6, (1000,) * 6]))]
    found = excess(digests)
    # 400 rows of 10 us more; of the other rank nothing is.
    np.testing.assert_allclose(found.larger[:, 1], 4e6, rtol=0.01)
    assert not found.larger[:, 0].any()
    assert not found.more.any()


@pytest.mark.parametrize(
    ("numbers", "compared"),
    [
        ([[-1] * 6, [-1] * 6], []),
        ([[-1] * 6, [0, 1, 2, 3, 4, 5]], []),
        ([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]], []),
        ([[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]], [2, 3, 4, 5]),
        ([[0, 1, 2, 3, 4, 5], [0, 1, 1, 3, 4, 5]], [0, 3, 4, 5]),
        ([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_steps_are_compared_across_ranks_by_their_numbers_and_without_them_not_at_all(
    tmp_path: Path, numbers: list[list[int]], compared: list[int]
) -> None:
    """Rank 1 runs Python 1 ms longer in its first step, 2 in its second, and so on."""
    builders = host_ranks(host_us={1: tuple(1000 * (step + 1) for step in range(6))})
    digests = []
    for own, trace in zip(numbers, read(tmp_path, builders), strict=True):
        one = digest(trace)
        number_of = dict(zip(one.step_numbers.tolist(), own, strict=True))
        tables = [table.assign(step=table["step"].map(number_of)) for table in (one.host.operators, one.host.operands)]
        host = one.host._replace(operators=tables[0], operands=tables[1])
        digests.append(replace(one, step_numbers=np.array(own, np.int64), host=host))
    found = excess(digests)
    assert found.numbers.tolist() == compared
    assert found.larger.shape == found.more.shape == (len(compared), 2)
    # In three of four steps it is so much at least: the quarter of the smallest, by place.
    steps = [numbers[1].index(number) for number in compared]
    host_ms = found.beyond[1, CODE["host"]] / 1e6
    assert np.isnan(host_ms) if not steps else close(host_ms, float(np.quantile(np.array(steps) + 1, 0.25)))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_the_median_of_the_others_is_that_of_each_rank_without_its_own_figure(ranks: int) -> None:
    figures = np.random.default_rng(ranks).integers(0, 6, (3, ranks, 4)).astype(np.float64)
    for rank in range(ranks):
        rest = [each for each in range(ranks) if each != rank]
        for step in range(3):
            for name in range(4):
                expected = np.median(figures[step, rest, name]) if rest else np.nan
                np.testing.assert_equal(_others(figures)[step, rank, name], expected)


def test_a_digest_of_the_cpu_goes_to_bytes_and_back(tmp_path: Path) -> None:
    own = digest(read(tmp_path, host_ranks([SHORT, LONG]))[0])
    again = codec.decode(codec.encode(own), Digest)
    assert again.host.operators.astype(str).equals(own.host.operators.astype(str))
    assert again.host.operands.astype(str).equals(own.host.operands.astype(str))
    np.testing.assert_array_equal(again.host.left, own.host.left)


def test_a_program_of_one_process_is_no_rank(tmp_path: Path) -> None:
    alone = []
    for rank in range(2):
        b = TraceBuilder(None, rank=rank)
        with b.step(), b.op("aten::mkldnn_linear", us=1000):
            pass
        alone.append(b)
    assert ranks_of([digest(trace) for trace in read(tmp_path, alone)])[0] is None


def test_times_are_of_the_mean_step_where_steps_differ(tmp_path: Path) -> None:
    # Rank 0 waits 1 ms in four steps and 21 ms in two: 46 ms in six steps, half of it a rank. The median step has 1 ms of it.
    builders = host_ranks([(900,) * 6, (1000, 3000, 1000, 1000, 3000, 1000)])
    _, across = analyze_many(read(tmp_path, builders), BOOK, only=("cpu/uneven-shards",))
    assert across is not None
    (found,) = across.findings
    assert close(found.cost_ms, 46 / 6 / 2)
    assert close(across.ranks[1].caused_ms, 46 / 6 / 2)
    assert close(across.ranks[0].wait_ms, 46 / 6)
