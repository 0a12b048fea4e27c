"""Cross-entropy over one-hot rows: labels written out as zeros with a one, times log-probabilities, and summed over the classes.

Of each row the sum is one number, which F.cross_entropy picks by the label: the matrix, its product and their gradients are passes
over as many numbers as the logits have.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.one_hot import INDICES, Matrix, made
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import Occurrences, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import COPIES, PRODUCTS, Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.operator_names import is_view

_TIMES = frozenset({"aten::mul", "aten::mul_", "aten::multiply", "aten::where", "aten::einsum"})
_LOSS = "aten::cross_entropy_loss"
_LOG_SOFTMAX = frozenset({"aten::log_softmax", "aten::_log_softmax", "aten::special_log_softmax"})
_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax", "aten::special_softmax"})
_LOG = frozenset({"aten::log", "aten::log_"})
_BOUNDS = regex(r"^aten::(?:add|clamp|clamp_min|clamp_max|clip|maximum)_?$")
"""Operators that keep a probability away from zero."""
_LOGITS = _LOG_SOFTMAX | _SOFTMAX | _LOG
_SIGN = frozenset({"aten::neg", "aten::negative"})
_SUMS = frozenset({"aten::sum", "aten::mean"})
_EMPTY = frozenset({"aten::zeros_like", "aten::new_zeros", "aten::zero_", "aten::argmax"})
_WHOLE = frozenset({*INDICES, "bool"})
_REACH, _BEFORE = 40, 12
_FILL, _CALL = 0.3, 60_000.0
"""ns on one core for each number of a gradient that is zero but for the labels' places, and of each call."""
_GPU_FILL, _GPU_CALL = 4 / 400, 10_000.0
"""The same on a GPU."""


class _Role(Enum):
    LOGITS = auto()
    COPY = auto()
    PICK = auto()
    TARGET = auto()
    OTHER = auto()


class _Loss(Struct, eq=False):
    """A loss over a one-hot matrix: what makes that, what picks with it, and what makes logarithms that the fix has no need of."""

    matrix: Matrix
    made: list[int]
    picks: list[int] = field(default_factory=list)
    detail: str = ""
    call: int = -1


def one_hot_losses(tree: Tree) -> Occurrences | None:
    """One row per cross-entropy over one-hot rows: what makes them, the product with log-probabilities, its sum, backward pass.

    ``repeats`` are the rows, ``length`` the classes, ``part`` is what goes of its time: all but the gradient's zeros.
    """
    losses = _losses(tree)
    if not losses:
        return None
    host, count = tree.host, len(losses)
    first = np.array([min([loss.call, *loss.made, *loss.picks]) for loss in losses], np.int64)
    last = np.array([max([loss.call, *loss.picks]) for loss in losses], np.int64)
    picks = pairs_of([loss.picks for loss in losses])
    late = backward_of(tree, picks, first, tree.after(last))
    nodes = join(picks, pairs_of([loss.made for loss in losses]), late)
    trains = np.bincount(late.row, minlength=count) > 0
    size = np.array([loss.matrix.rows * loss.matrix.columns for loss in losses], np.float64)
    fill, call = (_FILL, _CALL) if tree.context.cpu_program else (_GPU_FILL, _GPU_CALL)
    time = time_of(tree, nodes, count)
    part: Floats = 1 - (trains * (fill * size + call) + call) / np.maximum(time, 1)
    chosen = np.flatnonzero((part > 0) & (time > 0))
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, nodes, chosen, count)
    at = np.array([losses[one].call for one in chosen.tolist()], np.int64)
    return Occurrences(
        kind="one-hot-loss",
        node=at,
        begin=host.start[at],
        end=host.end[at],
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": np.array([losses[one].matrix.rows for one in chosen.tolist()], np.int64),
            "length": np.array([losses[one].matrix.columns for one in chosen.tolist()], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(at),
        },
        details=[losses[one].detail for one in chosen.tolist()],
    )


def _losses(tree: Tree) -> list[_Loss]:
    """Losses of a recording, in order."""
    matrices = made(tree)
    # Zeros to which ones are scattered twice become labels of several classes.
    times = Counter(node for matrix in matrices for node in matrix.made)
    found = [_loss(tree, matrix, times) for matrix in matrices if all(times[node] == 1 for node in matrix.made)]
    return [loss for loss in found if loss is not None]


def _loss(tree: Tree, matrix: Matrix, starts: Counter[int]) -> _Loss | None:
    """Find what picks log-probabilities with a matrix and sums them over the classes; None where the matrix is changed before."""
    uses, size = tree.once(Uses), matrix.rows * matrix.columns
    loss = _Loss(matrix, list(matrix.made))
    behind = [
        one for one in uses.behind(matrix.call, size, _REACH) if not is_view(one[1]) and one[0] not in matrix.made
    ]
    for place, (node, name, operands) in enumerate(behind):
        role = _Role.OTHER if node in starts else _role(tree, node, name, operands, size)
        if role is _Role.LOGITS:
            continue
        if role is _Role.COPY:
            loss.made.append(node)
            continue
        loss.call = node
        if role is _Role.TARGET:
            loss.detail, loss.picks = "cross_entropy", _within(tree, node)
        elif role is _Role.PICK:
            sums = name != "aten::einsum"
            summed = _summed(tree, behind[place + 1 :], matrix) if sums else []
            loss.picks = [node, *summed]
            loss.detail = _logarithms(tree, loss, size) if summed or not sums else ""
        break
    if not loss.detail:
        return None
    if _needed(behind, loss, size):
        loss.made = []
    return loss


def _role(tree: Tree, node: int, name: str, operands: tuple[Shape, ...], size: int) -> _Role:
    """Tell what an operator that takes or gives as many numbers does with a matrix."""
    taken = sum(size_of(shape) == size for shape in operands)
    if not taken or name in _EMPTY or name in _LOGITS:
        return _Role.LOGITS
    if taken == 2 and (name == _LOSS or name in _TIMES):
        return _Role.TARGET if name == _LOSS else _Role.PICK
    if taken > 1:
        return _Role.OTHER
    whole = (tree.words(_code(tree, node, "types")) or [""])[0] in _WHOLE
    if name in COPIES or name in _SIGN:
        return _Role.COPY if whole else _Role.LOGITS
    kept = _BOUNDS.match(name) and not whole and size_of(operands[0]) == size
    return _Role.LOGITS if kept else _Role.OTHER


def _code(tree: Tree, node: int, column: str) -> int:
    return int(tree.context.op_column(np.array([node]), column)[0])


def _within(tree: Tree, call: int) -> list[int]:
    """Operators that a loss calls, but for the logarithm of the softmax."""
    host, names = tree.host, tree.context.names
    high = int(tree.after(np.array([call]))[0])
    return [
        node
        for node in range(call + 1, high)
        if host.parent[node] == call and host.group[node] == OP and names[host.name[node]] not in _LOG_SOFTMAX
    ]


def _summed(tree: Tree, behind: list[tuple[int, str, tuple[Shape, ...]]], matrix: Matrix) -> list[int]:
    """Signs and the sum over the classes that take a product; empty where something else does."""
    found: list[int] = []
    for node, name, operands in behind:
        if name in _SIGN:
            found.append(node)
            continue
        if name not in _SUMS or not operands or size_of(operands[0]) != matrix.rows * matrix.columns:
            return []
        dims = numbers(tree.texts(_code(tree, node, "concrete")), 1)
        # A sum of all numbers has no dimensions: its second value is a type, or none.
        lengths = [operands[0][dim] for dim in dims or () if -len(operands[0]) <= dim < len(operands[0])]
        whole = len(operands) < 3 or not dims
        return [*found, node] if whole or matrix.columns in lengths else []
    return []


def _logarithms(tree: Tree, loss: _Loss, size: int) -> str:
    """Say what the other factor is, and add what makes a logarithm of a softmax; empty where it is no log-probability."""
    uses, names = tree.once(Uses), tree.context.names
    taking = uses.nodes[uses.taking(size)]
    at = int(np.searchsorted(taking, loss.call))
    parts: list[int] = []
    for node in reversed(taking[max(at - _BEFORE, 0) : at].tolist()):
        name = names[tree.host.name[node]]
        if tree.host.thread[node] != tree.host.thread[loss.call]:
            return ""
        if node in loss.made or is_view(name) or name in _EMPTY or name in COPIES or name in _SIGN:
            continue
        if name in _LOG_SOFTMAX or name in _SOFTMAX:
            found = bool(parts) is (name in _SOFTMAX) and _over_classes(tree, node, loss.matrix)
            loss.picks += parts if found else []
            return ("softmax and log" if parts else "log_softmax") if found else ""
        if name in _LOG if not parts else _BOUNDS.match(name):
            parts.append(node)
        else:
            return ""
    return ""


def _over_classes(tree: Tree, node: int, matrix: Matrix) -> bool:
    """Tell whether a softmax is over the classes, as far as it was recorded."""
    shapes, dim = tree.shapes.operands(_code(tree, node, "dims")), numbers(tree.texts(_code(tree, node, "concrete")), 1)
    if not dim or not shapes or not -len(shapes[0]) <= dim[0] < len(shapes[0]):
        return True
    return shapes[0][dim[0]] == matrix.columns


def _needed(behind: list[tuple[int, str, tuple[Shape, ...]]], loss: _Loss, size: int) -> bool:
    """Tell whether something else may take the matrix as well: the sum of a product, or two as large at once."""
    for node, name, operands in behind:
        if node <= loss.call or node in loss.picks:
            continue
        taken = sum(size_of(shape) == size for shape in operands)
        if not taken and name in PRODUCTS:
            return False  # the next logits
        if taken > 1 or name in PRODUCTS or name in _SUMS:
            return True
    return False
