"""Figures of a step where the host runs ahead of the device: what it asked for in a step is that step's."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.testing import TraceBuilder


@pytest.fixture
def ahead(tmp_path: Path) -> advisor.Trace:
    """Four steps in which the host launches a copy and a kernel of 10 ms and goes on; 8 MB are allocated in the second."""
    made = TraceBuilder()
    for number in range(4):
        with made.step():
            if number == 0:
                made.memory(64_000_000)
            if number == 1:
                made.memory(8_000_000)
                made.memory(-8_000_000)
            made.copy("HtoD", 5_000_000, 300, pinned=True)
            with made.op("aten::mm"):
                made.kernel("gemm", 10_000)
    return advisor.read(str(made.write(tmp_path / "ahead.json")))


def test_a_copy_is_of_the_step_that_launched_it(ahead: advisor.Trace) -> None:
    copies = ahead.frame("copies")
    assert copies["launched_step"].tolist() == [0, 1, 2, 3]
    analysis = advisor.analyze(ahead, samples=True)
    assert analysis.samples is not None
    assert analysis.samples.metrics["copied_mb"] == [5.0, 5.0, 5.0]  # of the three after the first


def test_memory_is_of_the_step_that_allocated_it_and_stays(ahead: advisor.Trace) -> None:
    analysis = advisor.analyze(ahead, samples=True)
    assert analysis.samples is not None
    assert analysis.samples.metrics["peak_memory_mb"] == [72.0, 64.0, 64.0]
