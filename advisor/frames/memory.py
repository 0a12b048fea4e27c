"""`allocations` and `memory`: the allocator's record."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from advisor.frames.schema import COMMON, Schema, integer
from advisor.intervals import Ints
from advisor.timeline.context import Context

ALLOCATIONS = Schema(
    "allocations",
    "an allocation or free of the caching allocator",
    (
        *COMMON,
        integer("bytes", "bytes", "size; negative for a free", "args.Bytes"),
        integer("address", "", "address, folded into 64 signed bits; 0 in old traces", "args.Addr"),
        integer(
            "allocated_bytes", "bytes", "allocated on the device after it; NULL in old traces", "args.Total Allocated"
        ),
        integer(
            "reserved_bytes", "bytes", "reserved on the device after it; NULL in old traces", "args.Total Reserved"
        ),
        integer("freed_ns", "ns", "when it is freed; -1 where the trace holds no free of it, and for frees"),
        integer("kept_steps", "", "steps that begin on the host while it lives; -1 for frees, and where unknown"),
    ),
)
MEMORY = Schema(
    "memory",
    "a point of the curve of a device's memory",
    (
        integer("device", "", "the GPU; -1 for the host"),
        integer("start_ns", "ns", "when"),
        integer("step", "", "the step that it falls in; -1 outside"),
        integer("allocated_bytes", "bytes", "allocated", "args.Total Allocated"),
        integer("reserved_bytes", "bytes", "reserved", "args.Total Reserved"),
    ),
)


def device_of(table: Mapping[str, Ints]) -> Ints:
    """GPU of each instant, -1 for the host: device type 0 is the CPU; CUDA, HIP and XPU count their own."""
    return np.where(table["device_type"] == 0, -1, table["device"])


def build_allocations(context: Context) -> pd.DataFrame:
    """The frame `allocations`."""
    from advisor.timeline.retention import lifetimes

    table = context.tables.get("instant")
    host = context.recording.host
    if table is None:
        none = np.zeros(0, np.int64)
        table = dict.fromkeys(
            ("ts", "device_type", "device", "bytes", "address", "allocated", "reserved", "thread"), none
        )
    order = np.argsort(table["ts"], kind="stable")
    table = {key: values[order] for key, values in table.items()}
    when = table["ts"] - context.recording.zero_ns
    node = np.full(len(when), -1, np.int64)
    for thread in np.unique(table["thread"]).tolist():
        here = table["thread"] == thread
        node[here] = host.innermost(thread, when[here])
    zero = np.zeros(len(when), np.int64)
    frame = context.common(start=when, dur=zero, cost=zero.copy(), node=node, device=device_of(table))
    absent = table["allocated"] < 0
    frame |= {
        "bytes": table["bytes"],
        "address": table["address"],
        "allocated_bytes": pd.arrays.IntegerArray(table["allocated"].copy(), absent),
        "reserved_bytes": pd.arrays.IntegerArray(table["reserved"].copy(), absent | (table["reserved"] < 0)),
    }
    frame |= lifetimes(context, table, when)
    return pd.DataFrame(frame)


def curve(context: Context) -> dict[str, Ints]:
    """Points of the curve where the trace has totals, in order of time."""
    table = context.tables.get("instant")
    if table is None:
        none = np.zeros(0, np.int64)
        return dict.fromkeys(("device", "start_ns", "allocated_bytes", "reserved_bytes", "bytes"), none)
    order = np.argsort(table["ts"], kind="stable")
    order = order[table["allocated"][order] >= 0]
    return {
        "device": device_of(table)[order],
        "start_ns": table["ts"][order] - context.recording.zero_ns,
        "allocated_bytes": table["allocated"][order],
        "reserved_bytes": np.maximum(table["reserved"][order], 0),
        "bytes": table["bytes"][order],
    }


def build_memory(context: Context) -> pd.DataFrame:
    """The frame `memory`."""
    points = curve(context)
    points["step"] = context.recording.step_of(points["start_ns"])
    return pd.DataFrame(points)[MEMORY.names()]
