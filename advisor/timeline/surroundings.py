"""Surroundings of rows of which no more than an operator is known: the outermost operator, and the program's range."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, fetch
from advisor.timeline.calls import ANNOTATION
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import outermost_ops

_MARKS = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)")
_NODE = "autograd::engine::evaluate_function: "
_ALIKE = 0.95
"""Part of the weight that has to lie in one operator or range."""


def around(context: Context, nodes: Ints, weights: Ints, op: str) -> str | None:
    """Return ``aten::is_nonzero under ## forward ##`` of nodes in the operator *op*, as far as nearly all of their *weights* lie
    there; None where there is neither another operator nor a range around them.
    """
    host = context.recording.host
    if not host.size or not len(nodes):
        return None
    marks = np.array([name.startswith(_MARKS) for name in context.names], np.bool_)
    known = nodes >= 0
    ranges = np.full(len(nodes), -1, np.int64)
    ranges[known] = host.above(nodes[known], (host.group == ANNOTATION) & ~marks[host.name])
    outer = _alike(outermost_ops(context, nodes), weights)
    within = _alike(fetch(host.name, ranges), weights)
    names = [context.names[code].removeprefix(_NODE) if code >= 0 else "" for code in (outer, within)]
    return " under ".join(name for name in names if name not in ("", op)) or None


def _alike(codes: Ints, weights: Ints) -> int:
    """Return the code that holds nearly all of the weight; -1 where none does."""
    totals = np.bincount(codes + 1, np.maximum(weights, 0))
    if not totals.sum():
        totals = np.bincount(codes + 1)
    code = int(totals.argmax())
    return code - 1 if totals[code] >= _ALIKE * totals.sum() else -1
