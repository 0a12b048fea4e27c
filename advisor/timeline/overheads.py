"""The profiler's own time in a recording: buffer requests and flushes, and launches in which hardware counters are read.

For these a kernel runs again for each group of counters, and its launch waits for that, each time for about as long. What the
first of some launches takes far beyond all that follow is none of it: there the kernel's module was loaded.
"""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Ints, alike, fetch
from advisor.regex import regex
from advisor.timeline import firsts
from advisor.timeline.calls import RUNTIME
from advisor.timeline.recording import Recording
from advisor.timeline.startup_table import TIMES
from advisor.timeline.waits import Waits, nodes_by_name

_KERNEL = regex(r"^(?:cuda|cu|hip)(?:Ext|Module)*Launch(?!HostFunc)")
# A launch takes microseconds: behind a full queue at most as long as the kernel before it.
_COUNTED_NS = 1_000_000
_NOTHING = np.zeros(0, np.int64)


def find(recording: Recording) -> Waits:
    """Return the profiler's own time. Lazy loading of kernels is the program's, not the profiler's."""
    nodes, counted = _counting(recording)
    end = recording.host.end[nodes]
    counting = Waits(nodes, end - counted, end)
    table = recording.tables.get("overhead")
    if table is None:
        return counting
    start = table["ts"] - recording.zero_ns
    end = start + np.maximum(table["dur"], 0)
    own = re.compile(r"Buffer|Instrumentation|Resource")
    is_own = np.array([own.search(name) is not None for name in recording.names], np.bool_)
    keep = is_own[table["name"]]
    node = np.full(int(keep.sum()), -1, np.int64)
    both = zip((node, start[keep], end[keep]), (counting.node, counting.start, counting.end), strict=True)
    return Waits(*(np.concatenate(columns) for columns in both))


def loading(recording: Recording) -> Waits:
    """Return what launches in which counters are read take beyond that: the first of their kind load code."""
    nodes, counted = _counting(recording)
    start, end = recording.host.start[nodes], recording.host.end[nodes] - counted
    loads = end > start
    return Waits(nodes[loads], start[loads], end[loads])


def _counting(recording: Recording) -> tuple[Ints, Ints]:
    """Launches that hold the host while counters are read, and for how many ns they do: a first one as long as those behind it."""
    nodes = nodes_by_name(recording, _KERNEL, (RUNTIME,)) if recording.recorded.counter_ranges else _NOTHING
    if not len(nodes):
        return nodes, nodes
    host = recording.host
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    dur = host.end[nodes] - host.start[nodes]
    longest = _longest_like(recording, nodes, dur)
    counted = np.where((longest > 0) & (dur >= TIMES * longest), longest, dur)
    held = dur >= _COUNTED_NS
    return nodes[held], counted[held]


def _longest_like(recording: Recording, nodes: Ints, dur: Ints) -> Ints:
    """Return for the first launch of a kind, in order of time, the longest of those behind it; 0 for all others.

    Alike are launches of operators of one name and shapes that are as many launches behind their operator's begin.
    """
    operator = fetch(recording.host.attributes.op, nodes)
    order = np.argsort(operator, kind="stable")
    ordered = operator[order]
    number = np.empty(len(nodes), np.int64)
    number[order] = np.arange(len(nodes)) - np.searchsorted(ordered, ordered)
    names, shapes = recording.host.name, firsts.shapes(recording)
    first, kind = alike(fetch(names, operator), fetch(shapes, operator), number)
    behind = np.ones(len(nodes), np.bool_)
    behind[first] = False
    longest = np.zeros(len(first), np.int64)
    np.maximum.at(longest, kind[behind], dur[behind])
    of_first = np.zeros(len(nodes), np.int64)
    of_first[first] = longest
    of_first[operator < 0] = 0
    return of_first
