"""Buffers that are written anew as a whole in order to add a few rows: a concatenation of almost all of one with some new rows."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.generation import Operands, copied_cache, growing, reordered
from advisor.frames.patterns.operands import forward, keys, numbers
from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, size_of, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, distinct
from advisor.timeline.calls import OP
from advisor.timeline.memory import instants, lifetimes

_KEPT = 8
"""The rows kept are so many times the new ones, at least."""
_LEAST = 1 << 14
_NEAR = 12
"""Nodes before or behind a concatenation in which the buffer is cut to its length."""
_TURNS = 3
_GROWN = 5
_MOST = 20_000
_GPU_CALLS = 10_000.0
"""ns on a GPU of the few kernels that find places in a ring and write to them."""
_Fact = tuple[Shape, int, int, int] | None
SHIFTED, GROWN = "shifted", "grown"


def shifted_buffers(tree: Tree) -> Occurrences | None:
    """One row per concatenation of most of a buffer with a few rows, to be that buffer from then on.

    Shifted: a slice that drops as many rows as are put to it, so that the length stays, three times or more. Grown: each time
    longer by what is put behind it, five times or more, in the same order; in inference the caches of keys and values are another
    kind of pattern, and on a GPU always.
    ``length`` are the rows that are new, ``repeats`` those of the buffer; ``part`` is all of it but, on a GPU, the kernels that
    write the new rows by their places.
    """
    nodes = forward(tree, ["aten::cat"])
    if not 0 < len(nodes) <= _MOST:
        return None
    shifted, kept, new = _shifted(tree, nodes)
    place, length, step = growing(tree, nodes, _rows_behind, _GROWN)
    place, length, step = place[length >= _KEPT * step], length[length >= _KEPT * step], step[length >= _KEPT * step]
    fresh = ~np.isin(nodes[place], shifted) & ~reordered(tree, nodes[place])
    if fresh.any() and not tree.context.cpu_program and (cache := copied_cache(tree)) is not None:
        fresh &= ~np.isin(nodes[place], cache.node)
    told = np.concatenate([shifted, nodes[place][fresh]])
    if not len(told):
        return None
    work = NOTHING if tree.context.cpu_program else tree.launched_below(told)
    taken = work.total(tree.work.end - tree.work.start, len(told))
    part = np.ones(len(told)) if tree.context.cpu_program else np.maximum(1 - _GPU_CALLS / np.maximum(taken, 1), 0)
    return Occurrences(
        kind="copied-buffer",
        node=told,
        begin=tree.host.start[told],
        end=tree.host.end[told],
        inside=work,
        own=work,
        ops=tree.ops_below(told) if tree.context.cpu_program else NOTHING,
        figures={
            "repeats": np.concatenate([kept, length[fresh]]),
            "length": np.concatenate([new, step[fresh]]),
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(told),
        },
        details=[SHIFTED] * len(shifted) + [GROWN] * int(fresh.sum()),
    )


def _rows_behind(name: str, operands: Operands) -> tuple[object, int, int] | None:
    """Key, length and new rows of a concatenation of something long with something short; None for others and for small ones."""
    shapes = [shape for shape in operands if shape]
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]) or size_of(shapes[0]) < _LEAST:
        return None
    differ = [at for at, (one, other) in enumerate(zip(*shapes, strict=True)) if one != other]
    if len(differ) != 1 or not 0 < shapes[1][differ[0]] < shapes[0][differ[0]]:
        return None
    at = differ[0]
    return (name, at, shapes[0][:at], shapes[0][at + 1 :]), shapes[0][at], shapes[1][at]


def _shifted(tree: Tree, nodes: Ints) -> tuple[Ints, Ints, Ints]:
    """Concatenations that keep a buffer's length, with the rows that are kept and new: each lives until the next is made."""
    found, of = keys(tree, nodes, "dims", "concrete")
    facts = [_buffer(tree.shapes.operands(dims), numbers(tree.texts(value), 1)) for _, dims, value in found]
    known = np.array([fact is not None for fact in facts], np.bool_)[of]
    nodes, of = nodes[known], of[known]
    told = [facts[one] for one in of.tolist()]
    sliced = np.union1d(_sliced(tree, nodes, told, before=True), _sliced(tree, nodes, told, before=False))
    nodes, of = nodes[sliced], of[sliced]
    kept = np.zeros(len(nodes), np.bool_)
    for one in distinct(of).tolist():
        mine = np.flatnonzero(of == one)
        mine = mine[np.argsort(tree.host.start[nodes[mine]], kind="stable")]
        if len(mine) >= _TURNS and _lasts(tree, nodes[mine]):
            kept[mine] = True
    nodes, of = nodes[kept], of[kept]
    rows = np.array([[fact[2], fact[3]] if fact else [0, 0] for fact in facts], np.int64).reshape(-1, 2)[of]
    return nodes, rows[:, 0], rows[:, 1]


def _buffer(operands: Operands, dim: Shape | None) -> tuple[Shape, int, int, int] | None:
    """Shape of a buffer, dimension, rows kept and rows that are new, of a concatenation of two; None for others."""
    shapes = [shape for shape in operands if shape]
    if (
        len(shapes) != 2
        or not dim
        or len(shapes[0]) != len(shapes[1])
        or not -len(shapes[0]) <= dim[0] < len(shapes[0])
    ):
        return None
    at = dim[0] % len(shapes[0])
    long, short = max(shapes[0][at], shapes[1][at]), min(shapes[0][at], shapes[1][at])
    whole = (*shapes[0][:at], long + short, *shapes[0][at + 1 :])
    if short < 1 or long < _KEPT * short or size_of(whole) < _LEAST:
        return None
    return whole, at, long, short


def _sliced(tree: Tree, nodes: Ints, facts: list[_Fact], *, before: bool) -> Ints:
    """Places of nodes before or behind which a slice drops as many rows as the node puts to it, of the result's shape."""
    host, slices = tree.host, tree.codes_of(frozenset({"aten::slice", "aten::narrow"}).__contains__)
    behind = tree.after(nodes)
    pairs = (
        spread(np.maximum(nodes - _NEAR, 0), nodes) if before else spread(behind, np.minimum(behind + _NEAR, host.size))
    )
    pairs = pairs.where((host.group[pairs.index] == OP) & slices[host.name[pairs.index]])
    pairs = pairs.where(host.thread[pairs.index] == host.thread[nodes][pairs.row])
    dims, concrete = tree.dims(pairs.index), tree.context.op_column(pairs.index, "concrete")
    known: dict[tuple[object, int, int], bool] = {}
    hit = np.zeros(len(nodes), np.bool_)
    for row, code, value in zip(pairs.row.tolist(), dims.tolist(), concrete.tolist(), strict=True):
        fact = facts[row]
        key = (fact, code, value)
        if key not in known:
            known[key] = fact is not None and _drops(tree, fact, code, value)
        hit[row] |= known[key]
    return np.flatnonzero(hit)


def _drops(tree: Tree, fact: tuple[Shape, int, int, int], dims: int, concrete: int) -> bool:
    shape, at, _, new = fact
    operands, texts = tree.shapes.operands(dims), tree.texts(concrete)
    if not operands or operands[0] != shape:
        return False
    dim, first, last = (numbers(texts, place) for place in (1, 2, 3))
    if not dim or dim[0] % len(shape) != at:
        return False
    begin, end = (first or (0,))[0], (last or (shape[at],))[0]
    return begin in (new, new - shape[at]) or end in (-new, shape[at] - new)


def _lasts(tree: Tree, nodes: Ints) -> bool:
    """Tell whether each result lives until the next is made, as a buffer does; no where memory was not recorded."""
    context, host = tree.context, tree.host
    events, lives = context.once(instants), context.once(lifetimes)
    made = np.flatnonzero(events["bytes"] > 0)
    made = made[np.argsort(events["start_ns"][made], kind="stable")]
    when = events["start_ns"][made]
    first = np.searchsorted(when, host.start[nodes])
    last = np.searchsorted(when, host.end[nodes], side="right")
    alive = []
    for low, high, until in zip(first[:-1].tolist(), last[:-1].tolist(), host.end[nodes[1:]].tolist(), strict=True):
        inside = made[low:high]
        if not len(inside):
            return False
        largest = inside[np.argmax(events["bytes"][inside])]
        freed = int(lives["freed_ns"][largest])
        alive.append(freed < 0 or freed >= until)
    return bool(alive) and all(alive)
