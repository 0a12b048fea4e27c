"""`devices`: one row per GPU that did anything, with the figures that the TensorBoard plugin used to show.

The plugin's own definitions (facts on peers): utilization is the union of kernels over the steps, the last step extended
to the end of the work that the steps launched; SM efficiency is the sum of concurrent ``blocks per SM``, capped at 1,
over the same time; occupancy is the estimate weighted by the durations of kernels, idle left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import Frame
from advisor.frames.schema import Schema, integer, real, text
from advisor.frames.values import typed
from advisor.intervals import Ints, clip
from advisor.timeline.context import Context
from advisor.timeline.memory import curve
from advisor.timeline.recording import KERNEL

SCHEMA = Schema(
    "devices",
    "a GPU with work in the trace",
    (
        integer("device", "", "number, as the trace has it"),
        text("name", "its name, of an AMD GPU without one by its compute units and memory; MTIA, HPU and the like where no "
             "properties are written", "deviceProperties.name"),
        text("vendor", "nvidia, amd, intel or unknown"),
        real("capability", "", "CUDA compute capability, 8.0 for A100; NULL for other makers"),
        integer("sms", "", "streaming multiprocessors or compute units; NULL where unknown", "deviceProperties.numSms"),
        integer("memory_bytes", "bytes", "capacity; NULL where unknown", "deviceProperties.totalGlobalMem"),
        integer("busy_ns", "ns", "kernels, copies and memsets inside the window, as a union"),
        integer("kernel_ns", "ns", "kernels inside the window, as a union"),
        real("busy_share", "share", "busy_ns over the window"),
        real("utilization", "share", "the TensorBoard plugin's GPU utilization; NULL without kernels"),
        real("sm_efficiency", "share", "the plugin's estimated SM efficiency; NULL where blocks per SM are not recorded"),
        real("achieved_occupancy", "share", "the plugin's, over the kernels that have one: 0 stands for none; NULL where none has"),
        real("occupancy_share", "share", "of kernel time: of kernels that have an achieved occupancy; NULL where none has"),
        integer("peak_allocated_bytes", "bytes", "highest Total Allocated; NULL where memory was not recorded"),
        integer("peak_reserved_bytes", "bytes", "highest Total Reserved; NULL where memory was not recorded"),
    ),
)  # fmt: skip


def plugin_window(context: Context) -> tuple[int, int]:
    """From the first step's start to the last step's end, extended to the end of the work that the steps launched.

    Without steps: from the first operator's start to the last one's end. Work that was launched outside and ended before
    the first step's own work moves the start on to its end.
    """
    recording = context.recording
    work, steps = recording.work, recording.marked
    if steps:
        ranges = [(step.start, step.end) for step in steps]
    else:
        table = recording.tables.get("op")
        if table is None:
            return recording.window
        begin = table["ts"] - recording.zero_ns
        ranges = [(int(begin.min()), int((begin + np.maximum(table["dur"], 0)).max()))]
    low, high = ranges[0][0], ranges[-1][1]
    if len(work):
        linked = np.flatnonzero(work.launch >= 0)
        called = recording.host.start[work.launch[linked]]
        finish = recording.host.end[work.launch[linked]]
        # A call is inside of one of the steps where the longest of those that began before it ends after it.
        bounds = np.array(sorted(ranges), np.int64)
        begun = np.searchsorted(bounds[:, 0], called, side="right")
        inside = (begun > 0) & (np.maximum.accumulate(bounds[:, 1])[np.maximum(begun - 1, 0)] >= finish)
        matched = linked[inside]
        if len(matched):
            high = max(high, int(work.end[matched].max()))
            first = (called[inside] >= ranges[0][0]) & (finish[inside] <= ranges[0][1])
            if first.any():
                earliest = int(work.start[matched[first]].min())
                others = np.ones(len(work), np.bool_)
                others[matched] = False
                before = work.end[others & (work.end < earliest)]
                if len(before):
                    low = max(low, int(before.max()))
    return low, max(high, low)


def facts(context: Context) -> list[dict[str, Any]]:
    """Each device by column, the busiest first."""
    recording = context.recording
    work = recording.work
    low, high = recording.window
    from_, to = plugin_window(context) if recording.devices else (0, 0)
    rows = []
    peaks = context.once(curve)
    for device in recording.devices:
        entry = recording.device_properties(device)
        busy = clip(recording.busy(device), low, high).length
        kernels = context.kernel_spans(device)
        own = np.flatnonzero((work.device == device) & (work.kind == KERNEL))
        nvidia = recording.vendor == "nvidia"
        here = peaks["device"] == device
        rows.append(
            {
                "device": device,
                "name": recording.device_name(device),
                "vendor": recording.vendor,
                "capability": entry.capability if entry and nvidia else None,
                "sms": entry.sms if entry else None,
                "memory_bytes": entry.memory_bytes if entry else None,
                "busy_ns": busy,
                "kernel_ns": clip(kernels, low, high).length,
                "busy_share": busy / (high - low) if high > low else None,
                "utilization": clip(kernels, from_, to).length / (to - from_) if len(own) and to > from_ else None,
                "sm_efficiency": _sm_efficiency(context, own, from_, to),
                "achieved_occupancy": (occupancy := _occupancy(context, own, from_, to))[0],
                "occupancy_share": occupancy[1],
                "peak_allocated_bytes": int(peaks["allocated_bytes"][here].max()) if here.any() else None,
                "peak_reserved_bytes": int(peaks["reserved_bytes"][here].max()) if here.any() else None,
            }
        )
    return rows


def build(context: Context) -> Columns:
    """The frame, the busiest device first."""
    devices = context.once(facts)
    return Columns({column.name: typed([row[column.name] for row in devices], column) for column in SCHEMA.columns})


def _sm_efficiency(context: Context, rows: Ints, low: int, high: int) -> float | None:
    """Concurrent ``blocks per SM``, capped at 1, averaged over [low, high)."""
    work = context.recording.work
    if not len(rows) or high <= low:
        return None
    values = context.tables["kernel"]["blocks_per_sm"][work.row[rows]].astype(np.float64)
    if not np.isfinite(values).any():
        return None
    # An absent or infinite value (a device without SMs in its properties) counts as full, as the plugin's cap does.
    values = np.where(np.isnan(values), 0.0, np.minimum(values, 1e9))
    start, end = np.clip(work.start[rows], low, high), np.clip(work.end[rows], low, high)
    edges = np.concatenate([start, end])
    change = np.concatenate([values, -values])
    order = np.argsort(edges, kind="stable")
    edges, level = edges[order], np.cumsum(change[order])
    span = np.diff(edges)
    return float((np.clip(level[:-1], 0.0, 1.0) * span).sum() / (high - low))


def _occupancy(context: Context, rows: Ints, low: int, high: int) -> tuple[float | None, float | None]:
    """Estimated achieved occupancy, weighted by duration, and the share of the kernels' time that it is known of."""
    work = context.recording.work
    if not len(rows):
        return None, None
    values = context.occupancy[np.searchsorted(context.kernel_rows, rows)]
    time = (np.clip(work.end[rows], low, high) - np.clip(work.start[rows], low, high)).astype(np.float64)
    known = (values >= 0) & (values <= 100) & (time > 0)  # a percentage, or no figure
    if not known.any():
        return None, None
    covered = float(time[known].sum())
    return float((values[known] * time[known]).sum() / covered / 100), covered / float(time.sum())


FRAME = Frame(SCHEMA, build, evidence=("device", "name", "vendor"), timeless=True)
