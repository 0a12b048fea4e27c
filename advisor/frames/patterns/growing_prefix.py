"""Prefixes of a sequence that is known as a whole, each of which goes through a causal model by itself.

``for t in range(1, T): logits = model(ids[:, :t])[:, -1]`` computes position 1 T times, position 2 T - 1 times, and so on. A model
that looks at nothing behind a position (a causal mask, a recurrent layer of one direction, layers of one position) gives all of
these results in one call. A loop that generates is none: there the prefix is put together, or written, of what the model gave.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.loop import items_of
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, size_of, spread
from advisor.frames.patterns.turns import JOINS, LEAST, owned
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import OP, OPTIMIZER
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view

_LONGEST = 2000
"""Operators of a turn."""
_SLICE, _FUSED = "aten::slice", "aten::scaled_dot_product_attention"
LAYERS = regex(r"^aten::(?:lstm|gru|rnn_tanh|rnn_relu)$")
_TWO_WAYS = {"aten::lstm": 7, "aten::gru": 7, "aten::rnn_tanh": 7, "aten::rnn_relu": 7}
"""The place of ``bidirectional`` among the values of a recurrent layer."""
PRODUCTS = regex(r"^aten::(?:linear|matmul|mm|addmm|bmm|baddbmm|einsum)$")
_SOFTMAX = regex(r"^aten::_?(?:log_)?softmax$")
_REDUCES = regex(r"^aten::(?:mean|sum|var|std|var_mean|norm|linalg_vector_norm)$")
_EACH = regex(
    r"^aten::(?:add|sub|rsub|mul|div|true_divide|pow|square|sqrt|rsqrt|exp|neg|abs|sin|cos|where|masked_fill|eq|ne|lt|le|gt|ge"
    r"|minimum|maximum|clamp(?:_min|_max)?|relu6?|gelu|silu|elu|leaky_relu|softplus|tanh|sigmoid|logical_(?:not|and|or)|bitwise_(?:not|and|or)"
    r"|__(?:and|or)__|dropout|layer_norm|rms_norm|embedding|to|_to_copy|type_as|contiguous|clone|float|bool|copy|fill|zero|ones|zeros|full|empty"
    r"|(?:ones|zeros|full|empty)_like|new_(?:ones|zeros|full|empty)|arange|triu|tril|one_hot|is_causal)_?$"
)
"""Operators that compute of each position alone, and what makes masks and numbers of positions."""
WRITES = regex(
    r"^aten::(?:copy_|fill_|index_put_?|_index_put_impl_|index_copy_?|index_fill_?|put_|scatter(?:_add)?_?|masked_scatter_?"
    r"|(?:select|slice)_scatter)$"
)
_UPDATES = regex(r"^aten::(?:_fused_\w+_|_foreach_(?:add|sub|mul|lerp|addcmul|addcdiv|copy)_)$")
"""Operators that write parameters, where no mark of an optimizer was recorded."""
_IN_PLACE = regex(r"^aten::(?:add|sub|mul|lerp|addcmul|addcdiv)_$")
_SHORT_NS = 200_000
_BESIDE = 0.7
"""Part that is spared of small operators on one position in each turn, when they run once on all."""


@dataclass(eq=False)
class Prefixes:
    """Turns of a loop, a row a turn, and the positions that each turn goes over."""

    tree: Tree
    nodes: Ints
    ends: Ints

    @property
    def count(self) -> int:
        return len(self.nodes)

    @cached_property
    def names(self) -> list[str]:
        """Names of a turn's operators."""
        return [self.tree.context.names[code] for code in self.tree.host.name[self.nodes[-1]].tolist()]

    @cached_property
    def codes(self) -> Ints:
        """Argument lists of all operators, as codes."""
        return self.tree.dims(self.nodes.ravel()).reshape(self.nodes.shape)

    @cached_property
    def operands(self) -> list[tuple[Shape, ...]]:
        """Shapes of the operands of the last turn."""
        return [self.tree.shapes.operands(code) for code in self.codes[-1].tolist()]

    @cached_property
    def before(self) -> list[tuple[Shape, ...]]:
        """The same of the turn before it."""
        return [self.tree.shapes.operands(code) for code in self.codes[-2].tolist()]

    @cached_property
    def grows(self) -> list[bool]:
        """Flags of operators that are given more in each turn than in the one before."""
        each = [len(distinct(codes)) == self.count for codes in self.codes.T]
        return [
            many and any(map(_more, now, old)) if len(now) == len(old) else many
            for many, now, old in zip(each, self.operands, self.before, strict=True)
        ]

    @cached_property
    def times(self) -> Floats:
        """Durations of all operators, in ns."""
        host = self.tree.host
        return host.ns(self.nodes).astype(np.float64)

    def values(self, place: int, turn: int = -1) -> list[str]:
        """Recorded values of an operator of a turn, of the last one where none is given."""
        code = self.tree.context.op_column(self.nodes[turn, place : place + 1], "concrete")
        return self.tree.texts(int(code[0])) or []

    def growing(self, place: int, operand: int) -> bool:
        """Tell whether one of its operands grows."""
        now, old = self.operands[place], self.before[place]
        return operand < min(len(now), len(old)) and _more(now[operand], old[operand])

    @cached_property
    def works(self) -> bool:
        """True where layers or products with a matrix are among what grows."""
        growing = [place for place, more in enumerate(self.grows) if more]
        return any(
            LAYERS.match(self.names[at]) or (PRODUCTS.match(self.names[at]) and weighted(self, at)) for at in growing
        )

    @cached_property
    def updates(self) -> bool:
        """True where parameters change between the turns: each one goes through another model than the one before."""
        host = self.tree.host
        known = self.tree.once(_updates)
        begin, end = host.start[self.nodes[0, 0]], host.end[self.nodes[-1, -1]]
        if np.searchsorted(known, begin) < np.searchsorted(known, end):
            return True
        weights = {
            shape
            for place, more in enumerate(self.grows)
            if more and (LAYERS.match(self.names[place]) or PRODUCTS.match(self.names[place]))
            for at, shape in enumerate(self.operands[place])
            if len(shape) == 2 and not self.growing(place, at)
        }
        written = {
            shapes[0]
            for name, shapes in zip(self.names, self.operands, strict=True)
            if shapes and _IN_PLACE.match(name)
        }
        return not written.isdisjoint(weights)


def _updates(tree: Tree) -> Ints:
    """Times at which parameters are updated."""
    host = tree.host
    named = tree.codes_of(lambda name: _UPDATES.match(name) is not None)[host.name] & (host.group == OP)
    times: Ints = np.sort(host.start[(host.attributes.phase == OPTIMIZER) | named])
    return times


def _more(now: Shape, old: Shape) -> bool:
    return len(now) == len(old) and now != old and all(new >= one for new, one in zip(now, old, strict=True))


def growing_prefixes(tree: Tree) -> Occurrences | None:
    """One row per loop on the CPU that calls a causal model on ever longer prefixes of a sequence that is known.

    ``repeats`` are its turns, ``length`` the positions of the longest prefix, and ``part`` what one call on that spares of what the
    row owns: the operators of the turns, their backward, and the Python that leads to them.
    """
    slices = tree.ops(tree.codes_of(_SLICE.__eq__)) if tree.context.cpu_program else np.zeros(0, np.int64)
    found = [one for one in _loops(tree) if _causal(one)] if len(slices) >= LEAST else []
    if not found:
        return None
    host = tree.host
    own, rate = np.full(host.size, -1, np.int64), np.zeros(host.size)
    for row, one in enumerate(found):
        own[one.nodes], rate[one.nodes] = row, _spared(one)
    marked = np.flatnonzero(own >= 0)
    source = np.full(host.size, -1, np.int64)
    source[marked] = marked
    of = host.with_backward(source)[tree.context.op_rows]
    ops, python, part = _with_pauses(tree, found, *owned(tree, of, own, rate, len(found)))
    node = np.array([one.nodes[0, 0] for one in found], np.int64)
    return Occurrences(
        kind="growing-prefix",
        node=node,
        begin=host.start[node],
        end=host.end[np.array([one.nodes[-1, -1] for one in found])],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([one.count for one in found], np.int64),
            "length": np.array([one.ends[-1] for one in found], np.int64),
            "part": part,
            "dims": tree.dims(node),
        },
        details=[
            "recurrent" if any(map(LAYERS.match, one.names)) else "attention" if attends(one) else "layers"
            for one in found
        ],
    )


def _with_pauses(tree: Tree, found: list[Prefixes], ops: Pairs, python: Pairs, part: Ints) -> tuple[Pairs, Pairs, Ints]:
    """Return what loops own, with the longer stretches of Python inside of them as well, which one call runs once."""
    ledger, host, count = tree.context.ledger, tree.host, len(found)
    begin = host.start[np.array([one.nodes[0, 0] for one in found])]
    end = host.end[np.array([one.nodes[-1, -1] for one in found])]
    first = np.searchsorted(ledger.start_ns, begin, side="left")
    inside = spread(first, np.maximum(np.searchsorted(ledger.end_ns, end, side="right"), first))
    more = inside.where(ledger.through("host")[inside.index] & ~np.isin(inside.index, python.index))
    known = ops.total(ledger.cost(len(tree.context.op_rows), *OWNED), count) + python.total(ledger.dur_ns, count)
    added = more.total(ledger.dur_ns, count)
    once = np.array([1 / one.count for one in found])
    whole = part * known + MILLION * (1 - once) * added
    return ops, join(python, more), np.rint(whole / np.maximum(known + added, 1)).astype(np.int64)


def _loops(tree: Tree) -> list[Prefixes]:
    """Runs of eight turns or more of the same operators, each of which begins with a longer slice of one tensor."""
    items, token = items_of(tree)
    places = np.flatnonzero(tree.codes_of(_SLICE.__eq__)[tree.host.name[items]])
    taken = np.zeros(len(items), np.bool_)
    found = []
    for chain, ends in sorted(_chains(tree, items, token, places), key=lambda one: int(one[0][0])):
        for first, count, period in alike_turns(token, chain):
            whole = chain[first] + np.arange(period)[None, :] + (chain[first : first + count] - chain[first])[:, None]
            if not taken[whole].any():
                taken[whole] = True
                found.append(Prefixes(tree, items[whole], ends[first : first + count]))
    return found


def _chains(tree: Tree, items: Ints, token: Ints, places: Ints) -> list[tuple[Ints, Ints]]:
    """Slices of one line from the start of one shape, whose end moves by the same number each time: places and ends."""
    nodes = items[places]
    dims, concrete = tree.dims(nodes).tolist(), tree.context.op_column(nodes, "concrete").tolist()
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for place, code, values in zip(places.tolist(), dims, concrete, strict=True):
        texts, shapes = tree.texts(values), tree.shapes.operands(code)
        told = [numbers(texts, at) for at in (1, 2, 3)]
        if not shapes or any(one is None or len(one) != 1 for one in told):
            continue
        dim, start, end = (one[0] for one in told if one)
        if start == 0 and -len(shapes[0]) <= dim < len(shapes[0]) and 0 < end <= shapes[0][dim]:
            groups.setdefault((int(token[place]), code, dim), []).append((place, end))
    found = []
    for members in groups.values():
        kept = [members[0], *(new for old, new in pairwise(members) if new[1] != old[1])]
        at, ends = np.array(kept, np.int64).T
        steps = np.diff(ends)
        cuts = np.flatnonzero(np.append(True, np.diff(steps) != 0)).tolist() if len(steps) else []
        for low, high in pairwise([*cuts, len(steps)]):
            if steps[low] > 0 and high - low >= LEAST - 1:
                found.append((at[low : high + 1], ends[low : high + 1]))
    return found


def alike_turns(token: Ints, chain: Ints) -> list[tuple[int, int, int]]:
    """Stretches of a chain whose turns have the same operators: first, turns, operators of a turn."""
    sizes = np.diff(chain)
    found, first = [], 0
    while first < len(sizes):
        period = int(sizes[first])
        turn = token[chain[first] : chain[first] + period]
        count = 1
        while first + count < len(chain) and 1 < period <= _LONGEST:
            at = chain[first + count]
            whole = first + count == len(sizes) or sizes[first + count] == period
            if not whole or not np.array_equal(token[at : at + period], turn):
                break
            count += 1
        if count >= LEAST:
            found.append((first, count, period))
        first += count
    return found


def _causal(one: Prefixes) -> bool:
    """Tell whether all that grows is of a model in one call of which each position sees only those before it, and is known."""
    growing = [place for place, more in enumerate(one.grows) if more]
    if not one.works or not all(allowed(one, at) for at in growing) or _written(one):
        return False
    if one.updates:  # each prefix is one of a model that was trained on those before
        return False
    return ends_at_last(one, growing) and (not attends(one) or masked(one, growing))


def weighted(one: Prefixes, place: int) -> bool:
    """Tell whether a product is one with a matrix that does not grow."""
    return any(len(shape) == 2 and not one.growing(place, at) for at, shape in enumerate(one.operands[place]))


def allowed(one: Prefixes, place: int) -> bool:
    """Tell whether an operator on what grows mixes no position with later ones, but for attention, whose mask is looked for."""
    name, operands = one.names[place], one.operands[place]
    if is_view(name):
        return not name.startswith("aten::lift")
    if LAYERS.match(name):
        return _one_way(one, place)
    if PRODUCTS.match(name):
        return _multiplied(one, place)
    if name in ("aten::all", "aten::any"):
        return bool(operands) and _square(operands[0])  # whether a mask is the causal one
    if JOINS.match(name):
        return bool(operands) and all(one.growing(place, at) for at, shape in enumerate(operands) if shape)
    if _REDUCES.match(name) or _SOFTMAX.match(name):
        along = numbers(one.values(place), 1)
        return bool(operands) and along in ((-1,), (len(operands[0]) - 1,))
    return name == _FUSED or _EACH.match(name) is not None


def _one_way(one: Prefixes, place: int) -> bool:
    """Tell whether a recurrent layer of one direction goes over more steps, not over more sequences or packed ones."""
    values, now, old = one.values(place), one.operands[place][0], one.before[place][0]
    two_ways = _TWO_WAYS[one.names[place]]
    if len(values) <= two_ways + 1 or values[two_ways] != "False" or len(now) != 3 or len(old) != 3:
        return False
    sequences = 0 if values[two_ways + 1] == "True" else 1
    return now[1 - sequences] > old[1 - sequences] and now[sequences] == old[sequences]


def _multiplied(one: Prefixes, place: int) -> bool:
    """Tell whether a product is one of positions with a matrix, or one of a batch of them, as in attention."""
    operands = one.operands[place]
    tensors = [at for at, shape in enumerate(operands) if len(shape) > 1]
    larger = [at for at in tensors if one.growing(place, at)]
    return len(tensors) > 1 and (larger == tensors[:1] or all(len(operands[at]) > 2 for at in larger))


def _written(one: Prefixes) -> bool:
    """Tell whether a turn computes a tensor that it slices anew, or writes into one as large, or as one position of that."""
    wholes, sizes = set[Shape](), set[int]()
    for place, name in enumerate(one.names):
        shapes = one.operands[place]
        if name == _SLICE and not one.grows[place] and shapes and len(distinct(one.codes[:, place])) == 1:
            told = numbers(one.values(place), 1)
            if told and -len(shapes[0]) <= told[0] < len(shapes[0]) and shapes[0][told[0]]:
                wholes.add(shapes[0])
                sizes |= {size_of(shapes[0]), size_of(shapes[0]) // shapes[0][told[0]]}
    for name, shapes in zip(one.names, one.operands, strict=True):
        if shapes and WRITES.match(name) and size_of(shapes[0]) in sizes:
            return True
        if _EACH.match(name) and not wholes.isdisjoint(shapes):
            return True
    return False


def ends_at_last(one: Prefixes, growing: list[int]) -> bool:
    """Tell whether the last position is picked of what was computed, or only the state behind it goes on."""
    if any(_picks_last(one, at) for at in growing):
        return True
    layers = [at for at in growing if LAYERS.match(one.names[at])]
    return bool(layers) and all(is_view(one.names[at]) for at in growing if at > layers[-1])


def _picks_last(one: Prefixes, place: int) -> bool:
    """Tell whether an operator picks the last position along a dimension that grows."""
    if one.names[place] not in ("aten::select", _SLICE) or not one.growing(place, 0):
        return False
    shape, old = one.operands[place][0], one.before[place][0]
    told = [numbers(one.values(place), at) for at in (1, 2)]
    dim, at = (one[0] if one else 1 << 40 for one in told)
    return -len(shape) <= dim < len(shape) and shape[dim] > old[dim] and at in (-1, shape[dim] - 1)


def attends(one: Prefixes) -> bool:
    return any(_mixes(one, place) for place in range(len(one.names)))


def _mixes(one: Prefixes, place: int) -> bool:
    """Tell whether an operator is an attention, or a softmax, among positions of the prefix."""
    name, shapes = one.names[place], one.operands[place]
    if name == _FUSED:
        return one.growing(place, 1)
    return _SOFTMAX.match(name) is not None and one.growing(place, 0) and shapes[0][-1] > one.before[place][0][-1]


def masked(one: Prefixes, growing: list[int]) -> bool:
    """Tell whether each attention among positions has a causal mask: its own flag, or a square one that grows."""
    square = any(
        _square(shape) for at in growing for number, shape in enumerate(one.operands[at]) if one.growing(at, number)
    )
    for at in growing:
        if _mixes(one, at) and not square:
            values = one.values(at)
            if one.names[at] != _FUSED or len(values) < 6 or values[5] != "True":
                return False
    return True


def _square(shape: Shape) -> bool:
    """Tell whether a shape is that of one mask for all: two equal dimensions, and ones before them."""
    return len(shape) > 1 and shape[-1] == shape[-2] > 1 and all(size == 1 for size in shape[:-2])


def _spared(one: Prefixes) -> Floats:
    """Part of each operator's time that goes, where the turns' together become one call on the longest prefix."""
    total = np.maximum(one.times.sum(axis=0), 1)
    late = max(one.count // 4, 2)
    scale = one.ends[-1] / one.ends[-late:].mean()
    once = 1 - np.maximum(one.times[-late:].mean(axis=0) * scale / total, 1 / one.count)
    mean = total / one.count
    # What is computed of the prefix is computed once for all; what is computed of its last position has as much to do as before.
    beside = np.where(mean < _SHORT_NS, _BESIDE, 0.0)
    last = max((place for place, more in enumerate(one.grows) if more), default=-1)
    before = np.arange(len(one.names)) <= last
    spared: Floats = np.where(np.array(one.grows) | before, np.maximum(once, 0), beside)
    return spared
