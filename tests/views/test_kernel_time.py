"""Short kernels: how many of a step's, and what they take, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report.step_time import kernel_time
from advisor.results.analysis import Summary
from advisor.testing import TraceBuilder


def summary(short: int, folder: Path) -> Summary:
    """Three steps of so many kernels of 5 us, and two of 1 ms."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            for _ in range(short):
                b.kernel("elementwise_kernel", us=5)
            for _ in range(2):
                b.kernel("volta_sgemm_128x64_nn", us=1000)
            b.sync()
    return advisor.analyze(advisor.read(str(b.write(folder / "trace.json")))).summary


def test_short_kernels_are_counted_where_they_take_a_fifth(tmp_path: Path) -> None:
    # 102 of 5 us are 510 of 2,510 us; 98 are 490 of 2,490.
    found = summary(102, tmp_path).short_kernels
    assert found is not None
    assert (found.count, found.kernels, found.ms) == pytest.approx((102, 104, 0.51))
    assert "102 of 104 take under 10 µs each, 510 µs together." in kernel_time(summary(102, tmp_path))
    assert summary(98, tmp_path).short_kernels is None


@pytest.mark.real
def test_a_tiny_batch_runs_in_short_kernels() -> None:
    """By the raw file 444 of 562 kernels take less than 10 us, 2.0 of 5.34 ms."""
    found = real("mi210_gpu_only").summary.short_kernels
    assert found is not None
    assert (found.count, found.kernels) == (444, 562)
    assert found.ms == pytest.approx(2.0, abs=0.05)
