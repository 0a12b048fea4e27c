"""Layers on columns that are put together of gathered rows: the two ends of an edge, or the parts of a triple.

``layer(cat([x[source], x[target], edges], -1))`` multiplies each row of x as often as it is gathered. The weight is split by those
columns: each part is multiplied with its source, and what comes out is gathered and added.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.gathered import JOINS, Gather, Gathers, Memory, gathers, outputs_of, taken
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import Uses, backward_of, chosen_of, time_of
from advisor.intervals import Bools, Ints

Floats = npt.NDArray[np.float64]

_ADDED = 1.5
"""Time of adding two tensors to that of putting as many columns together: three passes for two."""
_REACH = 40
_GRADIENT = 2.0
"""Time of a gather's gradient to that of the gather, where only what the layer gives has one."""


class _Layer(Struct, frozen=True, eq=False):
    """A layer on gathered columns: its product, what puts them together, the gathers, and the widths of all columns and of what it
    gives; ``others`` are the tensors that no gather gave."""

    product: int
    join: int
    parts: list[Gather]
    width: int
    outputs: int
    others: int

    @property
    def left(self) -> float:
        """Part of the layer's time that stays: each gathered column once for each row of its source, and the other columns."""
        return 1 - sum(part.width * (1 - part.source / part.rows) for part in self.parts) / self.width

    @property
    def joined_left(self) -> float:
        """Time to that of putting columns together which adding up what the parts give takes, with what is put together still."""
        terms = len(self.parts) + (self.others > 0)
        others = 1 - sum(part.width for part in self.parts) / self.width if self.others > 1 else 0.0
        return _ADDED * (terms - 1) * self.outputs / self.width + others


class _Time(Struct, frozen=True, eq=False):
    """Time of each layer with all that is around it, what of it stays, and the nodes that take it."""

    ns: Floats
    left_ns: Floats
    nodes: Pairs


def gathered_parts(tree: Tree) -> Occurrences | None:
    """One row per layer that runs on columns of which some are gathered rows, with what puts these together, and backward passes.

    ``repeats`` are the rows that are gathered, ``length`` those of the largest source, ``part`` is what goes where the layer runs
    on the sources.
    """
    found = _layers(tree)
    if not found:
        return None
    products, joins = (np.array([getattr(one, name) for one in found], np.int64) for name in ("product", "join"))
    time = _time(tree, found, products, joins)
    # One gather's memory is slow to come by, another's is not: equal ones are taken together.
    _, of = np.unique(np.stack([tree.dims(joins), tree.dims(products)], axis=1), axis=0, return_inverse=True)
    of = of.ravel()
    part = 1 - (np.bincount(of, time.left_ns) / np.maximum(np.bincount(of, time.ns), 1))[of]
    chosen = np.flatnonzero((part > 0) & (time.ns > 0))
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, time.nodes, chosen, len(found))
    at, layers = products[chosen], [found[one] for one in chosen.tolist()]
    return Occurrences(
        kind="gathered",
        node=at,
        begin=tree.host.start[at],
        end=tree.host.end[at],
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": np.array([one.parts[0].rows for one in layers], np.int64),
            "length": np.array([max(part.source for part in one.parts) for one in layers], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(at),
        },
        details=["joined"] * len(layers),
    )


def _time(tree: Tree, found: list[_Layer], products: Ints, joins: Ints) -> _Time:
    """The time of some layers, and what of it stays where each part of the weight is multiplied with its source."""
    count, last = len(found), tree.after(products)
    layer, put = (Pairs(np.arange(count), nodes) for nodes in (products, joins))
    layer, put = (join(pairs, backward_of(tree, pairs, joins, last)) for pairs in (layer, put))
    trains = np.bincount(layer.row, minlength=count) > 1
    gathered, gathered_left, of_gathers = _gathered(tree, found, last, trains)
    product, joined = (time_of(tree, pairs, count) for pairs in (layer, put))
    left = (
        product * np.array([one.left for one in found])
        + gathered_left
        + joined * np.array([one.joined_left for one in found])
    )
    return _Time(product + joined + gathered, left, join(layer, put, of_gathers))


def _gathered(tree: Tree, found: list[_Layer], last: Ints, trains: Bools) -> tuple[Floats, Floats, Pairs]:
    """Time of the gathers of each layer, what it is where they are as wide as the layer's output, and their nodes."""
    each = [(row, part) for row, one in enumerate(found) for part in one.parts]
    row = np.array([one for one, _ in each], np.int64)
    wide = np.array([found[one].outputs / part.width for one, part in each])
    calls = np.array([part.call for _, part in each], np.int64)
    gather = Pairs(np.arange(len(each)), calls)
    late = backward_of(tree, gather, calls, last[row])
    forward, behind = time_of(tree, gather, len(each)), time_of(tree, late, len(each))
    # A source of data has no gradient, but what a layer makes of it has one.
    behind_left = np.where(trains[row] & (behind == 0), _GRADIENT * forward, behind)
    times = (forward + behind, (forward + behind_left) * wide)
    now, left = (np.bincount(row, ns, len(found)).astype(np.float64) for ns in times)
    nodes = join(gather, late)
    return now, left, Pairs(row[nodes.row], nodes.index).each_once()


def _layers(tree: Tree) -> list[_Layer]:
    """Find the layers that take nothing but columns which are put together, and of which gathers gave some."""
    found = tree.once(gathers)
    if found is None or not len(found.memory.when):
        return []
    uses = tree.once(Uses)
    joins: dict[int, list[Gather]] = {}
    columns: dict[int, tuple[Shape, ...]] = {}
    for call in sorted(found.given):
        gather, _, word = found.given[call]
        taker = found.memory.taker(uses, call, gather.rows * gather.width, word)
        if taker is not None and taker[1] == JOINS:
            joins.setdefault(taker[0], []).append(gather)
            columns[taker[0]] = taker[2]
    layers = (_layer(tree, uses, found, node, joins[node], columns[node]) for node in sorted(joins))
    return [one for one in layers if one is not None]


def _layer(
    tree: Tree, uses: Uses, found: Gathers, node: int, parts: list[Gather], operands: tuple[Shape, ...]
) -> _Layer | None:
    """The layer that takes what a concatenation of columns gives, and the gathers among these; None where there is none."""
    shapes = [shape for shape in operands if shape]
    texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0]))
    along = numbers(texts, 1)
    rank = len(shapes[0])
    if len(shapes) < 2 or rank < 2 or not along or along[0] not in (-1, rank - 1):
        return None
    if len({shape[:-1] for shape in shapes}) > 1:
        return None
    rows, width = size_of(shapes[0][:-1]), sum(shape[-1] for shape in shapes)
    places = [shape[-1] for shape in shapes]
    known: list[Gather] = []
    for part in parts:
        if part.rows == rows and part.width in places:
            places.remove(part.width)
            known.append(part)
    if not known:
        return None
    word = found.memory.word_of(node, found.given[known[0].call][2])
    taker = found.memory.taker(uses, node, rows * width, word)
    if taker is None or not _taken_once(tree, uses, found.memory, node, rows * width, word):
        return None
    outputs = outputs_of(taker[1], taker[2], rows, width)
    return _Layer(taker[0], node, known, width, outputs, len(places)) if outputs else None


def _taken_once(tree: Tree, uses: Uses, memory: Memory, node: int, size: int, word: str) -> bool:
    """Tell whether columns that are put together are taken as often as such are made, while the first of them live.

    Those of a later layer, which are as large, are taken there; what a second operator takes of the same columns has to stay.
    """
    host, freed = tree.host, memory.freed(node, size, word)
    following = [one for one in uses.behind(node, size, _REACH) if taken(one, size)]
    if freed is None or not following:
        return False
    end = min(freed, int(host.end[following[-1][0]])) if len(following) == _REACH else freed
    takers = sum(taken(one, size) for one in following if host.start[one[0]] < end)
    at = uses.nodes[(uses.nodes >= node) & tree.codes_of(JOINS.__eq__)[host.name[uses.nodes]]]
    at = at[(host.thread[at] == host.thread[node]) & (host.start[at] < end)]
    made = [tree.shapes.operands(code) for code in tree.dims(at).tolist()]
    return takers <= sum(sum(map(size_of, filter(None, shapes))) == size for shapes in made)
