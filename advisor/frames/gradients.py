"""Gradients that are accumulated, and added to zeros: what columns of `kernels` and `gaps` flag."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, Spans, covered, fetch, union
from advisor.timeline.calls import BACKWARD, OP, ZERO_GRAD
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import outermost, outermost_ops

_NODE = "torch::autograd::AccumulateGrad"
_MORE = 1.05
"""Additions for each tensor that zero_grad writes, up to which each gradient is added to once: a step or two is cut off."""


def added_to_zeros(context: Context, rows: Ints, outer: Ints) -> Bools:
    """Flag the kernels that autograd adds a gradient with to one that zero_grad has written zeros into.

    *outer* is the name of the outermost operator around each. Where there are more of them than tensors were zeroed, several
    backward passes add to one gradient, which is meant; and a few multi-tensor fills do not say how many tensors they write.
    """
    work = context.recording.work
    names = context.names
    node = np.array([name.endswith(_NODE) for name in names], np.bool_)
    add = np.array([name == "aten::add_" for name in names], np.bool_)
    if not node.any() or not add.any():
        return np.zeros(len(rows), np.bool_)
    launch = work.launch[rows]
    op = fetch(context.recording.host.name, fetch(context.recording.host.attributes.op, launch))
    adds: Bools = (context.phases(launch) == BACKWARD) & (outer >= 0) & node[outer] & (op >= 0) & add[op]
    zeroed = int((context.phases(work.launch) == ZERO_GRAD).sum())
    return adds if adds.sum() <= _MORE * zeroed else np.zeros(len(rows), np.bool_)


def idle_columns(context: Context, start: Ints, dur: Ints, following: Ints) -> dict[str, Bools]:
    """Columns of stretches of idle time in which autograd's engine accumulates gradients; *following* launches what ends each.

    A compiler of the model leaves the engine's own nodes as they are.
    """
    during = 2 * covered(context.once(_accumulations), start, start + dur) >= dur
    rows = context.kernel_rows
    launch = context.recording.work.launch[rows]
    added = launch[added_to_zeros(context, rows, outermost_ops(context, launch))] if during.any() else rows[:0]
    return {
        "accumulates": during & (dur > 0),
        "adds_to_zeros": during & (dur > 0) & (following >= 0) & np.isin(following, added),
    }


def _accumulations(context: Context) -> Spans:
    """Time in which the engine accumulates gradients, one after the other: its nodes, and what is between two in a row."""
    host = context.recording.host
    named = np.array([name.endswith(_NODE) for name in context.names], np.bool_)
    if not host.size or not named.any():
        return union(host.start[:0], host.end[:0])
    ops = np.flatnonzero(host.group == OP)
    ops = ops[outermost(context, ops) == ops]
    ops = ops[np.lexsort((host.start[ops], host.thread[ops]))]
    own = named[host.name[ops]]
    begins, ends = host.start[ops].copy(), host.end[ops].copy()
    follows = np.zeros(len(ops), np.bool_)
    follows[1:] = own[1:] & own[:-1] & (host.thread[ops][1:] == host.thread[ops][:-1])
    begins[follows] = ends[np.flatnonzero(follows) - 1]
    return union(begins[own], ends[own])
