"""Attention that is computed in steps: a batched product, a softmax over it, and a second product with the result."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, largest, size_of, spread
from advisor.intervals import Bools, Ints, coded, fetch
from advisor.timeline.calls import OP
from advisor.timeline.recording import KERNEL

_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm", "aten::baddbmm_"})
_FUSED = ("scaled_dot_product",)
# A product further away than this belongs to something else.
_NEARBY = 3
_WRAPS = frozenset({"aten::matmul", "aten::einsum"})
_WRAPPED = 4
"""The most calls between a product and what wraps it."""
_RANDOM = frozenset({"aten::bernoulli_", "aten::native_dropout"})
_BYTES = {"float": 4}
"""Bytes of an element, of types for which a fused operator was measured."""
# Without shapes only what lies close together, and is pointwise throughout, is taken for attention.
_MOST_BETWEEN = 12
_MASKS = frozenset({"aten::masked_fill", "aten::masked_fill_", "aten::where"})
_ADDS = frozenset({"aten::add", "aten::add_"})
_NEAR = 40
"""Operators before the first product, and behind the second, among which its mask is made and its weights are averaged."""
_AVERAGES = frozenset({"aten::mean", "aten::sum"})
_BETWEEN = frozenset({"softmax", "elementwise", "copy", "random", "triton"})


class OnCpu(Struct, eq=False):
    """Rows of `ops` that a fused operator makes needless, those of them that are the products'; bytes of the scores, and a word."""

    ops: Pairs
    replaced: Pairs
    figures: dict[str, Ints]
    details: list[str]


def attention(tree: Tree) -> Occurrences | None:
    """Products around a softmax; what lies between them, forward and backward, is what a fused kernel would spare.

    The products themselves, and those of their gradients, it replaces by its own.
    """
    products = tree.ops(tree.codes_of(_PRODUCTS.__contains__))
    softmaxes = tree.ops(tree.codes_of(is_softmax)) if len(products) > 1 else products[:0]
    if len(softmaxes):
        softmaxes = softmaxes[~tree.under(softmaxes, tree.codes_of(lambda name: any(word in name for word in _FUSED)))]
    if not len(softmaxes):
        return None
    # Autocast wraps a product in another of its name: the inner one is the product.
    wraps = np.append(products[1:] < tree.after(products)[:-1], False)
    products = products[~wraps]
    first, second, scores = _around(tree, products, softmaxes)
    keep = (first >= 0) & (second >= 0)
    # Two softmaxes between one pair of products are one occurrence.
    _, once = np.unique(np.where(keep, first, -1 - np.arange(len(first))), return_index=True)
    keep &= np.isin(np.arange(len(first)), once)
    softmaxes, first, second, scores = softmaxes[keep], products[first[keep]], products[second[keep]], scores[keep]
    low, high = tree.after(first), second
    between = tree.launched(low, high)
    own = between.where(_on_scores(tree, between, scores))
    sound = (scores >= 0) | _adjacent(tree, between, len(scores))
    softmaxes, first, second, scores = softmaxes[sound], first[sound], second[sound], scores[sound]
    if not len(softmaxes):
        return None
    number = np.cumsum(sound) - 1
    low, high = low[sound], high[sound]
    own, between = (Pairs(number[part.row], part.index).where(sound[part.row]) for part in (own, between))
    back = tree.backward_of(_forward(tree, low, high, scores), low, high)
    last = tree.shapes.column(tree.dims(softmaxes), _keys)
    before, behind = _beside(tree, first, second, scores, last)
    own = join(own, back.where(~tree.matrix(back.index)), behind)
    partly = join(tree.launched_below(first), tree.launched_below(second), _gradients(tree, first, second))
    partly = partly.where(tree.matrix(partly.index))
    on_cpu = _on_cpu(tree, softmaxes, first, second, scores)
    dims = tree.dims(softmaxes)
    depth = tree.shapes.column(tree.dims(first), _inner)
    return Occurrences(
        kind="attention",
        node=softmaxes,
        begin=tree.host.start[first],
        end=tree.host.end[second],
        inside=join(own, between, partly, tree.launched_below(first), tree.launched_below(second)),
        own=own,
        partly=partly,
        beside=before,
        ops=on_cpu.ops,
        replaced=on_cpu.replaced,
        figures={"seq_len": last, "head_dim": depth, "dims": dims} | on_cpu.figures,
        details=on_cpu.details,
    )


def is_softmax(name: str) -> bool:
    """A softmax that launches work itself: torch's own, or a fused one of a library (Megatron's, Apex's)."""
    if name in ("aten::_softmax", "aten::_masked_softmax"):
        return True
    low = name.lower()
    return "softmax" in low and "log" not in low and "backward" not in low and not low.startswith(("aten::", "triton_"))


def _operands(shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """The two factors of a batched product; a third tensor is what they are added to (first) or written to (last)."""
    cubes = [shape for shape in shapes if len(shape) == 3]
    for at in range(len(cubes) - 1):
        left, right = cubes[at : at + 2]
        result = (left[0], left[1], right[2])
        added = cubes[:at] + cubes[at + 2 :]
        if left[0] == right[0] and left[2] == right[1] and all(_broadcasts(cube, result) for cube in added):
            return [left, right]
    return []


def _broadcasts(shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Tell whether a tensor can be added to one of the shape *result*: a mask of keys has one row for all queries."""
    return all(length in (1, whole) for length, whole in zip(shape, result, strict=True))


def _product(shapes: tuple[tuple[int, ...], ...]) -> int:
    factors = _operands(shapes)
    return size_of((factors[0][0], factors[0][1], factors[1][2])) if factors else -1


def _inner(shapes: tuple[tuple[int, ...], ...]) -> int:
    factors = _operands(shapes)
    return factors[0][2] if factors else -1


def _around(tree: Tree, products: Ints, softmaxes: Ints) -> tuple[Ints, Ints, Ints]:
    """For each softmax the products before and behind it, as places in *products* (-1: none), and the elements of its scores.

    With shapes, the first product must give as many elements as the softmax takes, and the second must take as many as
    the softmax gives. Without shapes (scores -1), they are the nearest ones.
    """
    thread = tree.host.thread
    shapes, dims = tree.shapes, tree.dims(products)
    gives = shapes.column(dims, _product)
    left = shapes.column(dims, lambda operands: size_of(factors[0]) if (factors := _operands(operands)) else -1)
    right = shapes.column(dims, lambda operands: size_of(factors[1]) if (factors := _operands(operands)) else -1)
    scores = shapes.column(tree.dims(softmaxes), lambda operands: size_of(operands[0]) if operands else -1)
    at = np.searchsorted(products, softmaxes)
    before, behind = np.full(len(at), -1, np.int64), np.full(len(at), -1, np.int64)
    for step in range(_NEARBY):
        for out, place, sizes in ((before, at - 1 - step, (gives,)), (behind, at + step, (left, right))):
            index = np.clip(place, 0, len(products) - 1)
            here = (place >= 0) & (place < len(products)) & (thread[products[index]] == thread[softmaxes])
            fits = np.logical_or.reduce([size[index] == scores for size in sizes])
            out[:] = np.where((out < 0) & here & np.where(scores >= 0, fits, step == 0), place, out)
    return before, behind, scores


def _on_scores(tree: Tree, between: Pairs, scores: Ints) -> Bools:
    """Flag the work on the matrix of scores: it is no product, and its operator takes a tensor of as many elements.

    What a product does to its own factors first (`aten::reshape`) a fused kernel may have to do as well.
    """
    launch = tree.work.launch[between.index]
    size = tree.shapes.column(tree.dims(launch), largest)
    wanted = scores[between.row]
    layout = tree.under(launch, tree.codes_of("aten::reshape".__eq__))
    chosen: Bools = ~tree.matrix(between.index) & ~layout & ((wanted < 0) | (size == wanted))
    return chosen


def _keys(shapes: tuple[tuple[int, ...], ...]) -> int:
    """The last length of the largest operand: of scores, of a mask of them, and of weights the number of keys."""
    shape = max(shapes, key=size_of, default=())
    return shape[-1] if shape else -1


def _beside(tree: Tree, first: Ints, second: Ints, scores: Ints, keys: Ints) -> tuple[Pairs, Pairs]:
    """Work on tensors as large as the scores that makes a mask of them before the first product; averages of weights behind.

    A fused operator takes a mask, too, and that has to be made; it gives no weights, and nobody can average them.
    """
    if not (scores >= 0).any():
        return NOTHING, NOTHING
    end, (low, _), (_, high) = tree.after(second), tree.near(first, _NEAR), tree.near(second, _NEAR)
    averages = tree.codes_of(_AVERAGES.__contains__)
    host, found = tree.host, []
    for begin, until in (
        (np.maximum(low, np.concatenate([end[:0], [0], end[:-1]])), first),
        (end, np.minimum(high, np.append(first[1:], host.size))),
    ):
        work = tree.launched(begin, until)
        launch = tree.work.launch[work.index]
        dims = tree.dims(launch)
        alike = (scores[work.row] >= 0) & (tree.shapes.column(dims, largest) == scores[work.row])
        alike &= tree.shapes.column(dims, _keys) == keys[work.row]
        alike &= ~tree.matrix(work.index) & (host.thread[launch] == host.thread[first[work.row]])
        found.append(work.where(alike))
    before, behind = found
    averaging = averages[fetch(host.name, fetch(host.attributes.op, tree.work.launch[behind.index]))]
    return before, behind.where(averaging)


def _adjacent(tree: Tree, between: Pairs, size: int) -> Bools:
    """Flag the rows where all that runs between two products is what attention does there; for traces without shapes."""
    kinds = {code for code, name in tree.context.kernel_names.items() if name.kind in _BETWEEN}
    usual = np.isin(tree.work.name[between.index], list(kinds)) | (tree.work.kind[between.index] != KERNEL)
    count = np.bincount(between.row, minlength=size)
    odd = np.bincount(between.row, ~usual, minlength=size)
    usually: Bools = (count > 0) & (count <= _MOST_BETWEEN) & (odd == 0)
    return usually


def _gradients(tree: Tree, first: Ints, second: Ints) -> Pairs:
    """GPU work of the backward pass of both products."""
    return tree.backward_of(_products(tree, first, second), first, tree.after(second))


def _products(tree: Tree, first: Ints, second: Ints) -> Pairs:
    """Nodes of both products in the forward pass that have a backward pass."""
    nodes = join(spread(first, tree.after(first)), spread(second, tree.after(second)))
    return nodes.where((tree.sequence[nodes.index] >= 0) & ~tree.engine[nodes.index])


def _forward(tree: Tree, low: Ints, high: Ints, scores: Ints) -> Pairs:
    """Forward operators on the scores: those whose backward is the pattern's as well."""
    nodes = spread(low, high)
    nodes = nodes.where(tree.sequence[nodes.index] >= 0)
    nodes = nodes.where(~tree.engine[nodes.index])
    wanted = scores[nodes.row]
    return nodes.where((wanted < 0) | (tree.shapes.column(tree.dims(nodes.index), largest) == wanted))


def _on_cpu(tree: Tree, softmaxes: Ints, first: Ints, second: Ints, scores: Ints) -> OnCpu:
    """Time of attention in a program on the CPU, and a word on whether scaled_dot_product_attention is fused for it there."""
    if not tree.context.cpu_program:
        return OnCpu(NOTHING, NOTHING, {}, [])
    host, size = tree.host, len(first)
    low, high = tree.after(first), second
    between = spread(low, high)
    between = between.where((host.group[between.index] == OP) & ~tree.engine[between.index])
    # What wraps the second product ends behind it, and its copies of factors are the product's.
    ahead = host.end[between.index] <= host.start[high[between.row]]
    own = between.where(ahead & (tree.shapes.column(tree.dims(between.index), largest) == scores[between.row]))
    own = own.where(~tree.under(own.index, tree.codes_of("aten::reshape".__eq__)))
    back = tree.backward_nodes(_forward(tree, low, high, scores), low, high)
    gradients = tree.backward_nodes(_products(tree, first, second), first, tree.after(second))
    rows = np.arange(size)
    wrapped = [_outermost(tree, nodes) for nodes in (first, second)]
    replaced = tree.rows_of_ops(join(gradients, *(Pairs(rows, nodes) for nodes in wrapped)))
    ops = join(replaced, tree.rows_of_ops(join(own, back)))
    codes, of = coded(tree.context.op_column(softmaxes, "types"))
    width = np.array([_BYTES.get((tree.words(code) or [""])[0], 0) for code in codes.tolist()], np.int64)[of]
    random = np.bincount(own.row[tree.codes_of(_RANDOM.__contains__)[host.name[own.index]]], minlength=size) > 0
    # The gradient of what was added to the scores is summed up over what it was broadcast along.
    late = join(back, gradients)
    inner = spread(late.index, tree.after(late.index))
    inner = Pairs(late.row[inner.row], inner.index)
    inner = inner.where(tree.codes_of("aten::sum".__eq__)[host.name[inner.index]] & (host.group[inner.index] == OP))
    inner = inner.where(tree.shapes.column(tree.dims(inner.index), largest) == scores[inner.row])
    biased = np.bincount(inner.row, minlength=size) > 0
    masked = np.bincount(own.row[_masks(tree, own)], minlength=size) > 0
    return OnCpu(
        ops,
        replaced,
        {"bytes": np.where((scores > 0) & (width > 0), scores * width, -1)},
        np.select([random, biased, masked], ["dropout", "bias-gradient", "masked"], "plain").tolist(),
    )


def _masks(tree: Tree, own: Pairs) -> Bools:
    """Flag the operators that mask scores: they fill, choose, or add what is broadcast along them."""
    added = tree.codes_of(_ADDS.__contains__)[tree.host.name[own.index]]
    smaller = tree.shapes.column(tree.dims(own.index), lambda operands: min(map(size_of, operands[:2]), default=-1))
    largest_ = tree.shapes.column(tree.dims(own.index), largest)
    flagged: Bools = tree.codes_of(_MASKS.__contains__)[tree.host.name[own.index]] | (
        added & (smaller > 1) & (smaller < largest_)
    )
    return flagged


def _outermost(tree: Tree, products: Ints) -> Ints:
    """The call of each product: what it does to its factors before is done in it (`aten::matmul`)."""
    around = tree.host.above(products, tree.codes_of(_WRAPS.__contains__)[tree.host.name], _WRAPPED)
    return np.where(around >= 0, around, products)
