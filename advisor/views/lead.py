"""The host's lead over the device, and what of it waits for values and copies use up.

A wait while the device works costs nothing where it lies. But behind it the queue is empty: until the host is ahead again each
launch is a little late, and the device idles in many short stretches that look like those of a slow host.
"""

from __future__ import annotations

import math

import numpy as np

from advisor.frames.syncs import of_engine, of_scaler, pending
from advisor.intervals import Bools, Ints, covered, distinct, fetch, union
from advisor.results.waits import LeadLost, Waiting
from advisor.roofline.limits import Floats
from advisor.timeline.context import Context
from advisor.timeline.ledger import CODE
from advisor.timeline.marked import innermost_operator, outermost_range, steps
from advisor.timeline.waits import COPY_SYNC, SCALAR

_LEAST = 0.05
"""Of steady work: the waits, and the idle time behind them, from which on they are named."""
_PART = 0.2
"""Of the idle time behind waits: an operator with less of it is not named. Of the waits: one with less among the others."""


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
    rows = rows[np.argsort(syncs.begin[rows], kind="stable")]
    begin, end, step = syncs.begin[rows], syncs.end[rows], context.recording.step_of(syncs.start[rows])
    # A copy that the host waits for is no work that it would run ahead of.
    work, kernels = context.recording.work, context.kernel_rows
    wait = covered(union(work.start[kernels], work.end[kernels]), begin, end)
    late = ledger.counted & (ledger.cause == CODE["host"])
    idle = np.zeros(len(rows), np.int64)
    for number in np.unique(step).tolist():
        of_step = np.flatnonzero(step == number).tolist()
        starts, lengths = ledger.start_ns[late & (ledger.step == number)], ledger.dur_ns[late & (ledger.step == number)]
        left: list[int] = []  # waits whose time no idle time behind them has made up for, the last one first to
        for at, until in zip(of_step, [*begin[of_step[1:]].tolist(), np.iinfo(np.int64).max], strict=True):
            left.append(at)
            behind = int(lengths[(starts >= end[at]) & (starts < until)].sum())
            while behind and left:
                taken = min(behind, int(wait[left[-1]] - idle[left[-1]]))
                idle[left[-1]] += taken
                behind -= taken
                if idle[left[-1]] >= wait[left[-1]]:
                    left.pop()
    ms = context.step_ns / 1e6 / max(ledger.counted_ns, 1)
    where, others = _places(context, syncs.node[rows], wait.astype(np.float64) * ms, idle.astype(np.float64) * ms)
    wait_ms, idle_ms = (math.fsum(getattr(one, name) for one in where) for name in ("ms", "idle_ms"))
    if min(wait_ms, idle_ms) < _LEAST * ledger.counted_ns * ms:
        return None
    return LeadLost(wait_ms=wait_ms, idle_ms=idle_ms, where=where, others=others)


def _places(context: Context, node: Ints, wait_ms: Floats, idle_ms: Floats) -> tuple[list[Waiting], list[Waiting]]:
    """The operators that wait, each under the outermost range around it, those with most idle time behind them first.

    Apart from these, those that wait for long and have little of it behind them.
    """
    host = context.recording.host
    around = innermost_operator(context, node), outermost_range(context, node, steps(context))
    keys = np.stack([fetch(host.name, each) for each in around])
    found, back = np.unique(keys, axis=1, return_inverse=True)
    waits, idle = (np.bincount(back.ravel(), of, found.shape[1]).astype(np.float64) for of in (wait_ms, idle_ms))
    late = (idle > 0) & (idle >= _PART * idle.sum())
    other = ~late & (waits >= _PART * waits.sum())

    def named(chosen: Bools, by: Floats) -> list[Waiting]:
        order = [at for at in np.argsort(-by, kind="stable").tolist() if chosen[at]]
        names = [[context.names[code] if code >= 0 else None for code in found[:, at].tolist()] for at in order]
        return [
            Waiting(op=op, around=ranged, ms=float(waits[at]), idle_ms=float(idle[at]))
            for at, (op, ranged) in zip(order, names, strict=True)
        ]

    return named(late, idle), named(other, waits)
