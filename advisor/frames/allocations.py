"""`allocations`: one row per allocation or free of the caching allocator."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import COUNT, MEGABYTES, Frame
from advisor.frames.schema import COMMON, Schema, integer
from advisor.intervals import distinct
from advisor.timeline.context import Context
from advisor.timeline.memory import instants, lifetimes

SCHEMA = Schema(
    "allocations",
    "an allocation or free of the caching allocator",
    (
        *COMMON,
        integer("bytes", "bytes", "size; negative for a free", "args.Bytes"),
        integer("address", "", "address, folded into 64 signed bits; 0 in old traces", "args.Addr"),
        integer("allocated_bytes", "bytes", "allocated on the device after it; NULL in old traces", "args.Total Allocated"),
        integer("reserved_bytes", "bytes", "reserved on the device after it; NULL in old traces", "args.Total Reserved"),
        integer("freed_ns", "ns", "when it is freed; -1 where the trace holds no free of it, and for frees"),
        integer("kept_steps", "", "steps that begin on the host while it lives; -1 for frees, and where unknown"),
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame."""
    events, host = context.once(instants), context.recording.host
    when, zero = events["start_ns"], np.zeros(len(events["start_ns"]), np.int64)
    node = np.full(len(when), -1, np.int64)
    for thread in distinct(events["thread"]).tolist():
        here = events["thread"] == thread
        node[here] = host.innermost(thread, when[here])
    frame = context.common(start=when, dur=zero, cost=zero.copy(), node=node, device=events["device"])
    allocated, reserved = events["allocated"], events["reserved"]
    frame |= {
        "bytes": events["bytes"],
        "address": events["address"],
        "allocated_bytes": context.known(allocated),
        "reserved_bytes": Series(reserved.copy(), (allocated < 0) | (reserved < 0)),
    }
    return Columns(frame | lifetimes(context))


FRAME = Frame(SCHEMA, build, evidence=("op", COUNT, MEGABYTES), timeless=True)
