"""The pace of launches of which no kernel was recorded. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report import step_time
from advisor.results.analysis import Summary
from advisor.testing import TraceBuilder


def launching(folder: Path, *, count: int = 20, kernel: bool = False, counters: bool = False) -> Summary:
    """Launch a kernel every 50 us, 5 of them in the call, as the CPU alone was recorded; with *kernel* one of them was.

    With *counters* hardware counters are read at the end.
    """
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for _ in range(count):
        with b.op("aten::add"):
            b.call("cudaLaunchKernel", us=5)
            b.idle(us=45)
    if kernel:
        b.kernel("vectorized_elementwise_kernel", us=10)
    if counters:
        b.counters()
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json")))).summary


def test_launches_without_kernels_are_counted_with_their_pace(tmp_path: Path) -> None:
    summary = launching(tmp_path)
    found = summary.launch_rate
    assert found is not None
    assert (found.count, found.ms, found.call_us) == (20, pytest.approx(1.0, abs=0.05), pytest.approx(5))
    assert step_time.launches(summary).startswith(
        "launches: 20 in 1.00 ms, one every 50.0 µs (20,000 a second), 5.00 µs"
    )


def test_where_kernels_were_recorded_and_of_few_launches_nothing_is_said(tmp_path: Path) -> None:
    assert launching(tmp_path, kernel=True).launch_rate is None
    assert launching(tmp_path, count=9).launch_rate is None
    assert launching(tmp_path, counters=True).launch_rate is None


def test_the_pace_of_a_real_trace_without_kernels() -> None:
    """By the raw file 236 cudaLaunchKernel and 24 cuLaunchKernel take 1.249 ms of the 12.478 in model_inference."""
    summary = real("a100_host_only").summary
    found = summary.launch_rate
    assert found is not None
    assert (found.count, found.ms, found.call_us) == (
        260,
        pytest.approx(12.48, abs=0.03),
        pytest.approx(4.80, abs=0.01),
    )
    assert step_time.launches(summary) == (
        "launches: 260 in 12.5 ms, one every 48.0 µs (20,800 a second), 4.80 µs of it in the call: kernels that take less leave "
        "the GPU waiting, unless torch.compile or a CUDA graph launches fewer"
    )
