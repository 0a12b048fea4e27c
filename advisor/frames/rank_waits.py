"""Waiting for other ranks: what collectives of one size and group last beyond the fastest of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.frames import collectives
from advisor.intervals import Bools, Ints, summed
from advisor.timeline.context import Context

MUCH = 0.15
"""Share of the steady time from which on a rank waits so much that what it does itself hardly sets the pace."""
_ENOUGH = 5
"""Collectives of one sort from which on the fastest of them says what the exchange itself takes."""
_FASTEST = 5
"""Percentile that stands for the fastest: one alone may be cut off."""
_LAST = 1.25
"""Times the fastest that a collective may last in which the rank waits for nobody: it came last."""


class RankWaits(NamedTuple):
    """Steady time in which this rank waits in collectives for others, as ns and share; and the share in which it came last.

    ``exchanged_ns`` is what is left of the same collectives, the exchange itself.

    ``waited_ns`` is only what no other work hides.
    """

    waited_ns: int
    wait_share: float
    last_share: float
    exchanged_ns: int = 0

    @property
    def holds(self) -> bool:
        """True where a fix of this rank's own work returns only what it delays the others by."""
        return self.wait_share >= MUCH


class Told(NamedTuple):
    """Collectives of which others of one kind, size and group tell the length of the exchange.

    ``work`` is an index into `Recording.work`, ``fastest`` the ns of the exchange itself, ``last`` flags those in which this
    rank waited for nobody. ``smaller`` are others of their kind and group, too few of their size to tell, that send no more than
    some of these: their exchange takes ``at_most`` so many ns.
    """

    work: Ints
    fastest: Ints
    last: Bools
    smaller: Ints
    at_most: Ints


def told(context: Context) -> Told:
    """Tell waiting from exchanging, collective by collective, on the busiest device, in order of start.

    A collective's kernel starts when its own rank arrives and ends when the last one has: the rank that comes last sees
    only the exchange, and all others their waiting too.
    """
    work, rows = context.recording.work, collectives.communication(context)
    here = np.flatnonzero(work.device[rows] == context.device)
    teller, sent, _ = context.once(collectives.told)
    keys = np.stack([context.once(collectives.kinds), sent, context.op_column(teller, "group_name")], axis=1)
    # Without a size nothing says that two take the same.
    here = here[sent[here] >= 0]
    if not len(here):
        return Told(here, here, np.zeros(0, np.bool_), here, here)
    dur = work.end[rows] - work.start[rows]
    sort = np.unique(keys[here], axis=0, return_inverse=True)[1].reshape(-1)
    fastest = np.full(len(here), -1, np.int64)
    for code in np.flatnonzero(np.bincount(sort) >= _ENOUGH).tolist():
        fastest[sort == code] = round(float(np.percentile(dur[here[sort == code]], _FASTEST)))
    smaller, at_most = _bounded(here, keys, fastest)
    here, fastest = here[fastest >= 0], fastest[fastest >= 0]
    order = np.argsort(work.start[rows[here]], kind="stable")
    here, fastest = here[order], fastest[order]
    return Told(rows[here], fastest, dur[here] <= _LAST * fastest, rows[smaller], at_most)


def beyond(context: Context) -> Ints:
    """Return for each piece of work the ns that it lasts beyond the exchange itself; -1 where nothing tells."""
    work, known = context.recording.work, context.once(told)
    out = np.full(len(work), -1, np.int64)
    for rows, exchange in ((known.work, known.fastest), (known.smaller, known.at_most)):
        out[rows] = np.maximum((work.end - work.start)[rows] - exchange, 0)
    return out


def _bounded(here: Ints, keys: Ints, fastest: Ints) -> tuple[Ints, Ints]:
    """Return those of some collectives whose own length is not told, and what larger ones of their kind and group allow them."""
    found, limits = [], []
    tellers = np.flatnonzero(fastest >= 0)
    for at in np.flatnonzero(fastest < 0).tolist():
        kind, sent, group = keys[here[at]].tolist()
        like = keys[here[tellers]]
        larger = (like[:, 0] == kind) & (like[:, 2] == group) & (like[:, 1] >= sent)
        if larger.any():
            found.append(int(here[at]))
            limits.append(int(fastest[tellers[larger]].min()))
    return np.array(found, np.int64), np.array(limits, np.int64)


def rank_waits(context: Context) -> RankWaits | None:
    """Sum up how long this rank waits for others; None without enough collectives of one kind, size and group."""
    work, ledger = context.recording.work, context.ledger
    known = context.once(told) if ledger.counted_ns else None
    if known is None or not len(known.work):
        return None
    counted = ledger.counted & ledger.through("communication") & (ledger.row >= 0)
    timed = np.concatenate([known.work, known.smaller])
    owned = summed(ledger.row[counted], ledger.dur_ns[counted], len(work))[timed]
    beyond = np.maximum((work.end - work.start)[timed] - np.concatenate([known.fastest, known.at_most]), 0)
    waited = int(np.minimum(beyond, owned).sum())
    exchanged = int(owned.sum()) - waited
    return RankWaits(waited, waited / ledger.counted_ns, float(known.last.mean()), exchanged)


def _exposed_kind(context: Context) -> str | None:
    """Name of the kind of collective that most of the exposed communication is."""
    rows = collectives.communication(context)
    if not len(rows):
        return None
    owned = context.work_cost[rows]
    names = [*collectives.NAMES, "other"]
    total = summed(context.once(collectives.kinds), owned, len(names))
    return names[int(np.argmax(total))] if owned.any() else None


def _exposed_bytes(context: Context) -> int | None:
    """Size of the largest exposed message of that kind; None where no size is known."""
    rows, kind = collectives.communication(context), _exposed_kind(context)
    if kind is None:
        return None
    sent = context.once(collectives.told)[1]
    of_kind = context.once(collectives.kinds) == [*collectives.NAMES, "other"].index(kind)
    sizes = sent[of_kind & (context.work_cost[rows] > 0)]
    return int(sizes.max()) if len(sizes) and sizes.max() >= 0 else None


def facts(context: Context) -> dict[str, float | str | None]:
    """Columns of `trace` on groups of ranks, and on waiting for others in them."""
    found = context.once(rank_waits)
    sizes = context.op_column(context.once(collectives.told)[0], "group_size")
    return {
        "largest_group": int(sizes.max()) if len(sizes) and sizes.max() > 0 else None,
        "exposed_kind": _exposed_kind(context),
        "exposed_bytes": _exposed_bytes(context),
        "rank_wait_share": found.wait_share if found else None,
        "rank_last_share": found.last_share if found else None,
    }
