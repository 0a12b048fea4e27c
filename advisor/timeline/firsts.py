"""First calls of operators: what only they take, outside the calls in them, and searches for the best algorithm."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.intervals import EMPTY, Bools, Ints, complement, distinct, union
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.recording import Recording
from advisor.timeline.startup_table import (
    ALLOCATION,
    CONTEXT,
    FEW,
    FIRST_CALL,
    LEAST_NS,
    LOADING,
    LONG_NS,
    SELECTION,
    SPECIALIZATION,
    TIMES,
    Rows,
)

# Operators that choose among libraries' algorithms: the first call of a shape may search or plan.
SELECTS = regex(
    r"convolution|conv[123]d|(?:::|_)(?:mm|bmm|baddbmm|addmm|addmv|linear|matmul)$|scaled_mm|attention|_rnn|miopen|cudnn"
)
# Of these the number of kernels does not grow with the shape.
_CONVOLVES = regex(r"convolution|conv[123]d")
ALLOCATES = regex(r"^aten::(?:empty|new_empty)(?:_\w+)?$")
_COMPILED = regex(r"^(?:Torch-Compiled Region|## Call CompiledFxGraph|CompiledFunction)")
# Names that the profiler's user gives to a part of the program: of 2021 they are operators.
_RANGES = regex(r"^(?:ProfilerStep#|Optimizer\.|enumerate\(|##? )")
# Between two calls of an operator lie microseconds of its own code; what takes longer sets something up.
_STILL_NS = 100_000
_SEARCH_TIMES = 3


class _Facts(Struct):
    """Facts of all nodes, worked out once: own time, shapes, and which of them launch, and launch a kernel for the first time."""

    own: Ints
    kinds: Ints
    launching: Bools
    new: Bools
    launches: Ints  # times of all launches, sorted


def find(recording: Recording, ops: Ints, first: Ints, rows: Rows) -> None:
    """Add what only first calls of some operators take; *first* are the launches of kernels for the first time."""
    host, names = recording.host, recording.names
    if not len(ops):
        return
    own = host.end - host.start
    own -= host.children_ns()
    # A search is long by the calls in it, all else by what is outside these.
    ops = ops[(own[ops] >= LEAST_NS) | _selecting(recording, host.name[ops])]
    if not len(ops):
        return
    launched = distinct(recording.work.launch[recording.work.launch >= 0])
    facts = _Facts(
        own, shapes(recording), _around(recording, launched), _around(recording, first), np.sort(host.start[launched])
    )
    codes = distinct(host.name[ops])
    nodes = np.flatnonzero((host.group == OP) & np.isin(host.name, codes))
    nodes = nodes[np.lexsort((host.start[nodes], host.name[nodes]))]
    edges = np.searchsorted(host.name[nodes], codes)
    for name, calls in zip(codes.tolist(), np.split(nodes, edges[1:]), strict=True):
        if _RANGES.match(names[name]):
            continue
        kind, chosen = _far(recording, names[name], calls, facts)
        for at in np.flatnonzero(chosen).tolist():
            if _above_its_like(at, facts.own[calls], facts.kinds[calls]):
                _own_time(recording, kind, int(calls[at]), rows)
        if kind == SELECTION and facts.launching[calls].any():
            _searches(recording, calls, _CONVOLVES.search(names[name]) is not None, facts, rows)


def _selecting(recording: Recording, codes: Ints) -> Bools:
    chosen = [code for code in distinct(codes).tolist() if SELECTS.search(recording.names[code])]
    return np.isin(codes, chosen)


def _far(recording: Recording, name: str, calls: Ints, facts: _Facts) -> tuple[int, Bools]:
    """Flag calls of one name, in order of start, whose own time only a first call takes; and return what that is."""
    own, kinds, few = facts.own[calls], facts.kinds[calls], len(calls) <= FEW
    far = own >= LEAST_NS
    if not few:
        far &= own >= TIMES * int(np.median(own))
    first = _order(recording, calls) == 0
    if _COMPILED.match(name):
        return SPECIALIZATION, far & first & (own >= LONG_NS) & (not few)
    kind = SELECTION if SELECTS.search(name) else FIRST_CALL
    if ALLOCATES.match(name):
        return kind, far & first & (own >= 2 * LEAST_NS)
    if facts.launching[calls].any():
        # What selects does so for each shape; else a shape is nothing new.
        fresh = facts.new[calls] | (first_of(kinds) if kind == SELECTION else first)
        return kind, far & fresh & (not few)
    # On the CPU a longer call may have more to do: only what its like of the same shapes shows.
    like_first = int((kinds == kinds[0]).sum()) > FEW
    # Nor does anything show that it chose: the first call starts its library too.
    return FIRST_CALL, far & first & (own >= 2 * LEAST_NS) & like_first


def _above_its_like(at: int, own: Ints, kinds: Ints) -> bool:
    """Tell if a call takes far longer than later ones of its own shapes, where there are any; other shapes may have more to do."""
    same = own[at + 1 :][(kinds[at + 1 :] == kinds[at]) & (kinds[at] >= 0)]
    return not len(same) or int(own[at]) >= TIMES * int(np.median(same))


def _order(recording: Recording, calls: Ints) -> Ints:
    """Number the calls of one name; an operator that calls itself is one call."""
    host = recording.host
    above = host.parent[calls]
    inner = (above >= 0) & (host.name[np.maximum(above, 0)] == host.name[calls])
    order: Ints = np.cumsum(~inner) - 1
    return order


def _searches(recording: Recording, calls: Ints, convolves: bool, facts: _Facts, rows: Rows) -> None:
    """Add whole first calls of a shape that ran many times the kernels of their like: they tried the algorithms."""
    host = recording.host
    if len(calls) <= FEW:
        return
    start, end, kinds = host.start[calls], host.end[calls], facts.kinds[calls]
    count = np.searchsorted(facts.launches, end) - np.searchsorted(facts.launches, start)
    like = max(int(np.median(count)), 1)
    far = (count > _SEARCH_TIMES * like) & (end - start >= TIMES * np.median(end - start))
    far &= facts.new[calls] | first_of(kinds)
    # What a call in it loads or sets up for the first time is no search.
    known = rows.spans(CONTEXT, LOADING, ALLOCATION) if far.any() else EMPTY
    for at in np.flatnonzero(far).tolist():
        same = np.flatnonzero((kinds == kinds[at]) & (kinds >= 0))
        same = same[same > at]
        # A longer sequence takes more kernels each time.
        if _SEARCH_TIMES * np.median(count[same]) < count[at] if len(same) else convolves:
            tried = complement(known, int(start[at]), int(end[at]))
            rows.add(SELECTION, np.full(len(tried.start), calls[at], np.int64), tried.start, tried.end)


def _own_time(recording: Recording, kind: int, node: int, rows: Rows) -> None:
    """Add the long stretches of an operator in which nothing that it calls runs."""
    start, end = still(recording, node, _STILL_NS)
    if int((end - start).sum()) >= LEAST_NS:
        rows.add(kind, np.full(len(start), node, np.int64), start, end)


def still(recording: Recording, node: int, least_ns: int) -> tuple[Ints, Ints]:
    """Stretches of a call, of *least_ns* or more, in which nothing that it calls runs."""
    host = recording.host
    low, high = int(host.start[node]), int(host.end[node])
    last = int(np.searchsorted(host.thread, host.thread[node], side="right"))
    # The forest is in order of start on each thread: what a call calls follows it.
    last = node + 1 + int(np.searchsorted(host.start[node + 1 : last], high))
    children = node + 1 + np.flatnonzero(host.parent[node + 1 : last] == node)
    holes = complement(union(host.start[children], host.end[children]), low, high)
    keep = holes.end - holes.start >= least_ns
    return holes.start[keep], holes.end[keep]


def _around(recording: Recording, nodes: Ints) -> Bools:
    """Flag the nodes and all that are around them."""
    host = recording.host
    flags = np.zeros(host.size, np.bool_)
    around = distinct(nodes)
    while len(around := around[around >= 0]):
        fresh = around[~flags[around]]
        flags[fresh] = True
        around = distinct(host.parent[fresh]).astype(np.int64)
    return flags


def shapes(recording: Recording) -> Ints:
    """Code of the recorded shapes of each node's operator; -1 where there are none."""
    host = recording.host
    out = np.full(host.size, -1, np.int64)
    table = recording.tables.get("op")
    if table is not None and "op" in host.node_of and "dims" in table:
        out[host.node_of["op"]] = table["dims"]
    return out


def first_of(kinds: Ints) -> Bools:
    """Flag the first entry of each value."""
    flags = np.zeros(len(kinds), np.bool_)
    flags[np.unique(kinds, return_index=True)[1]] = True
    return flags
