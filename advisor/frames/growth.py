"""Operators whose work grows by the same amount in every step: they go once more over all that was collected so far."""

from __future__ import annotations

import math
import re

import numpy as np

from advisor.intervals import Bools, Ints, coded, distinct, fetch, summed
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.memory import instants
from advisor.timeline.operator_names import is_view

LEAST_STEPS = 4
"""Steps that have to grow, each by as much as the others: fewer do by chance."""
_ALIKE, _LEAST_GROWTH = 0.02, 0.01
"""Distance of the amounts from one another, of their mean, at most; and their sum, of the work of the first step, at least."""
_LISTS = regex(r"^aten::(?:cat|concat|concatenate|stack|[hvd]stack|pad_sequence|row_stack|column_stack)$")
"""Operators of lists, whose sizes torch does not write for more than 30 tensors: what they allocate tells."""
_INDEX = "aten::index"
"""A pick whose indices are a list: what it allocates tells."""
_PICKS = regex(
    r"^aten::(?:index|index_select|gather|embedding|take|_?index_put_?(?:impl)?_|index_(?:copy|add|fill)_|scatter(?:_add|_reduce)?_)$"
)
"""Operators that read, or write, a part of their first operand: they take as long however much there is beside it."""
_MASK = "aten::nonzero"
"""A pick that asks this goes over a mask."""
_NUMBER = regex(rb"-?\d+")
_MOST_ELEMENTS = 1 << 50
"""Of one tensor: more than any memory holds."""


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
    of, order = of.ravel(), np.searchsorted(distinct(step), step)
    size = _sizes(context, nodes)
    sizes = summed(of * steps + order, size, len(keys) * steps).reshape(len(keys), steps)
    more = np.diff(sizes, axis=1)
    mean = more.mean(1)
    alike = (more.max(1) - more.min(1)) <= _ALIKE * mean
    found = (sizes[:, 0] > 0) & (more > 0).all(1) & alike & (sizes[:, -1] - sizes[:, 0] >= _LEAST_GROWTH * sizes[:, 0])
    flags: Bools = np.isin(around, nodes[found[of] & ~_constant(of, order, size, steps)])
    return flags


def _constant(of: Ints, step: Ints, size: Ints, steps: int) -> Bools:
    """Flag operators that are given as much as those in their place in all other steps: of one line and name (*of*), in turn."""
    series = np.lexsort((step, of))
    key = of[series] * steps + step[series]
    first = np.searchsorted(key, key)
    turn = np.empty(len(of), np.int64)
    turn[series] = np.arange(len(of)) - first
    place = np.unique(np.column_stack([of, turn]), axis=0, return_inverse=True)[1].ravel()
    count = np.bincount(place)
    least = np.full(len(count), np.iinfo(np.int64).max)
    np.minimum.at(least, place, size)
    most = np.zeros(len(count), np.int64)
    np.maximum.at(most, place, size)
    flags: Bools = ((count == steps) & (least == most))[place]
    return flags


def _sizes(context: Context, nodes: Ints) -> Ints:
    """Numbers that operators are given; of those of lists, bytes that are allocated inside; of picks, what they take."""
    host, names = context.recording.host, context.names
    codes, of = coded(context.op_column(nodes, "dims"))
    raws = context.recording.recorded.raws
    size = np.array([_elements(raws[code]) if 0 <= code < len(raws) else (0, 0) for code in codes.tolist()], np.int64)
    given, besides = size.reshape(-1, 2)[of.ravel()].T
    name = host.name[nodes]
    picks, indexes, lists, views, masks = (
        np.array([test(name) for name in names], np.bool_)
        for test in (_is_pick, _INDEX.__eq__, _is_list, is_view, _MASK.__eq__)
    )
    over_masks = np.zeros(len(nodes), np.bool_)
    if picks[name].any() and masks.any():
        at = _inside(context, nodes, picks[name])[masks[host.name]]
        over_masks[at[at >= 0]] = True
    sizes: Ints = np.where(picks[name] & ~over_masks, besides, np.where(views[name], 0, given))
    told = lists[name] | (indexes[name] & ~over_masks)
    if told.any():
        sizes[told] = _allocated(context, nodes, told)[told]
    return sizes


def _is_pick(name: str) -> bool:
    return _PICKS.match(name) is not None


def _is_list(name: str) -> bool:
    return _LISTS.match(name) is not None


def _inside(context: Context, nodes: Ints, chosen: Bools) -> Ints:
    """Place in *nodes* of the chosen one that each node of the host is, or lies in; -1 for none."""
    own = np.full(context.recording.host.size, -1, np.int64)
    own[nodes[chosen]] = np.flatnonzero(chosen)
    return context.recording.host.flow(own)


def _allocated(context: Context, nodes: Ints, chosen: Bools) -> Ints:
    """Bytes of the allocations inside of the chosen nodes; 0 for others."""
    host, events = context.recording.host, context.once(instants)
    inside = _inside(context, nodes, chosen)
    taken = np.zeros(len(nodes), np.int64)
    for thread in distinct(events["thread"]).tolist():
        here = (events["thread"] == thread) & (events["bytes"] > 0)
        at = fetch(inside, host.innermost(thread, events["start_ns"][here]))
        np.add.at(taken, at[at >= 0], events["bytes"][here][at >= 0])
    return taken


def _elements(raw: bytes) -> tuple[int, int]:
    """Count the elements of all tensors in a list of shapes, and in lists of tensors there; and those of all but the first."""
    shapes = [[int(number) for number in _NUMBER.findall(part)] for part in re.findall(rb"\[([\d,\s]*)\]", raw)]
    counts = [min(max(math.prod(shape), 0), _MOST_ELEMENTS) if shape else 0 for shape in shapes]
    return sum(counts), sum(counts[1:])
