"""One-hot matrices: how they are made, what multiplies them, and what else takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.frames.patterns.one_hot import Matrix, _factors
from advisor.testing import TraceBuilder
from advisor.trace import read

MATRIX = [512, 256]
Operator = tuple[str, float, list[list[int]]]


def one_hot(
    *behind: Operator, value: str = "1", zeros: bool = True, long: str = "long int", wide: int = 1
) -> TraceBuilder:
    """Zeros in 100 us, ones in 50, and what follows."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        if zeros:
            with b.op("aten::zeros", shapes=[[], []]), b.op("aten::zero_", shapes=[MATRIX], us=100):
                pass
        kinds, values = ["float", "Scalar", long, "Scalar"], ["", "1", "", value]
        with b.op("aten::scatter_", shapes=[MATRIX, [], [512, wide], []], dtypes=kinds, values=values, us=50):
            pass
        for name, us, shapes in behind:
            with b.op(name, shapes=shapes, us=us):
                if name == "aten::linear":  # as a whole it is one of an accelerator
                    with b.op("aten::t", shapes=shapes[1:2]):
                        pass
        with b.op("aten::relu", shapes=[[4, 4]], us=9000):
            pass
    return b


def rows(b: TraceBuilder, tmp_path: Path) -> Any:
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "one-hot"].to_dict("records")


ROWS: Operator = ("aten::mm", 700, [MATRIX, [256, 8]])


@pytest.mark.parametrize(
    ("behind", "cost_us", "detail"),
    [
        ([ROWS], 850, "rows"),
        ([("aten::to", 30, [MATRIX, []]), ROWS], 880, "rows"),
        ([("aten::t", 1, [MATRIX]), ("aten::mm", 700, [MATRIX[::-1], [512, 8]])], 850, "sums"),
        ([("aten::einsum", 700, [[], MATRIX, [256, 8]])], 850, "rows"),
        ([("aten::linear", 700, [MATRIX, [8, 256], [8]])], 850, "rows"),
        # Counts of the classes are taken from the indices as well.
        ([ROWS, ("aten::mean", 40, [MATRIX, [], []])], 890, "rows"),
        # A target of a loss has to be there.
        ([ROWS, ("aten::mul", 40, [MATRIX, MATRIX])], 700, "rows"),
        # Logits as large as the matrix: what follows takes these.
        ([ROWS, ("aten::mm", 90, [[512, 8], [8, 256]]), ("aten::log_softmax", 40, [MATRIX, [], []])], 850, "rows"),
    ],
)
def test_what_makes_it_and_what_multiplies_it(
    behind: list[Operator], cost_us: int, detail: str, tmp_path: Path
) -> None:
    (row,) = rows(one_hot(*behind), tmp_path)
    assert (row["cost_ns"], row["repeats"], row["length"], row["detail"]) == (cost_us * 1000, 512, 256, detail)


def test_what_a_lookup_takes_is_left(tmp_path: Path) -> None:
    (row,) = rows(one_hot(ROWS), tmp_path)
    assert row["part"] == pytest.approx(1 - (60_000 + 512 * 8) / 850_000, abs=1e-5)


@pytest.mark.parametrize(
    "b",
    [
        one_hot(),
        one_hot(("aten::sub", 40, [MATRIX, MATRIX]), ROWS),
        one_hot(("aten::mm", 700, [[512, 128], [128, 8]])),
        one_hot(ROWS, value="0"),
        one_hot(ROWS, value=""),
        one_hot(ROWS, zeros=False),
        one_hot(ROWS, wide=2),
    ],
)
def test_what_is_none(b: TraceBuilder, tmp_path: Path) -> None:
    assert rows(b, tmp_path) == []


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("aten::mm", ((6, 5), (5, 3)), (False, 3)),
        ("aten::mm", ((5, 6), (6, 3)), (True, 3)),
        ("aten::mm", ((3, 6), (6, 5)), (True, 3)),
        ("aten::linear", ((2, 3, 5), (4, 5), (4,)), (False, 4)),
        ("aten::addmm", ((3,), (6, 5), (5, 3)), (False, 3)),
        ("aten::einsum", ((), (6, 5), (6, 3)), (True, 3)),
        ("aten::mm", ((6, 5),), None),
    ],
)
def test_factors_of_a_product(name: str, operands: tuple[tuple[int, ...], ...], expected: object) -> None:
    assert _factors(name, operands, Matrix(0, 6, 5, [])) == expected


@pytest.mark.parametrize(("device", "left_us"), [("NVIDIA H100 80GB HBM3", 42.9), ("A GPU that no table has", 135.8)])
def test_the_lookup_that_is_left_runs_at_the_memorys_rate_of_that_gpu(
    device: str, left_us: float, tmp_path: Path
) -> None:
    """50 MB in 33 us at half of the 3.06 TB/s that an H100 reaches, at 400 GB/s in 126; and 10 us for the call."""
    matrix, table = [4096, 1024], [1024, 1024]
    b = TraceBuilder(device, host_us=2)
    with b.step():
        with b.op("aten::zeros", shapes=[[], []]), b.op("aten::zero_", shapes=[matrix]):
            b.kernel("elementwise_kernel", us=100)
        kinds, values = ["float", "Scalar", "long int", "Scalar"], ["", "1", "", "1"]
        with b.op("aten::scatter_", shapes=[matrix, [], [4096, 1], []], dtypes=kinds, values=values):
            b.kernel("elementwise_kernel", us=50)
        with b.op("aten::mm", shapes=[matrix, table]):
            b.kernel("ampere_sgemm_128x64_nn", us=700)
        b.sync()
    (found,) = rows(b, tmp_path)
    assert found["part"] == pytest.approx(1 - left_us / 850, abs=0.002)
