"""Pointwise layers beside what changes the number of positions: which order takes less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.frames.patterns.enlarged import _cut, _larger, _left, _pointwise
from advisor.testing import TraceBuilder
from advisor.trace import read

Shape = tuple[int, ...]
Operator = tuple[str, float, list[list[int]], list[str]]
CONV = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]
UP: Operator = ("aten::upsample_nearest2d", 300, [[2, 32, 16, 16], [], [], []], ["", "[64, 64]", "4.", "4."])
LARGE = [2, 32, 64, 64]


def rows(tmp_path: Path, *operators: Operator) -> Any:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        for name, us, shapes, values in operators:
            with b.op(name, shapes=shapes, us=us, values=values):
                if name == "aten::linear":  # as a whole it is one of an accelerator
                    with b.op("aten::t", shapes=shapes[1:2]):
                        pass
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "enlarged"].to_dict("records")


@pytest.mark.parametrize(
    ("operators", "cost_us", "spared", "detail"),
    [
        # Of 300 us an eighth remains, of 200 a sixteenth.
        ([UP, ("aten::conv2d", 200, [LARGE, [4, 32, 1, 1], [4]], CONV)], 500, 450, "upsampled"),
        # Two heads with three quarters of an eighth each: a quarter and a half of the channels.
        ([UP, *[("aten::conv2d", 200, [LARGE, [n, 32, 1, 1], [n]], CONV) for n in (4, 8)]], 700, 562.5, "upsampled"),
        ([UP, ("aten::permute", 1, [LARGE, []], ["", ""]), ("aten::linear", 200, [[2, 64, 64, 32], [4, 32], [4]], [""] * 3)],
         500, 450, "upsampled"),
        ([("aten::repeat", 300, [[8, 1, 256], []], ["", "[1, 16, 1]"]),
          ("aten::linear", 200, [[8, 16, 256], [64, 256], [64]], [""] * 3)], 500, 412.5, "repeated"),
        ([("aten::linear", 200, [[8, 16, 256], [512, 256], [512]], [""] * 3),
          ("aten::select", 20, [[8, 16, 512], [], []], ["", "1", "-1"])], 220, 197.5, "sliced"),
        ([("aten::conv2d", 200, [LARGE, [64, 32, 1, 1], []], CONV),
          ("aten::avg_pool2d", 100, [[2, 64, 64, 64], [], [], []], ["", "[2, 2]", "[]", "[0, 0]"])], 300, 200, "averaged"),
    ],
)  # fmt: skip
def test_what_the_other_order_spares(
    operators: list[Operator], cost_us: float, spared: float, detail: str, tmp_path: Path
) -> None:
    (row,) = rows(tmp_path, *operators)
    assert (row["cost_ns"], row["detail"]) == (cost_us * 1000, detail)
    assert row["part"] == pytest.approx(spared / cost_us, abs=1e-5)


@pytest.mark.parametrize(
    "operators",
    [
        [UP],
        [UP, ("aten::relu", 9, [LARGE], [""]), ("aten::conv2d", 200, [LARGE, [4, 32, 1, 1], [4]], CONV)],
        [UP, ("aten::conv2d", 200, [LARGE, [4, 32, 3, 3], [4]], CONV)],
        [UP, ("aten::conv2d", 200, [LARGE, [24, 32, 1, 1], [24]], CONV)],
        [UP, ("aten::conv2d", 200, [LARGE, [4, 32, 1, 1], [4]], [*CONV[:3], "[2, 2]", *CONV[4:]])],
        [UP, ("aten::conv2d", 200, [LARGE, [4, 32, 1, 1], [4]], CONV), ("aten::cat", 9, [LARGE, LARGE], ["", ""])],
        # All steps of a sequence are read, one after the other.
        [("aten::linear", 200, [[8, 16, 256], [512, 256], [512]], [""] * 3),
         *[("aten::select", 1, [[8, 16, 512], [], []], ["", "1", str(n)]) for n in range(16)]],
        [("aten::linear", 200, [[8, 16, 256], [512, 256], [512]], [""] * 3),
         ("aten::view", 1, [[8, 16, 512], []], ["", "[128, 512]"]),
         ("aten::select", 1, [[8, 16, 512], [], []], ["", "1", "0"])],
    ],
)  # fmt: skip
def test_what_has_no_other_order(operators: list[Operator], tmp_path: Path) -> None:
    assert rows(tmp_path, *operators) == []


def test_a_layer_of_whose_positions_hundreds_are_read_one_by_one_is_none(tmp_path: Path) -> None:
    reads = [("aten::select", 1.0, [[8, 900, 512], [], []], ["", "1", str(n)]) for n in range(400)]
    assert rows(tmp_path, ("aten::linear", 200, [[8, 900, 256], [512, 256], [512]], [""] * 3), *reads) == []


@pytest.mark.parametrize(
    ("name", "shape", "values", "after"),
    [
        ("aten::upsample_bilinear2d", (1, 8, 64, 64), "[128, 128]", (1, 8, 128, 128)),
        ("aten::upsample_bilinear2d", (1, 8, 64, 64), "[80, 64]", None),  # hardly more
        ("aten::upsample_bilinear2d", (1, 8, 64, 64), "", None),  # the scale alone was given
        ("aten::repeat", (4, 1, 1024), "[2, 8, 1]", (8, 8, 1024)),
        ("aten::repeat", (4, 1024), "[8, 1, 1]", (8, 4, 1024)),
        ("aten::expand", (4, 1, 1024), "[-1, 8, -1]", (4, 8, 1024)),
        ("aten::expand", (4, 1, 1024), "[8]", None),
    ],
)
def test_shapes_of_what_is_enlarged(name: str, shape: Shape, values: str, after: Shape | None) -> None:
    assert _larger(name, (shape,), ["", values]) == (None if after is None else (shape, after))


def test_interleaved_rows_along_a_dimension() -> None:
    assert _larger("aten::repeat_interleave", ((16, 1024),), ["", "4", "0", ""]) == ((16, 1024), (64, 1024))
    assert _larger("aten::repeat_interleave", ((16, 1024),), ["", "4", "", ""]) is None


@pytest.mark.parametrize(
    ("first", "last", "step", "kept"),
    [
        ("0", "9223372036854775807", "1", 1),
        ("0", "9223372036854775807", "4", 0.25),
        ("-2", "", "1", 0.2),
        ("1", "-1", "1", 0.8),
    ],
)
def test_part_of_a_slice(first: str, last: str, step: str, kept: float) -> None:
    assert _cut("aten::slice", ["", "1", first, last, step], 10) == pytest.approx(kept)


def test_averages_of_positions_alone() -> None:
    shape = (2, 64, 8, 8)
    assert _left("aten::mean", ["", "[2, 3]"], shape, 1) == 1 / 64
    assert _left("aten::mean", ["", "[1]"], shape, 1) is None
    assert _left("aten::mean", ["", ""], shape, 1) is None
    assert _left("aten::adaptive_avg_pool2d", ["", "[2, 2]"], shape, 1) == 1 / 16
    assert _left("aten::avg_pool2d", ["", "[3, 3]", "[2, 2]", "[1, 1]"], shape, 1) is None  # zeros around it


def test_a_layer_with_a_stride_is_not_pointwise() -> None:
    assert _pointwise("aten::conv2d", ((2, 8, 4, 4), (3, 8, 1, 1)), CONV) == ((2, 3, 4, 4), 1)
    assert _pointwise("aten::conv2d", ((2, 8, 4, 4), (3, 8, 1, 1)), [*CONV[:3], "[2, 2]", *CONV[4:]]) is None
    assert _pointwise("aten::conv2d", ((2, 8, 4, 4), (8, 1, 1, 1)), CONV) is None  # each channel by itself
