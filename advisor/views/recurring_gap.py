"""Search for one stretch of idle time that comes back in each step, and what comes behind it.

Beside many short gaps, that add up, one long one is another matter: something that the program does once a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, fetch, summed
from advisor.results.recurring_gap import RecurringGap
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import launch_behind
from advisor.timeline.marked import innermost_operator, marks, outermost_range
from advisor.views import owners

_FEWEST = 3
"""Steps from which on a stretch of each of them comes back."""
_EACH = 0.8
"""Of the steps: in so many there is one of like length."""
_ALIKE = 0.2
"""Of the median length: by how much lengths may differ that are alike."""
_DOMINATES, _LEAST = 1 / 3, 0.05
"""Of the device's idle time, and of the steps: what such stretches hold that are worth a line."""


class _Stretches(NamedTuple):
    """Idle stretches of steps that count: begin, end, the ns of it that count, the step of its end, and what findings leave."""

    start: Ints
    end: Ints
    ns: Ints
    step: Ints
    free_ns: Ints


def recurring_gap(context: Context, claims: Iterable[Ints]) -> RecurringGap | None:
    """Find the stretch of each step that holds a third of its idle time; None where there is none, or findings are about it.

    *claims* holds the segments of each finding.
    """
    ledger, recording = context.ledger, context.recording
    steps = ledger.counted_steps() if recording.steps and recording.devices else ()
    if len(steps) < _FEWEST or not ledger.counted_ns:
        return None
    found = _stretches(context, owners.unclaimed(ledger, claims))
    if not len(found.ns):
        return None
    counted = np.asarray(steps, np.int64)
    longest = _longest(found.step, found.ns, int(max(found.step.max(), counted.max())) + 1)[counted]
    middle = float(np.median(longest))
    chosen = np.abs(found.ns - middle) <= _ALIKE * middle
    total, held = int(found.ns.sum()), int(found.ns[chosen].sum())
    in_steps = len(np.unique(found.step[chosen]))
    if in_steps < max(_EACH * len(steps), _FEWEST) or held < max(_DOMINATES * total, _LEAST * ledger.counted_ns):
        return None
    if 2 * int(found.free_ns[chosen].sum()) < held:
        return None
    return _told(context, found, chosen, len(steps))


def _longest(group: Ints, values: Ints, count: int) -> Ints:
    """Return the largest value of each group; 0 for those without any."""
    most = np.zeros(count, np.int64)
    np.maximum.at(most, group, values)
    return most


def _stretches(context: Context, free: Bools) -> _Stretches:
    ledger = context.ledger
    rows = np.flatnonzero(ledger.idle & ledger.counted)
    first, back = np.unique(ledger.gap[rows], return_index=True, return_inverse=True)[1:]
    count = len(first)
    end = np.zeros(count, np.int64)
    np.maximum.at(end, back, ledger.end_ns[rows])
    step = np.zeros(count, np.int64)
    np.maximum.at(step, back, ledger.step[rows].astype(np.int64))
    dur = ledger.dur_ns[rows]
    left = free[rows]
    return _Stretches(
        ledger.start_ns[rows[first]], end, summed(back, dur, count), step, summed(back[left], dur[left], count)
    )


def _told(context: Context, found: _Stretches, chosen: Bools, steps: int) -> RecurringGap:
    """Name what comes behind most of these stretches."""
    host, ns = context.recording.host, found.ns[chosen]
    node = launch_behind(context, found.end[chosen])
    inside = np.where(node >= 0, _around(context, node), -1)
    keys = np.stack([fetch(host.name, node), fetch(host.name, inside)])
    kinds, back, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    most = int(counts.argmax())
    own = back.ravel() == most
    call, op = (context.names[code] if code >= 0 else None for code in kinds[:, most].tolist())
    ahead = found.start[chosen][own] - fetch(host.end, node[own])
    queued = call is not None and bool((ahead >= 0).all())
    return RecurringGap(
        count=len(ns),
        steps=steps,
        ms=float(np.median(ns)) / 1e6,
        least_ms=int(ns.min()) / 1e6,
        most_ms=int(ns.max()) / 1e6,
        idle_share=int(ns.sum()) / int(found.ns.sum()),
        ended=int(own.sum()),
        call=call,
        graph=bool(np.isin(node[own], context.graph_nodes).all()),
        op=op,
        ahead_ms=float(np.median(ahead)) / 1e6 if queued else None,
    )


def _around(context: Context, node: Ints) -> Ints:
    """The innermost operator around each node; without one the program's outermost range, -1 outside of both."""
    operator = innermost_operator(context, node)
    return np.where(operator >= 0, operator, outermost_range(context, node, context.once(marks)))
