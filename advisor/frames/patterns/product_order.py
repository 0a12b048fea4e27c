"""Products of matrices in the wrong order: two factors are multiplied out to a large matrix, which then multiplies a few rows.

(B A) x takes k m n multiply-adds for the product of B (m by k) and A (k by n), and m n for each of the t rows of x; B (A x) takes
k (m + n) for each. Where the product is added to another matrix first (a low-rank adapter, W + B A), that one's product with x
stays; what goes is the product, each pass over a matrix of its size, and in the backward pass the gradient of the sum, unless
the other matrix learns as well.
"""

from __future__ import annotations

from enum import Enum, auto

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.adapters import of_adapters
from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, size_of, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, distinct
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import is_view

_FACTORS = {"aten::mm": 0, "aten::addmm": 1}
"""Place of the first factor."""
_USES = {"aten::linear": (1,), "aten::matmul": (0, 1), "aten::mm": (0, 1), "aten::addmm": (1, 2)}
"""Places at which a product takes the matrix."""
_SCALES = frozenset({"aten::mul", "aten::mul_", "aten::div", "aten::div_", "aten::neg"})
_SUMS = frozenset({"aten::add", "aten::add_", "aten::sub", "aten::sub_"})
_COPIES = frozenset({"aten::to", "aten::_to_copy", "aten::clone", "aten::contiguous"})
_STORE = "torch::autograd::AccumulateGrad"
_LEAST = 1 << 14
"""Elements of the product: a smaller one is written in microseconds."""
_FRACTION = 3
"""The other order must take less than this part of the arithmetic."""
_THIN = 2.0
"""Times as long as a multiply-add of the large product that one of thin products is taken to last: an assumption."""
_KERNELS = 5_000
"""ns on a GPU of a kernel that is launched besides, however little it moves."""
_REACH, _MOST = 60, 4000
"""The calls behind a product in which its use is looked for, and the products that are looked at."""


class _Role(Enum):
    """Part of an operator in what becomes of a product."""

    NONE = auto()
    LINEAR = auto()
    SUM = auto()
    USE = auto()
    END = auto()


class _Chain(Struct, eq=False):
    """A product with what is done to it: passes over it, uses, and the rows that these multiply."""

    call: int
    size: tuple[int, int, int]
    passes: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    rows: int = 0
    added: bool = False

    def arithmetic(self, learns: bool, trains: bool) -> tuple[int, int]:
        """Multiply-adds that go, and those that take their place; of a backward pass that many again, or twice."""
        m, k, n = self.size
        product, large, thin = m * k * n, m * n * self.rows, k * (m + n) * self.rows
        if not trains:
            return product + (0 if self.added else large), thin
        gradients = 0 if learns else large
        return 3 * product + (gradients if self.added else 3 * large), 3 * thin


def product_orders(tree: Tree) -> Occurrences | None:
    """One row per product of two matrices that another order would spare, with its passes, uses and backward pass.

    ``repeats`` are the rows that it multiplies, ``length`` its inner dimension, ``part`` is what goes of its time: all but what
    the thin products take at half the rate of the large one, and passes over their result; on a GPU what they move.
    """
    chains = _chains(tree)
    if not chains:
        return None
    host, count = tree.host, len(chains)
    calls = np.array([chain.call for chain in chains], np.int64)
    last = np.array([chain.uses[-1] for chain in chains], np.int64)
    passes = pairs_of([[chain.call, *chain.passes] for chain in chains])
    uses = pairs_of([chain.uses for chain in chains])
    low, high = calls, tree.after(last)
    early, late = (backward_below(tree, pairs, low, high) for pairs in (passes, uses))
    learned = _stored(tree)
    learns = np.array([bool({chain.size[::2], chain.size[::-2]} & learned) for chain in chains], np.bool_)
    trains = np.bincount(early.row, minlength=count) > 0
    added = np.array([chain.added for chain in chains], np.bool_)
    inner = _of_size(tree, late, chains)
    kept = join(uses, late)
    nodes = join(passes, early, kept.where(~added[kept.row]), inner.where(added[inner.row] & ~learns[inner.row]))
    work = [chain.arithmetic(bool(one), bool(two)) for chain, one, two in zip(chains, learns, trains, strict=True)]
    wrong = np.array([_FRACTION * some < gone for gone, some in work], np.bool_)
    if not tree.context.cpu_program:
        own = _launched(tree, nodes)
        time = own.total(tree.work.end - tree.work.start, count)
        thin = _passes_on_gpu(tree, chains, trains)
        part = np.clip(1 - thin / np.maximum(time, 1), 0, 1)
        return _occurrences(tree, chains, np.flatnonzero(wrong & (part > 0) & (time > 0)), NOTHING, part, own)
    ops = tree.rows_of_ops(nodes)
    time = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), "compute"), count)
    spent = uses.total(host.end - host.start, count)
    large = np.array([chain.size[0] * chain.size[2] * chain.rows for chain in chains], np.float64)
    thin = _THIN * np.array([some for _, some in work]) * spent / np.maximum(large, 1)
    # What passed over the matrix (a scale, a sum) passes over the result for these rows instead.
    passing = pairs_of([chain.passes for chain in chains]).total(host.end - host.start, count) * (1 + trains)
    thin += passing * np.array([min(chain.rows / min(chain.size[::2]), 1.0) for chain in chains])
    part = np.clip(1 - thin / np.maximum(time, 1), 0, 1)
    return _occurrences(tree, chains, np.flatnonzero(wrong & (part > 0) & (time > 0)), ops, part, NOTHING)


def _launched(tree: Tree, nodes: Pairs) -> Pairs:
    """GPU work of nodes that belong to rows."""
    work = tree.launched_below(nodes.index)
    return Pairs(nodes.row[work.row], work.index).each_once()


def _passes_on_gpu(tree: Tree, chains: list[_Chain], trains: Bools) -> Floats:
    """ns that the other order takes on a GPU: thin products move numbers, at the rate of the passes over the large matrix.

    Of each row they read the input, and write the result, which is scaled and added to another one; twice that backward.
    Where nothing passes over the matrix, writing it is such a pass.
    """
    passes = [chain.passes or [chain.call] for chain in chains]
    time = _launched(tree, pairs_of(passes)).total(tree.work.end - tree.work.start, len(chains))
    moved = np.array([(2 * len(chain.passes) or 1) * chain.size[0] * chain.size[2] for chain in chains], np.float64)
    each = np.array([chain.rows * (chain.size[2] + (5 if chain.added else 1) * chain.size[0]) for chain in chains])
    kernels = _KERNELS * np.array([3 if chain.added else 1 for chain in chains])
    found: Floats = (1 + 2 * trains) * (each * time / moved + kernels)
    return found


def _occurrences(
    tree: Tree, chains: list[_Chain], chosen: Ints, ops: Pairs, part: Floats, work: Pairs
) -> Occurrences | None:
    """Rows of the chosen chains."""
    if not len(chosen):
        return None
    host = tree.host
    calls = np.array([chain.call for chain in chains], np.int64)
    last = np.array([chain.uses[-1] for chain in chains], np.int64)
    number = np.full(len(chains), -1)
    number[chosen] = np.arange(len(chosen))
    ops, work = (pairs.where(number[pairs.row] >= 0) for pairs in (ops, work))
    own = Pairs(number[work.row], work.index)
    return Occurrences(
        kind="product-order",
        node=calls[chosen],
        begin=host.start[calls[chosen]],
        end=host.end[last[chosen]],
        inside=own,
        own=own,
        ops=Pairs(number[ops.row], ops.index),
        figures={
            "repeats": np.array([chains[one].rows for one in chosen.tolist()], np.int64),
            "length": np.array([chains[one].size[1] for one in chosen.tolist()], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(calls[chosen]),
        },
        details=["added" if chains[one].added else "alone" for one in chosen.tolist()],
    )


def pairs_of(nodes: list[list[int]]) -> Pairs:
    """Return the nodes of each row as pairs."""
    row = np.repeat(np.arange(len(nodes)), [len(some) for some in nodes])
    return Pairs(row, np.array([node for some in nodes for node in some], np.int64))


def _chains(tree: Tree) -> list[_Chain]:
    """Products of two matrices in the forward pass whose result only linear operators touch before a product uses it."""
    host = tree.host
    nodes = tree.ops(tree.codes_of(_FACTORS.__contains__))
    nodes = nodes[(host.attributes.phase[nodes] != BACKWARD) & ~tree.engine[nodes]]
    keys = np.stack([host.name[nodes].astype(np.int64), tree.dims(nodes)], axis=1)
    kinds, of = np.unique(keys, axis=0, return_inverse=True)
    sizes = [_size(tree, *kind) for kind in kinds.tolist()]
    known = np.array([size is not None for size in sizes], np.bool_)[of.ravel()]
    nodes, of = nodes[known], of.ravel()[known]
    if not 0 < len(nodes) <= _MOST:
        return []
    # What is added to a layer's product is merged into its weight.
    beside = np.isin(tree.calls[nodes], of_adapters(tree))
    nodes, of = nodes[~beside], of[~beside]
    calls = tree.calls[nodes]
    outer = tree.outermost[host.attributes.phase[tree.outermost] != BACKWARD]
    start = dict(zip(calls.tolist(), (sizes[one] for one in of.tolist()), strict=True))
    found = []
    for call, one, node in zip(calls.tolist(), of.tolist(), nodes.tolist(), strict=True):
        size = sizes[one]
        if call < 0 or size is None:
            continue
        chain = _Chain(call, size, added=tree.context.names[host.name[node]] == "aten::addmm")
        at = int(np.searchsorted(outer, call, side="right"))
        _follow(
            tree, chain, [op for op in outer[at : at + _REACH].tolist() if host.thread[op] == host.thread[call]], start
        )
        if chain.uses and chain.rows:
            found.append(chain)
    return found


def _follow(tree: Tree, chain: _Chain, behind: list[int], starts: dict[int, tuple[int, int, int] | None]) -> None:
    """Add what becomes of a product, up to the next one as large, or the first operator that is no part of it."""
    for op in behind:
        other = starts.get(op)
        if other is not None and {other[0], other[2]} == {chain.size[0], chain.size[2]}:
            return
        role, rows = _role(tree, chain, op)
        if role is _Role.USE:
            chain.uses.append(op)
            chain.rows += rows
        elif role is _Role.END:
            # What ends it before its use shows that it is used otherwise; behind a use it may be of anything.
            return
        elif role is not _Role.NONE and not chain.uses:
            chain.passes.append(op)
            chain.added |= role is _Role.SUM


def _role(tree: Tree, chain: _Chain, op: int) -> tuple[_Role, int]:
    """The part of an operator, and of a use the rows that it multiplies."""
    name = tree.context.names[tree.host.name[op]]
    m, _, n = chain.size
    operands = tree.shapes.operands(int(tree.dims(np.array([op]))[0]))
    if is_view(name) or not any(size_of(shape) == m * n for shape in operands):
        return _Role.NONE, 0
    if name in _USES:
        rows = _multiplied(name, operands, (m, n))
        return (_Role.USE, rows) if rows else (_Role.END, 0)
    alone = [shape for shape in operands if shape]
    if name in _COPIES or (name in _SCALES and len(alone) == 1):
        return _Role.LINEAR, 0
    same = all(shape in ((m, n), (n, m)) for shape in alone)
    return (_Role.SUM, 0) if name in _SUMS and same and len(alone) == 2 else (_Role.END, 0)


def _multiplied(name: str, operands: tuple[Shape, ...], matrix: tuple[int, int]) -> int:
    """Rows that a product multiplies with a matrix, or its transpose; 0 where it does not take it."""
    places = _USES[name]
    for place in places:
        if place < len(operands) and operands[place] in (matrix, matrix[::-1]):
            other = operands[sum(places) - place if len(places) > 1 else 0]
            along = 1 if name == "aten::linear" or place != places[-1] else 0
            shared = operands[place][along]
            return size_of(other) // shared if shared in other else 0
    return 0


def _size(tree: Tree, name: int, dims: int) -> tuple[int, int, int] | None:
    """Rows, inner dimension and columns of a product that is larger than both of its factors; None for others."""
    first = _FACTORS[tree.context.names[name]]
    operands = tree.shapes.operands(dims)
    if len(operands) < first + 2 or len(operands[first]) != 2 or len(operands[first + 1]) != 2:
        return None
    (m, k), (inner, n) = operands[first : first + 2]
    if k != inner or m * n < _LEAST or 2 * k > min(m, n) or (first and operands[0] != (m, n)):
        return None
    return m, k, n


def backward_below(tree: Tree, calls: Pairs, low: Ints, high: Ints) -> Pairs:
    """Nodes of the backward pass of calls and of what they call."""
    below = spread(calls.index, tree.after(calls.index))
    nodes = Pairs(calls.row[below.row], below.index)
    nodes = nodes.where((tree.sequence[nodes.index] >= 0) & ~tree.engine[nodes.index])
    return tree.backward_nodes(nodes.each_once(), low, high).each_once()


def _of_size(tree: Tree, late: Pairs, chains: list[_Chain]) -> Pairs:
    """Products in the backward pass that give the gradient of the matrix: as large as it."""
    below = spread(late.index, tree.after(late.index))
    nodes = Pairs(late.row[below.row], below.index).each_once()
    mm = tree.codes_of("aten::mm".__eq__)
    nodes = nodes.where(mm[tree.host.name[nodes.index]] & (tree.host.group[nodes.index] == OP))
    keep = []
    for row, code in zip(nodes.row.tolist(), tree.dims(nodes.index).tolist(), strict=True):
        operands = tree.shapes.operands(code)
        m, _, n = chains[row].size
        keep.append(len(operands) > 1 and _gives(operands) in ((m, n), (n, m)))
    return nodes.where(np.array(keep, np.bool_))


def _gives(operands: tuple[Shape, ...]) -> Shape:
    left, right = operands[:2]
    return (left[0], right[1]) if len(left) == len(right) == 2 else ()


def _stored(tree: Tree) -> set[Shape]:
    """Shapes of parameters whose gradients are stored."""
    nodes = tree.ops(tree.codes_of(_STORE.__eq__))
    return {operands[0] for code in distinct(tree.dims(nodes)).tolist() if (operands := tree.shapes.operands(code))}
