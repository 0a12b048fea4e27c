"""The forest as the finders of patterns read it: nodes below a node, their GPU work, and their backward pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, field

from advisor.intervals import Bools, Ints, coded, distinct, fetch, summed
from advisor.regex import regex
from advisor.timeline.calls import OP, of_autograd
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL

T = TypeVar("T")
_SHAPE = regex(rb"\[([\d,\s]*)\]")
# An argument list says what it says at its head; a hostile one must not cost its whole length.
_MOST_BYTES = 4000
_MOST_DIGITS = 12
# No program nests so deep that what holds a node together lies further up; a hostile trace may.
HIGHEST = 500


class Pairs(Struct):
    """Pairs of a row and an index that belongs to it: two arrays of one length, in order of the rows."""

    row: Ints
    index: Ints

    def where(self, keep: Bools) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.row[keep], self.index[keep])

    def each_once(self) -> Pairs:
        """The pairs without repetitions, sorted."""
        if not len(self.row):
            return self
        width = int(self.index.max()) + 1
        keys = distinct(self.row.astype(np.int64) * width + self.index)
        return Pairs(keys // width, keys % width)

    def total(self, values: Ints, size: int) -> Ints:
        """Sum of *values* (by index) for each of *size* rows."""
        return summed(self.row, values[self.index], size)


def join(*parts: Pairs) -> Pairs:
    """All pairs of several, each once."""
    return Pairs(
        np.concatenate([part.row for part in parts]), np.concatenate([part.index for part in parts])
    ).each_once()


def spread(low: Ints, high: Ints) -> Pairs:
    """The whole numbers from low to high (exclusive) of every row."""
    count = np.maximum(high - low, 0)
    row = np.repeat(np.arange(len(low)), count)
    before = np.repeat(np.cumsum(count) - count, count)
    return Pairs(row, np.repeat(low, count) + np.arange(len(row)) - before)


NOTHING = Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Occurrences(Struct):
    """Occurrences of one pattern: one row per occurrence of one kind.

    *node* is the node of the forest that it is told by; *begin* and *end* are host times; *inside* is the GPU work of the
    occurrence, *own* the part that the fix would spare and *partly* what it replaces by faster work; *beside* is work for it that
    the fix leaves. *idle*: the host's idle
    inside it is its own as well. *ops* are the rows of `ops` whose time on the CPU is its own, in a program that runs there
    alone, *replaced* those of them that its fix replaces by faster ones, and *python* the segments of the ledger that are its own
    besides: Python that leads to them, or, where that is *freed*, in which what they made is given back. *doubt*: the part of
    what its fix leaves (by the figure ``part``) by which that may be more, or less. *user* are the places (codes) of rows where
    they are not those of their nodes, -1 where they are.
    """

    kind: str
    node: Ints
    begin: Ints
    end: Ints
    inside: Pairs
    own: Pairs
    idle: bool = False
    ops: Pairs = field(default_factory=lambda: NOTHING)
    python: Pairs = field(default_factory=lambda: NOTHING)
    freed: bool = False
    replaced: Pairs = field(default_factory=lambda: NOTHING)
    partly: Pairs = field(default_factory=lambda: NOTHING)
    beside: Pairs = field(default_factory=lambda: NOTHING)
    figures: dict[str, Ints] = field(default_factory=dict)
    doubt: float = 0.0
    user: Ints | None = None
    details: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.node)


class Tree:
    """The forest with its GPU work, by ranges of nodes: what is below a node follows it directly."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.host = context.recording.host
        self.work = context.recording.work
        edges = np.flatnonzero(np.diff(self.host.thread)) + 1
        self._low = np.concatenate([np.zeros(1, np.int64), edges])
        self._high = np.append(edges, self.host.size)
        order = np.argsort(self.work.launch, kind="stable")
        self._order = order[self.work.launch[order] >= 0]
        self._launches = self.work.launch[self._order]
        self.lists: dict[tuple[int, bool], list[tuple[int, ...]] | None] = {}
        self._made: dict[Callable[[Tree], Any], Any] = {}
        self._texts: dict[int, list[str] | None] = {}

    def once(self, make: Callable[[Tree], T]) -> T:
        """Return what *make* makes of this tree, made once: of what several finders ask for."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    def close(self) -> None:
        """Let go of everything: what finders made holds the tree, and no collector runs while a trace is analyzed."""
        vars(self).clear()

    # ---- names

    @cached_property
    def _names(self) -> list[tuple[int, str]]:
        """Codes and names of all operators."""
        used = distinct(self._op_names[1]).tolist()
        return [(code, self.context.names[code]) for code in used]

    @cached_property
    def _op_names(self) -> tuple[Ints, Ints]:
        """Nodes of all operators, in the forest's order, and the codes of their names."""
        nodes = np.flatnonzero(self.host.group == OP)
        return nodes, self.host.name[nodes]

    def codes_of(self, holds: Callable[[str], bool]) -> Bools:
        """For each name code, whether it is an operator's name that is meant."""
        codes = np.zeros(len(self.context.names), np.bool_)
        codes[[code for code, name in self._names if holds(name)]] = True
        return codes

    def ops(self, codes: Bools) -> Ints:
        """Nodes of operators with these names, in the forest's order."""
        if not codes.any():
            return np.zeros(0, np.int64)
        nodes, names = self._op_names
        return nodes[codes[names]]

    def under(self, nodes: Ints, codes: Bools) -> Bools:
        """Flag the nodes that lie below an operator with one of these names."""
        return self.host.above(nodes, codes[self.host.name] & (self.host.group == OP), HIGHEST) >= 0

    @cached_property
    def outermost(self) -> Ints:
        """Operators with no operator around them, in the forest's order."""
        host, nodes = self.host, self._op_names[0]
        inside = fetch(host.group, fetch(host.attributes.op, host.parent[nodes])) == OP
        outer: Ints = nodes[~inside]
        return outer

    @cached_property
    def calls(self) -> Ints:
        """For each node, the outermost operator around it or itself; -1 outside of operators."""
        own = np.full(self.host.size, -1, np.int32)
        own[self.outermost] = self.outermost
        return self.host.flow(own)

    # ---- ranges

    def after(self, nodes: Ints) -> Ints:
        """The first node behind all that lies below each node."""
        out = np.asarray(nodes, np.int64) + 1
        thread = np.searchsorted(self._low, nodes, side="right") - 1
        for which in distinct(thread).tolist():
            rows = thread == which
            low, high = self._low[which], self._high[which]
            ends = np.searchsorted(self.host.start[low:high], self.host.end[nodes[rows]], side="left") + low
            out[rows] = np.maximum(out[rows], ends)
        return out

    def launched(self, low: Ints, high: Ints) -> Pairs:
        """GPU work launched in each range of nodes."""
        first = np.searchsorted(self._launches, low, side="left")
        last = np.searchsorted(self._launches, high, side="left")
        places = spread(first, np.maximum(last, first))
        return Pairs(places.row, self._order[places.index])

    def launched_below(self, nodes: Ints) -> Pairs:
        """GPU work launched at or below each node."""
        return self.launched(nodes, self.after(nodes))

    def ops_below(self, nodes: Ints) -> Pairs:
        """Rows of `ops` at or below each node."""
        host = self.host
        row_of = np.full(host.size, -1, np.int64)
        row_of[self.context.op_rows] = np.arange(len(self.context.op_rows))
        below = spread(nodes, self.after(nodes))
        rows = row_of[below.index]
        return Pairs(below.row[rows >= 0], rows[rows >= 0])

    def rows_of_ops(self, nodes: Pairs) -> Pairs:
        """Rows of `ops` at or below nodes that belong to rows, each once."""
        below = self.ops_below(nodes.index)
        return Pairs(nodes.row[below.row], below.index).each_once()

    # ---- autograd

    @cached_property
    def engine(self) -> Bools:
        """Nodes of the autograd graph at work, as flags."""
        late = np.zeros(self.host.size, np.bool_)
        if "op" in self.host.node_of:
            late[self.host.node_of["op"]] = self.context.tables["op"]["forward_thread"] > 0
        named = self.codes_of(of_autograd)
        nodes: Bools = (self.host.group == OP) & (late | named[self.host.name])
        return nodes

    @cached_property
    def sequence(self) -> Ints:
        """Autograd's number of each operator, -1 for what has none."""
        if "op" not in self.host.node_of:
            return np.full(self.host.size, -1, np.int64)
        numbers = self.context.tables["op"]["sequence"]
        out: Ints = np.full(self.host.size, -1, np.int32 if numbers.max() <= np.iinfo(np.int32).max else np.int64)
        out[self.host.node_of["op"]] = np.maximum(numbers, -1)
        return out

    @cached_property
    def _makers(self) -> tuple[Ints, Ints]:
        """Numbers, and for each the latest forward operator that bears it: the one that made the autograd node."""
        nodes = np.flatnonzero((self.sequence >= 0) & ~self.engine)
        nodes = nodes[np.lexsort((self.host.start[nodes], self.sequence[nodes]))]
        numbers = self.sequence[nodes]
        last = np.append(numbers[1:] != numbers[:-1], True) if len(numbers) else np.zeros(0, np.bool_)
        return numbers[last], nodes[last]

    @cached_property
    def _backward(self) -> tuple[Ints, Ints]:
        """Numbers and the nodes of the backward pass that bear them, sorted by number."""
        nodes = np.flatnonzero((self.sequence >= 0) & self.engine)
        nodes = nodes[np.argsort(self.sequence[nodes], kind="stable")]
        return self.sequence[nodes], nodes

    def maker_of(self, numbers: Ints) -> Ints:
        """The forward operator that made the autograd node of each number; -1 where none is known."""
        known, makers = self._makers
        if not len(known):
            return np.full(len(numbers), -1, np.int64)
        at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        return np.where((numbers >= 0) & (known[at] == numbers), makers[at], -1)

    def backward_of(self, forward: Pairs, low: Ints, high: Ints) -> Pairs:
        """GPU work of the backward pass of some forward operators, where a row's own range made the autograd node."""
        nodes = self.backward_nodes(forward, low, high)
        work = self.launched_below(nodes.index)
        return Pairs(nodes.row[work.row], work.index).each_once() if len(work.row) else NOTHING

    def backward_nodes(self, forward: Pairs, low: Ints, high: Ints) -> Pairs:
        """Nodes of the backward pass of some forward operators, where a row's own range made the autograd node."""
        numbers = self.sequence[forward.index]
        has = numbers >= 0
        wanted = Pairs(forward.row[has], numbers[has]).each_once()
        known, makers = self._makers
        if not len(known) or not len(wanted.row) or not len(self._backward[0]):
            return NOTHING
        maker = makers[np.minimum(np.searchsorted(known, wanted.index), len(known) - 1)]
        wanted = wanted.where((maker >= low[wanted.row]) & (maker < high[wanted.row]))
        numbers, nodes = self._backward
        hits = spread(
            np.searchsorted(numbers, wanted.index, side="left"), np.searchsorted(numbers, wanted.index, side="right")
        )
        return Pairs(wanted.row[hits.row], nodes[hits.index])

    def near(self, nodes: Ints, count: int) -> tuple[Ints, Ints]:
        """The range of nodes that holds so many operators before and behind each of some operators, on any thread."""
        ops, _ = self._op_names
        at, edges = np.searchsorted(ops, nodes), np.append(ops, self.host.size)
        return edges[np.maximum(at - count, 0)], edges[np.minimum(at + count + 1, len(ops))]

    # ---- shapes

    @cached_property
    def shapes(self) -> Shapes:
        """Shapes of operands, read where they are asked for."""
        return Shapes(self.context.recording.recorded.raws)

    @cached_property
    def strides(self) -> Shapes:
        """Strides of operands, likewise."""
        return Shapes(self.context.recording.recorded.inputs)

    def dims(self, nodes: Ints) -> Ints:
        """Code of the argument list of the operator that each node is (inside)."""
        return self.context.op_column(nodes, "dims")

    def texts(self, code: int) -> list[str] | None:
        """The recorded values of an operator's inputs, as text; None where they were not recorded."""
        if code not in self._texts:
            self._texts[code] = _words(self.context.recording.recorded.inputs, code)
        return self._texts[code]

    def words(self, code: int) -> list[str] | None:
        """The types of an operator's inputs; None where they were not recorded."""
        return _words(self.context.recording.recorded.raws, code)

    def matrix(self, work: Ints) -> Bools:
        """Flag the pieces of GPU work that are matrix products, convolutions or fused attention by name."""
        codes = np.zeros(len(self.context.names), np.bool_)
        codes[[code for code, name in self.context.kernel_names.items() if name.matrix]] = True
        chosen: Bools = codes[self.work.name[work]] & (self.work.kind[work] == KERNEL)
        return chosen


def _words(raws: list[bytes], code: int) -> list[str] | None:
    """Return a list of texts by its code; None for what is none."""
    try:
        words = json.loads(bytes(raws[code])) if 0 <= code < len(raws) else None
    except (ValueError, RecursionError):
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


class Shapes:
    """Argument lists, each read once."""

    def __init__(self, raws: list[bytes]) -> None:
        self._raws = raws
        self._known: dict[int, tuple[tuple[int, ...], ...]] = {}

    def operands(self, code: int) -> tuple[tuple[int, ...], ...]:
        """The shapes in a list, in order; those of scalars are empty."""
        if code < 0:
            return ()
        if code not in self._known:
            groups = _SHAPE.findall(bytes(self._raws[code])[:_MOST_BYTES])
            self._known[code] = tuple(_numbers(group) for group in groups)
        return self._known[code]

    def column(self, codes: Ints, figure: Callable[[tuple[tuple[int, ...], ...]], int]) -> Ints:
        """A figure of each argument list, worked out once for each distinct one."""
        distinct, inverse = coded(codes)
        values = np.array([figure(self.operands(code)) for code in distinct.tolist()], np.int64)
        return values[inverse] if len(values) else np.zeros(0, np.int64)


def _numbers(group: bytes) -> tuple[int, ...]:
    words = [word.strip() for word in group.split(b",")]
    return tuple(int(word) for word in words if word and len(word) <= _MOST_DIGITS)


def size_of(shape: tuple[int, ...]) -> int:
    """Elements of a tensor; -1 for a scalar, and for what no tensor can be."""
    total = 1
    for length in shape:
        total *= length
    return total if shape and total < 1 << 62 else -1


def largest(operands: tuple[tuple[int, ...], ...]) -> int:
    """Elements of the largest operand; -1 where there is none."""
    return max(map(size_of, operands), default=-1)
