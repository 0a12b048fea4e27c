"""Copies that operators make by themselves: an accelerator's, of which the runtime has no call in the trace.

Where the device's transfers name no call, nothing says by itself who waited for them. An operator that lasts, launches nothing,
and in which transfers begin and end, did: it copies to the host, back, or both, and returns when they are done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, distinct, without
from advisor.timeline.calls import OP, RUNTIME, Host
from advisor.timeline.operator_names import moves_no_data
from advisor.timeline.recording import COPY, Recording
from advisor.timeline.tasks import LEAST_NS

# Maker's words of categories under which copies have calls of the runtime: those say themselves who waits.
_WITH_CALLS = frozenset({"XPU"})
# Clocks of an accelerator and its host were up to 45 us apart in a recorded trace; an operator lasts twice that at least.
_CLOCKS_NS = 50_000
# So many copies prove that operators wait for theirs, where most that begin in one are past their middle when it returns.
_ENOUGH, _MOST = 10, 0.8
_READBACK = "aten::_local_scalar_dense"


class OwnCopies(NamedTuple):
    """Waits of operators for their copies, one a copy: the operator's forest node, the index in ``Recording.work``, start and end.

    The waits of one operator follow each other and fill it: the first begins with it, and the last ends with it.
    """

    node: Ints
    copy: Ints
    begin: Ints
    end: Ints


def find(recording: Recording) -> OwnCopies:
    """Find the operators that wait for copies of their own, in order of start; none where copies have calls of the runtime."""
    work, nothing = recording.work, np.zeros(0, np.int64)
    none = OwnCopies(nothing, nothing, nothing, nothing)
    if recording.metadata.accelerator is None or recording.metadata.accelerator in _WITH_CALLS:
        return none
    copies = work.indices(COPY)
    if not recording.host.size or len(copies) < _ENOUGH or (work.correlation[copies] > 0).any():
        return none
    nodes = _lasting(recording)
    host = recording.host
    held = np.full(len(copies), -1, np.int64)
    for thread in distinct(host.thread[nodes]).tolist():
        here = nodes[host.thread[nodes] == thread]
        here = here[np.argsort(host.start[here], kind="stable")]
        at = np.searchsorted(host.start[here], work.start[copies], side="right") - 1
        node = np.where(at >= 0, here[np.maximum(at, 0)], -1)
        inside = (node >= 0) & (work.start[copies] < host.end[node] + _CLOCKS_NS)
        later = inside & ((held < 0) | (host.start[node] > host.start[held]))
        held = np.where(later, node, held)
    begun = np.flatnonzero((held >= 0) & (work.start[copies] < host.end[held]))
    middle = (work.start[copies] + work.end[copies])[begun] // 2
    if len(begun) < _ENOUGH or (middle <= host.end[held[begun]]).mean() < _MOST:
        return none
    enclosed = (held >= 0) & (work.end[copies] <= host.end[held] + _CLOCKS_NS)
    return _divided(recording, held[enclosed], copies[enclosed])


def _lasting(recording: Recording) -> Ints:
    """Innermost operators of 100 us or more, on threads that launch, that launch nothing themselves.

    What an operator of the same name holds inside is its form on the CPU: such an operator does not count by itself.
    """
    host, names = recording.host, recording.names
    calls = np.flatnonzero(host.group == RUNTIME)
    long = host.lasting(host.group == OP, LEAST_NS)
    chosen = np.zeros(host.size, np.bool_)
    chosen[long[np.isin(host.thread[long], distinct(host.thread[calls]))]] = True
    chosen &= ~_around(host, calls)
    still = np.array([moves_no_data(name) and name != _READBACK for name in names], np.bool_)
    chosen &= ~still[host.name]
    nodes = np.flatnonzero(chosen)
    up, again = host.parent[nodes].astype(np.int64), np.zeros(len(nodes), np.bool_)
    while (up >= 0).any():
        again |= (up >= 0) & chosen[up] & (host.name[up] == host.name[nodes])
        up = np.where(up >= 0, host.parent[up], -1)
    chosen[nodes[again]] = False
    nodes = nodes[~again]
    outer = host.above(nodes, chosen)
    found: Ints = without(nodes, outer[outer >= 0])
    return found


def _around(host: Host, nodes: Ints) -> Bools:
    """Flag all nodes that hold one of some inside."""
    flags = np.zeros(host.size, np.bool_)
    up = host.parent[nodes].astype(np.int64)
    while len(up := distinct(up[up >= 0])):
        up = up[~flags[up]]
        flags[up] = True
        up = host.parent[up].astype(np.int64)
    return flags


def _divided(recording: Recording, node: Ints, copy: Ints) -> OwnCopies:
    """Divide each operator among its copies: each is waited for from the end of the one before, the last until the end."""
    host, work = recording.host, recording.work
    order = np.lexsort((work.end[copy], host.start[node]))
    node, copy = node[order], copy[order]
    start, end = host.start[node], host.end[node]
    done = np.clip(work.end[copy], start, end)
    same = node[1:] == node[:-1]
    begin = start.copy()
    begin[1:][same] = done[:-1][same]
    until = end.copy()
    until[:-1][same] = done[:-1][same]
    return OwnCopies(node, copy, begin, until)
