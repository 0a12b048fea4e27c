"""Experts that got more tokens: what the other ranks wait for them, and which finding says so; worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.ranks import close, read, together

from advisor.ranks.digest import digest
from advisor.ranks.job import Job
from advisor.ranks.summary import ranks_of
from advisor.testing import TraceBuilder
from advisor.testing.experts import expert_ranks

EXPERTS = "distributed/uneven-experts"
POPULAR = [1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.0, 1.0]
LOOKUP = "void split_embedding_codegen_forward_unweighted_kernel"


def job(folder: Path, builders: Sequence[TraceBuilder]) -> Job:
    found, _ = ranks_of([digest(trace) for trace in read(folder, builders)])
    assert found is not None
    return found


def test_which_exchange_waits_for_experts(tmp_path: Path) -> None:
    frame = job(tmp_path, expert_ranks([POPULAR] * 2, steps=3)).arrivals.frame
    each = frame.groupby("collective").first()
    # Tokens out, and back: attention is as long on all ranks, and the experts of rank 5 take 1 ms longer.
    assert each["late_by_experts"].tolist() == [False, True] * 6
    back = frame[frame["late_by_experts"]]
    assert set(back["late_rank"]) == {5}
    assert all(close(share, 0.5) for share in back["late_more_sent"])
    assert all(close(ns, 1_000_000) for ns in back.loc[back["rank"] != 5, "wait_ns"])


def test_products_before_an_exchange_are_counted(tmp_path: Path) -> None:
    found = digest(read(tmp_path, expert_ranks([POPULAR] * 2, steps=3))[5])
    # Attention is no product; 3 ms of experts are.
    assert found.products.tolist() == [0, 3_000_000] * 6
    assert found.tokens.tolist() == [0] * 12
    library = digest(read(tmp_path, expert_ranks([POPULAR] * 2, steps=3, library=True))[5])
    assert library.tokens.tolist() == [1] * 12
    assert library.collectives["bytes"].isna().all()


def test_one_finding_says_it(tmp_path: Path) -> None:
    # 7 of 8 ranks wait 1 ms in each of four layers: 3.5 ms.
    traces, across = together(tmp_path, expert_ranks([POPULAR] * 4))
    assert [finding.rule for finding in across.findings] == [EXPERTS]
    finding = across.findings[0]
    assert close(finding.cost_ms, 3.5)
    assert finding.saving is not None
    assert close(finding.saving.high_ms, 3.5)
    row: dict[str, Any] = dict(zip(finding.evidence.columns, finding.evidence.rows[0], strict=True))
    assert (row["late_rank"], row["kind"], row["collectives"], row["more_tokens_share"]) == (5, "all_to_all", 16, 0.5)
    assert close(row["median_late_by_ms"], 1)
    # Rank 0's own finding on its exchange names the rank, and the finding that says why.
    own = [finding for finding in traces[0].findings if "communication" in finding.rule]
    assert own
    assert all("rank 5" in one.why and EXPERTS in one.why for one in own)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # As many tokens on each rank: the GPU is slower.
        ({"loads": [[1.0] * 8] * 4, "slow": [1.0, 1.5]}, "distributed/slow-gpu"),
        # A rank with more tables looks up longer, and sends more.
        ({"loads": [POPULAR] * 4, "experts": LOOKUP, "op": "fbgemm::lookup"}, "distributed/uneven-work"),
        # Longer sequences between exchanges of equal sizes.
        ({"loads": [POPULAR] * 4, "sends_more": False}, "distributed/uneven-work"),
    ],
)
def test_look_alikes_are_told_of_by_their_own_rules(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    loads = options.pop("loads")
    _, across = together(tmp_path, expert_ranks(loads, **options))
    assert [finding.rule for finding in across.findings] == [expected]


def test_other_ranks_late_in_turn(tmp_path: Path) -> None:
    """No rank computes longer than the others over the step, so uneven-work has nothing to say."""
    loads = [[1.5 if rank == layer else 1.0 for rank in range(8)] for layer in range(8)]
    _, across = together(tmp_path, expert_ranks(loads))
    assert [finding.rule for finding in across.findings] == [EXPERTS]
    assert close(across.findings[0].cost_ms, 7)
    assert len(across.findings[0].evidence.rows) == 8
