"""Loops in Python, turn by turn: what an operator of a turn takes is told by the operators before it, and their shapes.

No trace says which tensor an operator reads. So what feeds one is looked for backwards from it, through operators that hand one
tensor on (views, activations, layers), to one that picks another part of the same tensor in every turn, or to one that mixes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from advisor.frames import operator_parts
from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.loop import items_of, runs
from advisor.frames.patterns.operands import leading, numbers
from advisor.frames.patterns.tree import NOTHING, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, distinct, summed
from advisor.regex import regex
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view

LEAST = 8
"""Turns from which on a loop is one: fewer are written out by hand as well."""
DISTINCT = 0.9
"""Share of the turns that must pick a part of their own."""
_MOST_RUNS = 4000
_PICKS = regex(r"^aten::(?:select|slice|narrow)$")
_ALONE = regex(
    r"^aten::(?:relu6?|gelu|silu|elu|selu|celu|mish|leaky_relu|prelu|softplus|hard(?:tanh|swish|sigmoid)|tanh|sigmoid|abs|exp|log|sqrt"
    r"|square|neg|clamp(?:_min|_max)?|softmax|log_softmax|(?:feature_|alpha_)?dropout(?:[123]d)?"
    r"|(?:layer|batch|group|instance|rms)_norm|normalize|to|_to_copy|contiguous|clone|dequantize"
    r"|(?:max|avg|adaptive_avg|adaptive_max)_pool[123]d|mean|embedding|one_hot|pad|linear|conv[123]d)_?$"
)
"""Operators that compute of one tensor, and of parameters."""
_WITH_NUMBER = regex(r"^aten::(?:add|sub|rsub|mul|div|pow|true_divide)_?$")
"""The same where their other operand is a number."""
JOINS = regex(r"^aten::(?:stack|cat|concat|concatenate|[hvd]stack)$")
_BEHIND = 4
"""Operators behind a loop among which that is which joins its results."""


class Fed(NamedTuple):
    """The source of an operator's input: *how* is ``pick``, ``place`` (another position of the turn), ``start`` or ``mixed``."""

    how: str
    place: int = -1
    through: tuple[int, ...] = ()


@dataclass(eq=False)
class Turns:
    """A run of turns: its operators, a row a turn; and the items of its thread, *first* of which begins it."""

    tree: Tree
    nodes: Ints
    items: Ints
    first: int

    @property
    def count(self) -> int:
        """Number of turns."""
        return len(self.nodes)

    @property
    def period(self) -> int:
        """Operators of a turn."""
        return int(self.nodes.shape[1])

    @cached_property
    def names(self) -> list[str]:
        """Their names."""
        return [self.tree.context.names[code] for code in self.tree.host.name[self.nodes[1]].tolist()]

    @cached_property
    def operands(self) -> list[tuple[Shape, ...]]:
        """Their operands' shapes; numbers have none."""
        return [self.tree.shapes.operands(code) for code in self.tree.dims(self.nodes[1]).tolist()]

    @cached_property
    def mean_ns(self) -> Floats:
        """The mean duration of each in a turn, in ns."""
        lasting: Floats = (self.tree.host.end - self.tree.host.start)[self.nodes].mean(axis=0)
        return lasting

    def tensors(self, place: int) -> list[Shape]:
        """Shapes of an operator's tensors."""
        return [shape for shape in self.operands[place] if shape]

    def picked(self, place: int) -> int:
        """Elements that an operator picks, other ones of one tensor in each turn; 0 where it does not."""
        if not _PICKS.match(self.names[place]):
            return 0
        whole = self.tensors(place)
        codes = self.tree.context.op_column(self.nodes[:, place], "concrete")
        told = [numbers(self.tree.texts(int(codes[1])), at) for at in (1, 2, 3)]
        dim = told[0][0] if told[0] else None
        if not whole or dim is None or not -len(whole[0]) <= dim < len(whole[0]) or size_of(whole[0]) < 1:
            return 0
        length, parts = whole[0][dim], len(distinct(codes))
        if len(whole[0]) < 2 or length < self.count or parts < DISTINCT * self.count:
            return 0
        wide = 1
        if self.names[place] == "aten::slice":
            wide = min(told[2][0], length) - told[1][0] if told[1] and told[2] else 0
        elif self.names[place] == "aten::narrow":
            wide = told[2][0] if told[2] else 0
        return size_of(whole[0]) // max(length, 1) * wide if 0 < wide < length else 0

    def alone(self, place: int) -> bool:
        """Tell whether an operator computes of one tensor, or gives a view of it."""
        name = self.names[place]
        return (
            is_view(name)
            or _ALONE.match(name) is not None
            or (_WITH_NUMBER.match(name) is not None and len(self.tensors(place)) == 1)
        )

    def fed(self, place: int, ends: Callable[[int], bool]) -> Fed:
        """The source of an operator's input, looked for backwards into the turn before; at positions of *ends* the search ends."""
        through: list[int] = []
        for back in range(1, self.period + 1):
            at = (place - back) % self.period
            if self.picked(at):
                return Fed("pick", at, tuple(through))
            if ends(at) or at == place:
                return Fed("start" if at == place else "place", at, tuple(through))
            if not self.alone(at):
                return Fed("mixed", at, tuple(through))
            through.append(at)
        return Fed("start", place, tuple(through))

    def unbound(self, elements: int) -> bool:
        """Tell whether a tensor was taken apart shortly before the loop into parts of so many elements, one a turn at least."""
        tree, before = self.tree, self.items[max(self.first - 40, 0) : self.first]
        before = before[tree.codes_of("aten::unbind".__eq__)[tree.host.name[before]]]
        codes = tree.dims(before).tolist()
        wholes = [size_of(operands[0]) for code in codes if (operands := tree.shapes.operands(code))]
        return any(whole >= elements * self.count and whole % elements == 0 for whole in wholes)

    def join(self) -> Ints:
        """The operators that join the loop's results: one behind it, or none."""
        tree, last = self.tree, self.first + self.nodes.size
        behind = self.items[last : last + _BEHIND]
        behind = behind[tree.host.thread[behind] == tree.host.thread[self.nodes[0, 0]]]
        joins: Ints = behind[tree.codes_of(lambda name: JOINS.match(name) is not None)[tree.host.name[behind]]]
        return joins[:1]


def turns(tree: Tree) -> list[Turns]:
    """All runs of eight turns or more."""
    return tree.once(_turns)


def turns_of_layers(tree: Tree) -> list[Turns]:
    """The same where each turn may run in a module of its own."""
    return tree.once(_turns_of_layers)


def _turns(tree: Tree) -> list[Turns]:
    return _found(tree, *items_of(tree, shapes=True))


def _turns_of_layers(tree: Tree) -> list[Turns]:
    if not (tree.host.attributes.module >= 0).any():
        return turns(tree)
    return _found(tree, *items_of(tree, shapes=True, modules=False))


def _found(tree: Tree, items: Ints, token: Ints) -> list[Turns]:
    found = runs(token, LEAST)
    if len(found) > _MOST_RUNS:
        return []
    return [
        Turns(tree, items[first : first + period * count].reshape(count, period), items, first)
        for first, period, count in found.tolist()
    ]


def owned(tree: Tree, of: Ints, own: Ints, rate: Floats, count: int, *, led: bool = True) -> tuple[Pairs, Pairs, Ints]:
    """Rows of `ops` that *count* loops own, the Python that leads to them, and the part of both that goes, in millionths.

    *of* is the node that each row of `ops` belongs to, -1 for none; *own* and *rate* are the loop of a node, and what goes of it.
    Where not *led* the Python stays, and is in none of them: the same calls are made, on less.
    """
    mine = of[of >= 0]
    ops = Pairs(own[mine], np.flatnonzero(of >= 0))
    python = leading(tree, ops) if led else NOTHING
    cost = _cost(tree, ops, python)
    whole, kept = (np.bincount(ops.row, cost * part, count) for part in (1.0, rate[mine]))
    order = np.argsort(ops.row, kind="stable")
    part = np.rint(kept / np.maximum(whole, 1) * MILLION).astype(np.int64)
    return Pairs(ops.row[order], ops.index[order]), python, part


def _cost(tree: Tree, ops: Pairs, python: Pairs) -> Floats:
    """ns of each row of *ops*, with the Python that leads to it, in order of *ops*."""
    context = tree.context
    own = context.ledger.cost(len(context.op_rows), *OWNED).astype(np.float64)
    segments, behind = operator_parts.python(context)
    led = np.isin(segments, python.index)
    own += summed(behind[led], context.ledger.dur_ns[segments[led]], len(own))
    cost: Floats = own[ops.index]
    return cost
