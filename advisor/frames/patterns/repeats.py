"""Copies of the same numbers that are written out (repeat, repeat_interleave, contiguous behind expand) and need not be.

What a copy is for decides: a product of many, an operator on elements and a gather take the numbers once, broadcast or expanded;
a layer gives equal rows for equal rows, so it can run before they are repeated.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.operands import (
    around,
    beyond,
    expansions,
    following,
    forward,
    keys,
    launched,
    numbers,
    stored,
    worked,
)
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, coded
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED

_MAKERS = frozenset(
    f"aten::{name}"
    for name in ("repeat", "repeat_interleave", "tile", "contiguous", "reshape", "reshape_as", "flatten", "clone")
)
_PRODUCT = regex(r"^aten::(?:bmm|baddbmm|matmul|einsum|_?scaled_dot_product\w*)$")
_LAYER = regex(r"^aten::(?:linear|addmm|mm|matmul|mv)$")
_ELEMENTS = regex(
    r"^aten::(?:add|sub|rsub|mul|div|where|masked_fill|maximum|minimum|addcmul|lerp|eq|ne|lt|le|gt|ge|pow)$"
)
_INDEX = regex(r"^aten::(?:gather|scatter_add|scatter|scatter_reduce)_?$")
NONE, PRODUCT, ELEMENTS, INDEX, JOIN, LAYER, OTHER = range(7)
_USES = {PRODUCT: "product", ELEMENTS: "elements", INDEX: "index"}
_LEAST = 1 << 14
_TIMES = 8
"""Times that rows are repeated before a layer, from where on to run it on them once pays by far."""
_FEW, _EASED = 8, 0.7
"""Products of few rows (an eighth of the copy's numbers) read each key once for a group of heads then, and were faster by 37 to
67 % at four sizes: by 0.7 of the keys that they do not read."""
_EXPANDED = 0.15
"""Part of a gather and its backward pass that an expanded index spared at two sizes: 11 to 21 %."""
_LARGE = 1 << 23
"""Elements from where on a tensor's memory is mapped anew each time, so that a concatenation costs more than its layer."""
_GPU_BYTE, _WIDE = 1 / 400, 4
"""ns a byte on a GPU, carefully, and bytes of a number at most: the layer's output is written for each row anyway, and read twice
for its gradient."""
_REACH = 300
_MOST = 20_000


class _Copies(Struct):
    """Copies in order: the operator that Python called for each, what it is called for, and by which operator it is taken."""

    node: Ints
    times: Ints
    size: Ints
    use: Ints
    taker: Ints

    def where(self, keep: Bools) -> _Copies:
        """Some of them."""
        return _Copies(self.node[keep], self.times[keep], self.size[keep], self.use[keep], self.taker[keep])


def repeated_copies(tree: Tree) -> Occurrences | None:
    """One row per copy of numbers that are in it twice or more, for an operator that can take them once.

    ``repeats`` says how often they are in it. On a GPU products are left out: of keys and values an attention's copies tell.
    """
    copies = tree.once(_copies)
    if copies is None:
        return None
    on_cpu = tree.context.cpu_program
    copies = copies.where(np.isin(copies.use, list(_USES)) & ((copies.use != PRODUCT) | on_cpu))
    count = len(copies.node)
    if not count:
        return None
    products = copies.use == PRODUCT
    wide = expansions(tree, copies.node, copies.size)
    marks = join(wide, Pairs(np.arange(count), copies.node))
    # What is added up again to the gradient of one copy, broadcasting adds up as well; a product of many does not.
    if not on_cpu:
        work = launched(tree, marks, backward=products)
        return _copied(tree, copies, work, NOTHING, np.ones(count))
    own = worked(tree, marks, backward=products)
    rate = _beside(tree, copies)
    eased = np.flatnonzero(rate > 0)
    beside = worked(tree, Pairs(eased, copies.taker[eased]), backward=copies.use == INDEX)
    cost = tree.context.ledger.cost(len(tree.context.op_rows), *OWNED)
    whole, more = own.total(cost, count), beside.total(cost, count)
    part = (whole + rate * more) / np.maximum(whole + more, 1)
    return _copied(tree, copies, NOTHING, join(own, beside), part)


def _copied(tree: Tree, copies: _Copies, work: Pairs, ops: Pairs, part: Floats) -> Occurrences:
    return Occurrences(
        kind="repeated-copy",
        node=copies.node,
        begin=tree.host.start[copies.node],
        end=tree.host.end[copies.node],
        inside=work,
        own=work,
        ops=ops,
        figures={
            "repeats": copies.times,
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(copies.node),
        },
        details=[_USES[use] for use in copies.use.tolist()],
    )


def _beside(tree: Tree, copies: _Copies) -> Floats:
    """Part of the time of what takes a copy that is spared as well: by products of few rows, and by gathers."""
    other = np.array(
        [_other(tree, *one) for one in zip(copies.taker.tolist(), copies.size.tolist(), strict=True)], np.int64
    )
    products = (copies.use == PRODUCT) & (other > 0) & (other * _FEW <= copies.size)
    spared = np.where(products, _EASED * (1 - 1 / copies.times), 0.0)
    rates: Floats = np.where(copies.use == INDEX, _EXPANDED, spared)
    return rates


def _other(tree: Tree, node: int, size: int) -> int:
    """Elements of the largest operand that is not as large as a copy."""
    operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
    return max((each for each in map(size_of, operands) if each != size), default=0)


def repeated_rows(tree: Tree) -> Occurrences | None:
    """One row per layer over rows that were put together from rows repeated eight times or more.

    ``length`` is the layer's width, ``part`` what goes with the repeated columns of it.
    """
    joins = forward(tree, ["aten::cat"])
    copies = tree.once(_copies) if len(joins) else None
    if not len(joins) or len(joins) > _MOST:
        return None
    found, of = keys(tree, joins, "dims", "strides", "concrete")
    facts = [
        _joined(tree.shapes.operands(dims), tree.strides.operands(step), numbers(tree.texts(value), 1))
        for _, dims, step, value in found
    ]
    known = np.array([fact is not None for fact in facts], np.bool_)[of]
    joins, of = joins[known], of[known]
    if not len(joins):
        return None
    size, width = (np.array([fact[at] if fact else 0 for fact in facts], np.int64)[of] for at in (0, 1))
    repeated = np.array([fact[2] if fact else 0 for fact in facts], np.int64)[of]
    taken = Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if copies is not None:
        copies = copies.where((copies.use == JOIN) & (copies.times >= _TIMES))
        place = np.searchsorted(joins, copies.taker)
        hit = (place < len(joins)) & (joins[np.minimum(place, len(joins) - 1)] == copies.taker)
        taken = Pairs(place[hit], copies.node[hit])
        rows = np.maximum(size // width, 1)[taken.row]
        np.add.at(repeated, taken.row, copies.size[hit] // rows)
    use, taker = _takers(tree, joins, size)
    kept = (use == LAYER) & (2 * repeated >= width)
    outputs = np.array(
        [_outputs(tree, one) if use_ == LAYER else 1 for one, use_ in zip(taker.tolist(), use.tolist(), strict=True)]
    )
    row_of = np.cumsum(kept) - 1
    joined = np.flatnonzero(kept)
    taken = taken.where(kept[taken.row])
    parts = [
        Pairs(row_of[taken.row], taken.index),
        Pairs(row_of[joined], joins[joined]),
        Pairs(row_of[joined], taker[joined]),
    ]
    if not len(joined):
        return None
    return _of_rows(
        tree, joins[joined], taker[joined], join(*parts), [one[joined] for one in (width, repeated, outputs, size)]
    )


def _of_rows(tree: Tree, joins: Ints, takers: Ints, marks: Pairs, sizes: list[Ints]) -> Occurrences:
    """Layers over joined rows: *sizes* are columns, those of them that are repeated, outputs, and elements that are joined."""
    on_cpu, late = tree.context.cpu_program, np.ones(len(joins), np.bool_)
    width, repeated, outputs, size = sizes
    work = NOTHING if on_cpu else launched(tree, marks, backward=late)
    if on_cpu:
        part = _spared(repeated / width, outputs / width, size > _LARGE)
    else:
        passes = np.where(
            np.bincount(work.row, tree.context.phases(tree.work.launch[work.index]) == BACKWARD, len(joins)), 3, 1
        )
        time = np.maximum(work.total(tree.work.end - tree.work.start, len(joins)), 1)
        kept = passes * _WIDE * (size // width) * outputs * _GPU_BYTE / time
        part = beyond(tree, work, np.minimum(repeated / width, 1.0) - kept)
    return Occurrences(
        kind="repeated-rows",
        node=joins,
        begin=tree.host.start[joins],
        end=tree.host.end[takers],
        inside=work,
        own=work,
        ops=worked(tree, marks, backward=late) if on_cpu else NOTHING,
        figures={
            "length": width,
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(joins),
        },
    )


def _spared(repeated: Floats, outputs: Floats, large: Bools) -> Floats:
    """Part of the time that a layer for each part spares, by its repeated columns and its outputs for each of its columns."""
    spared: Floats = np.minimum(repeated, 1.0) ** np.where(large, 0.3, 0.6) / (1 + 0.1 * outputs)
    return spared


def _outputs(tree: Tree, node: int) -> int:
    """Columns of a layer's result."""
    operator = tree.context.names[tree.host.name[node]]
    operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
    weight = operands[2 if operator == "aten::addmm" else 1]
    return 1 if len(weight) < 2 else weight[0 if operator == "aten::linear" else 1]


def _copies(tree: Tree) -> _Copies | None:
    """Copies outside of the backward pass that Python asked for, and the first operator that takes each."""
    nodes = forward(tree, ["aten::copy_"])
    if not len(nodes):
        return None
    found, of = keys(tree, nodes, "dims", "strides")
    facts = [_repeated(tree.shapes.operands(dims), tree.strides.operands(step)) for _, dims, step in found]
    times, size = (np.array([fact[at] for fact in facts], np.int64)[of] for at in (0, 1))
    kept = (times > 1) & (size >= _LEAST)
    nodes, times, size = nodes[kept], times[kept], size[kept]
    top = tree.calls[nodes]
    makers = tree.codes_of(_MAKERS.__contains__)
    kept = (top != nodes) & makers[tree.host.name[top]]
    nodes, times, size, top = nodes[kept], times[kept], size[kept], top[kept]
    if not 0 < len(nodes) <= _MOST:
        return None
    use, taker = _takers(tree, top, size)
    return _Copies(top, times, size, use, taker)


def _repeated(operands: tuple[Shape, ...], steps: tuple[Shape, ...]) -> tuple[int, int]:
    """Times that a copy holds each number, and its elements."""
    if len(operands) < 2 or len(steps) < 2 or operands[0] != operands[1] or not operands[0]:
        return 0, 0
    size = size_of(operands[1])
    return size // max(math.prod(stored(operands[1], steps[1])), 1), size


def _joined(operands: tuple[Shape, ...], steps: tuple[Shape, ...], dim: Shape | None) -> tuple[int, int, int] | None:
    """Elements of a concatenation of columns, their number, and how many of them are expanded; None for other dimensions."""
    shapes = [shape for shape in operands if shape]
    if (
        len(shapes) < 2
        or not dim
        or len({shape[:-1] for shape in shapes}) > 1
        or dim[0] not in (-1, len(shapes[0]) - 1)
    ):
        return None
    width = sum(shape[-1] for shape in shapes)
    size = math.prod(shapes[0][:-1]) * width
    if not _LEAST <= size < 1 << 50 or not width:
        return None
    expanded = 0
    for shape, step in zip(shapes, steps, strict=False):
        if size_of(shape) >= _TIMES * math.prod(stored(shape, step)) > 0:
            expanded += shape[-1]
    return size, width, expanded


def _takers(tree: Tree, nodes: Ints, size: Ints) -> tuple[Ints, Ints]:
    """The first operator behind each node that takes so many elements: what it does with them, and where it is (-1: none)."""
    low = tree.after(nodes)
    behind = following(tree, nodes, low, low + _REACH)
    behind = behind.where(~np.isin(behind.index, nodes[around(tree, nodes) < 0]) | _joins(tree, behind.index))
    found, of = keys(tree, behind.index, "dims")
    sizes, at = coded(size)
    kinds, which = np.unique(np.stack([at.ravel()[behind.row], of], axis=1), axis=0, return_inverse=True)
    uses = [_use(tree, int(sizes[one]), *found[key]) for one, key in kinds.tolist()]
    use = np.array(uses, np.int64)[which.ravel()] if uses else np.zeros(0, np.int64)
    behind, use = behind.where(use != NONE), use[use != NONE]
    first = np.searchsorted(behind.row, np.arange(len(nodes)))
    has = first < np.searchsorted(behind.row, np.arange(len(nodes)), side="right")
    out, taker = np.zeros(len(nodes), np.int64), np.full(len(nodes), -1, np.int64)
    out[has], taker[has] = use[first[has]], behind.index[first[has]]
    return out, taker


def _joins(tree: Tree, nodes: Ints) -> Bools:
    joins: Bools = tree.codes_of("aten::cat".__eq__)[tree.host.name[nodes]]
    return joins


def _use(tree: Tree, size: int, name: int, dims: int) -> int:
    operands, operator = tree.shapes.operands(dims), tree.context.names[name]
    places = [at for at, shape in enumerate(operands) if size_of(shape) == size]
    if not places:
        return NONE
    if operator == "aten::cat":
        return JOIN
    if _LAYER.match(operator) and _of_weights(operator, operands, places[0]):
        return LAYER
    if _PRODUCT.match(operator):
        return PRODUCT
    if _INDEX.match(operator):
        return INDEX if 2 in places else OTHER
    if _ELEMENTS.match(operator):
        return ELEMENTS if len(places) > 1 else OTHER
    return OTHER


def _of_weights(operator: str, operands: tuple[Shape, ...], place: int) -> bool:
    """Tell whether rows are multiplied with one matrix, or one vector."""
    rows, weight = (1, 2) if operator == "aten::addmm" else (0, 1)
    return place == rows and len(operands) > weight and len(operands[weight]) in (1, 2)
