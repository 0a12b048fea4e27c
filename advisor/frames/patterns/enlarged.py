"""Layers that run on more positions than they must: a pointwise layer behind what repeats positions, or before what drops them.

A 1x1 convolution, or a Linear over channels, treats every position alike and linearly. Interpolation and average pooling weigh
positions, with weights that sum up to 1, and slicing picks some: so both orders give the same numbers. The layer belongs where
there are fewer positions, and the resizing where there are fewer channels.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import keys, numbers
from advisor.frames.patterns.tree import Occurrences, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import PRODUCTS, Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.intervals import Bools, Ints
from advisor.regex import regex

_UPSAMPLE = regex(r"^aten::_?upsample_(?:nearest|nearest_exact|linear|bilinear|bicubic|trilinear)[123]d(?:_aa)?$")
_CONVOLUTION = regex(r"^aten::(?:conv[123]d|convolution)$")
_POOL = regex(r"^aten::(?:adaptive_)?avg_pool[123]d$")
_CUTS = frozenset({"aten::slice", "aten::narrow", "aten::select"})
_MEAN = "aten::mean"
_TURNS = frozenset(
    {"aten::permute", "aten::transpose", "aten::movedim", "aten::contiguous", "aten::to", "aten::detach"}
)
_REPEATS = frozenset({"aten::repeat", "aten::expand", "aten::repeat_interleave"})
_LEAST = 1 << 15
"""Elements of the larger tensor: work on a smaller one takes microseconds."""
_MOST, _REACH = 20_000, 200


class _Order(Struct, eq=False):
    """An operator that changes the number of positions, the layers beside it, and what remains of the time of each (of 1)."""

    call: int
    detail: str
    resized: list[int] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    of_resized: float = 1.0
    of_layers: float = 1.0


def enlarged(tree: Tree) -> Occurrences | None:
    """One row per place where a pointwise layer runs on more positions than in the other order, with both backward passes.

    ``part`` is what the other order spares: of the layers by their positions, of the resizing by its channels.
    """
    orders = [*_behind_repeating(tree), *_before_dropping(tree)]
    if not orders:
        return None
    orders.sort(key=lambda order: order.call)
    host, count = tree.host, len(orders)
    calls = np.array([order.call for order in orders], np.int64)
    last = np.array([max([*order.resized, *order.layers]) for order in orders], np.int64)
    parts = []
    for places, left in (
        ([order.resized for order in orders], [order.of_resized for order in orders]),
        ([order.layers for order in orders], [order.of_layers for order in orders]),
    ):
        pairs = pairs_of(places)
        pairs = join(pairs, backward_of(tree, pairs, calls, tree.after(last)))
        parts.append((pairs, time_of(tree, pairs, count), np.array(left)))
    nodes = join(*[pairs for pairs, _, _ in parts])
    time = sum(taken for _, taken, _ in parts)
    part = 1 - sum(taken * left for _, taken, left in parts) / np.maximum(time, 1)
    chosen = np.flatnonzero((part > 0) & (time > 0))
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, nodes, chosen, count)
    at = np.array([orders[one].layers[0] for one in chosen.tolist()], np.int64)
    return Occurrences(
        kind="enlarged",
        node=at,
        begin=host.start[at],
        end=host.end[at],
        inside=inside,
        own=inside,
        ops=ops,
        figures={"part": np.rint(part[chosen] * MILLION).astype(np.int64), "dims": tree.dims(at)},
        details=[orders[one].detail for one in chosen.tolist()],
    )


def _behind_repeating(tree: Tree) -> list[_Order]:
    """Upsampled or repeated tensors that nothing but pointwise layers to fewer channels takes."""
    uses, names = tree.once(Uses), tree.context.names
    codes = tree.codes_of(lambda name: name in _REPEATS or _UPSAMPLE.match(name) is not None)
    # The sizes are those of the operator inside where Python gave a scale.
    nodes = tree.ops(codes)
    nodes = nodes[np.isin(tree.calls[nodes], uses.nodes[codes[tree.host.name[uses.nodes]]])]
    if not 0 < len(nodes) <= _MOST:
        return []
    kinds, of = keys(tree, nodes, "dims", "concrete")
    facts = [_larger(names[name], tree.shapes.operands(dims), tree.texts(values)) for name, dims, values in kinds]
    found: dict[int, _Order] = {}
    for call, node, which in zip(tree.calls[nodes].tolist(), nodes.tolist(), of.tolist(), strict=True):
        fact = facts[which]
        within = names[tree.host.name[node]] in _REPEATS and node != call
        order = None if fact is None or within or call in found else _projected(uses, call, *fact)
        if order is not None:
            order.detail = "repeated" if names[tree.host.name[node]] in _REPEATS else "upsampled"
            found[call] = order
    return list(found.values())


def _projected(uses: Uses, call: int, before: Shape, after: Shape) -> _Order | None:
    """The layers that take an enlarged tensor; None where something else does, or they have too many outputs."""
    order, outputs, inputs = _Order(call, "", [call]), 0, 0
    for node, name, operands in uses.behind(call, size_of(after), _REACH):
        taken = [shape for shape in operands if sorted(shape) == sorted(after)]
        if not taken:
            if name in PRODUCTS or _CONVOLUTION.match(name):
                break  # it gives as many numbers: what follows may take its result
            continue
        if name in _TURNS:
            continue
        texts = uses.tree.texts(int(uses.tree.context.op_column(np.array([node]), "concrete")[0]))
        layer = _pointwise(name, operands, texts)
        if layer is None or len(taken) > 1 or taken[0] != operands[0] or operands[1][1] not in before:
            return None
        order.layers.append(node)
        outputs, inputs = outputs + operands[1][0], operands[1][1]
    if not order.layers or 2 * outputs > inputs:
        return None
    order.of_resized, order.of_layers = outputs / inputs, size_of(before) / size_of(after)
    return order


def _larger(name: str, operands: tuple[Shape, ...], texts: list[str] | None) -> tuple[Shape, Shape] | None:
    """Shapes before and after an operator that makes at least twice as many numbers; None for others, and where unknown."""
    before, size = operands[0] if operands else (), numbers(texts, 1)
    if len(before) < 2 or not size:
        return None
    if name == "aten::repeat_interleave":
        dim = numbers(texts, 2)
        if not dim or not -len(before) <= dim[0] < len(before):
            return None
        after = list(before)
        after[dim[0]] *= max(size[0], 1)
    elif name in _REPEATS:
        old = (1,) * (len(size) - len(before)) + before
        if len(old) != len(size):
            return None
        repeated = name == "aten::repeat"
        after = [
            max(old_ * new, 0) if repeated else old_ if new < 0 else new for old_, new in zip(old, size, strict=True)
        ]
    elif len(before) < 3 or len(size) != len(before) - 2:
        return None
    else:
        after = [*before[:2], *size]
    return (before, tuple(after)) if size_of(tuple(after)) >= max(2 * size_of(before), _LEAST) else None


def _pointwise(name: str, operands: tuple[Shape, ...], texts: list[str] | None) -> tuple[Shape, int] | None:
    """Shape of the result of a layer that treats every position alike, and the place of its channels; None for others."""
    if len(operands) < 2 or len(operands[0]) < 2:
        return None
    source, weight = operands[:2]
    if name == "aten::linear":
        return ((*source[:-1], weight[0]), len(source) - 1) if len(weight) == 2 and source[-1] == weight[1] else None
    if not _CONVOLUTION.match(name) or len(weight) < 3 or math.prod(weight[2:]) != 1:
        return None
    stride, padding = numbers(texts, 3), numbers(texts, 4)
    if (
        len(source) != len(weight)
        or source[1] != weight[1]
        or not stride
        or set(stride) != {1}
        or set(padding or (1,)) != {0}
    ):
        return None
    return (source[0], weight[0], *source[2:]), 1


def _before_dropping(tree: Tree) -> list[_Order]:
    """Pointwise layers of whose result positions are dropped, or averaged, before anything else takes it."""
    uses = tree.once(Uses)
    names = tree.context.names
    codes = tree.codes_of(lambda name: name == "aten::linear" or _CONVOLUTION.match(name) is not None)
    nodes = uses.nodes[codes[tree.host.name[uses.nodes]]]
    if not 0 < len(nodes) <= _MOST or not _drops(tree, uses):
        return []
    kinds, of = keys(tree, nodes, "dims", "concrete")
    found = []
    for which, (name, dims, values) in enumerate(kinds):
        fact = _pointwise(names[name], tree.shapes.operands(dims), tree.texts(values))
        if fact is None or size_of(fact[0]) < _LEAST:
            continue
        calls = nodes[of == which]
        dropped = [_dropped(uses, call, *fact) for call in calls[_dropped_next(uses, calls, *fact)].tolist()]
        found += [order for order in dropped if order is not None]
    return found


def _dropped_next(uses: Uses, calls: Ints, shape: Shape, place: int) -> Bools:
    """Flag the layers of whose result the next operator that takes as much may drop positions: the others are done with."""
    tree = uses.tree
    behind = uses.next_behind(calls, size_of(shape))
    out = behind >= 0
    kinds, of = keys(tree, behind[out], "dims", "concrete")
    names = tree.context.names
    may = [
        _left_of(names[name], tree.shapes.operands(dims), tree.texts(values), shape, place) is not None
        for name, dims, values in kinds
    ]
    out[out] = np.array(may, np.bool_)[of]
    return out


def _drops(tree: Tree, uses: Uses) -> bool:
    """Tell whether anything drops positions."""
    drop = tree.codes_of(lambda name: name in _CUTS or name == _MEAN or _POOL.match(name) is not None)
    return bool(drop[tree.host.name[uses.nodes]].any())


def _dropped(uses: Uses, call: int, shape: Shape, place: int) -> _Order | None:
    """The order of a layer and of what drops positions of its result; None where all of them are used."""
    tree, size = uses.tree, size_of(shape)
    order, kept = _Order(call, "", [], [call]), 0.0
    for count, (node, name, operands) in enumerate(uses.behind(call, size, _REACH)):
        taken = [one for one in operands if size_of(one) == size]
        if not taken:
            break  # another product gives as many numbers
        if count + 1 == _REACH:
            return None
        texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0]))
        left = _left_of(name, operands, texts, shape, place)
        if left is None:
            return None
        if left < 1:
            order.detail = "sliced" if name in _CUTS else "averaged"
            order.resized.append(node)
            kept += left
    if not order.detail or 2 * kept > 1:
        return None
    inputs = tree.shapes.operands(int(tree.dims(np.array([call]))[0]))[1][1]
    order.of_layers, order.of_resized = kept, inputs / shape[place]
    return order


def _left_of(name: str, operands: tuple[Shape, ...], texts: list[str] | None, shape: Shape, place: int) -> float | None:
    """Part of the positions of a result of this *shape* that an operator leaves which takes it alone; None as of :func:`_left`."""
    taken = [one for one in operands if size_of(one) == size_of(shape)]
    return _left(name, texts, shape, place) if taken == [shape] else None


def _left(name: str, texts: list[str] | None, shape: Shape, place: int) -> float | None:
    """Part of the positions that an operator leaves; None where it is none that can go before the layer."""
    if name in _CUTS:
        along = numbers(texts, 1)
        if not along or not -len(shape) <= along[0] < len(shape):
            return None
        dim = along[0] % len(shape)
        left = _cut(name, texts, shape[dim])
        return left if dim != place or left == 1 else None
    if name == _MEAN:
        dims = numbers(texts, 1)
        if not dims or any(not -len(shape) <= dim < len(shape) for dim in dims):
            return None
        gone = {dim % len(shape) for dim in dims}
        return None if place in gone or 0 in gone else 1 / math.prod(shape[dim] for dim in gone)
    if _POOL.match(name) and place == 1:
        return pooled(name, texts, shape)
    return None


def _cut(name: str, texts: list[str] | None, length: int) -> float:
    if name == "aten::select":
        return 1 / length
    first, last, step = (numbers(texts, at) for at in (2, 3, 4))
    begin = first[0] if first else 0
    begin = max(begin + length, 0) if begin < 0 else begin
    if name == "aten::narrow":
        return (last[0] if last else length) / length
    # The largest number that there is has more digits than are read of any: it stands for the end.
    end = length if not last or len(last) > 1 or last[0] > length else last[0] + length if last[0] < 0 else last[0]
    return max(end - begin, 1) / (step[0] if step and step[0] > 0 else 1) / length


def pooled(name: str, texts: list[str] | None, shape: Shape) -> float | None:
    """Return the part of the positions that an average pooling leaves; None where that is not told."""
    sizes = numbers(texts, 1)
    rank = len(shape) - 2
    if not sizes or len(sizes) not in (1, rank):
        return None
    sizes = sizes * rank if len(sizes) == 1 else sizes
    if name.startswith("aten::adaptive"):
        return math.prod(sizes) / math.prod(shape[2:])
    stride, padding = numbers(texts, 2) or sizes, numbers(texts, 3)
    # Zeros around it count as numbers of the layer's result, which has a bias, not of its input.
    if padding is None or set(padding) - {0}:
        return None
    stride = stride * rank if len(stride) == 1 else stride
    return 1 / math.prod(stride)
