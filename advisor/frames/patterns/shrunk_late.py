"""Pointwise work on an image before it is shrunk: scaling, shifting and flipping of many more positions than are left.

Interpolation and average pooling weigh positions, with weights that sum up to 1, and take each channel alike. To multiply by a
number, or by one for each channel, to add one, or to turn channels round gives the same before and after.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.enlarged import pooled
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import Occurrences, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.regex import regex

_RESIZES = regex(r"^aten::_?upsample_(?:nearest|nearest_exact|linear|bilinear|bicubic|trilinear)[123]d(?:_aa)?$")
_POOLS = regex(r"^aten::(?:adaptive_)?avg_pool[123]d$")
_AFFINE = regex(r"^aten::(?:add|sub|mul|div|rsub|neg|true_divide)_?$")
_FLIPS = "aten::flip"
_KEEPS = frozenset(
    f"aten::{name}"
    for name in ("to", "_to_copy", "contiguous", "clone", "detach", "permute", "transpose", "movedim", "unsqueeze", "squeeze",
                 "view", "reshape", "expand", "alias", "lift_fresh", "view_as", "select", "slice")
)  # fmt: skip
"""Operators on the way that keep the numbers, or as many; what they take stays as it is."""
_LEAST, _MOST, _REACH = 1 << 17, 20_000, 40
_SMALL = 1024
"""An operand of so many times fewer numbers has none for each position."""


class _Chain(Struct, eq=False):
    """Pointwise operators, the first of them first, that go before a shrinking one, which leaves a part of the positions."""

    shrinks: int
    left: float
    nodes: list[int] = field(default_factory=list)


def shrunk_late(tree: Tree) -> Occurrences | None:
    """One row per chain of pointwise operators at full size before an image is shrunk, with their backward pass.

    ``part`` is what fewer positions spare of their time.
    """
    chains = _chains(tree)
    if not chains:
        return None
    host, count = tree.host, len(chains)
    calls = np.array([chain.nodes[0] for chain in chains], np.int64)
    last = np.array([chain.shrinks for chain in chains], np.int64)
    nodes = pairs_of([chain.nodes for chain in chains])
    nodes = join(nodes, backward_of(tree, nodes, calls, tree.after(last)))
    chosen = np.flatnonzero(time_of(tree, nodes, count) > 0)
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, nodes, chosen, count)
    at = calls[chosen]
    part = np.array([1 - chain.left for chain in chains])[chosen]
    return Occurrences(
        kind="shrunk-late",
        node=at,
        begin=host.start[at],
        end=host.end[at],
        inside=inside,
        own=inside,
        ops=ops,
        figures={"part": np.rint(part * MILLION).astype(np.int64), "dims": tree.dims(at)},
        details=["resized"] * len(chosen),
    )


def _chains(tree: Tree) -> list[_Chain]:
    uses, names = tree.once(Uses), tree.context.names
    codes = tree.codes_of(lambda name: _RESIZES.match(name) is not None or _POOLS.match(name) is not None)
    nodes = uses.nodes[codes[tree.host.name[uses.nodes]]]
    if not 0 < len(nodes) <= _MOST:
        return []
    found = []
    for node in nodes.tolist():
        operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
        source = operands[0] if operands else ()
        if size_of(source) < _LEAST or len(source) < 3:
            continue
        texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0]))
        left = _left(names[tree.host.name[node]], texts, source)
        if left is None or 2 * left > 1:
            continue
        chain = _Chain(node, left)
        chain.nodes = _before(tree, uses, node, size_of(source))
        if chain.nodes:
            found.append(chain)
    ours = {node for chain in found for node in (*chain.nodes, chain.shrinks)}
    return [chain for chain in found if _is_alone(tree, uses, chain, ours)]


def _left(name: str, texts: list[str] | None, source: Shape) -> float | None:
    """Part of the positions that is left; None where unknown."""
    if _POOLS.match(name):
        return pooled(name, texts, source)
    size = numbers(texts, 1)
    if not size or len(size) != len(source) - 2:
        return None
    return math.prod(size) / max(math.prod(source[2:]), 1)


def _before(tree: Tree, uses: Uses, call: int, size: int) -> list[int]:
    """Pointwise operators that lead to a call, the first of them first; what converts numbers is none."""
    host, at = tree.host, int(np.searchsorted(uses.nodes, call))
    found: list[int] = []
    step = tree.context.recording.host_step_of(host.start[np.array([call])])[0]
    for node in uses.nodes[max(at - _REACH, 0) : at][::-1].tolist():
        if host.thread[node] != host.thread[call]:
            continue
        if tree.context.recording.host_step_of(host.start[np.array([node])])[0] != step:
            break
        name = tree.context.names[host.name[node]]
        operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
        large = [shape for shape in operands if size_of(shape) * _SMALL > size]
        if not large:
            continue  # what makes means and deviations
        if size_of(large[0]) != size or len(large) > 1:
            break
        if name == _FLIPS or _AFFINE.match(name):
            found.append(node)
        elif name not in _KEEPS:
            break
    return found[::-1]


def _is_alone(tree: Tree, uses: Uses, chain: _Chain, ours: set[int]) -> bool:
    """Tell whether nothing but the shrinking takes what the chain makes at full size."""
    size = size_of(tree.shapes.operands(int(tree.dims(np.array([chain.shrinks]))[0]))[0])
    for node, name, _ in uses.behind(chain.nodes[-1], size, _REACH):
        if node in ours:
            if node > chain.shrinks:
                return True  # the next image
            continue
        if name not in _KEEPS:
            return node > chain.shrinks and not _takes(tree, node, size)
    return True


def _takes(tree: Tree, node: int, size: int) -> bool:
    operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
    return any(size_of(shape) == size for shape in operands)
