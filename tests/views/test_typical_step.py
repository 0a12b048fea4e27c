"""Shares of a step are those of the step whose time stands beside them. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.report import figures, savings, time_lines
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder


def steps(folder: Path, *idle_us: int, loads: tuple[int, ...] = ()) -> Analysis:
    """Steps of Python of so many us and a kernel of 7 ms beside as much of Python; those of *loads* wait 4 ms for a batch."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for at, us in enumerate(idle_us):
        with b.step():
            if at in loads:
                with b.loader(us=4000):
                    pass
            b.idle(us=us)
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=7000)
            b.idle(us=7000)
    return advisor.analyze(str(b.write(folder / "trace.json")))


def test_one_slow_step_leaves_the_shares_of_the_median_step_alone(tmp_path: Path) -> None:
    made = steps(tmp_path, 3000, 3000, 3000, 8000, 3000, 3000)
    summary, headline = made.summary, made.headline
    # Of all steps the GPU computes 42 of 65 ms, of the median step 7 of 10.
    assert summary.steady_causes["compute"] == pytest.approx(42 / 65, abs=0.01)
    assert summary.shown_causes["compute"] == pytest.approx(0.7, abs=0.01)
    assert sum(summary.shown_causes.values()) == pytest.approx(1.0)
    assert "step 10.0 ms: compute 70" in time_lines.time_line(summary, 80)
    assert headline is not None
    assert headline.text.startswith("Program, eager, 6 steps: 70 % of the steady 10")
    host = next(part for part in figures.causes(summary) if part.cause == "host")
    assert host.ms == pytest.approx(3.0, abs=0.05)
    assert host.meaning == "idle: the host; 2.61 ms without any event of it; 3.84 ms in the mean step"


def test_time_that_only_some_steps_take_keeps_its_share(tmp_path: Path) -> None:
    """The median knows nothing of a batch that is waited for in two of six steps: its shares would hide it."""
    summary = steps(tmp_path, *[3000] * 6, loads=(2, 4)).summary
    assert summary.shown_causes == summary.steady_causes
    assert summary.shown_causes["loader"] > 0.1


def test_steps_of_one_length_have_the_shares_of_all(tmp_path: Path) -> None:
    summary = steps(tmp_path, *[3000] * 6).summary
    assert summary.shown_causes == summary.steady_causes


def test_a_real_program_with_one_slow_step() -> None:
    """Kernels of 98.8 ms in a step of 126 ms are 78 % of it, not the 74 % that they are of the mean."""
    made = real("v100_resnet50_workers4")
    assert "step 126 ms: compute 78" in time_lines.time_line(made.summary, 80)
    assert made.headline is not None
    assert "79 % of the steady 126 ms" in made.headline.text


def test_what_a_finding_costs_is_of_one_step(tmp_path: Path) -> None:
    """Kernels of 67.1 ms a step cost as much, not their share of the mean step times the median's length."""
    made = real("v100_resnet50_workers4")
    found = next(one for one in made.findings if one.rule == "precision/no-tensor-cores")
    assert figures.cost(found, made.summary).startswith("67.1 ms a step in the mean (50")
    assert "cost 67.1 ms (mean step)" in savings.saving(found, made.findings, made.summary)


def test_what_a_finding_costs_in_even_steps_is_of_any(tmp_path: Path) -> None:
    made = steps(tmp_path, *[3000] * 6)
    found = made.findings[0]
    assert "mean" not in figures.cost(found, made.summary)
    assert "mean" not in savings.saving(found, made.findings, made.summary)


def test_work_of_a_step_before_the_recording_is_in_no_mean_of_its_five() -> None:
    """By the raw file the misaligned products take 19.8 to 20.2 ms in every step of 216; a fifth of the window's six is 23.8.

    The host's steps take 209.7 to 216.5 ms. The device's end at 379.5, 595.0, 811.6, 1,027.8 and 1,240.3, and what names no launch
    at 163.2.
    """
    made = real("audited/a100_dlrm_rank0of16")
    found = next(one for one in made.findings if one.rule == "precision/misaligned-matmul")
    assert not made.summary.mean_apart
    assert "cost 19.9 ms, saves" in savings.saving(found, made.findings, made.summary)
    assert made.summary.step_ms is not None
    assert made.summary.step_ms.mean == pytest.approx((1240.3 - 163.2) / 5, abs=0.1)
    assert made.summary.steady_mean_ms == pytest.approx(made.summary.step_ms.mean)
