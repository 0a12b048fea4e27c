"""Layers of equal shapes, each with weights of its own, that a loop in Python calls one after the other: one batched product.

A linear layer for each channel, head, expert, agent or member of an ensemble. That weights differ is told by the gradients that
are stored: one for each layer. That no layer takes what the one before it gave is told by what each takes (a part of its own of
one tensor), or by the widths: what a turn ends with fits no first layer, or nothing stands between it and that layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from msgspec import Struct, field

from advisor.frames import optimizers
from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.operands import launched_of
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.frames.patterns.turns import LEAST, Turns, owned, turns_of_layers
from advisor.frames.patterns.updates import Shape, first_operand
from advisor.intervals import Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import is_view

_LAYERS = {"aten::linear": 1, "aten::addmm": 2, "aten::mm": 1, "aten::matmul": 1, "aten::conv1d": 1, "aten::conv2d": 1}
"""Place of the weight."""
_ELEMENTS = regex(
    r"^aten::(?:relu6?|gelu|silu|elu|leaky_relu|prelu|softplus|hard(?:tanh|swish|sigmoid)|tanh|sigmoid|exp|log|sqrt|square|neg|abs"
    r"|clamp(?:_min|_max)?|softmax|log_softmax|dropout|layer_norm|batch_norm|matmul|bmm|scaled_dot_product_attention|add|sub|mul|div|pow|to|contiguous|clone"
    r"|(?:mse|smooth_l1|l1|huber)_loss|binary_cross_entropy(?:_with_logits)?|cross_entropy_loss|sum|mean|square)_?$"
)
"""Operators that leave a layer's width as it is, or end in a number: products of what layers gave, too."""
_RESHAPES = regex(
    r"^aten::(?:squeeze|unsqueeze|select|slice|narrow|view|reshape|flatten|unflatten|t|transpose|detach|alias)$"
)
_STORE = "torch::autograd::AccumulateGrad"
_STORING = f"autograd::engine::evaluate_function: {_STORE}"
ADDS = frozenset({"aten::add", "aten::add_"})
_FACTORS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::convolution_backward"})
_ALL, _MOST = 0.9, 0.5
_LARGE = 1 << 14
"""Elements of a weight from which on its update takes as long stacked as alone: what a fused one spares is another finding's."""
_SMALL, _HALF, _HALF_UPDATE = 0.88, 2e6, 10_000
"""Part that is spared of layers that are small, and of the update of their weights; the multiply-adds of a call, and the elements
of a weight, from which on it is half of that."""
_LONG_NS = 200_000
"""From so long on what else a turn does is work of its own, and no matter of calls."""
_GPU_BYTE, _GPU_FLOP, _GPU_CALLS_NS = 1 / 1000, 1 / 10_000, 50_000
"""ns a byte and an operation of a batched product on a GPU, and what its kernels take at least: careful for a large GPU."""
_BYTES, _TRAINING = 4, 3
"""Bytes of a number; times that a product, its operands and its result come up in training."""
_TURNS_LEFT = 2
"""Turns of the host's time that the batched form takes: its product, and what stands around it."""


class Loop(Struct, eq=False):
    """A loop over layers: its turns, the spared part of each position that it owns, and the shapes of its weights."""

    turns: Turns
    layers: list[int]
    spared: dict[int, float]
    weights: Counter[Shape] = field(default_factory=Counter)


class Marks(Struct, eq=False):
    """Nodes that rows own, and the spared part of each."""

    own: Ints
    rate: Floats


def separate_layers(tree: Tree) -> Occurrences | None:
    """One row per loop that calls eight layers or more of the same shapes, with a weight of its own each.

    ``repeats`` are its turns, ``length`` the elements of the first weight, and ``part`` what a batched product spares of what it
    owns: the operators of the turns, their backward, what joins their results, and, on the CPU, the gradients that are stored, the
    weights' part of the optimizer's step, and the Python that leads to all of these. On a GPU loops of convolutions are none: one
    with groups may take as long.
    """
    on_cpu = tree.context.cpu_program
    stores = tree.ops(tree.codes_of(_STORE.__eq__)) if on_cpu or tree.context.device >= 0 else np.zeros(0, np.int64)
    found = turns_of_layers(tree) if len(stores) >= LEAST else []
    loops = _learning(tree, [loop for one in found if (loop := _loop(one)) is not None], stores)
    loops = _side_by_side(tree, loops)
    if not on_cpu:
        loops = [loop for loop in loops if not any("conv" in loop.turns.names[at] for at in loop.layers)]
    if not loops:
        return None
    marks = _turns_of(tree, loops)
    source = np.full(tree.host.size, -1, np.int64)
    marked = np.flatnonzero(marks.own >= 0)
    source[marked] = marked
    of = tree.host.with_backward(source)
    ops, python, inside = NOTHING, NOTHING, NOTHING
    if on_cpu:
        of = of[tree.context.op_rows]
        update(tree, loops, stores, marks)
        updated = np.flatnonzero((marks.own >= 0) & (source < 0))
        source[:] = -1
        source[updated] = updated
        of = np.where(of >= 0, of, tree.host.flow(source)[tree.context.op_rows])
        ops, python, part = owned(tree, of, marks.own, marks.rate, len(loops))
    else:
        inside = launched_of(tree, np.where(of >= 0, marks.own[of], -1))
        part = spared_on_gpu(tree, loops, of, inside)
    first = np.array([loop.turns.nodes[0, loop.layers[0]] for loop in loops], np.int64)
    return Occurrences(
        kind="separate-layers",
        node=first,
        begin=tree.host.start[np.array([loop.turns.nodes[0, 0] for loop in loops])],
        end=tree.host.end[np.array([loop.turns.nodes[-1, -1] for loop in loops])],
        inside=inside,
        own=inside,
        idle=not on_cpu,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([loop.turns.count for loop in loops], np.int64),
            "length": np.array([size_of(_weight(loop.turns, loop.layers[0])) for loop in loops], np.int64),
            "part": part,
            "dims": tree.dims(first),
        },
        details=[spell(loop.turns) for loop in loops],
    )


def _turns_of(tree: Tree, loops: list[Loop]) -> Marks:
    """Mark the operators of the loops' turns, and those that join their results."""
    marks = Marks(np.full(tree.host.size, -1, np.int64), np.zeros(tree.host.size))
    for row, loop in enumerate(loops):
        for place, spared in loop.spared.items():
            nodes = loop.turns.nodes[:, place]
            marks.own[nodes], marks.rate[nodes] = row, spared
        joined = loop.turns.join()
        marks.own[joined], marks.rate[joined] = row, 1.0
    return marks


def spared_on_gpu(tree: Tree, loops: list[Loop], of: Ints, inside: Pairs) -> Ints:
    """Millionths of what loops own on a GPU that go: all but the batched form's kernels, or the time that the host takes for it.

    *of* is the marked operator that each node belongs to.
    """
    host, count = tree.host, len(loops)
    taken = np.bincount(
        np.maximum(of[tree.work.launch[inside.index]], 0),
        tree.work.end[inside.index] - tree.work.start[inside.index],
        host.size,
    )
    lasting = np.zeros(count)
    nodes = tree.outermost[of[tree.outermost] >= 0]
    row = np.full(host.size, -1, np.int64)
    for number, loop in enumerate(loops):
        row[loop.turns.nodes.ravel()] = number
    known = nodes[row[of[nodes]] >= 0]
    np.add.at(lasting, row[of[known]], host.ns(known))
    kernels = inside.total(tree.work.end - tree.work.start, count)
    found = []
    for number, loop in enumerate(loops):
        one = loop.turns
        left = float(_GPU_CALLS_NS)
        for place in loop.spared:
            time = float(taken[one.nodes[:, place]].sum())
            left += time / one.count if one.picked(place) else min(time, one.count * _on_gpu(one, place, loop.layers))
        whole = max(lasting[number], kernels[number], 1)
        left += _TURNS_LEFT / one.count * (whole - kernels[number])
        found.append(round(MILLION * max(1 - left / whole, 0)))
    return np.array(found, np.int64)


def _on_gpu(one: Turns, place: int, layers: list[int]) -> float:
    """ns that an operator's part of a batched one takes, with its gradient, by its bytes and arithmetic."""
    numbers = sum(size_of(shape) for shape in one.tensors(place))
    if place not in layers:
        return _TRAINING * _BYTES * 2 * numbers * _GPU_BYTE
    takes, gives = _widths(one, place)
    rows = size_of(_input(one, place)) // max(takes, 1)
    moved = _BYTES * (numbers + rows * gives) * _GPU_BYTE
    return _TRAINING * (moved + 2 * rows * size_of(_weight(one, place)) * _GPU_FLOP)


def spell(one: Turns) -> str:
    names = [name.removeprefix("aten::") for name in one.names]
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def _weight(one: Turns, place: int) -> Shape:
    return one.operands[place][_LAYERS[one.names[place]]]


def _input(one: Turns, place: int) -> Shape:
    return one.operands[place][_LAYERS[one.names[place]] - 1]


def _widths(one: Turns, place: int) -> tuple[int, int]:
    """Numbers that a layer takes and gives, of each row or place."""
    weight = _weight(one, place)
    if one.names[place] in ("aten::linear", "aten::conv1d", "aten::conv2d"):
        return _channels(one, place, _input(one, place)), weight[0]
    return weight[0], weight[1]


def _channels(one: Turns, place: int, shape: Shape) -> int:
    """The size of a tensor in the dimension that a layer mixes."""
    convolves = one.names[place].startswith("aten::conv")
    return (shape[1] if len(shape) > 1 else 0) if convolves else (shape[-1] if shape else 0)


def _loop(one: Turns) -> Loop | None:
    """Return a loop that calls layers of which none takes what another turn gave; None for any other."""
    layers = [at for at, name in enumerate(one.names) if name in _LAYERS and _has_weight(one, at)]
    if not layers or not (_sliced(one, layers) or _ends_elsewhere(one, layers)):
        return None
    spared = {at: _of_layer(one, at) for at in layers}
    for at in range(one.period):
        if at not in spared and one.mean_ns[at] < _LONG_NS:
            spared[at] = 1.0 if one.picked(at) else _SMALL
    return Loop(one, layers, spared)


def _has_weight(one: Turns, place: int) -> bool:
    operands, at = one.operands[place], _LAYERS[one.names[place]]
    sizes = {"aten::conv1d": 3, "aten::conv2d": 4}
    return len(operands) > at and len(operands[at]) == sizes.get(one.names[place], 2) and len(operands[at - 1]) > 1


def _sliced(one: Turns, layers: list[int]) -> bool:
    """Tell whether each layer takes a part of its own of a tensor, or what a layer before it in the turn gave."""
    for at in layers:
        fed = one.fed(at, layers.__contains__)
        if fed.how == "pick":
            if not fed.through and one.picked(fed.place) != size_of(_input(one, at)):
                return False
        elif fed.how != "place" or fed.place >= at or _widths(one, fed.place)[1] != _widths(one, at)[0]:
            return False
    return True


def _ends_elsewhere(one: Turns, layers: list[int]) -> bool:
    """Tell whether what a turn ends with cannot be what the next begins with.

    Nothing but views stands between its last layer and the next turn: two layers that follow each other directly are one. Or
    its last width is not the first, and no operator behind the first layer reads or makes a tensor of that.
    """
    first, last = layers[0], layers[-1]
    takes = _widths(one, first)[0]
    gives = {_widths(one, at)[1] for at in layers}
    outside = [at % one.period for at in range(last + 1, one.period + first)]
    if not all(_of_turn(one, at, layers.__contains__, takes) for at in layers[1:]):
        return False
    chained = all(_widths(one, before)[1] == _widths(one, behind)[0] for before, behind in pairwise(layers))
    if chained and all(_RESHAPES.match(one.names[at]) for at in outside):
        return True
    others = [at for at in (*range(first + 1, one.period), *range(first)) if at not in layers]
    if takes in gives or not all(_ELEMENTS.match(one.names[at]) or _RESHAPES.match(one.names[at]) for at in others):
        return False
    mixed = [shape for at in others if not is_view(one.names[at]) for shape in one.tensors(at)]
    return takes not in [_channels(one, first, shape) for shape in mixed]


def _of_turn(one: Turns, place: int, layer: Callable[[int], bool], takes: int) -> bool:
    """Tell whether a layer takes what the one before it gave, or is as wide as the first, and takes what that takes."""
    fed, width = one.fed(place, layer), _widths(one, place)[0]
    return width == takes or (fed.how == "place" and fed.place < place and _widths(one, fed.place)[1] == width)


def _learning(tree: Tree, loops: list[Loop], stores: Ints) -> list[Loop]:
    """Return the loops with a gradient for each of their calls: as many are stored in their step as layers of that shape ran."""
    if not loops:
        return []
    host, step_of = tree.host, tree.context.recording.step_of
    steps = step_of(host.start[stores]).tolist()
    stored = Counter(zip(steps, map(turned, _written(tree, stores)), strict=True))
    called = _called(tree)
    kept = []
    for loop in loops:
        step = int(step_of(host.start[loop.turns.nodes[:1, 0]])[0])
        own: Counter[Shape] = Counter()
        for at in loop.layers:
            own[turned(_weight(loop.turns, at))] += loop.turns.count
        if all(stored[step, shape] >= _ALL * max(number, called[step, shape]) for shape, number in own.items()):
            loop.weights = own + _biases(loop, stored, step)
            kept.append(loop)
    return kept


def _side_by_side(tree: Tree, loops: list[Loop]) -> list[Loop]:
    """Return the loops without stacks: where a turn could take what the one before it gave, its gradients must say otherwise.

    Those of layers on one input are added up, layer by layer, or none needs its input's: one product each instead of two.
    """
    host, doubted = tree.host, [loop for loop in loops if _fits_behind(loop)]
    if not doubted:
        return loops
    own = np.full(host.size, -1, np.int64)
    for row, loop in enumerate(doubted):
        own[loop.turns.nodes[:, loop.layers[0]]] = row
    of = host.with_backward(own)
    late = (of >= 0) & (host.group == OP) & (host.attributes.phase == BACKWARD)
    adds, products = (
        np.bincount(of[late & tree.codes_of(names.__contains__)[host.name]], minlength=len(doubted))
        for names in (ADDS, _FACTORS)
    )
    stacks = {
        id(loop)
        for loop, added, multiplied in zip(doubted, adds.tolist(), products.tolist(), strict=True)
        if added < _ALL * (loop.turns.count - 1) and _ALL * multiplied > loop.turns.count
    }
    return [loop for loop in loops if id(loop) not in stacks]


def _fits_behind(loop: Loop) -> bool:
    """Tell whether the first layer of a turn could take what the last one of the turn before gave."""
    one = loop.turns
    return not _sliced(one, loop.layers) and _widths(one, loop.layers[0])[0] == _widths(one, loop.layers[-1])[1]


def turned(shape: Shape) -> Shape:
    """The shape of a weight, whichever way round it is stored."""
    return tuple(sorted(shape)) if len(shape) == 2 else shape


def _biases(loop: Loop, stored: Counter[tuple[int, Shape]], step: int) -> Counter[Shape]:
    """Biases of a loop's layers by shape, where most gradients of a shape are theirs."""
    found: Counter[Shape] = Counter()
    for at in loop.layers:
        bias = (_widths(loop.turns, at)[1],)
        if bias in loop.turns.operands[at]:
            found[bias] += loop.turns.count
    return Counter({shape: number for shape, number in found.items() if 0 < stored[step, shape] * _MOST <= number})


def _written(tree: Tree, nodes: Ints) -> list[Shape]:
    """The shape of each operator's first operand."""
    codes = tree.dims(nodes)
    found, at = np.unique(codes, return_index=True)
    first = {code: first_operand(tree, int(nodes[one]), listed=False) for code, one in zip(found, at, strict=True)}
    return [(first[code] or [(0,)])[0] for code in codes.tolist()]


def _called(tree: Tree) -> Counter[tuple[int, Shape]]:
    """Calls of layers in each step that a gradient was computed of, by the shape of the weight."""
    host = tree.host
    nodes = tree.ops(tree.codes_of(_LAYERS.__contains__))
    nodes = nodes[(host.attributes.phase[nodes] != BACKWARD) & (tree.calls[nodes] == nodes)]
    source = np.full(host.size, -1, np.int64)
    source[nodes] = nodes
    nodes = np.intersect1d(nodes, host.with_backward(source)[np.flatnonzero(host.attributes.phase == BACKWARD)])
    keys = np.stack([tree.context.recording.step_of(host.start[nodes]), host.name[nodes], tree.dims(nodes)], axis=1)
    found: Counter[tuple[int, Shape]] = Counter()
    for (step, name, dims), number in zip(*_counted(keys), strict=True):
        operands, at = tree.shapes.operands(dims), _LAYERS[tree.context.names[name]]
        if len(operands) > at:
            found[step, turned(operands[at])] += number
    return found


def _counted(keys: Ints) -> tuple[list[list[int]], list[int]]:
    found, number = np.unique(keys, axis=0, return_counts=True)
    return found.tolist(), number.tolist()


def update(tree: Tree, loops: list[Loop], stores: Ints, marks: Marks) -> None:
    """Mark the nodes that store the gradients of the loops' weights, and the operators that update these.

    Where most parameters are a loop's, so are the counters of steps that an optimizer keeps for each. Of large weights only the
    gradients: the update of one goes on stacked as alone.
    """
    host, step_of = tree.host, tree.context.recording.step_of
    gradients = step_of(host.start[stores]).tolist()
    number = Counter(gradients)
    stored = Counter(zip(gradients, map(turned, _written(tree, stores)), strict=True))
    row_of: dict[tuple[int, Shape], tuple[int, float]] = {}
    for row, loop in enumerate(loops):
        step = int(step_of(host.start[loop.turns.nodes[:1, 0]])[0])
        share = loop.weights.total() / max(number[step], 1)
        known = {shape: each for shape, each in loop.weights.items() if stored[step, shape]}
        row_of |= {(step, shape): (row, min(each / stored[step, shape], 1.0)) for shape, each in known.items()}
        row_of |= {(step, ()): (row, share)} if share >= _MOST else {}
    storing = tree.codes_of(_STORING.__eq__)[host.name] & (host.group == OP)
    outer = host.above(stores, storing)
    steps = optimizers.nodes(tree.context)
    inner = distinct(spread(steps + 1, tree.after(steps)).index) if len(steps) else steps
    inner = inner[(host.group[inner] == OP) & (host.attributes.phase[inner] != BACKWARD)]
    inner = inner[tree.calls[inner] == inner]
    nodes, shapes = np.append(np.where(outer >= 0, outer, stores), inner), _written(tree, np.append(stores, inner))
    for node, step, shape in zip(nodes.tolist(), step_of(host.start[nodes]).tolist(), shapes, strict=True):
        row, share = row_of.get((step, turned(shape)), (-1, 0.0))
        elements = max(size_of(shape), 0)
        if row >= 0 and marks.own[node] < 0 and (host.attributes.phase[node] == BACKWARD or elements <= _LARGE):
            marks.own[node], marks.rate[node] = row, share * _SMALL / (1 + elements / _HALF_UPDATE)


def _of_layer(one: Turns, place: int) -> float:
    """Part of a layer's time that a batched product spares, by its multiply-adds in one call."""
    takes, _ = _widths(one, place)
    rows = size_of(_input(one, place)) // max(takes, 1)
    return _SMALL / (1 + rows * size_of(_weight(one, place)) / _HALF)
