"""A program on the CPU run again: one thread sets its pace, so a fix returns what its rows no longer take."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import advisor
from advisor import rulebook
from advisor.results.analysis import Analysis, Saving
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

LOADER, HOT, DOUBLE = "cpu/loader-wait", "cpu/hot-operator", "cpu/float64"


def training(wait_us: float = 6_000, steps: int = 4) -> TraceBuilder:
    """Steps of 10 ms: a wait for the loader, and one operator for the rest."""
    b = TraceBuilder(None)
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us):
                pass
            with b.op("aten::mkldnn_convolution", shapes=[[8, 64, 56, 56]], dtypes=["float"], us=10_000 - wait_us):
                pass
    return b


def built(b: TraceBuilder) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        return read(str(b.write(Path(folder) / "t.json")))


def analyze(b: TraceBuilder, **options: object) -> Analysis:
    book = rulebook.load([rulebook.builtin_rules_dir()])
    return advisor.analyze(built(b), book, **options)  # type: ignore[arg-type]


def saving(analysis: Analysis, rule: str) -> Saving:
    (found,) = [finding.saving for finding in analysis.findings if finding.rule == rule]
    assert found is not None
    return found


def test_the_plan_goes_down_by_what_each_fix_returns_and_says_what_sets_the_pace_then() -> None:
    analysis = analyze(training())
    # The wait: 6 ms of 10, of which 0 to 90 % go. What is left is 0.6 ms of it and 4 ms of the convolution.
    first = analysis.plan[0]
    assert (first.rules, first.step_ms_before) == ([LOADER], pytest.approx(10.0))
    assert first.step_ms_after == {"low": pytest.approx(4.6), "high": pytest.approx(10.0)}
    assert first.speedup == pytest.approx(10 / 4.6)
    assert first.bound_by == "operators"
    for before, after in zip(analysis.plan, analysis.plan[1:], strict=False):
        assert after.step_ms_before == pytest.approx(before.step_ms_after["low"])


def test_a_loader_that_still_waits_most_sets_the_pace_on() -> None:
    # 9.8 ms of wait leave 0.98 ms of it, and 0.2 ms of the convolution.
    assert analyze(training(9_800)).plan[0].bound_by == "loader"


def test_the_basis_says_that_it_is_a_replay_and_how() -> None:
    assert saving(analyze(training()), LOADER).basis.startswith("replay: one thread limits the step")


def test_fixes_of_the_same_time_take_it_once() -> None:
    analysis = analyze(training(), what_if=[LOADER, HOT])
    assert {HOT, LOADER} <= {finding.rule for finding in analysis.findings}
    assert analysis.what_if is not None
    both = saving(analysis, LOADER).high_ms + saving(analysis, HOT).high_ms
    assert analysis.what_if.step_ms_after["low"] == pytest.approx(10 - both)
    assert both < 10


def test_what_if_in_python_gives_the_main_thread_as_it_would_run() -> None:
    trace = built(training())
    step, timeline = advisor.what_if(trace, [LOADER])
    assert step.step_ms_after == {"low": pytest.approx(4.6), "high": pytest.approx(10.0)}
    assert set(timeline["name"]) == {"loader", "compute"}
    waits = timeline[timeline["name"] == "loader"]
    assert waits["dur_ns"].tolist() == [600_000] * 4
    assert waits["recorded_dur_ns"].tolist() == [6_000_000] * 4
    # One stretch begins where the one before it ends.
    ends = (timeline["start_ns"] + timeline["dur_ns"]).tolist()
    assert timeline["start_ns"].tolist()[1:] == ends[:-1]
