"""Gradients that are added to zeros: what a column of `kernels` flags."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, fetch
from advisor.timeline.calls import BACKWARD, ZERO_GRAD
from advisor.timeline.context import Context

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
