"""Convolutions by one constant window in two or three dimensions at once: local sums by a cube of ones, a Gaussian.

A box is a product of one row of ones for each dimension, and so is a Gaussian: k taps for each dimension give what k * k * k give.
A window is known to be constant where backward makes no gradient of it, or where ones of its shape are made before. On the CPU
the backward pass of convolutions of one channel is the slowest part.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import numbers, typical, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED

_PLACES = {"aten::conv2d": 6, "aten::conv3d": 6, "aten::convolution": 8}
"""Place of the number of groups."""
_BACKWARD = "aten::convolution_backward"
_MADE = {"aten::ones": 0, "aten::full": 0, "aten::new_ones": 1, "aten::new_full": 1}
"""Operators that make a tensor of one number, and the place of its shape."""
_LIKE = frozenset({"aten::ones_like", "aten::full_like"})
_WRITTEN = frozenset({"aten::select", "aten::slice", "aten::index_put_", "aten::copy_", "aten::masked_fill_", "aten::masked_fill",
                      "aten::where", "aten::tril", "aten::triu", "aten::tril_", "aten::triu_", "aten::fill_diagonal_"})  # fmt: skip
_SCALED = frozenset(
    {"aten::mul", "aten::mul_", "aten::div", "aten::div_", "aten::add", "aten::add_", "aten::sub", "aten::sub_"}
)
"""Operators that may write a part of such a tensor: it is no box then."""
_TAPS, _MOST_TAPS = 3, 64
"""Taps of a dimension in which a pass spares anything, and the most of a window."""
_LEAST = {(3, True): (3, 3, 3), (3, False): (7, 5, 5), (2, True): (9, 5, 3), (2, False): (11, 11, 9)}
"""Taps of a dimension from which passes took less than the whole window, by dimensions and whether it has one channel: without a
backward pass, with one, and of ones, with cumulative sums. Of fewer, a longer time is the machine's, not the window's."""
_CHANNELS = 4
"""Channels up to which a window without a gradient is taken for one of all channels: a frozen layer has more."""
_BEHIND = 20
"""Operators behind ones within which they are written."""
_MOST = 50_000
_SUMS, _BACK_SUMS = 2.0, 7.0
"""ns of a core for each number and dimension, by cumulative sums, without and with a backward pass."""
_CALL, _BACK_CALL = 10_000.0, 40_000.0
"""ns of the calls of one pass, likewise."""


class _Window(Struct, frozen=True):
    """A convolution by a window: its weight's shape, and the numbers that it is laid over."""

    weight: Shape
    count: int

    def passes(self, back: bool) -> float:
        """The ns that one pass for each dimension takes."""
        total = 0.0
        for taps in self.weight[2:]:
            if taps > 1:
                total += self.count * _pass(taps, len(self.weight) - 2, self.weight[0] == 1, back)
                total += _BACK_CALL if back else _CALL
        return total

    def gains(self, back: bool, ones: bool) -> bool:
        """Tell whether windows of its size gain."""
        least = _LEAST[len(self.weight) - 2, self.weight[0] == 1]
        return min(taps for taps in self.weight[2:] if taps > 1) >= (least[2] if ones else least[back])

    def sums(self, back: bool) -> float:
        """The ns that cumulative sums along each dimension take."""
        dims = sum(taps > 1 for taps in self.weight[2:])
        return dims * (self.count * (_BACK_SUMS if back else _SUMS) + 2 * (_BACK_CALL if back else _CALL))

    def left(self, back: bool, ones: bool) -> float:
        """The ns that its faster form takes: passes, or, of ones, cumulative sums."""
        return min(self.passes(back), self.sums(back)) if ones else self.passes(back)


def _pass(taps: int, dims: int, alone: bool, back: bool) -> float:
    """The ns of a number in a pass of so many taps; *alone*: of one channel, which oneDNN does not vectorize in backward."""
    if dims == 2:
        forward, trained = (6.0, 16 + 3.2 * taps) if alone else (4.0, 10.0)
    else:
        forward, trained = (1.1 * taps, 3.7 * taps) if alone else (0.8 * taps, 2.6 * taps)
    return trained if back else forward


def separable_windows(tree: Tree) -> Occurrences | None:
    """One row per convolution by a constant window whose passes take less, in a program on the CPU, with its backward pass.

    ``repeats`` are the taps of the window, ``length`` the numbers that it is laid over, ``part`` is what passes do not take.
    """
    if not tree.context.cpu_program:
        return None
    host = tree.host
    nodes = tree.outermost[tree.codes_of(_PLACES.__contains__)[host.name[tree.outermost]]]
    nodes = nodes[host.attributes.phase[nodes] != BACKWARD]
    if not 0 < len(nodes) <= _MOST:
        return None
    concrete = tree.context.op_column(nodes, "concrete").tolist()
    names = host.name[nodes].tolist()
    found = [
        _window(tree.context.names[name], tree.shapes.operands(dims), tree.texts(value))
        for name, dims, value in zip(names, tree.dims(nodes).tolist(), concrete, strict=True)
    ]
    windows = [window for window in found if window]
    if not windows:
        return None
    nodes = nodes[[window is not None for window in found]]
    ops = worked(tree, Pairs(np.arange(len(nodes)), nodes), backward=np.ones(len(nodes), np.bool_))
    trained, back = trained_filters(tree, ops, len(nodes))
    boxes = _boxes(tree, {window.weight for window in windows})
    took = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), *OWNED), len(nodes))
    kinds = {window: number for number, window in enumerate(dict.fromkeys(windows))}
    took = typical(took, np.array([2 * kinds[window] for window in windows], np.int64) + back)
    left = np.array(
        [window.left(late, window.weight in boxes) for window, late in zip(windows, back.tolist(), strict=True)]
    )
    chosen = _constant(windows, trained, back, boxes) & (left < took)
    if not chosen.any():
        return None
    row = np.cumsum(chosen) - 1
    ops = ops.where(chosen[ops.row])
    ops.row = row[ops.row]
    kept = [windows[at] for at in np.flatnonzero(chosen).tolist()]
    nodes = nodes[chosen]
    return Occurrences(
        kind="separable-window",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        doubt=0.5,
        figures={
            "repeats": np.array([math.prod(window.weight[2:]) for window in kept], np.int64),
            "length": np.array([window.count for window in kept], np.int64),
            "part": np.rint((1 - left[chosen] / took[chosen]) * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
        details=["ones" if window.weight in boxes else "constant" for window in kept],
    )


def _constant(windows: list[_Window], trained: Bools, back: Bools, boxes: set[Shape]) -> Bools:
    """Flag the convolutions whose window is constant, and of a size that gains."""
    learned = {windows[row].weight for row in np.flatnonzero(trained).tolist()}
    # Of an image that needs no gradient the window is known by the other images.
    constant = {windows[row].weight for row in np.flatnonzero(back & ~trained).tolist()}
    constant = ({weight for weight in constant if weight[0] <= _CHANNELS} | boxes) - learned
    return np.array(
        [
            window.weight in constant and window.gains(late, window.weight in boxes)
            for window, late in zip(windows, back.tolist(), strict=True)
        ],
        np.bool_,
    )


def _window(name: str, operands: tuple[Shape, ...], texts: list[str] | None) -> _Window | None:
    """The window of a convolution that lays one filter over each channel, place by place; None for others."""
    place = _PLACES[name]
    if (
        len(operands) < 2
        or len(operands[1]) not in (4, 5)
        or len(operands[0]) not in (len(operands[1]) - 1, len(operands[1]))
    ):
        return None
    weight = operands[1]
    stride, dilation, groups = (numbers(texts, at) for at in (3, 5, place))
    if not stride or not dilation or any(step != 1 for step in (*stride, *dilation)) or groups != (weight[0],):
        return None
    if place == 8 and (texts is None or texts[6].lower() != "false"):
        return None
    wide = sum(taps >= _TAPS for taps in weight[2:]) >= 2 and max(weight[2:]) <= _MOST_TAPS
    return _Window(weight, size_of(operands[0])) if wide and weight[1] == 1 else None


def trained_filters(tree: Tree, ops: Pairs, size: int) -> tuple[Bools, Bools]:
    """Flag convolutions whose filters have a gradient, and those that have a backward pass."""
    node = tree.context.op_rows[ops.index]
    here = tree.codes_of(_BACKWARD.__eq__)[tree.host.name[node]]
    trained, back = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    row: Ints = ops.row[here]
    back[row] = True
    for at, value in zip(row.tolist(), tree.context.op_column(node[here], "concrete").tolist(), strict=True):
        asked = ((tree.texts(value) or [""])[-1]).lower().strip("[] ").split(",")
        trained[at] |= len(asked) < 2 or asked[1].strip() != "false"
    return trained, back


def _shapes_anew(name: str, operands: tuple[Shape, ...], shape: Shape) -> bool:
    """Tell whether an operator gives a tensor of this shape other numbers in some places: a mask, or a part of it written."""
    if name in _SCALED:
        return shape in operands and sum(size_of(one) > 1 for one in operands if one) > 1
    return name in _WRITTEN and shape in operands


def _boxes(tree: Tree, weights: set[Shape]) -> set[Shape]:
    """The shapes of *weights* of which ones are made, for all channels or for one, and not written behind that."""
    host = tree.host
    nodes = tree.ops(tree.codes_of(lambda name: name in _MADE or name in _LIKE))
    made: dict[Shape, int] = {}
    for node, dims, value in zip(
        nodes.tolist(), tree.dims(nodes).tolist(), tree.context.op_column(nodes, "concrete").tolist(), strict=True
    ):
        place = _MADE.get(tree.context.names[host.name[node]])
        operands = tree.shapes.operands(dims)
        shape = numbers(tree.texts(value), place) if place is not None else (operands or (None,))[0]
        if shape:
            made.setdefault(shape, node)
    found = {}
    for weight in weights:
        for shape in (weight, (1, 1, *weight[2:])):
            if shape in made:
                found[weight] = made[shape], shape
    outer = tree.outermost
    boxes = set()
    for weight, (node, shape) in found.items():
        at = int(np.searchsorted(outer, node, side="right"))
        behind = outer[at : at + _BEHIND]
        behind = behind[(host.thread[behind] == host.thread[node])]
        given = zip(host.name[behind].tolist(), map(tree.shapes.operands, tree.dims(behind).tolist()), strict=True)
        if not any(_shapes_anew(tree.context.names[name], operands, shape) for name, operands in given):
            boxes.add(weight)
    return boxes
