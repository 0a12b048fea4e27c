"""Prefixes that go through a model one by one: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.testing import TraceBuilder

BATCH, LENGTH, WIDTH = 2, 16, 8
Op = tuple[str, list[Any], list[str]]
"""An operator, its operands' shapes and its values, where ``T`` stands for the length of the prefix."""
SLICE: Op = ("aten::slice", [[BATCH, LENGTH, WIDTH], [], [], []], ["", "1", "0", "T", "1"])
LAYER: Op = ("aten::linear", [[BATCH, "T", WIDTH], [WIDTH, WIDTH], []], [])
GRU: Op = (
    "aten::gru",
    [[BATCH, "T", WIDTH], [1, BATCH, WIDTH], [24, 8], [24, 8]],
    ["", "", "", "True", "1", "0.", "True", "False", "True"],
)
LAST: Op = ("aten::select", [[BATCH, "T", WIDTH], [], []], ["", "1", "-1"])
HEAD: Op = ("aten::linear", [[BATCH, WIDTH], [3, WIDTH], []], [])
TURN = [SLICE, GRU, LAST, HEAD]


def with_length(values: list[Any], t: int) -> list[Any]:
    return [with_length(value, t) if isinstance(value, list) else t if value == "T" else value for value in values]


def rows(
    turn: list[Op], tmp_path: Path, *, turns: int = 8, first: int = 1, by: int = 1, behind: int = 0, idle: float = 3
) -> list[dict[str, Any]]:
    """Rows of a step of turns: operators of 10 us, but the recurrent layer, which takes 10 us a position; as long backward."""
    b = TraceBuilder(None, host_us=0)
    lengths = [first + by * number for number in range(turns)]
    with b.step():
        with b.op("aten::mkldnn_convolution", us=50):
            pass
        for number, t in enumerate(lengths):
            b.idle(us=idle)
            for place, (name, shapes, values) in enumerate(turn):
                texts = [str(text) for text in with_length(values, t)]
                us = 10 * t if name == "aten::gru" else 10
                outer = b.op(name, shapes=with_length(shapes, t), values=texts or None, seq=100 * number + place)
                with outer, b.op("aten::addmm", us=us):
                    pass
        for _ in range(behind):
            with b.op("aten::relu", us=5):
                pass
        for number, t in reversed(list(enumerate(lengths))):
            for place in reversed(range(len(turn))):
                us = 10 * t if turn[place][0] == "aten::gru" else 10
                with b.backward("SomeBackward0", 100 * number + place), b.op("aten::mm", us=us):
                    pass
    table = advisor.read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return [dict(row) for _, row in table[table["kind"] == "growing-prefix"].iterrows()]


def test_prefixes_own_their_turns_and_their_backward(tmp_path: Path) -> None:
    (row,) = rows(TURN, tmp_path, behind=3)
    assert (row["op"], row["detail"], row["repeats"], row["length"]) == ("aten::slice", "recurrent", 8, 8)
    # Eight turns of 3 x 10 us and 36 positions of 10 us, as long backward, and 3 us of Python before each turn.
    assert (row["cost_ns"], row["idle_ns"]) == (2 * (240_000 + 360_000) + 24_000, 24_000)
    # What is called once keeps the mean of its last two turns, scaled from 7.5 to 8 positions: of the layer 80 of 360 us, of slice
    # and select 10.67 of 80, and as much of the Python before a slice. The head is small, and 70 % of it goes.
    once = 10 * 8 / 7.5
    kept = 2 * (80 + 2 * once + 0.3 * 80) + 24 * once / 80
    assert row["part"] == pytest.approx(1 - kept / 1224, abs=1e-4)
    trace = advisor.read(str(tmp_path / "trace.json"))
    table = trace.frame("patterns")
    claimed = trace.claims("patterns", (table["kind"] == "growing-prefix").to_numpy(np.bool_))
    assert trace.ledger.dur_ns[claimed].sum() == row["cost_ns"]


def test_prefixes_may_grow_by_more_than_one_and_begin_late(tmp_path: Path) -> None:
    (row,) = rows(TURN, tmp_path, first=2, by=2)
    assert (row["repeats"], row["length"]) == (8, 16)


@pytest.mark.parametrize(
    ("turn", "found"),
    [
        pytest.param([SLICE, LAYER, LAST, HEAD], ["layers"], id="layers of one position"),
        pytest.param([SLICE, GRU, HEAD], ["recurrent"], id="the last state alone goes on"),
        pytest.param([SLICE, GRU, LAYER, HEAD], [], id="a layer on all positions behind it"),
        pytest.param([SLICE, LAST, HEAD], [], id="nothing but views grows"),
        pytest.param(
            [SLICE, GRU, ("aten::flip", [[BATCH, "T", WIDTH], []], ["", "[1]"]), LAST], [], id="turned around"
        ),
        pytest.param([SLICE, GRU, ("aten::batch_norm", [[BATCH, WIDTH, "T"]], []), LAST], [], id="over positions"),
        pytest.param(
            [*TURN, ("aten::copy_", [[BATCH, WIDTH], [BATCH, WIDTH]], [])], [], id="written into the sequence"
        ),
        pytest.param([*TURN, ("aten::copy_", [[BATCH, 3], [BATCH, 3]], [])], ["recurrent"], id="written elsewhere"),
        pytest.param(
            [*TURN, ("aten::where", [[LENGTH], [BATCH, LENGTH, WIDTH], [BATCH, 1, WIDTH]], [])], [], id="computed anew"
        ),
        pytest.param(
            [("aten::slice", [["T", LENGTH, WIDTH], [], [], []], SLICE[2]), *TURN[1:]],
            [],
            id="of a tensor that grows itself",
        ),
        pytest.param([SLICE, GRU, ("aten::sum", [[BATCH, "T", WIDTH], []], ["", "[-1]"])], [], id="no last position"),
        pytest.param(
            [SLICE, ("aten::cat", [[BATCH, 1, WIDTH], [BATCH, "T", WIDTH], []], []), GRU, LAST], [], id="put together"
        ),
        pytest.param(
            [SLICE, ("aten::matmul", [["T", "T"], [BATCH, "T", WIDTH]], []), GRU, LAST], [], id="mixed by a matrix"
        ),
        pytest.param([SLICE, (GRU[0], GRU[1], []), LAST, HEAD], [], id="a direction that is not recorded"),
    ],
)
def test_what_a_turn_may_hold(tmp_path: Path, turn: list[Op], found: list[str]) -> None:
    assert [row["detail"] for row in rows(turn, tmp_path)] == found


def test_long_stretches_of_python_in_the_loop_are_its_own(tmp_path: Path) -> None:
    (row,) = rows(TURN, tmp_path, idle=300)
    # Seven stretches of 300 us; that before the first turn is outside.
    assert (row["cost_ns"], row["idle_ns"]) == (1_200_000 + 2_100_000, 2_100_000)
    kept = 2 * (80 + 2 * 10 * 8 / 7.5 + 0.3 * 80) + 2100 / 8
    assert row["part"] == pytest.approx(1 - kept / 3300, abs=1e-4)


def test_fewer_than_eight_prefixes_are_none(tmp_path: Path) -> None:
    assert rows(TURN, tmp_path, turns=7) == []
