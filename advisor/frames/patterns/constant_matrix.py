"""Products of a large square matrix that never changes with a few columns: a graph's adjacency, kept as a dense matrix.

A trace does not say what a matrix holds. It says that no operator makes it, changes it, or gives it a gradient: then nothing but
its zeros decides whether a sparse matrix takes less.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import Uses, backward_of
from advisor.intervals import Bools, Ints, distinct
from advisor.timeline.calls import OP
from advisor.timeline.operator_names import is_view

_PRODUCTS = {"aten::mm": 0, "aten::matmul": 0, "aten::addmm": 1, "aten::einsum": 1}
"""Products that Python calls, and the place of their first factor."""
_INSIDE = frozenset({"aten::bmm", "aten::baddbmm", "aten::mm", "aten::matmul", "aten::addmm", "aten::einsum"})
_ASKS = frozenset(
    {"aten::to", "aten::contiguous", "aten::resolve_conj", "aten::resolve_neg", "aten::expand", "aten::mT"}
)
_LEAST = 1024
"""Rows from where on the product of a matrix of which a thousandth is not zero takes a fifth, with its gradient, and less."""
_FEW = 4
"""Its columns are at least so many times those that it multiplies: else its zeros are rarely what the product is about."""
_MOST = 20_000
_SLOWER, _KERNEL = 3.0, 10_000
"""On a GPU: times as slow as bytes in order that those of picked rows are read, and ns of a sparse product, however small."""


def constant_products(tree: Tree) -> Occurrences | None:
    """One row per product of a square matrix of 1,024 rows or more that no operator makes, changes or gives a gradient.

    ``length`` are its rows, ``repeats`` the columns that it multiplies, ``part`` is on a GPU what sparse products spare.
    """
    host, uses = tree.host, tree.once(Uses)
    codes = tree.codes_of(_PRODUCTS.__contains__)
    nodes = uses.nodes[codes[host.name[uses.nodes]]]
    if not 0 < len(nodes) <= _MOST * 10:
        return None
    found, of = np.unique(np.stack([host.name[nodes], tree.dims(nodes)], axis=1), axis=0, return_inverse=True)
    facts = [_square(tree.context.names[name], tree.shapes.operands(dims)) for name, dims in found.tolist()]
    sizes = {fact[0] for fact in facts if fact is not None}
    constant = sizes - _made(tree, sizes) if sizes else sizes
    facts = [fact if fact and fact[0] in constant else None for fact in facts]
    kept = np.array([fact is not None for fact in facts], np.bool_)[of.ravel()]
    nodes, of = nodes[kept], of.ravel()[kept]
    if not 0 < len(nodes) <= _MOST:
        return None
    length, columns = (np.array([fact[at] if fact else 0 for fact in facts], np.int64)[of] for at in (0, 1))
    rows = Pairs(np.arange(len(nodes)), nodes)
    late = backward_of(tree, rows, nodes, tree.after(nodes))
    whole = join(rows, late)
    work = tree.launched_below(whole.index)
    inside = Pairs(whole.row[work.row], work.index).each_once()
    part = {} if tree.context.cpu_program else {"part": _spared(tree, inside, columns)}
    return Occurrences(
        kind="constant-matrix",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=inside,
        own=inside,
        ops=tree.rows_of_ops(whole) if tree.context.cpu_program else NOTHING,
        figures={"repeats": columns, "length": length, "dims": tree.dims(nodes)} | part,
    )


def _spared(tree: Tree, work: Pairs, columns: Ints) -> Ints:
    """Millionths of the products' time that go on a GPU where one value in a thousand is not zero.

    Of each such value a row of all columns is read, a third as fast as the dense matrix in its order, of which one value in each
    place is. Each product stays a kernel.
    """
    time = work.total(tree.work.end - tree.work.start, len(columns))
    kernels = np.bincount(work.row, minlength=len(columns))
    part = 1 - _SLOWER * columns / 1000 - _KERNEL * kernels / np.maximum(time, 1)
    return np.rint(np.clip(part, 0, 1) * MILLION).astype(np.int64)


def _square(name: str, operands: tuple[Shape, ...]) -> tuple[int, int] | None:
    """Rows of the square matrix that stands first in a product, and the columns that it multiplies; None for others."""
    pair = [shape for shape in operands[_PRODUCTS[name] :] if shape][:2]
    if len(pair) < 2 or len(pair[0]) != 2 or len(pair[1]) < 2:
        return None
    (rows, inner), other = pair
    if rows != inner or rows < _LEAST or other[-2] != rows:
        return None
    columns = size_of(other) // rows
    return (rows, columns) if 0 < _FEW * other[-1] <= rows else None


def _made(tree: Tree, sizes: set[int]) -> set[int]:
    """Those sizes of which an operator, of the backward pass and of an optimizer as well, makes, takes or changes a matrix."""
    host, names = tree.host, tree.context.names
    flags: Bools = host.group == OP
    nodes: Ints = np.flatnonzero(flags)
    keys = distinct(host.name[nodes].astype(np.int64) << 32 | tree.dims(nodes) & 0xFFFFFFFF)
    made = set()
    for key in keys.tolist():
        name, operands = names[key >> 32], tree.shapes.operands(_signed(key))
        squares = {shape[0] for shape in operands if len(shape) == 2 and shape[0] == shape[1]} & sizes
        if name in _INSIDE:
            pair = [shape for shape in operands if shape][-2:]
            if len(pair) == 2 and len(pair[1]) >= 2 and pair[0][0] == pair[1][-1] and pair[0][-1] == pair[1][-2]:
                made |= {pair[0][0]} & sizes if pair[0] != (pair[0][0],) * 2 else set()
            made |= {shape[-1] for shape in pair[1:] if shape[-2:] == (shape[-1],) * 2} & sizes
        elif squares and not is_view(name) and name not in _ASKS:
            made |= squares
    return made


def _signed(key: int) -> int:
    code = key & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code
