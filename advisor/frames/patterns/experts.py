"""A mixture of experts computed densely: a gate chooses some experts for each token, and all experts compute all tokens."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, spread
from advisor.intervals import Bools, Ints
from advisor.regex import regex

_CHOOSES = regex(r"^aten::(?:topk|argmax|max)$")
_LINEAR = "aten::linear"
_MOST_EXPERTS = 512
_NEAR = 8
"""Operators behind the gate's product among which the choice is."""
_LAYERS = 24
"""Operators that one expert may have."""

Operands = tuple[tuple[int, ...], ...]


def dense_experts(tree: Tree) -> Occurrences | None:
    """One row per layer of experts: a gate of as many columns as products of one shape follow, each of all tokens.

    Behind the gate its result is chosen from (topk, argmax, max). Then as many equal products as the gate has columns read all
    rows that the gate read, and no more of them do before the next gate. Their own is all that the experts launch, with its
    backward pass; ``repeats`` is their number, and ``length`` how many the gate chooses for a token. Their place is the line that
    calls one after the other, not that of an expert.
    """
    linear, chooses = tree.codes_of(_LINEAR.__eq__), tree.codes_of(lambda name: _CHOOSES.match(name) is not None)
    if not linear.any() or not chooses.any():
        return None
    items = tree.outermost
    names, dims = tree.host.name[items], tree.dims(items)
    layers_at = np.flatnonzero(linear[names])
    columns = tree.shapes.column(dims[layers_at], _columns)
    layers_at = layers_at[(columns >= 2) & (columns <= _MOST_EXPERTS)]
    gates = [at for at in layers_at.tolist() if _chosen(tree, items, dims, chooses, at)]
    found = [_experts(tree, linear[names], dims, at, until) for at, until in pairwise([*gates, len(items)])]
    layers = [(at, *one) for at, one in zip(gates, found, strict=True) if one is not None]
    if not layers:
        return None
    gate, first, last, count = np.array(layers, np.int64).T
    start, low, high = items[gate], items[first], tree.after(items[last])
    inner = spread(low, high)
    inner = inner.where((tree.sequence[inner.index] >= 0) & ~tree.engine[inner.index])
    own = join(tree.launched(low, high), tree.backward_of(inner, low, high))
    calls = spread(first, last + 1)
    calls = join(Pairs(calls.row, items[calls.index]), tree.backward_nodes(inner, low, high))
    chosen = np.array([_chosen(tree, items, dims, chooses, at) for at in gate.tolist()], np.int64)
    return Occurrences(
        kind="dense-experts",
        node=low,
        begin=tree.host.start[start],
        end=tree.host.end[items[last]],
        inside=own,
        own=own,
        ops=tree.rows_of_ops(calls) if tree.context.cpu_program else NOTHING,
        user=tree.host.around_both(low, items[last], start),
        figures={"repeats": count, "length": chosen, "dims": tree.dims(low)},
    )


def _chosen(tree: Tree, items: Ints, dims: Ints, chooses: Bools, at: int) -> int:
    """Return how many experts a gate at some place chooses for a token; 0 where the product there is no gate."""
    operands = tree.shapes.operands(int(dims[at]))
    count = _columns(operands)
    if not 2 <= count <= _MOST_EXPERTS or not operands[0]:
        return 0
    result = (*operands[0][:-1], count)
    for place in range(at + 1, min(at + 1 + _NEAR, len(items))):
        node = items[place]
        if chooses[tree.host.name[node]] and tree.shapes.operands(int(dims[place]))[:1] == (result,):
            return _first_number(tree, node) if tree.context.names[tree.host.name[node]] == "aten::topk" else 1
    return 0


def _first_number(tree: Tree, node: int) -> int:
    """Return the k of a topk by its recorded values; 1 where they were not recorded."""
    code = int(tree.context.op_column(np.array([node]), "concrete")[0])
    inputs = tree.context.recording.recorded.inputs
    match = re.match(rb'\s*\[\s*"[^"]*"\s*,\s*"(\d{1,4})"', bytes(inputs[code])) if 0 <= code < len(inputs) else None
    return max(int(match[1]), 1) if match else 1


def _experts(tree: Tree, linear: Bools, dims: Ints, gate: int, until: int) -> tuple[int, int, int] | None:
    """Return first and last operator of the experts behind a gate, and their number; None where they are not dense."""
    source = tree.shapes.operands(int(dims[gate]))
    count, tokens = _columns(source), source[0]
    until = min(until, gate + _NEAR + 2 * _NEAR + count * _LAYERS)
    places: dict[Operands, list[int]] = {}
    for place in (gate + 1 + np.flatnonzero(linear[gate + 1 : until])).tolist():
        operands = tree.shapes.operands(int(dims[place]))
        if len(operands) > 1 and operands[0][:-1] == tokens[:-1]:
            places.setdefault(operands[:2], []).append(place)
    # The first product of each expert reads what the gate read; those behind it are of the same number.
    entry = next((found for operands, found in places.items() if operands[0] == tokens and len(found) == count), None)
    if entry is None:
        return None
    turn = entry[1] - entry[0]
    if any(after - before != turn for before, after in pairwise(entry)):
        return None
    last = [found[-1] for found in places.values() if len(found) == count and entry[-1] <= found[-1] < entry[-1] + turn]
    return entry[0], max(last), count


def _columns(operands: Operands) -> int:
    """Return the columns of a linear layer's result by its weight; 0 where its operands were not recorded."""
    return operands[1][0] if len(operands) > 1 and len(operands[1]) == 2 else 0
