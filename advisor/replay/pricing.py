"""Prices and the plan: each fix replayed alone and in company, so that no millisecond is promised twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from advisor.engine import ranking
from advisor.engine.claims import Claim
from advisor.intervals import Ints, Spans, covered, union
from advisor.reading.machine import give_back, has_room_for_threads
from advisor.replay import pace, simulate
from advisor.replay.apart import apart
from advisor.replay.effect import (
    Floats,
    Keep,
    behind_earlier_work,
    behind_work,
    held_by_the_link,
    idle_of_others,
    reach,
    waiting,
)
from advisor.replay.graph import BATCH, PLAIN, Graph, build
from advisor.replay.measure import Measurement, bound_by, measure
from advisor.replay.queue import SUPPOSED, Queue, World, effects
from advisor.replay.rungs import Bounds, Priced, Rung, joined, parted, returned
from advisor.replay.steady import clock
from advisor.results.analysis import typical_ms
from advisor.threads import each
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.recorded_calls import MOST_NS
from advisor.timeline.unprofiled import Pace, unprofiled

if TYPE_CHECKING:
    import pandas as pd

LEAST_LINKED = 0.90
MOST_OFF = 0.05
MOST_RESIDUAL = 0.25
_MOST_STEPS = 12
_ROUNDS = 3
"""Times that an order is tried: one that does not settle stays as it is."""
_LARGE = 50_000
"""Nodes from which on trying every fix again beside each that is taken costs seconds."""
_HALVINGS = 6
"""Trials for the host's speed without the profiler: to a sixty-fourth."""
_WITHOUT_STACKS = 0.5
"""Prior: recording stacks makes the host one and a half to three times as slow, and recording without them 1.3 to 2.5 times."""
_AT_LEAST = 0.78
"""Cautiously, where every call of Python was recorded: none of 18 programs on an H100 whose host set the pace was under 1.28
times as slow with it. Stacks of operators alone, which older versions write, slowed down what nobody measured."""
_AHEAD = 0.2
"""Of a step, by which a host was ahead of the device before the recording and could not have been if it set the pace."""
_DEAREST_NS = 20_000
"""ns that writing down a call with its stack takes, at most: where more is needed to explain a step, something else slowed it."""
_NEAR = 0.03
"""Share of the step by which a replayed one may miss the one that it is to be as long as."""
_FILLED = 0.1
"""The same where the device fills the step: medians of a few steps differ by half of it, and a device that never waits runs slower
than the recorded one that did."""
_LEFT = 0.2
"""Share of a think time that is left of it however many calls were recorded in it."""


class Host(NamedTuple):
    """Rest of a recorded host: a share of its time, or its time less what recording each call took; how many times as long it
    takes to load batches itself, and the pace of workers who load them, where that is not the recorded one."""

    share: float = 1.0
    call_ns: float = 0.0
    loads: float = 1.0
    pace: Pace | None = None


class Replay:
    """A recording that can be run again. ``reason`` says why it cannot be trusted; empty where it can."""

    error = 0.0
    how = "the trace's own dependencies run again beside the fixes before it in the plan, without"

    def __init__(self, context: Context) -> None:
        self.context = context
        self.graph = build(context)
        events = context.recording.recorded.events
        give_back(events)
        self.beside = has_room_for_threads(events)
        """Two threads may try fixes."""
        self.reason = ""
        if self.graph is None:
            self.reason = "nothing was recorded that could be run again"
            return
        self.prepared = simulate.Prepared(self.graph)
        self.base = measure(context, self.graph, simulate.run(self.prepared))
        self.reason = self._distrust(self.graph)

    def _distrust(self, graph: Graph) -> str:
        recording = self.context.recording
        ledger = self.context.ledger
        if not self.context.idle_trusted:
            return "idle time cannot be explained in this recording"
        if graph.linked_share < LEAST_LINKED:
            return f"the launches of {100 * (1 - graph.linked_share):.0f} % of the GPU's time are not in the trace"
        if graph.residual_ns > MOST_RESIDUAL * ledger.counted_ns:
            held = 100 * graph.residual_ns / max(ledger.counted_ns, 1)
            return f"{held:.0f} % of the time is held by what the trace does not show"
        steady = ledger.step_ns(recording.step_count)
        recorded = float(np.median(steady[recording.sampled])) if recording.steps else float(ledger.counted_ns)
        off = (
            max(abs(self.base.step_ns / recorded - 1), abs(self.base.window_ns / max(ledger.counted_ns, 1) - 1))
            if recorded
            else 1.0
        )
        if off > MOST_OFF:
            return f"run again unchanged, it is {100 * off:.0f} % off the record"
        return ""

    # ---- what if

    def step_ns(self, measured: Measurement) -> float:
        """The step that is priced: the median, or the mean of all where the recorded ones differ."""
        return measured.step_ns if self._even else measured.mean_ns

    @cached_property
    def _even(self) -> bool:
        recording, bare = self.context.recording, self.context.once(unprofiled)
        if not recording.steps:
            return True
        if bare is not None and bare.pace is not None:
            return False  # waits for workers come in some steps, for the batches of several
        lengths = self.context.ledger.step_ns(recording.step_count)
        median = float(np.median(lengths[recording.sampled]))
        return typical_ms(median, float(lengths[self.context.ledger.counted_steps()].mean())) == median

    def run(self, keep: Keep, *, everywhere: bool = False) -> tuple[simulate.Timeline, Measurement]:
        """The timeline with a change, and what it amounts to; *everywhere* as in :class:`~advisor.replay.simulate.Change`."""
        assert self.graph is not None
        timeline = simulate.run(self.prepared, replace(keep.change(self.graph), everywhere=everywhere))
        return timeline, measure(self.context, self.graph, timeline)

    def price(self, claims: Sequence[Claim], whole_ms: float, *, beside: Sequence[Claim] = ()) -> Priced:
        """Price the fixes and order them: the one that returns most, weighed by confidence, comes first, and so on.

        *beside* are findings whose fixes are not asked for: a larger batch does not spread the host's long stretches there.

        *whole_ms* is the step (or window) that shares are of, without the profiler where such steps were timed; replayed times
        are scaled to it. Where stacks slowed the host down, and no such step tells by how much, the hopeful price is that of
        the host as recorded or of a faster one, whichever returns more: behind a host that only the recording slows down,
        work on the GPU would look free.
        """
        if self.graph is None:
            return Priced({}, [])
        fixes, gone = apart(self.context, [c for c in claims if c.has_price])
        queue = self._queue(fixes, whole_ms, beside)
        give_back(self.context.recording.recorded.events)
        order: list[list[str]] = []
        rungs: list[Rung] = []
        while queue.left:
            order.append(queue.with_same(queue.next(search=len(order) < _MOST_STEPS)))
            self._climb(queue, order[-1:], rungs, whole_ms)
            give_back(self.context.recording.recorded.events)
        for _ in range(_ROUNDS):
            # What a fix returns beside others can put it before one that was chosen first: priced again from there on.
            ranked = queue.ranked(parted(rungs, order))
            same = next((at for at, pair in enumerate(zip(order, ranked, strict=True)) if pair[0] != pair[1]), None)
            if same is None:
                break
            order, rungs = ranked, rungs[: sum(map(len, order[:same]))]
            queue.back_to(len(rungs))
            self._climb(queue, order[same:], rungs, whole_ms)
        rules = [rung.rule for rung in rungs]

        def alone(change: Sequence[str]) -> tuple[float, float] | None:
            unasked = not queue.thorough or ranking.is_batch(queue.claims[change[0]].rule)
            return None if unasked else queue.alone(change)

        spent = {rule: tuple(rules[: queue.spent.get(rule, at)]) for at, rule in enumerate(rules)}
        least, little = ranking.HARDLY * whole_ms, ranking.LITTLE * whole_ms
        copies = {claim.rule.id for claim in fixes if claim.rule.match.frame == "copies"}
        priced = joined(parted(rungs, order), least, spent, little_ms=little, alone=alone, copies=copies)
        behind = each(
            [partial(self.behind_ms, claim, [other for other in fixes if other is not claim]) for claim in fixes],
            beside=self.beside,
        )
        host = dict(zip((claim.rule.id for claim in fixes), behind, strict=True))
        late = {claim.rule.id: self.late_ms(claim) for claim in fixes}
        return replace(
            priced, after=priced.after | gone, host=host, late=late, alone_recorded=_faster_alone(queue, priced)
        )

    def _queue(self, fixes: Sequence[Claim], whole_ms: float, beside: Sequence[Claim]) -> Queue:
        """The fixes, in a world for each speed that the host may have."""
        hosts, traced = self._hosts, "python" in self.context.tables
        bare = self.context.once(unprofiled) is not None
        found = effects(self, fixes, beside)
        careful = [Host(_AT_LEAST)] if traced and not bare else []
        worlds = each(
            [
                *(partial(World, self, found, host) for host in [*hosts, *self._supposed]),
                *(partial(World, self, found, host, cautious=True) for host in careful),
            ],
            beside=self.beside,
        )
        last = worlds.pop() if careful else None
        bounds = each(
            [partial(self._bounds, claim, whole_ms, [c for c in fixes if c is not claim]) for claim in fixes],
            beside=self.beside,
        )
        base = worlds[0].step_ns
        return Queue(
            worlds,
            fixes,
            dict(zip((claim.rule.id for claim in fixes), bounds, strict=True)),
            whole_ms,
            scale=whole_ms / base if base else 0.0,
            thorough=len(self.graph or ()) <= _LARGE,
            careful=last,
            alike=len(hosts) if bare else self._alike,
            told=len(hosts) if bare else 1,
            sure=len(hosts) if bare else sum(not host.call_ns for host in hosts),
            beside=self.beside,
        )

    def _climb(self, queue: Queue, order: Sequence[Sequence[str]], rungs: list[Rung], whole_ms: float) -> None:
        """Take fixes in an order, and add their steps to *rungs*."""
        for rules in order:
            for rule in rules:
                rungs.append(self._rung(queue, rule, rungs, whole_ms))

    def _rung(self, queue: Queue, rule: str, rungs: Sequence[Rung], whole_ms: float) -> Rung:
        """Take the next fix."""
        assert self.graph is not None
        before, low_before = (rungs[-1].high, rungs[-1].low) if rungs else (whole_ms, whole_ms)
        left = max(whole_ms - sum(returned(rung)[1] for rung in rungs), 0.0)
        taken = queue.take(rule, before, left)
        high = taken.shorter_high
        low = min(taken.shorter_low, low_before - before + high)  # the cautious step is never the shorter one
        recorded = queue.worlds[0]
        bound = (
            bound_by(self.context, self.graph, recorded.timeline(), self._loader(recorded.high))
            if taken.high > 0
            else ""
        )
        return Rung(
            rule,
            before,
            low_before - low,
            before - high,
            bound,
            low_before,
            queue.recorded.get(rule),
            worth=(min(taken.low, low_before - before + taken.high), taken.high),
        )

    def _bounds(self, claim: Claim, whole_ms: float, others: Sequence[Claim]) -> Bounds:
        """The most that a fix can return, in ms: neither more than its rows own, nor than the part of their time that it assumes.

        Communication hides behind computation, as far as there is some; and of its own work a rank that waits for others gains
        cautiously what lies before collectives into which it came last. A larger batch is worth more than the gaps that show the
        room for it, but not for sure.
        """
        replay = claim.rule.replay
        assert replay is not None
        assert self.graph is not None
        ms = self.context.step_ns / 1e6 / max(self.context.ledger.counted_ns, 1)
        own = pace.own(self.context, claim)
        less, most = self._without_profiler(claim)
        # What copies take over the link stays, and nothing waits for it only while other work, or the host, takes as long.
        beside = self.context.ledger.counted_ns - claim.cost_ns
        owned = (claim.cost_ns - max(held_by_the_link(self.context, claim) - beside, 0.0)) * ms
        if replay.action == "batch":
            return Bounds(owned * less * own, whole_ms)
        behind = self.behind_ms(claim, others)
        low_part, high_part = replay.low * claim.returns[0], replay.high * claim.returns[1]
        exposed = 0.0
        if replay.action == "capture":
            # All of the launches go, but the GPU waits for those behind its work only as far as other fixes shorten that.
            behind, exposed = 0.0, high_part * behind
        owned += behind
        reached = max(
            reach(self.context, self.graph, claim) * ms + (behind if replay.action != "unblock" else 0.0), owned
        )
        late = self.late_ms(claim)
        high = min(most * owned + late, high_part * (most * reached + late), pace.room_ns(self.context, claim) * ms)
        idle = idle_of_others(self.context, self.graph, claim, others) * ms
        alone = (less * low_part * idle * own, most * high_part * idle)
        return Bounds(min(less * owned * own, less * low_part * reached * own, high), high, less * exposed, alone)

    def _without_profiler(self, claim: Claim) -> tuple[float, float]:
        """Return the parts of what rows own that are left without the profiler, throughout and at most; 1 where nothing tells.

        Stretches with few recorded calls keep most of their time where the profiler slows down by the call.
        """
        bare = self.context.once(unprofiled)
        if bare is None:
            return 1.0, 1.0
        cost_ns, at = max(claim.cost_ns, 1), claim.segments
        throughout = int(bare.dur_ns[at].sum()) / cost_ns
        by_call = next((host.call_ns for host in self._hosts if host.call_ns), 0.0)
        if not by_call:
            return throughout, throughout
        ledger = self.context.ledger
        idle = at[ledger.idle[at]]
        calls = np.searchsorted(self._begun, ledger.end_ns[idle]) - np.searchsorted(self._begun, ledger.start_ns[idle])
        taken = np.minimum(calls * by_call, (1 - _LEFT) * ledger.dur_ns[idle]).sum()
        one_by_one = 1 - float(taken) / cost_ns
        return throughout, max(throughout, one_by_one)

    def late_ms(self, claim: Claim) -> float:
        """Return the ms a step that this rank waits for others, where the fix may make them less late."""
        return pace.late_ns(self.context, claim) * self.context.step_ns / 1e6 / max(self.context.ledger.counted_ns, 1)

    def behind_ms(self, claim: Claim, others: Sequence[Claim]) -> float:
        """Return the ms a step of the host that go with a fix, and that the GPU's work hides today.

        *others* are the findings whose fixes are taken as well.
        """
        assert self.graph is not None
        ms = self.context.step_ns / 1e6 / max(self.context.ledger.counted_ns, 1)
        host = self._hosts[0].share if self.context.once(unprofiled) is not None else 1.0
        earlier = behind_earlier_work(self.context, self.graph, claim, others)
        return (behind_work(self.context, self.graph, claim) + earlier) * ms * host

    def with_host(self, host: Host) -> Keep:
        """The recording with another host. The profiler slows Python and operators down, not what :attr:`waiting` says."""
        assert self.graph is not None
        base = Keep.all_of(self.graph)
        if host.share < 1:
            base.think *= host.share + (1 - host.share) * self.waiting
            base.call[self.graph.kind == PLAIN] *= host.share
        if host.call_ns:
            think = np.maximum(self.graph.think, 1)
            free = (1 - _LEFT) * (1 - self.waiting) * think
            base.think *= 1 - np.minimum(self._calls * host.call_ns, free) / think
        if host.loads != 1:
            base.think += (host.loads - 1) * self._loading
        base.pace = host.pace
        return base.narrow()

    def timeline_with(self, claims: Sequence[Claim], *, beside: Sequence[Claim] = ()) -> pd.DataFrame:
        """The device's work as it would run with the hopeful assumptions of all fixes; *beside* as in :meth:`price`."""
        import pandas as pd

        assert self.graph is not None
        keep = Keep.all_of(self.graph)
        for rest in effects(self, claims, beside).hopeful.values():
            keep = keep.and_(rest)
        replayed = self.run(keep, everywhere=True)[0]
        work, at = self.context.recording.work, self.graph.work
        columns = {
            "name": self.context.labels(work.name[at], self.context.names).pandas(),
            "device": work.device[at],
            "stream": work.stream[at],
            "start_ns": replayed.begun,
            "dur_ns": replayed.ended - replayed.begun,
            "recorded_start_ns": work.start[at],
            "recorded_dur_ns": work.end[at] - work.start[at],
        }
        return pd.DataFrame(columns).sort_values("start_ns", kind="stable", ignore_index=True)

    @cached_property
    def _hosts(self) -> list[Host]:
        """Hosts that the program may have without the profiler; the first is the recorded one where no step tells of another.

        Where steps without the profiler were timed, each makes the replayed step as long as theirs: one is faster throughout,
        in the other each recorded call takes less.
        """
        bare = self.context.once(unprofiled)
        if bare is not None:
            paced = bare.pace is not None
            loads = Host(loads=1.0 if paced else bare.loader, pace=bare.pace)
            aim = (bare.fed_ns if paced else bare.step_ns) / self.context.step_ns * self.step_ns(self.base)
            hosts = [self._matched(aim, lambda part: loads._replace(share=part))]
            if len(self.graph or ()) <= _LARGE:
                by_call = self._matched(aim, lambda part: loads._replace(call_ns=(1 - part) * _DEAREST_NS))
                if self._fed_ns(by_call) <= aim * (1 + _NEAR):
                    hosts.append(by_call)
            return hosts
        hosts = [Host()]
        if not self.context.recording.has_host:
            return hosts
        if "python" in self.context.tables or any(self.context.recording.recorded.stacks[:50]):
            hosts.append(Host(share=_WITHOUT_STACKS))
        if len(self.graph or ()) <= _LARGE:
            hosts.append(Host(call_ns=MOST_NS))
        return hosts

    @property
    def _alike(self) -> int:
        """Number of hosts that the program may have had: where it was far ahead of the device as the recording began, the recorder
        of stacks took that lead from it, and the cautious figures hold with a faster host, too."""
        ledger = self.context.ledger
        ahead_ns = int(ledger.dur_ns[ledger.through("before")].sum())
        slowed = len(self._hosts) > 1 and self._hosts[1].share < 1
        return 2 if slowed and ahead_ns >= _AHEAD * self.context.step_ns else 1

    @cached_property
    def _supposed(self) -> list[Host]:
        """A host faster than the one that steps without the profiler tell of: where the device fills these, they rule none out."""
        bare = self.context.once(unprofiled)
        if bare is None or bare.pace is not None or self._hosts[0].share <= _WITHOUT_STACKS:
            return []
        faster = self._hosts[0]._replace(share=_WITHOUT_STACKS)
        aim = bare.step_ns / self.context.step_ns * self.step_ns(self.base)
        fills = self.step_ns(self.run(self.with_host(faster))[1]) >= aim * (1 - _FILLED)
        return [faster] if fills else []

    def _matched(self, aim: float, host_of: Callable[[float], Host]) -> Host:
        """The slowest host, from 0 to 1, with which the replayed step is as short as that, or as near as the device lets it be."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._fed_ns(host_of(middle)) < aim:
                low = middle
            else:
                high = middle
        return host_of(high)

    def _fed_ns(self, host: Host) -> float:
        """Return the replayed step with a host; where workers have a pace of their own, with batches that are there when asked."""
        assert self.graph is not None
        keep = self.with_host(host)
        if host.pace is not None:
            keep = replace(keep, free=np.where(self.graph.kind == BATCH, 1.0, 0.0))
        return self.step_ns(self.run(keep)[1])

    @cached_property
    def _begun(self) -> Ints:
        """Starts of the operators and calls that were recorded, in order."""
        host = self.context.recording.host
        return np.sort(host.start[(host.group == OP) | (host.group == RUNTIME)])

    @cached_property
    def _calls(self) -> Ints:
        """Operators and calls that were recorded in each think time."""
        assert self.graph is not None
        begun = np.sort(self.context.once(clock).at(self._begun))
        begin = self.graph.start - np.maximum(self.graph.think, 0)
        calls: Ints = np.searchsorted(begun, self.graph.start, "right") - np.searchsorted(begun, begin, "right")
        return calls

    def _loader(self, keep: Keep) -> Ints:
        """The loader's part of each think time that is left."""
        assert self.graph is not None
        return np.rint(self._loading * np.maximum(self.graph.think, 0) * keep.think).astype(np.int64)

    @cached_property
    def _loading(self) -> Floats:
        """The part of each think time that waits for a batch."""
        assert self.graph is not None
        waits = self.context.waits.loader
        spans = self.context.once(clock).spans(union(waits.start, waits.end))
        return np.clip(self._within(spans) / np.maximum(self.graph.think, 1), 0.0, 1.0)

    @cached_property
    def waiting(self) -> Floats:
        """The part of each think time that is no Python and no operator, but waits, or the driver that allocates and frees."""
        assert self.graph is not None
        return waiting(self.context, self.graph, driver=True)

    def _within(self, spans: Spans) -> Ints:
        assert self.graph is not None
        begin = self.graph.start - np.maximum(self.graph.think, 0)
        return covered(spans, begin, self.graph.start)


def _faster_alone(queue: Queue, priced: Priced) -> dict[str, float]:
    """Return the ms that changes return alone with the host as recorded, of those that return more with a faster one."""
    steps = [step for step in priced.plan if step.rule in priced.alone]
    found = {step.rule: queue.alone_as_recorded([step.rule, *step.also]) for step in steps}
    return {rule: ms for rule, ms in found.items() if priced.alone[rule][1] - ms > SUPPOSED * queue.whole_ms}
