"""Files written in idle stretches, as the recorder noted it before operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from advisor.testing import TraceBuilder
from advisor.trace import read


def gaps(tmp_path: Path, notes: list[str], us: int = 1000) -> Any:
    """Stretches of 1 ms behind an operator of 1 ms, in steps; before the operator of each step but the first its note."""
    b = TraceBuilder(None, host_us=0)
    for at, text in enumerate(["", *notes]):
        with b.step():
            place = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4000, "tid": 4000}
            stack = {"Call stack": "train.py(20): train"}
            b.event(place | {"args": stack | ({"Written before": text} if at and text else {})}, us=us)
            b.idle(us=us)
            b.idle(us=us)
    found = read(str(b.write(tmp_path / "trace.json"))).frame("gaps")
    return found[found["dur_ns"] > 100_000].sort_values("start_ns")


SAVE = "0.800 of 1000000 ns in torch.save;site-packages/torch/serialization.py(944): save;train.py(30): keep"


def test_a_note_counts_in_its_part_and_has_its_line(tmp_path: Path) -> None:
    found = gaps(tmp_path, [SAVE])
    assert found["written_ns"].tolist()[:1] == [800_000]
    assert (found["file"].astype(str) + ":" + found["line"].astype(str)).tolist()[:1] == ["train.py:30"]
    assert found["written_by"].astype(str).tolist()[:1] == ["torch.save"]


def test_the_last_step_ends_as_all_before_it(tmp_path: Path) -> None:
    assert gaps(tmp_path, [SAVE, SAVE, SAVE])["written_ns"].tolist() == [800_000] * 4


def test_the_last_step_is_nobodys_where_one_before_it_ends_otherwise(tmp_path: Path) -> None:
    assert gaps(tmp_path, [SAVE, "", SAVE])["written_ns"].tolist() == [800_000, 0, 800_000, 0]


def test_less_than_half_is_not_the_calls_place(tmp_path: Path) -> None:
    found = gaps(tmp_path, [SAVE.replace("0.8", "0.4")])
    assert found["written_ns"].tolist()[:1] == [400_000]
    assert found["line"].tolist()[:1] == [20]


def test_nothing_is_known_without_notes_and_with_what_is_none(tmp_path: Path) -> None:
    assert gaps(tmp_path, ["", ""])["written_ns"].isna().all()
    assert gaps(tmp_path, ["torch.save;train.py(30): keep"])["written_ns"].isna().all()
