"""Products of matrices in the wrong order: what they multiply, what is done to them, and which order takes less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.frames.patterns.product_order import _Chain, _multiplied
from advisor.testing import TraceBuilder
from advisor.trace import read

WEIGHT, TURNED = [300, 200], [200, 300]


def run(b: TraceBuilder, name: str, us: float, *shapes: list[int]) -> None:
    with b.op(name, shapes=list(shapes), us=us):
        if name == "aten::linear":  # as a whole it is one of an accelerator
            with b.op("aten::t", shapes=[shapes[1]]):
                pass


def rows(b: TraceBuilder, tmp_path: Path) -> Any:
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "product-order"].to_dict("records")


def chain(*behind: tuple[str, float, list[list[int]]]) -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mm", 100, [300, 4], [4, 200])
        for name, us, shapes in behind:
            run(b, name, us, *shapes)
    return b


@pytest.mark.parametrize(
    ("behind", "cost_us", "multiplied", "detail"),
    [
        ([("aten::mm", 50, [[8, 300], WEIGHT])], 150, 8, "alone"),
        ([("aten::mm", 50, [WEIGHT, [200, 8]])], 150, 8, "alone"),
        ([("aten::linear", 50, [[2, 4, 200], WEIGHT])], 150, 8, "alone"),
        ([("aten::t", 1, [WEIGHT]), ("aten::mm", 50, [[8, 200], TURNED])], 150, 8, "alone"),
        # The base's product stays: of the 50 us nothing goes.
        ([("aten::mul", 30, [WEIGHT, []]), ("aten::add", 40, [WEIGHT, WEIGHT, []]), ("aten::linear", 50, [[8, 200], WEIGHT])],
         170, 8, "added"),
        # An activation of another size between them is none of it.
        ([("aten::relu", 9, [[8, 200]]), ("aten::mm", 50, [[8, 300], WEIGHT])], 150, 8, "alone"),
        ([("aten::mm", 50, [[8, 300], WEIGHT]), ("aten::mm", 50, [[5, 300], WEIGHT])], 200, 13, "alone"),
    ],
)  # fmt: skip
def test_the_product_its_passes_and_its_uses(
    behind: list[tuple[str, float, list[list[int]]]], cost_us: int, multiplied: int, detail: str, tmp_path: Path
) -> None:
    (row,) = rows(chain(*behind), tmp_path)
    assert (row["cost_ns"], row["repeats"], row["length"], row["detail"]) == (cost_us * 1000, multiplied, 4, detail)


@pytest.mark.parametrize(
    "behind",
    [
        [],
        [("aten::relu", 9, [WEIGHT]), ("aten::mm", 50, [[8, 300], WEIGHT])],  # no linear operator
        [("aten::relu", 9, [[3, 100, 200]]), ("aten::mm", 50, [[8, 300], WEIGHT])],  # nor this, on as many elements
        [("aten::mul", 9, [WEIGHT, [300, 1]]), ("aten::mm", 50, [[8, 300], WEIGHT])],  # nor a factor for each row
        [("aten::add", 9, [WEIGHT, [200], []]), ("aten::mm", 50, [[8, 300], WEIGHT])],  # nor a bias
    ],
)
def test_what_is_no_chain(behind: list[tuple[str, float, list[list[int]]]], tmp_path: Path) -> None:
    assert rows(chain(*behind), tmp_path) == []


def test_the_next_product_as_large_takes_its_own_uses(tmp_path: Path) -> None:
    second = ("aten::mm", 100, [[200, 4], [4, 300]])
    found = rows(chain(second, ("aten::mm", 50, [[8, 200], TURNED])), tmp_path)
    assert [row["cost_ns"] for row in found] == [150_000]


def test_arithmetic_of_both_orders() -> None:
    """300 by 4 by 200 for 8 rows: 240,000 for the product, 480,000 for its use, 16,000 by the factors."""
    one = _Chain(0, (300, 4, 200), rows=8)
    assert one.arithmetic(learns=False, trains=False) == (720_000, 16_000)
    assert one.arithmetic(learns=False, trains=True) == (3 * 720_000, 3 * 16_000)
    one.added = True
    assert one.arithmetic(learns=False, trains=False) == (240_000, 16_000)
    assert one.arithmetic(learns=False, trains=True) == (3 * 240_000 + 480_000, 3 * 16_000)
    assert one.arithmetic(learns=True, trains=True) == (3 * 240_000, 3 * 16_000)


def test_operands_that_do_not_meet() -> None:
    assert _multiplied("aten::mm", ((8, 301), (300, 200)), (300, 200)) == 0
    assert _multiplied("aten::mm", ((8, 9), (9, 7)), (300, 200)) == 0
