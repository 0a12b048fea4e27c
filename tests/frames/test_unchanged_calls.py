"""Operators below lines that do in each step the same: rows of all that such a line calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.testing import TraceBuilder

LINE = {"work": "same", "calls": 2, "share": 0.5, "file": "run.py", "line": 14}


def rows(tmp_path: Path, *found: dict[str, Any]) -> list[tuple[str, int, str, float]]:
    b = TraceBuilder(None, host_us=0).ran_with(unchanged=list(found))
    with b.step():
        for line in (14, 15):
            args = {"Call stack": f"run.py(3): forward;run.py({line}): classify;run.py(7): main"}
            with b.op("aten::addmm", us=40, args=args), b.op("aten::copy_", us=20):
                pass
    frame = advisor.read(b.write(tmp_path / "trace.json")).frame("unchanged_calls")
    return list(zip(frame["name"], frame["line"].astype(int), frame["work"], frame["unchanged_share"], strict=True))


def test_what_a_line_calls_is_told_of_by_that_line(tmp_path: Path) -> None:
    assert rows(tmp_path, LINE) == [("aten::addmm", 14, "same", 0.5), ("aten::copy_", 14, "same", 0.5)]


def test_the_innermost_line_alone(tmp_path: Path) -> None:
    names = [name for name, line, _, _ in rows(tmp_path, LINE | {"line": 3, "work": "samples"}) if line == 3]
    assert names == ["aten::addmm", "aten::copy_"] * 2


@pytest.mark.parametrize("found", [{"share": 0}, {"share": 2}, {"calls": 0}, {"file": 3}, {"work": "all"}])
def test_entries_that_no_recorder_writes(found: dict[str, Any], tmp_path: Path) -> None:
    assert rows(tmp_path, LINE | found) == []
