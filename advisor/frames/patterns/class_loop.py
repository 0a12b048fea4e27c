"""Loops over classes that pass over a whole tensor in each turn: it is compared with one label, bin or threshold after the other.

``for c in range(n): hit = ((pred == c) & (target == c)).sum()`` reads all labels n times, and writes as many masks. A confusion
matrix, sums and means by group, and histograms touch each element once: bincount, index_add_, bucketize.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import keys, leading
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.intervals import Ints
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import is_view, moves_no_data

_COMPARES = frozenset(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
_EQUAL = frozenset({"aten::eq", "aten::ne"})
_REDUCES = re.compile(
    r"^aten::(?:(?:nan)?sum|(?:nan)?mean|any|all|count_nonzero|amax|amin|max|min|std|var|prod|dot|norm|linalg_vector_norm"
    r"|logsumexp)$"
)
_SELECTS = re.compile(r"^aten::(?:index|masked_select|nonzero|argwhere|_?index_put(?:_impl)?_?)$")
_FILLS = re.compile(r"^aten::(?:masked_fill_?|where)$")
"""What writes by a mask: a lookup where the mask is of a class, the end of a sequence where it is of an order."""
_ARITHMETIC = re.compile(
    r"^aten::(?:add|sub|rsub|mul|div|true_divide|pow|square|sqrt|abs|neg|exp|log|log1p|sigmoid|tanh|clamp|clamp_min|clamp_max|clip"
    r"|maximum|minimum|remainder|floor_divide|reciprocal)_?$"
)
_BESIDE = re.compile(
    r"^aten::(?:eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|__\w+__|to|_to_copy|copy_|clone|contiguous|float|zeros|zeros_like|ones"
    r"|ones_like|full|full_like|new_\w+|fill_|zero_|stack|cat|item|is_nonzero|isnan|isfinite|nan_to_num|argmax|index_select|tensor|lift_fresh"
    r"|type_as)$"
)
"""What else a turn holds that is gone, or stands once, where all classes are counted at once."""
_OWN_WORK = re.compile(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|mv|einsum|_?conv\w*|embedding\w*|lstm|gru|rnn_\w+|\w+_cell|(?:native_)?\w+_norm"
    r"|scaled_dot_product_attention|\w*_loss\w*|binary_cross_entropy\w*|rand\w*|normal_?|multinomial|bernoulli_?|dropout"
    r"|\w+_dropout|sort|argsort|topk|median|quantile|nanmedian|unique\w*|_unique2?|cdist|linalg_(?!vector_norm)\w+|cholesky\w*|svd)$"
    r"|^torchvision::|^triton_|^Torch-Compiled|Function$"
)
"""What a turn does for its class alone: layers, losses, draws, orders. The classes are then no matter of one call."""
_WRITES = re.compile(r"^aten::(?:_?index_put_?|masked_fill_|copy_|scatter_|masked_scatter_)$")
LEAST = 6
"""Classes from which on a loop is one: a few thresholds are written out by hand."""
_SMALLEST = 64
"""Elements of the tensor that is compared: fewer are numbers of a model, no labels."""
_GAP = 60
"""Operators of a turn at most."""
_FOREIGN = 0.1
_USED = 0.5
_MOST = 500_000
_CALLS, _CALL, _COUNT, _SUM, _GATHER, _PASS = 8, 6_000.0, 4.0, 1.0, 1.0, 0.3
"""Operators of the call for all classes, and ns of each; ns an element of a count by label, a number of a sum by group, of its
gradient, and of a pass over what is picked apart."""
_GPU_CALL, _GPU_BYTE = 10_000.0, 1 / 400


@dataclass(eq=False)
class _Compared:
    """Comparisons of large tensors with one number, in order: place among the items, group, elements, code of the number (-1:
    of a tensor), the number."""

    at: Ints
    group: Ints
    size: Ints
    code: Ints
    value: list[float]

    def where(self, chosen: Ints) -> _Compared:
        """Some of them."""
        value = [self.value[one] for one in chosen.tolist()]
        return _Compared(self.at[chosen], self.group[chosen], self.size[chosen], self.code[chosen], value)


@dataclass(eq=False)
class _Loop:
    """A loop: its first item and the one behind its last, its comparisons, classes and rounds, and elements that are compared."""

    low: int
    high: int
    told: int
    classes: int
    rounds: int
    size: int
    kept: Ints
    fix: float = 0.0


class _Items:
    """Operators that Python calls outside of the backward pass, in order, and what a turn's are."""

    def __init__(self, tree: Tree) -> None:
        host = tree.host
        outer = tree.outermost
        self.tree = tree
        self.nodes: Ints = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
        self.name: Ints = host.name[self.nodes]
        self.took: Ints = host.end[self.nodes] - host.start[self.nodes]
        self.silent = tree.codes_of(moves_no_data)
        self.compares = tree.codes_of(_COMPARES.__contains__)
        self.reduces, self.selects, self.fills, self.own, self.writes, self.arithmetic, self.beside = (
            tree.codes_of(lambda name, form=form: form.search(name) is not None)  # type: ignore[misc]
            for form in (_REDUCES, _SELECTS, _FILLS, _OWN_WORK, _WRITES, _ARITHMETIC, _BESIDE)
        )

    def shapes(self, at: int) -> list[tuple[int, ...]]:
        """Shapes of an item's tensors."""
        code = int(self.tree.dims(self.nodes[at : at + 1])[0])
        return [shape for shape in self.tree.shapes.operands(code) if shape]

    def type(self, at: int) -> str:
        """Type of an item's first operand."""
        code = int(self.tree.context.op_column(self.nodes[at : at + 1], "types")[0])
        return (self.tree.words(code) or [""])[0]

    def before(self, at: int) -> int:
        """The item before one that is no view, and no question; -1 for none."""
        for back in range(at - 1, max(at - 9, -1), -1):
            if not self.silent[self.name[back]]:
                return back
        return -1


def class_loops(tree: Tree) -> Occurrences | None:
    """One row per loop in which a tensor is compared with six numbers or more, one a turn, and the mask is reduced, or selects.

    ``repeats`` are its classes (pairs of them in a confusion matrix), ``length`` the elements that are compared, and ``part`` is
    what is spared of its time where each element is counted, or added, once.
    """
    items = _Items(tree)
    if not items.compares.any():
        return None
    loops = [loop for low, high, compared in _hulls(items) if (loop := _loop(items, low, high, compared)) is not None]
    if not loops:
        return None
    host, count = tree.host, len(loops)
    own = np.full(host.size, -1, np.int64)
    for row, loop in enumerate(loops):
        own[items.nodes[loop.kept]] = row
    of = host.with_backward(own)
    rows = of[tree.context.op_rows]
    time, inside, ops, python = _owned(tree, of, rows, count)
    late = np.bincount(rows[(rows >= 0) & (tree.context.phases(tree.context.op_rows) == BACKWARD)], minlength=count) > 0
    fix = np.array([_fix(items, loop, bool(one)) for loop, one in zip(loops, late, strict=True)], np.float64)
    part = np.maximum(1 - fix / np.maximum(time, 1), 0)
    first = items.nodes[[loop.told for loop in loops]]
    return Occurrences(
        kind="class-loop",
        node=first,
        begin=host.start[items.nodes[[loop.low for loop in loops]]],
        end=host.end[items.nodes[[loop.high - 1 for loop in loops]]],
        inside=inside,
        own=inside,
        idle=True,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([loop.classes for loop in loops], np.int64),
            "length": np.array([loop.size for loop in loops], np.int64),
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(first),
        },
        details=[_spell(items, loop) for loop in loops],
    )


def _owned(tree: Tree, of: Ints, rows: Ints, count: int) -> tuple[Ints, Pairs, Pairs, Pairs]:
    """ns that each loop takes, its GPU work, its rows of `ops` on the CPU, and the Python that leads to these."""
    context = tree.context
    if context.cpu_program:
        index = np.flatnonzero(rows >= 0)
        order = np.argsort(rows[index], kind="stable")
        ops = Pairs(rows[index][order], index[order])
        python = leading(tree, ops)
        cost = context.ledger.cost(len(context.op_rows), "compute", "communication")
        return ops.total(cost, count) + python.total(context.ledger.dur_ns, count), NOTHING, ops, python
    launch = tree.work.launch
    index = np.flatnonzero(launch >= 0)
    index = index[of[launch[index]] >= 0]
    inside = Pairs(of[launch[index]], index).each_once()
    gpu = inside.total(tree.work.end - tree.work.start, count)
    hosts = np.zeros(count, np.int64)
    nodes = np.flatnonzero((of >= 0) & np.isin(np.arange(len(of)), tree.outermost))
    np.add.at(hosts, of[nodes], (tree.host.end - tree.host.start)[nodes])
    return np.maximum(gpu, hosts), inside, NOTHING, NOTHING


def _compared(items: _Items) -> _Compared | None:
    """All comparisons of a large tensor with one number."""
    tree, host = items.tree, items.tree.host
    at = np.flatnonzero(items.compares[items.name])
    if not LEAST <= len(at) <= _MOST:
        return None
    nodes = items.nodes[at]
    kinds, of = keys(tree, nodes, "dims", "types", "concrete")
    facts = [_fact(tree, dims, types, concrete) for _, dims, types, concrete in kinds]
    size = np.array([size for size, _ in facts], np.int64)[of]
    known = np.array([value is not None for _, value in facts], np.bool_)[of]
    texts = np.array([concrete for *_, concrete in kinds], np.int64)[of]
    step = tree.context.recording.host_step_of(host.start[nodes])
    columns = [step, host.thread[nodes], host.attributes.user[nodes], host.name[nodes]]
    columns += [tree.context.op_column(nodes, column) for column in ("dims", "types")]
    _, group = np.unique(np.stack([column.astype(np.int64) for column in columns], axis=1), axis=0, return_inverse=True)
    kept = np.flatnonzero(size >= _SMALLEST)
    value = [facts[one][1] or 0.0 for one in of.tolist()]
    return _Compared(at, group.ravel(), size, np.where(known, texts, -1), value).where(kept)


def _fact(tree: Tree, dims: int, types: int, concrete: int) -> tuple[int, float | None]:
    """Elements of what is compared with one number, -1 for other comparisons; and the number, None where it is a tensor's."""
    operands, words = tree.shapes.operands(dims), tree.words(types)
    if len(operands) < 2 or not words or len(words) < 2 or size_of(operands[1]) not in (-1, 1):
        return -1, None
    texts = tree.texts(concrete)
    if words[1] != "Scalar" or texts is None or len(texts) < 2:
        return size_of(operands[0]), None
    try:
        return size_of(operands[0]), float({"True": "1", "False": "0"}.get(texts[1], texts[1]))
    except ValueError:
        return -1, None


def _hulls(items: _Items) -> list[tuple[int, int, _Compared]]:
    """Ranges of items from the first to the last comparison of a run with enough numbers, and all comparisons in each."""
    compared = _compared(items)
    if compared is None or not len(compared.at):
        return []
    order = np.lexsort((compared.at, compared.group))
    at, group, code = compared.at[order], compared.group[order], compared.code[order]
    edges = np.flatnonzero((np.diff(group) != 0) | (np.diff(at) > _GAP)) + 1
    ranges: list[tuple[int, int]] = []
    for low, high in zip(np.append(0, edges).tolist(), np.append(edges, len(at)).tolist(), strict=True):
        if high - low < LEAST:
            continue
        told = code[low:high]
        if len(np.unique(told)) >= LEAST or (told[0] < 0 and _taken_apart(items, at[low:high])):
            ranges.append((int(at[low]), int(at[high - 1])))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    found = []
    for first, last in merged:
        low, high = np.searchsorted(compared.at, [first, last + 1])
        found.append((first, last, compared.where(np.arange(low, high))))
    return found


def _taken_apart(items: _Items, at: Ints) -> bool:
    """Tell whether the tensors that a run compares with are the numbers of one of its own: taken apart before, or picked in turn.

    A pick of what is compared itself (labels == labels[i]) is a loop over samples.
    """
    names, whole = items.tree.context.names, items.shapes(int(at[0]))[:1]
    low = max(int(at[0]) - 12, 0)
    for place in range(low, int(at[1])):
        name, shapes = names[items.name[place]], items.shapes(place)
        if name == "aten::unbind" and shapes and len(shapes[0]) == 1 and shapes[0][0] >= LEAST:
            return place < at[0]
        if name == "aten::select" and place > at[0] - 4 and shapes and len(shapes[0]) == 1:
            return shapes[:1] != whole
    return False


def _loop(items: _Items, first: int, last: int, compared: _Compared) -> _Loop | None:
    """Return the loop around some comparisons; None where its turns do other work, or do not count or select by their masks."""
    main = max(Counter(compared.group.tolist()).items(), key=lambda pair: pair[1])[0]
    chosen = np.flatnonzero(compared.group == main)
    at = compared.at[chosen]
    size = int(compared.size[chosen[0]])
    steps = np.diff(at)
    width = next((wide for wide in (1, 2, 3, 4) if _periodic(steps, wide)), 1)
    low, high = _edges(items, first, last, at, width)
    name = items.name[low:high]
    used, owned = items.reduces | items.selects | items.fills, items.arithmetic | items.beside | items.compares | items.silent
    if items.own[name].any():
        return None
    foreign = ~(used | owned)[name]
    took = items.took[low:high]
    if took[foreign].sum() > _FOREIGN * took.sum():
        return None
    turns = len(at) // width
    if _uses(items, low, high, compared) < _USED * turns:
        return None
    classes, values = _classes(compared, chosen, width)
    if compared.code[chosen[0]] < 0:
        classes = turns
    rounds = max(round(turns / classes), 1)
    if _searches(values, rounds) or _changes(items, at, size) or _grows(items, low, high, compared):
        return None
    kept = low + np.flatnonzero(~foreign)
    return _Loop(low, high, int(at[0]), classes, rounds, size, kept)


def _periodic(steps: Ints, wide: int) -> bool:
    """Tell whether the steps from comparison to comparison repeat after so many."""
    return len(steps) > wide and float((steps[wide:] == steps[:-wide]).mean()) >= 0.8


def _edges(items: _Items, first: int, last: int, at: Ints, width: int) -> tuple[int, int]:
    """The items of the loop: with those of the first turn before its comparison, and those of the last turn behind it."""
    name = items.name
    turn = int(at[width] - at[0]) if len(at) > width else 1
    low = first
    while low > 0 and first - low < turn - 1 and name[low - 1] == name[low - 1 + turn] and low - 1 + turn < len(name):
        low -= 1
    turn = int(at[-1] - at[-1 - width]) if len(at) > width else 1
    high, most = last + 1, last + turn - (first - low)
    while high < min(most, len(name)) and name[high] == name[high - turn]:
        high += 1
    return low, high


def _uses(items: _Items, low: int, high: int, compared: _Compared) -> int:
    """Items that reduce a tensor at least as large as those compared, or select by its mask."""
    least = int(compared.size.min())
    flags = items.reduces | items.selects
    if all(name in _EQUAL for name in {items.tree.context.names[code] for code in items.name[compared.at].tolist()}):
        flags = flags | items.fills
    places = low + np.flatnonzero(flags[items.name[low:high]])
    kinds, of = keys(items.tree, items.nodes[places], "dims")
    large = [max(map(size_of, items.tree.shapes.operands(dims)), default=-1) >= least for _, dims in kinds]
    return int(np.array(large, np.bool_)[of].sum()) if len(places) else 0


def _classes(compared: _Compared, chosen: Ints, width: int) -> tuple[int, list[float]]:
    """Number of different turns, told by the numbers that they compare with; and those of the main comparison in order."""
    latest: dict[int, int] = {}
    main = int(compared.group[chosen[0]])
    seen: set[tuple[int, ...]] = set()
    own: list[int] = []
    for group, code in zip(compared.group.tolist(), compared.code.tolist(), strict=True):
        if group == main:
            own.append(code)
            if len(own) == width:
                seen.add((*own, *(code for _, code in sorted(latest.items()))))
                own = []
        else:
            latest[group] = code
    return max(len(seen), 1), [compared.value[one] for one in chosen.tolist()]


def _searches(values: list[float], rounds: int) -> bool:
    """Tell whether thresholds go up and down as in a search for one: each turn then needs what the one before it found."""
    if all(value.is_integer() for value in values):
        return False
    steps = np.diff(np.array(values))
    steps = np.sign(steps[steps != 0])
    return int((np.diff(steps) != 0).sum()) > 2 * rounds


def _changes(items: _Items, at: Ints, size: int) -> bool:
    """Tell whether what is compared is computed anew in each turn: another tensor every time."""
    anew = 0
    for place in at.tolist():
        before = items.before(place)
        if before >= 0 and items.arithmetic[items.name[before]]:
            made = max(map(size_of, items.shapes(before)), default=-1)
            anew += made == size and items.type(before) == items.type(place)
    return 2 * anew > len(at)


def _grows(items: _Items, low: int, high: int, compared: _Compared) -> bool:
    """Tell whether turns write into a tensor like the compared one by another mask, as a search from node to node does."""
    places = low + np.flatnonzero(items.writes[items.name[low:high]])
    kinds = {(tuple(items.shapes(one)[:1]), items.type(one)) for one in compared.at[:1].tolist()}
    masks = set(compared.at.tolist())
    others = 0
    for place in places[:_GAP].tolist():
        like = (tuple(items.shapes(place)[:1]), items.type(place)) in kinds
        others += like and items.before(place) not in masks
    return others > 1


def _fix(items: _Items, loop: _Loop, trains: bool) -> float:
    """ns of counting, or adding up, each element once for all classes."""
    summed, picked = _numbers(items, loop)
    if not items.tree.context.cpu_program:
        return _CALLS * _GPU_CALL * (1 + trains) + _GPU_BYTE * 8 * loop.rounds * (3 * loop.size + 3 * summed + picked)
    return (
        _CALLS * _CALL * (1 + trains)
        + loop.rounds * (_COUNT * loop.size + (_SUM + trains * _GATHER) * summed)
        + _PASS * picked
    )


def _numbers(items: _Items, loop: _Loop) -> tuple[int, int]:
    """Numbers that turns add up by their masks, and those of tensors of which each turn picks a part of its own."""
    names, kept = items.tree.context.names, loop.kept
    kinds, _ = keys(items.tree, items.nodes[kept], "dims")
    summed = picked = 0
    for code, dims in kinds:
        name = names[code]
        sizes = [size_of(shape) for shape in items.tree.shapes.operands(dims)]
        most = max(sizes, default=-1)
        if name in ("aten::select", "aten::slice", "aten::narrow") and most >= 2 * loop.size:
            picked += most
        elif most >= loop.size and name in ("aten::index", "aten::masked_select", "aten::mul", "aten::where"):
            summed = max(summed, most)
    return summed, picked


def _spell(items: _Items, loop: _Loop) -> str:
    """The operators of a turn."""
    last = loop.high - max((loop.high - loop.low) // max(loop.classes * loop.rounds, 1), 1)
    chosen = [
        name.removeprefix("aten::")
        for name in (items.tree.context.names[code] for code in items.name[last : loop.high].tolist())
        if not is_view(name)
    ]
    return ", ".join(chosen[:8]) + (", …" if len(chosen) > 8 else "")


