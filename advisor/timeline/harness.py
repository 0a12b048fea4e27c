"""Work of a benchmark harness around what it measures, as emptying caches before each run: no work of the program's.

PARAM puts ``[param|NAME|measure|forward]`` around a run together with what prepares it, and the same name once more around
the run alone: what lies in the outer range beside the inner one is the harness's.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, Spans, covered, distinct, subtract, union
from advisor.timeline.calls import ANNOTATION
from advisor.timeline.context import Context

_MARK = "[param|"
_MOSTLY = 0.5


def harness(context: Context) -> Spans:
    """Stretches of time that a benchmark harness takes beside what it measures."""
    host = context.recording.host
    none = np.zeros(0, np.int64)
    marks = np.array([name.startswith(_MARK) for name in context.names], np.bool_)
    nodes = np.flatnonzero((host.group == ANNOTATION) & marks[host.name]) if host.size and marks.any() else none
    around = none if not len(nodes) else np.array([_like(context, node) for node in nodes.tolist()], np.int64)
    inner, outer = nodes[around >= 0], distinct(around[around >= 0])
    return subtract(union(host.start[outer], host.end[outer]), union(host.start[inner], host.end[inner]))


def _like(context: Context, node: int) -> int:
    """Return the node of the same name around a node; -1 where there is none."""
    host = context.recording.host
    above = int(host.parent[node])
    while above >= 0 and host.name[above] != host.name[node]:
        above = int(host.parent[above])
    return above


def mostly(context: Context, start: Ints, end: Ints) -> Bools:
    """Tell of stretches of time whether half of each or more is a harness's."""
    spans = context.once(harness)
    if not spans.length:
        return np.zeros(len(start), np.bool_)
    within = covered(spans, start, end)
    found: Bools = (within > 0) & (within >= _MOSTLY * (end - start))
    return found


def named(context: Context, spans: Spans) -> str:
    """Return the name of the range that a harness spends most of some of its time in; empty where it is in none."""
    host = context.recording.host
    # A range that holds a run as well is not what the harness does beside it.
    whole = covered(context.once(harness), host.start, host.end) == host.end - host.start
    nodes = np.flatnonzero((host.group == ANNOTATION) & whole)
    within = covered(spans, host.start[nodes], host.end[nodes])
    return context.names[host.name[nodes[np.argmax(within)]]] if within.any() else ""
