"""Loops over classes: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.testing import TraceBuilder

N = 10_000
LABELS = [N]
Op = tuple[str, list[list[int]], str, str]
"""An operator, its operands' shapes, the type of the first, and the number that it compares with."""


def eq(number: object, name: str = "eq", dtype: str = "long int") -> Op:
    return f"aten::{name}", [LABELS, []], dtype, str(number)


def op(name: str, *shapes: list[int], dtype: str = "float") -> Op:
    return f"aten::{name}", list(shapes), dtype, ""


SUM = op("sum", LABELS, [], dtype="bool")
AND = op("bitwise_and", LABELS, LABELS, dtype="bool")


def run(b: TraceBuilder, one: Op, us: float = 100) -> None:
    name, shapes, dtype, number = one
    types = [dtype, *("Scalar" if not shape else dtype for shape in shapes[1:])]
    values = ["", number] if number and number != "tensor" else None
    if number == "tensor":
        types[1] = dtype
    with b.op(name, shapes=shapes, dtypes=types, values=values, us=us):
        pass


def rows(b: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = advisor.read(b.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"] == "class-loop"].to_dict("records"))


def loop(
    turn: Callable[[int], list[Op]], count: int = 10, *, before: list[Op] | None = None, idle: float = 0
) -> TraceBuilder:
    """Run turns of operators of 100 us each between two others, with *idle* us of Python before each turn."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, op("mm", [64, 64], [64, 64]))
        for one in before or []:
            run(b, one)
        for number in range(count):
            b.idle(us=idle)
            for one in turn(number):
                run(b, one)
        run(b, op("mm", [64, 64], [64, 64]))
    return b


def test_a_loop_owns_its_turns_and_the_python_between(tmp_path: Path) -> None:
    (row,) = rows(loop(lambda number: [eq(number), SUM, op("div", [], [])], idle=7), tmp_path)
    assert (row["op"], row["repeats"], row["length"], row["detail"]) == ("aten::eq", 10, N, "eq, sum, div")
    assert (row["cost_ns"], row["idle_ns"]) == (3_070_000, 70_000)
    trace = advisor.read(tmp_path / "trace.json")
    claimed = trace.claims("patterns", np.ones(len(trace.frame("patterns")), np.bool_))
    assert trace.ledger.dur_ns[claimed].sum() == row["cost_ns"]


def test_operators_before_the_comparison_are_the_turns(tmp_path: Path) -> None:
    """Each of ten turns begins with a pick of its own class."""
    (row,) = rows(loop(lambda number: [op("select", [4, 10, 2500], [], []), eq(number), AND, SUM]), tmp_path)
    assert row["cost_ns"] == 4_000_000


def test_pairs_of_classes_are_counted_as_turns(tmp_path: Path) -> None:
    (row,) = rows(loop(lambda number: [eq(number // 6), eq(number % 6), AND, SUM], 36), tmp_path)
    assert (row["repeats"], row["cost_ns"]) == (36, 14_400_000)


def test_an_outer_comparison_is_part_of_the_loop(tmp_path: Path) -> None:
    """Of six times six turns, the outer ones compare once more."""

    def turn(number: int) -> list[Op]:
        inner = [eq(number % 6, "ne"), AND, SUM]
        return [eq(number // 6), *inner] if number % 6 == 0 else inner

    (row,) = rows(loop(turn, 36), tmp_path)
    assert (row["repeats"], row["cost_ns"]) == (36, 36 * 300_000 + 6 * 100_000)


def test_every_image_is_a_round_of_its_own(tmp_path: Path) -> None:
    """The same ten classes three times: what counting them takes is taken off three times."""
    (once,) = rows(loop(lambda number: [eq(number), SUM]), tmp_path)
    (row,) = rows(loop(lambda number: [eq(number % 10), SUM], 30), tmp_path)
    assert (row["repeats"], row["cost_ns"]) == (10, 6_000_000)
    assert row["part"] > once["part"]


PUT = op("index_put_", LABELS, LABELS, [], [])
NEXT = op("index_put_", LABELS, LABELS, [], [], dtype="long int")
CLASSES = [op("unbind", [10], [], dtype="long int")]


@pytest.mark.parametrize(
    ("turn", "before", "found"),
    [
        (lambda number: [eq("tensor"), SUM], CLASSES, 1),
        (lambda number: [eq("tensor"), SUM], [], 0),
        (lambda number: [op("select", [10], [], []), eq("tensor"), SUM], [], 1),
        (lambda number: [op("select", LABELS, [], []), eq("tensor"), SUM], [], 0),  # labels == labels[i]
        (lambda number: [eq(number, "ge", "float"), eq(number + 1, "lt", "float"), AND, PUT], [], 1),
        (lambda number: [eq(number), op("any", LABELS, []), eq(-1), AND, NEXT], [], 0),  # levels of a search
        (lambda number: [eq(7), SUM], [], 0),
        (lambda number: [eq(number % 5), SUM], [], 0),
        (lambda number: [eq(number)], [], 0),
        (lambda number: [eq(number), op("sum", [64], [])], [], 0),  # of something else
        (lambda number: [eq(number), op("masked_fill_", LABELS, LABELS, [])], [], 1),
        (lambda number: [eq(number, "lt"), op("masked_fill_", LABELS, LABELS, [])], [], 0),  # lengths
        (lambda number: [eq(number), SUM, op("mm", [8, 8], [8, 8])], [], 0),
        (lambda number: [eq(number), SUM, op("cumsum", LABELS, [])], [], 0),  # a third of the time
        (lambda number: [op("mul", LABELS, LABELS, dtype="float"), eq(number / 10, "gt", "float"), SUM], [], 0),
        (lambda number: [eq(number / 10, "gt", "float"), SUM], [], 1),
        (lambda number: [eq([0.5, 0.2, 0.4, 0.3, 0.6, 0.1, 0.9, 0.7, 0.8, 0.0][number], "gt", "float"), SUM], [], 0),
    ],
)
def test_what_is_a_loop_over_classes(
    tmp_path: Path, turn: Callable[[int], list[Op]], before: list[Op], found: int
) -> None:
    assert len(rows(loop(turn, before=before), tmp_path)) == found


def test_few_elements_are_no_labels(tmp_path: Path) -> None:
    few: Op = ("aten::eq", [[63], []], "long int", "")
    turns = loop(lambda number: [(*few[:3], str(number)), op("sum", [63], [], dtype="bool")])
    assert rows(turns, tmp_path) == []
