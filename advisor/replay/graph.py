"""The dependency graph of a recording, as columns: what the host does in order, what that launches, what waits for what.

**Host.** All calls of the runtime that matter (launches, waits, step marks), in lines (:mod:`advisor.replay.threads`): threads
that hand over to each other (the main thread waits while the backward thread runs) make one line, which holds the handovers;
a thread that runs beside it is a line of its own. What passes between two calls of a line is the *think time* of the later
one: Python, operators, smaller calls, the loader's waits.

**Device.** Each piece of work follows the one before it on its stream, the call that launched it (a constant later), and
where a stream waited on an event the work of another stream.

**Waits** carry no duration of their own: a synchronization ends when the work that it waits for has, and so does a copy
that blocks. What none of this explains is kept as recorded, and counted: the residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.frames.rank_waits import rank_waits, told
from advisor.intervals import Bools, Ints, alike, distinct, starts_run
from advisor.replay import threads
from advisor.replay.batches import late
from advisor.replay.steady import clock
from advisor.timeline.calls import RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.handovers import between_devices
from advisor.timeline.recording import COPY

_SLACK_NS = 2_000
"""Clocks of host and device agree no better than this."""
_BEHIND = 100
"""Times what nothing explains that a piece of work is held up in all, from which on it is late by what it waited for."""
LATE_NS = 20_000
"""Work that starts later than this after all that is known to hold it was held by something else."""
_DEPENDS_NS = 20_000
"""Work that waited on an event starts within this of the end of the work that the event stands for."""
_MOST_LATENCY_NS = 100_000
"""A launch reaches a device that idles within this: longer, something else held its work."""
_QUEUE = 900
"""A queue this deep is taken to have been full: NVIDIA's takes 1,024 launches."""
_LONG_CALL = 10
"""A launch call this many times as long as the median did something else first: lazy loading, a search, a full queue."""
PLAIN, WAIT, BLOCKING, MARK, BATCH = range(5)
"""Kinds of nodes. A ``BATCH`` is a wait for workers' batch: it ends when that comes."""
Floats = npt.NDArray[np.float64]


@dataclass
class Graph:
    """Nodes of the host line, and work in the order of its launch (work of no recorded launch first).

    Times are ns. ``first``/``last`` slice the work of a host node; ``target``/``target_of`` the work that a wait waits for.
    """

    # host nodes
    start: Ints
    end: Ints
    think: Ints
    length: Ints  # of the call itself; what a launch waited for room in the queue is left out
    after: Ints  # from the end of a blocking copy to its call's return; can be negative
    kind: Ints
    node: Ints  # in the host's forest; -1 for marks
    line: Ints
    tied: Ints  # node of the main line whose start a think time counts from, where that is not the end of the line so far; -1
    first: Ints
    last: Ints
    target_first: Ints
    target_last: Ints
    target: Ints
    # work
    work: Ints  # index into Recording.work
    stream: Ints
    dur: Ints
    lag: Ints  # from the start of the launching node to when the work could start; from the window's start without one
    depends: Ints  # position of work on another stream that it waits for, or -1
    peers: (
        Ints  # of a collective that waits for other ranks: position of the collective before it, -2 for none; else -1
    )
    arrival: Ints  # ns that such a one ends behind the end of that (behind 0), when the other ranks have come
    exchange: Ints  # ns that such a one takes once all have come
    # host nodes
    lead: Ints  # ns that a wait had taken when the counted time began: for work of before the recording
    # constants of the trace
    queue: int  # pieces of work that fit the device's queue; 0 where it was never full
    return_ns: int
    wait_ns: int
    # how much of the record is used as it stands
    residual_ns: int
    linked_share: float
    low: int

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def marks_before(self) -> Ints:
        """Marks up to the node that launched each piece of work."""
        # As many nodes as have launched all theirs by then lie before it.
        node = np.cumsum(np.bincount(self.last, minlength=len(self.work)))[: len(self.work)]
        return np.cumsum(self.kind == MARK)[np.minimum(node, len(self) - 1)].astype(np.int32)


def build(context: Context) -> Graph | None:
    """The graph; None where there is no host or no device work to replay."""
    recording = context.recording
    host, work = recording.host, recording.work
    if not len(work) or not host.size:
        return None
    calls = np.flatnonzero(host.group == RUNTIME)
    calls = calls[np.argsort(host.start[calls], kind="stable")]
    kept = np.zeros(host.size + 1, np.bool_)  # none, -1, has the last place
    kept[work.launch] = kept[context.waits.syncs.node] = True
    calls = calls[kept[calls]]
    if not len(calls):
        return None
    steady = context.once(clock)
    nodes, start, end, kind = _host_line(context, calls)
    recorded = start, end
    start, end = steady.at(start), steady.at(end)
    # A wait inside start-up waits for nothing that is left.
    kind = np.where((recorded[1] > recorded[0]) & (end == start) & (kind == WAIT), PLAIN, kind)
    low = int(steady.at(np.array([recording.ends[0]], np.int64))[0])
    positions, graph_of = _launch_order(work.launch, work.start, nodes, host.size)
    stream = alike(work.device[positions], work.stream[positions])[1]
    begun, ended = steady.at(work.start[positions]), steady.at(work.end[positions])
    collective = work.communication[positions]
    sure = np.where(collective, -1, graph_of)
    if len(recording.devices) > 1:
        # The first work of a device's turn waits for another device, not for its launch.
        sure = np.where(begun - start[np.maximum(graph_of, 0)] > _MOST_LATENCY_NS, -1, sure)
    latency, typical = _latency(start, end, sure, graph_of, stream, begun, ended)
    copies = work.kind[positions] == COPY
    lag, depends, residual = _holds(start, end, copies, graph_of, stream, begun, ended, latency, typical, low)
    depends = _passed_on(context, positions, depends, begun, ended)
    blocking, after = _blocking(kind, start, end, graph_of, copies, begun, ended)
    kind = np.where(blocking, BLOCKING, kind)
    queue, full = _queue(start, end, graph_of, ended, typical)
    length = np.where(full, np.minimum(end - start, typical), end - start)
    line, tied = threads.lines_of(context, nodes, start)
    think = threads.think(start, end, line, tied)
    first = np.searchsorted(graph_of, np.arange(len(start)), side="left")
    last = np.searchsorted(graph_of, np.arange(len(start)), side="right")
    waits = _targets(kind, start, end, last, stream, ended)
    lead = np.where((kind == WAIT) | (kind == BLOCKING), _lead(context, *recorded), 0)
    time = (ended - begun).sum()
    linked = float((ended - begun)[graph_of >= 0].sum() / time) if time else 1.0
    wait_ns, return_ns, fixed = _tails(kind, start, end, ended, waits)
    peers, arrival, exchange = _peers(context, positions, begun, ended)
    small = {name: column.astype(np.int32) for name, column in (
        ("node", nodes), ("line", line), ("tied", tied), ("first", first), ("last", last), ("target_first", waits.first),
        ("target_last", waits.last), ("target", waits.position), ("work", positions), ("stream", stream),
        ("depends", depends), ("peers", peers),
    )}  # fmt: skip
    return Graph(
        start=start, end=end, think=think, length=length, after=after, kind=kind.astype(np.int8),
        **small, dur=ended - begun, lag=lag, arrival=arrival, exchange=exchange, lead=lead,
        queue=queue, return_ns=return_ns, wait_ns=wait_ns,
        residual_ns=residual + fixed, linked_share=linked, low=low,
    )  # fmt: skip


def _host_line(context: Context, calls: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The nodes in order of recorded time: calls, waits for late batches, and a mark where each step begins and the last ends."""
    recording, host = context.recording, context.recording.host
    steps = recording.steps[: recording.step_count]
    marks = np.array([step.start for step in steps] + ([max(step.end for step in steps)] if steps else []), np.int64)
    if not steps and recording.extent != recording.window:
        marks = np.array(recording.ends, np.int64)  # the host's span is what is priced
    waiting = np.isin(calls, context.waits.syncs.node)
    loader = context.waits.loader
    batches = late(context, calls, marks)
    nodes = np.concatenate([calls, loader.node[batches], np.full(len(marks), -1, np.int64)])
    start = np.concatenate([host.start[calls], loader.start[batches], marks])
    end = np.concatenate([host.end[calls], loader.end[batches], marks])
    kind = np.repeat([PLAIN, BATCH, MARK], [len(calls), len(batches), len(marks)])
    kind[: len(calls)][waiting] = WAIT
    # A mark comes before a call of the same moment.
    order = np.lexsort((kind != MARK, start))
    return nodes[order], start[order], end[order], kind[order]


def _lead(context: Context, start: Ints, end: Ints) -> Ints:
    """Return the ns that each call had taken when the device was done with what was queued before the recording.

    Of several steps the first alone would gain by that: where there are any, it is 0.
    """
    recording = context.recording
    low, first = recording.ends[0], recording.extent[0]
    if recording.step_count > 1 or int(recording.bounds[0]) != low:
        return np.zeros(len(start), np.int64)
    lead: Ints = np.where(end > low, np.maximum(low - np.maximum(start, first), 0), 0)
    return lead


def _launch_order(launch: Ints, begun: Ints, nodes: Ints, size: int) -> tuple[Ints, Ints]:
    """Order work by the host node that launched it, then by start; and give that node for each, -1 for work launched before
    the recording or elsewhere."""
    at = np.full(size + 1, -1, np.int64)
    calls = np.flatnonzero(nodes >= 0)
    at[nodes[calls]] = calls
    owner = np.where(launch >= 0, at[np.maximum(launch, 0)], -1)
    order = np.lexsort((begun, owner))
    return order, owner[order]


def _latency(
    start: Ints, end: Ints, sure: Ints, owner: Ints, stream: Ints, begun: Ints, ended: Ints
) -> tuple[int, int]:
    """From a launch call's start to its work's, where nothing else held it; and how long such a call takes: medians.

    *sure* is *owner* without what begins when something else lets it: collectives wait for their stream's event, or other ranks.
    """
    if not (owner >= 0).any():
        return 0, 0
    typical = int(np.median((end - start)[owner[owner >= 0]]))
    rows = np.flatnonzero(sure >= 0)
    before = previous_end(stream, begun, ended)
    call = start[owner[rows]]
    free = (before[rows] < call) & (begun[rows] >= call) & ((end - start)[owner[rows]] <= _LONG_CALL * max(typical, 1))
    free &= starts_run(owner[rows])
    return (int(np.median((begun[rows] - call)[free])) if free.any() else typical), typical


def previous_end(stream: Ints, begun: Ints, ended: Ints) -> Ints:
    """When the work before each one on its stream had ended; far in the past for the first."""
    before = np.full(len(begun), np.iinfo(np.int64).min // 4, np.int64)
    for number in distinct(stream).tolist():
        rows = np.flatnonzero(stream == number)
        rows = rows[np.argsort(begun[rows], kind="stable")]
        before[rows[1:]] = np.maximum.accumulate(ended[rows])[:-1]
    return before


def _holds(
    start: Ints,
    end: Ints,
    copies: Bools,
    owner: Ints,
    stream: Ints,
    begun: Ints,
    ended: Ints,
    latency: int,
    typical: int,
    low: int,
) -> tuple[Ints, Ints, int]:
    """Return what holds each piece of work back beside its stream: the launch, other streams, and what is not known."""
    call = np.where(owner >= 0, start[np.maximum(owner, 0)], low)
    length = np.where(owner >= 0, (end - start)[np.maximum(owner, 0)], 0)
    # What a long call does first (lazy loading, a search, waiting for room in the queue) comes before the launch itself;
    # but a long call of a copy waits for the copy.
    late_call = np.where((length > _LONG_CALL * max(typical, 1)) & ~copies, length - typical, 0)
    lag = np.where(owner >= 0, latency + late_call, begun - low)
    before = previous_end(stream, begun, ended)
    base = np.maximum(call + lag, before)
    depends = np.full(len(begun), -1, np.int64)
    wants = np.flatnonzero((owner >= 0) & (begun - base > _SLACK_NS))
    by_end = np.argsort(ended, kind="stable")
    sorted_end = ended[by_end]
    for at in wants.tolist():
        # The latest end before this start, on another stream, of work that was launched before it.
        stop = int(np.searchsorted(sorted_end, begun[at] + _SLACK_NS, side="right"))
        for back in range(stop - 1, max(stop - 12, -1), -1):
            other = int(by_end[back])
            if begun[at] - ended[other] > _DEPENDS_NS:
                break
            if stream[other] != stream[at] and other < at and ended[other] > base[at]:
                depends[at] = other
                base[at] = max(base[at], ended[other])
                break
    unexplained = np.where(owner >= 0, begun - base, 0)
    late = unexplained > LATE_NS
    # Inside one replayed graph the gaps between its kernels are part of the graph.
    same = np.zeros(len(begun), np.bool_)
    same[1:] = (owner[1:] == owner[:-1]) & (owner[1:] >= 0)
    # What comes late behind work before it, longer than it waited for that, is late by its call; else a little behind that work.
    after_call = begun - np.maximum(call + lag, 0)
    lag = np.where(late & (_BEHIND * unexplained > after_call), lag + after_call, lag)
    return lag.astype(np.int64), depends, int(unexplained[late].sum())


def _passed_on(context: Context, positions: Ints, depends: Ints, begun: Ints, ended: Ints) -> Ints:
    """Let the next work on another device wait for a copy to it, also where its launch came too late to show that."""
    if len(context.recording.devices) < 2:
        return depends
    work = context.recording.work
    device, copies = work.device[positions], np.flatnonzero(between_devices(context.recording)[positions])
    for number in distinct(device[copies]).tolist():
        others, passing = np.flatnonzero(device != number), copies[device[copies] == number]
        at = np.searchsorted(others, passing)
        passing, at = passing[at < len(others)], at[at < len(others)]
        waits = others[at]
        fits = (depends[waits] < 0) & (begun[waits] >= ended[passing] - _SLACK_NS)
        depends[waits[fits]] = passing[fits]
    return depends


def _peers(context: Context, positions: Ints, begun: Ints, ended: Ints) -> tuple[Ints, Ints, Ints]:
    """Return what the other ranks hold: in a rank that waits much, each collective that it waits in.

    Such a one ends when the others have come, however early this rank does. They go on when the collective before it ends:
    what that gains they gain.
    """
    peers = np.full(len(positions), -1, np.int64)
    arrival, exchange = np.zeros(len(positions), np.int64), np.zeros(len(positions), np.int64)
    found = context.once(rank_waits)
    if found is None or not found.holds:
        return peers, arrival, exchange
    known = context.once(told)
    at = np.full(len(context.recording.work), -1, np.int64)
    at[positions] = np.arange(len(positions))
    here = at[known.work]
    order = np.argsort(here, kind="stable")
    here, fastest, last = here[order], known.fastest[order], known.last[order]
    before = np.append(-2, here[:-1])
    until = np.where(before >= 0, ended[np.maximum(before, 0)], 0)
    waits = ~last & (here >= 0)
    peers[here[waits]] = before[waits]
    arrival[here[waits]] = (ended[here] - until)[waits]
    exchange[here[waits]] = np.minimum(fastest, ended[here] - begun[here])[waits]
    return peers, arrival, exchange


def _blocking(
    kind: Ints, start: Ints, end: Ints, owner: Ints, copies: Bools, begun: Ints, ended: Ints
) -> tuple[Bools, Ints]:
    """Copy calls that were held for most of their copy, and when they returned after its end (pageable memory is staged:
    the call can return a little before)."""
    blocking, after = np.zeros(len(kind), np.bool_), np.zeros(len(kind), np.int64)
    rows = np.flatnonzero(copies & (owner >= 0))
    call = owner[rows]
    held = np.minimum(end[call], ended[rows]) - begun[rows]
    # Where the clocks differ by more than a small copy takes, it seems to run after the call that held it.
    until = np.abs(end[call] - ended[rows]) <= LATE_NS
    long = (end[call] - start[call] > LATE_NS) & (kind[call] == PLAIN)
    waits = long & ((2 * held >= ended[rows] - begun[rows]) | until)
    blocking[call[waits]] = True
    after[call[waits]] = np.minimum(end[call] - ended[rows], LATE_NS)[waits]
    return blocking, after


def _queue(start: Ints, end: Ints, owner: Ints, ended: Ints, typical: int) -> tuple[int, Bools]:
    """Return the size of the device's queue (0 where it was never full), and the launches that waited for room in it."""
    calls = distinct(owner[owner >= 0])
    full = np.zeros(len(start), np.bool_)
    if not len(calls):
        return 0, full
    launched = np.searchsorted(owner, calls, side="right") - np.searchsorted(owner, 0, side="left")
    done = np.searchsorted(np.sort(ended[owner >= 0]), end[calls], side="right")
    depth = launched - done
    if depth.max() < _QUEUE:
        return 0, full
    size = int(depth.max())
    full[calls[(depth >= 0.95 * size) & ((end - start)[calls] > 2 * max(typical, 1))]] = True
    return size, full


class _Targets(Struct):
    first: Ints
    last: Ints
    position: Ints


def _targets(kind: Ints, start: Ints, end: Ints, last: Ints, stream: Ints, ended: Ints) -> _Targets:
    """For each wait, the last work of every stream that had run dry when it ended: that is what it can have waited for."""
    firsts, lasts = np.zeros(len(kind), np.int64), np.zeros(len(kind), np.int64)
    positions: list[int] = []
    waits = np.flatnonzero(kind == WAIT)
    streams = [np.flatnonzero(stream == number) for number in distinct(stream).tolist()]
    reach = [np.maximum.accumulate(ended[rows]) for rows in streams]
    # A long wait ended with its work even where the clocks are further apart.
    limit = end + np.clip((end - start) // 10, _SLACK_NS, LATE_NS)
    for at in waits.tolist():
        firsts[at] = len(positions)
        for rows, until in zip(streams, reach, strict=True):
            count = int(np.searchsorted(rows, last[at], side="left"))
            if count and until[count - 1] <= limit[at]:
                positions.append(int(rows[count - 1]))
        lasts[at] = len(positions)
    return _Targets(firsts, lasts, np.array(positions, np.int64))


def _tails(kind: Ints, start: Ints, end: Ints, ended: Ints, waits: _Targets) -> tuple[int, int, int]:
    """Return the length of a wait with nothing to wait for, and the time from the end of the work to a wait's return: medians.

    The third figure is the time of waits that no known work explains, which is kept as recorded.
    """
    dry: list[int] = []
    tails: list[int] = []
    fixed = 0
    for at in np.flatnonzero(kind == WAIT).tolist():
        until = ended[waits.position[waits.first[at] : waits.last[at]]]
        if len(until) and until.max() > start[at]:
            tails.append(int(end[at] - until.max()))
        else:
            dry.append(int(end[at] - start[at]))
            fixed += dry[-1]
    wait = int(np.median(dry)) if dry else 4_000
    tail = max(0, int(np.median(tails))) if tails else 4_000
    return wait, tail, fixed
