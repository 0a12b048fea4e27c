"""Beginnings and ends of slices, as a Perfetto trace has them: which end belongs to which beginning.

torch writes all beginnings of a kind of events and then all their ends, in the same order, whatever their times: there the k-th
end is that of the k-th beginning on a track. A trace that was written as its program ran has them by time, and there an end
belongs to the slice that was opened last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
OPEN = np.iinfo(np.int64).min
"""End of a slice that none was found for."""


def ends(is_end: npt.NDArray[np.bool_], time: Ints, track: Ints) -> tuple[Ints, int]:
    """The end of each beginning, in the order of the beginnings; ``OPEN`` where none is. Returns also the ends that are left.

    *is_end*, *time* (ns) and *track* are those of all beginnings and ends, as they stand in the file.
    """
    begins = np.flatnonzero(~is_end)
    found = np.full(len(is_end), OPEN)
    if not len(begins):
        return found[begins], int(is_end.sum())
    # A run of beginnings and the run of ends behind it are a block.
    block = np.cumsum(~is_end & np.concatenate([[True], is_end[:-1]]))
    unordered = (np.diff(time) < 0) & (np.diff(block) == 0)
    blocked = bool(unordered.any())
    if not blocked:
        block = np.zeros(len(is_end), np.int64)
    # Tracks are numbered first: pairs of numbers are sorted ten times as fast as pairs of rows.
    _, lane = np.unique(track, return_inverse=True)
    _, key = np.unique(block * (int(lane.max()) + 1) + lane, return_inverse=True)
    count = np.bincount(key[begins]), np.bincount(key[is_end], minlength=int(key.max()) + 1)
    opened = np.zeros(int(key.max()) + 1, np.int64)
    opened[: len(count[0])] = count[0]
    in_turn = np.zeros(len(opened), np.bool_)
    if blocked:
        # Of the last block, the ends may be cut off.
        last = np.zeros(len(opened), np.bool_)
        last[key[block == block[-1]]] = True
        in_turn = (opened == count[1]) | (last & (opened > count[1]))
        in_turn &= ~_pair_in_turn(is_end, time, key, in_turn, found)
    rows = np.flatnonzero(~in_turn[key])
    if len(rows):
        _stack(is_end, time, key, rows, found)
    matched = int((found[begins] != OPEN).sum())
    return found[begins], int(is_end.sum()) - matched


def _pair_in_turn(
    is_end: npt.NDArray[np.bool_], time: Ints, key: Ints, wanted: npt.NDArray[np.bool_], found: Ints
) -> npt.NDArray[np.bool_]:
    """Pair the k-th with the k-th, into *found*. Returns the keys where an end comes before its beginning."""
    wrong = np.zeros(len(wanted), np.bool_)
    rows = np.flatnonzero(wanted[key])
    begin, end = rows[~is_end[rows]], rows[is_end[rows]]
    begin, end = begin[np.argsort(key[begin], kind="stable")], end[np.argsort(key[end], kind="stable")]
    # Each end finds the beginning of its key and turn: beginnings are sorted by both.
    partner = begin[np.searchsorted(key[begin], key[end]) + _turn(key[end])] if len(end) else end
    wrong[key[end[time[end] < time[partner]]]] = True
    right = ~wrong[key[end]]
    found[partner[right]] = time[end[right]]
    return wrong


def _turn(key: Ints) -> Ints:
    """Number the rows of each key from 0; *key* is sorted."""
    if not len(key):
        return key
    fresh = np.concatenate([[True], key[1:] != key[:-1]])
    start = np.flatnonzero(fresh)
    return np.arange(len(key)) - np.repeat(start, np.diff(np.append(start, len(key))))


def _stack(is_end: npt.NDArray[np.bool_], time: Ints, key: Ints, rows: Ints, found: Ints) -> None:
    """Pair each end with the slice that was opened last, into *found*, in the order of time."""
    rows = rows[np.lexsort((rows, time[rows], key[rows]))]
    found[rows] = OPEN
    opened: list[int] = []
    before = -1
    for row, end, track in zip(rows.tolist(), is_end[rows].tolist(), key[rows].tolist(), strict=True):
        if track != before:
            opened.clear()
            before = track
        if not end:
            opened.append(row)
        elif opened:
            found[opened.pop()] = time[row]
