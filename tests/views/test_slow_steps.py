"""Steps that take much longer than the others. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report import Options, render, step_time
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

GEMM = "ampere_sgemm_128x64_nn"


def steps(folder: Path, *idle_us: int) -> Analysis:
    """A kernel of 1 ms a step, behind Python of so many us, which it runs beside that of the next step."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for us in idle_us:
        with b.step():
            b.idle(us=us)
            with b.op("aten::mm"):
                b.kernel(GEMM, us=1000)
    return advisor.analyze(str(b.write(folder / "trace.json")))


def test_one_step_of_twice_the_median_is_told_with_what_grew(tmp_path: Path) -> None:
    made = steps(tmp_path, 11_000, 11_000, 11_000, 22_000, 11_000)
    found = made.summary.slow_steps
    assert found is not None
    assert (found.count, found.steps, found.name, found.cause) == (1, 4, "ProfilerStep#3", "host")
    assert found.most_ms == pytest.approx(22.0, abs=0.1)
    assert found.median_ms == pytest.approx(11.0, abs=0.1)
    assert found.cause_ms == pytest.approx(11.0, abs=0.1)
    told = "slow step: ProfilerStep#3 takes 22.0 ms (median 11.0 ms), 11.0 ms of it more host"
    assert step_time.slow(made.summary) == told
    assert told in render("text", made, Options(width=100)).decode()


def test_several_are_told_together(tmp_path: Path) -> None:
    summary = steps(tmp_path, *[11_000] * 3, 22_000, 11_000, 11_000, 16_000, 11_000, 11_000).summary
    assert step_time.slow(summary) == (
        "slow steps: 2 of 8 take 16.0–22.0 ms (median 11.0 ms), the longest 11.0 ms of it more host"
    )


def test_steps_that_differ_a_little_and_a_long_first_one_are_none(tmp_path: Path) -> None:
    assert (
        steps(tmp_path, 11_000, 11_100, 11_000, 13_000, 11_000).summary.slow_steps is None
    )  # 13.0 of 11.0 ms: under a quarter
    assert steps(tmp_path, 30_000, 11_000, 11_000, 11_000).summary.slow_steps is None
    assert steps(tmp_path, 11_000, 19_000).summary.slow_steps is None


def test_a_real_loader_in_bursts() -> None:
    found = real("audited/rtx2080ti_resnet_annotated").summary.slow_steps
    assert found is not None
    assert (found.count, found.steps, found.cause) == (14, 29, "loader")
    # Of so many none is single: the headline's mean and median say that steps differ.
    assert step_time.slow(real("audited/rtx2080ti_resnet_annotated").summary) == ""


def test_a_slow_step_is_on_a_screen_without_a_spare_line() -> None:
    # Steps of 124.0, 126.9, 126.3, 163.5 and 124.2 ms: 57.7 ms of the fourth are the host's, 21.9 of the median.
    screen = render("text", real("v100_resnet50_workers4"), Options(width=80)).decode()
    assert "slow step: ProfilerStep#9 takes 164 ms (median 126 ms), 35.8 ms of it more host" in screen
    assert screen.count("\n") <= 38
