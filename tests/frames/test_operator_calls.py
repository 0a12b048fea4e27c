"""Operators of a program on the CPU, and what they run inside."""

from __future__ import annotations

import pytest
from support.reading import trace_of

from advisor.pipeline import analyze
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


def looping(*, collects: str) -> TraceBuilder:
    """Three steps of 300 picks with 2 us of Python before each, and a collection of 5 ms: in the loop, or behind it."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.python("train.py(5): step"):
            with b.python("train.py(8): count"):
                for number in range(300):
                    if collects == "in the loop" and number == 150:
                        b.gc(us=5000)
                    b.idle(us=2)
                    with b.op("aten::select", us=2):
                        pass
            if collects == "behind the loop":
                b.gc(us=5000)
            with b.op("aten::mm", us=100):
                pass
    return b


@pytest.mark.parametrize(("collects", "loop_ns"), [("in the loop", 3 * 6_200_000), ("behind the loop", 3 * 1_200_000)])
def test_a_collection_between_two_turns_is_the_loops(collects: str, loop_ns: int) -> None:
    calls = trace_of(looping(collects=collects).to_json()).operator_calls
    assert int(calls.loc[calls["name"] == "aten::select", "cost_ns"].sum()) == loop_ns


def test_a_collection_that_a_loop_brings_on_is_no_finding_of_its_own() -> None:
    rules = [finding.rule for finding in analyze(trace_of(looping(collects="in the loop").to_json())).findings]
    assert "cpu/element-loop" in rules
    assert "cpu/gc-pause" not in rules
    rules = [finding.rule for finding in analyze(trace_of(looping(collects="behind the loop").to_json())).findings]
    assert "cpu/gc-pause" in rules


def test_python_behind_an_unbind_makes_its_objects() -> None:
    b = TraceBuilder(None, host_us=0)
    for _ in range(2):
        with b.step():
            with b.op("aten::unbind", us=5):
                for _ in range(1000):
                    with b.op("aten::select", us=1):
                        pass
            b.idle(us=900)
            with b.op("aten::mm", us=100):
                pass
            b.idle(us=500)
            with b.op("aten::mm", us=100):
                pass
    calls = trace_of(b.to_json()).operator_calls
    cost = calls.groupby("name")["cost_ns"].sum()
    assert (cost["aten::unbind"] + cost["aten::select"], cost["aten::mm"]) == (2 * 1_900_000, 2 * 200_000)
