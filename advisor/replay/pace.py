"""Pace of a rank among others: what a fix of one rank returns while others hold it up, and what there is to hide behind."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from advisor.engine.claims import Claim
from advisor.frames.rank_waits import rank_waits, told, waited_in
from advisor.intervals import Ints, Spans, covered, inside, union
from advisor.results.analysis import Saving
from advisor.timeline.context import Context
from advisor.timeline.owners import stopped_anywhere

_HALF = 0.5
_AT_ONCE_NS = 50_000
_OF_RANKS = ("collectives", "arrivals")
"""Frames whose rows are collectives: their fixes shorten what all ranks take part in."""


def own(context: Context, claim: Claim) -> float:
    """Return the part of what a claim owns that the job gains for sure: below 1 where the rank waits for others.

    A collective ends when its last rank has come. Work that this rank is spared before it lets it wait so much longer, but
    where it is the last itself, or where the change, which is one of the code, makes the others as much faster. A rank that came
    beside the last into some, and before it into most, hardly ever was the last: what made the others late goes on doing so.
    """
    found = None if claim.rule.match.frame in _OF_RANKS else context.once(rank_waits)
    if found is None or not found.holds:
        return 1.0
    if _by_chance(claim) or found.last_share < _HALF:
        return 0.0
    known, ledger = context.once(told), context.ledger
    dur = ledger.dur_ns[claim.segments]
    next_one = np.searchsorted(context.recording.work.start[known.work], ledger.start_ns[claim.segments])
    # Behind the last of them there is nobody to wait for.
    counts = np.append(known.last, True)[next_one]
    return float(dur[counts].sum() / dur.sum()) if dur.sum() else found.last_share


def _by_chance(claim: Claim) -> bool:
    """Tell whether what goes are stops of this rank's thread, and others' stop as well, at moments of their own.

    Those may hold the same collectives for as long: when the second to last rank comes, this rank's trace does not say.
    """
    replay = claim.rule.replay
    return replay is not None and bool(replay.late) and claim.rule.match.frame == "gaps"


def unsure(context: Context, claim: Claim) -> bool:
    """Tell whether a fix may change nothing for the job, though it does what it says for this rank."""
    found = context.once(rank_waits)
    return found is not None and found.holds and _by_chance(claim)


def late_ns(context: Context, claim: Claim) -> int:
    """Return the steady ns that this rank waits for others that the fix of a claim may make less late; 0 where it waits little.

    Stops make it wait for no more than all of the others are stopped, each for as long as this one is.
    """
    found = context.once(rank_waits)
    if found is None or not found.holds or claim.rule.replay is None or not claim.rule.replay.late:
        return 0
    if claim.rule.match.frame != "stalls":
        return found.waited_ns
    others = max(context.recording.metadata.world_size or 2, 2) - 1
    stops = context.once(stopped_anywhere)
    return min(found.waited_ns, others * int((stops.end - stops.start).sum()))


def returning(context: Context) -> Ints:
    """Return the ns of each segment of the ledger that come back where its work goes.

    None do beside a collective that goes on when all else is done: the device then waits for that a little longer. One that
    follows at once on its stream belongs to it.
    """
    ledger, work = context.ledger, context.recording.work
    talks = np.flatnonzero(work.communication & (work.device == ledger.device))
    if not len(talks) or not len(ledger.dur_ns):
        return ledger.dur_ns
    spans = _joined(union(work.start[talks], work.end[talks]))
    # Where the last moment of a span is communication's, it outlasts what runs beside it.
    last = np.searchsorted(ledger.start_ns, spans.end, side="left") - 1
    outlasts = ledger.through("communication")[last] & (last >= 0)
    hidden = inside(Spans(spans.start[outlasts], spans.end[outlasts]), ledger.start_ns)
    beside = hidden & ledger.busy & ~ledger.through("communication")
    return np.where(beside, 0, ledger.dur_ns)


def _joined(spans: Spans) -> Spans:
    """Spans of which those that follow each other within a launch's time are one."""
    if not len(spans.start):  # collectives of no length at all
        return spans
    first = np.flatnonzero(np.append(True, spans.start[1:] - spans.end[:-1] > _AT_ONCE_NS))
    return Spans(spans.start[first], spans.end[np.append(first[1:], len(spans.start)) - 1])


def room_ns(context: Context, claim: Claim) -> float:
    """Return the most ns of collectives that can hide: steady computation that nothing communicates beside.

    Nor is it more than the part that a fix assumes of the exchange itself: waiting for a late rank, where there is much of it,
    does not hide. A fix that makes ranks less late returns just that.
    """
    replay = claim.rule.replay
    if replay is None or replay.action != "hide" or claim.rule.match.frame != "collectives":
        return math.inf
    room, found = context.once(_computing_alone), context.once(rank_waits)
    if found is None or not found.holds or replay.late:
        return room
    exchanged = claim.cost_ns - waited_in(context, claim.segments)
    return min(room, replay.high * claim.returns[1] * exchanged)


def clause(context: Context, claim: Claim) -> str:
    """Say, behind the basis of a price, that the rank waits for others; nothing where it does not."""
    found = context.once(rank_waits)
    if found is None or not found.holds:
        return ""
    if claim.rule.match.frame in _OF_RANKS:
        if claim.rule.replay is None or claim.rule.replay.late:
            return ""
        return "; what is exchanged sooner lets the other ranks, too, come as much sooner to the next collective"
    if _by_chance(claim):
        return (
            "; the lower end is what curing this rank alone is sure to return: nothing, as it waits for others for "
            f"{100 * found.wait_share:.0f} % of the time, so that these are late too, and may hold the collectives that it came "
            "last into; the upper one is for all ranks cured"
        )
    came = f"it came last, or beside the last, into {100 * found.last_share:.0f} % of them"
    if found.last_share < _HALF:
        return (
            f"; this rank waits for others in most collectives: {came}; the lower end is what it returns where these stay as late, "
            "nothing, the upper one that the change makes all ranks as much faster"
        )
    return (
        f"; this rank waits for others in some collectives: {came}; the lower end counts only what is saved before those, the "
        "upper one that the change makes all ranks as much faster"
    )


def limited(context: Context, claim: Claim, saving: Saving, whole_ms: float) -> Saving:
    """Limit a saving that was not replayed in the same way."""
    part = own(context, claim)
    most = room_ns(context, claim) / max(context.ledger.counted_ns, 1) * whole_ms
    high = min(saving.high_ms, most)
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
