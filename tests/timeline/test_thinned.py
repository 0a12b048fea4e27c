"""Time of which events were taken out of the file, by the numbers that the profiler gives them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from advisor.testing import TraceBuilder
from advisor.timeline.context import Context
from advisor.trace import Trace, read


def filtered(tmp_path: Path, missing: int, *, steps: int = 4, **features: bool) -> Trace:
    """Steps of 1,000 us: an operator of 100, 700 in which *missing* events are gone, an operator of 100, 100 of idling."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=0, latency_us=0, **features)
    for _ in range(steps):
        with b.step(us=1_000):
            with b.op("aten::mm", us=100):
                b.kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", us=50)
            b.taken_out(missing)
            b.idle(us=700)
            with b.op("aten::mm", us=100):
                b.kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", us=50)
    return read(str(b.write(tmp_path / "trace.json")))


def context_of(trace: Trace) -> Context:
    return trace.context


def test_the_time_between_the_operators_around_what_is_missing(tmp_path: Path) -> None:
    """From the start of one operator to that of the next: 800 us a step."""
    spans = context_of(filtered(tmp_path, 1_000)).taken_out
    assert (spans.end - spans.start).tolist() == [800_000] * 4


def test_idle_time_there_is_unknown_and_no_busy_share_is_claimed(tmp_path: Path) -> None:
    trace = filtered(tmp_path, 1_000)
    row = trace.frame("trace").iloc[0]
    assert row["thinned"]
    assert not row["idle_trusted"]
    assert pd.isna(row["busy_share"])
    gaps = trace.frame("gaps")
    within = gaps[gaps["dur_ns"] > 500_000]
    assert set(within["cause"].astype(str)) == {"unknown"}


@pytest.mark.parametrize("missing", [0, 100])
def test_a_few_missing_events_are_nothing(tmp_path: Path, missing: int) -> None:
    assert context_of(filtered(tmp_path, missing)).taken_out.length == 0


def test_python_calls_and_memory_events_are_not_missing(tmp_path: Path) -> None:
    """Their numbers are not read: 300 frames and allocations between two operators are there all the same."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=0, with_stack=True, profile_memory=True)
    b.taken_out(1_000_000)
    for _ in range(3):
        with b.step():
            with b.op("aten::mm", us=100):
                b.kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", us=50)
            for number in range(150):
                with b.python(f"train.py({number + 1}): prepare"):
                    b.idle(us=1)
                    b.memory(512)
            with b.op("aten::mm", us=100):
                b.kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", us=50)
    assert context_of(read(str(b.write(tmp_path / "trace.json")))).taken_out.length == 0
