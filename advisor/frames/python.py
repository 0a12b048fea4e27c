"""`python`: one row per call of a Python function, and per pause of the garbage collector."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, SELF, TIME, Frame, Rows, calls, owns_calls
from advisor.frames.schema import COMMON, Schema, integer, text
from advisor.intervals import Ints
from advisor.timeline.calls import PYTHON
from advisor.timeline.context import Context

SCHEMA = Schema(
    "python",
    "a Python call",
    (
        *COMMON,
        text("name", "as the profiler writes it: file(line): function; the line is where the function begins", "name"),
        text("kind", "function, builtin, module or gc"),
        integer("self_ns", "ns", "its time without what it called"),
        integer("depth", "", "calls around it"),
    ),
)
KINDS = ("function", "builtin", "module", "gc")


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    calls, pauses = context.recording.host.nodes_of(PYTHON), context.waits.gc.node
    # The recorder writes pauses as annotations, without Python's calls around them.
    return calls if np.isin(pauses, calls).all() else np.union1d(calls, pauses)


def build(context: Context) -> Columns:
    """The frame."""
    host, rows = context.recording.host, nodes(context)
    dur = host.end - host.start
    waits = context.waits.gc
    cost = np.zeros(host.size, np.int64)
    cost[waits.node] = context.ledger.cost(len(waits.start), "gc")
    frame = context.common(start=host.start[rows], dur=dur[rows], cost=cost[rows], node=rows)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "kind": context.labels(kinds(context)[host.name[rows]], KINDS),
        "self_ns": (dur - host.children_ns())[rows],
        "depth": context.depth(host.group == PYTHON)[rows],
    }
    return Columns(frame)


def kinds(context: Context) -> Ints:
    """Index into ``KINDS`` of each name, by code."""
    return np.array([_kind(name) for name in context.names], np.int64)


def _kind(name: str) -> int:
    if name.startswith("nn.Module: "):
        return 2
    if name.startswith("Python GC"):
        return 3
    return 1 if name.startswith("<built-in") else 0


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "kind", COUNT, SELF, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_calls(nodes, lambda context: context.waits.gc, "gc"),
    shortens=calls(nodes),
)
