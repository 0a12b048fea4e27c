"""Operators below lines that compute again what the step has computed: rows of all that such a line calls, and of its gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.testing import TraceBuilder

LINE = {"calls": 2, "share": 0.5, "backward": 0.25, "file": "run.py", "line": 14}


def rows(tmp_path: Path, *found: dict[str, Any], device: str | None = None) -> list[tuple[str, int, float]]:
    b = TraceBuilder(device, host_us=0).ran_with(again=list(found))
    with b.step():
        for seq, line in enumerate((14, 15)):
            args = {"Call stack": f"run.py(3): propagate;run.py({line}): scores;run.py(7): main"}
            with b.op("aten::addmm", us=40, seq=seq, args=args):
                pass
        with b.backward("AddmmBackward0", 0), b.op("aten::mm", us=60):
            pass
        if device:
            b.kernel("sgemm", us=5)
            b.sync()
    frame = advisor.read(b.write(tmp_path / "trace.json")).frame("repeated_operators")
    return list(zip(frame["name"], frame["line"].astype(int), frame["repeated_share"], strict=True))


def test_what_a_line_calls_and_its_backward_pass_have_shares_of_their_own(tmp_path: Path) -> None:
    found = rows(tmp_path, LINE)
    assert found[0] == ("aten::addmm", 14, 0.5)
    assert found[-1] == ("aten::mm", 14, 0.25)
    assert {line for _, line, _ in found} == {14}


def test_no_rows_beside_a_gpu(tmp_path: Path) -> None:
    assert rows(tmp_path, LINE, device="Tesla V100-SXM2-16GB") == []


def test_of_a_line_only_what_a_path_leads_to(tmp_path: Path) -> None:
    under = [{"file": "run.py", "line": 15}]
    found = rows(tmp_path, LINE | {"line": 3, "under": under, "earlier": 14})
    assert found == [("aten::addmm", 3, 0.5)]


def test_each_operator_is_of_the_first_entry_that_leads_to_it(tmp_path: Path) -> None:
    """Beside line 14 line 3 has what other lines lead to."""
    found = rows(tmp_path, LINE, LINE | {"line": 3, "share": 0.75})
    assert [(line, share) for _, line, share in found if share > 0.3] == [(14, 0.5), (3, 0.75)]


def test_lines_that_lead_there(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0).ran_with(
        again=[LINE | {"line": 3, "under": [{"file": "run.py", "line": 15}], "earlier": 14}]
    )
    with b.step(), b.op("aten::mm", us=40, args={"Call stack": "run.py(3): propagate;run.py(15): scores"}):
        pass
    frame = advisor.read(b.write(tmp_path / "trace.json")).frame("repeated_operators")
    assert frame[["line", "from_line", "earlier_line", "function"]].to_numpy().tolist() == [[3, 15, 14, "propagate"]]


@pytest.mark.parametrize(
    "found",
    [{"under": [{"line": 3}]}, {"under": 3}, {"share": 0}, {"share": 2}, {"calls": 0}, {"file": 3}, {"backward": 3}],
)
def test_entries_that_no_recorder_writes(found: dict[str, Any], tmp_path: Path) -> None:
    assert rows(tmp_path, LINE | found) == []
