"""Offsets between the clocks of the ranks: all ranks leave a collective together, so its ends tell.

The clock of one rank goes before that of another by the median difference of the ends of the collectives that both took
part in; how far the ends scatter around it says what can be read from the aligned times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.intervals import Bools, Ints
from advisor.ranks.digest import Digest
from advisor.ranks.matching import KINDS, LEAST_SHARED, TOGETHER, WOKEN_NS, Group, kind_codes

_SIGMA = 1.4826
_ODD_TIMES = 5.0
_ODD_NS = 100_000.0
_FAR = np.int64(1 << 62)
SIGMAS = 4.0
"""A lag is one where it exceeds the scatter of the clocks by so many standard deviations."""
IMPOSSIBLE_SHARE = 0.1
"""Share of collectives that may end before their last rank has come: more, and the ranks or the clocks are not what they seem."""
ONE_CLOCK_NS = 1_000_000
"""Ends of collectives agree by the clock of one host to some 20 us; hosts' clocks may differ by less than this, but seldom."""


class Clocks(Struct, frozen=True):
    """By rank: ns by which its clock goes before the first one's, how far ends scatter (robust standard deviation, ns),
    over how many collectives; and whether it can be compared at all."""

    offset_ns: Ints
    spread_ns: npt.NDArray[np.float64]
    shared: Ints
    linked: Bools
    odd: Bools

    @property
    def usable(self) -> Bools:
        """Ranks whose arrivals can be compared."""
        usable: Bools = self.linked & ~self.odd
        return usable


def ends(digest: Digest) -> Ints:
    """Ends of a rank's collectives by its own clock."""
    end: Ints = starts(digest) + digest.collectives["dur_ns"].to_numpy(np.int64)
    return end


def starts(digest: Digest) -> Ints:
    """Starts of a rank's collectives by its own clock."""
    start: Ints = digest.zero_ns + digest.collectives["start_ns"].to_numpy(np.int64)
    return start


def kinds_of(digests: Sequence[Digest], group: Group) -> Ints:
    """The kind of each collective of a group: what any of its ranks calls it."""
    out = np.full(len(group.rows), len(KINDS) - 1, np.int64)
    for column, member in enumerate(group.members):
        codes = kind_codes(digests[member])
        rows = group.rows[:, column]
        if len(codes):
            out = np.minimum(out, np.where(rows >= 0, codes[np.maximum(rows, 0)], out))
    return out


def align(digests: Sequence[Digest], groups: Sequence[Group]) -> Clocks:
    """Offsets of all clocks against that of the rank that shares most, through whichever groups join them."""
    count = len(digests)
    finish = [ends(digest) for digest in digests]
    edges: dict[int, list[tuple[int, int, float, int]]] = {member: [] for member in range(count)}
    for group in groups:
        together = kinds_of(digests, group) < TOGETHER
        hub, rows = group.members[group.base], group.rows
        for column, member in enumerate(group.members):
            both = together & (rows[:, column] >= 0) & (rows[:, group.base] >= 0)
            if member == hub or both.sum() < LEAST_SHARED:
                continue
            apart = finish[member][rows[both, column]] - finish[hub][rows[both, group.base]]
            # In whole ns: a float64 does not hold the difference of two clocks that count from different times.
            middle = int(np.sort(apart)[len(apart) // 2])
            spread = _SIGMA * float(np.median(np.abs(apart - middle)))
            edges[hub].append((member, middle, spread, int(both.sum())))
            edges[member].append((hub, -middle, spread, int(both.sum())))
    offset, spread_ns = np.zeros(count, np.int64), np.zeros(count)
    shared, linked = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    if not any(edges.values()):
        return Clocks(offset, spread_ns, shared, linked, linked.copy())
    first = max(edges, key=lambda member: (sum(edge[3] for edge in edges[member]), -member))
    linked[first] = True
    shared[first] = max(edge[3] for edge in edges[first])
    queue = [first]
    while queue:
        here = queue.pop(0)
        for member, apart_ns, spread, together_count in sorted(edges[here], key=lambda edge: -edge[3]):
            if linked[member]:
                continue
            linked[member] = True
            offset[member] = offset[here] + apart_ns
            spread_ns[member] = max(spread, spread_ns[here])
            shared[member] = together_count
            queue.append(member)
    if all(digest.on_cpu for digest in digests) and _is_one(digests, groups, offset[linked]):
        # What is nearer than that, either reading of the clocks leaves open.
        left_open = np.full(count, float(np.ptp(offset[linked])) / SIGMAS)
        return Clocks(np.zeros(count, np.int64), left_open, shared, linked, np.zeros(count, np.bool_))
    return Clocks(offset, spread_ns, shared, linked, _odd(spread_ns, linked, first))


def _is_one(digests: Sequence[Digest], groups: Sequence[Group], offset_ns: Ints) -> bool:
    """Tell whether ranks on the CPU go by one clock as it is: no collective ends before its last rank has come by it.

    Its threads leave a collective when a core is free, so ends are apart by more than those of GPUs.
    """
    if np.ptp(offset_ns) > WOKEN_NS:
        return False
    count = impossible = 0
    for group in groups:
        rows = group.rows[kinds_of(digests, group) < TOGETHER]
        there = rows >= 0
        begun = [
            np.where(there[:, at], starts(digests[member])[rows[:, at]], 0) for at, member in enumerate(group.members)
        ]
        left = [
            np.where(there[:, at], ends(digests[member])[rows[:, at]], _FAR) for at, member in enumerate(group.members)
        ]
        count += len(rows)
        impossible += int((np.min(left, axis=0) < np.max(begun, axis=0)).sum())
    return impossible <= IMPOSSIBLE_SHARE * count


def _odd(spread_ns: npt.NDArray[np.float64], linked: Bools, first: int) -> Bools:
    """Ranks whose ends scatter far more than those of most: theirs are other collectives, or their clock jumps."""
    others = linked.copy()
    others[first] = False
    if others.sum() < 2:
        return np.zeros(len(linked), np.bool_)
    usual = float(np.median(spread_ns[others]))
    odd: Bools = others & (spread_ns > np.maximum(_ODD_TIMES * usual, _ODD_NS))
    return odd
