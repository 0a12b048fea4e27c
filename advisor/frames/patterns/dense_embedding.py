"""Gradients of embeddings that have a row for each of the table's, though the batch read few: written, zeroed, and updated with."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.frames import optimizers
from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.frames.patterns.updates import LISTED, Shape, first_operand
from advisor.intervals import Bools, Ints, coded, distinct, summed
from advisor.timeline.calls import BACKWARD, FORWARD, OP, ZERO_GRAD

_DENSE = re.compile(r"^aten::(?:embedding|_embedding_bag)_dense_backward$")
_STORE = "torch::autograd::AccumulateGrad"
_ZERO = re.compile(r"^aten::(?:_foreach_)?zero_$")
_PRODUCT = re.compile(r"^aten::(?:linear|t|transpose|matmul|mm|addmm|einsum|numpy_T|permute)$")
Floats = npt.NDArray[np.float64]
MILLION = 1_000_000
"""A part is kept as so many of a million."""
_MOST = 20_000


@dataclass(eq=False)
class _Tables:
    """Dense gradients in order: the operator that made each, the node that stores it, its shape, the number of indices."""

    node: Ints
    store: Ints
    shape: list[Shape]
    indices: Ints


def dense_embeddings(tree: Tree) -> Occurrences | None:
    """One row per dense gradient of an embedding, with what is done to it: stored, zeroed, and the step of the optimizer.

    ``length`` are the rows of the table and ``repeats`` the indices, at least as many as rows were read; ``part`` is what a
    gradient of these rows alone spares: all but their part, and of an operator on a list of tensors the table's part of it.
    A table that is also the weight of a product (tied weights) has a dense gradient anyway, and is none.
    """
    tables = _tables(tree)
    if tables is None:
        return None
    host, count = tree.host, len(tables.node)
    rows = np.array([shape[0] for shape in tables.shape], np.int64)
    spared = 1 - np.minimum(tables.indices / rows, 1.0)
    parts = [(Pairs(np.arange(count), nodes), np.ones(count)) for nodes in (tables.node, tables.store)]
    parts.append(_handled(tree, tables))
    pairs = Pairs(np.concatenate([pair.row for pair, _ in parts]), np.concatenate([pair.index for pair, _ in parts]))
    share = np.concatenate([part for _, part in parts]) * spared[pairs.row]
    work = tree.launched_below(pairs.index)
    launched = Pairs(pairs.row[work.row], work.index)
    taken = summed(work.row, (tree.work.end - tree.work.start)[work.index], len(pairs.row))
    if tree.context.cpu_program:
        taken = (host.end - host.start)[pairs.index]
    whole = np.bincount(pairs.row, weights=taken, minlength=count)
    part = np.bincount(pairs.row, weights=taken * share, minlength=count) / np.maximum(whole, 1)
    return Occurrences(
        kind="dense-embedding",
        node=tables.node,
        begin=host.start[tables.node],
        end=host.end[tables.node],
        inside=launched.each_once(),
        own=launched.each_once(),
        ops=tree.rows_of_ops(pairs) if tree.context.cpu_program else NOTHING,
        figures={
            "repeats": tables.indices,
            "length": rows,
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(tables.store),
        },
    )


def _tables(tree: Tree) -> _Tables | None:
    host = tree.host
    nodes = tree.ops(tree.codes_of(lambda name: _DENSE.match(name) is not None))
    stores = tree.ops(tree.codes_of(_STORE.__eq__))
    if not 0 < len(nodes) <= _MOST or not len(stores):
        return None
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    stores = stores[np.argsort(host.start[stores], kind="stable")]
    at = np.searchsorted(host.start[stores], host.end[nodes])
    tied = _weights(tree)
    found = []
    for node, place in zip(nodes.tolist(), at.tolist(), strict=True):
        if place == len(stores):
            continue
        store = int(stores[place])
        gradient, indices = (*tree.shapes.operands(int(tree.dims(np.array([node]))[0])), (), ())[:2]
        stored = first_operand(tree, store, listed=False)
        number = size_of(indices)
        # The gradient is the next that is stored, unless it is a part of one that is summed up first.
        same = stored and gradient and len(stored[0]) == 2 and stored[0][1] == gradient[-1] and stored[0][0] > 0
        if same and stored and number > 0 and host.thread[store] == host.thread[node] and stored[0] not in tied:
            found.append((node, store, stored[0], number))
    if not found:
        return None
    nodes, stores = (np.array(column, np.int64) for column in list(zip(*found, strict=True))[:2])
    return _Tables(nodes, stores, [one[2] for one in found], np.array([one[3] for one in found], np.int64))


def _weights(tree: Tree) -> set[Shape]:
    """Shapes of the operands of products and of what is transposed for one."""
    nodes = tree.ops(tree.codes_of(lambda name: _PRODUCT.match(name) is not None))
    nodes = nodes[tree.host.attributes.phase[nodes] == FORWARD]
    found = {shape for code in distinct(tree.dims(nodes)).tolist() for shape in tree.shapes.operands(code)}
    return found | {shape[::-1] for shape in found}


def _handled(tree: Tree, tables: _Tables) -> tuple[Pairs, Floats]:
    """Operators of steps and of zero_grad that work on a table or its gradient, and the table's part of each.

    They belong to the last gradient of that shape before them.
    """
    host, phase = tree.host, tree.host.attributes.phase
    steps = optimizers.nodes(tree.context)
    inner = distinct(spread(steps + 1, tree.after(steps)).index)
    zeros = tree.ops(tree.codes_of(lambda name: _ZERO.match(name) is not None))
    zeros = zeros[np.isin(phase[zeros], (FORWARD, ZERO_GRAD))]
    nodes = np.union1d(inner[(host.group[inner] == OP) & (phase[inner] != BACKWARD)], zeros)
    flags: Bools = np.zeros(host.size, np.bool_)
    flags[nodes] = True
    nodes = nodes[host.above(nodes, flags, HIGHEST) < 0]
    rows, found, shares = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    kinds, of = coded(host.name[nodes].astype(np.int64) << 32 | tree.dims(nodes) & 0xFFFFFFFF)
    firsts = np.zeros(len(kinds), np.int64)
    firsts[of[::-1]] = nodes[::-1]
    targets = [_first(tree, int(node)) for node in firsts]
    for shape in sorted(set(tables.shape)):
        share = np.array([_share(target, shape) for target in targets])
        chosen = nodes[share[of] > 0] if len(of) else nodes
        own = np.array([row for row, other in enumerate(tables.shape) if other == shape], np.int64)
        at = np.searchsorted(host.start[tables.node[own]], host.start[chosen]) - 1
        rows.append(own[at[at >= 0]])
        found.append(chosen[at >= 0])
        shares.append(share[of][share[of] > 0][at >= 0] if len(of) else np.zeros(0))
    return Pairs(np.concatenate(rows), np.concatenate(found)), np.concatenate(shares)


def _first(tree: Tree, node: int) -> list[Shape]:
    name = tree.context.names[tree.host.name[node]]
    listed = LISTED.match(name) is not None or name.startswith("aten::_foreach_")
    return first_operand(tree, node, listed=listed) or []


def _share(target: list[Shape], shape: Shape) -> float:
    """Return the part of an operator's elements that are those of tensors of a shape."""
    total = sum(max(size_of(one), 0) for one in target)
    return sum(size_of(one) for one in target if one == shape) / total if total else 0.0
