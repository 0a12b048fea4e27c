"""Calls that block the host, by call and place, whether or not the GPU works meanwhile. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.analyses import finding
from support.traces import analysis as real

import advisor
from advisor.report import Options, render, step_time
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

GEMM = "ampere_sgemm_128x64_nn"


def steps(folder: Path, *, mm_ms: int = 10, rest_ms: int = 0, pinned: bool = False) -> Analysis:
    """Three steps: a product, a value read behind it; 2 ms of cudaMalloc; 3 ms of kernels and 1 ms of a copy behind them."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, ms=mm_ms)
            with b.annotation("## metric ##"):
                b.item()
            with b.op("aten::empty"):
                b.malloc(1 << 20, us=2_000)
            with b.op("aten::add"):
                b.kernel(GEMM, ms=3)
            b.copy("DtoH", nbytes=10_000_000, us=1_000, pinned=pinned)
            with b.op("aten::add"):
                b.kernel(GEMM, ms=1 + rest_ms)
            b.idle(us=1000 * rest_ms)
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json"))))


def test_calls_that_block_are_summed_up_by_call_and_place(tmp_path: Path) -> None:
    """10 ms for the value, 2 ms of cudaMalloc in which the GPU has nothing, 4 ms for the copy; 1 ms of the last kernel of a step is
    waited for by the value of the next, in the second and the third.
    """
    found = steps(tmp_path).summary.host_blocked
    assert found is not None
    item, copy, malloc = found.parts
    assert (item.call, item.where, item.kind, item.count) == (".item()", "## metric ##", "range", 1)
    assert (copy.call, copy.where, copy.kind, copy.count) == ("copies to the host", "aten::copy_", "operator", 1)
    assert (malloc.call, malloc.where, malloc.kind, malloc.count) == ("cudaMalloc", "aten::empty", "operator", 1)
    assert item.ms == pytest.approx(10 + 2 / 3, abs=0.02)
    assert (copy.ms, malloc.ms) == (pytest.approx(4, abs=0.02), pytest.approx(2, abs=0.02))
    assert found.ms == pytest.approx(item.ms + copy.ms + malloc.ms)
    assert (malloc.idle_ms, found.idle_ms) == (pytest.approx(2, abs=0.02), pytest.approx(2, abs=0.05))


def test_the_line_names_them_with_what_the_gpu_idles(tmp_path: Path) -> None:
    made = replace(steps(tmp_path), findings=[])
    told = step_time.blocked(made)
    start = (
        "host blocked 16.7 ms of a mean step of 17.0 ms (the GPU idles 2.01 ms of it): .item() in ## metric ## 64 %, "
    )
    assert told.startswith(start)
    assert told.endswith("copies to the host in aten::copy_ 24 %, cudaMalloc in aten::empty 12 %")
    assert "host blocked 16.7 ms" in render("text", made, Options(width=100)).decode()


def test_a_finding_about_such_calls_says_it(tmp_path: Path) -> None:
    made = steps(tmp_path)
    assert step_time.blocked(replace(made, findings=[finding("sync/scalar-readback")])) == ""
    assert step_time.blocked(replace(made, findings=[finding("cpu/launch-bound")])) != ""


def test_copies_of_pinned_memory_and_a_small_part_of_the_step_are_nothing(tmp_path: Path) -> None:
    """A copy of pinned memory returns at once. Of a step of 1.4 s under 70 ms are no twentieth."""
    found = steps(tmp_path, pinned=True).summary.host_blocked
    assert found is not None
    assert [part.call for part in found.parts] == [".item()", "cudaMalloc"]
    assert steps(tmp_path, mm_ms=1, rest_ms=700).summary.host_blocked is None


def test_a_wait_behind_the_last_launch_keeps_the_host_from_nothing(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    with b.step():
        for _ in range(5):
            with b.op("aten::mm"):
                b.kernel(GEMM, ms=10)
        b.sync("cudaDeviceSynchronize")
    assert advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary.host_blocked is None


def test_a_host_that_runs_ahead_is_blocked_in_steps_of_its_own(tmp_path: Path) -> None:
    """Each of four steps of 10 ms stands 8 in a copy beside kernels, which end 15 behind the last: 55 ms, 13.75 a step."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for step in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, ms=10 if step else 25)
            b.copy("DtoH", nbytes=10_000_000, us=8_000, stream=20)
            b.seek(ms=10 * (step + 1))
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    found = made.summary.host_blocked
    assert found is not None
    assert (found.ms, found.step_ms) == (pytest.approx(8, abs=0.02), pytest.approx(10, abs=0.02))
    assert made.summary.steady_mean_ms == pytest.approx(13.75, abs=0.02)
    assert step_time.blocked(replace(made, findings=[])).startswith("host blocked 8.0")


def test_the_host_of_a_real_trace_ends_before_its_last_synchronization() -> None:
    """By the raw file calls of 50 us and more hold it for 152.1 ms of a step of 214.8; the GPU's last ends 150 ms later."""
    found = real("audited/a100_dlrm_rank0of16").summary.host_blocked
    assert found is not None
    assert (found.ms, found.step_ms) == (pytest.approx(152.1, abs=0.5), pytest.approx(214.8, abs=0.1))
    assert step_time.blocked(real("audited/a100_dlrm_rank0of16")).startswith("host blocked 152 ms: copies to the host")


def test_a_real_pageable_copy_holds_the_host_beside_the_gpu() -> None:
    """By the raw file five copies in box_predictor hold the host for 358.5 ms."""
    found = real("h100_owlv2_large").summary.host_blocked
    assert found is not None
    first = found.parts[0]
    assert (first.call, first.kind, first.count) == ("copies to the GPU", "function", 5)
    assert first.where.endswith("box_predictor")
    assert first.ms == pytest.approx(358.5, abs=0.1)
    told = step_time.blocked(real("h100_owlv2_large"))
    assert "copies to the GPU ×5 in modeling_owlv2.py:1421 box_predictor 95 %, other 5 %" in told
