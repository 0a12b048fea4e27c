"""The clock: runs the graph, with durations and waits as they are or as a fix would make them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.intervals import Ints
from advisor.replay.batches import AT_WILL
from advisor.replay.graph import BATCH, BLOCKING, WAIT, Floats, Graph


@dataclass
class Change:
    """Effect of a fix: ns taken from the think time and the calls of the host and from the work; the part of waits that goes.

    ``everywhere``: the other ranks, which run the same program, get as much earlier to a collective as this one does, and
    by the share ``late`` of what this one waits for them.
    """

    think: Ints | None = None
    call: Ints | None = None
    dur: Ints | None = None
    free: Floats | None = None
    everywhere: bool = False
    late: float = 0.0


@dataclass
class Timeline:
    """When everything happens: host nodes and work, in the order of the graph."""

    start: Ints
    end: Ints
    begun: Ints
    ended: Ints


class Prepared:
    """The graph as plain lists of whole numbers (times in ns): the clock's loop reads single values, which arrays are slow at."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.think, self.kind = graph.think.tolist(), graph.kind.tolist()
        self.length, self.after = graph.length.tolist(), graph.after.tolist()
        self.before = int(graph.first[0]) if len(graph) else 0  # pieces of work that nothing here launched
        self.last = graph.last.tolist()
        self.line, self.tied = graph.line.tolist(), graph.tied.tolist()
        target = graph.target.tolist()
        bounds = zip(graph.target_first.tolist(), graph.target_last.tolist(), strict=True)
        self.targets = [target[low:high] for low, high in bounds]
        self.stream, self.dur = graph.stream.tolist(), graph.dur.tolist()
        self.lag, self.depends = graph.lag.tolist(), graph.depends.tolist()
        self.peers = graph.peers.tolist()
        self.waits = bool((graph.peers != -1).any())
        self.arrival, self.exchange = graph.arrival.tolist(), graph.exchange.tolist()
        self.no_free = [0.0] * len(graph)
        self.came = graph.end.tolist()  # of a batch


def run(prepared: Prepared, change: Change | None = None) -> Timeline:
    """Run the graph. Unchanged, it gives the record back, but for residuals: waits are worked out, never copied."""
    graph = prepared.graph
    change = change or Change()
    think = prepared.think
    if change.think is not None:
        # What a tied node counts from moves with the main line.
        less = np.where(graph.tied < 0, change.think, 0)
        think = np.maximum(graph.think - less, np.minimum(graph.think, 0)).tolist()
    length = prepared.length
    if change.call is not None:
        length = np.maximum(graph.length - change.call, 0).tolist()
    dur = prepared.dur if change.dur is None else np.maximum(graph.dur - change.dur, 0).tolist()
    free = prepared.no_free if change.free is None or not change.free.any() else change.free.tolist()
    stream, lag, depends, peers = prepared.stream, prepared.lag, prepared.depends, prepared.peers
    arrival, exchange = prepared.arrival, prepared.exchange
    if prepared.waits:
        # What shortens a collective shortens the exchange, not the waiting for other ranks.
        part = 0.0 if change.dur is None else change.dur / np.maximum(graph.dur, 1)
        shorter = np.rint(graph.exchange * part).astype(np.int64)
        arrival, exchange = (graph.arrival - shorter).tolist(), (graph.exchange - shorter).tolist()
        if change.everywhere:
            # The rank waits for them as long as it did, and what is exchanged takes as much less.
            late = np.rint(change.late * (graph.dur - graph.exchange)).astype(np.int64)
            dur = np.where(graph.peers != -1, graph.dur - shorter - late, dur).tolist()
            peers = [-1] * len(peers)
    lanes = [graph.low - (1 << 60)] * (max(stream, default=0) + 1)
    begun, ended = [0] * len(dur), [0] * len(dur)
    starts, ends = [0] * len(graph), [0] * len(graph)
    low, wait_ns, return_ns, queue, after = graph.low, graph.wait_ns, graph.return_ns, graph.queue, prepared.after

    for at in range(prepared.before):
        begin = max(low + lag[at], lanes[stream[at]])
        if depends[at] >= 0:
            begin = max(begin, ended[depends[at]])
        begun[at] = begin
        lanes[stream[at]] = ended[at] = begin + dur[at]
    nows = [int(graph.start[0]) if len(graph) else low] * (max(prepared.line, default=0) + 1)
    at, sooner = prepared.before, 0
    # One pass over plain numbers, a few hundred thousand a second: it is run a dozen times a report, so no calls in it.
    columns = zip(think, length, prepared.kind, prepared.last, prepared.line, prepared.tied, strict=True)
    for node, (pause, call, kind, until, line, tied) in enumerate(columns):
        now = nows[line]
        ready = now + pause
        if tied >= 0:
            ready = starts[tied] + pause
            if now > ready:
                ready = now
        starts[node] = ready
        end = ready + call
        first = at
        while at < until:
            begin = ready + lag[at]
            lane = stream[at]
            if lanes[lane] > begin:
                begin = lanes[lane]
            held = depends[at]
            if held >= 0 and ended[held] > begin:
                begin = ended[held]
            begun[at] = begin
            done = begin + dur[at]
            other = peers[at]
            if other != -1:  # it waits for other ranks
                done = max(begin + exchange[at], arrival[at] + (ended[other] if other >= 0 else 0))
            lanes[lane] = ended[at] = done
            at += 1
        if kind == WAIT:
            targets = prepared.targets[node]
            done = max([ended[piece] for piece in targets], default=ready)
            least = ready + min(call, wait_ns)
            if done > ready:
                end = max(done + return_ns, least)
            elif targets:
                end = least
            if free[node] and end > least:
                end -= int((end - least) * free[node])
        elif kind == BLOCKING:
            least = ready + wait_ns
            end = max(max(ended[first:at]) + after[node], least)
            if free[node]:
                end -= int((end - least) * free[node])
        elif kind == BATCH:
            # Workers go on meanwhile: it comes when it came, and as much sooner as their batches got faster so far.
            sooner += int(call * free[node])
            come = prepared.came[node] - sooner
            end = come if come > ready and free[node] < AT_WILL else ready
        if queue and at > queue and at > first and ended[at - 1 - queue] > end:
            end = ended[at - 1 - queue]  # the queue is full
        ends[node] = end
        if end > now:
            nows[line] = end
    return Timeline(*(np.array(column, np.int64) for column in (starts, ends, begun, ended)))
