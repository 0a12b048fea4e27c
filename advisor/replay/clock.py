"""The clock: runs the graph, with durations and waits as they are or as a fix would make them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from advisor.intervals import Bools, Ints
from advisor.replay.graph import BLOCKING, WAIT, Graph


@dataclass
class Change:
    """What a fix does: ns taken from the think time and the calls of the host and from the work; waits that do not wait."""

    think: Ints | None = None
    call: Ints | None = None
    dur: Ints | None = None
    free: Bools | None = None


@dataclass
class Timeline:
    """When everything happens: host nodes and work, in the order of the graph."""

    start: Ints
    end: Ints
    begun: Ints
    ended: Ints


@dataclass
class Prepared:
    """The graph as plain lists: the clock's loop reads single values, which arrays are slow at."""

    graph: Graph
    think: list[int] = field(init=False)
    length: list[int] = field(init=False)
    after: list[int] = field(init=False)
    kind: list[int] = field(init=False)
    first: list[int] = field(init=False)
    last: list[int] = field(init=False)
    targets: list[list[int]] = field(init=False)
    stream: list[int] = field(init=False)
    dur: list[int] = field(init=False)
    lag: list[int] = field(init=False)
    depends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        self.think, self.kind = graph.think.tolist(), graph.kind.tolist()
        self.length, self.after = graph.length.tolist(), graph.after.tolist()
        self.first, self.last = graph.first.tolist(), graph.last.tolist()
        target = graph.target.tolist()
        bounds = zip(graph.target_first.tolist(), graph.target_last.tolist(), strict=True)
        self.targets = [target[low:high] for low, high in bounds]
        self.stream, self.dur = graph.stream.tolist(), graph.dur.tolist()
        self.lag, self.depends = graph.lag.tolist(), graph.depends.tolist()


def run(prepared: Prepared, change: Change | None = None) -> Timeline:
    """Run the graph. Unchanged, it gives the record back, but for residuals: waits are worked out, never copied."""
    graph = prepared.graph
    change = change or Change()
    think = (
        prepared.think
        if change.think is None
        else np.maximum(graph.think - change.think, np.minimum(graph.think, 0)).tolist()
    )
    length = prepared.length
    if change.call is not None:
        length = np.maximum(graph.length - change.call, 0).tolist()
    dur = prepared.dur if change.dur is None else np.maximum(graph.dur - change.dur, 0).tolist()
    free = [False] * len(graph) if change.free is None else change.free.tolist()
    kind, first, last, targets = prepared.kind, prepared.first, prepared.last, prepared.targets
    stream, lag, depends = prepared.stream, prepared.lag, prepared.depends
    streams = [graph.low - (1 << 60)] * (max(stream, default=0) + 1)
    begun, ended = [0] * len(dur), [0] * len(dur)
    starts, ends = [0] * len(graph), [0] * len(graph)
    low, wait_ns, return_ns, queue, after = graph.low, graph.wait_ns, graph.return_ns, graph.queue, prepared.after

    def work(at: int, ready: int) -> None:
        lane = stream[at]
        begin = ready + lag[at]
        if streams[lane] > begin:
            begin = streams[lane]
        held = depends[at]
        if held >= 0 and ended[held] > begin:
            begin = ended[held]
        begun[at] = begin
        streams[lane] = ended[at] = begin + dur[at]

    for at in range(first[0] if first else 0):  # launched before the recording
        work(at, low)
    now = int(graph.start[0]) if len(graph) else low
    for node in range(len(graph)):
        begin = now + think[node]
        starts[node] = begin
        end = begin + length[node]
        for at in range(first[node], last[node]):
            work(at, begin)
        if kind[node] == WAIT:
            until = max((ended[at] for at in targets[node]), default=begin)
            if free[node]:
                end = begin + min(length[node], wait_ns)
            elif until > begin:
                end = max(until + return_ns, begin + min(length[node], wait_ns))
            elif targets[node]:
                end = begin + min(length[node], wait_ns)
        elif kind[node] == BLOCKING:
            until = max(ended[at] for at in range(first[node], last[node]))
            end = begin + wait_ns if free[node] else max(until + after[node], begin + wait_ns)
        if queue and last[node] > queue and last[node] > first[node] and ended[last[node] - 1 - queue] > end:
            end = ended[last[node] - 1 - queue]  # the queue is full
        ends[node] = end
        if end > now:
            now = end
    return Timeline(*(np.array(column, np.int64) for column in (starts, ends, begun, ended)))
