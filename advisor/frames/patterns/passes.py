"""Runs of the autograd engine: backward passes in order, and the nodes of the graph that each of them runs."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.tree import HIGHEST, Tree
from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.timeline.calls import BACKWARD

_STORE = "torch::autograd::AccumulateGrad"
_MOST = 400_000
THREAD_BITS = 40


class Runs(Struct, eq=False):
    """Nodes of the graph that the engine ran, in order of time, with the pass that each belongs to.

    ``key`` is a node's number with the thread of its forward operator, -1 for what has none (what stores a gradient);
    ``first`` are the places of each pass's first node, ``start`` and ``end`` its time; ``thread`` is the one that calls passes.
    """

    nodes: Ints
    key: Ints
    of: Ints
    first: Ints
    start: Ints
    end: Ints
    thread: int
    calls: Ints
    """Operators of that thread outside of backward passes, in order, and their starts."""
    starts: Ints

    def __len__(self) -> int:
        return len(self.first)

    def last_call(self) -> Ints:
        """The last operator before each pass on the thread that calls it; -1 for none."""
        return fetch(self.calls, np.searchsorted(self.starts, self.start) - 1)


def calls_between(tree: Tree) -> tuple[int, Ints]:
    """The thread with most operators outside of backward passes, -1 for none, and those that Python calls there, in order."""
    host, outer = tree.host, tree.outermost
    outer = outer[host.attributes.phase[outer] != BACKWARD]
    if not len(outer):
        return -1, outer
    threads, counts = np.unique(host.thread[outer], return_counts=True)
    thread = int(threads[np.argmax(counts)])
    calls = outer[host.thread[outer] == thread]
    return thread, calls[np.argsort(host.start[calls], kind="stable")]


def called_at(tree: Tree, first: Ints, thread: int, before: Ints) -> Ints:
    """Places (codes) that called passes: of the first node's own stack, else of the Python open there, else of the call *before*.

    -1 where none of these is known; *thread* is the one that calls passes.
    """
    host = tree.host
    place = host.called_from(first)
    around = host.innermost(thread, host.start[first] - 1)
    user = np.where(around >= 0, host.attributes.user[np.maximum(around, 0)], -1)
    called = np.where(before >= 0, host.attributes.user[np.maximum(before, 0)], -1)
    found: Ints = np.where(place >= 0, place, np.where(user >= 0, user, called)).astype(np.int64)
    return found


def repeated_runs(tree: Tree) -> Runs | None:
    """All passes of a recording in which some node of a graph was run twice; None for others."""
    host = tree.host
    nodes = np.flatnonzero(tree.engine)
    if not 0 < len(nodes) <= 10 * _MOST:
        return None
    nodes = nodes[host.above(nodes, tree.engine, HIGHEST) < 0]
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    key = _keys(tree, nodes)
    numbered = key[key >= 0]
    if not 0 < len(numbered) <= _MOST or len(distinct(numbered)) == len(numbered):
        return None
    thread, calls = calls_between(tree)
    if not len(calls):
        return None
    starts = host.start[calls]
    cut = np.zeros(len(nodes), np.bool_)
    cut[0] = True
    cut[1:] = np.diff(np.searchsorted(starts, host.start[nodes])) > 0
    _cut_again(key, cut)
    first = np.flatnonzero(cut)
    end = np.maximum.reduceat(host.end[nodes], first)
    return Runs(nodes, key, np.cumsum(cut) - 1, first, host.start[nodes[first]], end, thread, calls, starts)


def _keys(tree: Tree, nodes: Ints) -> Ints:
    number = tree.sequence[nodes]
    thread = tree.context.op_column(nodes, "forward_thread", 0)
    return np.where(number >= 0, np.maximum(thread, 0) << THREAD_BITS | number, -1)


def _cut_again(key: Ints, cut: Bools) -> None:
    """Begin a new pass, in place, where a node is run again with no operator between: a pass runs each of its nodes once.

    It begins where the numbers last rose: within a pass they fall, as what was computed last comes first.
    """
    of = np.cumsum(cut) - 1
    order = np.lexsort((np.arange(len(key)), key, of))
    same = (key[order][1:] == key[order][:-1]) & (of[order][1:] == of[order][:-1]) & (key[order][1:] >= 0)
    for which in distinct(of[order][1:][same]).tolist():
        low, high = np.searchsorted(of, which, side="left"), np.searchsorted(of, which, side="right")
        seen: set[int] = set()
        before, rise = -1, int(low)
        for place in range(int(low), int(high)):
            number = int(key[place])
            if number < 0:
                continue
            if number > before:
                rise = place
            if number in seen:
                cut[rise] = True
                seen = set(key[rise:place].tolist())
            seen.add(number)
            before = number


def stores(tree: Tree, runs: Runs) -> Ints:
    """For each node of the passes what it stores: -1 no gradient, 0 a new one, 1 one that is added to another.

    autograd.grad ends at the same nodes as backward, and stores nothing.
    """
    host = tree.host
    found = np.full(len(runs.nodes), -1, np.int64)
    place = np.full(host.size, -1, np.int64)
    place[runs.nodes] = np.arange(len(runs.nodes))
    top = host.flow(np.where(place >= 0, place, -1))
    stored = tree.ops(tree.codes_of(_STORE.__eq__))
    found[top[stored][top[stored] >= 0]] = 0
    adds = tree.ops(tree.codes_of(frozenset({"aten::add_", "aten::add"}).__contains__))
    flags = np.zeros(host.size, np.bool_)
    flags[stored] = True
    adds = adds[host.above(adds, flags, HIGHEST) >= 0]
    found[top[adds][top[adds] >= 0]] = 1
    return found
