"""Findings whose rows go with the fix of another: what lies inside its rows is not priced beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from advisor.engine.claims import Claim
from advisor.frames import FRAMES
from advisor.intervals import Ints
from advisor.timeline.context import Context
from advisor.timeline.ledger import BUSY


class Apart(NamedTuple):
    """Claims on what is left beside each other; and those with nothing left, with the rules that took it."""

    claims: list[Claim]
    gone: dict[str, tuple[str, ...]]


def apart(context: Context, claims: Sequence[Claim]) -> Apart:
    """Take from each claim the rows that lie inside those of the rules that it goes with."""
    by_rule = {claim.rule.id: claim for claim in claims}
    left: list[Claim] = []
    gone: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        takers = [by_rule[rule] for rule in claim.rule.gone_with if rule in by_rule]
        rest = _without(context, claim, takers) if takers else claim
        if rest is None:
            gone[claim.rule.id] = tuple(taker.rule.id for taker in takers)
        else:
            left.append(rest)
    return Apart(left, gone)


def _without(context: Context, claim: Claim, takers: Sequence[Claim]) -> Claim | None:
    frame = FRAMES[claim.rule.match.frame]
    if frame.rows.work is None:
        return claim
    works = frame.rows.work(context)
    taken = np.concatenate([_enclosed(context, taker) for taker in takers])
    inside = np.isin(works, taken)
    rows = claim.rows & ~inside
    if not rows.any():
        return None
    lost = context.ledger.owned(works[claim.rows & inside], *BUSY)
    segments = np.setdiff1d(claim.segments, lost, assume_unique=True)
    return replace(claim, rows=rows, segments=segments, cost_ns=int(context.ledger.dur_ns[segments].sum()))


def _enclosed(context: Context, taker: Claim) -> Ints:
    """The work that goes with a fix."""
    frame = FRAMES[taker.rule.match.frame]
    if frame.encloses is not None:
        return frame.encloses(context, taker.rows)
    if frame.rows.work is not None:
        return frame.rows.work(context)[taker.rows]
    return np.zeros(0, np.int64)
