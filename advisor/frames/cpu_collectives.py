"""`cpu_collectives`: one row per collective of a program on the CPU, which its backend runs on a thread of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.frames.collectives import NAMES, accumulating, kind
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, text
from advisor.intervals import Ints, summed
from advisor.timeline.context import Context
from advisor.timeline.cpu import flying

SCHEMA = Schema(
    "cpu_collectives",
    "a collective of a program on the CPU",
    (
        *COMMON,
        text("name", "its annotation, as gloo:all_reduce", "name"),
        text("kind", "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, reduce, barrier or other"),
        text("backend", "gloo, mpi or ucc"),
        flag("accumulating", "begun behind a forward pass of DDP that another one follows before the optimizer steps"),
    ),
)  # fmt: skip


def nodes(context: Context) -> Ints:
    """Forest node of each row, in order of start; none where a GPU works."""
    if not context.cpu_program:
        return np.zeros(0, np.int64)
    found = flying(context.recording)
    return found[np.argsort(context.recording.host.start[found], kind="stable")]


def build(context: Context) -> pd.DataFrame:
    """The frame. Each moment that the main thread waits is the collective's that has been in flight the longest."""
    host, rows = context.recording.host, context.once(nodes)
    segments, row = context.once(_parts)
    called = [context.names[code] for code in host.name[rows].tolist()]
    frame = context.common(
        start=host.start[rows],
        dur=(host.end - host.start)[rows],
        cost=summed(row, context.ledger.dur_ns[segments], len(rows)),
        node=rows,
    )
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "kind": context.labels(np.array([kind(name) for name in called], np.int64), [*NAMES, "other"]),
        "accumulating": accumulating(context, host.start[rows]),
        "backend": pd.Categorical([name.partition(":")[0] for name in called]),
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments in which the main thread waits for collectives, with the row of each."""
    host, ledger, rows = context.recording.host, context.ledger, context.once(nodes)
    segments = np.flatnonzero(ledger.through("communication"))
    owner = np.full(len(segments), -1, np.int64)
    first = np.searchsorted(ledger.start_ns[segments], host.start[rows], side="left")
    last = np.searchsorted(ledger.start_ns[segments], host.end[rows], side="left")
    for row in reversed(range(len(rows))):
        owner[first[row] : last[row]] = row
    return segments[owner >= 0], owner[owner >= 0]


def _owned(context: Context) -> tuple[Ints, Ints]:
    return context.once(_parts)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", COUNT, *TIME),
    rows=Rows(nodes=lambda context: context.once(nodes)),
    owns=owns_parts(_owned),
    parts=_owned,
)
