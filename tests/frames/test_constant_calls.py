"""Operators that compute the same in every step: rows of the lines that were seen, and of what runs inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.testing import TraceBuilder

LINE = {"calls": 2, "share": 0.5, "file": "bank.py", "line": 14}


def rows(tmp_path: Path, *found: dict[str, Any]) -> list[tuple[str, int, float]]:
    b = TraceBuilder(None, host_us=0).ran_with(constants=list(found))
    with b.step():
        for line in (14, 15):
            args = {"Call stack": f"bank.py({line}): window;bank.py(7): main"}
            with b.op("aten::to", us=5, args=args), b.op("aten::_to_copy", us=10), b.op("aten::copy_", us=20):
                pass
            with b.op("aten::cos", us=40, seq=line, args=args):
                pass
        with b.backward("CosBackward0", 14), b.op("aten::sin", us=30):
            pass
    frame = advisor.read(b.write(tmp_path / "trace.json")).frame("constant_calls")
    return list(zip(frame["name"], frame["line"].astype(int), frame["constant_share"], strict=True))


def test_a_whole_line_without_its_backward_pass(tmp_path: Path) -> None:
    names = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::cos")
    assert rows(tmp_path, LINE) == [(name, 14, 0.5) for name in names]


def test_an_operator_of_a_line_and_what_it_calls(tmp_path: Path) -> None:
    found = rows(tmp_path, LINE | {"operator": "aten::_to_copy", "line": 15, "share": 1.0})
    assert found == [("aten::_to_copy", 15, 1.0), ("aten::copy_", 15, 1.0)]


@pytest.mark.parametrize("found", [{"share": 0}, {"share": 2}, {"calls": 0}, {"file": 3}])
def test_entries_that_no_recorder_writes(found: dict[str, Any], tmp_path: Path) -> None:
    assert rows(tmp_path, LINE | found) == []
