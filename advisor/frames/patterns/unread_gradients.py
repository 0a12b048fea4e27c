"""Gradients of parameters that pile up unread: of a model differentiated by its input, or of a fixed network in a loss."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from msgspec import Struct

from advisor.frames import optimizers
from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.passes import called_at, calls_between
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, spread
from advisor.frames.patterns.unused_gradients import Pass, backward_passes, zero_fills
from advisor.frames.patterns.updates import LISTED, Shape, first_operand, recorded_updates
from advisor.intervals import Ints, fetch
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP

_LEAST_PASSES = 2
# What takes a parameter into the forward pass, or hands it on; any other operator on a tensor of its shape may read its gradient.
_CARRIES = regex(
    r"^aten::(?:t|transpose|permute|view|reshape|expand|detach_?|alias|as_strided|slice|select|unsqueeze|squeeze|contiguous"
    r"|to|_to_copy|linear|addmm|mm|bmm|baddbmm|matmul|einsum|conv\w*|_convolution|cudnn_\w+|mkldnn_\w+|embedding\w*"
    r"|prelu|lstm|gru|empty\w*|zeros\w*|ones\w*|resize_|_?unsafe_view|is_\w+|requires_grad_)$"
)
_COMPILED = regex(r"CompiledFxGraph|Torch-Compiled Region")
_UPDATES = regex(r"_fused_\w+_$")
_MATRIX = regex(r"^aten::(?:mm|bmm)$")
_SUM = "aten::sum"
_TABLE = "aten::embedding_dense_backward"
_CONVOLUTION = "aten::convolution_backward"
_WEIGHTS_PART = 0.6
"""Part of a convolution's backward on the CPU, one operator, that its weights take where it makes its input's gradient too.

Both take as many products. Ten sizes on one core under torch 2.13: without the weights' 48 to 73 % of the time went, but 13 %
where an image has three channels."""
_FILTER = regex(r"wgrad|bwd_?filter|bwd_?weights|backward_?weights", re.IGNORECASE)


class _Closed(Struct, eq=False):
    """Nodes of a pass that lead to unread gradients alone, and the operator that makes those of the network's first layer."""

    nodes: list[int]
    last: int


def unread_gradients(tree: Tree) -> Occurrences | None:
    """One row per backward pass, for gradients that are added to those of the pass before, and that nothing updates by or clears.

    Without an optimizer, each pass stores a gradient anew beside them: that of a tensor which takes part in this pass alone
    (positions of which forces are made, an image that is attacked), and what the pass is for. With one, what it updates is
    known by shape, and so is that the pass goes on behind them to what it updates: they are of a fixed network in the loss.
    Gradients are known by their shape; one that another operator than those of the forward pass touches counts as read. None
    where compiled code may update something. ``part`` is what of the row's time goes: of a convolution's backward on the CPU,
    where it makes its input's gradient as well, :data:`_WEIGHTS_PART`. Where the network's first layer makes no gradient of its
    input, none goes on from there: without gradients of its parameters nothing of its backward runs (a teacher, given the data).
    """
    found = _piled(tree)
    if found is None:
        return None
    rows, piled = found
    stores = Pairs(
        np.repeat(np.arange(len(rows)), [len(kept) for _, kept in rows]),
        np.concatenate([np.array(kept, np.int64) for _, kept in rows]),
    )
    makers, convolutions = _makers(tree, rows, piled)
    closed = _closed(tree, rows, join(makers, convolutions))
    alone = np.array([one is not None for one in closed], np.bool_)
    stores, makers, convolutions = (each.where(~alone[each.row]) for each in (stores, makers, convolutions))
    filters = _filters(tree, convolutions)
    ends = [(number, node) for number, one in enumerate(closed) if one is not None for node in one.nodes]
    ended = np.array(ends, np.int64).reshape(-1, 2)
    nodes = join(join(stores, makers), Pairs(ended[:, 0], ended[:, 1]))
    part = np.ones(len(rows))
    if tree.context.cpu_program and len(convolutions.row):
        time = tree.host.end - tree.host.start
        whole, shared = nodes.total(time, len(rows)), convolutions.total(time, len(rows))
        left = Pairs(convolutions.row, np.arange(len(convolutions.row)))
        kept = (time[convolutions.index] * (1 - _of_weights(tree, convolutions.index))).astype(np.int64)
        part = 1 - left.total(kept, len(rows)) / np.maximum(whole + shared, 1)
        nodes = join(nodes, convolutions)
    work = tree.launched_below(nodes.index)
    own = join(Pairs(nodes.row[work.row], work.index), filters)
    host = tree.host
    first = np.array([one.nodes[0] for one, _ in rows], np.int64)
    return Occurrences(
        kind="unread-gradients",
        node=first,
        begin=np.array([host.start[one.nodes[0]] for one, _ in rows], np.int64),
        end=np.array([host.end[one.nodes].max() for one, _ in rows], np.int64),
        inside=own,
        own=own,
        ops=tree.rows_of_ops(nodes) if tree.context.cpu_program else NOTHING,
        user=_places(tree, closed, _called_at(tree, first)),
        figures={
            "repeats": np.array([len(kept) for _, kept in rows], np.int64),
            "length": np.array([len(one.shapes) for one, _ in rows], np.int64),
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(np.array([kept[0] for _, kept in rows], np.int64)),
        },
    )


def _piled(tree: Tree) -> tuple[list[tuple[Pass, list[int]]], set[Shape]] | None:
    """Return passes with the nodes that store what is added to the pass before and read by nothing, and the shapes of that."""
    other = _updated_or_cleared(tree)
    if other is None:
        return None
    updated, cleared = other
    found = tree.once(backward_passes)
    if len(found) < _LEAST_PASSES:
        return None
    shapes = {shape for one in found for shape in one.shapes}
    # Of shards and of flat copies nobody can tell whose gradients they are.
    if updated - shapes:
        return None
    piled = {shape for shape in shapes if not any(one.fresh[shape] for one in found)} - updated - cleared
    anew = updated or {shape for shape in shapes if not any(one.added[shape] for one in found)}
    piled -= _read(tree, piled)
    rows = [(one, kept) for one in found if (kept := _stores(one, piled, updated)) and anew & set(one.shapes)]
    if len(rows) < _LEAST_PASSES:
        return None
    return rows, piled


def _updated_or_cleared(tree: Tree) -> tuple[set[Shape], set[Shape]] | None:
    """Return the shapes of what optimizers update, and of what is filled with zeros; None where something hides either."""
    names = tree.context.names
    if any(map(_COMPILED.search, names)):
        return None
    if not len(optimizers.nodes(tree.context)):
        return None if any(map(_UPDATES.search, names)) else (set(), set())
    steps, fills = tree.context.once(recorded_updates), [shapes for _, shapes in zero_fills(tree)]
    if steps is None or len(steps) < _LEAST_PASSES or None in fills:
        return None
    return {shape for step in steps for shape in step.most}, {shape for shapes in fills for shape in shapes or ()}


def _called_at(tree: Tree, first: Ints) -> Ints:
    """Places (codes) of the calls of passes with these first nodes."""
    host = tree.host
    thread, calls = calls_between(tree)
    before = fetch(calls, np.searchsorted(host.start[calls], host.start[first]) - 1)
    return called_at(tree, first, thread, before)


def _stores(one: Pass, shapes: set[Shape], updated: set[Shape]) -> list[int]:
    """Return the nodes of a pass that store gradients of these shapes, before the last that an optimizer uses."""
    last = max((at for at, shape in enumerate(one.shapes) if shape in updated), default=len(one.shapes))
    return [node for node, shape in zip(one.stored[:last], one.shapes, strict=False) if shape in shapes]


def _read(tree: Tree, shapes: set[Shape]) -> set[Shape]:
    """Return the shapes of which an operator outside of backward passes takes a tensor first, one that does not only carry it."""
    host = tree.host
    nodes = tree.outermost[host.attributes.phase[tree.outermost] != BACKWARD]
    nodes = nodes[~tree.codes_of(lambda name: _CARRIES.match(name) is not None)[host.name[nodes]]]
    _, firsts = np.unique(host.name[nodes].astype(np.int64) << 32 | tree.dims(nodes) & 0xFFFFFFFF, return_index=True)
    read = set[Shape]()
    for node in nodes[firsts].tolist():
        name = tree.context.names[host.name[node]]
        listed = LISTED.match(name) is not None or name.startswith("aten::_foreach")
        operands = first_operand(tree, node, listed=listed)
        if listed and operands is None:  # of a list of more than 30 tensors no shape is recorded: any may be in it
            return shapes
        read.update(shape for shape in operands or () if shape in shapes)
    return read


def _makers(tree: Tree, rows: list[tuple[Pass, list[int]]], shapes: set[Shape]) -> tuple[Pairs, Pairs]:
    """Operators that make gradients of these shapes, by row, and backward operators of convolutions that make such.

    No more of a shape than are stored. Of two products in one node of the graph the second is that of the weights.
    """
    host = tree.host
    chosen = tree.codes_of(
        lambda name: _MATRIX.match(name) is not None or name in (_SUM, _TABLE) or name == _CONVOLUTION
    )
    row, index = [0][:0], [0][:0]
    of_filters: list[tuple[int, int]] = []
    for number, (one, _) in enumerate(rows):
        below = spread(one.nodes, tree.after(one.nodes))
        ops = below.where((host.group[below.index] == OP) & chosen[host.name[below.index]])
        left = Counter(shape for shape in one.shapes if shape in shapes)
        for node in ops.index[np.lexsort((-host.start[ops.index], ops.row))].tolist():
            name = tree.context.names[host.name[node]]
            made = _made(name, tree.shapes.operands(int(tree.dims(np.array([node]))[0])), left)
            if made is None:
                continue
            left[made] -= 1
            if name == _CONVOLUTION:
                of_filters.append((number, node))
            else:
                row.append(number)
                index.append(node)
    convolutions = np.array(of_filters, np.int64).reshape(-1, 2)
    return Pairs(np.array(row, np.int64), np.array(index, np.int64)), Pairs(convolutions[:, 0], convolutions[:, 1])


def _closed(tree: Tree, rows: list[tuple[Pass, list[int]]], makers: Pairs) -> list[_Closed | None]:
    """Return the nodes of each pass that only lead to gradients which nothing reads; None where they may lead on to others.

    They reach from the first operator that makes such a gradient to the last, which is of the network's first layer. Where both
    a trained parameter and one of theirs have a shape, as many as a step updates are stored elsewhere in the pass.
    """
    found: list[_Closed | None] = []
    steps = tree.context.once(recorded_updates) or []
    updated = Counter({shape: max(each.upto(shape) for each in steps) for one in steps for shape in one.most})
    for number, (one, kept) in enumerate(rows):
        made = np.sort(makers.index[makers.row == number])
        place = np.searchsorted(one.nodes, made, side="right") - 1
        if (
            not len(made)
            or place[0] < 0
            or np.any(np.diff(one.nodes) < 0)
            or not _ends_there(tree, one.nodes[place[-1]])
        ):
            found.append(None)
            continue
        nodes = one.nodes[place[0] : place[-1] + 1]
        first, last = int(nodes[0]), int(tree.after(nodes[-1:])[0])
        stored = list(zip(one.stored, one.shapes, strict=False))
        others = Counter(shape for node, shape in stored if not first <= node < last)
        trained = any(others[shape] < updated[shape] for node, shape in stored if first <= node < last)
        # Between them, where a small branch (of the time) ends last, a gradient that is read: the input's own.
        unread = set(kept)
        trained |= any(first <= node < last and node not in unread and not updated[shape] for node, shape in stored)
        behind = [node for node in kept if not first <= node < last]
        found.append(None if trained else _Closed([*nodes.tolist(), *behind], int(made[-1])))
    return found


def _places(tree: Tree, closed: list[_Closed | None], called: Ints) -> Ints:
    """Places (codes) of rows: the first layer's call of a network whose whole backward goes, else where the pass is *called*."""
    first = [-1 if one is None else int(tree.host.attributes.user[one.last]) for one in closed]
    return np.where(np.array(first, np.int64) >= 0, first, called)


def _ends_there(tree: Tree, node: int) -> bool:
    """Tell whether a node of the graph makes gradients of parameters alone, none of its input."""
    host = tree.host
    inner = np.arange(node, int(tree.after(np.array([node]))[0]))
    names = [tree.context.names[code] for code in host.name[inner].tolist()]
    convolutions = inner[[name == _CONVOLUTION for name in names]]
    if len(convolutions):
        return bool((_of_weights(tree, convolutions) == 1.0).all())
    return _TABLE in names or sum(_MATRIX.match(name) is not None for name in names) == 1


def _of_weights(tree: Tree, nodes: Ints) -> Floats:
    """Part of the time of convolutions' backward that gradients of weights take: all where no other is asked for."""
    texts = [tree.texts(code) for code in tree.context.op_column(nodes, "concrete").tolist()]
    alone = np.array(
        [some is not None and some[-1:] != [] and some[-1].startswith("[False") for some in texts], np.bool_
    )
    return np.where(alone, 1.0, _WEIGHTS_PART)


def _made(name: str, operands: tuple[Shape, ...], left: Counter[Shape]) -> Shape | None:
    """Return the shape of the gradient that an operator makes, one of which some are *left*."""
    if name == _CONVOLUTION:
        candidates = operands[2:3]
    elif name == _SUM:
        candidates = (
            tuple((1,) * ones + operands[0][-1:] for ones in (0, 1)) if operands and len(operands[0]) > 1 else ()
        )
    elif name == _TABLE:
        candidates = tuple(shape for shape in left if operands and len(shape) == 2 and shape[1:] == operands[0][-1:])
    else:
        wide = len(operands) >= 2 and len(operands[0]) >= 2 and len(operands[1]) >= 2
        ends = (operands[0][-2], operands[1][-1]) if wide else ()
        candidates = (ends, ends[::-1])
    return next((shape for shape in candidates if left[shape] > 0), None)


def _filters(tree: Tree, nodes: Pairs) -> Pairs:
    """GPU work of convolutions' backward that makes the gradients of their weights, told by the kernels' names."""
    work = tree.launched_below(nodes.index)
    weights = np.array([_FILTER.search(name) is not None for name in tree.context.names], np.bool_)
    return Pairs(nodes.row[work.row], work.index).where(weights[tree.work.name[work.index]])
