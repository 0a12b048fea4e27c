"""Heads of one attention that run one after the other, each with linear layers of its own: one product each for all of them.

The proof lies in what is joined: a concatenation (or stack) of as many tensors as turns ran directly before it, of equal operators
on equal shapes, each an attention that ends in one of these tensors. That all turns read one tensor is told by the gradients of
their layers, which are added up; where none is computed, by the widths: side by side the heads are as wide as their input.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.loop import items_of
from advisor.frames.patterns.operands import launched_of
from advisor.frames.patterns.separate_layers import ADDS, Loop, Marks, spared_on_gpu, spell, turned, update
from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, size_of
from advisor.frames.patterns.turns import JOINS, Turns, owned
from advisor.frames.patterns.updates import Shape, first_operand
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import is_view

LEAST = 3
"""Heads from which on they are worth a word."""
_LONGEST, _SHORTEST = 40, 3
"""Operators in the turn of a head."""
_MOST_JOINS = 4000
_STORE = "torch::autograd::AccumulateGrad"
_LAYER = "aten::linear"
_MOST_LAYERS = 3
_FUSED = "aten::scaled_dot_product_attention"
_PRODUCTS = frozenset({"aten::matmul", "aten::bmm", "aten::einsum", "aten::baddbmm"})
_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax"})
_OTHERS = regex(
    r"^aten::(?:mul|div|true_divide|add|sub|masked_fill|where|eq|ne|lt|le|gt|ge|logical_not|bitwise_not|tril|triu|ones|zeros|full"
    r"|ones_like|zeros_like|full_like|arange|dropout|contiguous|clone|to|type_as|float|lift_fresh|detach|slice|select|index"
    r"|sqrt|rsqrt|exp|max|amax|sum|chunk|split|unsafe_chunk|unbind|reshape|flatten|repeat)_?$"
)
"""Other operators of an attention: its scale, its mask, its dropout; views besides."""
_RANDOM = frozenset({"aten::native_dropout", "aten::bernoulli_", "aten::_fused_dropout"})
_JOINED = 0.6
"""Part of the concatenation that goes: heads side by side are brought into order in its place."""
_CAN = 1.6
"""Most that heads in one product returned on two threads, where what follows is one's: small products keep to one thread."""
_LAYER_HALF, _PRODUCT_HALF, _SCORES_HALF = 3e5, 2e5, 2e4
"""Multiply-adds of a layer's and a product's call, and elements of scores, at which half of what a call takes is spared."""
_LAYER_MORE, _PRODUCT_MORE, _SCORES_CALL, _SCORES_MORE = 0.03, 0.5, 0.2, 0.48
"""Part that is spared however large a call is, as a fused attention writes no scores; and of small scores besides."""
_NARROW = 16
"""Width of a head below which a fused attention spares less, in proportion."""


class _Found(Struct, eq=False):
    """Heads of one attention: their turns, the place of each layer, and the operator that joins their results."""

    turns: Turns
    layers: list[int]
    join: int
    width: int
    """Numbers of a head's result, of each place."""
    rates: dict[int, float] = field(default_factory=dict)
    """Part of each operator's time that heads in one product spare, by its place in the turn."""


def separate_heads(tree: Tree) -> Occurrences | None:
    """One row per attention whose three heads or more run one after the other.

    ``repeats`` are its heads, ``length`` the elements of the first weight, and ``part`` what heads in one product spare of what it
    owns: the operators of the turns, their backward, what joins the results and, on the CPU, the gradients that are stored, the
    weights' part of the optimizer's step, and the Python that leads to all of these.
    """
    on_cpu = tree.context.cpu_program
    if not on_cpu and tree.context.device < 0:
        return None
    found = _on_one_input(tree, _joined(tree))
    if not found:
        return None
    dropped = _dropped(tree)
    for one in found:
        one.rates = _rates(one, fused=not np.isin(one.turns.nodes[0], dropped).any())
    loops = [Loop(one.turns, one.layers, one.rates) for one in found]
    host = tree.host
    marks = Marks(np.full(host.size, -1, np.int64), np.zeros(host.size))
    for row, one in enumerate(found):
        for place, rate in one.rates.items():
            marks.own[one.turns.nodes[:, place]], marks.rate[one.turns.nodes[:, place]] = row, rate
        marks.own[one.join], marks.rate[one.join] = row, _JOINED
    source = np.full(host.size, -1, np.int64)
    marked = np.flatnonzero(marks.own >= 0)
    source[marked] = marked
    of = host.with_backward(source)
    ops, python, inside = NOTHING, NOTHING, NOTHING
    if on_cpu:
        of = of[tree.context.op_rows]
        _mark_updates(tree, loops, marks)
        updated = np.flatnonzero((marks.own >= 0) & (source < 0))
        source[:] = -1
        source[updated] = updated
        of = np.where(of >= 0, of, host.flow(source)[tree.context.op_rows])
        ops, python, part = owned(tree, of, marks.own, marks.rate, len(loops))
    else:
        inside = launched_of(tree, np.where(of >= 0, marks.own[of], -1))
        part = spared_on_gpu(tree, loops, of, inside)
    first = np.array([one.turns.nodes[0, one.layers[0]] for one in found], np.int64)
    return Occurrences(
        kind="separate-heads",
        node=first,
        begin=host.start[np.array([one.turns.nodes[0, 0] for one in found])],
        end=host.end[np.array([one.join for one in found])],
        inside=inside,
        own=inside,
        idle=not on_cpu,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([one.turns.count for one in found], np.int64),
            "length": np.array([size_of(_weight(one)) for one in found], np.int64),
            "head_dim": np.array([one.width for one in found], np.int64),
            "part": part,
            "dims": tree.dims(first),
        },
        details=[spell(one.turns) for one in found],
    )


def _mark_updates(tree: Tree, loops: list[Loop], marks: Marks) -> None:
    """Mark the nodes that store the gradients of the heads' weights, and the operators that update these."""
    stores = tree.ops(tree.codes_of(_STORE.__eq__))
    if not len(stores):
        return
    for loop in loops:
        own: Counter[Shape] = Counter()
        for at in loop.layers:
            weight = loop.turns.operands[at][1]
            own[turned(weight)] += loop.turns.count
        loop.weights = own
    update(tree, loops, stores, marks)


def _joined(tree: Tree) -> list[_Found]:
    """Concatenations of the results of turns that ran directly before them, each an attention."""
    joins = tree.ops(tree.codes_of(lambda name: JOINS.match(name) is not None))
    if not len(joins) or not len(tree.ops(tree.codes_of(lambda name: name in _SOFTMAX or name == _FUSED))):
        return []
    items, token = items_of(tree, shapes=True, modules=False)
    places = np.flatnonzero(np.isin(items, joins))
    found = []
    for place in places[:_MOST_JOINS].tolist():
        parts = first_operand(tree, int(items[place]), listed=True)
        if parts is None or len(parts) < LEAST or len(set(parts)) > 1 or len(parts[0]) < 2:
            continue
        one = _turns_before(tree, items, token, place, len(parts))
        if one is not None and (layers := _attention(one, parts[0])):
            found.append(_Found(one, layers, int(items[place]), parts[0][-1]))
    return found


def _turns_before(tree: Tree, items: Ints, token: Ints, place: int, count: int) -> Turns | None:
    """The shortest turn, with a layer in it, that ran *count* times directly before an item."""
    linear = tree.codes_of(_LAYER.__eq__)
    for period in range(_SHORTEST, min(_LONGEST, place // count) + 1):
        first = place - period * count
        if token[place - 1] != token[place - 1 - period] or not linear[tree.host.name[items[first:place]]].any():
            continue
        if np.array_equal(token[first : place - period], token[first + period : place]):
            return Turns(tree, items[first:place].reshape(count, period), items, first)
    return None


def _attention(one: Turns, result: Shape) -> list[int]:
    """Places of the layers of a turn that is an attention with such a result, and nothing else; none for any other."""
    layers = _layers(one)
    known = {_LAYER, _FUSED, *_SOFTMAX, *_PRODUCTS}
    alone = all(name in known or is_view(name) or _OTHERS.match(name) for name in one.names)
    return layers if layers and alone and (_fused(one, layers, result) or _in_steps(one, result)) else []


def _layers(one: Turns) -> list[int]:
    """Places of the layers of a turn, where they are three at most and read tensors of one shape."""
    layers = _places(one, {_LAYER})
    operands = [one.operands[at] for at in layers]
    if len(layers) > _MOST_LAYERS or any(len(shapes) < 2 or len(shapes[1]) != 2 for shapes in operands):
        return []
    return layers if len({shapes[0] for shapes in operands}) == 1 and operands[0][0] else []


def _places(one: Turns, names: frozenset[str] | set[str]) -> list[int]:
    return [at for at, name in enumerate(one.names) if name in names]


def _fused(one: Turns, layers: list[int], result: Shape) -> bool:
    """Tell whether a turn calls one fused attention behind its layers that gives such a result."""
    places = _places(one, {_FUSED})
    if len(places) != 1 or _places(one, _SOFTMAX | _PRODUCTS) or min(layers) > places[0]:
        return False
    queries, _, values = (*one.tensors(places[0])[:3], (), (), ())[:3]
    given = (*queries[:-1], *values[-1:])
    return len(queries) > 2 and size_of(given) == size_of(result) and given[-1] == result[-1]


def _in_steps(one: Turns, result: Shape) -> bool:
    """Tell whether a turn multiplies, takes a softmax of that, and multiplies again, to such a result."""
    softmaxes, products = _places(one, _SOFTMAX), _places(one, _PRODUCTS)
    if len(softmaxes) != 1 or len(products) != 2 or not products[0] < softmaxes[0] < products[1]:
        return False
    scores, first, second = (one.tensors(at)[:2] for at in (softmaxes[0], *products))
    if not scores or min(len(first), len(second)) < 2 or min(map(len, (*first, *second))) < 2:
        return False
    gives = size_of(first[0][:-1]) * _across(one, products[0])
    fits = gives == size_of(scores[0]) == size_of(second[0]) and second[0][-1] == scores[0][-1]
    return fits and size_of(second[0][:-1]) * second[1][-1] == size_of(result)


def _across(one: Turns, place: int) -> int:
    """Columns of a product's result; -1 for what is none."""
    left, right = one.tensors(place)[:2]
    if right[-2] == left[-1]:
        return right[-1]
    # An einsum of queries and keys, neither of them turned.
    return right[-2] if right[-1] == left[-1] and one.names[place] == "aten::einsum" else -1


def _weight(one: _Found) -> Shape:
    return one.turns.operands[one.layers[0]][1]


def _on_one_input(tree: Tree, found: list[_Found]) -> list[_Found]:
    """Return the heads that read one tensor, as the gradients say that their layers send back to it."""
    if not found:
        return []
    host = tree.host
    first, last, whole = (np.full(host.size, -1, np.int64) for _ in range(3))
    for row, one in enumerate(found):
        nodes = one.turns.nodes[:, one.layers]
        first[nodes[0]], last[nodes[-1]], whole[nodes.ravel()] = row, row, row
    added = zip(*(_added(tree, own, len(found)) for own in (first, last, whole)), strict=True)
    return [one for one, number in zip(found, added, strict=True) if _of_one(one, *number)]


def _added(tree: Tree, own: Ints, count: int) -> list[int]:
    """The number of gradients that the backward pass of marked operators adds to others, of each row."""
    host = tree.host
    of = host.with_backward(own)
    late = (of >= 0) & (host.group == OP) & (host.attributes.phase == BACKWARD)
    added: list[int] = np.bincount(of[late & tree.codes_of(ADDS.__contains__)[host.name]], minlength=count).tolist()
    return added


def _of_one(one: _Found, first: int, last: int, whole: int) -> bool:
    """Tell whether heads read one tensor, by the gradients that the first, the last, and all of them add to others.

    All but one are added up, and the last head's come first. Heads that read a tensor each, as those of several views or models,
    have fewer to add; where each could read what the one before gave, it is the first that has one to add less. Where none sends
    any (in inference, or where the input has no gradient), heads are as wide together as their input, and each is narrower: none
    could read what another gave.
    """
    heads, layers = one.turns.count, len(one.layers)
    read = one.turns.operands[one.layers[0]][0]
    if not whole:
        return one.width * heads == read[-1]
    if one.width == read[-1]:
        return (first, last, whole) == (layers, layers - 1, layers * heads - 1)
    return whole >= layers * heads - 1


def _dropped(tree: Tree) -> Ints:
    """Calls of dropout that drop."""
    dropped: Ints = tree.calls[tree.ops(tree.codes_of(_RANDOM.__contains__))]
    return dropped


def _rates(one: _Found, *, fused: bool) -> dict[int, float]:
    """Part of each operator's time that heads in one product spare: all but one call of each, and what *fused* attention does."""
    turns = one.turns
    wide = min(one.width / _NARROW, 1.0) if fused else 0.0
    scores = max((size_of(turns.tensors(at)[0]) for at, name in enumerate(turns.names) if name in _SOFTMAX), default=0)
    rates = {}
    for at, name in enumerate(turns.names):
        sizes = [size_of(shape) for shape in turns.tensors(at)]
        if at in one.layers:
            rate = _LAYER_MORE + 1 / (1 + _multiplied(turns, at) / _LAYER_HALF)
        elif name == _FUSED:
            # Of three dimensions it is not fused on the CPU.
            more = _PRODUCT_MORE * wide if len(turns.tensors(at)[0]) == 3 else 0.0
            rate = more + 1 / (1 + _multiplied(turns, at) / _PRODUCT_HALF)
        elif name in _PRODUCTS:
            rate = _PRODUCT_MORE * wide + 1 / (1 + _multiplied(turns, at) / _PRODUCT_HALF)
        elif scores in sizes and not is_view(name):
            rate = _SCORES_MORE * wide + _SCORES_CALL / (1 + scores / _SCORES_HALF)
        else:
            rate = 1.0
        rates[at] = min(_CAN * rate * (1 - 1 / turns.count), 1.0)
    return rates


def _multiplied(one: Turns, place: int) -> float:
    """Multiply-adds of a layer, of a product, or of the first product of a fused attention."""
    left, right = one.tensors(place)[:2]
    if one.names[place] == _LAYER:
        return size_of(left) * right[0]
    return size_of(left) * (right[-2] if one.names[place] == _FUSED else _across(one, place))
