"""Slices whose gradients are as large as the tensor: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.testing import TraceBuilder

ENGINE = "autograd::engine::evaluate_function: "
WHOLE, PART = [4, 100], [4, 10]


def rows(builder: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = advisor.read(builder.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"] == "repeated-slicing"].to_dict("records"))


def cut(b: TraceBuilder, name: str, seq: int, *values: int, us: float = 2) -> None:
    """Call an operator that slices; where it is told by no numbers, it is one with a mask."""
    with b.op(name, shapes=[WHOLE, *([] for _ in values)], values=["", *map(str, values)], seq=seq, us=us):
        pass


def back(b: TraceBuilder, node: str, seq: int, *values: int, added: bool = True) -> None:
    """Run the backward of one: zeros for 20 us, its own part for 5, and 10 us to add it."""
    inner = "aten::slice_backward" if values else "aten::index_backward"
    with b.op(ENGINE + node, seq=seq, fwd_thread=1):
        with (
            b.op(node, seq=seq, fwd_thread=1, shapes=[PART]),
            b.op(inner, shapes=[PART], values=["", str(WHOLE), *map(str, values)]),
        ):
            with b.op("aten::zero_", shapes=[WHOLE], us=20):
                pass
            with b.op("aten::copy_", shapes=[PART, PART], us=5):
                pass
        if added:
            with b.op("aten::add_", shapes=[WHOLE, WHOLE], us=10):
                pass


def on_cpu() -> TraceBuilder:
    return TraceBuilder(None, host_us=0)


def slices(b: TraceBuilder, count: int, *, same: bool = False, added: bool = True) -> None:
    for number in range(count):
        cut(b, "aten::slice", number, 1, 0 if same else 10 * number)
    for number in reversed(range(count)):
        back(b, "SliceBackward0", number, 1, 0 if same else 10 * number, added=added or number < count - 1)


def test_slices_own_their_backward_and_themselves(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        slices(b, 5, added=False)
    (row,) = rows(b, tmp_path)
    assert (row["repeats"], row["length"], row["op"]) == (5, 400, "aten::slice")
    # 5 times 20 and 5 us, 4 times 10, and 5 slices of 2.
    assert row["cost_ns"] == 175_000
    # A tenth of each backward is the slice's own: of 165 us it stays.
    assert row["part"] == pytest.approx(1 - 16.5 / 175, abs=1e-6)


def test_the_python_that_leads_to_slices_is_theirs(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        with b.op("aten::relu", us=50):
            pass
        for number in range(3):
            b.idle(us=7)
            cut(b, "aten::slice", number, 1, 10 * number)
        for number in (2, 1, 0):
            back(b, "SliceBackward0", number, 1, 10 * number)
    (row,) = rows(b, tmp_path)
    assert row["idle_ns"] == 21_000
    assert row["cost_ns"] == 21_000 + 3 * 37_000
    trace = advisor.read(tmp_path / "trace.json")
    table = trace.frame("patterns")
    claimed = trace.claims("patterns", np.ones(len(table), np.bool_))
    assert trace.ledger.dur_ns[claimed].sum() == row["cost_ns"]


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_are_none(tmp_path: Path, count: int) -> None:
    b = on_cpu()
    with b.step():
        slices(b, count)
    assert rows(b, tmp_path) == []


def test_the_same_slice_of_many_tensors_is_none(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        slices(b, 12, same=True)
    assert rows(b, tmp_path) == []


def test_gradients_that_are_added_to_none_are_of_tensors_of_their_own(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        for number in range(6):
            cut(b, "aten::slice", number, 1, 10 * number)
        for number in reversed(range(6)):
            back(b, "SliceBackward0", number, 1, 10 * number, added=number % 2 == 0)
    assert rows(b, tmp_path) == []


@pytest.mark.parametrize(("reader", "found"), [("aten::mul", 0), ("aten::index_put_", 1), ("", 1)])
def test_masks_are_of_one_tensor_until_something_else_reads_one(tmp_path: Path, reader: str, found: int) -> None:
    b = on_cpu()
    with b.step():
        for number in range(6):
            cut(b, "aten::index", number)
            if reader:
                with b.op(reader, shapes=[WHOLE, []], us=3):
                    pass
        for number in reversed(range(6)):
            back(b, "IndexBackward0", number)
    table = rows(b, tmp_path)
    assert len(table) == found
    # What a mask picks, it picks in the forward pass in any case.
    assert [row["cost_ns"] for row in table] == [6 * 35_000] * found


@pytest.mark.parametrize(
    ("name", "node", "others", "owned"),
    [
        ("aten::slice", "SliceBackward0", 0, True),
        ("aten::slice", "SliceBackward0", 1, False),  # h * a[:, t]: a recurrence stays a loop
        ("aten::index", "IndexBackward0", 2, True),
        ("aten::index", "IndexBackward0", 3, False),
    ],
)
def test_a_loop_that_slices_is_owned_as_a_whole(tmp_path: Path, name: str, node: str, others: int, owned: bool) -> None:
    b, turns = on_cpu(), 200
    with b.step():
        with b.python("train.py(7): <listcomp>"):
            for number in range(turns):
                cut(b, name, 2 * number, *([1, number] if name == "aten::slice" else []))
                for _ in range(others):
                    with b.op("aten::tanh", shapes=[PART], seq=2 * number + 1, us=3):
                        pass
        with b.python("train.py(7): forward"), b.op("aten::stack", us=30):
            pass
        for number in reversed(range(turns)):
            if others:
                with b.backward("TanhBackward0", 2 * number + 1), b.op("aten::tanh_backward", us=4):
                    pass
            back(b, node, 2 * number, *([1, number] if name == "aten::slice" else []))
    (row,) = rows(b, tmp_path)
    # Of each turn 35 us backward; the whole loop is also its operators, their backward and what stacks.
    alone, whole = 2 * (name == "aten::slice"), 2 + others * 3 + bool(others) * 4
    assert row["cost_ns"] == 1000 * (turns * (35 + (whole if owned else alone)) + 30 * owned)


def test_kernels_of_the_backward_are_owned_on_a_gpu(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        for number in range(4):
            cut(b, "aten::select", number, 0, number, us=5)
        for number in reversed(range(4)):
            with b.op(ENGINE + "SelectBackward0", seq=number, fwd_thread=1):
                with b.op("SelectBackward0", seq=number, fwd_thread=1, shapes=[[100]]):
                    with b.op("aten::zero_", shapes=[WHOLE]):
                        b.kernel("fill", us=20)
                    with b.op("aten::copy_", shapes=[[100], [100]]):
                        b.kernel("copy", us=8)
                if number < 3:
                    with b.op("aten::add_", shapes=[WHOLE, WHOLE]):
                        b.kernel("add", us=30)
        b.sync()
    (row,) = rows(b, tmp_path)
    assert (row["repeats"], row["own_count"], row["own_ns"], row["backward_ns"]) == (4, 11, 202_000, 202_000)
    assert row["part"] == 0.75


def test_what_a_line_writes_by_the_same_masks_is_owned_as_well(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        with b.python("train.py(7): forward"):
            for number in range(4):
                cut(b, "aten::index", 2 * number)
                cut(b, "aten::index_put_", 2 * number + 1)
        for number in reversed(range(4)):
            with b.backward("IndexPutBackward0", 2 * number + 1), b.op("aten::clone", us=50):
                pass
            back(b, "IndexBackward0", 2 * number)
    (row,) = rows(b, tmp_path)
    assert (row["repeats"], row["cost_ns"]) == (4, 4 * 85_000)
    assert row["part"] == pytest.approx(0.9, abs=1e-6)
