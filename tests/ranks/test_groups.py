"""Ranks that exchange in groups: experts that one rank gets more tokens for, and tensor-parallel groups of a larger run."""

from __future__ import annotations

from pathlib import Path

from support.ranks import GPU, close, read, together

from advisor.ranks.digest import digest
from advisor.ranks.summary import ranks_of
from advisor.testing import TraceBuilder

PRODUCT = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
STEPS, STEP_US = 4, 50_000


def experts(number: int, rows: int, us: int, latest_us: int) -> TraceBuilder:
    """A layer of experts in each step: tokens go out, this rank's experts compute *rows* of them, and they come back."""
    b = TraceBuilder(GPU, rank=number, world_size=8, record_shapes=True)
    for step in range(STEPS):
        at = step * STEP_US
        with b.step():
            with b.op("aten::mm", shapes=[[4096, 1024], [1024, 1024]]):
                b.kernel(PRODUCT, us=10_000, at_us=at + 200)
            b.collective("all_to_all", 8 << 20, us=500, at_us=at + 10_200)
            with b.op("aten::mm", shapes=[[rows, 1024], [1024, 4096]]):
                b.kernel(PRODUCT, us=us, at_us=at + 10_700)
            b.collective("all_to_all", 8 << 20, us=latest_us - us + 500, at_us=at + 10_700 + us)
            b.sync("cudaDeviceSynchronize")
            b.seek(at + STEP_US)
    return b


def test_experts_with_more_tokens_are_what_the_others_wait_for(tmp_path: Path) -> None:
    """Rank 5 of eight computes 16 ms of 8,000 rows where the others compute 8 ms of 4,000: these wait 8 ms a step."""
    built = [experts(rank, 8000 if rank == 5 else 4000, 16_000 if rank == 5 else 8_000, 16_000) for rank in range(8)]
    _, across = together(tmp_path, built)
    (finding,) = across.findings
    assert finding.rule == "distributed/uneven-work"
    assert close(finding.cost_ms, 7 * 8 / 8)
    assert finding.evidence.rows[0][:2] == [5, "all_to_all"]
    shapes = [one for one in across.differences if one.what == "shapes"]
    assert [one.ranks for one in shapes] == [[5]]
    assert "8000" in shapes[0].here
    assert "4000" in shapes[0].usual


def test_experts_with_as_many_tokens_wait_for_nobody(tmp_path: Path) -> None:
    _, across = together(tmp_path, [experts(rank, 4000, 8_000, 8_000) for rank in range(8)])
    assert across.findings == []
    assert across.differences == []


def layer(number: int) -> TraceBuilder:
    """One of 64 ranks, eight to a tensor-parallel group: rank 13 computes 4 ms longer than the others, and its group waits.

    At the end of a step all 64 exchange gradients, to which the group of rank 13 comes 4 ms late.
    """
    b = TraceBuilder(GPU, rank=number, world_size=64)
    group = range(number // 8 * 8, number // 8 * 8 + 8)
    late, behind = 4_000 * (number == 13), 4_000 * (13 in group)
    for step in range(STEPS):
        at = step * STEP_US
        with b.step():
            b.kernel(PRODUCT, us=20_000 + late, at_us=at + 200)
            came = at + 20_200 + late
            b.collective(
                "all_reduce", 4 << 20, us=behind - late + 500, at_us=came, group=f"tp{number // 8}", group_ranks=group
            )
            b.kernel(PRODUCT, us=10_000, at_us=at + 20_700 + behind)
            came = at + 30_700 + behind
            b.collective("all_reduce", 4 << 20, us=4_500 - behind, at_us=came, group="dp", stream=21)
            b.sync("cudaDeviceSynchronize")
            b.seek(at + STEP_US)
    return b


def test_of_sixty_four_ranks_groups_wait_each_for_its_own(tmp_path: Path) -> None:
    job, _ = ranks_of([digest(trace) for trace in read(tmp_path, [layer(number) for number in range(64)])])
    assert job is not None
    assert len(job.groups) == 9
    frame = job.arrivals.frame
    waits = frame.groupby(["group_name", "rank"], observed=True)["wait_ns"].sum() / STEPS / 1e6
    waiting = waits[waits > 0.01]
    late = set(range(8, 16))
    assert {rank for name, rank in waiting.index if name.startswith("tp")} == late - {13}
    assert {rank for name, rank in waiting.index if name.startswith("dp")} == set(range(64)) - late
    assert all(close(float(wait), 4) for wait in waiting)
