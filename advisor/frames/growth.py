"""Operators whose work grows by the same amount in every step: they go once more over all that was collected so far."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Bools, Ints, coded, distinct, fetch, summed
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.memory import instants

LEAST_STEPS = 4
"""Steps that have to grow, each by as much as the others: fewer do by chance."""
_ALIKE, _LEAST_GROWTH = 0.02, 0.01
"""Distance of the amounts from one another, of their mean, at most; and their sum, of the work of the first step, at least."""
_LISTS = re.compile(r"^aten::(?:cat|concat|concatenate|stack|[hvd]stack|pad_sequence|row_stack|column_stack)$")
"""Operators of lists, whose sizes torch does not write for more than 30 tensors: what they allocate tells."""
_NUMBER = re.compile(rb"-?\d+")


def grows(context: Context, rows: Ints, around: Ints) -> Bools:
    """Flag operators of *rows* that run inside one, of *around*, whose line gives it more numbers in each step, by equal steps."""
    host = context.recording.host
    nodes = distinct(around[context.phases(rows) != BACKWARD])
    step, place = context.recording.step_of(host.start[nodes]), host.attributes.user[nodes]
    kept = (step >= 0) & (place >= 0)
    nodes, step, place = nodes[kept], step[kept], place[kept]
    steps = len(distinct(step))
    if steps < LEAST_STEPS:
        return np.zeros(len(rows), np.bool_)
    keys, of = np.unique(np.column_stack([place, host.name[nodes]]), axis=0, return_inverse=True)
    order = np.searchsorted(distinct(step), step)
    sizes = summed(of.ravel() * steps + order, _sizes(context, nodes), len(keys) * steps).reshape(len(keys), steps)
    more = np.diff(sizes, axis=1)
    mean = more.mean(1)
    alike = (more.max(1) - more.min(1)) <= _ALIKE * mean
    found = (sizes[:, 0] > 0) & (more > 0).all(1) & alike & (sizes[:, -1] - sizes[:, 0] >= _LEAST_GROWTH * sizes[:, 0])
    flags: Bools = np.isin(around, nodes[found[of.ravel()]])
    return flags


def _sizes(context: Context, nodes: Ints) -> Ints:
    """Numbers that operators are given; of those of lists, bytes that are allocated inside."""
    host = context.recording.host
    codes, of = coded(context.op_column(nodes, "dims"))
    raws = context.recording.recorded.raws
    size = np.array([_elements(raws[code]) if 0 <= code < len(raws) else 0 for code in codes.tolist()], np.int64)
    sizes: Ints = size[of.ravel()]
    lists = np.array([_LISTS.match(name) is not None for name in context.names], np.bool_)[host.name[nodes]]
    if not lists.any():
        return sizes
    events = context.once(instants)
    own = np.full(host.size, -1, np.int64)
    own[nodes[lists]] = np.flatnonzero(lists)
    inside = host.flow(own)
    taken = np.zeros(len(nodes), np.int64)
    for thread in distinct(events["thread"]).tolist():
        here = (events["thread"] == thread) & (events["bytes"] > 0)
        at = fetch(inside, host.innermost(thread, events["start_ns"][here]))
        np.add.at(taken, at[at >= 0], events["bytes"][here][at >= 0])
    sizes[lists] = taken[lists]
    return sizes


def _elements(raw: bytes) -> int:
    """Count the elements of all tensors in a list of shapes, and in lists of tensors there."""
    total = 0
    for part in re.findall(rb"\[([\d,\s]*)\]", raw):
        sizes = [int(number) for number in _NUMBER.findall(part)]
        total += int(np.prod(sizes, dtype=np.int64)) if sizes else 0
    return total
