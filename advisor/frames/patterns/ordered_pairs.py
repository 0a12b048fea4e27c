"""Tensors of all pairs that say which of two is larger, written out only to be summed up: a sort and a cumulative sum do the same.

``time[None] >= time[:, None]`` is a flag for each pair of n; multiplied by a vector, or filled into one, and summed up (by a sum, a
log-sum-exp, a product with the mask) it is, for each of the n, a sum over those that are larger: the sum up to its place in
order. So is a product with a triangle of ones. Where the pairs have numbers of their own (differences, dot products), no order
tells the sum.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import expansions, following, forward, keys, numbers, stored, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import COPIES, given_by
from advisor.intervals import Ints
from advisor.roofline.pointwise import broadcast

_ORDERS = frozenset(f"aten::{name}" for name in ("gt", "ge", "lt", "le"))
_TRIANGLES = frozenset({"aten::tril", "aten::triu"})
_ALIKE = frozenset({"eq", "ne"})
_KEEPS = frozenset(
    {"logical_not", "bitwise_not", "to", "_to_copy", "copy_", "clone", "contiguous", "float", "double", "type_as", "exp", "exp_",
     "ones_like", "zeros_like", "full_like"}
)  # fmt: skip
"""Operators on the tensor alone behind which it is still one of the mask and of a vector."""
_JOINS = frozenset(
    {"mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "where", "masked_fill", "masked_fill_", "logical_and",
     "logical_or", "bitwise_and", "bitwise_or", "__and__", "__or__"}
)  # fmt: skip
"""The same of a tensor with a vector or a number."""
_ADDS = frozenset({"add", "add_", "sub", "sub_", "where"})
"""Those of two such tensors whose sum is the sum of each."""
_SUMS = frozenset({"sum", "nansum", "mean", "logsumexp", "count_nonzero", "any", "all", "amax", "amin"})
_PRODUCTS = frozenset({"mm", "matmul", "mv", "linear", "einsum", "addmm", "addmv", "bmm", "baddbmm"})
_TIMES = 8
_LEAST = 1 << 14
_REACH = 400
_MOST = 20_000
_BEFORE = 8
_FIXED_NS, _NS = 130_000.0, 100.0
"""Time of a sort, a cumulative sum and their backward pass: their calls, and for each number."""
NONE, MASK, KEEP, JOIN, ADD, SUM, PRODUCT, OTHER = range(8)
"""Uses of the tensor by an operator; MASK makes another one of that shape."""
COUNTS, TOTALS, TRIANGLE = "counts", "sums", "triangle"


class _Mask(Struct, frozen=True):
    """A tensor of all pairs: its shape, and the numbers that it was made of."""

    shape: Shape
    numbers: int
    triangle: bool = False


class _Chain(Struct):
    """Operators that make and take one: with what it is summed."""

    mask: _Mask
    nodes: list[int]
    masks: list[int]
    detail: str


def ordered_pairs(tree: Tree) -> Occurrences | None:
    """One row per tensor of comparisons of all pairs that is summed up, and used for nothing else, in a program on the CPU.

    ``repeats`` says how many times larger it is than what it is made of, ``length`` how many numbers these are, ``part`` what an
    order of these does not take. ``detail``: counts (of the mask alone), sums (of what it picks), triangle (of ones).
    """
    if not tree.context.cpu_program:
        return None
    nodes, masks = _masks(tree)
    chains = _chains(tree, nodes, masks)
    if not chains:
        return None
    first = np.array([chain.nodes[0] for chain in chains], np.int64)
    marks = [(row, node) for row, chain in enumerate(chains) for node in chain.nodes]
    own = Pairs(*(np.array(column, np.int64) for column in zip(*marks, strict=True)))
    sizes = np.array([math.prod(chain.mask.shape) for chain in chains], np.int64)
    ops = worked(tree, join(expansions(tree, first, sizes), own), backward=np.ones(len(chains), np.bool_))
    of = tree.context.op_rows[ops.index]
    top = tree.host.parent[of]
    length = np.where(np.isin(top, of), 0, tree.host.end[of] - tree.host.start[of])
    took = np.bincount(ops.row, weights=length, minlength=len(chains))
    made = np.array([chain.mask.numbers for chain in chains], np.int64)
    part = np.maximum(1 - (_FIXED_NS + _NS * made) / np.maximum(took, 1), 0)
    return Occurrences(
        kind="ordered-pairs",
        node=first,
        begin=tree.host.start[first],
        end=tree.host.end[[max(chain.nodes) for chain in chains]],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        figures={
            "repeats": sizes // np.maximum(made, 1),
            "length": made,
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(first),
        },
        details=[chain.detail for chain in chains],
    )


def _masks(tree: Tree) -> tuple[Ints, list[_Mask]]:
    """Operators that compare all pairs of two vectors, or cut a triangle of ones, in order, and what they make."""
    nodes = forward(tree, _ORDERS | _TRIANGLES)
    if not 0 < len(nodes) <= _MOST:
        return nodes[:0], []
    found, of = keys(tree, nodes, "dims", "strides")
    names = tree.context.names
    facts = [
        _triangle(tree.shapes.operands(dims))
        if names[name] in _TRIANGLES
        else _compared(tree.shapes.operands(dims), tree.strides.operands(steps))
        for name, dims, steps in found
    ]
    told = [facts[one] for one in of.tolist()]
    kept = [
        at
        for at, fact in enumerate(told)
        if fact is not None and (not fact.triangle or _of_ones(tree, int(nodes[at]), fact))
    ]
    return nodes[kept], [fact for at in kept if (fact := told[at]) is not None]


def _compared(operands: tuple[Shape, ...], steps: tuple[Shape, ...]) -> _Mask | None:
    """The result of two vectors that broadcast against each other, in front of them a batch; None for other operands."""
    if len(operands) < 2 or not operands[0] or not operands[1]:
        return None
    left, right = _real(operands, steps)[:2]
    rank = max(len(left), len(right))
    left, right = (1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right
    shape = tuple(map(max, left, right))
    differ = [at for at in range(rank) if left[at] != right[at]]
    sides = {left[at] > 1 for at in differ if 1 in (left[at], right[at])}
    if len(differ) != 2 or len(sides) != 2 or any(shape[at] > 1 for at in range(min(differ), rank) if at not in differ):
        return None
    made = math.prod(left) + math.prod(right)
    size = math.prod(shape)
    return _Mask(shape, made) if _LEAST <= size < 1 << 50 and size >= _TIMES * made else None


def _real(operands: tuple[Shape, ...], steps: tuple[Shape, ...]) -> list[Shape]:
    """Operands as their memory holds them; as they are where no strides were recorded."""
    return [stored(shape, steps[at]) if at < len(steps) else shape for at, shape in enumerate(operands)]


def _triangle(operands: tuple[Shape, ...]) -> _Mask | None:
    shape = operands[0] if operands else ()
    square = len(shape) == 2 and shape[0] == shape[1] and _LEAST <= math.prod(shape) < 1 << 50
    return _Mask(shape, shape[0], triangle=True) if square else None


def _of_ones(tree: Tree, node: int, mask: _Mask) -> bool:
    """Tell whether what a triangle is cut of are ones, made just before."""
    host, names = tree.host, tree.context.names
    for at in range(node - 1, max(node - _BEFORE, -1), -1):
        name = names[host.name[at]]
        if name in ("aten::ones", "aten::ones_like") and host.thread[at] == host.thread[node]:
            shape = numbers(tree.texts(int(tree.context.op_column(np.array([at]), "concrete")[0])), 0)
            operands = tree.shapes.operands(int(tree.dims(np.array([at]))[0]))
            return shape == mask.shape or mask.shape in operands
    return False


def _chains(tree: Tree, nodes: Ints, masks: list[_Mask]) -> list[_Chain]:
    """Tensors that are summed up and used for nothing else, each with those that are added to it before."""
    if not len(nodes):
        return []
    low = tree.after(nodes)
    behind = following(tree, nodes, low, low + _REACH, COPIES)
    step = tree.context.recording.host_step_of(tree.host.start[behind.index])
    behind = behind.where(step == tree.context.recording.host_step_of(tree.host.start[nodes])[behind.row])
    found, of = keys(tree, behind.index, "dims", "strides")
    uses: dict[tuple[_Mask, int], tuple[int, int]] = {}
    at, until = (np.searchsorted(behind.row, np.arange(len(nodes)), side=side).tolist() for side in ("left", "right"))
    taken: set[int] = set()
    chains = []
    for row, (node, mask) in enumerate(zip(nodes.tolist(), masks, strict=True)):
        if node in taken:
            continue
        here = slice(at[row], until[row])
        told = []
        for use_node, key in zip(behind.index[here].tolist(), of[here].tolist(), strict=True):
            if (mask, key) not in uses:
                uses[mask, key] = _use(tree, mask, *found[key])
            if uses[mask, key][0] != NONE:
                told.append((use_node, *uses[mask, key]))
        chain = _chain(tree, node, mask, told)
        if chain is not None:
            taken.update(chain.masks)
            chains.append(chain)
    return chains


def _chain(tree: Tree, node: int, mask: _Mask, uses: list[tuple[int, int, int]]) -> _Chain | None:
    """Follow the uses of a tensor (operator, use, how many it takes) up to its sums; None where one is for something else."""
    place, name = tree.host.attributes.user, tree.host.name
    chain, live, summed = _Chain(mask, [node], [node], TRIANGLE if mask.triangle else COUNTS), 1, False
    for at, use, many in uses:
        if use == MASK and summed and place[at] == place[node] and name[at] == name[node]:
            break  # the next turn of a loop
        live += use == MASK
        if use == OTHER or many > live or (use == JOIN and many > 1):
            return None
        live -= many - 1 if use == ADD else 0
        summed |= use in (SUM, PRODUCT)
        if use == MASK:
            chain.masks.append(at)
        elif chain.detail == COUNTS and use in (PRODUCT, JOIN):
            chain.detail = TOTALS
        chain.nodes.append(at)
    return chain if summed else None


def _use(tree: Tree, mask: _Mask, name: int, dims: int, steps: int) -> tuple[int, int]:
    """The use of such a tensor by an operator, and how many of them it takes."""
    operands, strides = tree.shapes.operands(dims), tree.strides.operands(steps)
    operator = tree.context.names[name].removeprefix("aten::")
    real = _real(operands, strides)
    many = sum(shape == mask.shape for shape in real)
    if any(shape != mask.shape and math.prod(shape) == math.prod(mask.shape) for shape in real):
        return OTHER, 0  # the same, with other dimensions
    if not many:
        return (NONE, 0) if not _gives(operands, mask.shape) else (MASK, 0) if _compares(operator) else (OTHER, 0)
    wide = any(math.prod(shape) > mask.numbers for shape in real if shape and shape != mask.shape)
    return _taken(operator, many, wide=wide)


def _taken(operator: str, many: int, *, wide: bool) -> tuple[int, int]:
    """The use by an operator that takes *many* of them; *wide*: beside something larger than a vector."""
    if operator in _SUMS:
        return SUM, many
    if operator in _PRODUCTS:
        return (PRODUCT, 1) if many == 1 else (OTHER, many)
    if wide:
        return OTHER, many
    if operator in _KEEPS:
        return KEEP, 1
    if operator in _ADDS and many > 1:
        return ADD, many if operator != "where" else 1
    return (JOIN, many) if operator in _JOINS else (OTHER, many)


def _compares(operator: str) -> bool:
    return operator in _ALIKE or f"aten::{operator}" in _ORDERS


def _gives(operands: tuple[Shape, ...], shape: Shape) -> bool:
    """Tell whether two of an operator's operands make a tensor of that shape: by pairs, or as a product."""
    held = [one for one in operands if one]
    if len(held) < 2:
        return False
    return broadcast(held[:2]) == shape or math.prod(shape) in given_by(held[0], held[1])
