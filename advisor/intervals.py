"""Interval algebra on int64 nanosecond arrays: the arithmetic under every frame.

A set of spans is a pair of arrays ``(start, end)``. A *union* is such a pair, sorted, disjoint and free of empty spans.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[Any]]
Bools = npt.NDArray[np.bool_]


Scalar = TypeVar("Scalar", bound=np.generic)


def distinct(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Distinct values in order, as ``np.unique`` returns them.

    By sorting: the hashing of numpy 2.3 and later takes seventy times as long where millions of values differ (4 million: 5.2 s
    and 0.07 s), and whole numbers that lie close together by a table of them, as codes and indices do.
    """
    if len(table := _table(values)):
        return _listed(table, values)
    ordered = np.sort(values, axis=None)
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]


def _table(values: npt.NDArray[Any]) -> Bools:
    """Flags of the whole numbers from the least value on, true for those that there are; empty where these lie far apart."""
    if values.dtype.kind not in "iu" or not values.size:
        return np.zeros(0, np.bool_)
    low, high = int(values.min()), int(values.max())
    if high - low >= 4 * values.size + 1024 or high - low > np.iinfo(values.dtype).max:
        return np.zeros(0, np.bool_)
    table = np.zeros(high - low + 1, np.bool_)
    table[_from_least(values)] = True
    return table


def _from_least(values: npt.NDArray[Any]) -> Ints:
    """Whole numbers less the least of them."""
    less: Ints = values - values.min()
    return less


def _listed(table: Bools, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The numbers that a table of some values flags, of their type."""
    listed: npt.NDArray[Any] = np.flatnonzero(table).astype(values.dtype)
    listed += values.min()
    return listed


def coded(values: npt.NDArray[Scalar]) -> tuple[npt.NDArray[Scalar], Ints]:
    """Distinct values in order, and of each value which of them it is, as ``np.unique`` with ``return_inverse`` returns them."""
    if len(table := _table(values)):
        places: Ints = np.cumsum(table) - 1
        return _listed(table, values), places[_from_least(values)]
    found, codes = np.unique(values, return_inverse=True)
    return found, codes


def alike(*keys: Ints) -> tuple[Ints, Ints]:
    """Rows that agree in all *keys*: of each kind the first row, and of each row its kind, in the order of the keys."""
    kinds, of = coded(keys[0])
    for key in keys[1:]:
        found, codes = coded(key)
        # Made dense again each time: the product of a few counts stays far inside an int64.
        of *= len(found)
        of += codes
        del codes
        kinds, of = coded(of)
    first = np.zeros(len(kinds), np.int64)
    first[of[::-1]] = np.arange(len(of))[::-1]
    return first, of


def without(values: Ints, others: Ints) -> Ints:
    """Distinct *values* that are none of *others*, in order, as ``np.setdiff1d`` returns them."""
    found = distinct(values)
    return found[~np.isin(found, distinct(others), assume_unique=True)]


def narrow(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The same values: where all are alike, as one number that stands for every row and takes no room; not to be written to."""
    if len(values) and values.strides != (0,) and bool((values == values[0]).all()):
        return np.broadcast_to(values[0], values.shape)
    return values


def fitted(values: npt.NDArray[Scalar]) -> npt.NDArray[Any]:
    """The same whole numbers, in 32 bits where these hold them all."""
    if values.dtype != np.int64 or values.strides == (0,) or not len(values):
        return values
    bounds = np.iinfo(np.int32)
    return values.astype(np.int32) if bounds.min <= values.min() and values.max() <= bounds.max else values


def compact(values: npt.NDArray[Scalar]) -> npt.NDArray[Any]:
    """The same whole numbers, in 16 bits where these hold them all: codes and small counts of millions of rows."""
    if values.dtype.kind != "i" or values.dtype.itemsize <= 2 or values.strides == (0,) or not len(values):
        return values
    bounds = np.iinfo(np.int16)
    return values.astype(np.int16) if bounds.min <= values.min() and values.max() <= bounds.max else values


class Spans(NamedTuple):
    """Sorted disjoint spans, int64 ns, half open: ``start[i] <= t < end[i]``."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """Total time covered, in ns."""
        return int((self.end - self.start).sum())


EMPTY = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))


def union(start: Ints, end: Ints) -> Spans:
    """The union of any spans, in any order; empty and backward ones count for nothing. Touching spans merge."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    fresh = np.ones(len(start), np.bool_)
    fresh[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(start)) - 1
    return Spans(start[first], reach[last])


def clip(spans: Spans, low: int, high: int) -> Spans:
    """The part of *spans* inside ``[low, high)``."""
    start = np.clip(spans.start, low, high)
    end = np.clip(spans.end, low, high)
    keep = end > start
    return Spans(start[keep], end[keep])


def complement(spans: Spans, low: int, high: int) -> Spans:
    """The holes of *spans* inside ``[low, high)``."""
    inside = clip(spans, low, high)
    start = np.concatenate([np.array([low], np.int64), inside.end])
    end = np.concatenate([inside.start, np.array([high], np.int64)])
    keep = end > start
    return Spans(start[keep], end[keep])


def intersect(a: Spans, b: Spans) -> Spans:
    """Time that both unions cover."""
    if not len(a.start) or not len(b.start):
        return EMPTY
    edges = distinct(np.concatenate([a.start, a.end, b.start, b.end]))
    low, high = edges[:-1], edges[1:]
    both = inside(a, low) & inside(b, low)
    return union(low[both], high[both])


def subtract(a: Spans, b: Spans) -> Spans:
    """Time that *a* covers and *b* does not."""
    if not len(a.start) or not len(b.start):
        return a
    return intersect(a, complement(b, int(a.start[0]), int(a.end[-1])))


def inside(spans: Spans, points: Ints) -> Bools:
    """Flag the points that lie in the union."""
    if not len(spans.start):
        return np.zeros(len(points), np.bool_)
    at = np.searchsorted(spans.start, points, side="right") - 1
    return (at >= 0) & (points < spans.end[np.maximum(at, 0)])


def covered(spans: Spans, start: Ints, end: Ints) -> Ints:
    """For each ``[start, end)``, the ns of it that the union covers."""
    if not len(spans.start):
        return np.zeros(len(start), np.int64)
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(spans.end - spans.start)])

    def before(points: Ints) -> Ints:
        at = np.searchsorted(spans.start, points, side="right")
        overshoot: Ints = np.maximum(spans.end[np.maximum(at - 1, 0)] - points, 0)
        reached: Ints = total[at] - np.where(at > 0, overshoot, 0)
        return reached

    length: Ints = np.maximum(before(end) - before(start), 0)
    return length


def fetch(values: Ints, index: Ints, missing: int = -1) -> Ints:
    """``values[index]``; *missing* where the index is negative, which says that there is none."""
    if not len(values):
        return np.full(len(index), missing, np.int64)
    found: Ints = values.take(index, mode="clip")
    found = found.astype(np.result_type(values, missing), copy=False)
    found[index < 0] = missing
    return found


def starts_run(*keys: Ints) -> Bools:
    """Flag the entries that differ in any of *keys* from the one before, and the first."""
    fresh = np.ones(len(keys[0]), np.bool_)
    fresh[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return fresh


def summed(index: Ints, values: Ints | int, size: int) -> Ints:
    """Sum of *values* by *index*: *size* whole numbers."""
    total = np.zeros(size, np.int64)
    np.add.at(total, index, values)
    return total


def exclusive(start: Ints, end: Ints, rank: Ints) -> Spans:
    """Return the stretch that each of possibly overlapping spans owns when the earlier start owns, then the lower *rank*.

    Returns one span per input row, in the order of the input; empty (start == end) where a row owns nothing. Each row
    owns a single stretch, because whoever starts later only owns what lies beyond all that began before it.
    """
    order = np.lexsort((rank, start))
    end = np.maximum(start, end)
    reach = np.maximum.accumulate(end[order]) if len(order) else end
    own_start = start.copy()
    own_start[order[1:]] = np.maximum(start[order[1:]], reach[:-1])
    return Spans(np.minimum(own_start, end), end)
