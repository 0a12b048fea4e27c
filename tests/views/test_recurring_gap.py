"""The one stretch of idle time that comes back in each step. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.report import Options, render, step_time
from advisor.report.documents.screen import one
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.testing.timeline import Span

GEMM = "ampere_sgemm_128x64_nn"


def replays(folder: Path, late_ms: tuple[int, ...] = (6, 6, 6, 6, 6), *, short: int = 0) -> Analysis:
    """Steps of 10 ms of kernels; then a graph that is launched at once, and of which the GPU runs nothing for so many ms.

    Behind it come *short* kernels, each half a ms after the one before.
    """
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for late in late_ms:
        with b.step():
            with b.op("aten::mm", seq=1):
                busy = b.kernel(GEMM, ms=10)
            until = Span(busy.end_ns, busy.end_ns + late * 1_000_000)
            with b.op("CompiledFunctionBackward"):
                last: Span = b.graph([("triton_poi_fused_add_0", 100)], after=[until])[-1]
            for _ in range(short):
                with b.op("aten::add"):
                    last = b.kernel("add", us=10, after=[Span(last.end_ns, last.end_ns + 500_000)])
            b.sync()
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json"))))


def test_a_gap_of_each_step_is_said_with_what_comes_next(tmp_path: Path) -> None:
    """Each step idles for 6 ms before a graph that was launched when the kernel of 10 ms began."""
    found = replays(tmp_path).summary.recurring_gap
    assert found is not None
    assert (found.count, found.steps, found.op, found.call) == (5, 5, "CompiledFunctionBackward", "cudaGraphLaunch")
    assert found.least_ms == pytest.approx(6, rel=0.01)
    assert found.most_ms == pytest.approx(6, rel=0.01)
    assert found.idle_share > 0.95
    assert found.ended == 5
    assert found.graph
    assert found.ahead_ms == pytest.approx(10, rel=0.01)


def test_the_screen_says_so(tmp_path: Path) -> None:
    made = replays(tmp_path)
    told = step_time.recurring_gap(made.summary)
    assert told.startswith("once a step the GPU idles, or runs unrecorded work, for 6.00 ms at once (")
    assert told.endswith("of such time), before a graph that CompiledFunctionBackward had queued 9.99 ms ahead")
    text = " ".join(render("text", made, Options(width=100, verbosity=1)).decode().split())
    assert "Once a step the GPU idles, or runs" in text
    screen = [str(block) for block in one(made, 80)]
    assert any("once a step the GPU idles" in line for line in screen)


def test_gaps_of_other_lengths_are_none_that_comes_back(tmp_path: Path) -> None:
    assert replays(tmp_path, (2, 4, 6, 8, 10)).summary.recurring_gap is None


def test_two_steps_show_nothing_that_comes_back(tmp_path: Path) -> None:
    assert replays(tmp_path, (6, 6)).summary.recurring_gap is None


def test_a_last_step_without_idle_time(tmp_path: Path) -> None:
    """Of nine steps the fifth alone idles, and nothing lies behind it."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for number in range(9):
        with b.step():
            if number == 4:
                b.idle(ms=6)
            b.kernel(GEMM, us=1000)
            b.sync(us=0)
    assert advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary.recurring_gap is None


def test_a_gap_among_others_that_hold_more_is_none(tmp_path: Path) -> None:
    """40 gaps of half a ms hold 20 of 26 ms."""
    assert replays(tmp_path, short=40).summary.recurring_gap is None


def test_a_gap_that_a_finding_is_about_has_its_line_there(tmp_path: Path) -> None:
    """The loader's wait of 6 ms in each step is a finding's."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=5, latency_us=0)
    for _ in range(5):
        with b.step():
            with b.loader(ms=6):
                pass
            with b.op("aten::mm", seq=1):
                b.kernel(GEMM, ms=10)
            b.sync()
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    assert any("loader" in one.rule for one in made.findings)
    assert made.summary.recurring_gap is None
