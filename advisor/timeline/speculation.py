"""Worth of speculative decoding in an engine's batches: what drafting takes, and how many tokens a sequence keeps of each batch.

A batch that verifies drafts computes several tokens a sequence and keeps one at least. vLLM may annotate how long its sequences
are, all together: from one batch to the next of the same sequences that grows by what is kept. Where it does not, the tokens that
a batch computes are the most. To verify drafts takes no less than to decode a token: without drafts a batch would take at most
what is left of it beside drafting, and keep one token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints
from advisor.timeline.batches import Batches, batches
from advisor.timeline.context import Context
from advisor.timeline.engines import DECODE

_LEAST_SEEN = 20
"""Sequences, counted in each batch, from which on what they keep is known: fewer may be a lucky stretch."""
_LEAST_BATCHES = 2


class Speculation(NamedTuple):
    """Means over the batches that draft: tokens *kept* a sequence and batch (the most that it can be, where *told* is false),
    from how many drafts are *worth* it, and the part of the drafting time, *lost*, that they do not return."""

    kept: float
    told: bool
    worth: float
    lost: float


def speculation(context: Context) -> Speculation | None:
    """Weigh what drafts cost against what they return; None where nothing is drafted, or not known how many tokens are."""
    found = context.once(batches)
    begun, drafting_ns = _times(context, found)
    drafted = (drafting_ns > 0) & found.is_in(DECODE) & (found.sequences > 0) & (found.tokens > found.sequences)
    # From the start of a batch to that of the next one: what lies between them comes with every batch.
    follows = np.append(drafted[1:], False) & (np.append(begun[1:], -1) > begun)
    rows = np.flatnonzero(drafted & follows)
    if len(rows) < _LEAST_BATCHES:
        return None
    drafting = int(drafting_ns[rows].sum())
    rest = int((begun[rows + 1] - begun[rows]).sum()) - drafting
    if rest <= 0:
        return None
    kept = _kept(found, rows)
    told = kept is not None
    most = float(found.tokens[rows].sum() / found.sequences[rows].sum())
    kept = most if kept is None else kept
    return Speculation(kept, told, 1 + drafting / rest, float(np.clip(1 - (kept - 1) * rest / drafting, 0, 1)))


def _times(context: Context, found: Batches) -> tuple[Ints, Ints]:
    """Start of each batch's first GPU work, -1 without any; and ns from the first to the last of its work that drafts."""
    work, size = context.recording.work, len(found.node)
    never = int(np.iinfo(np.int64).max)

    def edges(rows: Ints) -> tuple[Ints, Ints]:
        first, last = np.full(size, never), np.full(size, -1, np.int64)
        np.minimum.at(first, found.of_work[rows], work.start[rows])
        np.maximum.at(last, found.of_work[rows], work.end[rows])
        return np.where(last >= 0, first, -1), last

    own: Bools = found.of_work >= 0
    begun, _ = edges(np.flatnonzero(own))
    first, last = edges(np.flatnonzero(own & found.drafts))
    return begun, np.where(first >= 0, last - first, 0)


def _kept(found: Batches, rows: Ints) -> float | None:
    """Tokens that a sequence keeps of a batch, by how the sequences grow; None where the engine does not say, or of too few."""
    after = rows + 1
    same = (found.sequences[rows] == found.sequences[after]) & (found.tokens[rows] == found.tokens[after])
    same &= (found.context[rows] > 0) & (found.context[after] > 0)
    grown = found.context[after] - found.context[rows]
    # Where one sequence ends and another begins, all together grow by no such number.
    same &= (grown >= found.sequences[rows]) & (grown <= found.tokens[rows])
    seen = int(found.sequences[rows[same]].sum())
    return float(grown[same].sum() / seen) if seen >= _LEAST_SEEN else None
