"""Operators of a program on the CPU, and what they run inside."""

from __future__ import annotations

import pytest
from support.reading import trace_of

from advisor.testing import TraceBuilder


def test_an_operator_runs_inside_the_one_that_python_called() -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        with b.op("aten::unique_dim"), b.op("aten::equal", us=5), b.op("aten::eq", us=3):
            pass
        with b.op("aten::mm", us=5):
            pass
    calls = trace_of(b.to_json()).operator_calls
    assert list(calls["name"]) == ["aten::unique_dim", "aten::equal", "aten::eq", "aten::mm"]
    assert list(calls["around"]) == ["aten::unique_dim"] * 3 + ["aten::mm"]


@pytest.mark.parametrize(("views", "flagged"), [(1000, 1001), (999, 0)])
def test_an_unbind_into_very_many_views_is_a_loop_over_elements(views: int, flagged: int) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step(), b.op("aten::unbind", us=5):
        for _ in range(views):
            with b.op("aten::select", us=1):
                pass
    with b.step(), b.op("aten::mm", us=100):
        pass
    assert int(trace_of(b.to_json()).operator_calls["unbinds"].sum()) == flagged
