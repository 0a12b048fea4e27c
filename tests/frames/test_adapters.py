"""Low-rank adapters beside a layer in inference: the two thin products, what is between and behind them, and what only looks so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x32x8_stage3"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float>>(int)"
X, Y, H = [4, 64, 256], [4, 64, 512], [4, 64, 8]
BF16, FLOAT = "c10::BFloat16", "float"
Op = tuple[str, float, list[list[int]]]
BASE: Op = ("aten::linear", 100, [X, [512, 256], []])
DOWN: Op = ("aten::linear", 10, [X, [8, 256], []])
UP: Op = ("aten::linear", 10, [H, [512, 8], []])
SCALE: Op = ("aten::mul", 5, [Y, []])
SUM: Op = ("aten::add", 5, [Y, Y, []])
BEND: Op = ("aten::relu", 5, [H])


def found(
    tmp_path: Path, *ops: Op, train: bool = False, types: dict[int, list[str]] | None = None
) -> list[dict[str, Any]]:
    b = TraceBuilder()
    with b.step():
        for place, (name, us, shapes) in enumerate(ops):
            kinds = (types or {}).get(place, [FLOAT if shape else "Scalar" for shape in shapes])
            with b.op(name, shapes=shapes, dtypes=kinds, seq=place if train else None):
                b.kernel(GEMM if name == "aten::linear" else POINTWISE, us=us)
        if train:
            with b.backward("AddmmBackward0", seq=0):
                b.kernel(GEMM, us=10)
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    rows: list[dict[str, Any]] = table[table["kind"] == "unmerged-adapter"].to_dict("records")
    return rows


@pytest.mark.parametrize(
    ("ops", "own_us"),
    [
        ((BASE, DOWN, UP, SCALE, SUM), 30),
        ((BASE, DOWN, UP, SUM), 25),
        # The scale where there are few columns, a dropout that hands its input on, a view: all go.
        ((BASE, ("aten::dropout", 0.5, [X, [], []]), DOWN, ("aten::mul", 2, [H, []]), UP, ("aten::view", 0, [Y, []]), SUM), 27.5),
        # The adapter first, and then the layer.
        ((DOWN, UP, SCALE, BASE, SUM), 30),
        ((BASE, ("aten::matmul", 10, [X, [256, 8]]), ("aten::matmul", 10, [H, [8, 512]]), SUM), 25),
        # The second product adds to the layer's result itself.
        ((("aten::mm", 100, [[256, 256], [256, 512]]), ("aten::mm", 10, [[256, 256], [256, 8]]),
          ("aten::addmm", 12, [[256, 512], [256, 8], [8, 512], [], []])), 22),
        ((("aten::conv2d", 100, [[2, 64, 9, 9], [96, 64, 3, 3], [96]]), ("aten::conv2d", 10, [[2, 64, 9, 9], [4, 64, 3, 3], []]),
          ("aten::conv2d", 10, [[2, 4, 9, 9], [96, 4, 1, 1], []]), ("aten::add", 5, [[2, 96, 9, 9], [2, 96, 9, 9], []])), 25),
    ],
)  # fmt: skip
def test_what_goes(ops: tuple[Op, ...], own_us: float, tmp_path: Path) -> None:
    (row,) = found(tmp_path, *ops)
    assert row["own_ns"] == own_us * 1000
    assert row["length"] in (4, 8)


def test_an_adapter_of_another_type_has_casts_before_and_behind(tmp_path: Path) -> None:
    cast: Op = ("aten::to", 7, [X, [], [], [], []])
    back: Op = ("aten::to", 9, [Y, [], [], [], []])
    half = {0: [BF16, BF16, ""], 1: [BF16, "Scalar", "Scalar", "Scalar", ""], 5: [BF16, FLOAT, "Scalar"]}
    (row,) = found(tmp_path, BASE, cast, DOWN, UP, SCALE, SUM, back, types=half)
    assert (row["own_ns"], row["detail"], row["repeats"]) == (46_000, "in another type", 256)
    (row,) = found(tmp_path, BASE, DOWN, UP, SCALE, SUM, back)
    assert (row["own_ns"], row["detail"]) == (30_000, "in the layer's type")  # the cast is what follows


def test_two_adapters_beside_one_layer(tmp_path: Path) -> None:
    rows = found(tmp_path, BASE, DOWN, UP, SCALE, SUM, DOWN, UP, SUM)
    assert [row["own_ns"] for row in rows] == [30_000, 25_000]


@pytest.mark.parametrize(
    "ops",
    [
        (BASE, DOWN, BEND, UP, SUM),  # a bottleneck with a function that bends
        (DOWN, UP, SUM),  # low-rank factors alone, on a residual
        (BASE, DOWN, UP, ("aten::mul", 5, [Y, Y])),  # a gate
        (BASE, DOWN, UP, ("aten::sigmoid", 5, [Y]), SUM),
        (BASE, DOWN, UP, ("aten::add", 5, [Y, [512], []])),  # a bias
        (BASE, BEND, DOWN, UP, SUM),  # something else has become of the layer's input
        (("aten::linear", 100, [X, [384, 256], []]), DOWN, UP, SUM),  # a layer that gives something else
        (("aten::linear", 100, [[4, 32, 256], [512, 256], []]), DOWN, UP, SUM),  # of other rows
        (
            BASE,
            ("aten::linear", 10, [X, [160, 256], []]),
            ("aten::linear", 10, [[4, 64, 160], [512, 160], []]),
            SUM,
        ),  # not thin
        (BASE, DOWN, ("aten::softmax", 5, [H, [], []])),  # a router
    ],
)
def test_what_only_looks_so(ops: tuple[Op, ...], tmp_path: Path) -> None:
    assert found(tmp_path, *ops) == []


def test_in_training_an_adapter_is_right(tmp_path: Path) -> None:
    assert found(tmp_path, BASE, DOWN, UP, SCALE, SUM, train=True) == []


def test_of_an_adapter_no_order_of_products_is_said(tmp_path: Path) -> None:
    """W and B A of the other rule are matrices; here the sum of activations goes into the next product."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        for name, us, shapes in (
            ("aten::mm", 100, [[300, 200], [200, 200]]),
            ("aten::mm", 10, [[300, 200], [200, 4]]),
            ("aten::mm", 90, [[300, 4], [4, 200]]),
            ("aten::add", 40, [[300, 200], [300, 200], []]),
            ("aten::mm", 5, [[300, 200], [200, 2]]),
        ):
            with b.op(name, shapes=shapes, us=us):
                pass
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    assert table["kind"].tolist() == ["unmerged-adapter"]
    assert table["cost_ns"].tolist() == [140_000]
