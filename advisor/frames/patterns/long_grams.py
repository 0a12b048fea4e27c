"""Powers of the Gram matrix of a matrix's long side, which multiply that matrix: (X X^T)^2 X of X with more rows than columns.

X X^T of X [n, m] is n by n, and so are its powers; X (X^T X)^2 is the same, with matrices of m by m. Newton-Schulz iterations (of
the optimizer Muon, of orthogonal weights) are such: by aX + (b A + c A A) X with A = X X^T. Transposed first, all is of the short
side. Scaling, and sums with what else is n by n of the same iteration, keep that true; anything else does not.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.operands import forward, keys
from advisor.frames.patterns.product_order import backward_below, pairs_of
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import moves_no_data
from advisor.timeline.program.compilation import inside_compiled

_PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}
"""Place of the first factor."""
_AROUND = frozenset({"aten::matmul", "aten::linear", "aten::einsum"})
_SCALES = frozenset({"aten::mul", "aten::mul_", "aten::div", "aten::div_", "aten::neg"})
_SUMS = frozenset({"aten::add", "aten::sub"})
_COPIES = frozenset({"aten::clone", "aten::copy_", "aten::_to_copy"})
_TRANSPOSES = frozenset(
    {"aten::t", "aten::numpy_T", "aten::transpose", "aten::mT", "aten::permute", "aten::adjoint", "aten::matrix_H"}
)
_LEAST = 1 << 14
"""Elements of the Gram matrices: smaller ones are written in microseconds."""
_SLOWER = 1.5
"""Times as long as a multiply-add of the large products that one of the small ones is taken to last: an assumption."""
_CALL, _KERNEL = 5_000, 3_000
"""ns of a product's call on the CPU, and of a kernel, which the other order has as well: an assumption."""
_BEFORE, _REACH, _MOST = 6, 80, 4000
"""Operators before a product among which its factor is turned, those behind it with its uses, and the products looked at."""


class _Chain(Struct, eq=False):
    """A Gram matrix [batch, n, n] of n by m, the products with itself, the products with n by m, and passes over it."""

    node: int
    batch: Shape
    n: int
    m: int
    powers: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)

    @property
    def square(self) -> Shape:
        return (*self.batch, self.n, self.n)

    @property
    def tall(self) -> Shape:
        return (*self.batch, self.n, self.m)


def long_grams(tree: Tree) -> Occurrences | None:
    """One row per such Gram matrix, with its powers, the products that use them, what passes over it, and their backward pass.

    ``repeats`` is its side, ``length`` the short one, ``part`` is what goes of the time.
    """
    chains = _chains(tree)
    if not chains:
        return None
    host, count = tree.host, len(chains)
    calls = np.array([chain.node for chain in chains], np.int64)
    last = np.array([chain.uses[-1] for chain in chains], np.int64)
    low, high = calls, tree.after(last)
    ratio = np.array([chain.m / chain.n for chain in chains])
    kinds = (
        (pairs_of([[chain.node, *chain.uses] for chain in chains]), ratio),
        (pairs_of([chain.powers for chain in chains]), ratio**3),
        (pairs_of([chain.passes for chain in chains]), ratio**2),
    )
    whole, kept, parts = np.zeros(count), np.zeros(count), []
    for pairs, left in kinds:
        nodes = join(pairs, backward_below(tree, pairs, low, high))
        parts.append(nodes)
        time, calls_ns = _time(tree, nodes, count)
        whole += time
        kept += np.minimum(_SLOWER * left * time + calls_ns, time)
    part = 1 - kept / np.maximum(whole, 1)
    nodes = join(*parts)
    chosen = np.flatnonzero((part > 0) & (whole > 0))
    if not len(chosen):
        return None
    number = np.full(count, -1)
    number[chosen] = np.arange(len(chosen))
    cpu = tree.context.cpu_program
    ops, work = (tree.rows_of_ops(nodes), NOTHING) if cpu else (NOTHING, _launched(tree, nodes))
    ops, work = (Pairs(number[each.row], each.index) for each in (ops, work))
    ops, work = (each.where(each.row >= 0) for each in (ops, work))
    return Occurrences(
        kind="long-gram",
        node=calls[chosen],
        begin=host.start[calls[chosen]],
        end=host.end[last[chosen]],
        inside=work,
        own=work,
        ops=ops,
        figures={
            "repeats": np.array([chains[one].n for one in chosen.tolist()], np.int64),
            "length": np.array([chains[one].m for one in chosen.tolist()], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(calls[chosen]),
        },
        details=["powers"] * len(chosen),
    )


def _time(tree: Tree, nodes: Pairs, count: int) -> tuple[Floats, Floats]:
    """Time of the nodes of each row, and what of it their calls take however small they are."""
    if tree.context.cpu_program:
        time = tree.rows_of_ops(nodes).total(tree.context.ledger.cost(len(tree.context.op_rows), "compute"), count)
        return time.astype(np.float64), _CALL * np.bincount(nodes.row, minlength=count).astype(np.float64)
    work = _launched(tree, nodes)
    time = work.total(tree.work.end - tree.work.start, count)
    return time.astype(np.float64), _KERNEL * np.bincount(work.row, minlength=count).astype(np.float64)


def _launched(tree: Tree, nodes: Pairs) -> Pairs:
    """GPU work of nodes that belong to rows."""
    work = tree.launched_below(nodes.index)
    return Pairs(nodes.row[work.row], work.index).each_once()


def _chains(tree: Tree) -> list[_Chain]:
    """Gram matrices of a long side whose powers multiply a matrix of its shape, and which nothing else takes."""
    nodes = forward(tree, frozenset(_PRODUCTS))
    nodes = nodes[~tree.engine[nodes]]
    found, of = keys(tree, nodes, "dims", "strides")
    sizes = [_gram(tree, *one) for one in found]
    known = np.array([size is not None for size in sizes], np.bool_)
    if not known.any():
        return []
    nodes, of = nodes[known[of]], of[known[of]]
    # Between the calls of compiled code run operators that the trace does not name.
    outside = ~tree.context.once(inside_compiled)[nodes]
    nodes, of = nodes[outside], of[outside]
    if not 0 < len(nodes) <= _MOST:
        return []
    host = tree.host
    ops = np.flatnonzero(host.group == OP)
    late = (host.attributes.phase[ops] == BACKWARD) | tree.engine[ops]
    at, behind = np.searchsorted(ops, nodes), np.searchsorted(ops, tree.after(nodes))
    chains = []
    for node, size, before, first in zip(
        nodes.tolist(), (sizes[one] for one in of.tolist()), at.tolist(), behind.tolist(), strict=True
    ):
        if size is None:
            continue
        shape, proven = size
        chain = _Chain(node, shape[:-2], *shape[-2:])
        reach = slice(first, first + _REACH)
        near = ops[reach][~late[reach] & (host.thread[ops[reach]] == host.thread[node])]
        if (proven or _turned(tree, chain, ops[max(before - _BEFORE, 0) : before])) and _follow(tree, chain, near):
            chains.append(chain)
    return chains


def _gram(tree: Tree, name: int, dims: int, strides: int) -> tuple[Shape, bool] | None:
    """The factor of a product with its transpose, and whether strides show that the second one is one; None for others."""
    first = _PRODUCTS[tree.context.names[name]]
    factors = tree.shapes.operands(dims)[first : first + 2]
    if len(factors) < 2 or len(factors[0]) < 2 or factors[1] != (*factors[0][:-2], factors[0][-1], factors[0][-2]):
        return None
    *batch, n, m = factors[0]
    if n <= m or m < 2 or math.prod(batch) * n * n < _LEAST:
        return None
    steps = tree.strides.operands(strides)[first : first + 2]
    if len(steps) < 2 or len(steps[0]) != len(factors[0]):
        return factors[0], False
    return (factors[0], True) if steps[1] == (*steps[0][:-2], steps[0][-1], steps[0][-2]) else None


def _turned(tree: Tree, chain: _Chain, before: Ints) -> bool:
    """Tell whether a matrix of the factor's shape is transposed shortly before the product."""
    codes = tree.dims(before).tolist()
    names = [tree.context.names[code] for code in tree.host.name[before].tolist()]
    return any(
        name in _TRANSPOSES and tree.shapes.operands(code)[:1] == (chain.tall,)
        for name, code in zip(names, codes, strict=True)
    )


def _follow(tree: Tree, chain: _Chain, behind: Ints) -> bool:
    """Add what becomes of a Gram matrix up to the next one; False where anything but powers and products takes one of its size."""
    side = size_of(chain.square)
    for op, code in zip(behind.tolist(), tree.dims(behind).tolist(), strict=True):
        name = tree.context.names[tree.host.name[op]]
        if moves_no_data(name) or name in _AROUND:
            continue
        operands = tree.shapes.operands(code)
        first = _PRODUCTS.get(name, -1)
        factors = operands[first : first + 2] if first >= 0 else ()
        if factors == (chain.tall, (*chain.batch, chain.m, chain.n)):
            break
        if chain.square not in operands:
            # Of another layout, its numbers are read by something else; behind the last use that is of something else.
            if not chain.uses and any(size_of(one) == side for one in operands):
                return False
            continue
        if factors == (chain.square, chain.square):
            chain.powers.append(op)
        elif factors == (chain.square, chain.tall):
            chain.uses.append(op)
        elif first >= 0 and chain.uses:
            # Of another matrix of its size, a weight; of this one it would change nothing.
            break
        elif not _is_linear(name, operands, chain):
            return False
        else:
            chain.passes.append(op)
    if not chain.uses:
        return False
    for others in (chain.powers, chain.passes):
        others[:] = [op for op in others if op < chain.uses[-1]]
    return bool(chain.powers)


def _is_linear(name: str, operands: tuple[Shape, ...], chain: _Chain) -> bool:
    """Tell whether an operator copies a matrix, scales it by a number, or adds two; before the first power it may not add.

    What is added there, or in place, or where the power is all that was made so far, may be statistics of many steps, of which
    the matrix at hand is no factor.
    """
    alone = [shape for shape in operands if shape]
    if name in _COPIES or (name in _SCALES and len(alone) == 1):
        return True
    made = len(chain.powers) + len(chain.passes)
    return name in _SUMS and bool(chain.powers) and made > 1 and alone == [chain.square] * 2
