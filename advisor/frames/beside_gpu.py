"""Time that operators own beside a GPU: of what they launched, and of the device's waiting while the host is in them."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, distinct, fetch
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import thread_behind

_LONGEST_NS = 100_000
"""Idle time of so long in Python, before an operator's first launch, is no way to that operator."""


def idle_inside(context: Context) -> tuple[Ints, Ints]:
    """Segments of idle time of the host that lie in an operator, each in the innermost one, and the place of it."""
    ledger, host = context.ledger, context.recording.host
    if not context.idle_trusted or context.device < 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    idle = np.flatnonzero(ledger.through("host"))
    thread, inside = thread_behind(context, ledger.end_ns[idle]), np.full(len(idle), -1, np.int64)
    for which in distinct(thread).tolist():
        here = idle[thread == which]
        inside[thread == which] = host.innermost(which, (ledger.start_ns[here] + ledger.end_ns[here]) // 2)
    row = fetch(_places(context), fetch(host.attributes.op, inside))
    return idle[row >= 0], row[row >= 0]


def owned(context: Context) -> tuple[Ints, Ints]:
    """Segments of the device's time in what operators launched, of idle time in them, and of short idle time just before.

    The last ends with what the operator launched, and may begin with a wait for numbers. Beside each the place of the operator.
    """
    ledger, work = context.ledger, context.recording.work
    launched = fetch(_places(context), fetch(context.recording.host.attributes.op, work.launch))
    busy = np.flatnonzero(ledger.busy & (ledger.row >= 0))
    inside, of_inside = context.once(idle_inside)
    before = np.flatnonzero(ledger.through("host", "sync") & (ledger.dur_ns < _LONGEST_NS))
    before = before[~np.isin(before, inside)] if context.idle_trusted else before[:0]
    here = np.flatnonzero(work.device == ledger.device)
    here = here[np.argsort(work.start[here], kind="stable")]
    ended = np.append(here, -1)[np.searchsorted(work.start[here], ledger.end_ns[before], side="left")]
    segments = np.concatenate([busy, inside, before])
    row = np.concatenate([fetch(launched, ledger.row[busy]), of_inside, fetch(launched, ended)])
    return segments[row >= 0], row[row >= 0]


def _places(context: Context) -> Ints:
    """Place in ``op_rows`` of each node of the forest; -1 of what is no operator."""
    out = np.full(context.recording.host.size, -1, np.int64)
    out[context.op_rows] = np.arange(len(context.op_rows))
    return out
