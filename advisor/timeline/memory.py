"""Memory over time: points of its curve, lifetimes of allocations, what stays from step to step."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.intervals import Ints, distinct, fetch, narrow
from advisor.timeline.context import Context
from advisor.timeline.recording import HOST_DEVICES, NO_DEVICE

# Fewer steps than this do not tell a leak from buffers that fill once.
_LEAST_STEPS = 5
LARGE_BYTES = 32 << 20
"""Memory of this size and more the C library gives back to the system at once: its largest threshold for that (mallopt(3))."""
NS_A_BYTE = 0.1
"""ns that giving a byte back takes at most: 0.040 to 0.092, by the median 0.051, in 81 stretches of a model on the CPU, 8.9 GB."""
_COLUMNS = ("device", "bytes", "address", "allocated", "reserved", "thread")


def instants(context: Context) -> dict[str, Ints]:
    """Events of the allocators in order of time, by column; ``start_ns`` and ``device`` (-1 for the host) as in all frames."""
    table = context.tables.get("instant") or dict.fromkeys((*_COLUMNS, "ts", "device_type"), np.zeros(0, np.int64))
    rows = np.argsort(table["ts"], kind="stable")
    rows = rows[table["device_type"][rows] != NO_DEVICE]
    # Where they stand in order, hundreds of thousands need no copy.
    order = slice(None) if len(rows) == len(table["ts"]) and (rows[1:] > rows[:-1]).all() else rows
    events = {key: narrow(table[key][order]) for key in _COLUMNS}
    device = np.where(np.isin(table["device_type"][order], HOST_DEVICES), -1, events["device"])
    for own, worked in _numbers(context, distinct(device[device >= 0]).tolist()).items():
        device = np.where((events["device"] == own) & (device >= 0), worked, device)
    return events | {
        "start_ns": table["ts"][order] - context.recording.zero_ns if len(table["ts"]) else table["ts"],
        "device": device,
    }


def _numbers(context: Context, allocators: list[int]) -> dict[int, int]:
    """The number of each device in its work, by its allocator's number, where they differ and it is clear which is which.

    Allocators count the devices that the process sees; ROCm's tracer counts all agents of the machine, processors among
    them, in the same order.
    """
    working = sorted(context.recording.devices)
    if context.recording.vendor == "nvidia" or len(allocators) != len(working) or allocators == working:
        return {}
    return dict(zip(allocators, working, strict=True))


def freeing_ns(context: Context, start: Ints, end: Ints) -> Ints:
    """Return what of each stretch outside operators lies behind the free of a large tensor of the host's: the system takes its
    memory back meanwhile. It is no longer than that takes for the bytes freed."""
    behind, freed = behind_frees(context, start, end)
    shorter: Ints = np.minimum(behind, np.rint(freed * NS_A_BYTE).astype(np.int64))
    return shorter


def behind_frees(context: Context, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return, of each stretch, the ns behind the first free of a large tensor of the host's in it, and the bytes freed in it."""
    events = context.once(instants)
    large = (events["device"] < 0) & (events["bytes"] <= -LARGE_BYTES)
    at, freed = events["start_ns"][large], np.append(0, np.cumsum(-events["bytes"][large]))
    first, last = np.searchsorted(at, start), np.searchsorted(at, end)
    behind = np.where(last > first, end - fetch(at, np.where(last > first, first, -1)), 0)
    return np.maximum(behind, 0), freed[last] - freed[first]


def curve(context: Context) -> dict[str, Ints]:
    """Points of the curve where the trace has totals, in order of time."""
    events = context.once(instants)
    has = events["allocated"] >= 0
    known = slice(None) if has.all() else has
    points = {key: events[key][known] for key in ("device", "start_ns", "bytes")}
    reserved = np.maximum(events["reserved"][known], 0)
    return points | {"allocated_bytes": events["allocated"][known], "reserved_bytes": reserved}


def facts(context: Context) -> dict[str, Any]:
    """Headline facts, by column of `trace`."""
    at_ends = at_step_ends(context)
    growth = kept = None
    # The first step allocates what all of them keep: gradients, the optimizer's state.
    if len(at_ends) >= _LEAST_STEPS and (at_ends >= 0).all():
        more = np.diff(at_ends[1:])
        growth = int(np.median(more)) if len(more) and (more > 0).all() else 0
        pools = at_step_ends(context, "reserved_bytes")
        taken = int(pools[-1] - pools[1])
        kept = float(at_ends[-1] - at_ends[1]) / taken if growth and taken > 0 else 0.0
    points = context.once(curve)
    rows = np.flatnonzero(points["device"] == context.device)
    reserved = unused = None
    if len(rows) and context.device >= 0:
        allocated, reserved_bytes = points["allocated_bytes"][rows], points["reserved_bytes"][rows]
        reserved = int(reserved_bytes[allocated.argmax()])
        sizes = points["bytes"][rows]
        before = np.flatnonzero((np.diff(reserved_bytes) > 0) & (sizes[1:] > 0))
        spare = (reserved_bytes - allocated)[before]
        # Where all of it together would not have been enough, more had to be reserved in any case.
        enough = spare >= sizes[before + 1]
        unused = int(spare[enough].max()) if enough.any() else 0
    return {
        "memory_growth_bytes": growth,
        "kept_share": kept,
        "memory_recorded": _recorded(context),
        "peak_above_start_bytes": _above_start(context),
        "reserved_at_peak_bytes": reserved,
        "unused_when_reserving_bytes": unused,
    }


def _recorded(context: Context) -> str:
    """Return in words whether events on memory were recorded."""
    events = context.tables.get("instant")
    if events is None:
        return "no"
    return "yes" if (events["allocated"] >= 0).any() else "without totals"


def _above_start(context: Context) -> int | None:
    """Return the most that the busiest device held beyond what it held when the recording began; None with totals, or no events.

    torch of 2021 writes allocations and frees without totals. Where some were taken out of the file, no sum is one of all.
    """
    events = context.once(instants)
    here = events["device"] == context.device
    if context.device < 0 or context.thinned or not here.any() or (events["allocated"][here] >= 0).any():
        return None
    return max(int(np.cumsum(events["bytes"][here].astype(np.int64)).max()), 0)


def at_step_ends(context: Context, column: str = "allocated_bytes") -> Ints:
    """Bytes allocated, or reserved, when each step ends on the host: on the busiest device, else on the host.

    -1 before the first event of that device; empty without steps or without totals.
    """
    starts = np.array([step.start for step in context.recording.steps], np.int64)
    points = context.once(curve)
    rows = points["device"] == context.device
    when, allocated = points["start_ns"][rows], points[column][rows]
    if not len(starts) or not len(when):
        return np.zeros(0, np.int64)
    ends = np.append(starts[1:], max(context.recording.steps[-1].end, starts[-1]))
    at = np.searchsorted(when, ends, side="left") - 1
    return fetch(allocated, at)


def lifetimes(context: Context) -> dict[str, Ints]:
    """Ends of allocations, by instant: ``freed_ns`` (-1 where the trace holds no free of it) and ``kept_steps``, how many
    steps began on the host while it lived. Frees, and what has no address, have -1 in both."""
    events = context.once(instants)
    when, address, device = events["start_ns"], events["address"], events["device"]
    freed, kept = np.full(len(when), -1, np.int64), np.full(len(when), -1, np.int64)
    allocations = np.flatnonzero((address != 0) & (events["bytes"] > 0))
    order = np.lexsort((np.arange(len(when)), when, address, device))
    same = (device[order[1:]] == device[order[:-1]]) & (address[order[1:]] == address[order[:-1]])
    follows = np.full(len(when), -1, np.int64)
    follows[order[:-1]] = np.where(same, order[1:], -1)
    freed[allocations] = fetch(when, follows[allocations])
    starts = np.array([step.start for step in context.recording.steps], np.int64)
    until = np.where(freed[allocations] >= 0, freed[allocations], context.recording.window[1])
    kept[allocations] = np.searchsorted(starts, until, side="left") - np.searchsorted(
        starts, when[allocations], side="right"
    )
    return {"freed_ns": freed, "kept_steps": np.maximum(kept, -1)}
