"""Surroundings of rows of which no more than an operator is known: the outermost operator, and the program's range."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, alike, fetch, summed
from advisor.timeline.calls import ANNOTATION, MARKS
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import outermost_ops
from advisor.timeline.marked import marks
from advisor.timeline.parts import BETWEEN, EXCHANGE, NODE, PHASE, parts, text

_ALIKE = 0.95
"""Part of the weight that has to lie in one operator or range for that to be all."""
_PART = 0.15
"""Part of the weight from which on one of several operators around is named."""
_MOST = 8
"""Parts of the program that are looked at: each of the rest holds less than an eighth."""
_RECORD = "record_param_comms"
_NAMED = 2
"""Operators around that are named, of several."""


def around(context: Context, nodes: Ints, weights: Ints, op: str) -> str | None:
    """Return ``aten::is_nonzero under ## forward ##`` of nodes in the operator *op*, as far as nearly all of their *weights* lie
    there; of several operators around those with most: ``aten::linear (42 %), aten::layer_norm (31 %)``. None where there is
    neither another operator nor a range around them.
    """
    host = context.recording.host
    if not host.size or not len(nodes):
        return None
    # A mark of torch's is around the operators that lie in it.
    outermost = np.full(len(nodes), -1, np.int64) if op.startswith(MARKS) else _outermost(context, nodes)
    outer = _alike(outermost, weights)
    within = _alike(ranges_of(context, nodes), weights)
    names = [context.names[code].removeprefix(NODE) if code >= 0 else "" for code in (outer, within)]
    if outer < 0:
        several = [(name, share) for name, share in _parts(context, outermost, weights) if share >= _PART]
        names[0] = ", ".join(f"{name} ({100 * share:.0f} %)" for name, share in several[:_NAMED] if name != op)
    return " under ".join(name for name in names if name not in ("", op, op.removeprefix(NODE))) or None


def held(context: Context, nodes: Ints, weights: Ints) -> list[tuple[str, float]]:
    """The largest parts of the program that some nodes lie in, with their parts of the *weights*: phases, ranges, operators.

    A phase nearly all of which is one operator is that operator: a node of autograd, a compiled function.
    """
    host, inside = context.recording.host, nodes >= 0
    if not host.size or not inside.any():
        return []
    whole = max(float(np.maximum(weights, 0).sum()), 1.0)
    node, weight = nodes[inside], np.maximum(weights[inside], 0)
    kind, code = parts(context, node, weight)
    first, part = alike(kind, code)
    sums = summed(part, weight, len(first))
    found: list[tuple[str, float]] = []
    for number in np.argsort(-sums, kind="stable")[:_MOST].tolist():
        of, name = int(kind[first[number]]), int(code[first[number]])
        rows = part == number
        within = _alike(outermost_ops(context, node[rows]), weight[rows]) if of == PHASE else -1
        label = context.names[within].removeprefix(NODE) if within >= 0 else text(context, of, name)
        if of != BETWEEN:
            found.append((label, float(sums[number]) / whole))
    return found


def _outermost(context: Context, nodes: Ints) -> Ints:
    """Name of the outermost operator around each node; where that is a process group's record of its call, of the outermost range.

    The record is no part of the program; -1 where the program marked no range around it.
    """
    found = outermost_ops(context, nodes)
    host, names = context.recording.host, context.names
    record = np.array([name == _RECORD for name in names], np.bool_)
    at = np.flatnonzero((found >= 0) & record[found] & (nodes >= 0))
    if len(at):
        found = found.copy()
        ranges = (host.group == ANNOTATION) & _ranged(context)[host.name]
        found[at] = fetch(host.name, host.outermost(nodes[at], ranges))
    return found


def _ranged(context: Context) -> Bools:
    """Flag the names that are a program's own ranges: neither torch's marks nor those of a process group around its calls."""
    return ~context.once(marks) & np.array([EXCHANGE.match(name) is None for name in context.names], np.bool_)


def ranges_of(context: Context, nodes: Ints, *, outermost: bool = False) -> Ints:
    """Name of the innermost range of the program's around each node, or of the *outermost*; -1 for none."""
    host = context.recording.host
    known, own = nodes >= 0, (host.group == ANNOTATION) & _ranged(context)[host.name]
    ranges = np.full(len(nodes), -1, np.int64)
    ranges[known] = host.outermost(nodes[known], own) if outermost else host.above(nodes[known], own)
    return fetch(host.name, ranges)


def _parts(context: Context, codes: Ints, weights: Ints) -> list[tuple[str, float]]:
    """Names of codes with their parts of the weight, the most first; what has none is left out, but counts in the whole."""
    totals = np.bincount(codes + 1, np.maximum(weights, 0))
    whole = max(float(totals.sum()), 1.0)
    found = [at for at in np.argsort(-totals, kind="stable").tolist() if at and totals[at]]
    return [(context.names[at - 1].removeprefix(NODE), float(totals[at]) / whole) for at in found]


def _alike(codes: Ints, weights: Ints) -> int:
    """Return the code that holds nearly all of the weight; -1 where none does."""
    totals = np.bincount(codes + 1, np.maximum(weights, 0))
    if not totals.sum():
        totals = np.bincount(codes + 1)
    code = int(totals.argmax())
    return code - 1 if totals[code] >= _ALIKE * totals.sum() else -1
