"""Half shifts beside Fourier transforms: ``fftshift(fft2(ifftshift(x)))`` passes over the array for each dimension, twice.

A shift only says in which order numbers are stored. An operator that treats each number alike, or by a mask, a filter or a weight
of its place, gives the same numbers in the transform's own order, once mask, filter and data are stored in it. And a shift on one
side of a transform is a factor on the other: of even sizes a sign, +1 and -1 in turn, of odd ones a phase. So a centred
transform of data that were multiplied by it once needs no shift at all where one of its two sides is of that kind; else a factor
each way remains, a pass each in place of one for each dimension.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import around, owned
from advisor.frames.patterns.transforms import CONJUGATES, Item, Shift, lines
from advisor.frames.patterns.tree import Occurrences, Tree, size_of
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.roofline import pointwise

_FILTERS = regex(r"^aten::(?:mul|multiply|div|divide|true_divide)_?$|^aten::(?:clone|copy_|_to_copy)$")
"""Operators that give a tensor a window or a scale, or copy it. A sum may be another tensor's."""
_ALIKE = regex(
    rf"^(?:{'|'.join(map(re.escape, pointwise.FORMULAS))})$"
    r"|^aten::(?:_?conj|clone|copy_|_to_copy|index|index_select|gather|take_along_dim|masked_select|masked_fill_?|_?index_put_?"
    r"|index_add_?|index_copy_?|masked_scatter_?|where|cat|concat|stack|repeat|repeat_interleave"
    r"|(?:empty|zeros|ones|full|rand|randn)(?:_like)?|zero_|fill_|new_\w+|arange|lift_fresh|tensor"
    r"|einsum|bmm|mm|mv|matmul|baddbmm|dot|vdot|inner|linalg_vecdot|_linalg_det|tensordot"
    r"|sum|mean|nansum|prod|amax|amin|max|min|std|var|var_mean|all|any|norm|linalg_(?:vector_)?norm|count_nonzero"
    r"|mse_loss|l1_loss|smooth_l1_loss|huber_loss|softmax|_softmax|log_softmax|sqrt_)$"
)
"""Operators that ask for no neighbours: pointwise ones, and what picks places, puts into them, reduces or multiplies over them."""
_ENGINE = regex(r"^autograd::engine::evaluate_function: RollBackward\d*$")
_REACH, _BETWEEN = 6, 200
AROUND, BETWEEN, BOTH = "around a transform", "between transforms", "before and behind a filter"


class _Beside(Struct, eq=False):
    """A transform's place among the items, and those of the shifts before and behind it."""

    at: int
    before: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)


class _Found(Struct, eq=False):
    """A shift that is needless, why, and the part of its time that goes."""

    item: Item
    shift: Shift
    detail: str
    part: float


def fft_shifts(tree: Tree) -> Occurrences | None:
    """One row per half shift (fftshift, ifftshift, roll, or two halves put together anew) that another order of the data spares.

    ``repeats`` are the dimensions that it shifts, each a pass, ``length`` the elements of the tensor, and ``part`` what goes of
    its time: all of it, but for shifts around a transform with operators that ask for neighbours on both sides.
    """
    found = [shift for items in lines(tree) for shift in _needless(items)]
    if not found:
        return None
    found.sort(key=lambda one: one.item.node)
    host = tree.host
    node = np.array([one.item.node for one in found], np.int64)
    own = np.full(host.size, -1, np.int64)
    for row, one in enumerate(found):
        own[list(one.item.nodes)] = row
    own[_sums(tree)] = len(found)
    of = host.with_backward(own)
    inside, ops, python = owned(tree, np.where(of < len(found), of, -1))
    return Occurrences(
        kind="fft-shift",
        node=node,
        begin=np.array([one.item.begin for one in found], np.int64),
        end=host.end[node],
        inside=inside,
        own=inside,
        idle=True,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([len(one.shift.dims) for one in found], np.int64),
            "length": np.array([size_of(one.shift.shape) for one in found], np.int64),
            "part": np.rint(np.array([one.part for one in found]) * MILLION).astype(np.int64),
            "dims": tree.dims(node),
        },
        details=[one.detail for one in found],
    )


def _sums(tree: Tree) -> Ints:
    """Sums of gradients that autograd makes in the nodes of rolls: of another use of the tensor, so they stay without the roll."""
    nodes = tree.ops(tree.codes_of({"aten::add", "aten::add_"}.__contains__))
    rolls = tree.codes_of(lambda name: _ENGINE.match(name) is not None)
    over = around(tree, nodes)
    kept: Ints = nodes[(over >= 0) & rolls[tree.host.name[over]]]
    return kept


def _needless(items: list[Item]) -> list[_Found]:
    """The shifts of one caller's items that need not be."""
    places = [at for at, item in enumerate(items) if item.transform]
    all_beside = [_beside(items, at) for at in places]
    found: dict[int, _Found] = {}

    def add(shifts: list[int], detail: str, part: float) -> None:
        for at in shifts:
            item = items[at]
            if item.shift and at not in found:
                found[at] = _Found(item, item.shift, detail, part)

    for number, one in enumerate(all_beside):
        if one.before and one.behind:
            low = places[number - 1] + 1 if number else 0
            high = places[number + 1] if number + 1 < len(places) else len(items)
            add(one.before + one.behind, AROUND, _goes(items, one, low, high))
    shifted = [one for one in all_beside if one.before or one.behind]
    for left, right in pairwise(shifted):
        if not left.before and not right.behind and _cancel(items, left, right, left.behind, right.before, _ALIKE):
            add(left.behind + right.before, BETWEEN, 1.0)
    for left, right in pairwise(shifted):
        if not left.behind and not right.before and _cancel(items, left, right, left.before, right.behind, _FILTERS):
            add(left.before + right.behind, BOTH, 1.0)
    return list(found.values())


def _beside(items: list[Item], at: int) -> _Beside:
    """The shifts next to a transform, on its input and on its output."""
    out, transform = _Beside(at), items[at].transform
    assert transform is not None
    for step, shape, shifts in ((-1, transform.before, out.before), (1, transform.after, out.behind)):
        place, carried, dims = at + step, 0, frozenset[int]()
        while 0 <= place < len(items) and carried <= _REACH:
            shift = items[place].shift
            if shift is not None and shift.suits(shape, transform.dims) and not shift.dims & dims:
                shifts.append(place)
                dims |= shift.dims
            elif items[place].name in CONJUGATES or _FILTERS.match(items[place].name):
                carried += 1
            else:
                break
            place += step
    return out


def _goes(items: list[Item], one: _Beside, low: int, high: int) -> float:
    """Part of the time of the shifts around a transform that goes: all where one of its sides asks for no neighbours."""
    if _alike(items, low, one.at, _ALIKE) or _alike(items, one.at + 1, high, _ALIKE):
        return 1.0
    return 1 - 2 / sum(len(_extent(items, side)[1]) for side in (one.before, one.behind))


def _cancel(
    items: list[Item], left: _Beside, right: _Beside, first: list[int], second: list[int], form: re.Pattern[str]
) -> bool:
    """Tell whether shifts beside two transforms undo each other: they are as large, and all operators between have such names."""
    if not first or not second or not _alike(items, left.at + 1, right.at, form):
        return False
    (one, sizes), (other, others) = (_extent(items, group) for group in (first, second))
    return sizes == others and (one == other or one == 2 * other or other == 2 * one)


def _extent(items: list[Item], group: list[int]) -> tuple[int, list[int]]:
    """Elements of the tensor that some shifts move, and the sizes that they run over."""
    shifts = [shift for at in group if (shift := items[at].shift) is not None]
    return size_of(shifts[0].shape), sorted(shift.shape[dim] for shift in shifts for dim in shift.dims)


def _alike(items: list[Item], low: int, high: int, form: re.Pattern[str]) -> bool:
    """Tell whether the items of a range, but shifts and transforms, have such names: they treat a number by its place at most."""
    return high - low <= _BETWEEN and all(
        item.shift is not None or item.transform is not None or form.match(item.name) is not None
        for item in items[low:high]
    )
