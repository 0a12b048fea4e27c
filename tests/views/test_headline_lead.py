"""What a headline says to do first, and does not: what is beside the point, and what a benchmark does around its runs."""

from __future__ import annotations

from contextlib import nullcontext
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
    assert first(real_analysis("gpu_events_without_host")) == "record the CPU too, to see what it waits for."


def allocating(us: int, *, steps: bool = False, kernels: int = 12) -> TraceBuilder:
    """Four rounds of kernels, 12 ms in all, and two allocations, of so many us together, in each."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step() if steps else nullcontext():
            for _ in range(kernels):
                with b.op("lattice_update", us=1):
                    b.kernel("lattice_update_kernel", us=12_000 // kernels)
            b.sync()
            with b.op("aten::empty"):
                b.malloc(1 << 20, us=us // 2)
                b.malloc(1 << 20, us=us // 2)
    return b


def test_without_steps_allocations_that_go_on_want_a_longer_warm_up(tmp_path: Path) -> None:
    # 6 of 18 ms a round, and 2 of 14. With steps a rule speaks of it.
    assert first(made(allocating(6_000), tmp_path)) == "warm up longer, and leave out empty_cache()."
    assert first(made(allocating(2_000), tmp_path)) == ""
    assert first(made(allocating(6_000, steps=True), tmp_path)).startswith("let the caching allocator keep its memory")


@pytest.mark.parametrize(
    ("kernels", "us", "advice"),
    [
        (10, 99, "record more than 10 kernels, too few to judge by."),
        (1, 99, "record more than 1 kernel"),
        (11, 80, ""),
        (10, 101, ""),
    ],
)
def test_a_few_kernels_are_too_few_to_judge_by(kernels: int, us: int, advice: str, tmp_path: Path) -> None:
    # Ten kernels or fewer, of less than a ms together, in 20 ms without an event.
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(kernels):
        with b.op("lattice_update", us=10):
            b.kernel("lattice_update_kernel", us=us)
        b.idle(us=20_000)
    b.sync()
    assert first(made(b, tmp_path)).startswith(advice) if advice else first(made(b, tmp_path)) == ""


def flushing() -> TraceBuilder:
    """A first run that loads code for 3 s; then 40 ms of the benchmark on the CPU and a second run, 30 of 34 ms allocations."""
    b = TraceBuilder(host_us=0, latency_us=0)
    run = "[param|op|0|0|0|measure|forward]"
    with b.annotation("[param|cuda]"):
        for rest in (3_000_000, 0):
            with b.annotation(run):
                with b.annotation("[param|clear_cache]"):
                    with b.op("aten::mul", us=40_000):
                        pass
                    if not rest:
                        b.free(1 << 20, us=10)
                with b.annotation(run):
                    for _ in range(12):
                        with b.op("aten::max_pool2d_with_indices"):
                            b.malloc(1 << 20, us=2_500)
                            b.kernel("max_pool_forward_nchw", us=200, host_us=20 + rest)
                        rest = 0
    return b


def test_a_run_behind_start_up_that_has_its_memory_allocated_again_is_told_so(tmp_path: Path) -> None:
    result = made(flushing(), tmp_path)
    assert result.headline is not None
    assert "are start-up" in result.headline.text
    assert "the GPU waits for allocations" in result.headline.text
    assert first(result) == "leave out empty_cache()."
