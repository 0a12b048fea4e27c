"""Interval algebra against painting the line cell by cell."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.intervals import (
    Spans,
    alike,
    clip,
    coded,
    compact,
    complement,
    covered,
    distinct,
    exclusive,
    fetch,
    inside,
    intersect,
    narrow,
    subtract,
    union,
    without,
)  # fmt: skip

LINE = 40
Raw = list[tuple[int, int]]
raw_spans = st.lists(st.tuples(st.integers(0, LINE), st.integers(0, LINE)), max_size=12)


def arrays(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s for s, _ in raw], np.int64), np.array([e for _, e in raw], np.int64)


def paint(raw: Raw) -> set[int]:
    return {cell for start, end in raw for cell in range(start, end)}


def cells(spans: Spans) -> set[int]:
    return paint(list(zip(spans.start.tolist(), spans.end.tolist(), strict=True)))


def is_union(spans: Spans) -> bool:
    return bool((spans.end > spans.start).all() and (spans.start[1:] > spans.end[:-1]).all())


@given(raw_spans)
def test_union_covers_the_same_cells_with_disjoint_spans(raw: Raw) -> None:
    spans = union(*arrays(raw))
    assert cells(spans) == paint(raw)
    assert is_union(spans)
    assert spans.length == len(paint(raw))


@given(raw_spans, st.integers(0, LINE), st.integers(0, LINE))
def test_clip_and_complement_split_a_window(raw: Raw, low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    spans = union(*arrays(raw))
    window = set(range(low, high))
    assert cells(clip(spans, low, high)) == paint(raw) & window
    assert cells(complement(spans, low, high)) == window - paint(raw)


@given(raw_spans, raw_spans)
def test_intersect_and_subtract(a: Raw, b: Raw) -> None:
    first, second = union(*arrays(a)), union(*arrays(b))
    assert cells(intersect(first, second)) == paint(a) & paint(b)
    assert is_union(intersect(first, second))
    assert cells(subtract(first, second)) == paint(a) - paint(b)


@given(raw_spans, raw_spans)
def test_covered_counts_cells_of_each_span(cover: Raw, asked: Raw) -> None:
    painted = paint(cover)
    start, end = arrays(asked)
    expected = [len(painted & set(range(s, e))) for s, e in asked]
    assert covered(union(*arrays(cover)), start, end).tolist() == expected


@given(raw_spans, st.lists(st.integers(-2, LINE + 2), max_size=10))
def test_inside(raw: Raw, points: list[int]) -> None:
    painted = paint(raw)
    assert inside(union(*arrays(raw)), np.array(points, np.int64)).tolist() == [p in painted for p in points]


@given(st.lists(st.tuples(st.integers(0, LINE), st.integers(0, LINE), st.integers(0, 3)), max_size=12))
def test_exclusive_gives_every_cell_to_the_earliest_start_then_the_lowest_rank(
    rows: list[tuple[int, int, int]],
) -> None:
    start = np.array([r[0] for r in rows], np.int64)
    end = np.array([max(r[0], r[1]) for r in rows], np.int64)
    rank = np.array([r[2] for r in rows], np.int64)
    own = exclusive(start, end, rank)
    owners: dict[int, int] = {}
    order = sorted(range(len(rows)), key=lambda at: (start[at], rank[at], at))
    for at in order:
        for cell in range(start[at], end[at]):
            owners.setdefault(cell, at)
    expected = {at: {cell for cell, owner in owners.items() if owner == at} for at in range(len(rows))}
    got = {at: set(range(own.start[at], own.end[at])) for at in range(len(rows))}
    assert got == expected


def test_touching_spans_merge_and_empty_ones_vanish() -> None:
    spans = union(np.array([0, 5, 9, 20]), np.array([5, 7, 9, 15]))
    assert (spans.start.tolist(), spans.end.tolist()) == ([0], [7])


@given(st.lists(st.integers(-5, 5)))
def test_distinct_values_are_those_of_a_set(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
    assert distinct(np.array([str(value) for value in values], "U3")).tolist() == sorted(
        {str(value) for value in values}
    )


# Close together, a table tells them; far apart, a sort; at the ends of a type, neither may overflow.
whole = st.lists(st.one_of(st.integers(-9, 9), st.sampled_from([-(1 << 15), (1 << 15) - 1, 3000])), max_size=12)


@given(whole, st.sampled_from([np.int16, np.int32, np.int64]))
def test_codes_are_those_of_a_sorted_list(values: list[int], kind: type[np.signedinteger]) -> None:
    column = np.array(values, kind)
    found, codes = coded(column)
    assert found.tolist() == sorted(set(values)) == distinct(column).tolist()
    assert found.dtype == distinct(column).dtype == kind
    assert [found[code] for code in codes] == values


@given(st.lists(st.tuples(st.integers(-2, 3), st.sampled_from([-1, 0, 7, 1 << 40]), st.integers(0, 1)), max_size=12))
def test_rows_that_agree_are_of_one_kind_in_the_order_of_the_keys(rows: list[tuple[int, int, int]]) -> None:
    keys = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    first, of = alike(*keys)
    kinds = sorted(set(rows))
    assert [rows[at] for at in first.tolist()] == kinds
    assert first.tolist() == [rows.index(kind) for kind in kinds]
    assert [kinds[at] for at in of.tolist()] == rows


@given(whole, whole)
def test_what_is_left_without_others_is_a_difference_of_sets(values: list[int], others: list[int]) -> None:
    left = without(np.array(values, np.int64), np.array(others, np.int64))
    assert left.tolist() == sorted(set(values) - set(others))


@given(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(-3, 4), max_size=9))
def test_fetched_values_are_missing_where_the_index_is_negative(values: list[int], index: list[int]) -> None:
    index = [at for at in index if at < len(values)] if values else [-1 for _ in index]
    found = fetch(np.array(values, np.int32), np.array(index, np.int64), -7)
    assert found.tolist() == [values[at] if at >= 0 else -7 for at in index]


@given(st.lists(st.integers(0, 2), max_size=6))
def test_narrow_values_are_the_same_and_take_no_room_where_all_are_alike(values: list[int]) -> None:
    column = narrow(np.array(values, np.int64))
    assert (column.tolist(), column.dtype) == (values, np.int64)
    assert (column.strides == (0,)) == (len(set(values)) == 1) or len(values) < 2


def test_compact_holds_the_same_numbers_in_16_bits_where_it_can() -> None:
    for values, kind in (([-1, 7, 32767], "int16"), ([-32768], "int16"), ([-1, 32768], "int64"), ([], "int64")):
        held = compact(np.array(values, np.int64))
        assert (held.dtype.name, held.tolist()) == (kind, values)
    assert compact(np.array([0.5])).dtype == np.float64
    assert compact(np.array([5], np.int8)).dtype == np.int8
