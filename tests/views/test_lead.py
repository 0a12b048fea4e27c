"""Waits in which the device catches up with the host, and the idle time behind them. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as analyzed

import advisor
from advisor.report import Options, render, step_time
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
)


def training(folder: Path, *, read: bool, launches: int = 100) -> Analysis:
    """Four steps. 20 ms of work are queued; where *read*, a value is read back in the middle, which waits for it; then kernels of
    0.1 ms are launched, one every 0.2 ms."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation("## forward ##"), b.op("aten::mm", seq=1):
                b.kernel("ampere_sgemm_128x64_nn", ms=20)
            if read:
                with b.annotation("## metric ##"):
                    b.item()
            for _ in range(launches):
                b.idle(us=200)
                with b.op("aten::add"):
                    b.kernel(KERNEL, us=100)
            with b.backward("MmBackward0", seq=1):
                b.kernel(KERNEL, us=10)
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json"))))


def test_a_wait_of_twenty_ms_leaves_the_gpu_idle_for_launches_behind_it(tmp_path: Path) -> None:
    """The host waits for 20 ms. Behind it each of a hundred launches comes 0.2 ms after the one before, for 0.1 ms of work."""
    lost = training(tmp_path, read=True).summary.lead_lost
    assert lost is not None
    assert lost.wait_ms == pytest.approx(20, rel=0.02)
    # Of each 0.205 ms between two launches the kernel takes 0.1; the first of them is the bubble, which is the wait's own.
    assert lost.idle_ms == pytest.approx(99 * 0.105 + 0.2, rel=0.05)
    (place,) = lost.where
    assert (place.op, place.around) == ("aten::_local_scalar_dense", "## metric ##")


def test_waits_one_behind_the_other_share_the_idle_time_and_a_copy_alone_is_no_work(tmp_path: Path) -> None:
    """Of the 99 x 0.105 ms idle behind them the later wait of 8 ms takes 8, the first of 12 ms 2.4; no copy counts as work."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for _ in range(4):
        with b.step():
            for name, ms in (("## first ##", 12), ("## second ##", 8)):
                with b.op("aten::mm", seq=1):
                    b.kernel("ampere_sgemm_128x64_nn", ms=ms)
                with b.annotation(name):
                    b.item()
            for _launch in range(100):
                b.idle(us=200)
                with b.op("aten::add"):
                    b.kernel(KERNEL, us=100)
            with b.backward("MmBackward0", seq=1):
                b.kernel(KERNEL, us=10)
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    lost = made.summary.lead_lost
    assert lost is not None
    assert [(one.around, round(one.ms), round(one.idle_ms)) for one in lost.where] == [
        ("## second ##", 8, 8),
        ("## first ##", 12, 2),
    ]
    assert lost.idle_ms == pytest.approx(sum(one.idle_ms for one in lost.where))


def test_without_the_wait_nothing_is_said(tmp_path: Path) -> None:
    assert training(tmp_path, read=False).summary.lead_lost is None


def test_a_wait_behind_which_little_is_launched_costs_nothing(tmp_path: Path) -> None:
    assert training(tmp_path, read=True, launches=0).summary.lead_lost is None


@pytest.mark.real
def test_values_read_while_batches_are_distributed() -> None:
    """By the raw file a mean step waits 6.14 ms in _local_scalar_dense under ## sparse_data_dist ##, most of it beside kernels.

    The copies under ## wait_sparse_data_dist ## are waited for as long, at the end of the step: little idle time is behind them.
    """
    made = analyzed("a100_dlrm_rank3of8")
    text = " ".join(render("text", made, Options(width=100)).decode().split())
    assert "while the GPU works: 6.02 ms in aten::_local_scalar_dense under ## sparse_data_dist ##" in text
    assert made.summary.lead_lost is not None
    assert not any("wait_sparse_data_dist" in str(place) for place in made.summary.lead_lost.where)
    assert made.summary.lead_lost.idle_ms <= made.summary.steady_causes["host"] * made.summary.whole_ms


def test_waits_behind_which_little_idles_are_told_beside_those_behind_which_much_does(tmp_path: Path) -> None:
    """20 ms of waiting in the middle of a step leave the GPU idle; 8 ms at its end are waited for all the same."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation("## forward ##"), b.op("aten::mm", seq=1):
                b.kernel("ampere_sgemm_128x64_nn", ms=20)
            with b.annotation("## metric ##"):
                b.item()
            for _launch in range(100):
                b.idle(us=200)
                with b.op("aten::add"):
                    b.kernel(KERNEL, us=100)
            with b.backward("MmBackward0", seq=1):
                b.kernel(KERNEL, ms=8)
            with b.annotation("## log ##"):
                b.item()
    summary = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary
    lost = summary.lead_lost
    assert lost is not None
    assert [(place.around, round(place.ms)) for place in lost.where] == [("## metric ##", 20)]
    assert [(place.around, round(place.ms)) for place in lost.others] == [("## log ##", 8)]
    told = step_time.lead_lost(summary)
    assert told.startswith("The CPU waits 28.1 ms a step while the GPU works: 20.0 ms in")
    assert told.endswith(" idle), 8.09 ms in aten::_local_scalar_dense under ## log ##."), told


@pytest.mark.real
def test_both_waits_for_copies_of_a_recommender_are_told() -> None:
    """By the raw file 12.6 ms a step: half in values read back, half in copies to pageable memory at the end of the step."""
    told = step_time.lead_lost(analyzed("a100_dlrm_rank3of8").summary)
    assert "## sparse_data_dist ##" in told
    assert "## wait_sparse_data_dist ##" in told
