"""`annotations`: one row per range that the program, a library or torch marked on the host, as with ``record_function``."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, Frame, Rows
from advisor.frames.ops import launched_inside
from advisor.frames.schema import COMMON, Schema, integer, text
from advisor.intervals import Ints
from advisor.timeline.calls import ANNOTATION
from advisor.timeline.context import Context

SCHEMA = Schema(
    "annotations",
    "a range that an annotation marks on the host (record_function, ProfilerStep#N; in traces of 2021 these are in ops)",
    (
        *COMMON,
        text("name", "the annotation", "name"),
        integer("gpu_ns", "ns", "GPU time launched inside it by its thread, summed"),
        integer("kernel_count", "", "pieces of GPU work launched inside it by its thread"),
        integer("depth", "", "annotations around it"),
    ),
)  # fmt: skip


def nodes(context: Context) -> Ints:
    """Forest node of each row, in order of start."""
    host = context.recording.host
    found = np.flatnonzero(host.group == ANNOTATION)
    return found[np.argsort(host.start[found], kind="stable")]


def build(context: Context) -> Columns:
    """The frame. Its rows lie in one another, and cost nothing: what runs in them owns the time."""
    host, rows = context.recording.host, context.once(nodes)
    time, count = launched_inside(context)
    frame = context.common(start=host.start[rows], dur=host.ns(rows), cost=np.zeros(len(rows), np.int64), node=rows)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "gpu_ns": time[rows],
        "kernel_count": count[rows].astype(np.int64),
        "depth": context.depth(host.group == ANNOTATION)[rows],
    }
    return Columns(frame)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", COUNT, "round(sum(dur_ns) / 1e6, 3) AS time_ms", "round(sum(gpu_ns) / 1e6, 3) AS gpu_ms"),
    rows=Rows(nodes=lambda context: context.once(nodes)),
    timeless=True,
)
