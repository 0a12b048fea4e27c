"""Effect of a rule's fix on the graph: the part of each duration that it leaves, and the waits that no longer wait.

One assumption is a share, from the rule's ``[replay]``. On the device it is taken from the matched work: all of its time
where the fix removes, merges or scales it; what it owns where the fix hides it. On the host it is taken from what the matched
idle time, waits and calls consist of; where work is removed or merged, its launches go with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.engine.claims import Claim
from advisor.frames import FRAMES
from advisor.frames.collectives import in_a_loop
from advisor.frames.frame import Frame
from advisor.intervals import (
    EMPTY,
    Bools,
    Ints,
    Spans,
    covered,
    distinct,
    fetch,
    inside,
    intersect,
    narrow,
    subtract,
    union,
    without,
)
from advisor.regex import regex
from advisor.replay import batch, link
from advisor.replay.graph import BATCH, BLOCKING, PLAIN, WAIT, Graph
from advisor.replay.simulate import Change
from advisor.replay.steady import clock
from advisor.timeline.calls import OP, PHASES
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import called_below, outermost
from advisor.timeline.owners import stopped, stopped_anywhere
from advisor.timeline.unprofiled import Pace

Floats = npt.NDArray[np.float64]
_NODE = regex(r"autograd::engine::evaluate_function|torch::autograd::|\w+Backward\d*$")
_GRADIENT_NODE = "torch::autograd::AccumulateGrad"
_USUAL = 5
"""Think time before a launch that goes with it is at most this many times the median."""
_LONG_NS = 1_000_000
"""Idle stretches from which the host did something else than launch; the limit of gpu-idle/launch-bound."""

_STARVED = 0.15
"""Share of the counted time in stops from which on a thread is short of a core."""


class Keep(Struct):
    """Rest of think times, calls and work, as shares; the part of each wait that goes, and of the waiting for other ranks; and
    the pace of a loader's workers, None for the recorded one."""

    think: Floats
    call: Floats
    dur: Floats
    free: Floats
    late: float = 0.0
    pace: Pace | None = None

    @classmethod
    def all_of(cls, graph: Graph) -> Keep:
        """Nothing changed."""
        nodes = len(graph)
        return cls(np.ones(nodes), np.ones(nodes), np.ones(len(graph.work)), np.zeros(nodes))

    def and_(self, other: Keep) -> Keep:
        """Both fixes: what is left of what the other left."""
        free = np.maximum(self.free, other.free)
        late = max(self.late, other.late)
        pace = self.pace or other.pace
        return Keep(self.think * other.think, self.call * other.call, self.dur * other.dur, free, late, pace).narrow()

    def narrow(self) -> Keep:
        """The same in less room: most fixes change some of the four columns only. It is not to be changed in place."""
        return Keep(narrow(self.think), narrow(self.call), narrow(self.dur), narrow(self.free), self.late, self.pace)

    def change(self, graph: Graph) -> Change:
        """For the clock."""
        think = np.maximum(graph.think, 0) * (1 - self.think)
        call = graph.length * (1 - self.call)
        return Change(
            np.rint(think).astype(np.int64),
            np.rint(call).astype(np.int64),
            np.rint(graph.dur * (1 - self.dur)).astype(np.int64),
            self.free,
            late=self.late,
            pace=self.pace,
        )


def effect(
    context: Context,
    graph: Graph,
    claim: Claim,
    *,
    hopeful: bool,
    others: Sequence[Claim] = (),
    beside: Sequence[Claim] = (),
) -> Keep:
    """Rest that the fix of a claim leaves, by its rule's hopeful or its cautious assumption.

    *others* are the findings whose fixes are taken as well: a larger batch does not spread what they own, but for the host's
    time around launches. Of those *beside*, whose fixes are not, it spreads all but the host's long stretches.
    """
    keep = _effect(context, graph, claim, others, hopeful=hopeful)
    if claim.rule.replay is not None and claim.rule.replay.action == "batch":
        for other in beside:
            if FRAMES[other.rule.match.frame] is FRAMES["gaps"]:
                _not_spread(context, graph, keep, _long(_host_spans(context, FRAMES["gaps"], other)), idle=True)
    return keep.narrow()


def _effect(context: Context, graph: Graph, claim: Claim, others: Sequence[Claim], *, hopeful: bool) -> Keep:
    keep = Keep.all_of(graph)
    replay = claim.rule.replay
    share = 0.0 if replay is None else (replay.high if hopeful else replay.low) * claim.returns[hopeful]
    if replay is None or share <= 0:
        return keep
    frame, action = FRAMES[claim.rule.match.frame], replay.action
    if hopeful and replay.late:
        keep.late = share
    if action == "batch":
        return _beside(context, graph, _in_a_larger_batch(context, graph, share, fuller=hopeful), others)
    works = _works(context, frame, claim)
    if len(works):
        at = np.full(len(context.recording.work), -1, np.int64)
        at[graph.work] = np.arange(len(graph.work))
        # How much of an exchange hides is what weighs its rows; calls that become one go either way.
        calls = min(share / max(claim.weight, share), 1.0) if frame is FRAMES["collectives"] else share
        _on_device(context, graph, keep, at[works], action, share)
        if action in ("remove", "merge") and (hopeful or not context.once(starved)):
            _not_launched(context, graph, keep, at[_removed(context, frame, claim)], calls)
        if replay.floor == "link":
            _no_faster_than_the_link(context, graph, keep, at[works])
    if action == "capture":
        _capture(context, graph, keep, share)
    for stretches in (_host_spans(context, frame, claim, hopeful=hopeful), _spared(context, frame, claim)):
        if len(stretches.start):
            _on_host(graph, keep, context.once(clock).spans(stretches), share)
    if frame.frees is not None and action in ("unblock", "hide", "remove", "merge"):
        # Every wait is shortened by the share: which of them go entirely, nobody knows.
        freed = _freed(context, frame, graph, claim)
        keep.free[freed] = share
        if action == "unblock":  # nor are they called
            keep.call[freed] *= 1 - share
    return keep


def starved(context: Context) -> bool:
    """Tell whether a thread was stopped for much of the time: what it is spared, others on its core may take."""
    stops, ledger = context.once(stopped_anywhere), context.ledger
    return int((stops.end - stops.start).sum()) >= _STARVED * max(ledger.counted_ns, 1)


def reach(context: Context, graph: Graph, claim: Claim) -> int:
    """Return the ns of the counted time that the rows of a claim take, hidden or not: what its assumption is a share of."""
    frame = FRAMES[claim.rule.match.frame]
    work = context.recording.work
    works = _works(context, frame, claim)
    spans = _host_spans(context, frame, claim)
    total = int((work.end[works] - work.start[works]).sum()) + int((spans.end - spans.start).sum())
    return total + int((graph.end - graph.start)[_freed(context, frame, graph, claim)].sum())


def behind_work(context: Context, graph: Graph, claim: Claim) -> int:
    """Return the ns of the host's counted time behind a busy GPU that goes with a fix: free until the GPU has less to do.

    Those are launches of work that is removed or merged, or of a model that is captured, calls that are the rows themselves,
    and waits that no longer hold the host. While the GPU waits for them their time is on the ledger, and owned there.
    """
    frame, replay = FRAMES[claim.rule.match.frame], claim.rule.replay
    if replay is None:
        return 0
    busy = context.once(_busy)
    total = 0.0
    if frame.rows.work is not None or replay.action == "capture":
        total = _launches_within(context, graph, claim, busy)
    if frame.shortens is not None and replay.action in ("remove", "scale"):
        spans = context.once(clock).spans(_host_spans(context, frame, claim))
        total += float(covered(busy, spans.start, spans.end).sum())
    spared = context.once(clock).spans(_spared(context, frame, claim))
    total += float(covered(busy, spared.start, spared.end).sum())
    if replay.action == "unblock":
        freed = _freed(context, frame, graph, claim)
        total += float(covered(busy, graph.start[freed], graph.end[freed]).sum())
    return int(total)


def behind_earlier_work(context: Context, graph: Graph, claim: Claim, others: Sequence[Claim]) -> int:
    """Return the ns of a freed wait that work of before the recording hides, and that the GPU idles for after it.

    Without the wait the host has those ns before the GPU is done with that work. Idle time that *others* own is theirs.
    """
    if claim.rule.replay is None or claim.rule.replay.action != "unblock":
        return 0
    lead = int(graph.lead[_freed(context, FRAMES[claim.rule.match.frame], graph, claim)].sum())
    if not lead:
        return 0
    ledger = context.ledger
    owned = np.concatenate([claim.segments, *(other.segments for other in others)])
    idle = without(np.flatnonzero(ledger.idle & ledger.counted), owned)
    return min(lead, int(ledger.dur_ns[idle].sum()))


def idle_of_others(context: Context, graph: Graph, claim: Claim, others: Sequence[Claim]) -> int:
    """Return the ns in which the GPU waits for launches that go with a fix, where *others* own that idle time.

    Beside their fixes it is not returned again; alone it is. What a thread that was stopped loses stays: it stops elsewhere.
    Copies that no longer hold the host let it run ahead by what it waited for behind earlier work, and the GPU then waits the
    less for what it launches: no more than those idle times.
    """
    ledger = context.ledger
    theirs = np.concatenate([np.zeros(0, np.int64), *(other.segments for other in others)])
    idle = without(theirs[ledger.idle[theirs]], claim.segments)
    running = subtract(union(ledger.start_ns[idle], ledger.end_ns[idle]), stopped(context))
    spans = context.once(clock).spans(running)
    ahead = min(_lead(context, graph, claim), float((spans.end - spans.start).sum()))
    return int(_launches_within(context, graph, claim, spans) + ahead)


def _lead(context: Context, graph: Graph, claim: Claim) -> float:
    """Return the ns by which the host runs ahead of the GPU where hidden copies no longer hold it behind earlier work."""
    if claim.rule.replay is None or claim.rule.replay.action != "hide":
        return 0.0
    freed = _freed(context, FRAMES[claim.rule.match.frame], graph, claim)
    return float(covered(context.once(_busy), graph.start[freed], graph.end[freed]).sum())


def _launches_within(context: Context, graph: Graph, claim: Claim, spans: Spans) -> float:
    """Return the ns of the host's time for launches that go with a fix, as far as they lie in *spans*, on the steady clock."""
    frame, replay = FRAMES[claim.rule.match.frame], claim.rule.replay
    whole = replay is not None and replay.action == "capture"
    if whole:
        launches = launches_of_model(context, graph).astype(np.float64)
    elif replay is not None and replay.action in ("remove", "merge"):
        at = np.full(len(context.recording.work), -1, np.int64)
        at[graph.work] = np.arange(len(graph.work))
        launches = _launching(graph, at[_removed(context, frame, claim)])
    else:
        return 0.0
    inner, ops = (np.zeros(len(graph), np.bool_), EMPTY) if whole else _called(context, graph, launches)
    call = covered(spans, graph.start, graph.start + graph.length)
    begin = graph.start - np.maximum(graph.think, 0)
    if replay is not None and replay.action == "merge" and claim.rule.match.frame == "patterns":
        # Of layers that become one go the operators; what the program does between them stays, which a compiler would take.
        host, outer = context.recording.host, outermost(context, graph.node)
        opened = context.once(clock).at(host.start[np.maximum(outer, 0)])
        begin = np.where((graph.node >= 0) & (outer >= 0), np.clip(opened, begin, graph.start), begin)
    think = covered(spans, begin, graph.start) * _removable(context, graph)
    within = intersect(ops, spans)
    return float((launches * (call + think))[~inner].sum() + (within.end - within.start).sum())


def _freed(context: Context, frame: Frame, graph: Graph, claim: Claim) -> Bools:
    """Flag the waits that a fix of the rows does away with."""
    if frame.frees is None:
        return np.zeros(len(graph), np.bool_)
    freed: Bools = np.isin(graph.node, frame.frees(context, claim.rows)) & _held(graph)
    return freed


def _busy(context: Context) -> Spans:
    """Time in which the device works, on the steady clock."""
    ledger = context.ledger
    busy = ledger.busy & ledger.counted
    return context.once(clock).spans(union(ledger.start_ns[busy], ledger.end_ns[busy]))


def held_by_the_link(context: Context, claim: Claim) -> float:
    """Return the ns of a claim's cost that its copies take at the link's rate; 0 where its rule is not of that kind."""
    frame = FRAMES[claim.rule.match.frame]
    if claim.rule.replay is None or claim.rule.replay.floor != "link":
        return 0.0
    works = _works(context, frame, claim)
    return float(np.minimum(link.least_ns(context, works), context.work_cost[works]).sum())


def waiting(context: Context, graph: Graph, *, driver: bool = False) -> Floats:
    """The part of each think time that is no Python and no operator: the loader, a compiler, a collector, the profiler.

    With *driver*, what no recording of Python slows down as well: the driver's allocations, and threads that did not run.
    """
    waits = context.waits
    tables = [waits.loader, waits.compile, waits.gc, waits.profiler]
    if driver:
        tables.append(waits.allocator)
    begun, ended = [table.start for table in tables], [table.end for table in tables]
    if driver:
        stops = stopped(context)
        begun, ended = [*begun, stops.start], [*ended, stops.end]
    spans = union(np.concatenate(begun), np.concatenate(ended))
    spans = context.once(clock).spans(spans)
    begin = graph.start - np.maximum(graph.think, 0)
    return np.clip(covered(spans, begin, graph.start) / np.maximum(graph.think, 1), 0.0, 1.0)


def _in_a_larger_batch(context: Context, graph: Graph, share: float, *, fuller: bool) -> Keep:
    """Rest that a batch of today's size leaves within a larger one: see :mod:`advisor.replay.batch`."""
    keep = Keep.all_of(graph)
    keep.think *= 1 - share * (1 - waiting(context, graph))
    keep.call[graph.kind == PLAIN] *= 1 - share
    keep.dur *= batch.left(context, share, fuller=fuller)[graph.work]
    return keep


def _works(context: Context, frame: Frame, claim: Claim) -> Ints:
    """The work that the rows are, or own."""
    if frame.rows.work is not None:
        return frame.rows.work(context)[claim.rows]
    ledger = context.ledger
    owners = distinct(ledger.row[claim.segments[ledger.busy[claim.segments]]])
    return owners[owners >= 0]


def _removed(context: Context, frame: Frame, claim: Claim) -> Ints:
    """The work of rows that go with their launches, where a rule says that others only get shorter."""
    if claim.shorter is None or frame.rows.work is None:
        return _works(context, frame, claim)
    return frame.rows.work(context)[claim.rows & ~claim.shorter]


def _on_device(context: Context, graph: Graph, keep: Keep, at: Ints, action: str, share: float) -> None:
    at = at[at >= 0]
    if action == "hide":
        owned = context.work_cost[graph.work[at]] / np.maximum(graph.dur[at], 1)
        keep.dur[at] = 1 - share * np.minimum(owned, 1.0)
        return
    keep.dur[at] = 1 - share


def _not_launched(context: Context, graph: Graph, keep: Keep, at: Ints, calls: float) -> None:
    """Take launches from the host. What a thread that was stopped in one loses stays: it stops elsewhere."""
    launches, stops = _launching(graph, at), context.once(clock).spans(context.once(stopped_anywhere))
    inner, ops = _called(context, graph, launches)
    loss = np.where(inner, 0.0, calls * launches)
    # Nor does a copy that is gone hold the host.
    keep.free = np.maximum(keep.free, np.where(_held(graph), calls * launches, 0.0))
    lost = covered(stops, graph.start, graph.start + graph.length) / np.maximum(graph.length, 1)
    keep.call *= 1 - loss * np.clip(1 - lost, 0.0, 1.0)
    keep.think *= 1 - loss * _removable(context, graph)
    if len(ops.start):
        _on_host(graph, keep, subtract(ops, stops), calls)


def _launching(graph: Graph, at: Ints) -> Floats:
    """For each call, the part of the work that it launches which is among some (positions in the graph)."""
    at = at[at >= 0]
    node = np.searchsorted(graph.last, at, side="right")
    node = node[(node < len(graph)) & (at >= (graph.first[0] if len(graph) else 0))]
    size = np.maximum(graph.last - graph.first, 1)
    part: Floats = np.minimum(np.bincount(node, minlength=len(graph)) / size, 1.0)
    return part


def _of_launch(graph: Graph) -> Floats:
    """The part of each think time that goes with its launch: what a launch costs the host, not what happened to come before."""
    plain = graph.kind == PLAIN
    usual = float(np.median(graph.think[plain])) if plain.any() else 0.0
    part = np.minimum(graph.think, _USUAL * max(usual, 1.0)) / np.maximum(graph.think, 1)
    return np.clip(part, 0.0, 1.0)


def _removable(context: Context, graph: Graph) -> Floats:
    """The part of each think time that goes where the launch is removed: of a backward pass no more than the node's own time,
    and of a copy that holds the host no more than its operator had taken by then.

    What autograd's engine takes between its nodes, and what the node before still did, stays; so does what made the numbers.
    """
    host = context.recording.host
    node = outermost(context, graph.node)
    backward = np.array([*(_NODE.match(name) is not None for name in context.names), False], np.bool_)
    own = np.maximum(fetch(host.end, node) - fetch(host.start, node) - graph.length, 0) / np.maximum(graph.think, 1)
    part = _of_launch(graph)
    begun = np.maximum(fetch(host.start, graph.node) - fetch(host.start, node), 0) / np.maximum(graph.think, 1)
    own = np.where(_held(graph), begun, own)
    return np.where(backward[fetch(host.name, node)] | _held(graph), np.minimum(part, own), part)


def _held(graph: Graph) -> Bools:
    """Flag calls that hold the host until the device is done."""
    flags: Bools = np.isin(graph.kind, (WAIT, BLOCKING))
    return flags


def _called(context: Context, graph: Graph, launches: Floats) -> tuple[Bools, Spans]:
    """Flag calls whose launch goes with an operator that one of torch's called, which stays, as of a layer that converts inputs.

    Beside them, on the steady clock, the spans of those operators: all of their time goes, and none of what is around them.
    *launches* is the part of each call that goes.
    """
    host, plain = context.recording.host, graph.kind == PLAIN
    torch = np.array([*(name.startswith("aten::") for name in context.names), False], np.bool_)
    at = np.flatnonzero(plain & (graph.node >= 0))
    outer, called = outermost(context, graph.node[at]), called_below(context, graph.node[at])
    stays = launches[at] < 1
    outer_stays, called_stays = np.zeros(host.size + 1, np.bool_), np.zeros(host.size + 1, np.bool_)
    outer_stays[outer[stays]], called_stays[called[stays]] = True, True  # none, -1, has the last place
    inner = torch[fetch(host.name, outer)] & (called != outer) & outer_stays[outer] & ~called_stays[called]
    flags = np.zeros(len(graph), np.bool_)
    flags[at[inner]] = True
    ops = distinct(called[inner])
    return flags, context.once(clock).spans(union(host.start[ops], host.end[ops]))


def _capture(context: Context, graph: Graph, keep: Keep, share: float) -> None:
    """Take launches from the host, those hidden behind the GPU's work as well: what is captured is launched as one.

    Without that the host would set the pace as soon as kernels became faster, with launches that are gone. A compiled model
    leaves the optimizer's launches, and those of zero_grad, as they are: they are other findings'.
    """
    taken = np.where(launches_of_model(context, graph), share, 0.0)
    keep.call *= 1 - taken
    keep.think *= 1 - taken * _of_launch(graph)


def launches_of_model(context: Context, graph: Graph) -> Bools:
    """Flag the launches that a compiled model takes in.

    Those of the optimizer and of zero_grad stay, in autograd's nodes that hold the gradients what adds to them and what
    communicates them, and the loops that reduce one gradient after the other.
    """
    other = [PHASES.index("optimizer"), PHASES.index("zero_grad")]
    host = context.recording.host
    gradient = np.array([name.endswith(_GRADIENT_NODE) for name in context.names], np.bool_)
    nodes = np.flatnonzero((host.group == OP) & gradient[host.name]) if gradient.any() else graph.node[:0]
    adds: Bools = inside(union(host.start[nodes], host.end[nodes]), host.start[np.maximum(graph.node, 0)]) & (
        graph.node >= 0
    )
    flags: Bools = (
        (graph.kind == PLAIN) & ~np.isin(context.phases(graph.node), other) & ~adds & ~_talking(context, graph)
    )
    flags &= ~in_a_loop(context, graph.node)
    return flags


def _talking(context: Context, graph: Graph) -> Bools:
    """Flag the nodes that launch communication."""
    talks = np.append(0, np.cumsum(context.recording.work.communication[graph.work]))
    flags: Bools = talks[graph.last] > talks[graph.first]
    return flags


def _no_faster_than_the_link(context: Context, graph: Graph, keep: Keep, at: Ints) -> None:
    """Keep copies as long as their bytes take over the link."""
    at = at[at >= 0]
    least = link.least_ns(context, graph.work[at]) / np.maximum(graph.dur[at], 1)
    keep.dur[at] = np.maximum(keep.dur[at], np.minimum(least, 1.0))


def _beside(context: Context, graph: Graph, keep: Keep, others: Sequence[Claim]) -> Keep:
    """Leave what other findings own as it is, but for the host's time around launches: that is spread, whoever owns it.

    Long stretches that they own are no launches: who converts, prepares or scores samples there does so for each of them.
    """
    at = np.full(len(context.recording.work), -1, np.int64)
    at[graph.work] = np.arange(len(graph.work))
    for other in others:
        frame = FRAMES[other.rule.match.frame]
        works = at[_works(context, frame, other)]
        keep.dur[works[works >= 0]] = 1.0
        spans = _host_spans(context, frame, other)
        idle = frame is FRAMES["gaps"]
        _not_spread(context, graph, keep, _long(spans) if idle else spans, idle=idle)
    return keep


def _long(spans: Spans) -> Spans:
    long = spans.end - spans.start >= _LONG_NS
    return Spans(spans.start[long], spans.end[long])


def _not_spread(context: Context, graph: Graph, keep: Keep, spans: Spans, *, idle: bool) -> None:
    """Leave the host's time in some stretches as it is.

    Where they are *idle* ones of the device, only the end of what holds the host between two launches may lie in one: what the
    device's work hides of the same calculation or sleep is left as well.
    """
    if not len(spans.start):
        return
    spans = context.once(clock).spans(spans)
    begin = graph.start - np.maximum(graph.think, 0)
    inside = covered(spans, begin, graph.start)
    part = inside / np.maximum(graph.start - begin, 1)
    if idle:
        part = np.where(inside >= _LONG_NS, 1.0, part)
    keep.think += (1 - keep.think) * np.clip(part, 0.0, 1.0)
    part = covered(spans, graph.start, graph.end) / np.maximum(graph.length, 1)
    keep.call += (1 - keep.call) * np.clip(part, 0.0, 1.0)


def _host_spans(context: Context, frame: Frame, claim: Claim, *, hopeful: bool = False) -> Spans:
    """The stretches of the host's time that the fix shortens; of a thread that is stopped hopefully those between operators too."""
    if frame.shortens is not None:
        return frame.shortens(context, claim.rows)
    if frame.rows.work is not None:
        return EMPTY
    ledger = context.ledger
    idle = claim.segments[ledger.idle[claim.segments]]
    spans = union(ledger.start_ns[idle], ledger.end_ns[idle])
    if claim.rule.replay is not None and claim.rule.replay.late:
        # Stops behind work, or behind a wait for other ranks, cost nothing until that is gone.
        stops = context.once(stopped_anywhere) if hopeful else stopped(context)
        spans = union(np.append(spans.start, stops.start), np.append(spans.end, stops.end))
    return spans


def _spared(context: Context, frame: Frame, claim: Claim) -> Spans:
    """The stretches of the host's time that go with what the fix removes, whatever the device does meanwhile."""
    removed = claim.rule.replay is not None and claim.rule.replay.action == "remove"
    return frame.spares(context, claim.rows) if removed and frame.spares is not None else EMPTY


def _on_host(graph: Graph, keep: Keep, spans: Spans, share: float) -> None:
    begin = graph.start - np.maximum(graph.think, 0)
    length = np.maximum(graph.start - begin, 1)
    # What went with its launch already does not go twice.
    keep.think = np.minimum(keep.think, 1 - share * covered(spans, begin, graph.start) / length)
    call = np.maximum(graph.length, 1)
    inside = share * covered(spans, graph.start, graph.end) / call
    keep.call = np.minimum(keep.call, 1 - np.where(graph.kind == PLAIN, inside, 0.0))
    keep.free = np.maximum(keep.free, np.where(graph.kind == BATCH, inside, 0.0))
