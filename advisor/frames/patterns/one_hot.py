"""Products with a one-hot matrix: a row of zeros and a one for each index, multiplied by a table, where the index would do.

A matrix of N rows and K columns costs N K numbers to fill, to convert and to multiply, for N rows of the table; the transposed one
times N rows sums them up by index. Looking the rows up, or adding them, touches N rows.
"""

from __future__ import annotations

from enum import Enum, auto

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.operands import forward, keys, numbers
from advisor.frames.patterns.tree import Occurrences, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import COPIES, PRODUCTS, Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.intervals import distinct
from advisor.roofline.limits import rates_of
from advisor.timeline.context import Context
from advisor.timeline.operator_names import is_view

_SCATTERS = ("aten::scatter_", "aten::scatter")
_EQUAL = "aten::eq"
INDICES = frozenset({"long int", "int", "short int", "long", "signed char", "unsigned char"})
_ZEROS = frozenset({"aten::zero_", "aten::fill_", "aten::zeros_like", "aten::new_zeros"})
_SUMS = frozenset({"aten::sum", "aten::mean"})
_PLACES = frozenset({"aten::argmax", "aten::argmin"})
_LEAST = 1 << 14
"""Elements of the matrix: a smaller one is filled and multiplied in microseconds."""
_BEFORE = 24
_MOST, _REACH = 20_000, 400
_LOOKUP, _SUMMED, _BY_INDEX, _CALL = 1.0, 1.5, 100.0, 60_000.0
"""ns on one core of a lookup and of a sum by index, for each number of a row; of a lookup's gradient for each index besides, which
it adds one after the other; and of each call."""
_GPU_RATE, _GPU_PART, _GPU_CALL = 400.0, 0.5, 10_000.0
"""On a GPU, carefully: bytes a ns where its memory's rate is not known, the part of that rate elsewhere, and ns of each call."""


class _Role(Enum):
    NONE = auto()
    COPY = auto()
    USE = auto()
    SUM = auto()
    OTHER = auto()
    MADE = auto()


class Matrix(Struct, eq=False):
    """A one-hot matrix: what makes it, its rows and columns, what it is multiplied in, and whether it is used otherwise, too."""

    call: int
    rows: int
    columns: int
    made: list[int]
    uses: list[int] = field(default_factory=list)
    wide: list[int] = field(default_factory=list)
    sums: bool = False
    kept: bool = False


def one_hot_products(tree: Tree) -> Occurrences | None:
    """One row per one-hot matrix that is multiplied, with what makes it (unless it is used otherwise), products, backward pass.

    ``length`` are its columns, ``repeats`` its rows, ``part`` is what goes of its time: all but what lookups take.
    """
    matrices = [matrix for matrix in _matrices(tree) if matrix.uses]
    if not matrices:
        return None
    host, count = tree.host, len(matrices)
    calls = np.array([matrix.call for matrix in matrices], np.int64)
    last = np.array([matrix.uses[-1] for matrix in matrices], np.int64)
    uses = pairs_of([matrix.uses for matrix in matrices])
    made = pairs_of([[] if matrix.kept else matrix.made for matrix in matrices])
    late = backward_of(tree, uses, calls, tree.after(last))
    nodes = join(uses, made, late)
    trains = np.bincount(late.row, minlength=count) > 0
    time = time_of(tree, nodes, count)
    cheap = np.array([_cheap(tree, one, bool(late)) for one, late in zip(matrices, trains, strict=True)], np.float64)
    part: Floats = 1 - cheap / np.maximum(time, 1)
    chosen = np.flatnonzero((part > 0) & (time > 0))
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, nodes, chosen, count)
    at = np.array([matrices[one].uses[0] for one in chosen.tolist()], np.int64)
    return Occurrences(
        kind="one-hot",
        node=at,
        begin=host.start[at],
        end=host.end[at],
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": np.array([matrices[one].rows for one in chosen.tolist()], np.int64),
            "length": np.array([matrices[one].columns for one in chosen.tolist()], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(at),
        },
        details=["sums" if matrices[one].sums else "rows" for one in chosen.tolist()],
    )


def _cheap(tree: Tree, matrix: Matrix, trains: bool) -> float:
    """ns that lookups and sums take in place of the products, with their gradients."""
    wide = sum(matrix.rows * width for width in matrix.wide)
    table = sum(matrix.columns * width for width in matrix.wide)
    calls = len(matrix.wide) * (1 + trains)
    if not tree.context.cpu_program:
        moved = 4 * ((3 + 3 * trains) * wide + 2 * trains * table)
        return calls * _GPU_CALL + moved / tree.context.once(_gpu_rate)
    forward = (_SUMMED if matrix.sums else _LOOKUP) * wide + (table if matrix.sums else 0)
    gradient = _SUMMED * wide + table + (0 if matrix.sums else _BY_INDEX * matrix.rows * len(matrix.wide))
    return calls * _CALL + forward + trains * gradient


def _gpu_rate(context: Context) -> float:
    """Bytes that a lookup moves in a ns: half of what the slowest of the devices reaches."""
    rates = [rates_of(context, device) for device in context.recording.devices]
    memory = [one.reachable("memory") if one else None for one in rates]
    return min((_GPU_PART * rate if rate else _GPU_RATE for rate in memory), default=_GPU_RATE)


def _matrices(tree: Tree) -> list[Matrix]:
    """One-hot matrices outside of the backward pass, with their uses."""
    found = made(tree)
    starts = {node for matrix in found for node in matrix.made}
    behind = tree.once(Uses)
    for matrix in found:
        size = matrix.rows * matrix.columns
        for node, name, operands in behind.behind(matrix.call, size, _REACH):
            if node in starts:
                if node not in matrix.made:
                    break
                continue
            role = _role(name, operands, matrix)
            if role is _Role.USE:
                _used(matrix, node, name, operands)
            elif role is _Role.SUM or (role is _Role.COPY and not matrix.uses):
                matrix.made.append(node)
            elif role is _Role.MADE:
                break
            elif role is _Role.OTHER:
                # A mask, a target of a loss, the hard half of a straight-through estimate: it has to be there.
                matrix.kept = True
                break
    return found


def made(tree: Tree) -> list[Matrix]:
    """One-hot matrices outside of the backward pass, in order, with what makes them."""
    found = [*_scattered(tree), *_compared(tree)]
    return sorted(found, key=lambda matrix: matrix.call) if len(found) <= _MOST else []


def _role(name: str, operands: tuple[Shape, ...], matrix: Matrix) -> _Role:
    """Tell what an operator that takes or gives as many numbers does with a matrix."""
    size = matrix.rows * matrix.columns
    taken = [shape for shape in operands if size_of(shape) == size]
    if not taken:
        return _Role.MADE if name in PRODUCTS and matrix.uses else _Role.NONE
    if is_view(name) or name in _PLACES:
        return _Role.NONE
    if name in COPIES:
        return _Role.COPY
    if name in _SUMS:
        return _Role.SUM
    if name in PRODUCTS and len(taken) == 1 and _factors(name, operands, matrix):
        return _Role.USE
    return _Role.MADE if name in _ZEROS else _Role.OTHER


def _factors(name: str, operands: tuple[Shape, ...], matrix: Matrix) -> tuple[bool, int] | None:
    """Return whether a product sums rows up by index, and its width; None where the shapes are no such product."""
    first = PRODUCTS[name]
    pair = [shape for shape in operands[first:] if shape][:2]
    size = matrix.rows * matrix.columns
    if len(pair) < 2:
        return None
    place = 0 if size_of(pair[0]) == size else 1
    other = pair[1 - place]
    if size_of(pair[place]) != size or len(pair[place]) < 2:
        return None
    if name == "aten::einsum":
        sums = matrix.columns not in other
        shared = matrix.rows if sums else matrix.columns
        return (sums, max(size_of(other) // shared, 1)) if size_of(other) % shared == 0 else None
    if name == "aten::linear":
        along = -1
    else:
        along = -1 if place == 0 else -2
    contracted = pair[place][along]
    sums = contracted != matrix.columns
    return sums, max(size_of(other) // contracted, 1)


def _used(matrix: Matrix, node: int, name: str, operands: tuple[Shape, ...]) -> None:
    found = _factors(name, operands, matrix)
    if found is not None:
        matrix.uses.append(node)
        matrix.wide.append(found[1])
        matrix.sums |= found[0]


def _scattered(tree: Tree) -> list[Matrix]:
    """Zeros into which a one was scattered for each index: by hand, or by one_hot."""
    nodes = forward(tree, _SCATTERS)
    if not 0 < len(nodes) <= _MOST:
        return []
    host, found = tree.host, []
    kinds, of = keys(tree, nodes, "dims", "concrete")
    facts = [_ones(tree, dims, concrete) for _, dims, concrete in kinds]
    zeros = tree.codes_of(_ZEROS.__contains__)
    for node, which in zip(nodes.tolist(), of.tolist(), strict=True):
        fact, call = facts[which], int(tree.calls[node])
        if fact is None or call < 0:
            continue
        low = max(node - _BEFORE, 0)
        before = [one for one in range(low, node) if zeros[host.name[one]] and host.thread[one] == host.thread[node]]
        same = [one for one in before if _first(tree, one) == fact[0] and _is_zero(tree, one)]
        if same:
            made = sorted({max(int(tree.calls[same[-1]]), 0), call})
            found.append(Matrix(call, fact[1], fact[2], made))
    return found


def _ones(tree: Tree, dims: int, concrete: int) -> tuple[Shape, int, int] | None:
    """Shape, rows and columns of a matrix to which a one is scattered for each row; None for other scatters."""
    operands, texts = tree.shapes.operands(dims), tree.texts(concrete)
    along = numbers(texts, 1)
    if len(operands) < 4 or texts is None or not along or len(texts) < 4 or operands[3]:
        return None
    shape, index = operands[0], operands[2]
    try:
        one = float(texts[3]) == 1
    except ValueError:
        return None
    if not one or len(shape) < 2 or not -len(shape) <= along[0] < len(shape):
        return None
    at = along[0] % len(shape)
    columns = shape[at]
    if index != (*shape[:at], 1, *shape[at + 1 :]) or size_of(shape) < _LEAST or columns < 2:
        return None
    return shape, size_of(shape) // columns, columns


def _first(tree: Tree, node: int) -> Shape:
    operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
    return operands[0] if operands else ()


def _is_zero(tree: Tree, node: int) -> bool:
    """Tell whether what fills a tensor is zero, as far as it was recorded."""
    texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0]))
    if tree.context.names[tree.host.name[node]] != "aten::fill_" or texts is None or len(texts) < 2 or not texts[1]:
        return True
    try:
        return float(texts[1]) == 0
    except ValueError:
        return texts[1] == "False"


def _compared(tree: Tree) -> list[Matrix]:
    """Indices compared with the whole numbers from 0 on (arange)."""
    nodes = forward(tree, [_EQUAL])
    ranges = forward(tree, ["aten::arange"]) if 0 < len(nodes) <= _MOST else nodes[:0]
    if not len(ranges):
        return []
    ends = {numbers(tree.texts(code), 0) for code in distinct(tree.context.op_column(ranges, "concrete")).tolist()}
    kinds, of = keys(tree, nodes, "dims", "types")
    facts = [_equal(tree, dims, types, ends) for _, dims, types in kinds]
    found = []
    for node, which in zip(nodes.tolist(), of.tolist(), strict=True):
        fact, call = facts[which], int(tree.calls[node])
        if fact is not None and call == node:
            rows, columns = fact
            found.append(Matrix(call, rows, columns, [call]))
    return found


def _equal(tree: Tree, dims: int, types: int, ends: set[Shape | None]) -> tuple[int, int] | None:
    """Rows and columns of a comparison of indices with a range; None for others."""
    operands, words = tree.shapes.operands(dims), tree.words(types)
    if len(operands) < 2 or not words or not INDICES.issuperset(words[:2]):
        return None
    for index, steps in (operands[:2], operands[1::-1]):
        columns = size_of(steps)
        alone = max(steps, default=0) == columns > 1
        rows = size_of(index)
        crossed = (index and index[-1] == 1) or (steps and steps[-1] == 1 and len(steps) > 1)
        if alone and crossed and (columns,) in ends and rows != columns and rows > 1 and rows * columns >= _LEAST:
            return rows, columns
    return None
