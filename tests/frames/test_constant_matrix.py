"""Square matrices that nothing makes or changes, and what they multiply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

SQUARE, THIN = [1200, 1200], [1200, 16]
Operator = tuple[str, list[list[int]]]


def rows(tmp_path: Path, *operators: Operator) -> Any:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        for name, shapes in operators:
            with b.op(name, shapes=shapes, us=100):
                pass
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "constant-matrix"].to_dict("records")


@pytest.mark.parametrize(
    ("operators", "columns"),
    [
        ([("aten::mm", [SQUARE, THIN])], [16]),
        ([("aten::addmm", [[16], SQUARE, THIN])], [16]),
        ([("aten::matmul", [SQUARE, THIN]), ("aten::t", [SQUARE]), ("aten::mm", [SQUARE, [1200, 3]])], [16, 3]),
        ([("aten::einsum", [[], SQUARE, [8, 1200, 4]])], [32]),
    ],
)
def test_products_of_a_constant(operators: list[Operator], columns: list[int], tmp_path: Path) -> None:
    found = rows(tmp_path, *operators)
    assert [(row["length"], row["repeats"], row["cost_ns"]) for row in found] == [
        (1200, some, 100_000) for some in columns
    ]


@pytest.mark.parametrize(
    "other",
    [
        ("aten::softmax", [SQUARE, []]),
        ("aten::mm", [[1200, 64], [64, 1200]]),  # a Gram matrix, or a gradient
        ("aten::mm", [[32, 1200], SQUARE]),  # a weight
        ("aten::linear", [[32, 1200], SQUARE]),
        ("aten::_fused_adam_", [SQUARE, SQUARE, SQUARE]),
        ("aten::copy_", [SQUARE, SQUARE]),
    ],
)
def test_what_makes_or_changes_one_of_its_size(other: Operator, tmp_path: Path) -> None:
    assert rows(tmp_path, ("aten::mm", [SQUARE, THIN]), other) == []


@pytest.mark.parametrize("shapes", [[[1000, 1000], [1000, 16]], [SQUARE, [1200, 600]], [[1200, 1300], [1300, 16]]])
def test_small_full_or_not_square(shapes: list[list[int]], tmp_path: Path) -> None:
    assert rows(tmp_path, ("aten::mm", shapes)) == []
