"""Waiting for other ranks: what collectives of one size and group last beyond the fastest of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.frames import collectives
from advisor.intervals import summed
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

    ``waited_ns`` is only what no other work hides.
    """

    waited_ns: int
    wait_share: float
    last_share: float

    @property
    def holds(self) -> bool:
        """True where a fix of this rank's own work returns only what it delays the others by."""
        return self.wait_share >= MUCH


def rank_waits(context: Context) -> RankWaits | None:
    """Tell waiting from exchanging; None without enough collectives of one kind, size and group.

    A collective's kernel starts when its own rank arrives and ends when the last one has: the rank that comes last sees
    only the exchange, and all others their waiting too.
    """
    work, rows, ledger = context.recording.work, collectives.communication(context), context.ledger
    here = np.flatnonzero(work.device[rows] == context.device)
    if len(here) < _ENOUGH or not ledger.counted_ns:
        return None
    counted = ledger.counted & ledger.through("communication") & (ledger.row >= 0)
    owned = summed(ledger.row[counted], ledger.dur_ns[counted], len(work))[rows]
    teller, sent, _ = context.once(collectives.told)
    keys = np.stack([context.once(collectives.kinds), sent, context.op_column(teller, "group_name")], axis=1)
    # Without a size nothing says that two take the same.
    here = here[sent[here] >= 0]
    dur = work.end[rows] - work.start[rows]
    _, sort = np.unique(keys[here], axis=0, return_inverse=True)
    sort = sort.reshape(-1)
    waited = last = count = 0
    for code in np.flatnonzero(np.bincount(sort) >= _ENOUGH).tolist() if len(here) else ():
        at = here[sort == code]
        fastest = float(np.percentile(dur[at], _FASTEST))
        waited += int(np.minimum(np.maximum(dur[at] - fastest, 0), owned[at]).sum())
        last += int((dur[at] <= _LAST * fastest).sum())
        count += len(at)
    return RankWaits(waited, waited / ledger.counted_ns, last / count) if count else None


def facts(context: Context) -> dict[str, float | None]:
    """Columns of `trace` on waiting for other ranks."""
    found = context.once(rank_waits)
    return {
        "rank_wait_share": found.wait_share if found else None,
        "rank_last_share": found.last_share if found else None,
    }
