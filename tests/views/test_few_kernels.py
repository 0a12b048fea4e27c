"""Recordings of a few short kernels. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report import Options, render, step_time
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder


def recorded(folder: Path, *, kernels: int = 4, us: int = 10, same: bool = False) -> Analysis:
    """Launch so many kernels of *us* each, by operators of different names unless they are the *same*."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for at in range(kernels):
        with b.op("aten::add" if same else f"aten::op{at}", us=50):
            b.kernel("vectorized_elementwise_kernel", us=us)
    b.sync()
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json"))))


def test_a_few_short_kernels_show_nothing_steady(tmp_path: Path) -> None:
    told = "Too short to tell first calls from steady work: 4 kernels, 40.0 µs of GPU work"
    assert step_time.too_short(recorded(tmp_path)) == f"{told}, and no operator comes twice"
    assert step_time.too_short(recorded(tmp_path, same=True)) == told


@pytest.mark.parametrize("width", [60, 80])
def test_the_screen_says_so(width: int, tmp_path: Path) -> None:
    text = render("text", recorded(tmp_path), Options(width=width)).decode()
    assert "Too short to tell first calls from steady work: 4 kernels," in " ".join(text.split())


def test_many_kernels_and_long_ones_may_be_steady(tmp_path: Path) -> None:
    assert recorded(tmp_path, kernels=11).summary.few_kernels is None
    assert recorded(tmp_path, us=250).summary.few_kernels is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("triton_example", "1 kernel, 1.76 µs of GPU work"),
        ("audited/event_sync_first_call", "4 kernels, 51.0 µs of GPU work, and no operator comes twice"),
    ],
)
def test_real_recordings_that_are_too_short(name: str, told: str) -> None:
    """By the raw files a kernel of 1.76 us, and four of 49 us with a copy of 2."""
    assert step_time.too_short(real(name)).startswith(f"Too short to tell first calls from steady work: {told}")
