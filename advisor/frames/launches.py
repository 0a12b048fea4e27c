"""`launches`: one row per call of the GPU's runtime or driver."""

from __future__ import annotations

from functools import cache

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, TIME, Frame, Makers, Rows, assemble, calls, owns_calls
from advisor.frames.schema import COMMON, Schema, flag, integer, text
from advisor.intervals import Bools, Ints, distinct, inside, starts_run, summed, union, without
from advisor.regex import regex
from advisor.timeline.calls import OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.waits import ALLOCATOR_CALL, GRAPH, SYNC_CALL, nodes_by_name

SCHEMA = Schema(
    "launches",
    "a runtime or driver call",
    (
        *COMMON,
        text("name", "the call", "name"),
        text("kind", "kernel, copy, memset, graph, sync, malloc, free, event, query or other"),
        integer("correlation", "", "ties it to GPU work", "args.correlation"),
        flag("linked", "whether the trace holds work that it launched"),
        integer("gpu_start_ns", "ns", "start of the first work it launched; -1"),
        integer("gpu_dur_ns", "ns", "duration of that work, summed"),
        integer("gpu_count", "", "pieces of work launched"),
        integer("delay_ns", "ns", "from the call's end to the work's start, negative where it began before; 0 without work"),
        integer("emptied", "", "frees that emptied the cache which a malloc or free fills again or empties; 0 where none did"),
        flag("empty_cache", "whether the stack names torch.cuda.empty_cache() as what did"),
        integer("flush", "", "without steps: how often the cache had been emptied, and filled again, before a free that empties it "
                "or a malloc that fills it; -1 else"),
    ),
)  # fmt: skip
KERNEL_CALL = regex(r"Launch(?!HostFunc)|^hipExtModuleLaunch")
"""Calls that launch a kernel, where they are none of a graph."""
_KINDS = (
    ("graph", GRAPH),
    ("sync", SYNC_CALL),
    ("free", regex(r"^(?:cuda|hip)Free|^cuMem(?:Free|Release|Unmap)|^(?:cuda|hip)HostUnregister")),
    ("malloc", ALLOCATOR_CALL),
    ("kernel", KERNEL_CALL),
    ("copy", regex(r"Memcpy")),
    ("memset", regex(r"Memset")),
    ("event", regex(r"Event|WaitEvent")),
    ("query", regex(r"Get|Query|Is[A-Z]|Peek|Occupancy|Set[A-Z]")),
)

_ALLOCATING = [code for code, (kind, _) in enumerate(_KINDS) if kind in ("malloc", "free")]
_FREE = regex(r"^(?:cuda|hip)Free$|^cuMem(?:Free|Unmap|Release)")
_EMPTY_CACHE = regex(r"torch/cuda/memory\.py\(\d+\): empty_cache$")


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    return context.recording.host.nodes_of(RUNTIME)


def build(context: Context) -> Columns:
    """The frame."""
    return assemble(makers(context), SCHEMA.names())


def makers(context: Context) -> Makers:
    """Give a maker for each column."""
    host, work, rows = context.recording.host, context.recording.work, nodes(context)
    linked = np.flatnonzero(work.launch >= 0)[::-1]
    kind = np.array([_kind(name) for name in context.names], np.int8)[host.name[rows]]

    def first() -> Ints:
        start = np.full(host.size, -1, np.int64)
        start[work.launch[linked]] = work.start[linked]
        return start[rows]

    count = cache(lambda: summed(work.launch[linked], 1, host.size)[rows])
    flushes = cache(lambda: _flushes(context, rows, np.isin(kind, _ALLOCATING)))
    return {
        **context.common_makers(
            host.start[rows], host.end[rows] - host.start[rows], lambda: _cost(context)[rows], rows
        ),
        "name": lambda: context.labels(host.name[rows], context.names),
        "kind": lambda: context.labels(kind, [kind for kind, _ in _KINDS] + ["other"]),
        "correlation": lambda: (
            context.tables["runtime"]["correlation"][host.row[rows]].astype(np.int64) if len(rows) else rows
        ),
        "linked": lambda: count() > 0,
        "gpu_start_ns": first,
        "gpu_dur_ns": lambda: summed(work.launch[linked], (work.end - work.start)[linked], host.size)[rows],
        "gpu_count": count,
        "delay_ns": lambda: np.where(count() > 0, first() - host.end[rows], 0),
        "emptied": lambda: flushes()[0],
        "empty_cache": lambda: flushes()[1],
        "flush": lambda: flushes()[2],
    }


def refills(context: Context) -> bool:
    """Tell whether the GPU idles for a cache that is emptied, or filled again, however few blocks it held."""
    rows = nodes(context)
    allocates = np.array([_kind(name) in _ALLOCATING for name in context.names], np.bool_)[
        context.recording.host.name[rows]
    ]
    emptied, _, _ = _flushes(context, rows, allocates)
    return bool(((emptied > 0) & (_cost(context)[rows] > 0)).any())


def _cost(context: Context) -> Ints:
    """ns that each forest node costs as a call of the allocator."""
    waits = context.waits.allocator
    cost = np.zeros(context.recording.host.size, np.int64)
    cost[waits.node] = context.ledger.cost(len(waits.start), "allocator")
    return cost


def _kind(name: str) -> int:
    return next((code for code, (_, pattern) in enumerate(_KINDS) if pattern.search(name)), len(_KINDS))


def _flushes(context: Context, nodes: Ints, call: Bools) -> tuple[Ints, Bools, Ints]:
    """Flushes of the allocator's cache, for calls of the driver's allocator: how many frees emptied the cache that they free
    or fill again, whether the stack names torch.cuda.empty_cache() as what did, and the column `flush`.

    *nodes* are forest nodes in order of start, *call* those of them that allocate or free. A cache is emptied by frees in
    a row that lie in no operator (an allocator short of memory frees inside one), or that empty_cache makes; the calls
    that follow until the end of the next step are its consequence.
    """
    host = context.recording.host
    count, named = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.bool_)
    again = np.full(len(nodes), -1, np.int64)
    frees = np.array([_FREE.match(name) is not None for name in context.names], np.bool_)
    at = np.flatnonzero(call)
    is_free = frees[host.name[nodes[at]]] if len(at) else np.zeros(0, np.bool_)
    if not is_free.any():
        return count, named, again
    ours = _in_empty_cache(context, nodes[at]) & is_free
    above = host.attributes.op[nodes[at]]
    outside = (above < 0) | (host.group[np.maximum(above, 0)] != OP)
    clearing = is_free & (ours | outside)
    if not clearing.any():
        return count, named, again
    # A run ends where another call of the allocator, or any launch, comes between.
    others = np.sort(host.start[without(np.flatnonzero(host.group == RUNTIME), nodes[at[clearing]])])
    clears = at[clearing]
    start = host.start[nodes[clears]]
    passed = np.searchsorted(others, start)
    fresh = starts_run(passed, host.thread[nodes[clears]])
    run = np.cumsum(fresh) - 1
    length = np.bincount(run)
    by_name = np.bincount(run, ours[clearing]) > 0
    began = start[fresh]
    step = context.recording.host_step_of(began)
    last = np.searchsorted(began, host.start[nodes[at]], side="right") - 1
    near = (last >= 0) & (context.recording.host_step_of(host.start[nodes[at]]) <= step[np.maximum(last, 0)] + 1)
    count[at[near]] = length[last[near]]
    named[at[near]] = by_name[last[near]]
    if not context.recording.steps:
        again[at] = _flush_numbers(last, is_free, length)
    return count, named, again


def _flush_numbers(last: Ints, is_free: Bools, length: Ints) -> Ints:
    """Column `flush` of calls of the allocator in order of start: the last flush before each is *last* (-1: none).

    *length* are the frees of each flush. One behind which nothing is allocated does not count: a program that ends frees what it
    has. As many allocations as it freed blocks fill the cache again; more are memory that the program had not needed before.
    """
    allocates = (last >= 0) & ~is_free
    filled = np.bincount(last[allocates], minlength=len(length)) > 0
    before = np.append(0, np.cumsum(filled)[:-1])
    order = np.cumsum(allocates)
    first = np.maximum.accumulate(np.where(np.append(True, last[1:] != last[:-1]), order - allocates, 0))
    flush = np.maximum(last, 0)
    again = (last >= 0) & filled[flush] & (is_free | (order - first <= length[flush]))
    return np.where(again, before[flush] + allocates, -1)


def _in_empty_cache(context: Context, nodes: Ints) -> Bools:
    """Flag the forest nodes inside a call of torch.cuda.empty_cache() that the stacks show."""
    host = context.recording.host
    calls = nodes_by_name(context.recording, _EMPTY_CACHE, (PYTHON,))
    flags = np.zeros(len(nodes), np.bool_)
    for thread in distinct(host.thread[calls]).tolist() if len(calls) else ():
        own_calls = calls[host.thread[calls] == thread]
        here = host.thread[nodes] == thread
        flags[here] = inside(union(host.start[own_calls], host.end[own_calls]), host.start[nodes[here]])
    return flags


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "kind", COUNT, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_calls(nodes, lambda context: context.waits.allocator, "allocator"),
    shortens=calls(nodes),
    makers=makers,
)
