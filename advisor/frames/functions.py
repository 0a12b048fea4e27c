"""`functions`: Python functions and built-ins, each with all its calls from one place; and what holds a batch up.

Only where Python calls were recorded (with_stack=True, torch 1.12 and later).
"""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import SELF, Frame, Rows
from advisor.frames.python import KINDS, kinds
from advisor.frames.schema import LINE, Schema, integer, real, text
from advisor.intervals import Bools, Ints, alike, coded, compact, distinct, fetch, summed
from advisor.timeline.calls import PYTHON
from advisor.timeline.context import Context
from advisor.timeline.source import parse_frame

SCHEMA = Schema(
    "functions",
    "a Python function or built-in with all its calls from one place of the user's",
    (
        text("name", "as the profiler writes it: file(line): function; the line is where the function begins", "name"),
        text("kind", ", ".join(KINDS)),
        integer("calls", "", "calls"),
        integer("dur_ns", "ns", "their durations, summed; calls of itself count again"),
        integer("self_ns", "ns", "that without what they called"),
        integer("loader_ns", "ns", "what of dur_ns lies in waits for a batch that the main process loads; itself counts once"),
        real("loader_share", "share", "loader_ns over the time of those waits; NULL where there are none"),
        real("inner_share", "share", "of the same: the most that one function called by it holds; torch's own do not count"),
        text("op", "operator (or annotation) around the first call"),
        text("module", "path of nn.Module calls around the first call"),
        text("file", "source file of the user's innermost frame: the function's own, or its caller's"),
        integer("line", "", LINE),
        text("function", "function of that frame"),
        text("library", "innermost frame that is a library's: file:line function"),
    ),
)  # fmt: skip


def _nodes(context: Context) -> Ints:
    """All Python calls."""
    return np.flatnonzero(context.recording.host.group == PYTHON).astype(np.int32)


def _calls(context: Context) -> tuple[Ints, Ints]:
    """Of each Python call the row of the frame that it is part of, and of each row the place of its first among the calls."""
    host, nodes = context.recording.host, _nodes(context)
    first, row = alike(host.name[nodes], host.attributes.user[nodes])
    return compact(row), first


def build(context: Context) -> Columns:
    """The frame."""
    host = context.recording.host
    nodes, (row, first) = _nodes(context), context.once(_calls)
    count, node = len(first), nodes[first]
    dur = host.end[nodes] - host.start[nodes]
    dur_ns, first_ns = summed(row, dur, count), dur[first]
    del dur
    self_ns = dur_ns - summed(row, host.children_ns()[nodes], count)
    loaded, inner, waits_ns = _in_loader(context, nodes, row, count)
    common = context.common(start=host.start[node], dur=first_ns, cost=np.zeros(count, np.int64), node=node)
    unknown = np.full(count, not waits_ns)
    frame = {
        "name": context.labels(host.name[node], context.names),
        "kind": context.labels(kinds(context)[host.name[node]], KINDS),
        "calls": summed(row, 1, count),
        "dur_ns": dur_ns,
        "self_ns": self_ns,
        "loader_ns": loaded,
        "loader_share": Series(loaded / max(waits_ns, 1), unknown),
        "inner_share": Series(inner / max(waits_ns, 1), unknown.copy()),
    }
    return Columns(frame | {name: common[name] for name in SCHEMA.names()[len(frame) :]})


def _in_loader(context: Context, nodes: Ints, row_of: Ints, count: int) -> tuple[Ints, Ints, int]:
    """Per row: ns inside waits that load in the main process, the most of it in one function below; and those waits' ns.

    *row_of* is the row of each of *nodes*, all calls.
    """
    host, waits = context.recording.host, context.waits.loader
    zeros = np.zeros(count, np.int64)
    single = np.array(["SingleProcess" in name for name in context.names], np.bool_)
    around = waits.node[single[host.name[waits.node]]] if len(waits.node) else waits.node
    if not len(around) or not count:
        return zeros, zeros, 0
    low = np.searchsorted(nodes, around, side="right").tolist()
    parts = [nodes[:0]]
    for wait, first, last in zip(around.tolist(), low, [*low[1:], len(nodes)], strict=True):
        behind = nodes[first:last]
        parts.append(behind[(host.thread[behind] == host.thread[wait]) & (host.start[behind] < host.end[wait])])
    inside = np.concatenate(parts)
    inside = inside[_of_others(context, inside)]
    chosen = np.zeros(host.size, np.bool_)
    chosen[inside] = True
    above = host.above(inside, chosen)
    row = row_of[np.searchsorted(nodes, inside)].astype(np.int64)
    outer = np.where(above >= 0, fetch(row_of, np.searchsorted(nodes, above)), -1).astype(np.int64)
    fresh = row != outer
    row, outer = row[fresh], outer[fresh]
    dur = host.end[inside[fresh]] - host.start[inside[fresh]]
    loaded = summed(row, dur, count)
    below = outer >= 0
    inner = zeros.copy()
    if below.any():
        pairs, back = coded(outer[below] * count + row[below])
        np.maximum.at(inner, pairs // count, summed(back, dur[below], len(pairs)))
    return loaded, inner, int((host.end[around] - host.start[around]).sum())


def _of_others(context: Context, nodes: Ints) -> Bools:
    """Flag the calls of functions with a place in the source that is not torch's."""
    host = context.recording.host
    known = np.zeros(max(len(context.names), 1), np.bool_)
    for code in distinct(host.name[nodes]).tolist():
        place = parse_frame(context.names[code], host.libraries)
        known[code] = place is not None and not place.file.startswith("torch/")
    return known[host.name[nodes]]


def _events(context: Context, mask: Bools) -> tuple[Ints, Ints]:
    """All calls that the chosen rows sum up."""
    nodes, (row, _) = _nodes(context), context.once(_calls)
    return nodes[:0], nodes[mask[row]]


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "file", "line", "sum(calls) AS calls", SELF),
    rows=Rows(events=_events),
    timeless=True,
)
