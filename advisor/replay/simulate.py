"""The clock: runs the graph, with durations and waits as they are or as a fix would make them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.intervals import Ints, distinct
from advisor.replay.batches import AT_WILL
from advisor.replay.graph import BATCH, BLOCKING, MARK, PLAIN, WAIT, Floats, Graph
from advisor.timeline.unprofiled import Pace

_SHORT = 64
"""Nodes and work of a stretch that takes longer as arrays than one by one."""


class Change(Struct):
    """Effect of a fix: ns taken from the think time and the calls of the host and from the work; the part of waits that goes.

    ``everywhere``: the other ranks, which run the same program, get as much earlier to a collective as this one does, and
    by the share ``late`` of what this one waits for them. ``pace``: batches of workers come at it, in place of when they came.
    """

    think: Ints | None = None
    call: Ints | None = None
    dur: Ints | None = None
    free: Floats | None = None
    everywhere: bool = False
    late: float = 0.0
    pace: Pace | None = None


class Timeline(Struct):
    """When everything happens: host nodes and work, in the order of the graph.

    ``host_ns`` is the time of the host's longest line without its waits where a fix lets it run ahead of the recording; else 0.
    """

    start: Ints
    end: Ints
    begun: Ints
    ended: Ints
    host_ns: int = 0


class Stretch(Struct, frozen=True):
    """Nodes in a row, and their work."""

    low: int
    high: int
    first: int
    last: int
    """The nodes are those from *low* to *high*, their work lies from *first* to *last*."""
    owner: Ints | None = None
    """Of each piece of work, how many nodes behind the first its node is; None where the clock has to go node by node."""
    lanes: tuple[tuple[int, Ints | slice], ...] = ()
    """Each stream of the work, and which of it runs there."""


class Prepared:
    """The graph cut into stretches: those in which the host waits for nothing are run as arrays, the others node by node.

    The clock's loop reads single values, as whole numbers of ns: through views of memory, whose items are plain numbers.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.before = int(graph.first[0]) if len(graph) else 0  # pieces of work that nothing here launched
        self.lines = int(graph.line.max(initial=0)) + 1
        self.stream, self.depends = graph.stream.tolist(), graph.depends.tolist()
        self.waits = bool((graph.peers != -1).any())
        self.no_free = np.zeros(len(graph))
        self.stretches = _stretches(graph)
        waits = np.flatnonzero(graph.kind == WAIT)
        bounds = zip(graph.target_first[waits].tolist(), graph.target_last[waits].tolist(), strict=True)
        self.targets = {
            node: graph.target[low:high].tolist() for node, (low, high) in zip(waits.tolist(), bounds, strict=True)
        }
        """The work that each wait waits for."""


def _stretches(graph: Graph) -> list[Stretch]:
    """Cut a graph where the host waits, or work waits for what is not before it on its stream."""
    size = len(graph)
    if not size:
        return []
    held = np.append(0, np.cumsum((graph.depends >= 0) | (graph.peers != -1)))
    alone = ~np.isin(graph.kind, (PLAIN, MARK)) | (graph.tied >= 0) | (held[graph.last] > held[graph.first])
    edges = alone.copy()
    edges[1:] |= alone[:-1] | (graph.line[1:] != graph.line[:-1])
    edges[0] = True
    low = np.flatnonzero(edges)
    high = np.append(low[1:], size)
    first = graph.first[low]
    last = graph.last[high - 1]
    short = alone[low] | ((high - low) + (last - first) < _SHORT)
    out: list[Stretch] = []
    for one in zip(low.tolist(), high.tolist(), first.tolist(), last.tolist(), short.tolist(), strict=True):
        begin, end, work, until, by_node = one
        if not by_node:
            owner = np.repeat(np.arange(end - begin), graph.last[begin:end] - graph.first[begin:end])
            out.append(Stretch(begin, end, work, until, owner, _lanes(graph.stream[work:until])))
        elif out and out[-1].owner is None:
            out[-1] = Stretch(out[-1].low, end, out[-1].first, until)
        else:
            out.append(Stretch(begin, end, work, until))
    return out


def _lanes(stream: Ints) -> tuple[tuple[int, Ints | slice], ...]:
    used = distinct(stream).tolist()
    if len(used) == 1:
        return ((used[0], slice(None)),)
    return tuple((lane, np.flatnonzero(stream == lane)) for lane in used)


def _paced(graph: Graph, pace: Pace, length: Ints) -> tuple[Ints, Ints]:
    """Return when each node's batch comes, at a steady pace from the first on, and how long each is waited for."""
    came, length = graph.end.copy(), length.copy()
    batches = np.flatnonzero(graph.kind == BATCH)
    if len(batches):
        first = int(graph.start[batches[0]] + pace.waited_ns)
        came[batches] = first + np.rint(np.arange(len(batches)) * pace.batch_ns).astype(np.int64)
        length[batches] = int(pace.waited_ns)
    return came, length


class _Clock:
    """One run of the graph."""

    def __init__(self, prepared: Prepared, change: Change) -> None:
        self.prepared, self.graph = prepared, prepared.graph
        graph = self.graph
        self.think, self.length, self.dur = graph.think, graph.length, graph.dur
        if change.think is not None:
            # What a tied node counts from moves with the main line.
            less = np.where(graph.tied < 0, change.think, 0)
            self.think = np.maximum(graph.think - less, np.minimum(graph.think, 0))
        if change.call is not None:
            self.length = np.maximum(graph.length - change.call, 0)
        if change.dur is not None:
            self.dur = np.maximum(graph.dur - change.dur, 0)
        self.free: Floats = prepared.no_free if change.free is None else change.free
        self.came = graph.end
        if change.pace is not None:
            self.came, self.length = _paced(graph, change.pace, self.length)
        self.peers, self.arrival, self.exchange = graph.peers, graph.arrival, graph.exchange
        if prepared.waits:
            # What shortens a collective shortens the exchange, not the waiting for other ranks.
            part = 0.0 if change.dur is None else change.dur / np.maximum(graph.dur, 1)
            shorter = np.rint(graph.exchange * part).astype(np.int64)
            self.arrival, self.exchange = graph.arrival - shorter, graph.exchange - shorter
            if change.everywhere:
                # The rank waits for them as long as it did, and what is exchanged takes as much less.
                late = np.rint(change.late * (graph.dur - graph.exchange)).astype(np.int64)
                self.dur = np.where(graph.peers != -1, graph.dur - shorter - late, self.dur)
                self.peers = np.full(len(graph.peers), -1)
        # A host that did not wait for work of before the recording is ahead of the device, which begins no sooner.
        self.lead = np.rint(graph.lead * self.free).astype(np.int64)
        self.lanes = [graph.low - (0 if self.lead.any() else 1 << 60)] * (max(prepared.stream, default=0) + 1)
        low = int(graph.start[0]) if len(graph) else graph.low
        self.nows = [low] * prepared.lines
        self.start, self.end = np.zeros(len(graph), np.int64), np.zeros(len(graph), np.int64)
        self.begun, self.ended = np.zeros(len(graph.dur), np.int64), np.zeros(len(graph.dur), np.int64)
        self.sooner = 0

    def run(self) -> Timeline:
        """Run the whole graph."""
        self._before()
        for stretch in self.prepared.stretches:
            if stretch.owner is None or not self._at_once(stretch, stretch.owner):
                self._node_by_node(stretch)
        return Timeline(self.start, self.end, self.begun, self.ended, self._host_ns() if self.lead.any() else 0)

    def _host_ns(self) -> int:
        """Return the time of the host's longest line, less its waits."""
        graph = self.graph
        own = np.maximum(self.think, 0) + np.where(graph.kind == PLAIN, self.length, 0)
        return int(np.bincount(graph.line, own, self.prepared.lines).max())

    def _before(self) -> None:
        """Run the work that nothing launched."""
        prepared, lanes, low = self.prepared, self.lanes, self.graph.low
        stream, depends = prepared.stream, prepared.depends
        for at in range(prepared.before):
            begin = max(low + int(self.graph.lag[at]), lanes[stream[at]])
            if depends[at] >= 0:
                begin = max(begin, int(self.ended[depends[at]]))
            self.begun[at] = begin
            lanes[stream[at]] = self.ended[at] = begin + int(self.dur[at])

    def _at_once(self, stretch: Stretch, owner: Ints) -> bool:
        """Run nodes in which nothing waits but work for the work before it; False, and nothing done, where the queue is full.

        Each node moves the line on by its pause and its call, if that is more than nothing. Each piece of work ends its own
        length after it is launched, or after the one before it ended, whichever comes later: the latest beginning so far, less
        all lengths before it, plus all lengths up to it.
        """
        graph, (low, high), (first, last) = self.graph, (stretch.low, stretch.high), (stretch.first, stretch.last)
        line = int(graph.line[low])
        pause, call, length = self.think[low:high], self.length[low:high], self.dur[first:last]
        moves = np.maximum(pause + call, 0)
        now = np.cumsum(moves)
        now += self.nows[line]
        ready = now - moves + pause
        end = ready + call
        launched = ready[owner] + graph.lag[first:last]
        ended = self.ended[first:last]
        lanes = []
        for lane, rows in stretch.lanes:
            took = np.cumsum(length[rows])
            begins = launched[rows] - took
            begins += length[rows]
            begins[0] = max(int(begins[0]), self.lanes[lane])
            took += np.maximum.accumulate(begins)
            ended[rows] = took
            lanes.append((lane, int(took[-1])))
        if graph.queue:
            behind = graph.last[low:high] - 1 - graph.queue
            asked = (behind >= 0) & (graph.last[low:high] > graph.first[low:high])
            if (self.ended[behind[asked]] > end[asked]).any():
                return False
        for lane, until in lanes:
            self.lanes[lane] = until
        np.subtract(ended, length, out=self.begun[first:last])
        self.start[low:high], self.end[low:high] = ready, end
        self.nows[line] = int(now[-1])
        return True

    def _node_by_node(self, stretch: Stretch) -> None:
        """Run nodes one after the other: over plain numbers, with no calls in the loop."""
        prepared, graph, free = self.prepared, self.graph, self.free.data
        part = slice(stretch.low, stretch.high)
        at, after, came, targets = stretch.first, graph.after.data, self.came.data, prepared.targets
        wait_ns, return_ns, queue = graph.wait_ns, graph.return_ns, graph.queue
        nows, lanes, stream, depends = self.nows, self.lanes, prepared.stream, prepared.depends
        starts, ends, begun, ended = self.start.data, self.end.data, self.begun.data, self.ended.data
        lag, dur, peers = graph.lag.data, self.dur.data, self.peers.data
        arrival, exchange, lead = self.arrival.data, self.exchange.data, self.lead.data
        columns = zip(
            range(stretch.low, stretch.high), self.think[part].tolist(), self.length[part].tolist(),
            graph.kind[part].tolist(), graph.last[part].tolist(), graph.line[part].tolist(), graph.tied[part].tolist(),
            strict=True,
        )  # fmt: skip
        for node, pause, call, kind, until, line, tied in columns:
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
                done = ready
                for piece in targets[node]:
                    if ended[piece] > done:
                        done = ended[piece]
                least = ready + (call if call < wait_ns else wait_ns)
                if done > ready:
                    done += return_ns
                    end = done if done > least else least
                elif targets[node]:
                    end = least
                if free[node] and end > least:
                    end -= int((end - least) * free[node]) + lead[node]
            elif kind == BLOCKING:
                least = ready + (call if call < wait_ns else wait_ns)
                done = (ended[first] if at == first + 1 else max(ended[first:at])) + after[node]
                end = done if done > least else least
                if free[node]:
                    end -= int((end - least) * free[node]) + lead[node]
            elif kind == BATCH:
                # Workers go on meanwhile: it comes when it came, and as much sooner as their batches got faster so far.
                self.sooner += int(call * free[node])
                come = came[node] - self.sooner
                end = come if come > ready and free[node] < AT_WILL else ready
            if queue and at > queue and at > first and ended[at - 1 - queue] > end:
                end = ended[at - 1 - queue]  # the queue is full
            ends[node] = end
            if end > now or (lead[node] and free[node]):
                nows[line] = end


def run(prepared: Prepared, change: Change | None = None) -> Timeline:
    """Run the graph. Unchanged, it gives the record back, but for residuals: waits are worked out, never copied."""
    return _Clock(prepared, change or Change()).run()
