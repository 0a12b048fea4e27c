"""A first step that is unlike the others counts in no figure a step."""

from __future__ import annotations

import pytest
from support.reading import trace_of

import advisor
from advisor.testing import TraceBuilder


def program(*host_ms: float) -> TraceBuilder:
    """Steps of 4 ms on the GPU and some ms of Python."""
    b = TraceBuilder()
    for ms in host_ms:
        with b.step():
            b.idle(ms=ms)
            with b.op("aten::mm", us=10):
                b.kernel("ampere_sgemm_128x64_nn", us=4000)
            b.sync()
    return b


def shares(*host_ms: float) -> tuple[float, float]:
    summary = advisor.analyze(trace_of(program(*host_ms).to_json())).summary
    assert summary.step_ms is not None
    causes = summary.steady_causes
    return summary.step_ms.median, causes["compute"]


@pytest.mark.parametrize("first", [30.0, 0.5, 6.0])
def test_it_shifts_no_share_of_the_others(first: float) -> None:
    """4 of some 10 ms compute in each of the others, whatever the first was."""
    step, compute = shares(first, 6.0, 6.0, 6.0)
    assert step == pytest.approx(10.03, abs=0.05)
    assert compute == pytest.approx(4 / step, rel=0.005)


def test_among_steps_that_differ_it_is_one_of_them() -> None:
    """4 of 14, 6, 6, 26 ms: of the mean, 13 ms."""
    _, compute = shares(10.0, 2.0, 2.0, 22.0)
    assert compute == pytest.approx(4 / 13, rel=0.01)


def test_of_two_steps_both_count() -> None:
    _, compute = shares(12.0, 6.0)
    assert compute == pytest.approx(8 / 26, rel=0.01)
