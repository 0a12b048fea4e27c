"""Whole tensors of which a part is picked: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.frames.patterns import late_pick
from advisor.frames.patterns.late_pick import _made
from advisor.testing import TraceBuilder

WHOLE = [4096, 128]
"""Half a million numbers."""


def rows(builder: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = advisor.read(builder.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"].isin(["late-pick", "doubtful-pick"])].to_dict("records"))


def run(b: TraceBuilder, name: str, *shapes: list[int], values: list[str] | None = None, us: float = 100) -> None:
    with b.op(name, shapes=list(shapes), values=values, us=us):
        pass


def selected(b: TraceBuilder, count: int) -> None:
    with b.op(
        "aten::index_select",
        shapes=[WHOLE, [], [count]],
        dtypes=["float", "Scalar", "long int"],
        values=["", "0", ""],
        us=1,
    ):
        pass


def test_the_operators_before_the_pick(tmp_path: Path) -> None:
    """Two of 100 us make the tensor; 64 of 4,096 rows are taken."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mul", WHOLE, [])
        run(b, "aten::add", WHOLE, [128], [])
        selected(b, 64)
        run(b, "aten::mm", [64, 128], [128, 8])
    (row,) = rows(b, tmp_path)
    assert (row["cost_ns"], row["part"], row["detail"]) == (200_000, pytest.approx(1 - 1 / 64), "index_select")


def test_an_index_takes_as_much_memory_as_it_picks(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mul", WHOLE, [])
        with b.op("aten::index", shapes=[WHOLE, []], us=10):
            b.memory(4 * 32 * 128, device=-1)
        run(b, "aten::mm", [32, 128], [128, 8])
    (row,) = rows(b, tmp_path)
    assert row["part"] == pytest.approx(1 - 32 / 4096)


@pytest.mark.parametrize(
    "between",
    [
        [("aten::mean", [WHOLE, []])],
        [("aten::mm", [[8, 4096], WHOLE])],
        [("aten::chunk", [WHOLE, [], []])],
    ],
)
def test_what_takes_the_whole_needs_it(between: list[tuple[str, list[list[int]]]], tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mul", WHOLE, [])
        for name, shapes in between:
            run(b, name, *shapes)
        selected(b, 64)
    assert rows(b, tmp_path) == []


def test_the_next_step_may_be_a_use(tmp_path: Path) -> None:
    """It takes such a tensor, and makes none."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mul", WHOLE, [])
        selected(b, 64)
    with b.step():
        run(b, "aten::mm", [8, 4096], WHOLE)
    assert [row["kind"] for row in rows(b, tmp_path)] == ["doubtful-pick"]


def turns(b: TraceBuilder, *more: tuple[str, list[list[int]]], count: int = 4) -> None:
    """Steps that make a whole of bytes, then run *more* operators, and pick; its memory was not recorded."""
    for _ in range(count):
        with b.step():
            with b.op("aten::to", shapes=[WHOLE, []], dtypes=["unsigned char", "Scalar"], us=100):
                pass
            for name, shapes in more:
                run(b, name, *shapes)
            selected(b, 64)
            run(b, "aten::mm", [64, 128], [128, 8])


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ([("aten::div", [WHOLE, []])], "late-pick"),
        ([("aten::div_", [WHOLE, []])], "late-pick"),
        # Two are taken, and one was made: the other is from before.
        ([("aten::add", [WHOLE, WHOLE])], "doubtful-pick"),
        # What is shown as large is taken beside it.
        ([("aten::expand_as", [[4096, 1], WHOLE]), ("aten::div", [WHOLE, WHOLE])], "late-pick"),
    ],
)
def test_a_turn_that_takes_more_than_it_makes_goes_on_with_one(
    more: list[tuple[str, list[list[int]]]], kind: str, tmp_path: Path
) -> None:
    b = TraceBuilder(None, host_us=0)
    turns(b, *more)
    assert {row["kind"] for row in rows(b, tmp_path)} == {kind}


def test_most_turns_tell_what_becomes_of_all(tmp_path: Path) -> None:
    """Of five, the one in which Python is away for long says nothing of the others: the machine may have been busy."""
    b = TraceBuilder(None, host_us=0)
    for number in range(5):
        turns(b, count=1)
        b.idle(us=500 if number == 1 else 1)
    assert [row["kind"] for row in rows(b, tmp_path)] == ["late-pick"] * 5


def test_a_part_that_is_kept_keeps_the_whole(tmp_path: Path) -> None:
    """A view holds all of the memory: a list of last positions is no list of wholes."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(5):
        with b.step():
            with b.op("aten::to", shapes=[[8, 512, 128], []], dtypes=["unsigned char", "Scalar"], us=100):
                b.memory(4 * 8 * 512 * 128, device=-1)
            run(b, "aten::select", [8, 512, 128], [], [], values=["", "1", "-1"], us=1)
            run(b, "aten::mm", [8, 128], [128, 8])
    assert [row["kind"] for row in rows(b, tmp_path)] == ["late-pick"] * 5


def test_shapes_that_operators_make() -> None:
    assert _made("aten::mul", ((8, 1), (1, 4))) == (8, 4)
    assert _made("aten::add", ((8, 4), (4,), ())) == (8, 4)
    assert _made("aten::linear", ((2, 3, 8), (16, 8))) == (2, 3, 16)
    assert _made("aten::addmm", ((16,), (6, 8), (8, 16))) == (6, 16)
    assert _made("aten::mul", ((), ())) is None
    assert _made("aten::sum", ((8, 4),)) is None


def test_a_cut_of_a_cut_takes_what_the_last_one_leaves(tmp_path: Path) -> None:
    """A half of each of three dimensions: an eighth in all, though the first slice alone takes a half."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mul", [64, 64, 128], [])
        run(b, "aten::slice", [64, 64, 128], [], [], [], [], values=["", "0", "0", "32", "1"], us=1)
        run(b, "aten::slice", [32, 64, 128], [], [], [], [], values=["", "1", "16", "48", "1"], us=1)
        run(b, "aten::slice", [32, 32, 128], [], [], [], [], values=["", "2", "-64", "9223372036854775807", "1"], us=1)
    (row,) = rows(b, tmp_path)
    assert (row["cost_ns"], row["part"]) == (100_000, pytest.approx(7 / 8))


def test_the_only_picture_of_a_batch_is_all_of_it(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::mul", [1, 512, 1024], [])
        run(b, "aten::select", [1, 512, 1024], [], [], values=["", "0", "0"], us=1)
        run(b, "aten::add", [512, 1024], [], [])
        run(b, "aten::slice", [512, 1024], [], [], [], [], values=["", "0", "0", "64", "1"], us=1)
    (row,) = rows(b, tmp_path)
    assert (row["cost_ns"], row["part"]) == (200_000, pytest.approx(7 / 8))


def test_a_grid_is_as_large_as_the_warp_that_it_is_made_for(tmp_path: Path) -> None:
    """The warp takes three channels of the grid's places; both go with it."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        run(b, "aten::affine_grid_generator", [1, 2, 3], [], [], values=["", "[1, 3, 512, 512]", "False"])
        run(b, "aten::grid_sampler", [1, 3, 256, 256], [1, 512, 512, 2], [], [], [], us=300)
        run(b, "aten::slice", [1, 3, 512, 512], [], [], [], [], values=["", "2", "0", "64", "1"], us=1)
    (row,) = rows(b, tmp_path)
    assert (row["cost_ns"], row["part"]) == (400_000, pytest.approx(7 / 8))
    assert _made("aten::grid_sampler", ((1, 3, 256, 256), (1, 512, 512, 2), ())) == (1, 3, 512, 512)


def catalogue(b: TraceBuilder, *, picked: int = 16, used: bool = False, count: int = 20_000) -> None:
    """64 rows by all *count* columns, which a layer makes of a table's rows; *picked* numbers of each row are gathered."""
    table, whole = [count, 32], [64, count]
    with b.step():
        run(b, "aten::embedding", table, [count], [], [], [], us=200)
        run(b, "aten::addmm", [32], table, [32, 32], [], [], us=1000)
        run(b, "aten::t", table, us=1)
        run(b, "aten::matmul", [64, 32], table[::-1], us=500)
        if used:
            run(b, "aten::mean", table, [], us=10)
        with b.op("aten::gather", shapes=[whole, [], [64, picked], []], values=["", "1", "", "False"], us=10):
            b.memory(4 * 64 * picked, device=-1)
        run(b, "aten::_log_softmax", [64, picked], [], [], us=10)


def test_numbers_of_a_product_over_a_catalogue(tmp_path: Path) -> None:
    """One number by itself takes as long as 60 of the product; of the 20,000 rows at most 1,024 are needed."""
    b = TraceBuilder(None, host_us=0)
    catalogue(b)
    rows_made, product = sorted(rows(b, tmp_path), key=lambda row: row["start_ns"])
    assert (rows_made["cost_ns"], rows_made["part"], rows_made["detail"]) == (
        1_200_000,
        pytest.approx(1 - 1024 / 20_000),
        "matmul",
    )
    assert (product["cost_ns"], product["part"], product["detail"]) == (
        510_000,
        pytest.approx(1 - 60 * 16 / 20_000),
        "gather",
    )


def test_many_numbers_of_a_product_are_computed_as_a_whole(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    catalogue(b, picked=400)
    assert rows(b, tmp_path) == []


def test_rows_that_others_need_too_are_made(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    catalogue(b, used=True)
    (product,) = rows(b, tmp_path)
    assert product["cost_ns"] == 510_000


def test_a_recording_is_searched_once_for_its_samples_and_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for a sample, of which 64 of 4,096 rows are taken, and the frame of patterns ask for the same: 300 us, less 1/64."""
    search, trees = late_pick._search, []
    monkeypatch.setattr(late_pick, "_search", lambda tree: (trees.append(tree), search(tree))[1])
    b = TraceBuilder(None, host_us=0)
    with b.step(), b.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        run(b, "aten::mul", WHOLE, [], us=300)
        selected(b, 64)
        run(b, "aten::mm", [64, 128], [128, 8], us=99)
    trace = advisor.read(b.write(tmp_path / "trace.json"))
    assert trace.frame("loader")["late_share"].tolist() == [pytest.approx(295_312 / 400_000)]
    assert trace.frame("patterns")["kind"].tolist() == ["late-pick"]
    assert len(trees) == 1
