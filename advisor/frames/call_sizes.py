"""Sizes of an operator of a program on the CPU: how long its numbers take by themselves, and whether turns of a loop differ."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from advisor.frames.shapes import MOST_ELEMENTS, first_shape
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.roofline.limits import modelled_work
from advisor.roofline.recording import divided
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context

_BYTES_PER_NS = 10.0
_FLOPS_PER_NS = 20.0
"""Rates at which one core works on tensors that do not fit into its caches: what is left once calls cost nothing."""
LENGTHS = 4
"""Sizes in one step from which on no two turns of a loop are taken to be alike."""
_ATTENDS = regex(r"^aten::(?:_softmax|_safe_softmax|scaled_dot_product_attention)$")
"""Operators over the lengths of sequences, in which each number depends on all others."""
_FUSED = "aten::scaled_dot_product_attention"


def elements(context: Context, rows: Ints) -> Ints:
    """Numbers of each row's first tensor; 0 where its shape was not recorded, and of a list of tensors."""
    dims = context.op_column(rows, "dims")
    codes, of = np.unique(dims, return_inverse=True)
    counts = np.zeros(len(codes), np.int64)
    for at, code in enumerate(codes.tolist()):
        if code >= 0 and (shape := first_shape(context.shape_texts[code])):
            counts[at] = min(math.prod(shape), MOST_ELEMENTS)
    found: Ints = counts[of.ravel()]
    return found


def work_share(context: Context, rows: Ints, cost: Ints, python: Ints) -> npt.NDArray[np.float64]:
    """Part of each row's *cost* (ns, *python* of it before the call) that its bytes and its arithmetic take on one core.

    What has no shapes or no formula (a node of autograd, a view) is taken to do no work: it is a call and no more.
    """
    if not len(rows):
        return np.zeros(0)
    known = context.once(modelled_work)
    active = np.zeros(context.recording.host.size, np.bool_)
    active[rows] = True
    flops, moved = (np.nan_to_num(figures[rows]) for figures in divided(context.recording, known, active))
    work = np.minimum(np.maximum(flops / _FLOPS_PER_NS, moved / _BYTES_PER_NS), np.maximum(cost - python, 0))
    share: npt.NDArray[np.float64] = work / np.maximum(cost, 1)
    return share


def uneven(context: Context, rows: Ints) -> Bools:
    """Flag operators of lines that give most of what they call four sizes or more in a step, and the backward pass of these.

    Of programs whose attention has as many lengths, of queries and of keys: such turns can neither be stacked, as the shorter ones
    would have to be padded and masked, with a score for each pair, nor compiled once. A softmax over the rows of a turn, with one
    score each, is no such attention.
    """
    host = context.recording.host
    none = np.zeros(len(rows), np.bool_)
    step, dims, name = context.recording.step_of(host.start[rows]), context.op_column(rows, "dims"), host.name[rows]
    attends = np.array([_ATTENDS.match(each) is not None for each in context.names], np.bool_)[name]
    sized = (step >= 0) & (dims >= 0) & (context.phases(rows) != BACKWARD)
    steps, seen = max(len(context.recording.steps), 1), sized & attends
    if len(_distinct(step[seen], dims[seen])) < LENGTHS * steps or not _of_pairs(context, name[seen], dims[seen]):
        return none
    line = host.attributes.user[rows]
    at = np.flatnonzero(sized & (line >= 0))
    keys, of = np.unique(np.column_stack([line[at], name[at]]), axis=0, return_inverse=True)
    sizes = np.bincount(_distinct(of.ravel(), step[at], dims[at])[:, 0], minlength=len(keys))
    many = (sizes >= LENGTHS * steps)[of.ravel()]
    length = int(line.max(initial=-1)) + 1
    mostly = 2 * np.bincount(line[at[many]], minlength=length) > np.bincount(line[at], minlength=length)
    own = np.full(host.size, -1, np.int64)
    of_line = np.flatnonzero((line >= 0) & (context.phases(rows) != BACKWARD))
    own[rows[of_line]] = np.where(mostly[line[of_line]], 1, 0)
    found: Bools = host.with_backward(own)[rows] > 0
    return found


def _of_pairs(context: Context, name: Ints, dims: Ints) -> bool:
    """Tell whether scores are of as many lengths in both of their last dimensions; of a fused attention its queries tell alone."""
    queries, keys = set(), set()
    for code, shape in zip(*(column.tolist() for column in _distinct(name, dims).T), strict=True):
        scores = first_shape(context.shape_texts[shape]) or ()
        fused = context.names[code] == _FUSED
        if len(scores) > 1:
            queries.add(scores[-2])
            keys.add(scores[-2] if fused else scores[-1])
    return min(len(queries), len(keys)) >= LENGTHS


def _distinct(*columns: Ints) -> Ints:
    """Return the distinct rows of some columns."""
    rows: Ints = np.unique(np.column_stack(columns), axis=0)
    return rows
