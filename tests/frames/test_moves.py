"""Patterns of data that is written and need not be: all pairs, repeated copies and rows, copied buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.frames.patterns.operands import numbers, stored
from advisor.testing import TraceBuilder
from advisor.trace import read

LEFT, RIGHT, WHOLE = [64, 1, 32], [1, 64, 32], [64, 64, 32]


def rows(builder: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = read(str(builder.write(tmp_path / "trace.json"))).frame("patterns")
    found: list[dict[str, Any]] = table.to_dict("records")
    return found


def op(b: TraceBuilder, name: str, *shapes: Any, us: float = 10, **options: Any) -> None:
    options.setdefault("strides", [[] for _ in shapes])
    with b.op(name, shapes=list(shapes), us=us, **options):
        pass


def difference(b: TraceBuilder, *, seq: int | None = None, left: list[int] = LEFT, right: list[int] = RIGHT) -> None:
    op(b, "aten::sub", left, right, [], strides=[[32, 32, 1], [2048, 32, 1], []], seq=seq, us=100)


def summed(b: TraceBuilder, dim: str = "[-1]", *, seq: int | None = None) -> None:
    op(b, "aten::sum", WHOLE, [], [], [], values=["", dim, "False", ""], seq=seq, us=20)


def squared(b: TraceBuilder, *, seq: int | None = None) -> None:
    op(b, "aten::pow", WHOLE, [], values=["", "2"], seq=seq, us=50)


# ---- all pairs


def test_all_pairs_own_their_operators_and_their_backward_pass(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        difference(b, seq=1)
        squared(b, seq=2)
        summed(b, seq=3)
        op(b, "aten::sqrt", [64, 64], seq=4)
        for name, seq, us in (
            ("SqrtBackward0", 4, 7),
            ("SumBackward1", 3, 11),
            ("PowBackward0", 2, 200),
            ("SubBackward0", 1, 90),
        ):
            with b.backward(name, seq), b.op("aten::mul", shapes=[WHOLE, []], us=us):
                pass
    (row,) = rows(b, tmp_path)
    assert (row["kind"], row["detail"], row["op"]) == ("pairwise", "squared differences", "aten::sub")
    # 64 * 64 * 32 numbers from twice 64 * 32.
    assert (row["repeats"], row["length"], row["part"]) == (32, 32, 0.92)
    assert row["cost_ns"] == 1000 * (100 + 50 + 20 + 11 + 200 + 90)


def test_two_distances_of_one_shape_are_two(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        for _ in range(2):
            difference(b)
            squared(b)
            summed(b)
    assert [row["cost_ns"] for row in rows(b, tmp_path)] == [170_000, 170_000]


def test_a_batch_in_front_is_no_pair(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        op(b, "aten::mul", [2, 64, 1, 32], [2, 1, 64, 32], strides=[[2048, 32, 32, 1], [2048, 2048, 32, 1]])
        op(b, "aten::sum", [2, 64, 64, 32], [], [], [], values=["", "[3]", "False", ""])
    (row,) = rows(b, tmp_path)
    assert (row["detail"], row["repeats"], row["cost_ns"]) == ("products", 32, 20_000)


def test_a_pairwise_distance_is_its_own(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step(), b.op("aten::pairwise_distance", shapes=[LEFT, RIGHT, [], [], []], us=300):
        difference(b)
        op(b, "aten::add", WHOLE, [], [])
        op(b, "aten::norm", WHOLE, [], [], [], values=["", "2.", "[2]", "False"])
    (row,) = rows(b, tmp_path)
    assert (row["detail"], row["cost_ns"]) == ("squared differences", 300_000)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (WHOLE, [32]),
        ([64, 1, 32], [64, 64, 1]),
        ([64, 1, 32], [64, 2, 32]),
        ([64, 32], [32, 1]),
        ([], RIGHT),
        ([2, 1, 32], [1, 2, 32]),
    ],
)
def test_operands_that_are_no_pairs(left: list[int], right: list[int], tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        op(b, "aten::sub", left, right, [], strides=[[1] * len(left), [1] * len(right), []])
        squared(b)
        summed(b)
    assert rows(b, tmp_path) == []


def test_strides_tell_what_was_expanded(tmp_path: Path) -> None:
    assert stored((4, 5), (0, 1)) == (1, 5)
    assert stored((4, 5), ()) == (4, 5)
    assert numbers(["", "[3, -1]"], 1) == (3, -1)
    assert numbers(["", ""], 1) is None
    assert numbers(None, 1) is None
    for strides, forms in (([[32, 0, 1], [0, 32, 1], []], ["squared differences"]), ([[2048, 32, 1]] * 2 + [[]], [])):
        b = TraceBuilder(None, host_us=0)
        with b.step():
            op(b, "aten::mse_loss", WHOLE, WHOLE, [], strides=strides)
            summed(b)
        assert [row["detail"] for row in rows(b, tmp_path)] == forms


def on_gpu(us: float, *, power: str = "2", backward: bool = False, width: int = 32) -> TraceBuilder:
    """Differences of 64 by 64 rows, their powers and sums, in a kernel of *us* each, and two of backward."""
    b = TraceBuilder()
    whole = [64, 64, width]
    with b.step():
        for seq, (name, shapes, values, strides) in enumerate(
            [
                ("aten::sub", [[64, 1, width], [1, 64, width], []], None, [[width, 1, 1], [1, width, 1], []]),
                ("aten::pow", [whole, []], ["", power], None),
                ("aten::sum", [whole, [], [], []], ["", "[-1]", "False", ""], None),
            ]
        ):
            with b.op(name, shapes=shapes, values=values, strides=strides, seq=seq if backward else None):
                b.kernel("elementwise", us=us)
        for name, seq in (("PowBackward0", 1), ("SubBackward0", 0)) if backward else ():
            with b.backward(name, seq), b.op("aten::mul", shapes=[whole, []]):
                b.kernel("elementwise", us=us)
        b.sync()
    return b


def test_all_pairs_own_their_kernels_on_a_gpu(tmp_path: Path) -> None:
    (row,) = rows(on_gpu(1000, backward=True), tmp_path)
    assert (row["kind"], row["detail"], row["length"]) == ("pairwise", "squared differences", 32)
    assert (row["own_count"], row["own_ns"], row["backward_ns"], row["cost_ns"]) == (5, 5_000_000, 2_000_000, 5_000_000)
    # 16 passes over a number in 32 of a pair, and 0.06 + 0.12 of a kernel stay of five.
    assert row["part"] == pytest.approx(1 - (16 / 32 + 0.18) / 5, abs=1e-4)


def test_few_numbers_a_pair_return_less_on_a_gpu(tmp_path: Path) -> None:
    (row,) = rows(on_gpu(1000, width=4), tmp_path)
    assert row["part"] == pytest.approx(1 - (6 / 4 + 0.06) / 3, abs=1e-4)


@pytest.mark.parametrize(("us", "power"), [(3, "2"), (1000, "1")])
def test_short_kernels_and_other_powers_are_no_pairs_on_a_gpu(us: float, power: str, tmp_path: Path) -> None:
    assert rows(on_gpu(us, power=power), tmp_path) == []


# ---- repeated copies and rows


def copied(
    b: TraceBuilder, maker: str, *, us: float = 100, source: tuple[int, ...] = (32, 0, 1), seq: int | None = None
) -> None:
    with b.op(maker, shapes=[LEFT, []], seq=seq):
        op(b, "aten::copy_", WHOLE, WHOLE, [], strides=[[2048, 32, 1], list(source), []], us=us)


def test_the_gradient_of_a_repeated_copy_counts_for_products_alone(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        for number, (name, other) in enumerate((("aten::bmm", [64, 32, 64]), ("aten::add", WHOLE))):
            copied(b, "aten::repeat", seq=number + 1)
            op(b, name, WHOLE, other)
            with b.backward("RepeatBackward0", number + 1), b.op("aten::sum", us=40):
                pass
    assert [(row["kind"], row["detail"], row["repeats"], row["cost_ns"]) for row in rows(b, tmp_path)] == [
        ("repeated-copy", "product", 64, 140_000),
        ("repeated-copy", "elements", 64, 100_000),
    ]


def test_an_expand_before_a_copy_has_a_backward_pass_as_well(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        op(b, "aten::expand", LEFT, [], [], values=["", "[-1, 64, -1]", "False"], seq=1, us=1)
        copied(b, "aten::contiguous", seq=2)
        op(b, "aten::bmm", WHOLE, [64, 32, 64])
        with b.backward("ExpandBackward0", 1), b.op("aten::sum", us=40):
            pass
    (row,) = rows(b, tmp_path)
    assert row["cost_ns"] == 141_000


@pytest.mark.parametrize(
    ("name", "operands", "cost", "part"),
    [
        # A product of an eighth of the numbers: 0.7 of 63 of 64 parts of its 60 us are spared beside the 100 of the copy.
        ("aten::bmm", [[64, 1, 8], WHOLE], 160_000, (100 + 60 * 0.7 * 63 / 64) / 160),
        # And 0.15 of a gather.
        ("aten::gather", [[64, 99, 32], [], WHOLE, []], 160_000, (100 + 60 * 0.15) / 160),
        ("aten::mul", [WHOLE, WHOLE], 100_000, 1.0),
    ],
)
def test_what_takes_a_copy_is_eased(name: str, operands: list[Any], cost: int, part: float, tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        copied(b, "aten::repeat")
        op(b, name, *operands, us=60)
    (row,) = rows(b, tmp_path)
    assert row["cost_ns"] == cost
    assert row["part"] == pytest.approx(part, abs=1e-4)


@pytest.mark.parametrize("maker", ["aten::copy_", "aten::index_put_", "aten::scaled_dot_product_attention"])
def test_copies_that_are_no_repetition_of_the_programs(maker: str, tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        copied(b, maker)
        op(b, "aten::bmm", WHOLE, [64, 32, 8])
    assert rows(b, tmp_path) == []


def test_rows_that_are_repeated_by_copies_belong_to_their_layer(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    joined = [4096, 64]
    with b.step():
        copied(b, "aten::repeat_interleave")
        copied(b, "aten::repeat", source=(0, 32, 1))
        each = [4096, 32]
        op(b, "aten::cat", [each, each], [], values=["", "1"], strides=[[[32, 1], [32, 1]], []], us=70)
        op(b, "aten::view", joined, [], us=1)
        op(b, "aten::mm", joined, [64, 64], us=300)
    (row,) = rows(b, tmp_path)
    assert (row["kind"], row["length"]) == ("repeated-rows", 64)
    assert row["cost_ns"] == 1000 * (100 + 100 + 70 + 300)
    # As many outputs as columns: 1 / 1.1.
    assert row["part"] == pytest.approx(0.909, abs=0.001)


# ---- buffers


def shifted(b: TraceBuilder, *, freed: bool = False, new: int = 8) -> Any:
    op(b, "aten::slice", [1000, 64], [], [], [], [], values=["", "0", str(new), "9223372036854775807", "1"])
    with b.op("aten::cat", shapes=[[[1000 - new, 64], [new, 64]], []], values=["", "0"], us=100):
        made = b.memory(256_000, device=-1)
    if freed:
        b.release(made)
    return made


def test_a_shifted_buffer_lives_until_the_next(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0, profile_memory=True)
    last = None
    for _ in range(4):
        with b.step():
            made = shifted(b)
            if last is not None:
                b.release(last)
            last = made
    found = rows(b, tmp_path)
    assert [(row["kind"], row["detail"], row["repeats"], row["length"]) for row in found] == [
        ("copied-buffer", "shifted", 992, 8)
    ] * 4
    assert sum(row["cost_ns"] for row in found) == 400_000


@pytest.mark.parametrize(("freed", "new"), [(True, 8), (False, 200)])
def test_what_is_no_buffer(freed: bool, new: int, tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0, profile_memory=True)
    for _ in range(4):
        with b.step():
            shifted(b, freed=freed, new=new)
    assert rows(b, tmp_path) == []


@pytest.mark.parametrize("device", ["NVIDIA A100-SXM4-80GB", None])
def test_a_plain_concatenation(device: str | None, tmp_path: Path) -> None:
    b = TraceBuilder(device, host_us=0)
    with b.step():
        op(b, "aten::cat", [[64, 64], [64, 64]], [], values=["", "1"])
        op(b, "aten::mm", [64, 128], [128, 64])
    assert rows(b, tmp_path) == []
