"""Small tables of which each pair looks up a vector, for a product with that of its query: relative positions, types of edges.

``table[distance]`` holds a vector for every pair of positions, and a batched product gives a number for each. The product with all
rows of the table gives every number that there can be, and the lookup then picks numbers in place of vectors.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.gathered import GATHERS, Memory, shape_given
from advisor.frames.patterns.operands import keys
from advisor.frames.patterns.tree import Occurrences, Tree, join, size_of
from advisor.frames.patterns.uses import Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.intervals import Ints

_LEAST = 1 << 17
"""Numbers that are looked up: fewer take microseconds."""
_TIMES = 8
"""Rows looked up for each of the table."""
_MOST_OF = 0.5
"""Numbers of the product with the whole table and those picked of it, for each that is looked up: with more little is gained."""
_FLOPS = 20.0
"""Of a product in one ns, on one core: as ``work_share`` of operator_calls."""
_MOST, _REACH = 20_000, 40


def expanded_tables(tree: Tree) -> Occurrences | None:
    """One row per lookup of a vector for each pair whose product with a query each pair is made for, with both backward passes.

    ``repeats`` are the rows that are looked up, ``length`` those of the table, and ``part`` what the other order spares.
    """
    if not tree.context.cpu_program:
        return None
    found = _lookups(tree)
    if not found:
        return None
    host, count = tree.host, len(found)
    calls, products, numbers, rows, table, macs = (np.array(column) for column in zip(*found, strict=True))
    forward = pairs_of([[call, product] for call, product in zip(calls.tolist(), products.tolist(), strict=True)])
    late = backward_of(tree, forward, calls, tree.after(products))
    time = time_of(tree, join(forward, late), count)
    # With a gradient of each operand a product is computed three times.
    passes = np.where(np.bincount(late.row, minlength=count) > 0, 3, 1)
    # Numbers of that product, and those that are picked of it, take as long each as those of the vectors did.
    left = numbers + 2 * passes * macs / _FLOPS / np.maximum(time, 1)
    _, of = np.unique(np.stack([tree.dims(calls), tree.dims(products)], axis=1), axis=0, return_inverse=True)
    of = of.ravel()
    usual = (np.bincount(of, left * time) / np.maximum(np.bincount(of, time), 1))[of]
    chosen = np.flatnonzero((usual < 1) & (time > 0))
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, join(forward, late), chosen, count)
    at = calls[chosen]
    return Occurrences(
        kind="expanded-table",
        node=at,
        begin=host.start[at],
        end=host.end[products[chosen]],
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": rows[chosen],
            "length": table[chosen],
            "part": np.rint((1 - usual[chosen]) * MILLION).astype(np.int64),
            "dims": tree.dims(at),
        },
    )


def _lookups(tree: Tree) -> list[tuple[int, int, float, int, int, int]]:
    """Lookups and products, with the numbers of the product with the whole table and those picked of it, for each that is looked up
    now; the rows of both; and the multiplications of that product.
    """
    uses, names = tree.once(Uses), tree.context.names
    nodes = tree.ops(tree.codes_of(GATHERS.__contains__))
    nodes = nodes[np.isin(tree.calls[nodes], uses.nodes)]
    if not 0 < len(nodes) <= _MOST:
        return []
    memory = Memory(tree)
    kinds, of = keys(tree, nodes, "dims", "concrete", "types")
    found, seen = [], set[int]()
    for call, which in zip(tree.calls[nodes].tolist(), of.tolist(), strict=True):
        name, dims, values, types = kinds[which]
        operands = tree.shapes.operands(dims)
        if call in seen or not operands or len(operands[0]) < 2 or not size_of(operands[0]):
            continue
        seen.add(call)
        source, width = operands[0], operands[0][-1]
        word = (tree.words(types) or [""])[0]
        by_index = names[name] == "aten::index"
        shape = (
            memory.indexed(call, source, word) if by_index else shape_given(names[name], operands, tree.texts(values))
        )
        size = size_of(shape)
        if size < max(_LEAST, _TIMES * size_of(source)) or shape[-1] != width:
            continue
        product = _product(tree, uses, call, size, width)
        if product is not None:
            node, each, queries = product
            whole = each * queries * source[-2]
            numbers = (whole + queries * size // width) / size
            if numbers <= _MOST_OF:
                found.append((call, node, numbers, size // width, source[-2], whole * width))
    return found


def _product(tree: Tree, uses: Uses, call: int, size: int, width: int) -> tuple[int, int, int] | None:
    """The call of the next batched product that contracts what was looked up, its batch and queries of each; None without one."""
    batched = tree.codes_of("aten::bmm".__eq__)
    for node, _, _ in uses.behind(call, size, _REACH):
        below: Ints = np.arange(node, int(tree.after(np.array([node]))[0]))
        inner = below[batched[tree.host.name[below]]]
        pairs = [tree.shapes.operands(code) for code in tree.dims(inner).tolist()]
        for left, right in (pair[:2] for pair in pairs if len(pair) > 1 and len(pair[0]) == len(pair[1]) == 3):
            for many, few in ((right, left), (left, right)):
                contracted = left[2] == right[1] == width
                if contracted and many[0] > 1 and size_of(many) == size and size_of(few) < size:
                    return node, few[0], size_of(few) // width // few[0]
    return None
