"""Full sorts of which the program then takes a few places: the first k, the last k, one in the middle, or where one row stands.

A sort of n numbers compares about n log2 n times. The k largest of them take one pass and a sort of k (a selection), which is what
torch.topk, kthvalue and median do. On two cores under torch 2.13 with n from 64 to 1,000,000 topk took, of the time of the sort,
0.01 to 0.05 where 64 k <= n (a heap of k), and else 0.18 + 0.8 k / n + 8 / n, to 0.08 (kthvalue: k = 0).

On an H100 topk of 10 took 0.19 of the time of the sort of 512 rows of 32,768 values, by some thirteen kernels. A row of up to 4,096
values is sorted there in a block's own memory, which topk does not beat for certain; and kthvalue gives each row to one block.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Tree, size_of, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, summed
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import is_view

_SORT = regex(r"^aten::(?:sort|argsort|msort)$")
_QUANTILE = regex(r"^aten::(?:nan)?quantile$")
_PLACES = frozenset({"aten::slice", "aten::narrow", "aten::select"})
_HANDED_ON = frozenset({"aten::flip", "aten::contiguous", "aten::clone", "aten::to", "aten::expand_as"})
_INDICES, _UNKNOWN = "long int", "TensorList"
_LEAST, _MOST = 64, 20_000
_COUNTED = 1.0
"""Part of an argsort's time that counting the larger values spares: what compares the order goes as well."""
_IN_BLOCK, _SELECTED = 4096, 0.18
_GPU_TOPK, _GPU_COUNT = 20_000.0, 10_000.0
"""On a GPU: values of a row that a block sorts by itself; topk's part of a longer sort's time; ns of topk's kernels, and of those
that count, however few the values."""
_WIDEST = 4
_NODES, _OPERATORS = 800, 48
"""The reach behind a sort in which its result is looked for: nodes of the forest, and operators that Python calls."""
_MANY, _MIDDLE = 1 << 40, -1
NONE, INDICES, VALUES, OF_INDICES, OF_VALUES = range(5)
"""Use of a result: none, the whole (of its indices, of its values), or places of it."""


def spared(length: int, places: int, *, selected: bool = False) -> float:
    """Part of the time of a full sort that a selection of *places* of *length* numbers spares."""
    if 64 * places <= length and not selected:
        return 0.96
    return max(1 - (0.18 + 8 / length) - (0 if selected else 0.8 * places / length), 0.0)


def full_sorts(tree: Tree) -> Occurrences | None:
    """One row per sort whose result is only read at a quarter of its places or fewer; on a GPU of rows that no block sorts alone.

    ``length`` is what it sorts, ``repeats`` the places that are read, ``part`` what a selection of these spares of its time.
    """
    host = tree.host
    nodes = _sorts(tree)
    nodes = nodes[~_within(tree, nodes)]
    if not 0 < len(nodes) <= _MOST:
        return None
    keys = np.stack([tree.dims(nodes), tree.context.op_column(nodes, "concrete"), host.name[nodes]], axis=1)
    kinds, of = np.unique(keys, axis=0, return_inverse=True)
    sorted_ = [_sorted(tree, *kind) for kind in kinds.tolist()]
    known = np.array([one is not None for one in sorted_], np.bool_)[of.ravel()]
    nodes, of = nodes[known], of.ravel()[known]
    if not len(nodes):
        return None
    row, behind = _behind(tree, nodes)
    use, places = _uses(tree, of[row], [one or ((), 0) for one in sorted_], behind)
    counted = np.where(places == _MIDDLE, 1, places)
    indices, values = (summed(row, np.where(use == which, counted, 0), len(nodes)) for which in (OF_INDICES, OF_VALUES))
    order = np.arange(len(row))
    first = {which: np.full(len(nodes), len(row)) for which in (INDICES, VALUES, OF_INDICES, OF_VALUES)}
    for which, at in first.items():
        here = use == which
        np.minimum.at(at, row[here], order[here])
    read = np.maximum(indices, values)
    # Values that are used as a whole before places are read are the sort's own, unless it gave indices alone.
    indices_alone = tree.codes_of("aten::argsort".__eq__)[host.name[nodes]]
    before = first[VALUES] < np.minimum(first[OF_INDICES], first[OF_VALUES])
    whole = (first[INDICES] < len(row)) | (before & ~indices_alone)
    length = np.array([shape[dim] for shape, dim in (one or ((1,), 0) for one in sorted_)], np.int64)[of]
    middle = summed(row, places == _MIDDLE, len(nodes)) > 0
    few = (read > 0) & (_WIDEST * read <= length) & ~whole
    if not tree.context.cpu_program:
        few &= (length > _IN_BLOCK) & ~middle
    nodes, length, read, middle = nodes[few], length[few], np.where(middle, 1, read)[few], middle[few]
    if tree.context.cpu_program:
        part = [
            spared(*one[:2], selected=one[2])
            for one in zip(length.tolist(), read.tolist(), middle.tolist(), strict=True)
        ]
    else:
        part = np.maximum(1 - _SELECTED - read / length - _fixed(tree, nodes, _GPU_TOPK), 0).tolist()
    return _occurrences(tree, "full-sort", nodes, nodes, length, read, part)


def _fixed(tree: Tree, nodes: Ints, ns: float) -> Floats:
    """So many ns as a part of the time that the work of each operator takes on the GPU."""
    work = tree.launched_below(nodes)
    return ns / np.maximum(work.total(tree.work.end - tree.work.start, len(nodes)), 1)


def rank_sorts(tree: Tree) -> Occurrences | None:
    """One row per sort of whose order the program asks where one place of each row came to stand, and at most its first places.

    The comparison of the order with a number a row tells the first. ``length`` is what it sorts; the part that is spared is
    :data:`_COUNTED`: the rank is one more than how many values are larger, which is one pass. Where places of the order are
    read as well, ``repeats`` are these (else 1), and the part is what a selection of them spares.
    """
    host = tree.host
    nodes = _sorts(tree)
    nodes = nodes[~_within(tree, nodes)]
    if not 0 < len(nodes) <= _MOST:
        return None
    sorted_ = [
        _sorted(tree, *key)
        for key in zip(
            tree.dims(nodes).tolist(),
            tree.context.op_column(nodes, "concrete").tolist(),
            host.name[nodes].tolist(),
            strict=True,
        )
    ]
    nodes = nodes[np.array([one is not None for one in sorted_], np.bool_)]
    kinds = [one for one in sorted_ if one is not None]
    if not len(nodes):
        return None
    row, behind = _behind(tree, nodes)
    use, places = _uses(tree, row, kinds, behind)
    whole = np.flatnonzero(use == INDICES)
    asked = np.array([_asks(tree, kinds[row[at]], int(behind[at])) for at in whole.tolist()], np.bool_)
    length = np.array([shape[dim] for shape, dim in kinds], np.int64)
    sliced = (use == OF_INDICES) & (places != _MIDDLE)
    read = summed(row[sliced], places[sliced], len(nodes))
    other = summed(row[whole], (~asked).astype(np.int64), len(nodes))
    other += summed(row, (use == OF_INDICES) & ~sliced, len(nodes))
    other += summed(row, _takes_values(tree, nodes, row, behind, use).astype(np.int64), len(nodes))
    ranks = (summed(row[whole], 1, len(nodes)) > 0) & (other == 0) & (_WIDEST * read <= length)
    if not tree.context.cpu_program:
        ranks &= (read == 0) | (length > _IN_BLOCK)
    nodes, length, read = nodes[ranks], length[ranks], read[ranks]
    if tree.context.cpu_program:
        part = np.array([spared(*one) if one[1] else _COUNTED for one in zip(length, read, strict=True)])
    else:
        part = _COUNTED - _fixed(tree, nodes, _GPU_COUNT)
        selected = part - _SELECTED - read / length - _fixed(tree, nodes, _GPU_TOPK)
        part = np.maximum(np.where(read == 0, part, selected), 0)
    return _occurrences(tree, "rank-sort", nodes, nodes, length, np.maximum(read, 1), part.tolist())


def _takes_values(tree: Tree, nodes: Ints, row: Ints, behind: Ints, use: Ints) -> Bools:
    """Flag the operators behind a sort that may take its values: those that take as many numbers of the type it sorts.

    An argsort hands on no values, and what tells the places of an order are truth values, or numbers that a conversion made
    of them for the next operator. The scores of the next step, which are as many, are others.
    """
    step_of, start = tree.context.recording.host_step_of, tree.host.start
    sorting = ~tree.codes_of("aten::argsort".__eq__)[tree.host.name[nodes]]
    types = tree.context.op_column(nodes, "types").tolist()
    sorted_ = [(tree.words(code) or [_UNKNOWN])[0] for code in types]
    found = np.isin(use, (VALUES, OF_VALUES)) & sorting[row] & (step_of(start[behind]) == step_of(start[nodes])[row])
    found &= ~tree.codes_of(lambda name: _SORT.match(name) is not None)[tree.host.name[behind]]
    converts = tree.codes_of("aten::to".__eq__)[tree.host.name[behind]]
    truths = -1
    for at in np.flatnonzero(found | converts).tolist():
        words = tree.words(int(tree.context.op_column(behind[at : at + 1], "types")[0])) or [_UNKNOWN]
        if converts[at]:
            truths = int(row[at]) if words[0] == "bool" else truths
            continue
        found[at] = (sorted_[row[at]] in words or _UNKNOWN in (sorted_[row[at]], *words)) and truths != row[at]
        truths = -1
    flags: Bools = found
    return flags


def _asks(tree: Tree, kind: tuple[Shape, int], node: int) -> bool:
    """Tell whether an operator compares an order with one number a row."""
    shape, dim = kind
    at = np.array([node])
    if tree.context.names[tree.host.name[node]] not in ("aten::eq", "aten::__eq__"):
        return False
    operands = tree.shapes.operands(int(tree.dims(at)[0]))[:2]
    one = (*shape[:dim], 1, *shape[dim + 1 :])
    numbers = {one, one[dim:], (1,) * len(shape), ()}
    return len(operands) == 2 and shape in operands and operands[operands[0] == shape] in numbers


def quantile_sorts(tree: Tree) -> Occurrences | None:
    """One row per sort inside of a quantile: it sorts all numbers for a few of them; on a GPU for one near an end, of long rows.

    ``length`` is what it sorts, ``repeats`` the quantiles, ``part`` what so many selections spare of its time.
    """
    host, quantile = tree.host, tree.codes_of(lambda name: _QUANTILE.match(name) is not None)
    nodes = _sorts(tree) if quantile.any() else np.zeros(0, np.int64)
    around = host.above(nodes, quantile[host.name] & (host.group == OP), HIGHEST)
    nodes, around = nodes[around >= 0], around[around >= 0]
    if not 0 < len(nodes) <= _MOST:
        return None
    asked = tree.shapes.column(tree.dims(around), lambda shapes: max(size_of(shapes[1]), 1) if len(shapes) > 1 else 1)
    sizes = np.stack([tree.dims(nodes), tree.context.op_column(nodes, "concrete"), host.name[nodes]], axis=1)
    kinds, of = np.unique(sizes, axis=0, return_inverse=True)
    lengths = np.array([one[0][one[1]] if (one := _sorted(tree, *kind)) else 0 for kind in kinds.tolist()], np.int64)
    length = lengths[of.ravel()]
    kept = length > 0
    nodes, length, asked = nodes[kept], length[kept], asked[kept]
    around = around[kept]
    if not tree.context.cpu_program:
        # On a GPU kthvalue gives a row to one block, which takes longer than all of them for a sort: topk does not.
        outer = host.above(around, quantile[host.name] & (host.group == OP), HIGHEST)
        rank = _from_end(tree, np.where(outer >= 0, outer, around))
        few = (length > _IN_BLOCK) & (asked == 1) & (_WIDEST * rank <= 1)
        nodes, around, length, asked, rank = nodes[few], around[few], length[few], asked[few], rank[few]
        part = np.maximum(1 - _SELECTED - rank - _fixed(tree, nodes, _GPU_TOPK), 0).tolist()
        return _occurrences(tree, "quantile-sort", nodes, around, length, asked, part)
    part = [
        max(1 - some * (1 - spared(many, 0, selected=True)), 0.0)
        for many, some in zip(length.tolist(), asked.tolist(), strict=True)
    ]
    return _occurrences(tree, "quantile-sort", nodes, around, length, asked, part)


def _from_end(tree: Tree, nodes: Ints) -> Floats:
    """Part of the values that lie between the quantile that is asked for and the nearer end; 1 where it was not recorded."""
    out = np.ones(len(nodes))
    for at, code in enumerate(tree.context.op_column(nodes, "concrete").tolist()):
        texts = tree.texts(code) or []
        try:
            asked = float(texts[1])
        except (IndexError, ValueError):
            continue
        out[at] = min(asked, 1 - asked) if 0 <= asked <= 1 else 1.0
    return out


def _occurrences(
    tree: Tree, kind: str, nodes: Ints, told: Ints, length: Ints, read: Ints, part: Iterable[float]
) -> Occurrences | None:
    if not len(nodes):
        return None
    inside = tree.launched_below(nodes)
    return Occurrences(
        kind=kind,
        node=told,
        begin=tree.host.start[nodes],
        end=tree.host.end[nodes],
        inside=inside,
        own=inside,
        ops=tree.ops_below(nodes) if tree.context.cpu_program else NOTHING,
        figures={
            "repeats": read,
            "length": length,
            "part": np.rint(np.array(list(part)) * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
    )


def _sorts(tree: Tree) -> Ints:
    """Sorts that are inside no other, outside the backward pass."""
    host, codes = tree.host, tree.codes_of(lambda name: _SORT.match(name) is not None)
    nodes = tree.ops(codes)
    nodes = nodes[host.attributes.phase[nodes] != BACKWARD]
    outermost: Ints = nodes[~tree.under(nodes, codes)]
    return outermost


def _within(tree: Tree, nodes: Ints) -> Bools:
    """Flag what another operator of torch's calls."""
    found: Bools = tree.under(nodes, tree.codes_of(lambda name: name.startswith("aten::")))
    return found


def _sorted(tree: Tree, dims: int, concrete: int, name: int) -> tuple[Shape, int] | None:
    """The shape that a sort takes, and the dimension that it sorts; None where unknown, or short."""
    operands, texts = tree.shapes.operands(dims), tree.texts(concrete)
    shape = operands[0] if operands else ()
    if not shape or texts is None:
        return None
    if tree.context.names[name] == "aten::msort":
        dim: int | None = 0
    else:
        dim = _number(texts, 2 if len(texts) > 3 else 1)
    if dim is None or not -len(shape) <= dim < len(shape) or shape[dim] < _LEAST:
        return None
    return shape, dim % len(shape)


def _number(texts: list[str], place: int) -> int | None:
    try:
        return int(texts[place]) if len(texts[place]) < 21 else None
    except (IndexError, ValueError):
        return None


def _behind(tree: Tree, nodes: Ints) -> tuple[Ints, Ints]:
    """Operators that Python calls behind each sort, up to the next sort of the same operands (included): row and node."""
    host, dims = tree.host, tree.dims(nodes)
    low = tree.after(nodes)
    high = np.minimum(low + _NODES, host.size)
    order = np.lexsort((nodes, dims))
    same = dims[order][1:] == dims[order][:-1]
    following = order[:-1][same]
    high[following] = np.minimum(high[following], nodes[order[1:][same]] + 1)
    pairs = spread(low, high)
    pairs = pairs.where((host.group[pairs.index] == OP) & (host.thread[pairs.index] == host.thread[nodes][pairs.row]))
    pairs = pairs.where(host.attributes.phase[pairs.index] != BACKWARD)
    pairs = pairs.where(~_within(tree, pairs.index))
    count = summed(pairs.row, 1, len(nodes))
    place = np.arange(len(pairs.row)) - np.repeat(np.cumsum(count) - count, count)
    pairs = pairs.where(place < _OPERATORS)
    return pairs.row, pairs.index


def _uses(tree: Tree, kind: Ints, sorted_: list[tuple[Shape, int]], nodes: Ints) -> tuple[Ints, Ints]:
    """Tell for each operator its use of the result of a sort of that kind, and the places of it that it takes."""
    columns = [tree.context.op_column(nodes, name) for name in ("dims", "types", "concrete")]
    keys = np.stack([kind, tree.host.name[nodes], *columns], axis=1)
    distinct, of = np.unique(keys, axis=0, return_inverse=True)
    found = np.array([_use(tree, *sorted_[key[0]], *key[1:]) for key in distinct.tolist()], np.int64).reshape(-1, 2)
    return found[of.ravel(), 0], found[of.ravel(), 1]


def _use(tree: Tree, shape: Shape, dim: int, name: int, dims: int, types: int, concrete: int) -> tuple[int, int]:
    operator, operands = tree.context.names[name], tree.shapes.operands(dims)
    if shape not in operands:
        return NONE, 0
    words = tree.words(types)
    if operator in _PLACES and operands[0] == shape and words:
        taken = _taken(operator, shape, dim, tree.texts(concrete))
        if taken is None:
            return NONE, 0
        return (OF_INDICES if words[0] == _INDICES else OF_VALUES), taken
    if operator in _HANDED_ON or (is_view(operator) and "split" not in operator and "chunk" not in operator):
        return NONE, 0
    if words is None or len(words) != len(operands) or _UNKNOWN in words:
        return INDICES, 0
    whole = {word for one, word in zip(operands, words, strict=True) if one == shape}
    return (INDICES if _INDICES in whole else VALUES), 0


def _taken(operator: str, shape: Shape, dim: int, texts: list[str] | None) -> int | None:
    """Places along the sorted dimension up to the last that is taken, from the nearer end; None where it cuts another one."""
    along = _number(texts, 1) if texts else None
    if texts is None or along is None or along % len(shape) != dim:
        return None
    length = shape[dim]
    first = _number(texts, 2)
    first = 0 if first is None else first + length if first < 0 else first
    if operator == "aten::select":
        last = first + 1
    elif operator == "aten::narrow":
        last = first + (_number(texts, 3) or length)
    else:
        end = _number(texts, 3)
        last = length if end is None else end + length if end < 0 else min(end, length)
        if (_number(texts, 4) or 1) != 1:
            return _MANY
    first = max(first, 0)
    if first == 0 and last >= length:
        return None
    nearer = max(min(last, length - first), 0)
    return _MIDDLE if operator == "aten::select" and _WIDEST * nearer > length else nearer
