"""Uses of a tensor, told by its shape: the operators that Python calls behind the one that made it, and that take as much.

A trace does not say which tensor an operator takes, but how large each is. In one step and one thread, from where a tensor is made
up to where another one as large is, an operator that takes as many numbers is taken for one that takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from advisor.frames.patterns.tree import NOTHING, Pairs, Tree, size_of, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, coded, fetch
from advisor.timeline.calls import BACKWARD, OP

PRODUCTS = {
    "aten::linear": 0, "aten::mm": 0, "aten::matmul": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1,
    "aten::einsum": 1, "aten::mv": 0,
}  # fmt: skip
"""Products of matrices, and the place of their first factor. What einsum takes first is its equation."""
COPIES = frozenset(f"aten::{name}" for name in ("to", "_to_copy", "type_as", "contiguous", "clone", "copy_", "float"))


class Uses:
    """Operators that Python calls outside of the backward pass, by the sizes of what they take."""

    def __init__(self, tree: Tree) -> None:
        host = tree.host
        outer = tree.outermost
        self.tree = tree
        self.nodes: Ints = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
        self._dims, self._of = coded(tree.dims(self.nodes))
        self._operands = [tree.shapes.operands(code) for code in self._dims.tolist()]
        self._step = tree.context.recording.host_step_of(host.start[self.nodes])
        self._known: dict[int, Ints] = {}

    def taking(self, size: int) -> Ints:
        """Those that take, or give, so many numbers in one tensor."""
        if size not in self._known:
            holds = np.array([_holds(operands, size) for operands in self._operands], np.bool_)
            found = holds[self._of.ravel()] if len(holds) else np.zeros(0, np.bool_)
            self._known[size] = np.flatnonzero(found)
        return self._known[size]

    def behind(self, call: int, size: int, most: int) -> Iterator[tuple[int, str, tuple[Shape, ...]]]:
        """Node, name and operands of those behind a call, in its step and thread, at most so many."""
        host, here = self.tree.host, self.taking(size)
        at = int(np.searchsorted(self.nodes, call))
        step = self._step[at] if at < len(self.nodes) and self.nodes[at] == call else -1
        first = int(np.searchsorted(here, at, side="right"))
        for place in here[first : first + most].tolist():
            node = int(self.nodes[place])
            if host.thread[node] != host.thread[call] or self._step[place] != step:
                return
            yield node, self.tree.context.names[host.name[node]], self._operands[self._of.ravel()[place]]

    def next_behind(self, calls: Ints, size: int) -> Ints:
        """Node of the first that each of some calls among them has behind it, as :meth:`behind` has it; -1 without one."""
        host, here = self.tree.host, self.taking(size)
        at = np.searchsorted(self.nodes, calls)
        first = np.searchsorted(here, at, side="right")
        place = fetch(here, np.where(first < len(here), first, -1))
        node = fetch(self.nodes, place)
        same = (place >= 0) & (host.thread[node] == host.thread[calls]) & (self._step[place] == self._step[at])
        return np.where(same, node, -1)


def _holds(operands: tuple[Shape, ...], size: int) -> bool:
    """Tell whether one of the operands, or a product of two neighbours, has so many elements."""
    if any(size_of(shape) == size for shape in operands):
        return True
    given = (given_by(left, right) for left, right in pairwise(operands) if left and right)
    return any(one == size for pair in given for one in pair)


def given_by(left: Shape, right: Shape) -> tuple[int, int]:
    """Elements of a product of two, as a product and as a layer with a weight; -1 where their shapes do not fit."""
    product = layer = -1
    if len(left) >= 2 and len(right) >= 2:
        if left[-1] == right[-2] and left[-1]:
            product = size_of(left) // left[-1] * right[-1]
        if len(right) == 2 and left[-1] == right[-1] and left[-1]:
            layer = size_of(left) // left[-1] * right[0]
    return product, layer


def backward_of(tree: Tree, calls: Pairs, low: Ints, high: Ints) -> Pairs:
    """Nodes of the backward pass of calls and of what they call."""
    below = spread(calls.index, tree.after(calls.index))
    nodes = Pairs(calls.row[below.row], below.index)
    nodes = nodes.where((tree.sequence[nodes.index] >= 0) & ~tree.engine[nodes.index])
    return tree.backward_nodes(nodes.each_once(), low, high).each_once()


def time_of(tree: Tree, nodes: Pairs, size: int) -> Ints:
    """ns that the nodes of each of *size* rows take: on the CPU by themselves, else their work on the GPU."""
    if tree.context.cpu_program:
        length = tree.host.end - tree.host.start
        return nodes.total(length, size)
    work = tree.launched_below(nodes.index)
    return Pairs(nodes.row[work.row], work.index).each_once().total(tree.work.end - tree.work.start, size)


def chosen_of(tree: Tree, nodes: Pairs, rows: Ints, size: int) -> tuple[Pairs, Pairs]:
    """GPU work that the nodes of some of *size* rows launch, and their rows of `ops` on the CPU; rows are numbered anew."""
    number = np.full(size, -1)
    number[rows] = np.arange(len(rows))
    nodes = nodes.where(number[nodes.row] >= 0)
    nodes = Pairs(number[nodes.row], nodes.index)
    work = tree.launched_below(nodes.index)
    inside = Pairs(nodes.row[work.row], work.index).each_once()
    return inside, tree.rows_of_ops(nodes) if tree.context.cpu_program else NOTHING


def pairs_of(nodes: list[list[int]]) -> Pairs:
    """Pairs of a row and each of its nodes."""
    row = np.repeat(np.arange(len(nodes)), [len(some) for some in nodes])
    return Pairs(row, np.array([node for some in nodes for node in some], np.int64))


def named(tree: Tree, names: frozenset[str] | set[str]) -> Bools:
    """Flag the nodes that are operators with these names."""
    flags: Bools = tree.codes_of(names.__contains__)[tree.host.name] & (tree.host.group == OP)
    return flags
