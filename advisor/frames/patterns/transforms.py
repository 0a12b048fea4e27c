"""Fourier transforms and half shifts (fftshift, ifftshift, roll) in the order in which they are called, and what lies between."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec import Struct

from advisor.frames.operator_parts import LONGEST_NS
from advisor.frames.patterns.operands import around, keys, numbers
from advisor.frames.patterns.tree import HIGHEST, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import OP, Host
from advisor.timeline.operator_names import moves_no_data

_TRANSFORM = regex(r"^aten::_fft_(?:c2c|r2c|c2r)$")
_FFT = "aten::fft_"
_ROLL = "aten::roll"
_JOINS = frozenset({"aten::cat", "aten::concat", "aten::concatenate"})
_CUTS = frozenset({"aten::narrow", "aten::slice"})
CONJUGATES = frozenset({"aten::conj", "aten::_conj"})
"""Views, but of other numbers: a product with it is a correlation, whose lag a shift before the transform does not move."""
_NEAR = 12
"""Views before a concatenation among which its two halves are cut."""
_MOST = 200_000
_Fact = tuple[Shape, frozenset[int]]


class Transform(Struct, eq=False):
    """A Fourier transform: shapes before and after it, and the dimensions that it runs over."""

    before: Shape
    after: Shape
    dims: frozenset[int]


class Shift(Struct, eq=False):
    """A shift by half of the size: the shape, and the dimensions that it runs over."""

    shape: Shape
    dims: frozenset[int]

    def suits(self, shape: Shape, dims: frozenset[int]) -> bool:
        """Tell whether it shifts a tensor of this shape (or its real view) over some of these dimensions.

        Views may lie between: of another order of dimensions the sizes tell it.
        """
        if self.shape in (shape, (*shape, 2)):
            return self.dims <= dims
        mine, sizes = size_of(self.shape), [shape[dim] for dim in dims]
        if mine not in (size_of(shape), 2 * size_of(shape)):
            return False
        for dim in self.dims:
            if self.shape[dim] not in sizes:
                return False
            sizes.remove(self.shape[dim])
        return True


class Item(Struct, eq=False):
    """An operator that reads or writes numbers, as its caller calls it.

    *nodes* are those that it consists of, and *begin* is the host time from which on Python leads to it.
    """

    node: int
    name: str
    nodes: tuple[int, ...]
    begin: int
    shift: Shift | None = None
    transform: Transform | None = None


def lines(tree: Tree) -> list[list[Item]]:
    """Items of one caller, thread, step and phase each, in their order, where there is a transform and a half shift."""
    host = tree.host
    transforms = _transforms(tree)
    shifts = _rolls(tree) if transforms else {}
    joins = tree.codes_of(_JOINS.__contains__)
    if not transforms or not (shifts or joins.any()):
        return []
    found: Ints = np.flatnonzero(host.group == OP)
    found = found[~tree.engine[found]]
    over = around(tree, found)
    kept = np.isin(over, distinct(around(tree, np.array(sorted(transforms), np.int64))))
    found, over = found[kept], over[kept]
    if len(found) > _MOST * 5:
        return []
    step = tree.context.recording.host_step_of(host.start[found])
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    columns = (over, host.thread[found], step, host.attributes.phase[found])
    for node, *key in zip(found.tolist(), *(column.tolist() for column in columns), strict=True):
        groups[tuple(key)].append(node)
    silent = tree.codes_of(moves_no_data)
    made = [
        _items(tree, sorted(nodes, key=host.start.__getitem__), silent, transforms, shifts) for nodes in groups.values()
    ]
    return [items for items in made if any(item.transform for item in items) and any(item.shift for item in items)]


def _items(
    tree: Tree, nodes: list[int], silent: Bools, transforms: dict[int, Transform], shifts: dict[int, Shift]
) -> list[Item]:
    """Items of one caller: views are none, and a concatenation of two swapped halves is a shift."""
    host, names, codes = tree.host, tree.context.names, tree.host.name
    items = []
    for at, node in enumerate(nodes):
        name = names[codes[node]]
        if name in _JOINS and (halves := _swapped(tree, nodes, at)) is not None:
            cuts, shift = halves
            first = nodes.index(cuts[0], max(at - _NEAR, 0))
            items.append(
                Item(node, name, (*cuts, node), _begin(host, nodes[first - 1] if first else -1, cuts[0]), shift)
            )
        elif not silent[codes[node]] or name in CONJUGATES:
            items.append(
                Item(
                    node,
                    name,
                    (node,),
                    _begin(host, nodes[at - 1] if at else -1, node),
                    shifts.get(node),
                    transforms.get(node),
                )
            )
    return items


def _begin(host: Host, before: int, node: int) -> int:
    """The end of the operator before, else the node's own start: where that is long ago, other work than Python may lie between."""
    start, end = int(host.start[node]), int(host.end[before]) if before >= 0 else -1
    return end if 0 <= start - end < LONGEST_NS else start


def _called(tree: Tree, nodes: Ints) -> Ints:
    """The operators by which Python called these: up through the functions of torch.fft."""
    functions = tree.codes_of(lambda name: name.startswith(_FFT))
    for _ in range(4):
        up = around(tree, nodes)
        nodes = np.where((up >= 0) & functions[tree.host.name[up]], up, nodes)
    return nodes


def _topmost(tree: Tree, codes: Bools) -> Ints:
    """Operators with these names and none of them around."""
    nodes = tree.ops(codes)
    nodes = nodes[:_MOST]
    flags = codes[tree.host.name] & (tree.host.group == OP)
    kept: Ints = nodes[tree.host.above(nodes, flags, HIGHEST) < 0]
    return kept


def _transforms(tree: Tree) -> dict[int, Transform]:
    """Transforms by the node of their call."""
    nodes = _topmost(tree, tree.codes_of(lambda name: _TRANSFORM.match(name) is not None))
    kinds, of = keys(tree, nodes, "dims", "concrete")
    facts = [
        _transform(tree.context.names[name], tree.shapes.operands(dims), tree.texts(told)) for name, dims, told in kinds
    ]
    calls = _called(tree, nodes) if len(nodes) else nodes
    pairs = zip(calls.tolist(), of.tolist(), strict=True)
    return {call: fact for call, one in pairs if (fact := facts[one]) is not None}


def _transform(name: str, operands: tuple[Shape, ...], texts: list[str] | None) -> Transform | None:
    shape, told = operands[0] if operands else (), numbers(texts, 1)
    if not shape or not told or not texts or any(not -len(shape) <= dim < len(shape) for dim in told):
        return None
    dims, after = [dim % len(shape) for dim in told], list(shape)
    if name.endswith("r2c") and len(texts) > 3 and texts[3] == "True":
        after[dims[-1]] = shape[dims[-1]] // 2 + 1
    elif name.endswith("c2r"):
        last = numbers(texts, 3)
        after[dims[-1]] = last[0] if last else 2 * (shape[dims[-1]] - 1)
    return Transform(shape, tuple(after), frozenset(dims))


def _rolls(tree: Tree) -> dict[int, Shift]:
    """Rolls by half of the size, by the node of their call."""
    nodes = _topmost(tree, tree.codes_of(_ROLL.__eq__))
    kinds, of = keys(tree, nodes, "dims", "concrete")
    facts = [_half(tree.shapes.operands(dims), tree.texts(told)) for _, dims, told in kinds]
    calls = _called(tree, nodes) if len(nodes) else nodes
    pairs = zip(calls.tolist(), of.tolist(), strict=True)
    return {call: Shift(*fact) for call, one in pairs if (fact := facts[one]) is not None}


def _half(operands: tuple[Shape, ...], texts: list[str] | None) -> _Fact | None:
    """Shape and dimensions of a roll by half of the size in each of them; None for other rolls, and where values are unknown."""
    shape, by, over = operands[0] if operands else (), numbers(texts, 1), numbers(texts, 2)
    if (
        not shape
        or not by
        or not over
        or len(by) != len(over)
        or any(not -len(shape) <= dim < len(shape) for dim in over)
    ):
        return None
    moved = {dim % len(shape): shift % shape[dim] for dim, shift in zip(over, by, strict=True) if shape[dim] > 1}
    if not moved or any(shift not in _halves(shape[dim]) for dim, shift in moved.items()):
        return None
    return shape, frozenset(moved)


def _halves(size: int) -> tuple[int, int]:
    """Sizes of the two halves."""
    return size // 2, size - size // 2


def _swapped(tree: Tree, nodes: list[int], at: int) -> tuple[list[int], Shift] | None:
    """Cuts and shift of a concatenation of a tensor's two halves, of which the views before it cut each; None for others."""
    operands, texts = _arguments(tree, nodes[at])
    shapes, dims = [shape for shape in operands if shape], numbers(texts, 1)
    if len(shapes) != 2 or not dims or len({len(shape) for shape in shapes}) > 1:
        return None
    dim = dims[0] % len(shapes[0])
    lengths = tuple(shape[dim] for shape in shapes)
    whole = (*shapes[0][:dim], sum(lengths), *shapes[0][dim + 1 :])
    if sum(lengths) < 2 or sorted(lengths) != sorted(_halves(sum(lengths))):
        return None
    cuts: dict[int, int] = {}
    for node in reversed(nodes[max(at - _NEAR, 0) : at]):
        name = tree.context.names[tree.host.name[node]]
        if not moves_no_data(name) or tree.host.thread[node] != tree.host.thread[nodes[at]]:
            break
        start = _start(tree, node, whole, dim) if name in _CUTS else None
        if start is not None:
            cuts.setdefault(start, node)
    # Of sizes that differ, the part that began at the front goes behind.
    if set(cuts) != {0, lengths[1]}:
        return None
    return sorted(cuts.values()), Shift(whole, frozenset({dim}))


def _start(tree: Tree, node: int, whole: Shape, dim: int) -> int | None:
    """Start of a cut of a tensor of this shape along a dimension; None for other cuts, and for one of all of it."""
    operands, texts = _arguments(tree, node)
    along = numbers(texts, 1)
    if not operands or operands[0] != whole or not along or along[0] % len(whole) != dim:
        return None
    start, end = numbers(texts, 2), numbers(texts, 3)
    begin = (start[0] if start else 0) % whole[dim]
    # The largest number that there is has more digits than are read of any: it stands for the end.
    if begin == 0 and (not end or len(end) > 1 or end[0] >= whole[dim]):
        return None
    return begin


def _arguments(tree: Tree, node: int) -> tuple[tuple[Shape, ...], list[str] | None]:
    one = np.array([node])
    return tree.shapes.operands(int(tree.dims(one)[0])), tree.texts(int(tree.context.op_column(one, "concrete")[0]))
