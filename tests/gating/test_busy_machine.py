"""A recording from a machine whose cores other programs took: neither gate nor comparison has an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.gating import baseline as baselines
from advisor.gating.judge import judge
from advisor.testing import TraceBuilder
from advisor.trace import read

IDLE = {"threads": 2, "cores": 2, "waited_share": 0.001, "others_cores": 0.02}
BUSY = IDLE | {"waited_share": 0.4, "others_cores": 1.6}


def analysis(folder: Path, us: float, load: dict[str, float]) -> advisor.Analysis:
    b = TraceBuilder(None, host_us=0).ran_with(**load)
    for number in range(12):
        with b.step(), b.op("aten::mkldnn_convolution", us=us + number % 3):
            pass
    return advisor.analyze(read(b.write(folder / f"{us}.json")), samples=True)


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [(IDLE, IDLE, "failed"), (BUSY, IDLE, "inconclusive"), (IDLE, BUSY, "inconclusive"), (BUSY, BUSY, "inconclusive")],
)
def test_a_step_of_twice_the_length(
    before: dict[str, float], now: dict[str, float], verdict: str, tmp_path: Path
) -> None:
    base = baselines.make([analysis(tmp_path, 5000, before)])
    found = judge([analysis(tmp_path, 10_000, now)], base)
    assert found.verdict == verdict
    assert ("the machine was busy while" in found.headline) == (verdict == "inconclusive")


def test_steps_alike_on_a_busy_machine_are_no_pass(tmp_path: Path) -> None:
    base = baselines.make([analysis(tmp_path, 5000, IDLE)])
    assert judge([analysis(tmp_path, 5000, IDLE)], base).verdict == "passed"
    assert judge([analysis(tmp_path, 5000, BUSY)], base).verdict == "inconclusive"


def test_one_of_two_runs_on_a_busy_machine_is_enough(tmp_path: Path) -> None:
    base = baselines.make([analysis(tmp_path, 5000, IDLE)])
    runs = [analysis(tmp_path, 5000, IDLE), analysis(tmp_path, 5000, BUSY)]
    assert judge(runs, base).verdict == "inconclusive"
