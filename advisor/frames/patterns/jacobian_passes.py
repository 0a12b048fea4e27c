"""Jacobians made by one backward pass for each element of the outputs; of a batch, also where only diagonal blocks are used.

Of outputs [batch, outputs] by inputs [batch, inputs] that takes batch times outputs passes, each through the whole batch. Where a
row depends on its own inputs alone, all other blocks are zeros, and the outputs' sums over the batch have the same: outputs passes.
torch.autograd.functional makes its passes so, and so does a loop over y.reshape(-1)[i], or over y[row, column]. Where the Jacobian
is used whole, vmap makes all passes at once: that spares calls, where these are what passes take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.passes import Runs, called_at, repeated_runs, stores
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, distinct
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import moves_no_data

_FLATTENS = frozenset({"aten::reshape", "aten::view", "aten::flatten", "aten::ravel"})
_SELECT, _DIAGONAL, _SUM = "aten::select", "aten::diagonal", "aten::sum"
_INDEX = "aten::index"
_AROUND = frozenset({"aten::einsum", "detach"})
"""Operators that call what takes the blocks, or that change no number, beside views."""
_BEFORE = 4
"""Calls before a pass among which its element is picked."""
_AHEAD = 400
"""Operators before the passes among which those of the model are."""
_NEVER = np.iinfo(np.int64).max
_MOST_PASSES, _LEAST_WHOLE = 20_000, 6
_CALLS = 12_000
"""ns of a node of the graph, on average, up to which it is call overhead: with 20 us vmap took longer than the loop."""
_SPARED, _AS_ONE = 0.68, 3.5
"""Part that vmap spares of many passes of such nodes, and how many passes it takes as long as: of ten shapes 42 to 87 % went."""


class _Loop(Struct, eq=False):
    """Passes in a row, one for each element of one tensor of outputs."""

    shape: Shape
    passes: list[int]
    begin: int
    """Start of the call that leads to the first of them."""
    blocks: bool = False
    """The blocks on the diagonal are used alone; else the whole Jacobian."""

    @property
    def spared(self) -> float:
        return 1 - 1 / self.shape[0] if self.blocks else min(_SPARED, 1 - _AS_ONE / len(self.passes))

    @property
    def full(self) -> bool:
        return len(self.passes) == math.prod(self.shape)


def jacobian_passes(tree: Tree) -> Occurrences | None:
    """One row per loop of passes that makes such a Jacobian: with the passes, and what leads to each.

    ``repeats`` are the passes, ``length`` the first size of the outputs, ``part`` what goes of them; ``detail`` is blocks or whole.
    """
    runs = tree.once(repeated_runs)
    if runs is None or not 1 < len(runs) <= _MOST_PASSES:
        return None
    found = _spared(tree, runs)
    if not found:
        return None
    first, last = (np.array([loop.passes[at] for loop in found], np.int64) for at in (0, -1))
    begin, end = np.array([loop.begin for loop in found], np.int64), runs.end[last]
    heads = runs.nodes[runs.first[first]]
    nodes = spread(runs.first[first], np.append(runs.first, len(runs.nodes))[last + 1])
    inside = tree.launched_below(runs.nodes[nodes.index])
    inside = Pairs(nodes.row[inside.row], inside.index).each_once()
    rows = np.array([loop.shape[0] for loop in found], np.int64)
    ledger = tree.context.ledger
    meanwhile = spread(
        np.searchsorted(ledger.start_ns, begin, side="left"), np.searchsorted(ledger.end_ns, end, side="right")
    )
    return Occurrences(
        kind="jacobian",
        node=heads,
        begin=begin,
        end=end,
        inside=inside,
        own=inside,
        idle=True,
        python=meanwhile if tree.context.cpu_program else NOTHING,
        user=called_at(tree, heads, runs.thread, runs.last_call()[first]),
        figures={
            "repeats": np.array([len(loop.passes) for loop in found], np.int64),
            "length": rows,
            "part": np.rint(np.array([loop.spared for loop in found]) * MILLION).astype(np.int64),
            "dims": tree.dims(heads),
        },
        details=["blocks" if loop.blocks else "whole" for loop in found],
    )


def _spared(tree: Tree, runs: Runs) -> list[_Loop]:
    """Loops of which a fix spares passes: of diagonal blocks, or of calls for the most part."""
    found = _loops(tree, runs)
    readers = _Readers(tree, runs) if found else None
    until: dict[Shape, int] = {}
    for loop in reversed(found):
        begin = int(runs.end[loop.passes[-1]])
        if readers is not None and len(loop.shape) > 1 and min(loop.shape) > 1:
            loop.blocks = _blocks_alone(readers, loop, begin, until.get(loop.shape, _NEVER))
        until[loop.shape] = begin
    if all(loop.blocks for loop in found):
        return found
    stored = stores(tree, runs) >= 0
    return [loop for loop in found if loop.blocks or _all_calls(tree, runs, loop, stored)]


def _loops(tree: Tree, runs: Runs) -> list[_Loop]:
    """Loops in which each element of some outputs has a pass of its own through one graph."""
    before = np.searchsorted(runs.starts, runs.start)
    ends = np.append(runs.first, len(runs.nodes))
    found: list[_Loop] = []
    keys: set[int] = set()
    for number, at in enumerate(before.tolist()):
        floor = int(before[number - 1]) if number else 0
        picked = _picked(tree, runs.calls[max(at - _BEFORE, floor) : at])
        if picked is None:
            keys = set()
            continue
        shape, call = picked
        own = set(runs.key[ends[number] : ends[number + 1]].tolist()) - {-1}
        if found and found[-1].shape == shape and not found[-1].full and own & keys:
            found[-1].passes.append(number)
        else:
            found.append(_Loop(shape, [number], int(tree.host.start[call])))
        keys = own
    return [loop for loop in found if loop.full]


def _all_calls(tree: Tree, runs: Runs, loop: _Loop, stored: Bools) -> bool:
    """Tell whether passes on the CPU are call overhead by most of their time, and store no gradients, which are added up."""
    low, high = (int(np.append(runs.first, len(runs.nodes))[at]) for at in (loop.passes[0], loop.passes[-1] + 1))
    nodes = runs.nodes[low:high]
    time = int((tree.host.end[nodes] - tree.host.start[nodes]).sum())
    short = len(loop.passes) >= _LEAST_WHOLE and time <= _CALLS * len(nodes)
    return bool(tree.context.cpu_program and short and not stored[low:high].any())


def _picked(tree: Tree, calls: Ints) -> tuple[Shape, int] | None:
    """The outputs of which one element is picked before a pass, and the call that begins it; None for other passes."""
    names = [tree.context.names[code] for code in tree.host.name[calls].tolist()]
    for place, (one, two) in reversed(list(enumerate(pairwise(names)))):
        if two != _SELECT:
            continue
        outputs, flat = (tree.shapes.operands(code)[:1] for code in tree.dims(calls[place : place + 2]).tolist())
        if not outputs or not flat or not outputs[0]:
            return None
        whole = one in _FLATTENS and flat[0] == (math.prod(outputs[0]),)
        nested = one == _SELECT and len(outputs[0]) == 2 and flat[0] == outputs[0][1:]
        return (outputs[0], int(calls[place])) if whole or nested else None
    return None


class _Readers:
    """Operators outside of backward passes that take a Jacobian of some outputs, in order: found once for all loops of a shape."""

    def __init__(self, tree: Tree, runs: Runs) -> None:
        host = tree.host
        chosen = (host.group == OP) & (host.thread == runs.thread) & (host.attributes.phase != BACKWARD)
        self.tree, self.nodes = tree, np.flatnonzero(chosen)
        self.dims = tree.dims(self.nodes)
        self.codes = distinct(self.dims).tolist()
        self._of: dict[Shape, Ints] = {}

    def of(self, shape: Shape) -> Ints:
        """Nodes with an operand [*shape, *inputs]; the first size of the inputs is that of the outputs."""
        if shape not in self._of:
            taken = [code for code in self.codes if any(map(_is_jacobian(shape), self.tree.shapes.operands(code)))]
            self._of[shape] = self.nodes[np.isin(self.dims, taken)]
        return self._of[shape]

    def mixes(self, rows: int, until: int) -> bool:
        """Tell whether an operator shortly before a time has an operand [.., rows, rows]: rows of the batch meet in it."""
        at = int(np.searchsorted(self.tree.host.start[self.nodes], until))
        codes = distinct(self.dims[max(at - _AHEAD, 0) : at]).tolist()
        return any(one[-2:] == (rows, rows) for code in codes for one in self.tree.shapes.operands(code))


def _is_jacobian(shape: Shape) -> Callable[[Shape], bool]:
    place = len(shape)
    return lambda one: one[:place] == shape and len(one) > place and one[place] == shape[0]


def _blocks_alone(readers: _Readers, loop: _Loop, begin: int, until: int) -> bool:
    """Tell whether of the Jacobian, a tensor [*outputs, *inputs], nothing but the blocks of each row by itself is taken.

    It is looked for from the last pass to the end of the next loop of its shape, whose Jacobian would be taken for it. Where rows
    of the batch meet before the passes, as in attention, the other blocks are no zeros.
    """
    tree, place = readers.tree, len(loop.shape)
    nodes = readers.of(loop.shape)
    nodes = nodes[slice(*np.searchsorted(tree.host.start[nodes], [begin, until]).tolist())]
    taken = False
    for node in nodes.tolist():
        name = tree.context.names[tree.host.name[node]]
        if _takes_blocks(tree, node, name, place):
            taken = True
        elif name not in _AROUND and not (moves_no_data(name) and name != _SELECT):
            return False
    return taken and not readers.mixes(loop.shape[0], loop.begin)


def _takes_blocks(tree: Tree, node: int, name: str, place: int) -> bool:
    """Tell whether an operator takes the blocks on the diagonal of a Jacobian, or sums them with the zeros beside them."""
    texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0]))
    if name == _DIAGONAL:
        sides = [numbers(texts, at) for at in (2, 3)]
        return None in sides or sides in ([(0,), (place,)], [(place,), (0,)])
    if name == _SUM:
        return numbers(texts, 1) in ((place,), (0,))
    return name == _INDEX
