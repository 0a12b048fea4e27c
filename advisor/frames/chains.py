"""Chains of kernels that only move memory: what runs one behind the other, and may well read what the one before it wrote.

Most links are pointwise. A concatenation between two of them is one as well, and so is a reduction whose result is broadcast
over what it reduced: the mean of a normalization written by hand. A compiler takes both into the fused kernel.

A trace does not hold which tensor a kernel reads. Neighbours on a stream count as a chain where operators differ. The same
operator twice in a row must have shapes that let the later call read the earlier one's result, and so must two operators in
place, which write what they read; four times in a row it is a loop over tensors of their own (gradients, parameters,
buffers), which no compiler fuses. A copy reads one tensor and no other: where the strides show one of another size than the
result before it (a few rows, expanded), it begins something else.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, alike, covered, fetch, union
from advisor.regex import regex
from advisor.timeline.context import Context

_REST_NS = 100_000
"""A stream that rests for longer has ended a chain of kernels: a launch costs the host a tenth of it."""
_LOOP = 4
"""So many launches of one operator in a row are a loop over tensors."""
_PARTS = 4
"""A result is cut into as many parts at most (query, key and value; the gates of a cell), or joined from as many."""
_READER = 6
"""A reduction's result is broadcast over what it reduced within so many kernels: shift, root and scale come between."""
_ADDS, _SCALES = (
    frozenset(("aten::add", "aten::add_")),
    frozenset(("aten::mul", "aten::mul_", "aten::div", "aten::div_")),
)
_PRODUCTS = frozenset(("aten::mm", "aten::bmm"))
_SMALLER = 4
"""A factor is scaled in place of the result where it has a fourth of the elements or fewer."""
EPILOGUES = ("bias", "scale")
_GRADIENTS = regex(r"AccumulateGrad$|^torch::distributed::(?:ddp::)?reducer|^torch\.distributed\.ddp\.reducer")
_LIST = regex(r"\[([\d,\s]*)\]")


class Sorts(Struct, frozen=True):
    """Flags of the kernels, by what may be made of them: a link of a chain, or none."""

    pointwise: Bools
    joins: Bools
    reduces: Bools
    normalizes: Bools
    multiplies: Bools
    counts: Bools


class Chains(Struct, frozen=True):
    """Of each kernel: length and number of its chain (0 and -1 for none), whether it is half of a gate, the length of the run
    around a normalization that it belongs to (0 for none), and what it does to the product before it (place in ``EPILOGUES``, -1).
    """

    length: Ints
    number: Ints
    gated: Bools
    around_norm: Ints
    epilogue: Ints


def chains(context: Context, sorts: Sorts) -> Chains:
    """Find the chains of a recording.

    A chain ends with the step, and where the stream rests: what comes then is another piece of the program.
    """
    work, rows = context.recording.work, context.kernel_rows
    size = len(rows)
    found = Chains(
        np.zeros(size, np.int64), np.full(size, -1, np.int64), np.zeros(size, np.bool_), np.zeros(size, np.int64),
        np.full(size, -1, np.int64),
    )  # fmt: skip
    # Gradients are added up and put into buckets as they come: that is no part of what runs before and after it.
    along = sorts.pointwise & ~_of_gradients(context, work.launch[rows])
    kept = np.flatnonzero(along | ~sorts.pointwise)
    if not size or not along.any():
        return found
    start = work.start[rows]
    order = kept[np.lexsort((start[kept], work.stream[rows[kept]], work.device[rows[kept]]))]
    rows, along, start = rows[order], along[order], start[order]
    same = (work.device[rows][1:] == work.device[rows][:-1]) & (work.stream[rows][1:] == work.stream[rows][:-1])
    step = context.recording.step_of(start)
    near = np.append(False, same & (start[1:] - work.end[rows][:-1] <= _REST_NS) & (step[1:] == step[:-1]))
    launch = work.launch[rows]
    found.gated[order] = _gates(context, launch, along, near, sorts.multiplies[order])
    found.epilogue[order] = _epilogues(context, rows, along, near)
    another = _another_operator(context, launch, work.name[rows])
    norms = sorts.normalizes[order]
    along |= _bridges(context, launch, along, near, sorts.joins[order], sorts.reduces[order])
    joined = near & along & np.append(False, along[:-1])
    joined &= ~_strangers(context, launch, joined & (~another | _in_place(context, launch)))
    joined &= ~_other_sources(context, launch, joined)
    block = np.cumsum(~joined | another) - 1
    along &= np.bincount(block)[block] < _LOOP
    single = along & sorts.pointwise[order]
    joined &= along & np.append(False, along[:-1])
    run = np.cumsum(~joined) - 1
    along &= np.bincount(run, joined & another)[run] > 0
    found.length[order] = np.where(along, np.bincount(run)[run], 0)
    found.number[order] = np.where(along, run, -1)
    found.around_norm[order] = _around(context, launch, single & ~(norms | sorts.counts[order]), norms, near)
    return found


def _bridges(context: Context, launch: Ints, along: Bools, near: Bools, joins: Bools, reduces: Bools) -> Bools:
    """Flag concatenations between pointwise kernels, and reductions whose result is broadcast over what was reduced.

    Both by their shapes alone: older traces say of lists of tensors nothing, and how many there were.
    """
    dims, texts = context.op_column(launch, "dims"), context.shape_texts
    after = np.append(near[1:] & along[1:], False)
    out: Bools = joins & near & np.append(False, along[:-1]) & after
    for at in np.flatnonzero(out).tolist():
        known = dims[at - 1 : at + 2]
        before, own, behind = (texts[code] for code in known.tolist()) if (known >= 0).all() else ("", "", "")
        out[at] = _result(own) > 0 and _may_read(before, own) and _may_read(own, behind)
    link = along | reduces
    for at in np.flatnonzero(reduces & (dims >= 0) & np.append(near[1:] & link[1:], False)).tolist():
        for place in range(at + 1, min(at + 1 + _READER, len(link))):
            if not near[place] or not link[place]:
                break
            if dims[place] >= 0 and _broadcasts(texts[dims[at]], texts[dims[place]]):
                out[at] = True
                break
    return out


def _gates(context: Context, launch: Ints, along: Bools, near: Bools, products: Bools) -> Bools:
    """Flag both halves of gates: a pointwise kernel, and one that reads its result behind a product that cannot.

    The result of the product is as large as the first one's, and the second takes two operands of that size.
    """
    out = np.zeros(len(launch), np.bool_)
    dims, texts = context.op_column(launch, "dims"), context.shape_texts
    middle = np.flatnonzero(products[1:-1] & along[:-2] & along[2:] & near[1:-1] & near[2:] & (dims[1:-1] >= 0)) + 1
    middle = middle[(dims[middle - 1] >= 0) & (dims[middle + 1] >= 0)]
    first, kind = alike(dims[middle - 1], dims[middle], dims[middle + 1])
    gated = np.array(
        [_gate(*(texts[code] for code in dims[at - 1 : at + 2].tolist())) for at in middle[first]], np.bool_
    )
    at = middle[gated[kind]]
    out[at - 1] = out[at + 1] = True
    return out


def _gate(first: str, product: str, second: str) -> bool:
    """Tell by shapes whether the second pointwise kernel reads the first one's result, and the product between cannot."""
    result, factors = _result(first), [_size(shape) for shape in _shapes(product)]
    read = [_size(shape) for shape in _shapes(second)]
    return result > 1 and result not in factors and read.count(result) >= 2 and _product(product) == result


def _epilogues(context: Context, rows: Ints, along: Bools, near: Bools) -> Ints:
    """Say what pointwise kernels right behind a matrix product do to its result: its place in ``EPILOGUES``; -1 of others.

    A row is added to all rows of it, as linear's bias is, or all of it is scaled by one number, as a smaller factor could be.
    Where ranks sum their results between the two, the bias has to come behind that.
    """
    work = context.recording.work
    launch = work.launch[rows]
    out = np.full(len(launch), -1, np.int64)
    dims, texts = context.op_column(launch, "dims"), context.shape_texts
    op = fetch(context.recording.host.name, fetch(context.recording.host.attributes.op, launch))
    product = np.array([name in _PRODUCTS for name in context.names] or [False], np.bool_)
    if not product.any():
        return out
    asked = along & near & (op >= 0) & (dims >= 0)
    asked &= np.append(False, product[op[:-1]] & (op[:-1] >= 0) & (dims[:-1] >= 0))
    places = np.flatnonzero(asked)
    sums = union(work.start[work.communication], work.end[work.communication])
    places = places[covered(sums, work.end[rows][places - 1], work.start[rows][places]) == 0]
    first, kind = alike(op[places], dims[places - 1], dims[places])
    likely = [(context.names[op[at]], texts[dims[at - 1]], texts[dims[at]]) for at in places[first].tolist()]
    out[places] = np.array([_epilogue(*each) for each in likely], np.int64)[kind]
    return out


def _epilogue(name: str, factors: str, own: str) -> int:
    """Return the place in ``EPILOGUES`` of an operator behind a product, by the operands of both; -1 where it is none."""
    if name in _ADDS and _adds_a_row(factors, own):
        return 0
    return 1 if name in _SCALES and _scales(factors, own) else -1


def _adds_a_row(factors: str, own: str) -> bool:
    """Tell whether an addition takes the result of a product of two matrices, and one row as long as its rows."""
    shapes, matrices = _shapes(own), _shapes(factors)
    if len(shapes) != 2 or any(len(shape) != 2 for shape in matrices):
        return False
    whole, row = sorted(shapes, key=_size, reverse=True)
    result, width = _product(factors), whole[-1]
    return 0 < result == _size(whole) > width == matrices[-1][-1] and _size(row) == row[-1] == width


def _scales(factors: str, own: str) -> bool:
    """Tell whether an operator scales the result of a product by one number, and one of the factors is far smaller."""
    shapes, result = _shapes(own), _product(factors)
    least = min(map(_size, _shapes(factors)), default=0)
    return len(shapes) == 1 and 0 < result == _size(shapes[0]) and _SMALLER * least <= result


def _around(context: Context, launch: Ints, single: Bools, norms: Bools, near: Bools) -> Ints:
    """Length of the run of normalizations and pointwise kernels that each kernel is in; 0 where it has not both.

    *single* flags pointwise kernels; those of an operator without a tensor count something, and are left out.
    """
    dims = context.op_column(launch, "dims")
    bare = np.array([bool(text) and not _shapes(text) for text in context.shape_texts] or [False], np.bool_)
    single = single & ~((dims >= 0) & bare[np.maximum(dims, 0)])
    member = single | norms
    joined = near & member & np.append(False, member[:-1])
    joined &= ~_strangers(context, launch, joined)
    run = np.cumsum(~joined) - 1
    both = (np.bincount(run, single) > 0) & (np.bincount(run, norms) > 0)
    length: Ints = np.where(member & both[run], np.bincount(run)[run], 0)
    return length


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


def _other_sources(context: Context, launch: Ints, asked: Bools) -> Bools:
    """Flag those of the *asked* kernels that are copies of a tensor which the result of the one before is not, by its size."""
    out = np.zeros(len(launch), np.bool_)
    codes = [code for code, name in enumerate(context.names) if name == "aten::copy_"]
    op = fetch(context.recording.host.name, fetch(context.recording.host.attributes.op, launch))
    dims, strides = context.op_column(launch, "dims"), context.op_column(launch, "strides")
    known = np.append(False, (dims[1:] >= 0) & (dims[:-1] >= 0))
    texts, inputs = context.shape_texts, context.recording.recorded.inputs
    for at in np.flatnonzero(asked & known & np.isin(op, codes)).tolist():
        steps = inputs[strides[at]].decode("utf-8", "replace") if strides[at] >= 0 else ""
        result, source = _result(texts[dims[at - 1]]), _stored(texts[dims[at]], steps)
        out[at] = result > 0 and source > 0 and not _parts(result, source)
    return out


@lru_cache(maxsize=4096)
def _stored(text: str, strides: str) -> int:
    """Elements that lie in memory of what a copy reads, its second operand: those of stride 0 once; 0 where unknown."""
    shapes, steps = _shapes(text), _shapes(strides)
    if len(shapes) < 2:
        return 0
    if len(steps) < 2 or len(steps[1]) != len(shapes[1]):
        return _size(shapes[1])
    return math.prod(size for size, step in zip(shapes[1], steps[1], strict=True) if step)


def _may_read(before: str, after: str) -> bool:
    """Tell whether an operator on shapes *after* may read what one on shapes *before* wrote, whole or in a few parts."""
    result, operands = _result(before), _elements(after)
    if not result or not operands:
        return True
    return any(_parts(result, count) for count in operands if count)


def _parts(one: int, other: int) -> bool:
    """Tell whether a tensor of so many elements is another, or a few of its equal parts."""
    return max(one, other) % min(one, other) == 0 and max(one, other) <= _PARTS * min(one, other)


@lru_cache(maxsize=4096)
def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    found = (match[1] for match in _LIST.finditer(text))
    return tuple(tuple(int(part[:15]) for part in parts.split(",")) for parts in found if parts.strip())


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _elements(text: str) -> set[int]:
    return {_size(shape) for shape in _shapes(text)}


@lru_cache(maxsize=4096)
def _product(text: str) -> int:
    """Elements of the result of a matrix product; 0 where its last two operands are no factors of one."""
    factors = [shape for shape in _shapes(text) if len(shape) >= 2][-2:]
    if len(factors) < 2 or factors[0][-1] != factors[1][-2]:
        return 0
    return _size(factors[0][:-1]) * factors[1][-1]


@lru_cache(maxsize=4096)
def _broadcasts(reduction: str, later: str) -> bool:
    """Tell whether a later operator takes what was reduced together with the means over its last dimension, or last few."""
    shapes = _shapes(reduction)
    if not shapes or len(shapes[0]) < 2:
        return False
    whole, operands = shapes[0], _elements(later)
    parts = {_size(whole[:place]) for place in range(1, len(whole))} - {1, _size(whole)}
    return _size(whole) in operands and bool(parts & operands)


@lru_cache(maxsize=4096)
def _result(text: str) -> int:
    """Elements of a pointwise result, or of a list's concatenation; 0 where operands do not fit each other, as in indexing."""
    shapes = _shapes(text)
    if text.startswith("[[["):
        return sum(map(_size, shapes))
    width = max((len(shape) for shape in shapes), default=0)
    total = 1
    for place in range(1, width + 1):
        sizes = {shape[-place] for shape in shapes if len(shape) >= place} - {1}
        if len(sizes) > 1:
            return 0
        total *= max(sizes, default=1)
    return total if shapes else 0
