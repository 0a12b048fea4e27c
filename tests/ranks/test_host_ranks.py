"""Ranks on the CPU: when each comes to gloo's collectives, and why one comes late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.ranks import BOOK, close, read

from advisor.cache import codec
from advisor.pipeline import analyze_many
from advisor.ranks.digest import Digest, digest
from advisor.ranks.excess import excess
from advisor.ranks.job import Job
from advisor.ranks.summary import ranks_of
from advisor.testing import TraceBuilder
from advisor.testing.host_ranks import host_ranks

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
