"""Waiting for larger batches: a rank waits in collectives where its own batch is small, as its trace alone shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.frames.schema import real
from advisor.intervals import Bools, Ints, Spans, covered, summed
from advisor.regex import regex
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]
_TENSOR = regex(r"\[(\d{1,9}(?:,\d{1,9})*)\]")
_LEAST_STEPS = 5
_UNEVEN = 0.1
"""Variation (deviation over mean) of the batches' sizes, and of the time that a rank computes, from which on they differ."""
_EXPLAINED = 0.5
"""Part of the variance of that time that the size explains, from which on the batch is what the time depends on."""
_WAITS = 0.05
"""Share of its step that a rank waits from which on it was not the last to come, nor close to it."""
_CHANCE = 1.64
"""Deviations that the small batches of the steps in which it waits are away from those that chance would choose: one in twenty. Two
steps of each kind can do that, one cannot."""
_LOADING = 0.3
"""Part of the waiting that the rank's own waiting for its loader may be: another one's loader would keep it waiting as well."""
_SELDOM = 0.4
"""Part of the longest stay in collectives that the shortest may be. What is more is not in turn: another rank is always late, or
the network is slow."""
_STARTS = 0.1
"""Share of a step from which on start-up makes it unlike others."""


OF_BATCHES = ("all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "barrier")
"""Kinds in which ranks with batches of their own meet. Exchanges of tokens and tables have loads of their own."""
_OTHERS = 0.1
"""Part of the communication's cost that other kinds may have."""

COLUMN = real("uneven_share", "share", "of cost_ns: waiting for another rank's larger batch. Its own batches vary, it computes the "
              "longer the larger they are, and waits the less. No more than its part of the steps: of two each waits in half; "
              "0 where that does not show")  # fmt: skip


class Stays(NamedTuple):
    """Collectives of a rank: the time in which any is in flight; of each its step, cost in ns, and a flag of its kind."""

    spans: Spans
    step: Ints
    cost: Ints
    of_batches: Bools


def waited_share(context: Context, stays: Stays) -> Floats:
    """Share of the cost of each collective in which its rank waits for another one's larger batch; 0 where that does not show.

    The stay in collectives of the step in which it is shortest is the exchange: there the rank came last. What a step stays
    longer is waiting, but for what work hides; its longest collectives have it. The rank's batches must explain the waiting: the
    larger a batch, the longer the rank computes, and the shorter it waits. Where the exchange alone is slow, and hides less behind
    short backward passes, the stay is the same in all steps. Where a rank waits for a loader or a slow core of another's, its own
    batch has nothing to do with it.
    """
    cost, out = stays.cost, np.zeros(len(stays.cost))
    waited = None if cost[~stays.of_batches].sum() > _OTHERS * cost.sum() else _waited(context, stays.spans)
    if waited is None:
        return out
    left = waited.copy()
    for row in np.argsort(-cost, kind="stable").tolist():
        at = int(stays.step[row])
        if stays.of_batches[row] and at >= 0 and cost[row] > 0:
            taken = min(int(left[at]), int(cost[row]))
            left[at] -= taken
            out[row] = taken / cost[row]
    return out * _part(context, waited)


def _part(context: Context, waited: Ints) -> float:
    """Part of the waiting that goes in the long run: ranks wait in turn, each in all steps but one of as many as there are ranks.

    Of few recorded steps it may have waited in more. 1 where it did not, or the number of ranks is unknown.
    """
    ranks, steps = context.metadata.world_size or 0, np.diff(context.recording.bounds)
    waits = float((waited > _WAITS * steps).mean())
    return min((1 - 1 / ranks) / waits, 1.0) if ranks > 1 and waits else 1.0


def _waited(context: Context, spans: Spans) -> Ints | None:
    """ns of each step in which the rank waits for larger batches of others; None where it does not show that it does."""
    ledger, bounds = context.ledger, context.recording.bounds
    count = len(bounds) - 1
    if not context.recording.steps or count < _LEAST_STEPS:
        return None

    def owned(cause: str) -> Ints:
        chosen = ledger.through(cause) & (ledger.step >= 0)
        return summed(ledger.step[chosen], ledger.dur_ns[chosen], count)

    usual = owned("startup") <= _STARTS * np.diff(bounds)
    stay = covered(spans, bounds[:-1], bounds[1:])
    if usual.sum() < _LEAST_STEPS or stay[usual].min() > _SELDOM * stay[usual].max():
        return None
    waited: Ints = np.minimum(owned("communication"), np.maximum(stay - stay[usual].min(), 0))
    waits = (waited > _WAITS * np.diff(bounds))[usual]
    if not 0 < waits.sum() < len(waits) or owned("loader")[usual].sum() > _LOADING * waited[usual].sum():
        return None
    time, size = owned("compute")[usual].astype(np.float64), _sizes(context, usual)
    if min(time.std() - _UNEVEN * time.mean(), size.std() - _UNEVEN * size.mean()) <= 0:
        return None
    alike = float(np.corrcoef(size, time)[0, 1])
    if alike < np.sqrt(_EXPLAINED):
        return None
    # What chance does to this rank's time, it does to the others'.
    chance = time.std() * np.sqrt(1 - min(alike, 1.0) ** 2)
    if waited[usual].std() <= chance or _smaller(size[waits], size[~waits]) < _CHANCE:
        return None
    return waited


def _smaller(some: Floats, others: Floats) -> float:
    """Tell by how much some sizes are smaller than others, in deviations of chance: the rank test of Mann and Whitney."""
    difference = others[:, None] - some
    pairs = len(some) * len(others)
    found = float((difference > 0).sum() + (difference == 0).sum() / 2)
    return (found - pairs / 2) / float(np.sqrt(pairs * (len(some) + len(others) + 1) / 12))


def _sizes(context: Context, chosen: Bools) -> Floats:
    """Elements of operands in each chosen step, but for tensors that all have as many of: weights."""
    nodes, texts = context.op_rows, context.shape_texts
    codes, step = context.op_column(nodes, "dims"), context.recording.host_step_of(context.recording.host.start[nodes])
    known = (codes >= 0) & (step >= 0) & (step < len(chosen))
    pairs, times = np.unique(np.stack([codes[known], step[known]]), axis=1, return_counts=True)
    tensors: dict[str, Ints] = {}
    for code, at, number in zip(*pairs.tolist(), times.tolist(), strict=True):
        for shape in _TENSOR.findall(texts[code]):
            tensors.setdefault(shape, np.zeros(len(chosen), np.int64))[at] += number
    size = np.zeros(int(chosen.sum()))
    for shape, each in tensors.items():
        counts = each[chosen]
        if (counts != counts[0]).any():
            size += counts * np.prod([float(part) for part in shape.split(",")])
    return size
