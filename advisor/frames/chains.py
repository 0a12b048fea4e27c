"""Chains of pointwise kernels: what runs one behind the other, and may well read what the one before it wrote.

A trace does not hold which tensor a kernel reads. Neighbours on a stream count as a chain where operators differ. The same
operator twice in a row must have shapes that let the later call read the earlier one's result, and so must two operators in
place, which write what they read; four times in a row it is a loop over tensors of their own (gradients, parameters,
buffers), which no compiler fuses.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import numpy as np

from advisor.intervals import Bools, Ints, fetch
from advisor.timeline.context import Context

_REST_NS = 100_000
"""A stream that rests for longer has ended a chain of kernels: a launch costs the host a tenth of it."""
_LOOP = 4
"""So many launches of one operator in a row are a loop over tensors."""
_PARTS = 4
"""A result is cut into as many parts at most (query, key and value; the gates of a cell), or joined from as many."""
_GRADIENTS = re.compile(r"AccumulateGrad$|^torch::distributed::(?:ddp::)?reducer|^torch\.distributed\.ddp\.reducer")
_LIST = re.compile(r"\[([\d,]*)\]")


def chains(context: Context, pointwise: Bools) -> tuple[Ints, Ints]:
    """Length and number of the chain that each kernel belongs to; 0 and -1 for none. *pointwise* flags what may be in one.

    A chain ends with the step, and where the stream rests: what comes then is another piece of the program.
    """
    work, rows = context.recording.work, context.kernel_rows
    size = len(rows)
    # Gradients are added up and put into buckets as they come: that is no part of what runs before and after it.
    along = pointwise & ~_of_gradients(context, work.launch[rows])
    kept = np.flatnonzero(along | ~pointwise)
    length, chain = np.zeros(size, np.int64), np.full(size, -1, np.int64)
    if not size or not along.any():
        return length, chain
    start = work.start[rows]
    order = kept[np.lexsort((start[kept], work.stream[rows[kept]], work.device[rows[kept]]))]
    rows, along, start = rows[order], along[order], start[order]
    same = (work.device[rows][1:] == work.device[rows][:-1]) & (work.stream[rows][1:] == work.stream[rows][:-1])
    step = context.recording.step_of(start)
    near = (start[1:] - work.end[rows][:-1] <= _REST_NS) & (step[1:] == step[:-1])
    joined = np.append(False, same & near & along[1:] & along[:-1])
    launch = work.launch[rows]
    another = _another_operator(context, launch, work.name[rows])
    joined &= ~_strangers(context, launch, joined & (~another | _in_place(context, launch)))
    block = np.cumsum(~joined | another) - 1
    along &= np.bincount(block)[block] < _LOOP
    joined &= along & np.append(False, along[:-1])
    run = np.cumsum(~joined) - 1
    along &= np.bincount(run, joined & another)[run] > 0
    length[order] = np.where(along, np.bincount(run)[run], 0)
    chain[order] = np.where(along, run, -1)
    return length, chain


def _of_gradients(context: Context, launch: Ints) -> Bools:
    """Flag the kernels that add a gradient to what was there, or handle DDP's buckets."""
    host = context.recording.host
    codes = [code for code, name in enumerate(context.names) if _GRADIENTS.search(name)]
    if not codes or not host.size:
        return np.zeros(len(launch), np.bool_)
    nodes = np.where(np.isin(host.name, codes), np.arange(host.size), -1)
    flags: Bools = fetch(host.flow(nodes), launch) >= 0
    return flags


def _another_operator(context: Context, launch: Ints, name: Ints) -> Bools:
    """Flag the kernels launched by another operator than the one before; in one call of an operator, those of another name.

    Where no operator is known, kernels go by their names.
    """
    host = context.recording.host
    node = fetch(host.attributes.op, launch)
    op = fetch(host.name, node)
    other = (op[1:] != op[:-1]) | ((node[1:] == node[:-1]) & (name[1:] != name[:-1]))
    return np.append(True, other)


def _in_place(context: Context, launch: Ints) -> Bools:
    """Flag the kernels of an operator in place that follow one of another operator in place."""
    code = fetch(context.recording.host.name, fetch(context.recording.host.attributes.op, launch))
    named = np.array([name.endswith("_") and name != "aten::copy_" for name in context.names], np.bool_)
    place = (code >= 0) & named[np.maximum(code, 0)]
    again: Bools = place & np.append(False, place[:-1])
    return again


def _strangers(context: Context, launch: Ints, asked: Bools) -> Bools:
    """Flag those of the *asked* kernels whose operands' shapes are none that the result of the one before could have."""
    out = np.zeros(len(launch), np.bool_)
    dims = context.op_column(launch, "dims")
    known = np.append(False, (dims[1:] >= 0) & (dims[:-1] >= 0) & (dims[1:] != dims[:-1]))
    later = np.flatnonzero(asked & known)
    if not len(later):
        return out
    pairs, back = np.unique(np.stack([dims[later - 1], dims[later]]), axis=1, return_inverse=True)
    texts = context.shape_texts
    out[later] = np.array([not _may_read(texts[before], texts[after]) for before, after in pairs.T.tolist()])[
        back.ravel()
    ]
    return out


def _may_read(before: str, after: str) -> bool:
    """Tell whether an operator on shapes *after* may read what one on shapes *before* wrote, whole or in a few parts."""
    result, operands = _result(before), _elements(after)
    if not result or not operands:
        return True
    return any(
        max(result, count) % min(result, count) == 0 and max(result, count) <= _PARTS * min(result, count)
        for count in operands
        if count
    )


@lru_cache(maxsize=4096)
def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    found = (match[1] for match in _LIST.finditer(text))
    return tuple(tuple(int(part[:15]) for part in parts.split(",") if part) for parts in found if parts)


def _elements(text: str) -> set[int]:
    return {math.prod(shape) for shape in _shapes(text)}


@lru_cache(maxsize=4096)
def _result(text: str) -> int:
    """Elements of a pointwise result; 0 where its operands do not fit each other, as those of indexing."""
    shapes = _shapes(text)
    width = max((len(shape) for shape in shapes), default=0)
    total = 1
    for place in range(1, width + 1):
        sizes = {shape[-place] for shape in shapes if len(shape) >= place} - {1}
        if len(sizes) > 1:
            return 0
        total *= max(sizes, default=1)
    return total if shapes else 0
