"""Copies of queries, keys and values right before a fused attention, which reads them where they are."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, size_of
from advisor.intervals import Ints
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import moves_no_data

_ATTENTION = "aten::scaled_dot_product_attention"
_REPEATS = frozenset({"aten::repeat_interleave", "aten::repeat"})
_COPIES = frozenset({"aten::contiguous", "aten::clone", "aten::reshape"}) | _REPEATS
_INPUTS = 3
_MOST_BETWEEN = 40
"""Views before an attention: of three operands some three each, of repeated heads five, and of a mask."""


def attention_copies(tree: Tree) -> Occurrences | None:
    """One row per call of an attention with copies before it: ``repeats`` copies.

    Nothing but views lies between a copy and the attention, and the copy is as large as an operand: that one is it. Fused kernels
    ask for the last dimension to be contiguous, and no more; of heads that several queries share (a dimension of stride 0, a
    reshape of five dimensions) they take each once.
    """
    nodes = tree.ops(tree.codes_of(_ATTENTION.__eq__))
    nodes = nodes[tree.host.attributes.phase[nodes] != BACKWARD]
    nodes = nodes[tree.calls[nodes] == nodes]
    if not len(nodes):
        return None
    outer = tree.outermost
    found = [_before(tree, outer, node) for node in nodes.tolist()]
    rows = np.array([row for row, copies in enumerate(found) if copies], np.int64)
    if not len(rows):
        return None
    of = np.repeat(np.arange(len(rows)), [len(found[row]) for row in rows.tolist()])
    copies = np.array([copy for row in rows.tolist() for copy in found[row]], np.int64)
    launched = tree.launched_below(copies)
    own = Pairs(of[launched.row], launched.index)
    shared = np.bincount(of, [_repeats_heads(tree, copy) for copy in copies.tolist()], len(rows)) > 0
    place = copies[np.unique(of, return_index=True)[1]]
    return Occurrences(
        kind="attention-copy",
        node=place,
        begin=tree.host.start[place],
        end=tree.host.end[nodes[rows]],
        inside=own,
        own=own,
        figures={"repeats": np.bincount(of), "dims": tree.dims(nodes[rows])},
        details=["repeated heads" if repeats else "contiguous" for repeats in shared.tolist()],
    )


def _before(tree: Tree, outer: Ints, node: int) -> list[int]:
    """The copies before an attention, in their order."""
    shapes = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))[:_INPUTS]
    operands = [shape for shape in shapes if len(shape) >= 3]
    at, copies = int(np.searchsorted(outer, node)) - 1, list[int]()
    for before in outer[max(at - _MOST_BETWEEN + 1, 0) : at + 1][::-1].tolist():
        name = _name(tree, before)
        if tree.host.thread[before] != tree.host.thread[node]:
            break
        if name in _COPIES and len(tree.launched_below(np.array([before])).row):
            if len(copies) == _INPUTS or not _spared(tree, before, operands):
                break
            copies.append(before)
        elif not moves_no_data(name):
            break
    return copies[::-1]


def _spared(tree: Tree, copy: int, operands: list[tuple[int, ...]]) -> bool:
    """Tell whether a copy is as large as an operand, of one whose last dimension is contiguous."""
    shape, strides = _operand(tree, copy)
    whole = (
        any(_has_more_heads(tree, copy, shape, one) for one in operands)
        if _name(tree, copy) in _REPEATS
        else size_of(shape) in set(map(size_of, operands))
    )
    return whole and (not strides or len(strides) != len(shape) or strides[-1] == 1)


def _has_more_heads(tree: Tree, copy: int, shape: tuple[int, ...], operand: tuple[int, ...]) -> bool:
    """Tell whether an operand is a tensor with each of its heads several times in a row: not one with all of them in turn."""
    if len(shape) == 5 and shape[2] == 1:
        shape = (*shape[:2], *shape[3:])
    elif _name(tree, copy) == "aten::repeat":
        return False
    if not len(shape) == len(operand) == 4 or (shape[0], *shape[2:]) != (operand[0], *operand[2:]):
        return False
    return 0 < shape[1] < operand[1] and operand[1] % shape[1] == 0


def _repeats_heads(tree: Tree, copy: int) -> bool:
    shape, strides = _operand(tree, copy)
    return len(shape) == 5 or 0 in strides or _name(tree, copy) in _REPEATS


def _name(tree: Tree, node: int) -> str:
    name: str = tree.context.names[tree.host.name[node]]
    return name


def _operand(tree: Tree, node: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of what an operator takes first; empty where they were not recorded."""
    one = np.array([node])
    shapes = tree.shapes.operands(int(tree.dims(one)[0]))
    strides = tree.strides.operands(int(tree.context.op_column(one, "strides")[0]))
    return shapes[0] if shapes else (), strides[0] if strides else ()
