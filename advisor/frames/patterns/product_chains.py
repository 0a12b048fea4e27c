"""Products whose result only another product takes, where the other order needs far fewer multiplications, on the CPU.

(A B) C takes m k n multiplications for the first product of A (m by k) and B (k by n), and m n p for C of p columns; A (B C) takes
k p (m + n). With k = 1 the first product is an outer product: of two vectors for each row of a batch, say. C from the left, and
either of them turned, count the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import forward, keys
from advisor.frames.patterns.product_order import backward_below, pairs_of
from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints
from advisor.roofline.pointwise import broadcast
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import moves_no_data
from advisor.timeline.program.compilation import inside_compiled

_MADE = frozenset({"aten::bmm", "aten::mm", "aten::mul"})
_USES = {"aten::mm": 0, "aten::bmm": 0, "aten::mv": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::addmv": 1}
"""Place of the first factor."""
_AROUND = frozenset({"aten::matmul", "aten::linear", "aten::einsum", "aten::tensordot", "aten::bilinear"})
"""Operators that call the products."""
_PARTS = frozenset({"aten::slice", "aten::select", "aten::diagonal", "aten::narrow"})
"""Views of a part."""
_LINEAR = frozenset({"aten::clone", "aten::copy_", "aten::_to_copy"})
_SCALES = frozenset({"aten::mul", "aten::mul_", "aten::div", "aten::div_", "aten::neg"})
_ADDS = frozenset({"aten::add", "aten::add_"})
_LEAST = 1 << 14
"""Elements of the first product: a smaller one is written in microseconds."""
_FRACTION = 3
"""The other order must take less than this part of the arithmetic."""
_THIN = 2.0
"""Times as long as recorded that a multiplication, or a number moved, of the other order is taken to last: an assumption."""
_MOVES = 1.0
"""ns in which a core moves a number, where what was recorded does not show that it is faster: an assumption."""
_CALL = 10_000
"""ns of a call of a product and what leads to it, which the other order has as well: an assumption."""
_REACH, _MOST = 80, 4000
"""Operators behind a product among which its use is looked for, and the products that are looked at."""


class _Product(Struct, frozen=True):
    """Products of matrices m by k and k by n, as many as a batch has."""

    batch: int
    m: int
    k: int
    n: int

    @property
    def size(self) -> int:
        return self.batch * self.m * self.n

    def shows(self, shape: Shape, *, flat: bool) -> bool:
        """Tell whether a product takes these matrices by a shape, as they are or turned; *flat*: or all below each other."""
        if len(shape) < 2 or size_of(shape) != self.size:
            return False
        *_, rows, columns = shape
        plain = ((self.m, self.n), (self.n, self.m))
        return (rows, columns) in plain or (flat and any(shape[-2:] == (self.batch * r, c) for r, c in plain))


class _Chain(Struct, eq=False):
    """A product with the copies of it and the products that take it: their columns, and numbers that the other order moves."""

    node: int
    product: _Product
    passes: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    columns: int = 0

    @property
    def wrong(self) -> bool:
        gone, left = self.arithmetic()
        return bool(self.uses) and _FRACTION * left < gone

    def arithmetic(self) -> tuple[int, int]:
        """Multiplications of this order, and of the other one."""
        one = self.product
        return one.size * (one.k + self.columns), one.batch * one.k * (one.m + one.n) * self.columns

    def moved(self) -> tuple[int, int]:
        """Numbers that the two orders read and write, at most: matrices for each of the batch, thin ones likewise."""
        one, uses = self.product, len(self.uses)
        factors = one.batch * one.k * (one.m + one.n)
        ends = one.batch * self.columns * (one.m + one.n)
        return one.size * (
            1 + uses + 2 * len(self.passes)
        ), factors * uses + ends + 2 * one.batch * one.k * self.columns

    def part(self, time: float, trains: bool) -> float:
        """The part of *time* that goes: all but the other order's arithmetic or numbers moved, whichever is more, and its calls."""
        (gone, left), (large, thin) = self.arithmetic(), self.moved()
        times = 3 if trains else 1
        numbers = min(thin / large * time, _MOVES * thin * times)
        kept = _THIN * max(left / gone * time, numbers) + _CALL * times * (1 + len(self.uses))
        return float(np.clip(1 - kept / max(time, 1.0), 0, 1))


def product_chains(tree: Tree) -> Occurrences | None:
    """One row per product that the other order would spare, with copies of it, the products that take it, and their backward pass.

    ``repeats`` are the columns that it multiplies, ``length`` its inner dimension, ``part`` is what goes of its time.
    """
    if not tree.context.cpu_program:
        return None
    chains = _chains(tree)
    if not chains:
        return None
    host, count = tree.host, len(chains)
    calls = np.array([chain.node for chain in chains], np.int64)
    last = np.array([chain.uses[-1] for chain in chains], np.int64)
    low, high = calls, tree.after(last)
    forms = pairs_of([[chain.node, *chain.passes] for chain in chains])
    uses = pairs_of([chain.uses for chain in chains])
    made, taken = (backward_below(tree, pairs, low, high) for pairs in (forms, uses))
    twice = np.array([_added(tree, chain, taken.index[taken.row == row], made.index[made.row == row])
                      for row, chain in enumerate(chains)], np.bool_)  # fmt: skip
    trains = np.bincount(made.row, minlength=count) > 0
    ops = tree.rows_of_ops(join(forms, uses, made, taken))
    time = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), "compute"), count)
    part = np.array([chain.part(*one) for chain, *one in zip(chains, time.tolist(), trains.tolist(), strict=True)])
    chosen = np.flatnonzero(~twice & (part > 0) & (time > 0))
    if not len(chosen):
        return None
    number = np.full(count, -1)
    number[chosen] = np.arange(len(chosen))
    kept = [chains[one] for one in chosen.tolist()]
    ops = ops.where(number[ops.row] >= 0)
    ops.row = number[ops.row]
    return Occurrences(
        kind="product-chain",
        node=calls[chosen],
        begin=host.start[calls[chosen]],
        end=host.end[last[chosen]],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        figures={
            "repeats": np.array([chain.columns for chain in kept], np.int64),
            "length": np.array([chain.product.k for chain in kept], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(calls[chosen]),
        },
        details=["outer products" if chain.product.k == 1 else "products" for chain in kept],
    )


def _chains(tree: Tree) -> list[_Chain]:
    """Products outside of compiled code and of the backward pass, whose result another product takes, and nothing else."""
    nodes = forward(tree, _MADE)
    nodes = nodes[~tree.engine[nodes]]
    found, of = keys(tree, nodes, "dims")
    sizes = [product_of(tree.context.names[name], tree.shapes.operands(dims)) for name, dims in found]
    large = np.array([size is not None and size.size >= _LEAST for size in sizes], np.bool_)
    if not large.any():
        return []
    nodes, of = nodes[large[of]], of[large[of]]
    # Between the calls of compiled code run operators that the trace does not name.
    outside = ~tree.context.once(inside_compiled)[nodes]
    nodes, of = nodes[outside], of[outside]
    if not 0 < len(nodes) <= _MOST:
        return []
    starts = {node: size for node, one in zip(nodes.tolist(), of.tolist(), strict=True) if (size := sizes[one])}
    ops = np.flatnonzero(tree.host.group == OP)
    late = (tree.host.attributes.phase[ops] == BACKWARD) | tree.engine[ops]
    codes, behind = tree.dims(ops), tree.after(nodes)
    chains = []
    for node, first in zip(nodes.tolist(), behind.tolist(), strict=True):
        chain = _Chain(node, starts[node])
        at = int(np.searchsorted(ops, first))
        reach = slice(at, at + _REACH)
        if _follow(tree, chain, (ops[reach], codes[reach], late[reach]), starts) and chain.wrong:
            chains.append(chain)
    return chains


def _follow(tree: Tree, chain: _Chain, behind: tuple[Ints, Ints, Bools], starts: dict[int, _Product]) -> bool:
    """Add what becomes of a product, up to the next one as large or the backward pass; False where anything else takes it."""
    size, doubtful = chain.product.size, False
    for op, name, operands in _computing(tree, chain, behind):
        if name in _PARTS and not chain.uses:
            # A part of it is read by itself, or written: a mask by s[:, :, 32:] = 0 shows no other operand of its size.
            if operands and size_of(operands[0]) == size:
                return False
            continue
        takers = sum(size_of(shape) == size for shape in operands)
        if takers:
            columns, result = _taken(name, operands, chain.product)
            if columns and not doubtful:
                chain.uses.append(op)
                chain.columns += columns
                doubtful = result == size
            elif chain.uses:
                # What the product gives may be as large as what it takes: by its size it is not known which of them it is.
                return doubtful and takers == 1
            elif not _is_linear(name, operands):
                return False
            else:
                chain.passes.append(op)
        elif chain.uses and op in starts and starts[op].size == size:
            break
    return True


def _computing(
    tree: Tree, chain: _Chain, behind: tuple[Ints, Ints, Bools]
) -> Iterator[tuple[int, str, tuple[Shape, ...]]]:
    """Yield the operators behind a product that compute, and until it is used the views of parts; up to the backward pass."""
    thread = tree.host.thread[chain.node]
    for op, code, done in zip(*(column.tolist() for column in behind), strict=True):
        if done or tree.host.thread[op] != thread:
            return
        name = tree.context.names[tree.host.name[op]]
        if (name in _PARTS and not chain.uses) or not (moves_no_data(name) or name in _AROUND):
            yield op, name, tree.shapes.operands(code)


def _is_linear(name: str, operands: tuple[Shape, ...]) -> bool:
    """Tell whether an operator copies a tensor, or multiplies it by one number."""
    return name in _LINEAR or (name in _SCALES and sum(1 for shape in operands if shape) == 1)


def _taken(name: str, operands: tuple[Shape, ...], product: _Product) -> tuple[int, int]:
    """Columns (or rows, from the left) by which a product multiplies this one, and the numbers that it gives; zeros for others."""
    first = _USES.get(name, -1)
    if first < 0 or len(operands) < first + 2:
        return 0, 0
    left, right = operands[first : first + 2]
    if product.shows(left, flat=True):
        columns = right[-1] if len(right) == len(left) else 1
        return columns, product.size // left[-1] * columns
    if product.shows(right, flat=False) and len(left) == len(right):
        rows = left[-2]
        return rows, product.size // right[-2] * rows
    return 0, 0


def product_of(name: str, operands: tuple[Shape, ...]) -> _Product | None:
    """Return the sizes of a product, or of a multiplication of columns by rows that is an outer product; None for others.

    What cpu/product-order looks at, thin factors of one large matrix, is left to it.
    """
    if len(operands) < 2 or min(len(operands[0]), len(operands[1])) < 2:
        return None
    left, right = operands[:2]
    if name == "aten::mul":
        if left[-1] != 1:
            left, right = right, left
        outer = left[-1] == right[-2] == 1 and left[-2] > 1 and right[-1] > 1
        batch = broadcast([left[:-2], right[:-2]]) if outer else None
        return _Product(math.prod(batch), left[-2], 1, right[-1]) if batch is not None and 0 not in batch else None
    if len(left) != len(right) or left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    (m, k), n = left[-2:], right[-1]
    return None if name == "aten::mm" and 2 * k <= min(m, n) else _Product(math.prod(left[:-2]), m, k, n)


def _added(tree: Tree, chain: _Chain, taken: Ints, made: Ints) -> bool:
    """Tell whether backward adds another gradient of the product to that which its takers give: then it is used elsewhere, too."""
    if not len(taken) or not len(made):
        return False
    nodes = np.arange(int(taken.min()), int(made.min()))
    nodes = nodes[tree.codes_of(_ADDS.__contains__)[tree.host.name[nodes]] & (tree.host.group[nodes] == OP)]
    # Each of its takers but the first gives one that is added.
    adds = sum(
        any(size_of(shape) == chain.product.size for shape in tree.shapes.operands(code))
        for code in tree.dims(nodes).tolist()
    )
    return adds > len(chain.uses) - 1
