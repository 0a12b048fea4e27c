"""What recording costs a program whose host sets the pace: 2 to 5 us for each operator and call."""

from __future__ import annotations

import pytest
from support.reading import trace_of

from advisor.testing import TraceBuilder
from advisor.timeline.recorded_calls import recording_ns


def program(*, kernel_us: float = 2, stacks: bool = False) -> TraceBuilder:
    """Three steps of a hundred operators of 20 us, each with a launch and a kernel."""
    b = TraceBuilder(host_us=5)
    for _ in range(3):
        with b.step():
            for _ in range(100):
                if stacks:
                    with b.python("train.py(3): step"), b.op("aten::add", us=20):
                        b.kernel("add", us=kernel_us)
                else:
                    with b.op("aten::add", us=20):
                        b.kernel("add", us=kernel_us)
            b.sync()
    return b


def test_operators_and_calls_of_a_step_count() -> None:
    """A hundred operators, as many launches and a wait: 201 times 2 and 5 us."""
    found = recording_ns(trace_of(program().to_json()).context)
    assert found is not None
    assert found == pytest.approx((201 * 2000, 201 * 5000), rel=0.02)


def test_where_the_gpu_sets_the_pace_it_costs_nothing() -> None:
    assert recording_ns(trace_of(program(kernel_us=100).to_json()).context) is None


def test_with_stacks_nobody_knows() -> None:
    assert recording_ns(trace_of(program(stacks=True).to_json()).context) is None
