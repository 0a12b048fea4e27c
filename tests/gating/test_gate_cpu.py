"""The gate on programs on the CPU: where every operator takes longer alike, one run a side proves no regression of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.results.analysis import Analysis
from advisor.results.judgement import Check, Judgement
from advisor.testing import TraceBuilder

HOT = "cpu/hot-operator"
OPERATORS = {"aten::mm": 4000, "aten::native_batch_norm": 2000, "aten::relu": 1000, "aten::sum": 800, "aten::exp": 600}
"""µs of each operator in a step; mm takes half of it."""
JITTER = (0, 9, 3, 12, 6, 1, 10, 4, 7, 2, 11, 5)
_folder = Path()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    global _folder
    _folder = tmp_path


def run(factor: float = 1.0, *, shift: int = 0, calls: int = 1, **own: float) -> Analysis:
    """Steps whose operators all take *factor* times as long, or a factor of their *own*; relu is called so many times."""
    made = TraceBuilder(None)
    for step in range(12):
        with made.step():
            for name, us in OPERATORS.items():
                short = name.removeprefix("aten::")
                each = us * own.get(short, factor) + JITTER[(step + shift) % 12]
                for _ in range(calls if short == "relu" else 1):
                    with made.op(name, shapes=[[64, 512], [512, 512]], dtypes=["float"] * 2, us=each):
                        pass
    path = made.write(_folder / f"{factor}{shift}{calls}{len(own)}.json")
    return advisor.analyze(advisor.read(str(path)), views=False, samples=True)


def judge(base: list[Analysis], now: list[Analysis]) -> Judgement:
    return gating.judge(now, baseline.make(base), baseline_name="b.json")


def named(judgement: Judgement, name: str) -> Check:
    return next(check for check in judgement.checks if check.name == name)


def test_all_operators_take_longer_alike_in_one_run_a_side_which_is_inconclusive() -> None:
    """By 1.3 to 1.5: mm, which the finding is of, by 1.45."""
    now = run(1.3, mm=1.45, relu=1.4, exp=1.5)
    found = judge([run()], [now])
    assert found.verdict == "inconclusive"
    for name in (HOT, "step_ms"):
        assert named(found, name).outcome == "inconclusive"
        assert "take 1.4 times as long everywhere" in named(found, name).message


def test_it_does_not_pass_either() -> None:
    assert judge([run()], [run(2.0)]).verdict == "inconclusive"


def test_one_operator_that_takes_longer_is_a_regression() -> None:
    found = judge([run()], [run(mm=1.45)])
    assert found.verdict == "failed"
    assert named(found, HOT).outcome == "regression"


def test_one_operator_that_takes_far_longer_than_the_rest_is_a_regression() -> None:
    found = judge([run()], [run(1.1, mm=1.6)])
    assert (found.verdict, named(found, HOT).outcome) == ("failed", "regression")


def test_more_calls_on_a_busy_machine_are_a_regression() -> None:
    found = judge([run()], [run(1.3, calls=150)])
    assert (found.verdict, named(found, "operator_count").outcome) == ("failed", "regression")
    assert named(found, HOT).outcome == "regression"


def test_several_runs_that_all_take_longer_are_a_regression() -> None:
    before, after = ([run(factor, shift=shift) for shift in range(3)] for factor in (1.0, 1.4))
    assert judge(before, after).verdict == "failed"


def test_two_runs_of_one_program_pass() -> None:
    assert judge([run()], [run(shift=5)]).verdict == "passed"
