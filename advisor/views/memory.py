"""Curves of memory, thinned without losing their extremes, and what held the memory at the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.intervals import Ints, distinct
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading, MemoryCurve
from advisor.timeline import memory
from advisor.views.grid import Groups, Labels, table

if TYPE_CHECKING:
    from advisor.trace import Trace

MOST_POINTS = 1000
_MOST_HOLDERS = 15
_BEFORE = "(before the recording)"
_HEADINGS = (
    Heading(name="held by", meaning="the nn.Module that allocated it, else the operator"),
    Heading(name="size", unit="MB", meaning="bytes allocated and not freed at the peak, in millions"),
    Heading(name="share", unit="share", meaning="of the peak"),
    Heading(name="allocations", unit="count"),
)


def thin(when: Ints, curves: list[Ints], most: int = MOST_POINTS) -> Ints:
    """Indices of at most *most* points: the ends, and in each of equal stretches of time the extremes of every curve."""
    if len(when) <= most:
        return np.arange(len(when))
    buckets = max((most - 2 - len(curves)) // (2 * len(curves)), 1)
    span = max(int(when[-1] - when[0]), 1)
    bucket = ((when - when[0]).astype(np.float64) / span * (buckets - 1e-6)).astype(np.int64)
    keep = [np.array([0, len(when) - 1])]
    for curve in curves:
        order = np.lexsort((curve, bucket))
        edge = np.flatnonzero(np.diff(bucket[order]))
        keep += [order[np.append(0, edge + 1)], order[np.append(edge, len(order) - 1)], np.array([np.argmax(curve)])]
    return distinct(np.concatenate(keep))


def curves(trace: Trace) -> list[MemoryCurve]:
    """One curve per GPU with memory events, the busiest first; the host's where only the host has any."""
    points = trace.context.once(memory.curve)
    devices = distinct(points["device"]).tolist()
    gpus = [device for device in devices if device >= 0]
    rank = {device: at for at, device in enumerate(trace.context.recording.devices)}
    gpus.sort(key=lambda device: (rank.get(device, len(rank)), device))
    chosen = gpus or [device for device in devices if points["allocated_bytes"].any()]
    return [_curve(trace, points, device) for device in chosen]


def _curve(trace: Trace, points: dict[str, Ints], device: int) -> MemoryCurve:
    here = points["device"] == device
    when, allocated, reserved = (points[key][here] for key in ("start_ns", "allocated_bytes", "reserved_bytes"))
    peak = int(np.argmax(allocated))
    keep = thin(when, [allocated, reserved])
    entry = trace.context.recording.device_properties(device) if device >= 0 else None
    return MemoryCurve(
        device=device,
        capacity_bytes=entry.memory_bytes if entry else None,
        ms=[at / 1e6 for at in when[keep].tolist()],
        allocated_bytes=allocated[keep].tolist(),
        reserved_bytes=reserved[keep].tolist(),
        peak_ms=int(when[peak]) / 1e6,
        peak_bytes=int(allocated[peak]),
        holders=_holders(trace, device, int(allocated[peak])),
    )


def _holders(trace: Trace, device: int, peak: int) -> Grid:
    """List what was allocated and not yet freed when the device's allocated memory was highest."""
    frame = trace.columns("allocations")
    total = frame["allocated_bytes"].to_numpy(np.int64, na_value=-1)
    events = np.flatnonzero((frame["device"].to_numpy() == device) & (total >= 0))
    until = events[: int(np.argmax(total[events])) + 1]
    address, size = frame["address"].to_numpy()[until], frame["bytes"].to_numpy()[until]
    named = address != 0
    if not named.any():
        return Grid(columns=list(_HEADINGS), rows=[], total=0, note="The trace does not tell allocations apart.")
    # The last that was said of an address by then: an allocation that still stands, or a free.
    until, address, size = until[named], address[named], size[named]
    _, last = np.unique(address[::-1], return_index=True)
    last = len(address) - 1 - last
    live = last[size[last] > 0]
    rows, sizes = until[live], size[live]
    module, op = Labels(frame["module"]), Labels(frame["op"])
    by_module = module.codes[rows] >= 0
    owner = np.where(by_module, module.codes[rows], len(module.texts) + op.codes[rows])
    groups = Groups(owner)
    bytes_, first = groups.sum(sizes), groups.first

    def owner_name(at: int) -> str:
        return module.text(module.codes[at]) or op.text(op.codes[at]) or "(no operator)"

    owners = [owner_name(at) for at in rows[first].tolist()]
    columns: list[list[Any]] = [
        owners,
        [value / 1e6 for value in bytes_.tolist()],
        [value / peak if peak else None for value in bytes_.tolist()],
        groups.sizes().tolist(),
    ]
    grid = table(list(zip(_HEADINGS, columns, strict=True)), bytes_, "", _MOST_HOLDERS)
    shown = np.argsort(-bytes_, kind="stable")[:_MOST_HOLDERS]
    others = int(bytes_.sum() - bytes_[shown].sum())
    rest: list[list[Cell]] = []
    if others:
        count = int(groups.sizes().sum() - groups.sizes()[shown].sum())
        rest.append([f"({groups.count - len(shown)} others)", others / 1e6, others / peak if peak else None, count])
    before = peak - int(bytes_.sum())
    if before > 0:
        rest.append([_BEFORE, before / 1e6, before / peak, None])
    note = f"At the peak. {_BEFORE}: allocated when the profiler did not record yet, such as parameters."
    return Grid(columns=grid.columns, rows=grid.rows + rest, total=grid.total + (before > 0), note=note)
