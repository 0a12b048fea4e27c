"""Decompositions that a step need not compute: what goes with the fix, by columns, gradient and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.frames.factorizations import spared
from advisor.reading.program_settings import Factor
from advisor.testing import TraceBuilder


@pytest.mark.parametrize(
    ("again", "columns", "gradient", "part"),
    [
        (1, 1, True, 0.8),
        (1, 80, False, 0.8),
        (1, 81, True, 0.5),
        (1, 320, False, 0.5),
        (1, 321, False, 0.0),
        (2, 321, False, 0.8),
        (2, 0, False, 0.8),
        (2, 0, True, 0.0),
        (1, 0, False, 0.0),
    ],
)
def test_the_part_that_is_spared(again: int, columns: int, gradient: bool, part: float) -> None:
    assert spared(Factor("aten::linalg_inv_ex", 1, 640, again, columns, gradient)) == part


@pytest.mark.parametrize(
    ("size", "again", "columns", "gradient", "part"),
    [
        (640, 1, 1, True, 0.2),
        (2048, 1, 1, True, 0.45),
        (2048, 1, 1025, True, 0.0),
        (640, 2, 0, False, 0.5),
        (640, 2, 0, True, 0.0),
    ],
)
def test_the_part_that_is_spared_on_a_gpu(size: int, again: int, columns: int, gradient: bool, part: float) -> None:
    assert spared(Factor("aten::linalg_inv_ex", 1, size, again, columns, gradient), gpu=True) == part


def test_rows_are_what_the_operator_calls_and_its_backward_pass(tmp_path: Path) -> None:
    entry = {"operator": "aten::linalg_inv_ex", "calls": 1, "size": 640, "columns": 1, "file": "gp.py", "line": 49}
    unknown = [entry | {"size": 0}, entry | {"again": 0}, entry | {"columns": -1}, entry | {"operator": 3}]
    b = TraceBuilder(None, host_us=0).ran_with(factors=[*unknown, entry])
    with b.step():
        args = {"Call stack": "gp.py(49): likelihood;gp.py(7): fit"}
        with (
            b.op("aten::inverse", us=1, args=args),
            b.op("aten::linalg_inv_ex", us=300, seq=0),
            b.op("aten::eye", us=5),
        ):
            pass
        with b.op("aten::mv", us=7, args=args):
            pass
        with b.backward("LinalgInvExBackward0", 0), b.op("aten::matmul", us=600):
            pass
    rows = advisor.read(b.write(tmp_path / "trace.json")).frame("factorizations")
    named = rows["name"][rows["cost_ns"] > 1000]
    assert list(named) == ["aten::linalg_inv_ex", "aten::eye", "aten::matmul"]
    assert set(zip(rows["line"], rows["columns"], rows["again"], rows["gradient"], strict=True)) == {(49, 1, 1, False)}
