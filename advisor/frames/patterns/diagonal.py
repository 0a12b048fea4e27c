"""Diagonal matrices that are written out in full: ``torch.diag_embed(v)`` or ``torch.diag(v)``, factored, solved with, multiplied.

A product with one scales rows or columns, which a broadcast product with v does; a normal distribution with one for its
covariance is a number of independent ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import forward, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, coded, distinct
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view, moves_no_data

DISTRIBUTION, PRODUCT = "distribution", "product"
_DISTRIBUTIONS = "torch/distributions/"
_PRODUCTS = frozenset({"aten::mm", "aten::matmul", "aten::bmm", "aten::mv"})
_WRITES = regex(r"^aten::\w*[a-z0-9]_$")
_MOST = 20_000
_REACH, _BEHIND = 400, 12
"""Operators behind a diagonal matrix in which a distribution uses it, and a product takes it."""
_CALL_NS, _NS = 20_000.0, 2.0
"""Time of scaling, with its backward pass: its calls, and for each number of the result."""


def diagonals(tree: Tree) -> Occurrences | None:
    """One row per diagonal matrix that is multiplied, or is the covariance of a distribution, in a program on the CPU.

    ``repeats`` are the numbers on the diagonal, ``length`` those of all matrices of it, and ``part`` is what its diagonal alone
    spares. It owns what makes it and what takes it, with their backward pass.
    """
    if not tree.context.cpu_program:
        return None
    made = forward(tree, ["aten::diag_embed"])
    if not 0 < len(made) <= _MOST:
        return None
    host = tree.host
    takers = _Takers(tree, distinct(tree.calls[made]))
    made = made[np.isin(tree.calls[made], takers.nodes)]
    found: list[tuple[list[int], str, Shape, int]] = []
    for call, shape in _matrices(tree, made).items():
        used = takers.of_distribution(call, shape)
        detail, given = (DISTRIBUTION, size_of(shape) // shape[-1]) if used else (PRODUCT, 0)
        if not used:
            used, given = takers.products(call, shape)
        if used:
            found.append(([call, *used], detail, shape, given))
    if not found:
        return None
    marks = [(row, node) for row, (nodes, *_) in enumerate(found) for node in nodes]
    own = Pairs(*(np.array(column, np.int64) for column in zip(*marks, strict=True)))
    ops = worked(tree, own, backward=np.ones(len(found), np.bool_))
    took = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), *OWNED), len(found))
    first = np.array([nodes[0] for nodes, *_ in found], np.int64)
    left = np.array([_CALL_NS + _NS * numbers for *_, numbers in found], np.float64)
    part = np.maximum(1 - left / np.maximum(took, 1), 0)
    return Occurrences(
        kind="diagonal",
        node=first,
        begin=host.start[first],
        end=host.end[[max(nodes) for nodes, *_ in found]],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        figures={
            "repeats": np.array([shape[-1] for _, _, shape, _ in found], np.int64),
            "length": np.array([size_of(shape) for _, _, shape, _ in found], np.int64),
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(first),
        },
        details=[detail for _, detail, *_ in found],
    )


def _matrices(tree: Tree, made: Ints) -> dict[int, Shape]:
    """Shapes of the matrices that operators make of diagonals, by what Python called; of those that are known, and no number."""
    calls, dims, concrete = tree.calls[made], tree.dims(made), tree.context.op_column(made, "concrete")
    shapes = {}
    for call, code, values in zip(calls.tolist(), dims.tolist(), concrete.tolist(), strict=True):
        operands, texts = tree.shapes.operands(code), tree.texts(values) or []
        main = all(text in ("", usual) for text, usual in zip(texts[1:4], ("0", "-2", "-1"), strict=False))
        if operands and operands[0] and operands[0][-1] > 1 and main:
            shapes[call] = (*operands[0], operands[0][-1])
    return dict(sorted(shapes.items()))


class _Takers:
    """Operators that Python calls outside of the backward pass and that take square matrices, by their width."""

    def __init__(self, tree: Tree, calls: Ints) -> None:
        host = tree.host
        outer = tree.outermost
        outer = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
        self._tree, self.nodes = tree, outer
        self._calls = dict(zip(calls.tolist(), np.searchsorted(outer, calls).tolist(), strict=True))
        self._step = tree.context.recording.host_step_of(host.start[outer])
        silent = tree.codes_of(moves_no_data)
        writes = tree.codes_of(lambda name: _WRITES.match(name) is not None and not moves_no_data(name))
        self._silent, self._writes = silent[host.name[outer]], writes[host.name[outer]]
        self._views = tree.codes_of(is_view)[host.name[outer]]
        self._computing = np.cumsum(~self._silent)
        codes, self._of = coded(tree.dims(outer))
        self._operands = [tree.shapes.operands(code) for code in codes.tolist()]
        self._by_width: dict[int, list[int]] = {}

    def _square(self, width: int) -> list[int]:
        """Places of those that take, or make, matrices of that width."""
        if width not in self._by_width:
            holds = [any(one[-2:] == (width, width) for one in operands) for operands in self._operands]
            flags = np.array(holds, np.bool_)[self._of]
            flags |= np.isin(self.nodes, list(self._calls))
            self._by_width[width] = np.flatnonzero(flags).tolist()
        return self._by_width[width]

    def _behind(self, call: int, shape: Shape) -> Iterator[tuple[int, int, tuple[Shape, ...]]]:
        """Place, node and operands of those behind a call, in its step and thread, up to where the matrix is written into."""
        host, at = self._tree.host, self._calls[call]
        places = self._square(shape[-1])
        for number in range(bisect_right(places, at), bisect_right(places, at + _REACH)):
            place = places[number]
            node = int(self.nodes[place])
            if host.thread[node] != host.thread[call] or self._step[place] != self._step[at]:
                return
            operands = self._operands[self._of[place]]
            if shape in operands and self._written(place):
                return
            yield place, node, operands

    def _written(self, place: int) -> bool:
        """Tell whether a view is written into as soon as it is made, as ``scale[:, 1, 0] = x`` does."""
        while place < len(self.nodes) and self._views[place]:
            place += 1
            if place < len(self.nodes) and self._writes[place]:
                return True
        return False

    def of_distribution(self, call: int, shape: Shape) -> list[int]:
        """Operators that torch's distributions call on matrices of that width, up to the next diagonal matrix."""
        host, places = self._tree.host, self._tree.host.places
        found: list[int] = []
        for place, node, _ in self._behind(call, shape):
            if node in self._calls:
                break
            library = int(host.attributes.library[node])
            if library >= 0 and _DISTRIBUTIONS in places[library].file:
                found.append(node)
            elif not found and not self._silent[place]:
                break  # something else is made of it
        return found

    def products(self, call: int, shape: Shape) -> tuple[list[int], int]:
        """The first product behind that takes such a matrix, the next on its line between two such; numbers of their results."""
        host, names = self._tree.host, self._tree.context.names
        before = self._computing[self._calls[call]]
        found: list[int] = []
        given = 0
        for place, node, operands in self._behind(call, shape):
            if self._computing[place] - before > _BEHIND:
                break
            taken = sum(one == shape for one in operands)
            if self._silent[place] or not taken:
                continue
            product = names[host.name[node]] in _PRODUCTS and len(operands) >= 2
            if not product and taken > 1 and len(found) == 1:
                return [], 0  # a sum of both: what the product took may be another matrix
            if not product or (found and (taken < 2 or host.attributes.user[node] != host.attributes.user[found[0]])):
                break
            found.append(node)
            given += max(size_of(one) for one in operands if one != shape) if taken == 1 else size_of(shape)
            if len(found) == 2:
                break
        return found, given
