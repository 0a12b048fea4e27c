"""Operands and takers of operators: real sizes of broadcast operands, and the operators that follow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from advisor.frames import operator_parts
from advisor.frames.patterns.dense_embedding import Floats
from advisor.frames.patterns.tree import NOTHING, Pairs, Tree, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import moves_no_data

_NUMBERS = regex(r"-?\d{1,12}")
_KERNEL = 3_000.0
"""ns that a kernel takes for next to nothing."""
_BEFORE = 16
"""Nodes before an operator in which its operand was expanded."""


def stored(shape: Shape, strides: Shape) -> Shape:
    """The shape without repetition: 1 where a dimension of stride 0 shows the same numbers again. Unknown strides: as it is."""
    if len(shape) != len(strides):
        return shape
    return tuple(1 if stride == 0 else size for size, stride in zip(shape, strides, strict=True))


def typical(taken: Ints, kind: Ints) -> Ints:
    """Return for each the median time of its kind, so that one that was held up is no slower kind."""
    out, order = taken.copy(), np.argsort(kind, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1) if len(order) else ():
        out[same] = int(np.median(taken[same]))
    return out


def numbers(texts: list[str] | None, place: int) -> Shape | None:
    """The whole numbers of a recorded value; None where it was not recorded."""
    if texts is None or place >= len(texts) or not texts[place] or len(texts[place]) > 400:
        return None
    return tuple(int(word) for word in _NUMBERS.findall(texts[place]))


def keys(tree: Tree, nodes: Ints, *columns: str) -> tuple[list[list[int]], Ints]:
    """Distinct names and columns of the operators at some nodes, and which of them each has."""
    values = [tree.host.name[nodes], *(tree.context.op_column(nodes, column) for column in columns)]
    if not len(nodes):
        return [], np.zeros(0, np.int64)
    # One number for each row, column by column: rows of an array are sorted ten times as slowly.
    of = np.zeros(len(nodes), np.int64)
    first = of
    for column in values:
        packed = of * (int(column.max()) + 2) + column.astype(np.int64) + 1
        _, first, of = np.unique(packed, return_index=True, return_inverse=True)
        of = of.ravel()
    return np.stack([column[first] for column in values], axis=1).tolist(), of


def forward(tree: Tree, names: Sequence[str] | frozenset[str]) -> Ints:
    """Nodes of operators with these names, outside of the backward pass."""
    nodes = tree.ops(tree.codes_of(frozenset(names).__contains__))
    kept: Ints = nodes[tree.host.attributes.phase[nodes] != BACKWARD]
    return kept


def around(tree: Tree, nodes: Ints) -> Ints:
    """The operator around each node; -1 for what Python calls."""
    return tree.host.above(nodes, tree.host.group == OP)


def following(tree: Tree, nodes: Ints, low: Ints, high: Ints, also: frozenset[str] = frozenset()) -> Pairs:
    """Operators beside each node, from *low* to *high*, that read or write numbers: same thread, same caller, no backward pass.

    Beside them those of the names in *also*, which may copy.
    """
    host = tree.host
    silent = tree.codes_of(lambda name: moves_no_data(name) and name not in also)
    pairs = spread(low, np.minimum(high, host.size))
    at = pairs.index
    pairs = pairs.where((host.group[at] == OP) & ~silent[host.name[at]] & (host.attributes.phase[at] != BACKWARD))
    pairs = pairs.where(host.thread[pairs.index] == host.thread[nodes][pairs.row])
    return pairs.where(around(tree, pairs.index) == around(tree, nodes)[pairs.row])


def expansions(tree: Tree, nodes: Ints, sizes: Ints) -> Pairs:
    """Pairs of a row and an expand shortly before its node that gives so many elements."""
    host, expand = tree.host, tree.codes_of("aten::expand".__eq__)
    pairs = spread(np.maximum(nodes - _BEFORE, 0), nodes)
    pairs = pairs.where((host.group[pairs.index] == OP) & expand[host.name[pairs.index]])
    pairs = pairs.where(host.thread[pairs.index] == host.thread[nodes][pairs.row])
    found, of = keys(tree, pairs.index, "dims", "concrete")
    given = np.array([_expanded(tree, dims, concrete) for _, dims, concrete in found], np.int64)
    return pairs.where(given[of] == sizes[pairs.row]) if len(given) else pairs


def _expanded(tree: Tree, dims: int, concrete: int) -> int:
    operands, wanted = tree.shapes.operands(dims), numbers(tree.texts(concrete), 1)
    if not operands or not wanted or len(wanted) < len(operands[0]):
        return -1
    old = (1,) * (len(wanted) - len(operands[0])) + operands[0]
    return math.prod(size if size >= 0 else kept for size, kept in zip(wanted, old, strict=True))


def worked(tree: Tree, marks: Pairs, *, backward: Bools) -> Pairs:
    """Rows of `ops` below marked nodes, and, of rows where *backward* says so, those of their backward pass."""
    host, rows = tree.host, tree.context.op_rows
    own = np.full(host.size, -1, np.int64)
    own[marks.index] = marks.row
    plain, whole = host.flow(own)[rows], host.with_backward(own)[rows]
    kept = np.where((whole >= 0) & (backward[np.maximum(whole, 0)] | (plain >= 0)), whole, -1)
    index = np.flatnonzero(kept >= 0)
    order = np.argsort(kept[index], kind="stable")
    return Pairs(kept[index][order], index[order])


def launched_of(tree: Tree, of: Ints) -> Pairs:
    """GPU work whose launch belongs to a row, where *of* is the row of each node, -1 for none."""
    launch = tree.work.launch
    index = np.flatnonzero(launch >= 0)
    index = index[of[launch[index]] >= 0]
    return Pairs(of[launch[index]], index).each_once()


def launched(tree: Tree, marks: Pairs, *, backward: Bools) -> Pairs:
    """GPU work below marked nodes, and, of rows where *backward* says so, that of their backward pass."""
    host, work = tree.host, tree.work
    own = np.full(host.size, -1, np.int64)
    own[marks.index] = marks.row
    index = np.flatnonzero(work.launch >= 0)
    at = work.launch[index]
    plain, whole = host.flow(own)[at], host.with_backward(own)[at]
    row = np.where((whole >= 0) & (backward[np.maximum(whole, 0)] | (plain >= 0)), whole, -1)
    index, row = index[row >= 0], row[row >= 0]
    order = np.argsort(row, kind="stable")
    return Pairs(row[order], index[order])


def beyond(tree: Tree, work: Pairs, part: Floats) -> Floats:
    """The *part* of each row's time that goes, but for what its kernels take however little they do."""
    count = np.bincount(work.row, minlength=len(part))
    time = work.total(tree.work.end - tree.work.start, len(part))
    left: Floats = np.maximum(part - _KERNEL * count / np.maximum(time, 1), 0)
    return left


def with_python(tree: Tree, nodes: Pairs) -> tuple[Pairs, Pairs]:
    """Rows of `ops` at or below nodes, and segments of the ledger in which Python leads to them, in a program on the CPU."""
    ops = tree.rows_of_ops(nodes)
    return ops, leading(tree, ops)


def owned(tree: Tree, of: Ints) -> tuple[Pairs, Pairs, Pairs]:
    """GPU work of the nodes that belong to rows; in a program on the CPU their rows of `ops`, and the Python that leads there."""
    if tree.context.cpu_program:
        rows = of[tree.context.op_rows]
        index = np.flatnonzero(rows >= 0)
        order = np.argsort(rows[index], kind="stable")
        ops = Pairs(rows[index][order], index[order])
        return NOTHING, ops, leading(tree, ops)
    return launched_of(tree, of), NOTHING, NOTHING


def leading(tree: Tree, ops: Pairs) -> Pairs:
    """Segments of the ledger in which Python leads to some rows of `ops`."""
    segments, behind = operator_parts.python(tree.context)
    order = np.argsort(ops.index, kind="stable")
    low = np.searchsorted(ops.index[order], behind, side="left")
    led = low < np.searchsorted(ops.index[order], behind, side="right")
    found = Pairs(ops.row[order][low[led]], segments[led])
    order = np.argsort(found.row, kind="stable")
    return Pairs(found.row[order], found.index[order])


def made_by_convolution(dims: tuple[Shape, ...], told: tuple[Shape, ...], widths: set[int]) -> set[int]:
    """Lengths that a convolution of kernel, stride, padding and dilation makes of those of *widths* that it is given."""
    if len(dims) < 2 or len(dims[0]) != len(dims[1]) or len(told) < 3:
        return set()
    made = set()
    for at in range(2, len(dims[0])):
        length, kernel = dims[0][at], dims[1][at]
        stride, padding, dilation = (numbers[min(at - 2, len(numbers) - 1)] if numbers else 1 for numbers in told[:3])
        if length in widths and stride > 0:
            made.add((length + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1)
    return {length for length in made if length > 1}
