"""Matching of the same collective on different ranks: by process group, and by its order in that.

Ranks need not have recorded the same stretch: the order of one rank is shifted against that of another until kinds and
sizes agree. Where several shifts agree (steps are alike), the number in the group, the number of the step, and then the
steadiness of the ends decide: all ranks leave a collective together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from advisor.intervals import Bools, Ints, coded, distinct
from advisor.ranks.digest import Digest

Texts = npt.NDArray[np.object_]

LEAST_SHARED = 3
"""Collectives that two ranks must share: fewer do not show whether their clocks can be compared."""
LEAST_AGREE = 0.9
"""Share of collectives whose kinds and sizes must agree, for two ranks to be seen as running the same sequence."""
_MAX_SHIFTS = 512
# Ends differ by what the last chunk of a message takes to arrive: tens of us between GPUs of one machine.
_STEADY_NS = 50_000
WOKEN_NS = 20_000_000
"""On the CPU a thread leaves a collective when a core is free: ends are apart by as much as some turns of the scheduler."""
_FAR_STEADIER = 10
_BASES = 8
# Collectives that a first look at a shift compares, and how much more than wanted they may scatter.
_STRETCH, _COARSE = 256, 4.0
# Kinds whose message is as large on each rank.
_ALIKE = ("all_reduce", "broadcast")


class Order(Struct, frozen=True):
    """The collectives of one group on one rank, in order: indices into the digest's table, and what tells them apart."""

    member: int
    rows: Ints
    kind: Ints
    size: Ints
    end: Ints
    step: Ints
    seq: Ints
    on_cpu: bool = False

    def __len__(self) -> int:
        return len(self.rows)


class Group(Struct, frozen=True):
    """A process group: ``rows[c, m]`` is the row that collective *c* is in the digest of ``members[m]``; -1 where missing."""

    name: str
    members: list[int]
    base: int
    rows: Ints


KINDS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "broadcast", "reduce", "other",
)  # fmt: skip
TOGETHER = 5
"""Codes below this are of kinds in which every rank waits for every other."""
_OTHER = len(KINDS) - 1


def match(digests: Sequence[Digest]) -> tuple[list[Group], list[tuple[str, int]]]:
    """The groups with their collectives; and which rank (by its index) runs no sequence like the others of a group."""
    sequences: dict[str, list[Order]] = {}
    for member, digest in enumerate(digests):
        for name, sequence in _sequences(member, digest):
            sequences.setdefault(name, []).append(sequence)
    groups: list[Group] = []
    strange: list[tuple[str, int]] = []
    for name, orders in sequences.items():
        if len(orders) < 2:
            continue
        base, shifts = _shifts(orders)
        strange += [(name, order.member) for order in orders if order.member not in shifts and len(shifts) > 1]
        matched = [order for order in orders if order.member in shifts]
        if len(matched) > 1:
            groups.append(_group(name, base, matched, shifts))
    return groups, strange


def _shifts(orders: Sequence[Order]) -> tuple[Order, dict[int, int]]:
    """The order that most others are like, the longest first, and how far each that is like it is shifted."""
    best: tuple[Order, dict[int, int]] = (orders[0], {})
    for base in sorted(orders, key=lambda order: (-len(order), order.member))[:_BASES]:
        shifts = {base.member: 0}
        for other in orders:
            if other is not base and (shift := find_shift(base, other)) is not None:
                shifts[other.member] = shift
        if len(shifts) > len(best[1]):
            best = (base, shifts)
        if 2 * len(shifts) > len(orders):
            break
    return best


def _group(name: str, base: Order, orders: Sequence[Order], shifts: dict[int, int]) -> Group:
    low = min(shifts.values())
    high = max(shifts[sequence.member] + len(sequence) for sequence in orders)
    rows = np.full((high - low, len(orders)), -1, np.int64)
    for column, sequence in enumerate(orders):
        first = shifts[sequence.member] - low
        rows[first : first + len(sequence), column] = sequence.rows
    shared = (rows >= 0).sum(axis=1) > 1
    members = [sequence.member for sequence in orders]
    return Group(name, members, members.index(base.member), rows[shared])


def _sequences(member: int, digest: Digest) -> list[tuple[str, Order]]:
    """The collectives of one rank, by group."""
    table = digest.collectives
    if table.empty:
        return []
    names = labels(digest)
    codes = kind_codes(digest)
    size = table["bytes"].fillna(-1).to_numpy(np.int64)
    size = np.where(np.isin(codes, [KINDS.index(kind) for kind in _ALIKE]), size, -1)
    end = digest.zero_ns + table["start_ns"].to_numpy(np.int64) + table["dur_ns"].to_numpy(np.int64)
    at = table["step"].to_numpy(np.int64)
    number_of = digest.step_numbers
    step = np.where((at >= 0) & (at < len(number_of)), number_of[np.clip(at, 0, max(len(number_of) - 1, 0))], -1)
    seq = table["seq"].fillna(-1).to_numpy(np.int64)
    sequences = []
    for name in dict.fromkeys(names.tolist()):
        rows = np.flatnonzero(names == name)
        parts = (codes[rows], size[rows], end[rows], step[rows], seq[rows])
        sequences.append((str(name), Order(member, rows, *parts, on_cpu=digest.on_cpu)))
    return sequences


def labels(digest: Digest) -> Texts:
    """The group of each collective of a rank. A stream is one communicator's: it lends its name to rows that have none."""
    table = digest.collectives
    streams = table["stream"].to_numpy()
    names = _labels(table["group_name"], table["group_ranks"])
    for number, stream in enumerate(distinct(streams).tolist()):
        rows = streams == stream
        known = [name for name in names[rows].tolist() if name]
        usual = max(set(known), key=lambda name: (known.count(name), name)) if known else f"stream-{number}"
        names[rows & (names == "")] = usual
    return names


def _labels(names: pd.Series[str], ranks: pd.Series[str]) -> Texts:
    """Join what each row says of its group: name and ranks; empty where it says neither."""
    tables = [["", *map(str, column.cat.categories)] for column in (names, ranks)]
    first, second = (column.cat.codes.to_numpy(np.int64) + 1 for column in (names, ranks))
    pairs, which = coded(first * len(tables[1]) + second)
    texts = [
        " ".join(filter(None, (tables[0][pair // len(tables[1])], tables[1][pair % len(tables[1])])))
        for pair in pairs.tolist()
    ]
    return np.array(texts, dtype=object)[which]


def kind_codes(digest: Digest) -> Ints:
    """The kind of each collective of a rank, as its place in ``KINDS``; what is not named there is other."""
    kinds = digest.collectives["kind"]
    places = [KINDS.index(kind) if kind in KINDS else _OTHER for kind in kinds.cat.categories]
    codes: Ints = np.array([*places, _OTHER], np.int64)[kinds.cat.codes.to_numpy(np.int64)]  # -1, none, is the last
    return codes


# ---- how far the order of one rank is shifted against another's


def find_shift(base: Order, other: Order) -> int | None:
    """*s* such that collective *j* of *other* is collective *j + s* of *base*; None where no shift makes them agree."""
    likely = _candidates(base, other)
    scored = [(shift, *_score(base, other, shift)) for shift in likely]
    good = [entry for entry in scored if entry[1] >= LEAST_AGREE]
    steadiest = min((entry[2] for entry in good), default=np.inf)
    steady_ns = WOKEN_NS if base.on_cpu else _STEADY_NS
    if steadiest > steady_ns:
        # None of the likely ones is steady: one that nothing speaks for must be far steadier.
        unlikely = _promising(base, other, steadiest / _FAR_STEADIER)
        more = [(shift, *_score(base, other, shift)) for shift in unlikely if shift not in likely]
        good += [entry for entry in more if entry[1] >= LEAST_AGREE and entry[2] <= steadiest / _FAR_STEADIER]
        steadiest = min((entry[2] for entry in good), default=np.inf)
    if not good:
        return None
    # Shifts that are about as steady as the steadiest are alike: the likeliest of them comes first.
    return next(entry[0] for entry in good if entry[2] <= 2 * steadiest + steady_ns)


def _candidates(base: Order, other: Order) -> list[int]:
    """Shifts that something speaks for, the most telling first."""
    likely = []
    for ours, theirs in ((base.seq, other.seq), (base.step, other.step)):
        common = np.intersect1d(ours[ours >= 0], theirs[theirs >= 0])
        if len(common):
            own_first = np.array([int(np.argmax(ours == value)) for value in common[:64].tolist()])
            other_first = np.array([int(np.argmax(theirs == value)) for value in common[:64].tolist()])
            likely.append(int(np.median(own_first - other_first)))
    by_clock = int(np.median(np.searchsorted(base.end, other.end) - np.arange(len(other))))
    plain = [0, len(base) - len(other)]
    likely += [*plain, by_clock] if len(base) == len(other) else [by_clock, by_clock + 1, by_clock - 1, *plain]
    return list(dict.fromkeys(likely))


def _promising(base: Order, other: Order, wanted: float) -> list[int]:
    """Shifts at which the ends of a stretch scatter little enough, near zero first: all at once, before any is looked at whole.

    Half of the shorter order lies in every overlap that counts, so its first or its last stretch does.
    """
    short, long = (other, base) if len(other) <= len(base) else (base, other)
    wide = min(max(LEAST_SHARED, len(short) // 2), _STRETCH)
    if len(short) < wide or len(long) < wide:
        return []
    view = np.lib.stride_tricks.sliding_window_view(long.end, wide)
    shifts: set[int] = set()
    for first in {0, len(short) - wide}:
        starts = np.arange(len(view))
        starts = starts[np.argsort(np.abs(starts - first), kind="stable")][:_MAX_SHIFTS]
        apart = view[starts] - short.end[first : first + wide]
        scatter = np.median(np.abs(apart - np.median(apart, axis=1)[:, None]), axis=1)
        near = starts[scatter <= _COARSE * wanted] - first
        shifts.update((near if short is other else -near).tolist())
    return sorted(shifts, key=lambda shift: (abs(shift), shift))


def _score(base: Order, other: Order, shift: int) -> tuple[float, float]:
    """Share of the overlap in which kinds and sizes agree, and by how much the ends scatter there, in ns."""
    first, last = max(0, shift), min(len(base), shift + len(other))
    shorter = min(len(base), len(other))
    if last - first < max(min(LEAST_SHARED, shorter), shorter // 2):
        return 0.0, np.inf
    ours, theirs = slice(first, last), slice(first - shift, last - shift)
    same = _agree(base.kind[ours], other.kind[theirs], _OTHER) & _agree(base.size[ours], other.size[theirs], -1)
    if not same.any():
        return 0.0, np.inf
    apart = (other.end[theirs] - base.end[ours])[same]
    return float(same.mean()), float(np.median(np.abs(apart - np.median(apart))))


def _agree(ours: Ints, theirs: Ints, unknown: int) -> Bools:
    agree: Bools = (ours == theirs) | (ours == unknown) | (theirs == unknown)
    return agree
