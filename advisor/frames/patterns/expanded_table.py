"""Small tables of which each pair looks up a vector, for a product with that of its query: relative positions, types of edges.

``table[distance]`` holds a vector for every pair of positions, and a batched product gives a number for each. The product with all
rows of the table gives every number that there can be, and the lookup then picks numbers in place of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.gathered import GATHERS, Memory, shape_given
from advisor.frames.patterns.operands import keys
from advisor.frames.patterns.tree import Occurrences, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.intervals import Ints
from advisor.timeline.operator_names import is_view

_LEAST = 1 << 17
"""Numbers that are looked up: fewer take microseconds."""
_TIMES = 8
"""Rows looked up for each of the table."""
_MOST_OF = 0.5
"""Numbers of the product with the whole table and those picked of it, for each that is looked up: with more little is gained."""
_FLOPS = 20.0
"""Of a product in one ns, on one core: as ``work_share`` of operator_calls."""
_MOST, _REACH = 20_000, 40
_NEVER = 1 << 62


class _Lookup(Struct, frozen=True):
    """A call that looks vectors up: its table, the numbers that it gives, and when they are freed."""

    call: int
    source: Shape
    size: int
    freed: int


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
    looked, seen = list[_Lookup](), set[int]()
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
        if size >= max(_LEAST, _TIMES * size_of(source)) and shape[-1] == width:
            freed = memory.freed(call, size, word) if len(memory.when) else None
            looked.append(_Lookup(call, source, size, _NEVER if freed is None else freed))
    found = []
    for size in {one.size for one in looked}:
        alike = sorted((one for one in looked if one.size == size), key=lambda one: one.call)
        for one, (node, each, queries) in _multiplied(tree, uses, alike):
            width = one.source[-1]
            whole = each * queries * one.source[-2]
            numbers = (whole + queries * size // width) / size
            if numbers <= _MOST_OF:
                found.append((one.call, node, numbers, size // width, one.source[-2], whole * width))
    return sorted(found)


def _multiplied(tree: Tree, uses: Uses, looked: list[_Lookup]) -> Iterator[tuple[_Lookup, tuple[int, int, int]]]:
    """Lookups of one size, in order, of which nothing but batched products takes the vectors, and those products.

    Several lookups in a row are told apart by their order. Where the vectors are taken by something else too (an attention adds
    them up by its weights, of one table or of another for values) they are looked up anyway, and little is spared.
    """
    host = tree.host
    taking = [list(_takers(tree, uses, one)) for one in looked]
    first = 0
    while first < len(looked):
        last = first + 1
        # What is looked up before anything takes the one before it.
        while last < len(looked) and not any(node < looked[last].call for node, _ in taking[first]):
            last += 1
        until = looked[last].call if last < len(looked) else _NEVER
        freed = max(one.freed for one in looked[first:last])
        takers = [one for one in taking[last - 1] if one[0] < until and host.start[one[0]] < freed]
        products = [one for _, one in takers if one is not None]
        told = len(products) == 1 or all(one[3] for one in products)
        if len(products) == len(takers) >= last - first and told:
            for one, product in zip(looked[first:last], products, strict=False):
                yield one, product[:3]
        first = last


def _takers(tree: Tree, uses: Uses, one: _Lookup) -> Iterator[tuple[int, tuple[int, int, int, bool] | None]]:
    """Calls behind a lookup that take as many numbers in one tensor, but for views; and the product with vectors that a call is."""
    for node, name, operands in uses.behind(one.call, one.size, _REACH):
        if not is_view(name) and any(size_of(shape) == one.size for shape in operands):
            yield node, _product(tree, node, one.size, one.source[-1])


def _product(tree: Tree, node: int, size: int, width: int) -> tuple[int, int, int, bool] | None:
    """Node, batch and queries of a batched product that contracts vectors, and a flag: no other dimension is as wide; or None."""
    batched = tree.codes_of("aten::bmm".__eq__)
    below: Ints = np.arange(node, int(tree.after(np.array([node]))[0]))
    inner = below[batched[tree.host.name[below]]]
    pairs = [tree.shapes.operands(code) for code in tree.dims(inner).tolist()]
    for left, right in (pair[:2] for pair in pairs if len(pair) > 1 and len(pair[0]) == len(pair[1]) == 3):
        for many, few in ((right, left), (left, right)):
            contracted = left[2] == right[1] == width
            if contracted and many[0] > 1 and size_of(many) == size and size_of(few) < size:
                return node, few[0], size_of(few) // width // few[0], many[1] != many[2]
    return None
