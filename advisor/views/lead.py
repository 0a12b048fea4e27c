"""The host's lead over the device, and what of it waits for values and copies use up.

A wait while the device works costs nothing where it lies. But behind it the queue is empty: until the host is ahead again each
launch is a little late, and the device idles in many short stretches that look like those of a slow host.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.syncs import of_engine, of_scaler, pending
from advisor.intervals import Ints, distinct, fetch
from advisor.results.waits import LeadLost, Waiting
from advisor.roofline.limits import Floats
from advisor.timeline.calls import ANNOTATION, OP
from advisor.timeline.context import Context
from advisor.timeline.ledger import CODE
from advisor.timeline.waits import COPY_SYNC, SCALAR

_LEAST = 0.05
"""Of steady work: the waits, and the idle time behind them, from which on they are named."""
_PART = 0.2
"""Of the waits: an operator with less of them is not named."""
_MARK = "ProfilerStep#"


def lead_lost(context: Context) -> LeadLost | None:
    """Sum the waits for values and copies in steps of training, with the idle time for launches behind them; None where little."""
    ledger, host, syncs = context.ledger, context.recording.host, context.waits.syncs
    if not context.training() or not context.recording.steps or not context.idle_trusted or not len(syncs.start):
        return None
    steps = ledger.counted_steps()
    step = context.recording.step_of(syncs.start)
    launch = context.recording.work.launch
    launching = distinct(host.thread[launch[launch >= 0]])
    chosen = np.isin(syncs.kind, (SCALAR, COPY_SYNC)) & np.isin(host.thread[syncs.node], launching)
    chosen &= pending(context) & ~of_scaler(context) & ~of_engine(context) & np.isin(step, steps)
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return None
    wait, step = (syncs.end - syncs.begin)[rows].astype(np.float64), step[rows]
    late = ledger.counted & (ledger.cause == CODE["host"])
    idle_ns = 0
    for number in np.unique(step).tolist():
        first = int(syncs.end[rows[step == number]].min())
        behind = late & (ledger.step == number) & (ledger.start_ns >= first)
        idle_ns += min(int(ledger.dur_ns[behind].sum()), int(wait[step == number].sum()))
    if min(idle_ns, int(wait.sum())) < _LEAST * ledger.counted_ns:
        return None
    ms = context.step_ns / 1e6 / max(ledger.counted_ns, 1)
    return LeadLost(
        wait_ms=float(wait.sum()) * ms, idle_ms=idle_ns * ms, where=_places(context, syncs.node[rows], wait * ms)
    )


def _places(context: Context, node: Ints, wait_ms: Floats) -> list[Waiting]:
    """The operators that wait, each under the outermost range of the program around it, those that wait most first."""
    host = context.recording.host
    operator = fetch(host.attributes.op, node)
    operator = np.where((operator >= 0) & (host.group[np.maximum(operator, 0)] == OP), operator, -1)
    marks = np.array([name.startswith(_MARK) for name in context.names], np.bool_)
    ranges = (host.group == ANNOTATION) & ~marks[host.name]
    outer, around = np.full(len(node), -1, np.int64), host.above(node, ranges)
    while (around >= 0).any():
        outer = np.where(around >= 0, around, outer)
        around = np.where(around >= 0, host.above(np.maximum(around, 0), ranges), -1)
    keys = np.stack([fetch(host.name, operator), fetch(host.name, outer)])
    found, back = np.unique(keys, axis=1, return_inverse=True)
    of_each = np.bincount(back.ravel(), wait_ms, found.shape[1])
    order = [at for at in np.argsort(-of_each, kind="stable").tolist() if of_each[at] >= _PART * of_each.sum()]
    names = [(context.names[code] if code >= 0 else None for code in found[:, at].tolist()) for at in order]
    return [Waiting(op=op, around=ranged, ms=float(of_each[at])) for at, (op, ranged) in zip(order, names, strict=True)]
