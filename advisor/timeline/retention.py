"""What memory is kept: by the program from step to step, by the allocator's cache, and what empties that cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.frames.memory import curve, device_of
from advisor.intervals import Bools, Ints, inside, union
from advisor.timeline.calls import OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.waits import nodes_named

# Fewer steps than this do not tell a leak from buffers that fill once.
_LEAST_STEPS = 5
_FREE = re.compile(r"^(?:cuda|hip)Free$|^cuMem(?:Free|Unmap|Release)")
_EMPTY_CACHE = re.compile(r"torch/cuda/memory\.py\(\d+\): empty_cache$")


def facts(context: Context) -> dict[str, Any]:
    """Headline facts, by column of `trace`."""
    held = at_step_ends(context)
    growth = None
    # The first step allocates what all of them keep: gradients, the optimizer's state.
    if len(held) >= _LEAST_STEPS and (held >= 0).all():
        more = np.diff(held[1:])
        growth = int(np.median(more)) if len(more) and (more > 0).all() else 0
    points = curve(context)
    mine = np.flatnonzero(points["device"] == context.device)
    reserved = unused = None
    if len(mine) and context.device >= 0:
        allocated, kept = points["allocated_bytes"][mine], points["reserved_bytes"][mine]
        reserved = int(kept[allocated.argmax()])
        asked = points["bytes"][mine]
        before = np.flatnonzero((np.diff(kept) > 0) & (asked[1:] > 0))
        spare = (kept - allocated)[before]
        # Where all of it together would not have been enough, more had to be reserved in any case.
        enough = spare >= asked[before + 1]
        unused = int(spare[enough].max()) if enough.any() else 0
    return {
        "memory_growth_bytes": growth,
        "reserved_at_peak_bytes": reserved,
        "unused_when_reserving_bytes": unused,
    }


def at_step_ends(context: Context) -> Ints:
    """Bytes allocated when each step ends on the host: on the busiest device, else on the host. -1 before the first event
    of that device; empty without steps or without totals."""
    starts = np.array([step.start for step in context.recording.steps], np.int64)
    points = curve(context)
    mine = points["device"] == context.device
    when, allocated = points["start_ns"][mine], points["allocated_bytes"][mine]
    if not len(starts) or not len(when):
        return np.zeros(0, np.int64)
    ends = np.append(starts[1:], max(context.recording.steps[-1].end, starts[-1]))
    at = np.searchsorted(when, ends, side="left") - 1
    return np.where(at >= 0, allocated[np.maximum(at, 0)], -1)


def lifetimes(context: Context, table: Mapping[str, Ints], when: Ints) -> dict[str, Ints]:
    """Until when each allocation lived: ``freed_ns`` (-1 where the trace holds no free of it) and ``kept_steps``, how many
    steps began on the host while it did. Frees, and what has no address, have -1 in both."""
    size = len(when)
    freed, kept = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    known = (table["address"] != 0) if size else np.zeros(0, np.bool_)
    taken = np.flatnonzero(known & (table["bytes"] > 0)) if size else np.zeros(0, np.int64)
    if not len(taken):
        return {"freed_ns": freed, "kept_steps": kept}
    device = device_of(table)
    order = np.lexsort((np.arange(size), when, table["address"], device))
    follows = np.full(size, -1, np.int64)
    same = (device[order[1:]] == device[order[:-1]]) & (table["address"][order[1:]] == table["address"][order[:-1]])
    follows[order[:-1]] = np.where(same, order[1:], -1)
    after = follows[taken]
    ended = after >= 0
    freed[taken[ended]] = when[after[ended]]
    starts = np.array([step.start for step in context.recording.steps], np.int64)
    until = np.where(freed[taken] >= 0, freed[taken], context.recording.window[1])
    kept[taken] = np.searchsorted(starts, until, side="left") - np.searchsorted(starts, when[taken], side="right")
    return {"freed_ns": freed, "kept_steps": np.maximum(kept, -1)}


def emptied(context: Context, nodes: Ints, call: Bools) -> tuple[Ints, Bools]:
    """For calls of the driver's allocator: how many frees emptied the cache that they free or fill again, and whether the
    stack names torch.cuda.empty_cache() as what did.

    *nodes* are forest nodes in order of start, *call* those of them that allocate or free. A cache is emptied by frees in
    a row that lie in no operator (an allocator short of memory frees inside one), or that empty_cache makes; the calls
    that follow until the end of the next step are its consequence.
    """
    host = context.recording.host
    count, named = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.bool_)
    frees = np.array([_FREE.match(name) is not None for name in context.names], np.bool_)
    at = np.flatnonzero(call)
    is_free = frees[host.name[nodes[at]]] if len(at) else np.zeros(0, np.bool_)
    if not is_free.any():
        return count, named
    ours = _in_empty_cache(context, nodes[at]) & is_free
    above = host.attributes.op[nodes[at]]
    outside = (above < 0) | (host.group[np.maximum(above, 0)] != OP)
    clearing = is_free & (ours | outside)
    if not clearing.any():
        return count, named
    # A run ends where another call of the allocator, or any launch, comes between.
    others = np.sort(host.start[np.setdiff1d(np.flatnonzero(host.group == RUNTIME), nodes[at[clearing]])])
    mine = at[clearing]
    start = host.start[nodes[mine]]
    passed = np.searchsorted(others, start)
    fresh = np.ones(len(mine), np.bool_)
    fresh[1:] = (passed[1:] != passed[:-1]) | (host.thread[nodes[mine[1:]]] != host.thread[nodes[mine[:-1]]])
    run = np.cumsum(fresh) - 1
    length = np.bincount(run)
    by_name = np.bincount(run, ours[clearing]) > 0
    began = start[fresh]
    step = context.recording.host_step_of(began)
    last = np.searchsorted(began, host.start[nodes[at]], side="right") - 1
    near = (last >= 0) & (context.recording.host_step_of(host.start[nodes[at]]) <= step[np.maximum(last, 0)] + 1)
    count[at[near]] = length[last[near]]
    named[at[near]] = by_name[last[near]]
    return count, named


def _in_empty_cache(context: Context, nodes: Ints) -> Bools:
    """Which forest nodes lie inside a call of torch.cuda.empty_cache() that the stacks show."""
    host = context.recording.host
    calls = nodes_named(context.recording, _EMPTY_CACHE, (PYTHON,))
    held = np.zeros(len(nodes), np.bool_)
    for thread in np.unique(host.thread[calls]).tolist() if len(calls) else ():
        mine = calls[host.thread[calls] == thread]
        here = host.thread[nodes] == thread
        held[here] = inside(union(host.start[mine], host.end[mine]), host.start[nodes[here]])
    return held
