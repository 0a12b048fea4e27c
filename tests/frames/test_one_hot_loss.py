"""Cross-entropy over one-hot rows: how it is written, and what only looks like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

MATRIX, IMAGES = [512, 256], [8, 256, 8, 8]
Operator = tuple[str, list[list[int]]]
LOG: Operator = ("aten::log_softmax", [MATRIX, [], []])
HOT: Operator = ("one-hot", [MATRIX])
FLOAT: Operator = ("aten::to", [MATRIX, [], []])
PICK: Operator = ("aten::mul", [MATRIX, MATRIX])
SUM: Operator = ("aten::sum", [MATRIX, [], [], []])
SOFTMAX: Operator = ("aten::softmax", [MATRIX, [], []])


def loss(
    *operators: Operator, dim: str = "[1]", over: str = "1", twice: bool = False, filled: str = "0"
) -> TraceBuilder:
    """Operators of 100 us each; one-hot rows are zeros and ones of as much."""
    b = TraceBuilder(None, host_us=0)
    hot = False
    with b.step():
        for name, shapes in operators:
            kinds = ["long int" if hot and name in ("aten::to", "aten::neg") else "float" for _ in shapes]
            hot = hot and name != "aten::to"
            if name == "one-hot":
                fill = b.op("aten::fill_", shapes=[MATRIX, []], values=["", filled], us=100)
                with b.op("aten::full", shapes=[[], []]), fill:
                    pass
                for _ in range(1 + twice):
                    with b.op(
                        "aten::scatter_",
                        shapes=[MATRIX, [], [512, 1], []],
                        dtypes=["long int", "Scalar", "long int", "Scalar"],
                        values=["", "1", "", "1"],
                        us=100,
                    ):
                        pass
                hot = True
            else:
                along = {"aten::sum": dim, "aten::mean": dim, "aten::log_softmax": over, "aten::softmax": over}.get(
                    name
                )
                values = None if along is None else ["", along, *[""] * (len(shapes) - 2)]
                with b.op(name, shapes=shapes, dtypes=kinds, values=values, us=100):
                    pass
        with b.op("aten::gelu", shapes=[[4, 4]], us=9000):
            pass
    return b


def rows(b: TraceBuilder, tmp_path: Path) -> Any:
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "one-hot-loss"].to_dict("records")


@pytest.mark.parametrize(
    ("operators", "dim", "cost_us", "detail"),
    [
        ([LOG, HOT, FLOAT, PICK, SUM], "[1]", 500, "log_softmax"),
        ([HOT, LOG, FLOAT, PICK, SUM], "[-1]", 500, "log_softmax"),
        ([HOT, FLOAT, LOG, PICK, ("aten::neg", [MATRIX]), SUM], "[1]", 600, "log_softmax"),
        ([LOG, HOT, ("aten::neg", [MATRIX]), PICK, SUM], "[1]", 500, "log_softmax"),
        ([LOG, HOT, FLOAT, PICK, ("aten::sum", [MATRIX, []])], "", 500, "log_softmax"),
        ([SOFTMAX, HOT, FLOAT, ("aten::log", [MATRIX]), PICK, SUM], "[1]", 600, "softmax and log"),
        ([SOFTMAX, ("aten::clamp", [MATRIX, [], []]), ("aten::log", [MATRIX]), HOT, FLOAT, PICK, SUM], "[1]", 700,
         "softmax and log"),
        ([LOG, HOT, FLOAT, ("aten::einsum", [[], MATRIX, MATRIX])], "[1]", 400, "log_softmax"),
        # Images have the classes before their positions.
        ([("aten::log_softmax", [IMAGES, [], []]), HOT, FLOAT, ("aten::mul", [IMAGES, IMAGES]),
          ("aten::sum", [IMAGES, [], [], []])], "[1]", 500, "log_softmax"),
        # What needs the matrix besides.
        ([LOG, HOT, FLOAT, PICK, SUM, ("aten::minimum", [MATRIX, MATRIX])], "[1]", 200, "log_softmax"),
    ],
)  # fmt: skip
def test_how_it_is_written(operators: list[Operator], dim: str, cost_us: int, detail: str, tmp_path: Path) -> None:
    (row,) = rows(loss(*operators, dim=dim), tmp_path)
    assert (row["cost_ns"], row["repeats"], row["length"], row["detail"]) == (cost_us * 1000, 512, 256, detail)
    assert row["part"] == pytest.approx(1 - 60 / cost_us, abs=1e-5)


@pytest.mark.parametrize(
    "b",
    [
        loss(SOFTMAX, HOT, FLOAT, PICK, SUM),
        loss(("aten::log", [MATRIX]), HOT, FLOAT, PICK, SUM),
        loss(("aten::sigmoid", [MATRIX]), ("aten::log", [MATRIX]), HOT, FLOAT, PICK, SUM),
        loss(LOG, HOT, FLOAT, ("aten::mul", [MATRIX, []]), PICK, SUM),
        loss(LOG, HOT, FLOAT, ("aten::pow", [MATRIX, []]), PICK, SUM),
        loss(LOG, HOT, FLOAT, PICK, PICK, SUM),
        loss(LOG, HOT, FLOAT, PICK, SUM, dim="[0]"),
        loss(LOG, HOT, FLOAT, PICK, ("aten::max", [MATRIX, [], []])),
        loss(LOG, HOT, FLOAT, PICK),
        loss(LOG, HOT, FLOAT, ("aten::sub", [MATRIX, MATRIX]), SUM),
        # Probabilities of rows for each class.
        loss(LOG, HOT, FLOAT, PICK, SUM, over="0"),
        loss(SOFTMAX, ("aten::log", [MATRIX]), HOT, FLOAT, PICK, SUM, over="0"),
        # Labels of two classes, and ones among other numbers.
        loss(LOG, HOT, FLOAT, PICK, SUM, twice=True),
        loss(LOG, HOT, FLOAT, PICK, SUM, filled="0.1"),
    ],
)
def test_what_is_none(b: TraceBuilder, tmp_path: Path) -> None:
    assert rows(b, tmp_path) == []
