"""Diagonal matrices that are written out in full: ``torch.diag_embed(v)`` or ``torch.diag(v)``, factored, solved with, multiplied.

A product with one scales rows or columns, which a broadcast product with v does; a normal distribution with one for its
covariance is a number of independent ones.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import forward, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, distinct
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import moves_no_data

DISTRIBUTION, PRODUCT = "distribution", "product"
_DISTRIBUTIONS = "torch/distributions/"
_PRODUCTS = frozenset({"aten::mm", "aten::matmul", "aten::bmm", "aten::mv"})
_MOST = 20_000
_REACH, _BEHIND = 400, 12
"""Operators behind a diagonal matrix in which a distribution uses it, and a product takes it."""
_CALL_NS, _NS = 20_000.0, 2.0
"""Time of scaling, with its backward pass: its calls, and for each number of the result."""


def diagonals(tree: Tree) -> Occurrences | None:
    """One row per diagonal matrix that is multiplied, or is the covariance of a distribution, in a program on the CPU.

    ``repeats`` are the numbers on the diagonal, ``length`` those of all matrices of it, and ``part`` is what its diagonal alone
    spares. It owns what makes it and what takes it, with their backward pass.
    """
    if not tree.context.cpu_program:
        return None
    made = forward(tree, ["aten::diag_embed"])
    if not 0 < len(made) <= _MOST:
        return None
    host = tree.host
    outer = tree.outermost
    outer = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
    calls, step = distinct(tree.calls[made]), tree.context.recording.host_step_of(host.start)
    of_call = {int(tree.calls[node]): node for node in made.tolist()}
    found: list[tuple[list[int], str, Shape, int]] = []
    for call in calls.tolist():
        shape = _shape(tree, of_call[call])
        if shape is None:
            continue
        at = int(np.searchsorted(outer, call))
        behind = outer[at + 1 : at + 1 + _REACH]
        behind = behind[(host.thread[behind] == host.thread[call]) & (step[behind] == step[call])]
        used = _of_distribution(tree, behind, shape[-1], set(calls.tolist()))
        detail, given = (DISTRIBUTION, size_of(shape) // shape[-1]) if used else (PRODUCT, 0)
        if not used:
            used, given = _products(tree, behind, shape)
        if used:
            found.append(([call, *used], detail, shape, given))
    if not found:
        return None
    marks = [(row, node) for row, (nodes, *_) in enumerate(found) for node in nodes]
    own = Pairs(*(np.array(column, np.int64) for column in zip(*marks, strict=True)))
    ops = worked(tree, own, backward=np.ones(len(found), np.bool_))
    took = ops.total(_own_time(tree), len(found))
    first = np.array([nodes[0] for nodes, *_ in found], np.int64)
    left = np.array([_CALL_NS + _NS * numbers for *_, numbers in found], np.float64)
    part = np.maximum(1 - left / np.maximum(took, 1), 0)
    return Occurrences(
        kind="diagonal",
        node=first,
        begin=host.start[first],
        end=host.end[[max(nodes) for nodes, *_ in found]],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        figures={
            "repeats": np.array([shape[-1] for _, _, shape, _ in found], np.int64),
            "length": np.array([size_of(shape) for _, _, shape, _ in found], np.int64),
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(first),
        },
        details=[detail for _, detail, *_ in found],
    )


def _own_time(tree: Tree) -> Ints:
    """ns that each row of `ops` takes without the operators in it."""
    host, rows = tree.host, tree.context.op_rows
    length = host.end[rows] - host.start[rows]
    row_of = np.full(host.size, -1, np.int64)
    row_of[rows] = np.arange(len(rows))
    parent = row_of[host.parent[rows]]
    inside = (host.parent[rows] >= 0) & (parent >= 0)
    own: Ints = length - np.bincount(parent[inside], weights=length[inside], minlength=len(rows)).astype(np.int64)
    return own


def _shape(tree: Tree, node: int) -> Shape | None:
    """Shape of the matrices that an operator makes of their diagonals; None where it is not known, and for single numbers."""
    operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
    texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0])) or []
    main = all(text in ("", usual) for text, usual in zip(texts[1:4], ("0", "-2", "-1"), strict=False))
    return (*operands[0], operands[0][-1]) if operands and operands[0] and operands[0][-1] > 1 and main else None


def _of_distribution(tree: Tree, behind: Ints, width: int, others: set[int]) -> list[int]:
    """Operators that torch's distributions call on matrices of that width, up to the next diagonal matrix."""
    host, places = tree.host, tree.host.places
    silent = tree.codes_of(moves_no_data)
    found: list[int] = []
    for node, library in zip(behind.tolist(), host.attributes.library[behind].tolist(), strict=True):
        if node in others:
            break
        operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
        if not any(shape[-2:] == (width, width) for shape in operands):
            continue
        if library >= 0 and _DISTRIBUTIONS in places[library].file:
            found.append(node)
        elif not found and not silent[host.name[node]]:
            break  # something else is made of it
    return found


def _products(tree: Tree, behind: Ints, shape: Shape) -> tuple[list[int], int]:
    """The first product behind that takes such a matrix, the next on its line between two such; numbers of their results."""
    host, names = tree.host, tree.context.names
    silent = tree.codes_of(moves_no_data)
    behind = behind[~silent[host.name[behind]]][:_BEHIND]
    found: list[int] = []
    given = 0
    for node in behind.tolist():
        operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
        taken = sum(one == shape for one in operands)
        if not taken:
            continue
        product = names[host.name[node]] in _PRODUCTS and len(operands) >= 2
        if not product and taken > 1 and len(found) == 1:
            return [], 0  # a sum of both: what the product took may be another matrix
        if not product or (found and (taken < 2 or host.attributes.user[node] != host.attributes.user[found[0]])):
            break
        found.append(node)
        given += max(size_of(one) for one in operands if one != shape) if taken == 1 else size_of(shape)
        if len(found) == 2:
            break
    return found, given
