"""Half shifts beside Fourier transforms: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.testing import TraceBuilder

SHAPE = [2, 4, 64, 48]
Write = Callable[[TraceBuilder], None]


def run(b: TraceBuilder, name: str, *shapes: list[int], values: list[str] | None = None, us: float = 100) -> None:
    with b.op(name, shapes=list(shapes), values=values, us=us):
        pass


def mul(b: TraceBuilder) -> None:
    run(b, "aten::mul", SHAPE, SHAPE[-2:])


def conv(b: TraceBuilder) -> None:
    run(b, "aten::conv2d", SHAPE, [4, 4, 3, 3], [4])


def named(name: str) -> Write:
    return lambda b: run(b, f"aten::{name}", SHAPE)


def roll(by: str = "[32, 24]", over: str = "[-2, -1]", shape: list[int] = SHAPE) -> Write:
    def write(b: TraceBuilder) -> None:
        run(b, "aten::roll", shape, [], [], values=["", by, over])

    return write


def fft(over: str = "[2, 3]", shape: list[int] = SHAPE, name: str = "_fft_c2c", last: str = "True") -> Write:
    def write(b: TraceBuilder) -> None:
        with b.op("aten::fft_fft2", shapes=[shape, [], [], []]):
            run(b, f"aten::{name}", shape, [], [], [], values=["", over, "1", last])

    return write


def cut(dim: int, size: int, first: int, *, swap: bool = True, whole: list[int] = SHAPE) -> Write:
    """Cut in two at *first*, and join what is behind it with what is before it."""

    def write(b: TraceBuilder) -> None:
        for start, end in ((first, str(2**63 - 1)), (0, str(first))):
            run(b, "aten::slice", whole, [], [], [], [], values=["", str(dim), str(start), end, "1"], us=5)
        sizes = [size - first, first] if swap else [first, size - first]
        parts = [[*whole[:dim], one, *whole[dim + 1 :]] for one in sizes]
        run(b, "aten::cat", *parts, [], values=["", str(dim)])

    return write


def trace(*items: Write) -> TraceBuilder:
    """Write the operators behind a convolution, which asks for neighbours."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        conv(b)
        for item in items:
            item(b)
    return b


def found(b: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = advisor.read(b.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"] == "fft-shift"].to_dict("records"))


CENTRED = (roll(), fft(), roll(), mul)


def test_a_centred_transform_has_a_row_for_each_shift(tmp_path: Path) -> None:
    rows = found(trace(*CENTRED), tmp_path)
    assert [row["detail"] for row in rows] == ["around a transform"] * 2
    assert [row["part"] for row in rows] == [1, 1]
    assert [row["repeats"] for row in rows] == [2, 2]
    assert [row["length"] for row in rows] == [2 * 4 * 64 * 48] * 2
    assert [row["cost_ns"] for row in rows] == [100_000] * 2


def test_between_convolutions_a_factor_remains_in_place_of_each_shift(tmp_path: Path) -> None:
    both = found(trace(roll(), fft(), roll(), conv), tmp_path)
    assert [row["part"] for row in both] == [0.5, 0.5]
    one = found(trace(roll("[24]", "[3]"), fft(), roll("[24]", "[3]"), conv), tmp_path)
    assert [row["part"] for row in one] == [0, 0]


@pytest.mark.parametrize(
    "between",
    [
        [mul],
        [named("abs"), named("pow"), named("sum"), named("div")],
        [named("slice"), named("einsum"), named("zeros"), named("copy_")],
        [],
    ],
    ids=["mask", "intensity", "middle", "nothing"],
)
def test_shifts_between_two_transforms_undo_each_other(between: list[Write], tmp_path: Path) -> None:
    rows = found(trace(fft(), roll(), *between, roll(), fft()), tmp_path)
    assert [(row["detail"], row["part"]) for row in rows] == [("between transforms", 1)] * 2


def test_a_filter_between_transforms_carries_the_shift_from_one_side_to_the_other(tmp_path: Path) -> None:
    rows = found(trace(roll(), fft(), mul, fft(), roll()), tmp_path)
    assert [row["detail"] for row in rows] == ["before and behind a filter"] * 2
    # |X|² has lost what the shift before was.
    for name in ("abs", "_conj", "conj", "pow", "add"):
        assert found(trace(roll(), fft(), named(name), mul, fft(), roll()), tmp_path) == []


def test_a_chain_of_filters_has_each_shift_once(tmp_path: Path) -> None:
    turn = (roll(), fft(), mul, fft(), roll(), mul)
    rows = found(trace(*turn, *turn, *turn), tmp_path)
    assert [row["detail"] for row in rows] == [
        "before and behind a filter",
        *["between transforms"] * 4,
        "before and behind a filter",
    ]


def test_of_real_transforms_the_spectrum_is_half_as_wide(tmp_path: Path) -> None:
    half = [*SHAPE[:-1], 25]
    forward, back = fft(name="_fft_r2c"), fft(name="_fft_c2r", shape=half, last="48")
    shift = roll("[32]", "[-2]", half)
    assert len(found(trace(forward, shift, named("einsum"), shift, back), tmp_path)) == 2
    assert len(found(trace(roll(), forward, shift, mul), tmp_path)) == 2
    assert found(trace(forward, roll("[32]", "[-2]"), mul, roll("[32]", "[-2]"), back), tmp_path) == []
    whole = fft(name="_fft_r2c", last="False")
    assert len(found(trace(roll(), whole, roll(), mul), tmp_path)) == 2


@pytest.mark.parametrize("first", [33, 32])
def test_two_halves_that_are_cut_and_joined_are_a_shift(first: int, tmp_path: Path) -> None:
    """Of 65 rows 33 or 32 go behind; the 10 us of two cuts are the shift's."""
    shape = [2, 4, 65, 48]
    shift = cut(2, 65, first, whole=shape)
    rows = found(trace(shift, fft(shape=shape), shift, mul), tmp_path)
    assert [row["cost_ns"] for row in rows] == [110_000] * 2
    assert [row["repeats"] for row in rows] == [1, 1]
    # In the old order, at another place, or of another tensor: no shift.
    for other in (
        cut(2, 65, first, swap=False, whole=shape),
        cut(2, 65, 20, whole=shape),
        cut(2, 65, first, whole=[3, 5, 65, 48]),
    ):
        assert found(trace(other, fft(shape=shape), other, mul), tmp_path) == []


def test_shifts_one_dimension_after_the_other_of_the_real_view(tmp_path: Path) -> None:
    real = [*SHAPE, 2]
    shift = (cut(2, 64, 32, whole=real), cut(3, 48, 24, whole=real))
    rows = found(trace(*shift, named("view_as_complex"), fft(), named("view_as_real"), *shift, mul), tmp_path)
    assert [row["part"] for row in rows] == [1] * 4


def test_an_odd_size_is_shifted_by_either_half(tmp_path: Path) -> None:
    shape = [2, 4, 63, 48]
    rows = found(trace(roll("[-31, 24]", shape=shape), fft(shape=shape), roll("[31, 24]", shape=shape), mul), tmp_path)
    assert len(rows) == 2
    assert (
        found(trace(roll("[30, 24]", shape=shape), fft(shape=shape), roll("[30, 24]", shape=shape), mul), tmp_path)
        == []
    )


@pytest.mark.parametrize(
    "items",
    [
        (fft(), roll(), mul),
        (roll(), mul, fft(), mul),
        (roll(), conv, fft(), roll()),
        (roll(), named("add"), fft(), mul, fft(), named("add"), roll()),
        (fft(), roll(), conv, roll(), fft()),
        (fft(), roll(), roll("[3, 3]"), roll(), fft()),
        (roll("[8, 8]"), fft(), roll("[8, 8]")),
        (roll("[2, 2]", "[0, 1]"), fft(), roll("[2, 2]", "[0, 1]")),
        (roll("[32, 24]", shape=[1, 1, 64, 48]), fft(), roll("[32, 24]", shape=[1, 1, 64, 48])),
        (roll(), mul, roll()),
    ],
    ids=["shown", "before", "layer", "windows", "k-space", "roll", "part", "batch", "smaller", "no transform"],
)
def test_other_shifts_stay(items: tuple[Write, ...], tmp_path: Path) -> None:
    assert found(trace(*items), tmp_path) == []


def test_values_that_were_not_recorded_tell_nothing(tmp_path: Path) -> None:
    def unknown(b: TraceBuilder) -> None:
        run(b, "aten::roll", SHAPE, [], [])

    def transform(b: TraceBuilder) -> None:
        run(b, "aten::_fft_c2c", SHAPE, [], [], [])

    assert found(trace(unknown, fft(), unknown, mul), tmp_path) == []
    assert found(trace(roll(), transform, roll(), mul), tmp_path) == []


def test_inside_of_an_operator_of_ones_own(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        conv(b)
        with b.op("CentredTransform"):
            for item in (roll(), fft(), roll()):
                item(b)
        conv(b)
    assert len(found(b, tmp_path)) == 2


def test_the_backward_pass_goes_with_its_shift_but_for_sums_of_other_uses(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=2)
    roll_by, transform = ["", "[32, 24]", "[-2, -1]"], ["", "[2, 3]", "1", "True"]
    with b.step():
        for number, (name, values) in enumerate(
            [("conv2d", None), ("roll", roll_by), ("_fft_c2c", transform), ("roll", roll_by), ("mul", None)]
        ):
            with b.op(f"aten::{name}", shapes=[SHAPE, [], []], values=values, seq=number):
                b.kernel("kernel", us=300)
        for number in (3, 1):
            with b.op("autograd::engine::evaluate_function: RollBackward0", seq=number, fwd_thread=1):
                with b.op("RollBackward0", seq=number, fwd_thread=1), b.op("aten::roll", shapes=[SHAPE, [], []]):
                    b.kernel("kernel", us=200)
                with b.op("aten::add", shapes=[SHAPE, SHAPE]):
                    b.kernel("kernel", us=50)
        b.sync()
    rows = found(b, tmp_path)
    assert [row["own_ns"] for row in rows] == [500_000] * 2
    assert [row["backward_ns"] for row in rows] == [200_000] * 2


@pytest.mark.parametrize(("us", "idle"), [(30, True), (150, False)])
def test_the_python_that_leads_to_a_shift_on_a_gpu_is_its_own_unless_it_is_long(
    us: int, idle: bool, tmp_path: Path
) -> None:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=2)
    with b.step():
        for name, values in (
            ("aten::conv2d", None),
            ("aten::roll", ["", "[32, 24]", "[-2, -1]"]),
            ("aten::_fft_c2c", ["", "[2, 3]", "1", "True"]),
            ("aten::roll", ["", "[32, 24]", "[-2, -1]"]),
        ):
            b.idle(us=us)
            with b.op(name, shapes=[SHAPE, [], []], values=values):
                b.kernel("kernel", us=1)
        b.sync()
    assert [row["idle_ns"] > us * 500 for row in found(b, tmp_path)] == [idle] * 2
