"""Matrix products of integers, on the CPU, which run in torch's own loops and not in BLAS."""

from __future__ import annotations

import math

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import forward, keys, typical
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.timeline.ledger import OWNED

_NAMES = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}
"""Place of the first factor."""
_INTEGERS = frozenset({"long int", "long", "int", "short int", "short", "unsigned char", "signed char"})
_MOST_TERMS = {"signed char": 127, "unsigned char": 255, "short int": 32_767, "short": 32_767}
"""Terms of ones up to which a sum fits into its type: with more it wraps, which no product of floats does."""
_CALL, _CAST, _TIMES = 10_000.0, 0.6, 0.016
"""ns of the casts' calls, of each number that is cast and moved, and of each multiplication in float32, of one core."""


def integer_products(tree: Tree) -> Occurrences | None:
    """One row per product of integers that floats would compute in less time, in a program on the CPU.

    ``repeats`` are its multiplications, ``length`` is how many each number sums, ``part`` what casts and a product of floats do
    not take; ``detail`` is the type.
    """
    if not tree.context.cpu_program:
        return None
    nodes = forward(tree, frozenset(_NAMES))
    found, of = keys(tree, nodes, "dims", "types")
    facts = [
        _fact(tree.context.names[name], tree.shapes.operands(dims), tree.words(types)) for name, dims, types in found
    ]
    chosen = np.array([fact is not None for fact in facts], np.bool_)
    if not chosen.any():
        return None
    nodes, of = nodes[chosen[of]], of[chosen[of]]
    told = [fact for one in of.tolist() if (fact := facts[one]) is not None]
    ops = tree.rows_of_ops(Pairs(np.arange(len(nodes)), nodes))
    took = typical(ops.total(tree.context.ledger.cost(len(tree.context.op_rows), *OWNED), len(nodes)), of)
    left = np.array([_CALL + _CAST * moved + _TIMES * times for times, moved, _, _ in told])
    gains = left < took
    if not gains.any():
        return None
    row = np.cumsum(gains) - 1
    ops = ops.where(gains[ops.row])
    ops.row = row[ops.row]
    told = [told[at] for at in np.flatnonzero(gains).tolist()]
    nodes = nodes[gains]
    return Occurrences(
        kind="integer-product",
        node=nodes,
        begin=tree.host.start[nodes],
        end=tree.host.end[nodes],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        figures={
            "repeats": np.array([times for times, _, _, _ in told], np.int64),
            "length": np.array([inner for _, _, inner, _ in told], np.int64),
            "part": np.rint((1 - left[gains] / took[gains]) * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
        details=[kind for *_, kind in told],
    )


def _fact(name: str, operands: tuple[Shape, ...], types: list[str] | None) -> tuple[int, int, int, str] | None:
    """Multiplications of a product of integers, numbers of its operands and result, terms of a sum, and the type; or None."""
    first = _NAMES[name]
    if types is None or len(operands) < first + 2 or len(types) < first + 2:
        return None
    left, right = operands[first : first + 2]
    if types[first] not in _INTEGERS or types[first + 1] not in _INTEGERS or min(len(left), len(right)) < 2:
        return None
    rows, columns, inner = size_of(left) // max(left[-1], 1), right[-1], left[-1]
    if inner > _MOST_TERMS.get(types[first], inner):
        return None
    moved = size_of(left) + size_of(right) + rows * columns
    return math.prod((rows, columns, inner)), moved, inner, types[first]
