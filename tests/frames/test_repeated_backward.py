"""Backward passes that run a graph again: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.frames.patterns.passes import _cut_again
from advisor.testing import TraceBuilder

WEIGHT = [64, 64]
STORE = "torch::autograd::AccumulateGrad"


def rows(builder: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = advisor.read(builder.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"] == "repeated-backward"].to_dict("records"))


def forward(b: TraceBuilder, *numbers: int) -> None:
    for number in numbers:
        with b.op("aten::mm", shapes=[WEIGHT, WEIGHT], seq=number, us=10):
            pass


def ran(
    b: TraceBuilder, *numbers: int, made_by: str = "aten::ones_like", stores: str | None = None, thread: int = 1
) -> None:
    """Run a pass of 100 us for each node behind an operator; *stores* is what the last does with its gradient: new or added."""
    if made_by:
        with b.op(made_by, shapes=[[]], us=1):
            pass
    for number in numbers:
        with (
            b.op("autograd::engine::evaluate_function: MmBackward0", seq=number, fwd_thread=thread, us=100),
            b.op("MmBackward0", seq=number, fwd_thread=thread, us=99),
        ):
            pass
    if stores:
        with b.op(f"autograd::engine::evaluate_function: {STORE}", us=10), b.op(STORE, shapes=[WEIGHT], us=9):
            if stores == "added":
                with b.op("aten::add_", shapes=[WEIGHT, WEIGHT, []], us=5):
                    pass


def test_gradients_that_are_added_up_are_of_one_sum(tmp_path: Path) -> None:
    """Two nodes of 100 us are run again, and a gradient is added for 10."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        forward(b, 1, 2, 3, 4)
        ran(b, 3, 2, 1, stores="new")
        ran(b, 4, 2, 1, stores="added")
    (row,) = rows(b, tmp_path)
    found = {key: row[key] for key in ("detail", "repeats", "length", "cost_ns")}
    assert found == {"detail": "summed", "repeats": 2, "length": 3, "cost_ns": 210_000}


def test_passes_from_one_output_and_from_others(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        forward(b, 1, 2, 3, 4)
        ran(b, 3, 2, 1)
        ran(b, 4, 2, 1)
        ran(b, 3, 2, 1)
    found = [(row["detail"], row["length"], row["cost_ns"]) for row in rows(b, tmp_path)]
    assert found == [("rows", 2, 200_000), ("same", 3, 300_000)]


def test_of_two_the_one_that_stores_nothing_is_spared(tmp_path: Path) -> None:
    """The second computes the gradients of weights as well."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        forward(b, 1, 2, 3)
        ran(b, 3, 2)
        ran(b, 3, 2, 1, stores="new")
    (row,) = rows(b, tmp_path)
    assert (row["detail"], row["length"], row["cost_ns"]) == ("same", 2, 200_000)


@pytest.mark.parametrize("thread", [1, 2])
def test_threads_number_for_themselves(thread: int, tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        forward(b, 1, 2)
        ran(b, 2, 1)
        ran(b, 2, 1, thread=thread)
    assert len(rows(b, tmp_path)) == (1 if thread == 1 else 0)


def test_each_node_once_is_no_repetition(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        forward(b, 1, 2, 3, 4)
        ran(b, 4, 3, stores="new")
        ran(b, 2, 1, stores="added")
    assert rows(b, tmp_path) == []


def test_passes_with_no_operator_between_part_where_numbers_rise() -> None:
    """4 2 1 and 3 2 1: the second begins at 3, though 2 is what comes again."""
    key = np.array([4, 2, 1, 3, 2, 1])
    cut = np.array([True, False, False, False, False, False])
    _cut_again(key, cut)
    assert np.flatnonzero(cut).tolist() == [0, 3]
