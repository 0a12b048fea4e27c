"""Loops over classes that pass over a whole tensor in each turn: it is compared with one label, bin or threshold after the other.

``for c in range(n): hit = ((pred == c) & (target == c)).sum()`` reads all labels n times, and writes as many masks. A confusion
matrix, sums and means by group, and histograms touch each element once: bincount, index_add_, bucketize.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.comparisons import Compared, Items, hulls
from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import keys, owned
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, size_of
from advisor.intervals import Ints
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view

_EQUAL = frozenset({"aten::eq", "aten::ne"})
_LOOKED = 200
"""Turns that are looked at closely, of very many."""
_OFTEN = 3
"""Part of the comparisons of a place, one in so many, from which on they are with one number for all classes."""
_LEADS = 12
"""Operators before a comparison that are looked at for what makes the tensor that it compares."""
_FOREIGN = 0.1
_USED = 0.5
_CALLS, _CALL = 8, 6_000.0
"""Operators of the calls for all classes, and ns of each."""
_COUNT, _PLACE, _HALVE = 8.0, 20.0, 7.0
"""ns an element of a count by label; of one by edges, and of each halving of the edges that it takes to find its bin."""
_SUM, _PASS = (2.0, 4.0), (0.3, 4.0)
"""ns a number of a sum by group, and of a pass over what turns pick apart: forward alone, and with its gradient."""
_GPU_CALL, _GPU_BYTE = 10_000.0, 1 / 400


class _Loop(Struct, eq=False):
    """A loop: its first item and the one behind its last, its first comparison, classes and rounds, the elements that are compared,
    whether with labels (else with edges), and the items that it owns."""

    low: int
    high: int
    told: int
    classes: int
    rounds: int
    size: int
    labels: bool
    kept: Ints


def class_loops(tree: Tree) -> Occurrences | None:
    """One row per loop in which a tensor is compared with six numbers or more, one a turn, and the mask is reduced, or selects.

    ``repeats`` are its classes (pairs of them in a confusion matrix), ``length`` the elements that are compared, and ``part`` is
    what is spared of its time where each element is counted, or added, once.
    """
    items = Items(tree)
    if not items.compares.any():
        return None
    loops = [loop for low, high, compared in hulls(items) if (loop := _loop(items, low, high, compared)) is not None]
    if not loops:
        return None
    host, count = tree.host, len(loops)
    own = np.full(host.size, -1, np.int64)
    for row, loop in enumerate(loops):
        own[items.nodes[loop.kept]] = row
    of = host.with_backward(own)
    rows = of[tree.context.op_rows]
    inside, ops, python = owned(tree, of)
    time = _time(tree, of, inside, ops, python, count)
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


def _time(tree: Tree, of: Ints, inside: Pairs, ops: Pairs, python: Pairs, count: int) -> Ints:
    """ns that each loop takes: on the CPU what it owns, on a GPU the longer of its work and of the calls that Python makes."""
    context = tree.context
    if context.cpu_program:
        cost = context.ledger.cost(len(context.op_rows), *OWNED)
        return ops.total(cost, count) + python.total(context.ledger.dur_ns, count)
    hosts = np.zeros(count, np.int64)
    nodes = np.flatnonzero((of >= 0) & np.isin(np.arange(len(of)), tree.outermost))
    np.add.at(hosts, of[nodes], (tree.host.end - tree.host.start)[nodes])
    return np.maximum(inside.total(tree.work.end - tree.work.start, count), hosts)


def _loop(items: Items, first: int, last: int, compared: Compared) -> _Loop | None:
    """Return the loop around some comparisons; None where its turns do other work, or do not count or select by their masks."""
    main = max(Counter(compared.group.tolist()).items(), key=lambda pair: pair[1])[0]
    chosen = np.flatnonzero(compared.group == main)
    at = compared.at[chosen]
    size = int(compared.size[chosen[0]])
    steps = np.diff(at)
    width = next((wide for wide in (1, 2, 3, 4) if _periodic(steps, wide)), 1)
    low, high = _edges(items, first, last, at, width)
    name = items.name[low:high]
    used, owned = (
        items.reduces | items.selects | items.fills,
        items.arithmetic | items.beside | items.compares | items.silent,
    )
    if items.own[name].any():
        return None
    foreign = ~(used | owned)[name]
    took = items.took[low:high]
    if took[foreign].sum() > _FOREIGN * took.sum():
        return None
    turns = len(at) // width
    if _uses(items, low, high, compared) < _USED * turns:
        return None
    rounds = _rounds(compared, chosen, width) if compared.code[chosen[0]] >= 0 else 1
    values = [compared.value[one] for one in chosen.tolist()]
    classes = max(round(turns / rounds), 1)
    if _searches(values, rounds) or _changes(items, at, size) or _grows(items, low, high, compared):
        return None
    kept = low + np.flatnonzero(~foreign)
    return _Loop(low, high, int(at[0]), classes, rounds, size, _labels(items, compared), kept)


def _periodic(steps: Ints, wide: int) -> bool:
    """Tell whether the steps from comparison to comparison repeat after so many."""
    return len(steps) > wide and float((steps[wide:] == steps[:-wide]).mean()) >= 0.8


def _edges(items: Items, first: int, last: int, at: Ints, width: int) -> tuple[int, int]:
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


def _uses(items: Items, low: int, high: int, compared: Compared) -> int:
    """Items that reduce a tensor at least as large as those compared, or select by its mask."""
    least = int(compared.size.min())
    flags = items.reduces | items.selects
    if _labels(items, compared):
        flags = flags | items.fills
    places = low + np.flatnonzero(flags[items.name[low:high]])
    kinds, of = keys(items.tree, items.nodes[places], "dims")
    large = [max(map(size_of, items.tree.shapes.operands(dims)), default=-1) >= least for _, dims in kinds]
    return int(np.array(large, np.bool_)[of].sum()) if len(places) else 0


def _labels(items: Items, compared: Compared) -> bool:
    """Tell whether all comparisons ask for the same number, none for larger or smaller ones."""
    return {items.tree.context.names[code] for code in set(items.name[compared.at].tolist())} <= _EQUAL


def _rounds(compared: Compared, chosen: Ints, width: int) -> int:
    """Rounds over the same classes: as many as there are of the turn that is most frequent, told by all its numbers."""
    latest: dict[int, int] = {}
    main = int(compared.group[chosen[0]])
    seen: Counter[tuple[int, ...]] = Counter()
    own: list[int] = []
    for group, code in zip(compared.group.tolist(), compared.code.tolist(), strict=True):
        if group != main:
            latest[group] = code
            continue
        own.append(code)
        if len(own) == width:
            seen[(*own, *(code for _, code in sorted(latest.items())))] += 1
            own = []
    return max(seen.values(), default=1)


def _searches(values: list[float], rounds: int) -> bool:
    """Tell whether thresholds go up and down as in a search for one: each turn then needs what the one before it found."""
    if all(value.is_integer() for value in values):
        return False
    steps = np.diff(np.array(values))
    steps = np.sign(steps[steps != 0])
    return int((np.diff(steps) != 0).sum()) > 2 * rounds


def _changes(items: Items, at: Ints, size: int) -> bool:
    """Tell whether what is compared is computed anew in each turn: another tensor every time."""
    at = at[:: len(at) // _LOOKED + 1]
    return 2 * sum(_is_new(items, place, size) for place in at.tolist()) > len(at)


def _is_new(items: Items, place: int, size: int) -> bool:
    """Tell whether arithmetic makes a tensor like the compared one, behind what the turn before did with its mask."""
    uses = items.reduces | items.selects | items.fills | items.compares
    before = items.before(place)
    for _ in range(_LEADS):
        if before < 0 or uses[items.name[before]]:
            return False
        if items.arithmetic[items.name[before]]:
            made = max(map(size_of, items.shapes(before)), default=-1)
            if made == size and items.type(before) == items.type(place):
                return True
        before = items.before(before)
    return False


def _grows(items: Items, low: int, high: int, compared: Compared) -> bool:
    """Tell whether turns write into a tensor like the compared one by another mask, as a search from node to node does."""
    places = low + np.flatnonzero(items.writes[items.name[low:high]])
    kinds = {(tuple(items.shapes(one)[:1]), items.type(one)) for one in compared.at[:1].tolist()}
    pairs = np.stack([compared.group, compared.code], axis=1)
    _, of, same = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    size = np.bincount(compared.group)[compared.group]
    changing = (_OFTEN * same[of.ravel()] <= size) | (compared.code < 0)
    masks = set(compared.at[changing].tolist())
    others = 0
    for place in places[:_LOOKED].tolist():
        like = (tuple(items.shapes(place)[:1]), items.type(place)) in kinds
        others += like and _mask_of(items, place) not in masks
    return others > 1


def _mask_of(items: Items, place: int) -> int:
    """The comparison whose mask an item writes by, alone or joined to another's; -1 for none."""
    before = items.before(place)
    while before >= 0 and items.joins[items.name[before]]:
        before = items.before(before)
    return before if before >= 0 and items.compares[items.name[before]] else -1


def _fix(items: Items, loop: _Loop, trains: bool) -> float:
    """ns of counting, or adding up, each element once for all classes."""
    summed, picked = _numbers(items, loop)
    if not items.tree.context.cpu_program:
        return _CALLS * _GPU_CALL * (1 + trains) + _GPU_BYTE * 8 * loop.rounds * (3 * loop.size + 3 * summed + picked)
    each = _COUNT if loop.labels else _PLACE + _HALVE * math.log2(loop.classes)
    calls = _CALLS * _CALL * (1 + trains)
    return calls + loop.rounds * (each * loop.size + _SUM[trains] * summed) + _PASS[trains] * picked


def _numbers(items: Items, loop: _Loop) -> tuple[int, int]:
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


def _spell(items: Items, loop: _Loop) -> str:
    """The operators of a turn."""
    last = loop.high - max((loop.high - loop.low) // max(loop.classes * loop.rounds, 1), 1)
    chosen = [
        name.removeprefix("aten::")
        for name in (items.tree.context.names[code] for code in items.name[last : loop.high].tolist())
        if not is_view(name)
    ]
    return ", ".join(chosen[:8]) + (", …" if len(chosen) > 8 else "")
