"""Stalls: calls that take milliseconds where their like take microseconds, at random places: the thread was not running."""

from __future__ import annotations

import numpy as np

from advisor.intervals import EMPTY, Bools, Ints, Spans, coded, covered, distinct, fetch, inside, subtract, union
from advisor.regex import regex
from advisor.timeline import waits as w
from advisor.timeline.calls import ANNOTATION, OP, RUNTIME
from advisor.timeline.ledger import HostWaits
from advisor.timeline.likeness import CHEAP_NS, LEAST_NS, TIMES, medians
from advisor.timeline.recording import Recording

# Not where one place is always slow: that has a reason of its own.
_PLACES, _MOST_STEPS = 3, 0.5
# A place is a call, and so many around it.
_AROUND = 2
# Calls that wait by design, or whose time depends on their argument.
_WAITS = regex(
    r"Memcpy|GraphLaunch|Synchronize|GraphInstantiate|Capture|Module|Library|^aten::(?:item|_local_scalar_dense|nonzero|copy_)$"
)
# c10d marks its calls of the library so: they enqueue, and wait for nobody. Other marks are the program's own.
_ENQUEUES = regex(r"^(?:nccl|rccl|xccl|hccl):\w")


class Stalls(w.Waits):
    """Stretches of calls in which nothing that they call runs, and which take far longer than their like."""


def find(recording: Recording, waits: HostWaits) -> Stalls:
    """Find the stalls, in order of start. None where operators or runtime calls were not recorded: then nothing is known."""
    host = recording.host
    nothing = Stalls(*(np.zeros(0, np.int64) for _ in range(3)))
    enqueues = np.array([_ENQUEUES.match(name) is not None for name in recording.names], np.bool_)
    groups = (host.group == OP) | (host.group == RUNTIME) | ((host.group == ANNOTATION) & enqueues[host.name])
    long = host.lasting(groups, LEAST_NS)
    if len(long) < _PLACES or "op" not in recording.tables or "runtime" not in recording.tables:
        return nothing
    long = long[~_explained(recording, waits, long)]
    if not len(long):
        return nothing
    own = host.own_ns(long)
    long = long[(own >= LEAST_NS)]
    own = own[own >= LEAST_NS]
    usual = _usual(recording, groups, host.name[long])
    far = (own >= TIMES * usual) & (usual > 0) & (usual <= CHEAP_NS)
    nodes = _at_random(recording, long[far])
    return _own_time(recording, nodes) if len(nodes) else nothing


def between(recording: Recording, outer: Ints) -> Spans:
    """Stretches between operators, or in Python, that take as much longer than their like: of the same operators before and behind.

    *outer* are forest nodes of one thread with nothing around them, by start. A thread that is stopped at random is stopped there
    as well, but one such stretch may be the program's own: they count beside stalls only.
    """
    host = recording.host
    if len(outer) < 2:
        return EMPTY
    calls = np.flatnonzero((host.group == RUNTIME) & (host.thread == host.thread[outer[0]]))
    called = union(host.start[calls], host.end[calls])
    before, after = outer[:-1], outer[1:]
    length = host.start[after] - host.end[before] - covered(called, host.end[before], host.start[after])
    kind = coded(host.name[before].astype(np.int64) * (len(recording.names) + 1) + host.name[after])[1]
    usual = medians(kind, length)[1][kind]
    far = (length >= LEAST_NS) & (length >= TIMES * usual) & (usual > 0) & (usual <= CHEAP_NS)
    return subtract(union(host.end[before[far]], host.start[after[far]]), called)


def _explained(recording: Recording, waits: HostWaits, nodes: Ints) -> Bools:
    """Flag calls that wait for something, compute on the CPU, or are start-up."""
    host, names = recording.host, recording.names
    waiting = np.array(
        [_WAITS.search(name) is not None or w.ALLOCATOR_CALL.search(name) is not None for name in names], np.bool_
    )
    known = np.concatenate(
        [waits.syncs.node, waits.tasks, waits.startup.node, waits.selection.node, waits.compile.node, waits.gc.node]
    )
    flags: Bools = waiting[host.name[nodes]] | np.isin(nodes, known) | inside(waits.startup.spans(), host.start[nodes])
    return flags


def _usual(recording: Recording, groups: Bools, names: Ints) -> Ints:
    """Median duration of all calls of each of some names; 0 for a name with too few to know."""
    host = recording.host
    usual = np.zeros(len(recording.names) + 1, np.int64)
    like = np.flatnonzero(groups & np.isin(host.name, distinct(names)))
    dur = host.ns(like)
    if len(like):
        codes, median = medians(host.name[like], dur)
        usual[codes] = median
    found: Ints = usual[names]
    return found


def _at_random(recording: Recording, nodes: Ints) -> Ints:
    """Keep the calls that lie at several places of the program, and at none of them in most steps."""
    if len(nodes) < _PLACES:
        return nodes[:0]
    host = recording.host
    # The number of a step, in its name, makes no place of its own.
    name_of = np.array(
        [-1 if name.startswith("ProfilerStep#") else code for code, name in enumerate(recording.names)], np.int64
    )
    width = len(recording.names) + 1
    place, above = name_of[host.name[nodes]], nodes
    for _ in range(_AROUND):
        above = fetch(host.parent, above)
        around = np.where(above >= 0, name_of[host.name[np.maximum(above, 0)]], -1)
        place = coded(place * width + around + 1)[1]
    step = recording.host_step_of(host.start[nodes])
    seen = distinct(place * (recording.step_count + 2) + step + 1)
    steps = np.bincount(seen // (recording.step_count + 2), minlength=int(place.max()) + 1)
    often = (steps >= 2) & (steps > _MOST_STEPS * recording.step_count)
    kept = nodes[~often[place]]
    return kept if len(distinct(place[~often[place]])) >= _PLACES else kept[:0]


def _own_time(recording: Recording, nodes: Ints) -> Stalls:
    """Stretches of each call that nothing which it calls covers. Stalls seldom lie in one another: each is looked at alone."""
    host = recording.host
    chosen = np.zeros(host.size, np.bool_)
    chosen[nodes] = True
    children = np.flatnonzero((host.parent >= 0) & chosen[np.maximum(host.parent, 0)])
    start, end, who = [], [], []
    for node in nodes.tolist():
        below = children[host.parent[children] == node]
        rest = subtract(
            union(host.start[node : node + 1], host.end[node : node + 1]), union(host.start[below], host.end[below])
        )
        start.append(rest.start)
        end.append(rest.end)
        who.append(np.full(len(rest.start), node, np.int64))
    first = np.concatenate(start)
    order = np.argsort(first, kind="stable")
    return Stalls(np.concatenate(who)[order], first[order], np.concatenate(end)[order])
