"""Gathers of FSDP's units, and what the computation before each could hide; worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import advisor
from advisor.testing import TraceBuilder

GEMM = "ampere_bf16_s16816gemm_128x64_tn"


def rows(folder: Path, *, names: tuple[str, ...], beside: bool = False) -> list[dict[str, Any]]:
    """Two steps of a gather of 2 ms and a product of 3 ms for each name; *beside*: 1 ms of another collective on each product."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=0, world_size=4, host_us=2)
    for _ in range(2):
        with b.step():
            at = b.now_ns // 1000 + 50
            for name in names:
                with b.annotation(name):
                    b.collective("all_gather", 8_000_000, us=2_000, at_us=at)
                with b.op("aten::mm"):
                    b.kernel(GEMM, us=3_000, at_us=at + 2_000)
                if beside:
                    b.collective("all_reduce", 8_000_000, us=1_000, at_us=at + 2_000, stream=30)
                at += 5_000
            b.sync("cudaDeviceSynchronize")
    frame = advisor.read(str(b.write(folder / "trace.json"))).frame("collectives")
    found: list[dict[str, Any]] = frame[frame["kind"] == "all_gather"].to_dict("records")
    return found


def test_a_gather_could_have_run_beside_the_layer_before(tmp_path: Path) -> None:
    found = rows(tmp_path, names=("FSDP::all_gather", "FSDP::all_gather (layers.0)", "FSDP::all_gather (layers.1)"))
    assert [row["unit"] for row in found] == ["(root)", "layers.0", "layers.1"] * 2
    assert all(row["unshards"] for row in found)
    # The first of each step has no layer before it, whatever the step before computed.
    assert [row["ahead_ns"] for row in found] == [0, 2_000_000, 2_000_000] * 2


def test_what_communicates_already_hides_no_more(tmp_path: Path) -> None:
    found = rows(tmp_path, names=("FSDP::all_gather (a)", "FSDP::all_gather (b)"), beside=True)
    assert [row["ahead_ns"] for row in found] == [0, 2_000_000] * 2  # 2 of the product's 3 ms are left


def test_version_1_names_no_unit(tmp_path: Path) -> None:
    found = rows(tmp_path, names=("FullyShardedDataParallel._pre_forward",) * 2)
    assert [(row["unshards"], row["ahead_ns"]) for row in found] == [(True, 0), (True, 2_000_000)] * 2
    assert not any(isinstance(row["unit"], str) for row in found)


def test_other_gathers_are_no_parameters(tmp_path: Path) -> None:
    found = rows(tmp_path, names=("FSDP::all_gather_copy_out (a)", "tensor parallel"))
    assert [(row["unshards"], row["ahead_ns"]) for row in found] == [(False, 0)] * 4
