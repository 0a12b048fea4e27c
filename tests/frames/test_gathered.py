"""Layers on gathered rows: which operator takes what was gathered, and what of it could run on the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.frames.patterns.gathered import outputs_of
from advisor.testing import TraceBuilder
from advisor.trace import read

SOURCE, ROWS, WIDE = [1000, 64], [4000, 64], [4000, 128]
EDGES = [4000]
Operator = tuple[str, list[list[int]], int]
"""Name, operands, and how many operators later what it gives is freed (-1: it gives nothing of its own)."""
GATHER: Operator = ("aten::index_select", [SOURCE, [], EDGES], 1)
LAYER: Operator = ("aten::linear", [ROWS, [128, 64], [128]], 1)
SQUARE: Operator = ("aten::linear", [ROWS, [64, 64], [64]], 1)
SUM: Operator = ("aten::index_add", [[1000, 128], [], EDGES, WIDE, []], -1)
SUM_SQUARE: Operator = ("aten::index_add", [SOURCE, [], EDGES, ROWS, []], -1)


def gathered(
    *operators: Operator, dim: str = "0", memory: bool = True, train: bool = False, over: str = "[128]"
) -> TraceBuilder:
    """Operators of 100 us each in one step, with what they allocate."""
    b = TraceBuilder(None, host_us=0, profile_memory=memory)
    due: list[tuple[int, Any]] = []
    with b.step():
        for at, (name, shapes, lives) in enumerate(operators):
            values = {
                "aten::index_select": ["", dim, ""],
                "aten::dropout": ["", "0.5", str(train)],
                "aten::layer_norm": ["", over, "", "", "", ""],
            }.get(name)
            with b.op(name, shapes=shapes, us=100, values=values):
                if name == "aten::linear":  # as a whole it is one of an accelerator
                    with b.op("aten::t", shapes=shapes[1:2]):
                        pass
                if lives >= 0:
                    numbers = 4000 * (shapes[1][0] if name == "aten::linear" else shapes[0][-1])
                    due.append((at + lives, b.memory(4 * numbers, device=-1)))
            for _, made in [one for one in due if one[0] == at]:
                b.release(made)
            due = [one for one in due if one[0] > at]
        with b.op("aten::relu", shapes=[[4, 4]], us=9000):
            pass
    return b


def rows(b: TraceBuilder, tmp_path: Path) -> Any:
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "gathered"].to_dict("records")


def pointwise(name: str, shape: list[int], *others: list[int]) -> Operator:
    return (name, [shape, *others], 1)


@pytest.mark.parametrize(
    ("operators", "cost_us", "part"),
    [
        # A quarter of the layer's 100 us remains, and the gather is twice as wide: 25 + 200 of 200. Nothing goes.
        ([GATHER, LAYER, SUM], 0, 0),
        # What follows goes with it: 25 a piece, and 200, of 500.
        (
            [
                GATHER,
                LAYER,
                pointwise("aten::relu", WIDE),
                pointwise("aten::add", WIDE, [128], []),
                pointwise("aten::layer_norm", WIDE, [], [128], [128], [], []),
                SUM,
            ],
            500,
            1 - 300 / 500,
        ),
        # Before the layer as well.
        ([GATHER, pointwise("aten::relu", ROWS), SQUARE, SUM_SQUARE], 300, 1 - 150 / 300),
        # In evaluation dropout does nothing.
        ([(*GATHER[:2], 2), ("aten::dropout", [ROWS, [], []], -1), SQUARE, SUM_SQUARE], 200, 1 - 125 / 200),
        # What was gathered lives on, but all that is computed later goes from one to the next.
        ([(*GATHER[:2], 4), SQUARE, pointwise("aten::relu", ROWS), SUM_SQUARE], 300, 1 - 150 / 300),
        # A number for each edge ends it.
        ([GATHER, SQUARE, pointwise("aten::mul", ROWS, [4000, 1]), SUM_SQUARE], 200, 1 - 125 / 200),
        (
            [("aten::index", [SOURCE, []], 1), ("aten::linear", [[40, 100, 64], [64, 64]], 1), SUM_SQUARE],
            200,
            1 - 125 / 200,
        ),
        ([GATHER, ("aten::einsum", [[], ROWS, [64, 64]], -1), SUM_SQUARE], 200, 1 - 125 / 200),
    ],
)
def test_what_could_run_on_the_source(operators: list[Operator], cost_us: int, part: float, tmp_path: Path) -> None:
    found = rows(gathered(*operators), tmp_path)
    assert [(row["cost_ns"], row["repeats"], row["length"]) for row in found] == (
        [(cost_us * 1000, 4000, 1000)] if cost_us else []
    )
    assert [row["part"] for row in found] == pytest.approx([part] * len(found), abs=1e-5)


@pytest.mark.parametrize(
    "b",
    [
        # Which of two the layer takes is not told: what was gathered lives until both have been computed.
        gathered((*GATHER[:2], 3), SQUARE, pointwise("aten::mul", ROWS, ROWS), SUM_SQUARE),
        # A part of what was gathered is taken, and the layer may take something else.
        gathered((*GATHER[:2], 2), (*SQUARE[:2], 2), ("aten::slice", [ROWS, [], [], [], []], -1), SUM_SQUARE),
        # It takes what came before, and what was gathered is added.
        gathered((*GATHER[:2], 2), SQUARE, pointwise("aten::add", ROWS, ROWS, []), SUM_SQUARE),
        gathered(GATHER, pointwise("aten::dropout", ROWS, [], []), SQUARE, SUM_SQUARE, train=True),
        gathered(GATHER, pointwise("aten::batch_norm", ROWS, [64], [64]), SQUARE, SUM_SQUARE),
        gathered(GATHER, pointwise("aten::softmax", ROWS, [], []), SQUARE, SUM_SQUARE),
        # Over several rows at once.
        gathered(
            GATHER, pointwise("aten::layer_norm", ROWS, [], [], [], [], []), SQUARE, SUM_SQUARE, over="[4000, 64]"
        ),
        # Columns are gathered.
        gathered(GATHER, SQUARE, SUM_SQUARE, dim="1"),
        # A weight for each row is no layer's.
        gathered(GATHER, ("aten::bmm", [[4000, 1, 64], [4000, 64, 64]], 1), SUM_SQUARE),
        gathered(("aten::index_select", [[3000, 64], [], EDGES], 1), SQUARE, SUM_SQUARE),
        gathered((*GATHER[:2], 2), SQUARE, pointwise("aten::add", ROWS, ROWS, []), memory=False),
        # x[:, columns], which may take four times the columns of each row, is not told from four rows for each.
        gathered(("aten::index", [SOURCE, []], 1), ("aten::linear", [[1000, 4, 64], [64, 64]], 1), SUM_SQUARE),
    ],
)
def test_what_is_left_alone(b: TraceBuilder, tmp_path: Path) -> None:
    assert rows(b, tmp_path) == []


@pytest.mark.parametrize(
    ("name", "operands", "outputs"),
    [
        ("aten::linear", ((4000, 64), (128, 64), (128,)), 128),
        ("aten::linear", ((40, 100, 64), (128, 64)), 128),
        ("aten::mm", ((4000, 64), (64, 32)), 32),
        ("aten::addmm", ((32,), (4000, 64), (64, 32)), 32),
        ("aten::matmul", ((4000, 64), (64,)), 1),
        ("aten::einsum", ((), (64, 32), (4000, 64)), 32),
        ("aten::einsum", ((), (4000, 64), (4000, 32)), 0),
        ("aten::einsum", ((), (4000, 64), (64,)), 0),
        ("aten::mm", ((64, 4000), (4000, 64)), 0),
        ("aten::mm", ((4000, 64), (64, 4000)), 0),
        ("aten::matmul", ((40, 100, 64), (40, 64, 32)), 0),
        ("aten::relu", ((4000, 64),), 0),
    ],
)
def test_layers(name: str, operands: tuple[tuple[int, ...], ...], outputs: int) -> None:
    assert outputs_of(name, operands, 4000, 64) == outputs
