"""Memory of recordings whose allocations and frees bear no totals, as torch wrote them in 2021. Worked by hand."""

from __future__ import annotations

import json

from support.reading import trace_of
from support.traces import analysis as real

import advisor
from advisor.report import Options, figures, render
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

MIB = 1 << 20


def recorded(*sizes: int, totals: bool = False) -> Analysis:
    """A kernel behind allocations and frees of so many MiB."""
    b = TraceBuilder()
    with b.step():
        for size in sizes:
            b.memory(size * MIB)
        b.memory(900 * MIB, device=-1)
        with b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    content = json.loads(b.to_json())
    for event in content["traceEvents"]:
        if event.get("name") == "[memory]" and not totals:
            del event["args"]["Total Allocated"], event["args"]["Total Reserved"]
    return advisor.analyze(trace_of(json.dumps(content).encode()), views=False)


def test_the_peak_above_the_start_is_the_largest_sum() -> None:
    # 100, 150, 30, 90: what the host allocates is no part of it.
    made = recorded(100, 50, -120, 60)
    assert made.summary.peak_memory_bytes is None
    assert made.summary.peak_above_start_bytes == 150 * MIB
    assert figures.memory(made.summary) == "150.0 MiB above the recording's start (no totals recorded)"
    text = render("text", made, Options(verbosity=1)).decode()
    assert "not recorded        peak memory" not in text
    assert "memory without totals" in text


def test_what_was_allocated_before_and_is_freed_is_no_peak() -> None:
    assert recorded(-200, 50).summary.peak_above_start_bytes == 0


def test_totals_say_it_themselves() -> None:
    summary = recorded(100, 50, -120, 60, totals=True).summary
    assert (summary.peak_memory_bytes, summary.peak_above_start_bytes) == (150 * MIB, None)


def test_a_real_recording_of_2021() -> None:
    """By the raw file 8,280 events of the GPU, whose sizes add up to 2,662.2 MiB at most, and to nothing at the end."""
    summary = real("v100_resnet50_workers4").summary
    assert summary.peak_above_start_bytes is not None
    assert round(summary.peak_above_start_bytes / MIB) == 2662
