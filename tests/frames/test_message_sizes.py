"""Groups of collectives whose size stands in the values of their record, as torch before 2.2 writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.frames.message_sizes import _last
from advisor.testing import TraceBuilder

GPU = "NVIDIA A100-SXM4-80GB"


def size(tmp_path: Path, values: list[str]) -> int | None:
    b = TraceBuilder(GPU)
    shapes = [[1024], *[[]] * (len(values) - 1)]
    with b.step(), b.op("record_param_comms", shapes=shapes, values=values), b.annotation("nccl:all_reduce"):
        b.kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", us=100)
    (found,) = advisor.read(b.write(tmp_path / "trace.json")).frame("collectives")["group_size"].tolist()
    return None if found is None or str(found) == "<NA>" else int(found)


@pytest.mark.parametrize(
    ("values", "ranks"),
    [
        (["", "342", "93825133358160", "1", "", "[]", "[]", "8"], 8),
        (["", "17", "['0', 'default_pg']", "1", "allreduce", "[]", "[]", "0", "1", "16"], 16),
        (["342", "93825133358160", "1", "", "[]", "[]", "1"], None),  # a wait
        (["", "342", "93825133358160", "1", "", "[]", "[]", "-8"], None),
        (["", "342", "93825133358160", "1", "", "[]", "[]", "8888888888888888888888"], None),
    ],
)
def test_the_last_value_of_a_record_is_the_size_of_the_group(
    tmp_path: Path, values: list[str], ranks: int | None
) -> None:
    assert size(tmp_path, values) == ranks


def test_values_that_are_nested_too_deep_to_be_read_say_no_size() -> None:
    assert _last(b"[" * 50_000) == -1
    assert _last(b'["","342","93825133358160","1","",[],[],"8"]') == 8


def test_messages_of_unlike_sizes_share_no_median(tmp_path: Path) -> None:
    """Two all-reduces a step, of 1,793 MB in 25 ms and of 0.2 MB in 0.5 ms: a median of both is 896.6 MB."""
    b = TraceBuilder(GPU, rank=0, world_size=16)
    for number in range(5):
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=100_000)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=90_000)
                b.sync("cudaDeviceSynchronize")
                b.collective("all_reduce", 1_793_000_000, us=25_000)
                b.collective("all_reduce", 200_000, us=500)
            b.sync("cudaDeviceSynchronize")
    trace = advisor.read(b.write(tmp_path / "trace.json"))
    assert trace.frame("collectives")["size"].tolist() == ["100 MB or more", "under 1 MB"] * 5
    analysis = advisor.analyze(trace)
    (found,) = [one for one in analysis.findings if one.rule == "distributed/exposed-communication"]
    columns = found.evidence.columns
    rows = [dict(zip(columns, row, strict=True)) for row in found.evidence.rows]
    assert [(row["n"], row["median_mb"]) for row in rows] == [(5, 1793.0), (5, 0.2)]
