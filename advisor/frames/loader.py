"""`loader`: one row per wait of the training loop for its next batch."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_waits
from advisor.frames.schema import COMMON, Schema, flag, integer, text
from advisor.intervals import Bools, Spans, union
from advisor.timeline.context import Context
from advisor.timeline.waits import LOADER

SCHEMA = Schema(
    "loader",
    "a wait of the training loop for its next batch",
    (
        *COMMON,
        text("name", "the annotation", "name"),
        text("iterator", "single-process (the main process loads), multi-process (workers load) or other"),
        text("iterator_class", "class of the DataLoader's iterator"),
        integer("idle_ns", "ns", "what of it the device idles"),
        flag("on_launching_thread", "whether the waiting thread also launches the device's work"),
        flag("restart", "at the end of an epoch, where workers end and new ones start: the last wait, and the first of "
             "the next"),
    ),
)  # fmt: skip


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    waits, host = context.waits.loader, context.recording.host
    cost = context.ledger.cost(len(waits.start), "loader")
    frame = context.common(start=waits.start, dur=waits.end - waits.start, cost=cost, node=waits.node)
    names = host.name[waits.node]
    codes, inverse = np.unique(names, return_inverse=True)
    classes = [match[1] if (match := LOADER.match(context.names[code])) else "" for code in codes.tolist()]
    kinds = [
        "single-process" if "SingleProcess" in c else "multi-process" if "MultiProcessing" in c else "other"
        for c in classes
    ]
    idle = context.idle_during(waits.start, waits.end) if context.device >= 0 else np.zeros(len(waits.start), np.int64)
    frame |= {
        "name": context.labels(names, context.names),
        "iterator": context.labels(inverse, kinds),
        "iterator_class": context.labels(inverse, classes),
        "idle_ns": idle,
        "on_launching_thread": host.thread[waits.node] == host.launching_thread(),
        "restart": waits.restart,
    }
    return pd.DataFrame(frame)


def _stretches(context: Context, mask: Bools) -> Spans:
    """The waits; the first of an epoch begins with the making of its iterator."""
    waits = context.waits.loader
    return union(waits.start[mask], waits.end[mask])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("iterator", "name", COUNT, *TIME),
    rows=Rows(nodes=lambda context: context.waits.loader.node),
    owns=owns_waits("loader"),
    shortens=_stretches,
)
