"""Alignment of two sequences of kernels: the places of a reference that each place of a sequence surely stands for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.intervals import Ints

# Cells of the table of common subsequences: 2 tables of 2 bytes each, 40 MB.
MOST_CELLS = 10_000_000
# An exact run of so many kernels is no chance; shorter ones come up in programs that have nothing to do with it.
_LEAST_RUN = 8
# Sequences that share less are of different code.
_LEAST_SHARED = 0.8

_Table = npt.NDArray[np.uint16]


class Candidates(Struct, frozen=True):
    """Pairs of a place in the sequence and a place in the reference that can stand for it, ordered by the former.

    A place that has none is in no pair. One with several stands for any of them.
    """

    place: Ints
    reference: Ints


NOTHING = Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64))


def align(sequence: Ints, reference: Ints, *, whole: bool = False) -> Candidates:
    """Align *sequence* with *reference*, both codes of kernels, in the order in which they were launched.

    *whole* says that the reference begins and ends with the sequence, as a capture does: then equal ones are the same at any
    length. Otherwise an exact run is looked for first; then longest common subsequences, of which a place is kept that none of
    them skips, with all places that any of them pairs it with.
    """
    if not len(sequence) or not len(reference):
        return NOTHING
    if whole and np.array_equal(sequence, reference):
        every = np.arange(len(sequence), dtype=np.int64)
        return Candidates(every, every)
    if not whole and len(sequence) >= _LEAST_RUN and len(starts := _runs(sequence, reference)):
        every = np.arange(len(sequence), dtype=np.int64)
        return Candidates(np.repeat(every, len(starts)), (every[:, None] + starts[None, :]).ravel())
    shared = np.isin(sequence, reference).sum()
    if shared < _LEAST_SHARED * len(sequence) or (len(sequence) + 1) * (len(reference) + 1) > MOST_CELLS:
        return NOTHING
    return _common(sequence, reference)


def _runs(sequence: Ints, reference: Ints) -> Ints:
    """Places at which the sequence stands in the reference without a gap."""
    size = len(sequence)
    if size > len(reference):
        return np.zeros(0, np.int64)
    # The rarest kernel of the sequence leaves the fewest places to look at.
    codes, counts = np.unique(reference, return_counts=True)
    at = np.searchsorted(codes, sequence)
    known = (at < len(codes)) & (codes[np.minimum(at, len(codes) - 1)] == sequence)
    if not known.all():
        return np.zeros(0, np.int64)
    rarest = int(np.argmin(counts[at]))
    starts = np.flatnonzero(reference == sequence[rarest]) - rarest
    starts = starts[(starts >= 0) & (starts + size <= len(reference))]
    return np.array([s for s in starts.tolist() if np.array_equal(reference[s : s + size], sequence)], np.int64)


def _common(sequence: Ints, reference: Ints) -> Candidates:
    """Pairs of the places that every longest common subsequence holds."""
    before = _lengths(sequence, reference)
    behind = _lengths(sequence[::-1], reference[::-1])[::-1, ::-1]
    longest = int(before[-1, -1])
    if longest < _LEAST_SHARED * len(sequence):
        return NOTHING
    places, references = [], []
    for at, code in enumerate(sequence.tolist()):
        # Skipped by one of the longest: what stands for it is not known.
        if (before[at].astype(np.int64) + behind[at + 1] == longest).any():
            continue
        equal = np.flatnonzero(reference == code)
        fits = equal[before[at, equal].astype(np.int64) + 1 + behind[at + 1, equal + 1] == longest]
        places.append(np.full(len(fits), at, np.int64))
        references.append(fits.astype(np.int64))
    if not places:
        return NOTHING
    return Candidates(np.concatenate(places), np.concatenate(references))


def _lengths(sequence: Ints, reference: Ints) -> _Table:
    """Lengths of the longest common subsequences of all beginnings: (n + 1) x (m + 1)."""
    table = np.zeros((len(sequence) + 1, len(reference) + 1), np.uint16)
    for at, code in enumerate(sequence.tolist()):
        row = table[at].copy()
        row[1:] = np.maximum(row[1:], table[at, :-1] + (reference == code).astype(np.uint16))
        table[at + 1] = np.maximum.accumulate(row)
    return table
