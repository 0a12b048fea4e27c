"""What a headline says to do first, and does not: what is beside the point, and what a benchmark does around its runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real_analysis

from advisor.pipeline import analyze
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.trace import read

OFF = "cpu/work-off-the-gpu"


def made(b: TraceBuilder, folder: Path) -> Analysis:
    return analyze(read(str(b.write(folder / "trace.json"))))


def first(result: Analysis) -> str:
    assert result.headline is not None
    return result.headline.text.partition(" First, ")[2]


def computing(zeros_us: int) -> TraceBuilder:
    """Four steps of 10 ms of a kernel that no rule knows, behind so many us of a memset of the gradients."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation("Optimizer.zero_grad#SGD.zero_grad"), b.op("aten::zero_", us=10):
                b.memset(1 << 20, us=zeros_us)
            with b.op("lattice_update", us=10):
                b.kernel("lattice_update_kernel", us=10_000)
            b.sync()
    return b


def test_a_fiftieth_of_the_step_is_not_what_to_do_first_beside_what_no_finding_owns(tmp_path: Path) -> None:
    small, large = (made(computing(us), tmp_path) for us in (100, 400))
    for result in (small, large):
        assert [one.rule for one in result.findings] == ["gradient/zeroing-memset"]
        assert result.headline is not None
        assert "the GPU computes, most in lattice_update (10 ms)." in result.headline.text
    # 0.95 % of the step, and 3.7.
    assert first(small) == ""
    assert first(large) == "drop the gradients (set_to_none=True) instead of zeroing them."


def benchmark(*, flush: str = "[param|clear_cache]", run: str = "[param|op|0|0|0|measure|forward]") -> TraceBuilder:
    """Four runs of PARAM's kind: 60 ms of a product on the CPU that empties the caches, then 20 ms of the GPU."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.annotation("[param|cuda]"):
        with b.op("lattice_update", us=20_000):
            b.kernel("lattice_update_kernel", us=20_000)
        for _ in range(4):
            with b.annotation("[param|op|0|0|0|measure|forward]"):
                with b.annotation(flush), b.op("aten::mul", us=60_000):
                    pass
                with b.annotation(run), b.op("lattice_update", us=20_000):
                    b.kernel("lattice_update_kernel", us=20_000)
    return b


def test_what_a_benchmark_does_beside_its_runs_is_its_own(tmp_path: Path) -> None:
    result = made(benchmark(), tmp_path)
    assert result.findings == []
    assert OFF in result.verdicts.passes
    assert result.headline is not None
    assert (
        "waits for operators on the CPU, most in the benchmark's own [param|clear_cache] (64 ms)"
        in result.headline.text
    )
    assert first(result) == ""


@pytest.mark.parametrize("names", [
    {"flush": "[param|op|0|0|0|measure|forward]"},  # inside a measured run
    {"run": "[param|op|0|0|0]"},  # none is around another of its name
    {"flush": "prepare", "run": "forward"},
])  # fmt: skip
def test_what_it_measures_is_the_programs(names: dict[str, str], tmp_path: Path) -> None:
    result = made(benchmark(**names), tmp_path)
    assert result.findings[0].rule == OFF
    assert first(result).startswith("make the tensor on the GPU")


@pytest.mark.real
def test_without_the_host_it_is_to_be_recorded() -> None:
    """Four kernels, 0.03 ms, and 0.2 ms of idle around them."""
    assert first(real_analysis("gpu_events_without_host")) == "record the CPU too."
