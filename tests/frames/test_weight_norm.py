"""Weights that are normalized again in each call of a program that only infers: weight norm, and spectral norm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

W, ROWS, COLUMNS = [64, 96], [64], [96]
Op = tuple[str, float, list[list[int]]]
LAYER: Op = ("aten::linear", 50, [[8, 96], W, [64]])
WEIGHT: Op = ("aten::_weight_norm", 10, [W, [64, 1], []])
SPECTRAL: tuple[Op, ...] = (
    ("aten::clone", 1, [ROWS, []]),
    ("aten::clone", 1, [COLUMNS, []]),
    ("aten::mv", 8, [W, COLUMNS]),
    ("aten::vdot", 2, [ROWS, ROWS]),
    ("aten::div", 6, [W, []]),
)


def found(tmp_path: Path, *ops: Op, train: bool = False, cpu: bool = False) -> list[dict[str, Any]]:
    b = TraceBuilder(None, host_us=0) if cpu else TraceBuilder()
    with b.step():
        for place, (name, us, shapes) in enumerate(ops):
            with b.op(name, shapes=shapes, us=us if cpu else 0, seq=place if train else None):
                if not cpu:
                    b.kernel("void at::native::vectorized_elementwise_kernel<4>", us=us)
                elif name == "aten::linear":
                    with b.op("aten::t"):
                        pass  # as a whole it would be one of an accelerator
        if train and not cpu:
            with b.backward("WeightNormInterfaceBackward0", seq=0):
                b.kernel("void at::native::weight_norm_bwd_first_dim_kernel<float, float>", us=10)
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    rows: list[dict[str, Any]] = table[table["kind"] == "weight-norm"].to_dict("records")
    return rows


@pytest.mark.parametrize("cpu", [False, True])
def test_each_weight_norm_goes(tmp_path: Path, *, cpu: bool) -> None:
    rows = found(tmp_path, WEIGHT, LAYER, WEIGHT, LAYER, cpu=cpu)
    assert [row["detail"] for row in rows] == ["weight norm"] * 2
    assert all(row["cost_ns"] >= 10_000 for row in rows)
    assert not cpu or [row["cost_ns"] for row in rows] == [10_000] * 2


@pytest.mark.parametrize("cpu", [False, True])
def test_a_spectral_norm_goes_with_the_copies_of_its_vectors(tmp_path: Path, *, cpu: bool) -> None:
    (row,) = found(tmp_path, LAYER, *SPECTRAL, LAYER, cpu=cpu)
    assert (row["detail"], row["op"]) == ("spectral norm", "aten::div")
    assert (row["cost_ns"] if cpu else row["own_ns"]) == 18_000


@pytest.mark.parametrize(
    "ops",
    [
        (LAYER, *SPECTRAL[:4], ("aten::div", 6, [ROWS, []])),  # a quotient of something else
        (LAYER, *SPECTRAL[:4], ("aten::mul", 6, [W, []])),
        (LAYER, ("aten::mv", 8, [W, COLUMNS]), ("aten::vdot", 2, [COLUMNS, COLUMNS]), ("aten::div", 6, [W, []])),
        (LAYER, ("aten::relu", 8, [W]), ("aten::vdot", 2, [ROWS, ROWS]), ("aten::div", 6, [W, []])),
        (LAYER, ("aten::linalg_vector_norm", 8, [W, [], [], [], []]), ("aten::div", 6, [W, [64, 1]])),  # a cosine's
        (LAYER, ("aten::vdot", 2, [ROWS, ROWS])),
    ],
)
def test_what_only_looks_so(ops: tuple[Op, ...], tmp_path: Path) -> None:
    assert found(tmp_path, *ops) == []


def test_in_training_the_weight_changes(tmp_path: Path) -> None:
    assert found(tmp_path, WEIGHT, LAYER, train=True) == []
