"""Waiting for other ranks: what collectives of one size and group last beyond the fastest of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.frames import collectives
from advisor.frames.peers import peers
from advisor.intervals import Ints, summed
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL

MUCH = 0.15
"""Share of the steady time from which on a rank waits so much that what it does itself hardly sets the pace."""


told = collectives.exchange
"""Of the collectives, what tells waiting from exchanging."""


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


def rank_waits(context: Context) -> RankWaits | None:
    """Sum up how long this rank waits for others; None without enough collectives of one kind, size and group."""
    ledger = context.ledger
    known = context.once(told) if ledger.counted_ns else None
    if known is None or not len(known.work):
        return None
    waited, exchanged = _divided(context, known, np.flatnonzero(ledger.counted))
    return RankWaits(waited, waited / ledger.counted_ns, float(known.last.mean()), exchanged)


def waited_in(context: Context, segments: Ints) -> int:
    """Return the ns of some segments of the ledger in which this rank waits in collectives for others; 0 where it is not known."""
    known = context.once(told)
    return _divided(context, known, segments)[0] if len(known.work) else 0


def _divided(context: Context, known: collectives.Told, segments: Ints) -> tuple[int, int]:
    """Divide some segments of the ledger, as far as they are collectives that tell: ns of waiting, and of the exchange itself.

    To wait is what they last beyond the fastest of their kind, size and group.
    """
    work, ledger = context.recording.work, context.ledger
    own = segments[ledger.through("communication")[segments] & (ledger.row[segments] >= 0)]
    timed = np.concatenate([known.work, known.smaller])
    owned = summed(ledger.row[own], ledger.dur_ns[own], len(work))[timed]
    beyond = np.maximum((work.end - work.start)[timed] - np.concatenate([known.fastest, known.at_most]), 0)
    waited = int(np.minimum(beyond, owned).sum())
    return waited, int(owned.sum()) - waited


class Exposed(NamedTuple):
    """Facts of the kind of collective that most of the exposed communication is; None where one is not known.

    ``nbytes`` and ``dtype`` are of its largest exposed message. It is ``started_early`` where half of its exposed time lies in
    collectives beside which other work runs that was launched after them: nothing waited for these at once.
    """

    kind: str | None = None
    nbytes: int | None = None
    dtype: str | None = None
    started_early: bool | None = None


def exposed(context: Context) -> Exposed:
    """Describe the kind of collective that is exposed most."""
    rows, kind = collectives.communication(context), context.once(collectives.leading)
    if kind is None:
        return Exposed()
    _, sent, dtypes = context.once(collectives.told)
    of_kind = context.once(collectives.kinds) == [*collectives.NAMES, "other"].index(kind)
    staged = context.once(collectives.staged)
    chosen = np.flatnonzero(of_kind & (context.work_cost[rows] > 0) & ~staged.between & ~staged.across)
    largest = int(chosen[np.argmax(sent[chosen])])
    early = _started_early(context, rows[chosen])
    if sent[largest] < 0:
        return Exposed(kind, started_early=early)
    return Exposed(kind, int(sent[largest]), dtypes[largest], early)


def _started_early(context: Context, works: Ints) -> bool | None:
    """Tell it of some collectives; None where launches were not recorded."""
    work, host = context.recording.work, context.recording.host
    works = works[work.launch[works] >= 0]
    if not len(works):
        return None
    others = np.flatnonzero((work.kind == KERNEL) & ~work.communication & (work.launch >= 0))
    launched = host.start[work.launch[others]]
    beside = np.zeros(len(works), np.bool_)
    for at, row in enumerate(works.tolist()):
        # Work is in order of start.
        first, last = np.searchsorted(work.start[others], [work.start[row], work.end[row]])
        near = slice(int(first), int(last))
        later = launched[near] > host.start[work.launch[row]]
        beside[at] = bool((later & (work.device[others[near]] == work.device[row])).any())
    owned = context.work_cost[works]
    return bool(2 * owned[beside].sum() >= owned.sum())


def facts(context: Context) -> dict[str, float | str | None]:
    """Columns of `trace` on groups of ranks, and on waiting for others in them."""
    found, kind = context.once(rank_waits), context.once(exposed)
    sizes = context.once(collectives.told_sizes)
    return {
        "largest_group": int(sizes.max()) if len(sizes) and sizes.max() > 0 else None,
        "stage_count": None if context.once(peers).staged.any() else 0,
        "exposed_kind": kind.kind,
        "exposed_bytes": kind.nbytes,
        "exposed_dtype": kind.dtype,
        "exposed_started_early": kind.started_early,
        "rank_wait_share": found.wait_share if found else None,
        "rank_last_share": found.last_share if found else None,
    }
