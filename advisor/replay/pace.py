"""Pace of a rank among others: what a fix of one rank returns while others hold it up, and what there is to hide behind."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from advisor.engine.claims import Claim
from advisor.frames.rank_waits import rank_waits
from advisor.intervals import covered, union
from advisor.results.analysis import Saving
from advisor.timeline.context import Context

_HALF = 0.5
_OF_RANKS = ("collectives", "arrivals")
"""Frames whose rows are collectives: their fixes shorten what all ranks take part in."""


def own(context: Context, claim: Claim) -> float:
    """Return the part of what a fix saves on this rank that the job gains: below 1 where the rank mostly waits for others.

    A collective ends when its last rank has come. Work that this rank is spared before it lets it wait so much longer, but
    where it is the last itself.
    """
    found = None if claim.rule.match.frame in _OF_RANKS else context.once(rank_waits)
    return found.last_share if found is not None and found.holds else 1.0


def own_of_all(context: Context, claims: Sequence[Claim]) -> dict[str, float]:
    """Return that part for each of some fixes, by rule."""
    return {claim.rule.id: own(context, claim) for claim in claims}


def room_ns(context: Context, claim: Claim) -> float:
    """Return the ns of steady computation that nothing communicates beside: no more of a collective can hide."""
    replay = claim.rule.replay
    if replay is None or replay.action != "hide" or claim.rule.match.frame != "collectives":
        return math.inf
    return context.once(_computing_alone)


def clause(context: Context, claim: Claim) -> str:
    """Say, behind the basis of a price, that the rank waits for others; nothing where it does not."""
    found = context.once(rank_waits)
    if found is None or own(context, claim) >= 1:
        return ""
    some = "most" if found.last_share < _HALF else "some"
    return (
        f"; this rank waits for others in {some} collectives: it came last, or beside the last, into "
        f"{100 * found.last_share:.0f} % of them, and no more of the time is counted"
    )


def limited(context: Context, claim: Claim, saving: Saving, whole_ms: float) -> Saving:
    """Limit a saving that was not replayed in the same way."""
    part = own(context, claim)
    most = room_ns(context, claim) / max(context.ledger.counted_ns, 1) * whole_ms
    high = min(saving.high_ms, most) * part
    low = min(saving.low_ms * part, high)
    return msgspec.structs.replace(
        saving,
        low_ms=low,
        high_ms=high,
        low_share=low / whole_ms if whole_ms else 0.0,
        high_share=high / whole_ms if whole_ms else 0.0,
        basis=f"{saving.basis}{clause(context, claim)}",
    )


def _computing_alone(context: Context) -> float:
    """ns of steady computation on the busiest device beside which no collective runs."""
    ledger, work = context.ledger, context.recording.work
    compute = ledger.counted & ledger.through("compute")
    talks = work.communication & (work.device == ledger.device)
    beside = covered(union(work.start[talks], work.end[talks]), ledger.start_ns[compute], ledger.end_ns[compute])
    return float(np.sum(ledger.dur_ns[compute]) - beside.sum())
