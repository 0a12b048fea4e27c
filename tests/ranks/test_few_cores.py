"""Ranks that share cores: how many run at once, worked out by hand; which host a rank is of; what the report leads with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ranks import BOOK, ONLY, close, ranks, read, together

import advisor
from advisor.pipeline import analyze_many
from advisor.ranks.clocks import Clocks
from advisor.ranks.digest import Digest, digest
from advisor.ranks.turns import host_of, hosts
from advisor.reading.remote import machine_of
from advisor.report.figures import waits
from advisor.testing import TraceBuilder
from advisor.testing.turns import by_itself, in_turn, launching_ranks

MS = 1_000_000
FEW = "distributed/few-cores"


def like(base: Digest, still: list[tuple[int, int]], waiting: list[tuple[int, int]] = [], **more: Any) -> Digest:  # noqa: B006
    """A digest that stands still and waits in these ms of a window of 100."""
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    spans = {
        name: np.array(rows, np.int64).reshape(-1, 2) * MS for name, rows in (("still", still), ("waiting", waiting))
    }
    return Digest(**(fields | {"window": (0, 100 * MS), "zero_ns": 0, "devices": 8} | spans | more))


@pytest.fixture
def base(tmp_path: Path) -> Digest:
    return digest(read(tmp_path, ranks({}, count=1))[0])


def agreeing(count: int, offset_ns: list[int] | None = None) -> Clocks:
    offsets = np.array(offset_ns or [0] * count, np.int64)
    every = np.ones(count, np.bool_)
    return Clocks(offsets, np.zeros(count), np.full(count, 9), every, ~every)


def members(base: Digest, *still: list[tuple[int, int]], **more: Any) -> list[Digest]:
    return [like(base, spans, rank=rank, device=rank, **more) for rank, spans in enumerate(still)]


def test_the_number_that_runs_at_once(base: Digest) -> None:
    # One of three runs, but from 60 to 70 ms, when two do, and from 90 on, when all do.
    found = hosts(members(base, [(30, 90)], [(0, 30), (70, 90)], [(0, 60)]), agreeing(3))
    assert [(host.members, host.running, host.still) for host in found] == [([0, 1, 2], 1, 2)]
    assert close(found[0].share, 0.8)
    assert close(found[0].held, 0.9)
    # They run for 0.4, 0.5 and 0.4 of the time: 0.4 x 0.5 x 0.6 + 0.6 x 0.5 x 0.6 + 0.6 x 0.5 x 0.4 = 0.42.
    assert close(found[0].chance, 0.42)


def test_who_waits_neither_runs_nor_stands_still(base: Digest) -> None:
    digests = [
        like(base, [(50, 100)], rank=0, device=0),
        like(base, [(0, 50)], rank=1, device=1),
        like(base, [], [(0, 100)], rank=2, device=2),
    ]
    (host,) = hosts(digests, agreeing(3))
    assert (host.running, host.still, host.share) == (1, 1, 1.0)
    assert close(host.chance, 0.5)  # both run, none does, or one of them: of the last another stands still


def test_clocks_of_two_hosts_are_not_laid_side_by_side(base: Digest) -> None:
    # On each host of two one rank runs at a time; the second host's clock goes a second ahead.
    turns = ([(50, 100)], [(0, 50)])
    digests = members(base, *turns, *turns, devices=2)
    digests = [
        like(base, turns[rank % 2], rank=rank, device=rank % 2, devices=2, zero_ns=rank // 2 * 1_000 * MS)
        for rank in range(4)
    ]
    found = hosts(digests, agreeing(4, [0, 0, 1_000 * MS, 1_000 * MS]))
    assert [host.members for host in found] == [[0, 1], [2, 3]]
    assert [host.share for host in found] == [1.0, 1.0]


def test_ranks_whose_clocks_differ_are_not_of_one_host(base: Digest) -> None:
    assert hosts(members(base, [(50, 100)], [(0, 50)]), agreeing(2, [0, 2 * MS])) == []
    assert len(hosts(members(base, [(50, 100)], [(0, 50)]), agreeing(2, [0, 20_000]))) == 1


def test_recordings_of_different_times_are_not_compared(base: Digest) -> None:
    later = [like(base, [(0, 50)], rank=rank, device=rank, zero_ns=60 * MS * rank) for rank in range(2)]
    assert hosts(later, agreeing(2)) == []


def test_the_host_of_a_rank(base: Digest) -> None:
    assert host_of(like(base, [], rank=11, device=3)) == "1 of 8"
    assert host_of(like(base, [], rank=11, device=0)) == ""  # not the device that torchrun gives rank 11
    assert host_of(like(base, [], rank=3, device=0, devices=1)) == ""  # it sees no other
    named = {"machine": "f00d", "path": "HOST_4711.1700000000000.pt.trace.json"}
    assert host_of(like(base, [], rank=3, device=0, devices=1, **named)) == "f00d"
    # The user's own name, and the rank in place of a process.
    named["path"] = "HOST_3.1700000000000.pt.trace.json"
    assert host_of(like(base, [], rank=3, device=0, devices=1, **named)) == ""


def test_two_ranks_on_one_device_number_are_of_two_hosts(base: Digest) -> None:
    named = {"machine": "f00d", "path": "HOST_4711.1700000000000.pt.trace.json"}
    same = [like(base, spans, rank=rank, device=0, **named) for rank, spans in enumerate(([(50, 100)], [(0, 50)]))]
    assert hosts(same, agreeing(2)) == []


def test_the_number_for_a_host_hides_its_name() -> None:
    one, other = (machine_of(f"runs/node17_{pid}.1700000000000.pt.trace.json.gz") for pid in (4711, 4712))
    assert one == other != machine_of("runs/node18_4711.1700000000000.pt.trace.json.gz")
    assert "node" not in one
    assert machine_of("rank0.json") == machine_of("node_rank3_17.1700000000000.pt.trace.json") == ""


def test_what_stands_still(tmp_path: Path) -> None:
    # Three operators of microseconds take 5 ms; the device is waited for 20 ms, and Python takes 4.
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=0, world_size=2, host_us=2)
    with b.step():
        for number in range(60):
            with b.op(("aten::add", "aten::mul", "aten::view")[number % 3], us=20):
                b.kernel("vectorized_elementwise_kernel", us=5)
                if number in (10, 21, 32):
                    b.idle(us=5_000)
        b.kernel("ampere_sgemm_128x64_tn", us=20_000)
        b.sync()
        b.idle(us=4_000)
        with b.op("aten::add", us=20):
            b.kernel("vectorized_elementwise_kernel", us=5)
    found = digest(read(tmp_path, [b])[0])
    lengths = (found.still[:, 1] - found.still[:, 0]) / MS
    assert [round(float(length), 1) for length in lengths] == [5.0, 5.0, 5.0, 4.0]
    assert close(found.stopped_ns, 15 * MS)  # Python's own pause is none that is known
    assert found.waiting.shape == (1, 2)
    assert close(float(found.waiting[0, 1] - found.waiting[0, 0]), 20 * MS)
    # The device has 5 us of work at the beginning of each.
    assert close(found.idle_ns, 19 * MS)


def test_without_stopped_calls_nothing_is_said(tmp_path: Path) -> None:
    found = digest(read(tmp_path, ranks({1: 9_000}, as_host=True))[1])
    assert len(found.still) == found.stopped_ns == found.idle_ns == 0


def test_the_report_leads_with_the_cores(tmp_path: Path) -> None:
    _, across = together(tmp_path, launching_ranks(in_turn, ranks=4, cores=1))
    assert [finding.rule for finding in across.findings] == [FEW]
    assert waits(across).startswith(
        "4 ranks share about 1 CPU core: for 95 % of the time 3 of their 4 launching threads are stopped and 1 runs. "
        "Ranks wait for each other for "
    )
    owned = {verdict.rule: verdict.because for verdict in across.verdicts.not_applicable}
    assert owned["distributed/straggler"] == f"its time is already owned by {FEW}"


def test_independent_stops_leave_the_late_ranks_to_be_named(tmp_path: Path) -> None:
    _, across = together(tmp_path, launching_ranks(by_itself, ranks=4, cores=1))
    assert [finding.rule for finding in across.findings] == ["distributed/straggler"]
    assert "CPU core" not in waits(across)
    assert len(across.turns) == 1  # counted, and found to be chance
    assert across.turns[0].share < 1.5 * across.turns[0].chance_share


def test_eight_real_ranks_on_two_cores(real: Any) -> None:
    """By the raw timestamps 6 of 8 launching threads stand still at 93.6 % of the instants that all eight steps have in common."""
    traces = (advisor.read(real(f"a100_megatron_tp8/rank{number}.json.gz")) for number in range(8))
    _, across = analyze_many(traces, BOOK, only=ONLY)
    assert across is not None
    assert [(finding.rule, finding.severity) for finding in across.findings] == [(FEW, "high")]
    (host,) = across.turns
    assert (host.ranks, host.running, host.still) == (list(range(8)), 2, 6)
    assert close(host.share, 0.911)
    assert close(host.chance_share, 0.31)
