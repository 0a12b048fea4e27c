"""Depths of spans that were cut: worked out from those before, they are what they are worked out anew."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.intervals import Ints
from advisor.timeline import calls


def _spans(seed: int) -> tuple[Ints, Ints]:
    """Spans of one thread that overlap in every way, some without length, many of them at the same ns."""
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 300, 400))
    end = start + random.integers(0, 1 + 10 ** random.integers(0, 3, 400))
    order = np.lexsort((-end, start))
    return start[order], end[order]


@pytest.mark.parametrize("seed", range(40))
def test_depths_of_cut_spans_are_those_worked_out_anew(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, end = _spans(seed)
    python = np.random.default_rng(seed + 1).random(len(start)) < 0.5
    known: list[bool] = []
    shallower = calls._shallower

    def seen(depth: Ints, *more: Ints) -> Ints | None:
        found = shallower(depth, *more)
        known.append(found is not None)
        return found

    monkeypatch.setattr(calls, "_shallower", seen)
    one = calls._nest_all(start, end, python)
    assert known
    monkeypatch.setattr(calls, "_shallower", lambda *_: None)
    other = calls._nest_all(start, end, python)
    for name, mine, theirs in zip(("depth", "parent", "end"), one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


def test_a_cut_makes_what_begins_behind_it_shallower() -> None:
    """A span 0-10 that ends at 4 from now on: of spans that begin at 2, 4, 6 and 10 those at 4 and 6 are no longer in it."""
    start = np.array([0, 2, 4, 6, 10])
    depth = np.array([0, 1, 1, 1, 0], np.int32)
    cut = np.array([0])
    found = calls._shallower(depth, start, cut, np.array([10]), np.array([4]))
    assert found is not None
    assert found.tolist() == [0, 1, 0, 0, 0]


def test_depths_are_worked_out_anew_where_a_cut_leaves_nothing() -> None:
    cut = np.array([1])
    assert calls._shallower(np.zeros(2, np.int32), np.array([0, 4]), cut, np.array([10]), np.array([4])) is None


def test_no_cut_leaves_depths_as_they_are() -> None:
    none = np.zeros(0, np.int64)
    found = calls._shallower(np.array([0, 1], np.int32), np.array([0, 4]), none, none, none)
    assert found is not None
    assert found.tolist() == [0, 1]
