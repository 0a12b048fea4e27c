"""`memory`: one row per point of the curve of a device's memory."""

from __future__ import annotations

from advisor.columns import Columns
from advisor.frames.frame import Frame
from advisor.frames.schema import Schema, integer
from advisor.timeline.context import Context
from advisor.timeline.memory import curve

SCHEMA = Schema(
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


def build(context: Context) -> Columns:
    """The frame."""
    points = context.once(curve)
    return Columns(points | {"step": context.recording.step_of(points["start_ns"])}).pick(SCHEMA.names())


FRAME = Frame(SCHEMA, build, evidence=("device", "round(max(allocated_bytes) / 1e9, 3) AS allocated_gb"), timeless=True)
