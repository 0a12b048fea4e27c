"""Prices and the plan: each fix replayed alone and in company, so that no millisecond is promised twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.engine import ranking
from advisor.engine.acts import bundle
from advisor.engine.claims import Claim
from advisor.intervals import Ints, Spans, covered, union
from advisor.replay import pace, simulate
from advisor.replay.apart import apart
from advisor.replay.effect import Floats, Keep, behind_work, effect, held_by_the_link, reach, waiting
from advisor.replay.graph import PLAIN, Graph, build
from advisor.replay.measure import Measurement, bound_by, measure
from advisor.replay.steady import clock
from advisor.results.analysis import typical_ms
from advisor.timeline.context import Context
from advisor.timeline.unprofiled import unprofiled

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
"""Prior: recording stacks makes the host one and a half to three times as slow."""
_AT_LEAST = 0.78
"""Cautiously, where every call of Python was recorded: none of 18 programs on an H100 whose host set the pace was under 1.28
times as slow with it. Stacks of operators alone, which older versions write, slowed down what nobody measured."""


@dataclass(frozen=True)
class Rung:
    """One step of the plan, in ms: the step before and after it; ``bound_by`` is what holds the program back after it.

    ``before`` and ``high`` are by the hopeful assumptions, ``low_before`` and ``low`` by the cautious ones.
    """

    rule: str
    before: float
    low: float
    high: float
    bound_by: str
    low_before: float = 0.0
    also: tuple[str, ...] = ()
    """Other rules whose fix is the same change: their price is in it."""


@dataclass(frozen=True)
class Priced:
    """The ms that each fix returns, cautious and hopeful, beside the fixes that come before it, in their order; and the plan.

    ``after`` names, for a fix that returns nothing, those whose fixes leave nothing; none where it is so without them.
    ``host`` holds the ms of the host that go with each fix and that the GPU's work hides.
    """

    savings: dict[str, tuple[float, float]]
    plan: list[Rung]
    after: dict[str, tuple[str, ...]] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=dict)
    """The ms that this rank waits for others which a fix may make less late."""
    done_by: dict[str, str] = field(default_factory=dict)
    """Rules whose fix is that of another, with that; the saving of both is the other's."""
    parts: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Their part of that saving."""


class Bounds(NamedTuple):
    """The most ms that a fix can return: cautiously, and at all; ``exposed`` more once others have left the GPU less to do."""

    low: float
    high: float
    exposed: float = 0.0


def _returned(rung: Rung) -> tuple[float, float]:
    """Return the least and the most ms that a step of the plan returns.

    Behind fixes that return little it can return more than behind those that return all they can: then the least is that.
    """
    cautious, hopeful = rung.low_before - rung.low, rung.before - rung.high
    return min(cautious, hopeful), max(cautious, hopeful)


def _parted(rungs: Sequence[Rung], order: Sequence[Sequence[str]]) -> list[list[Rung]]:
    """Part the steps by the bundles of an order."""
    by_rule = {rung.rule: rung for rung in rungs}
    return [[by_rule[rule] for rule in rules] for rules in order]


def joined(bundles: Sequence[Sequence[Rung]], least_ms: float, spent: Mapping[str, tuple[str, ...]]) -> Priced:
    """Make a step of the plan of each bundle of fixes that are one change, in order; those under *least_ms* return nothing.

    *spent* names, for a fix that returned nothing when it was tried first, the fixes that were taken by then.
    """
    priced = Priced({}, [])
    for rungs in bundles:
        lead, last = rungs[0], rungs[-1]
        if lead.before - last.high < least_ms:
            for rung in rungs:
                taken = spent.get(rung.rule, ())
                priced.after[rung.rule] = tuple(step.rule for step in priced.plan if step.rule in taken)
            continue
        bound = next((rung.bound_by for rung in reversed(rungs) if rung.bound_by), "")
        also = tuple(rung.rule for rung in rungs[1:])
        step = replace(lead, low=last.low, high=last.high, bound_by=bound, also=also)
        priced.plan.append(step)
        priced.savings[lead.rule] = _returned(step)
        for rung in rungs[1:]:
            priced.done_by[rung.rule], priced.parts[rung.rule] = lead.rule, _returned(rung)
    return priced


class _World:
    """The recording with a host of some speed, and the fixes taken so far: hopefully and cautiously."""

    def __init__(self, replay: Replay, fixes: Sequence[Claim], host: float, *, cautious: bool = False) -> None:
        assert replay.graph is not None
        self.replay = replay
        self.base = base = replay.with_host(host)
        context, graph = replay.context, replay.graph
        others = [claim for claim in fixes if not ranking.is_batch(claim.rule)]
        self.cautious = {claim.rule.id: effect(context, graph, claim, hopeful=False, others=others) for claim in fixes}
        self.hopeful = self.cautious
        # A change of the code is one of all ranks; how much faster it makes the others, this one's recording does not say.
        self.everywhere = not cautious
        if not cautious:
            self.hopeful = {
                claim.rule.id: effect(context, graph, claim, hopeful=True, others=others) for claim in fixes
            }
        timeline, measured = replay.run(base)
        self._steps = [(timeline, replay.step_ns(measured), replay.step_ns(measured))]
        self._taken: list[str] = []
        self.high, self.low = base, base
        self._trials: dict[str, tuple[Keep, simulate.Timeline, float]] = {}

    @property
    def step_ns(self) -> float:
        """The step without any fix."""
        return self._steps[0][1]

    @property
    def timeline(self) -> simulate.Timeline:
        """The timeline with the fixes taken so far."""
        return self._steps[-1][0]

    def _try(self, rule: str) -> tuple[Keep, simulate.Timeline, float]:
        """Return the rest, the timeline and the step with one more fix; each is run once until a fix is taken."""
        if rule not in self._trials:
            keep = self.high.and_(self.hopeful[rule])
            timeline, measured = self.replay.run(keep, everywhere=self.everywhere)
            self._trials[rule] = keep, timeline, self.replay.step_ns(measured)
        return self._trials[rule]

    def gain(self, rule: str) -> float:
        """ns that a fix would return beside those that are taken."""
        return max(0.0, self._steps[-1][1] - self._try(rule)[2])

    def take(self, rule: str, *, cautiously: bool) -> tuple[float, float]:
        """Take a fix: the ns that it returns, cautiously (0 where that is not asked for) and hopefully."""
        _, at_high, at_low = self._steps[-1]
        self.high, timeline, step = self._try(rule)
        self._trials = {}
        low = at_low
        if cautiously:
            # With the cautious assumptions, beside those of the fixes taken so.
            self.low = self.low.and_(self.cautious[rule])
            low = min(at_low, self.replay.step_ns(self.replay.run(self.low)[1]))
        self._steps.append((timeline, min(at_high, step), low))
        self._taken.append(rule)
        return at_low - low, max(0.0, at_high - step)

    def back_to(self, count: int) -> None:
        """Keep the first *count* of the fixes taken."""
        self._steps, self._taken, self._trials = self._steps[: count + 1], self._taken[:count], {}
        self.high, self.low = self.base, self.base
        for rule in self._taken:
            self.high, self.low = self.high.and_(self.hopeful[rule]), self.low.and_(self.cautious[rule])


class _Queue:
    """The fixes that are not taken yet; the one that :mod:`advisor.engine.ranking` puts first beside those taken comes next.

    The first of *worlds* has the host as recorded; *careful* is one whose fixes are the cautious ones, and whose host is a
    little faster than recorded, or None. Times are in ms of the step: ns of the replay times *scale*.
    """

    def __init__(
        self,
        worlds: Sequence[_World],
        fixes: Sequence[Claim],
        most: Mapping[str, Bounds],
        whole_ms: float,
        *,
        scale: float,
        thorough: bool,
        careful: _World | None = None,
    ) -> None:
        self.worlds, self.most, self.careful = worlds, most, careful
        self.claims = {claim.rule.id: claim for claim in fixes}
        self.whole_ms, self.scale, self.thorough = whole_ms, scale, thorough
        self.left = list(self.claims)
        self.spent: dict[str, int] = {}
        """Fixes that return nothing, with the number of those taken when that was seen first."""
        self._returned: list[float] = []
        self._ms = {rule: bounds.high for rule, bounds in most.items()}  # at most

    def _most(self, rule: str) -> float:
        """The most ms that a fix can return beside those that are taken."""
        return self.most[rule].high + min(self.most[rule].exposed, sum(self._returned))

    def middle(self, rule: str, low: float, high: float) -> float:
        """Return the middle of a saving as a share of the steady step."""
        return (low + high) / 2 / self.whole_ms

    def _assumed(self, rule: str, high: float) -> ranking.Place:
        """Rank a fix that returns *high* hopefully, as if its cautious assumption returned as much less as it assumes."""
        replay = self.claims[rule].rule.replay
        part = replay.low / replay.high if replay is not None and replay.high else 1.0
        return ranking.place(self.claims[rule].rule, self.middle(rule, min(high * part, self.most[rule].low), high))

    def next(self, *, search: bool) -> str:
        """Choose the fix to take next; without *search* the one that was worth most when it was tried last."""
        best, best_place = "", ranking.FIRST
        self.left.sort()
        for rule in sorted(self.left, key=lambda rule: self._assumed(rule, self._ms[rule]), reverse=True):
            # In a graph of very many nodes a fix is taken to return no more beside others than it did before.
            most = self._assumed(rule, self._most(rule) if self.thorough else self._ms[rule])
            if best and (most <= best_place or not search):
                continue
            self._ms[rule] = self._gain(rule)
            place = self._assumed(rule, self._ms[rule])
            if self._ms[rule] < ranking.LEAST * self.whole_ms:
                self.spent.setdefault(rule, len(self._returned))
            else:
                self.spent.pop(rule, None)
            if place > best_place:
                best, best_place = rule, place
        self.left.remove(best)
        return best

    def with_same(self, rule: str) -> list[str]:
        """Take out the fixes that are the same change as one that comes next; the one that leads comes first."""
        acts = {other: self.claims[other].acts for other in (rule, *self.left)}
        together = bundle(rule, self.left, acts)
        self.left = [other for other in self.left if other not in together]
        return together

    def _gain(self, rule: str) -> float:
        """The ms that a fix would return, with the host that lets it return most."""
        gain, most = 0.0, self._most(rule)
        for world in self.worlds:
            if gain < most:  # else a faster host has nothing to add
                gain = min(max(gain, world.gain(rule) * self.scale), most)
        return gain

    def take(self, rule: str, left: float) -> tuple[float, float]:
        """Take a fix: the ms that it returns behind those that return little, and behind those that return all they can.

        Neither is more than *left*, nor than its bounds.
        """
        # Launches go with the work that they launch; but nothing is promised beyond what the rows own, or the basis says.
        gains = [world.take(rule, cautiously=at == 0) for at, world in enumerate(self.worlds)]
        scale = self.scale
        high = min(max(gain for _, gain in gains) * scale, self._most(rule), left)
        low = gains[0][0]
        if self.careful is not None:
            low = max(low, self.careful.take(rule, cautiously=False)[1])
        self._returned.append(high)
        return min(low * scale, self.most[rule].low, left), high

    def ranked(self, bundles: Sequence[Sequence[Rung]]) -> list[list[str]]:
        """Rank the changes by what they return in this order; of two that are worth about the same, the first stays first.

        What a fix returns only behind others is no reason to put it before them.
        """

        def worth(rung: Rung) -> float:
            low, high = _returned(rung)
            return self.middle(rung.rule, low, min(high, max(self.most[rung.rule].high, low)))

        places = [ranking.place(self.claims[one[0].rule].rule, sum(map(worth, one))) for one in bundles]
        rules = [[rung.rule for rung in one] for one in bundles]
        least = ranking.LEAST * self.whole_ms
        about = [place[:2] for place, one in zip(places, bundles, strict=True) if one[0].before - one[-1].high >= least]
        if about == sorted(about, reverse=True):
            return rules
        return [rules[at] for at in sorted(range(len(rules)), key=lambda at: places[at], reverse=True)]

    def back_to(self, count: int) -> None:
        """Keep the first *count* of the fixes taken."""
        self._returned = self._returned[:count]
        for world in (*self.worlds, *([self.careful] if self.careful is not None else [])):
            world.back_to(count)


class Replay:
    """A recording that can be run again. ``reason`` says why it cannot be trusted; empty where it can."""

    how = "the trace's own dependencies run again beside the fixes before it in the plan, without"

    def __init__(self, context: Context) -> None:
        self.context = context
        self.graph = build(context)
        self.reason = ""
        if self.graph is None:
            self.reason = "nothing was recorded that could be run again"
            return
        self.prepared = simulate.Prepared(self.graph)
        self.timeline = simulate.run(self.prepared)
        self.base = measure(context, self.graph, self.timeline)
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
        recording = self.context.recording
        if not recording.steps:
            return True
        lengths = self.context.ledger.step_ns(recording.step_count)
        median = float(np.median(lengths[recording.sampled]))
        return typical_ms(median, float(lengths[self.context.ledger.counted_steps()].mean())) == median

    def run(self, keep: Keep, *, everywhere: bool = False) -> tuple[simulate.Timeline, Measurement]:
        """The timeline with a change, and what it amounts to; *everywhere* as in :class:`~advisor.replay.simulate.Change`."""
        assert self.graph is not None
        timeline = simulate.run(self.prepared, replace(keep.change(self.graph), everywhere=everywhere))
        return timeline, measure(self.context, self.graph, timeline)

    def price(self, claims: Sequence[Claim], whole_ms: float) -> Priced:
        """Price the fixes and order them: the one that returns most, weighed by confidence, comes first, and so on.

        *whole_ms* is the step (or window) that shares are of, without the profiler where such steps were timed; replayed times
        are scaled to it. Where stacks slowed the host down, and no such step tells by how much, the hopeful price is that of
        the host as recorded or of a faster one, whichever returns more: behind a host that only the recording slows down,
        work on the GPU would look free.
        """
        if self.graph is None:
            return Priced({}, [])
        fixes, gone = apart(self.context, [c for c in claims if c.rule.replay is not None and len(c.segments)])
        queue = self._queue(fixes, whole_ms)
        order: list[list[str]] = []
        rungs: list[Rung] = []
        while queue.left:
            order.append(queue.with_same(queue.next(search=len(order) < _MOST_STEPS)))
            self._climb(queue, order[-1:], rungs, whole_ms)
        for _ in range(_ROUNDS):
            # What a fix returns beside others can put it before one that was chosen first: priced again from there on.
            ranked = queue.ranked(_parted(rungs, order))
            same = next((at for at, pair in enumerate(zip(order, ranked, strict=True)) if pair[0] != pair[1]), None)
            if same is None:
                break
            order, rungs = ranked, rungs[: sum(map(len, order[:same]))]
            queue.back_to(len(rungs))
            self._climb(queue, order[same:], rungs, whole_ms)
        rules = [rung.rule for rung in rungs]
        spent = {rule: tuple(rules[: queue.spent.get(rule, at)]) for at, rule in enumerate(rules)}
        priced = joined(_parted(rungs, order), ranking.LEAST * whole_ms, spent)
        host = {claim.rule.id: self.behind_ms(claim) for claim in fixes}
        late = {claim.rule.id: self.late_ms(claim) for claim in fixes}
        return replace(priced, after=priced.after | gone, host=host, late=late)

    def _queue(self, fixes: Sequence[Claim], whole_ms: float) -> _Queue:
        """The fixes, in a world for each speed that the host may have."""
        hosts, traced = self._hosts, "python" in self.context.tables
        worlds = [_World(self, fixes, host) for host in hosts]
        base = worlds[0].step_ns
        return _Queue(
            worlds,
            fixes,
            {claim.rule.id: self._bounds(claim, whole_ms) for claim in fixes},
            whole_ms,
            scale=whole_ms / base if base else 0.0,
            thorough=len(self.graph or ()) <= _LARGE,
            careful=_World(self, fixes, _AT_LEAST, cautious=True) if len(hosts) > 1 and traced else None,
        )

    def _climb(self, queue: _Queue, order: Sequence[Sequence[str]], rungs: list[Rung], whole_ms: float) -> None:
        """Take fixes in an order, and add their steps to *rungs*."""
        for rules in order:
            for rule in rules:
                rungs.append(self._rung(queue, rule, rungs, whole_ms))

    def _rung(self, queue: _Queue, rule: str, rungs: Sequence[Rung], whole_ms: float) -> Rung:
        """Take the next fix."""
        assert self.graph is not None
        before, low_before = (rungs[-1].high, rungs[-1].low) if rungs else (whole_ms, whole_ms)
        left = max(whole_ms - sum(_returned(rung)[1] for rung in rungs), 0.0)
        low, high = queue.take(rule, left)
        low = min(low, low_before - before + high)  # the cautious step is never the shorter one
        recorded = queue.worlds[0]
        bound = bound_by(self.context, self.graph, recorded.timeline, self._loader(recorded.high)) if high > 0 else ""
        return Rung(rule, before, low_before - low, before - high, bound, low_before)

    def _bounds(self, claim: Claim, whole_ms: float) -> Bounds:
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
        bare = self.context.once(unprofiled)
        if bare is not None:
            # Without the profiler the rows own, and the assumption finds, as much less.
            ms *= int(bare.dur_ns[claim.segments].sum()) / max(claim.cost_ns, 1)
        # What copies take over the link stays, and nothing waits for it only while other work, or the host, takes as long.
        beside = self.context.ledger.counted_ns - claim.cost_ns
        owned = (claim.cost_ns - max(held_by_the_link(self.context, claim) - beside, 0.0)) * ms
        if replay.action == "batch":
            return Bounds(owned * own, whole_ms)
        behind = self.behind_ms(claim)
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
        high = min(owned + late, high_part * (reached + late), pace.room_ns(self.context, claim) * ms)
        return Bounds(min(owned * own, low_part * reached * own, high), high, exposed)

    def late_ms(self, claim: Claim) -> float:
        """Return the ms a step that this rank waits for others, where the fix may make them less late."""
        return pace.late_ns(self.context, claim) * self.context.step_ns / 1e6 / max(self.context.ledger.counted_ns, 1)

    def behind_ms(self, claim: Claim) -> float:
        """Return the ms a step of the host that go with a fix, and that the GPU's work hides today."""
        assert self.graph is not None
        ms = self.context.step_ns / 1e6 / max(self.context.ledger.counted_ns, 1)
        host = self._hosts[0] if self.context.once(unprofiled) is not None else 1.0
        return behind_work(self.context, self.graph, claim) * ms * host

    def with_host(self, host: float) -> Keep:
        """The recording with a host that takes so much of its recorded time."""
        assert self.graph is not None
        base = Keep.all_of(self.graph)
        if host < 1:
            # The profiler slows Python and operators down, not the driver, nor what waits for data, a compiler or a collector.
            base.think *= host + (1 - host) * self.waiting
            base.call[self.graph.kind == PLAIN] *= host
        return base

    def timeline_with(self, claims: Sequence[Claim]) -> pd.DataFrame:
        """The device's work as it would run with the hopeful assumptions of all fixes."""
        import pandas as pd

        assert self.graph is not None
        keep = Keep.all_of(self.graph)
        for claim in claims:
            keep = keep.and_(effect(self.context, self.graph, claim, hopeful=True))
        replayed = self.run(keep, everywhere=True)[0]
        work, at = self.context.recording.work, self.graph.work
        columns = {
            "name": self.context.labels(work.name[at], self.context.names),
            "device": work.device[at],
            "stream": work.stream[at],
            "start_ns": replayed.begun,
            "dur_ns": replayed.ended - replayed.begun,
            "recorded_start_ns": work.start[at],
            "recorded_dur_ns": work.end[at] - work.start[at],
        }
        return pd.DataFrame(columns).sort_values("start_ns", kind="stable", ignore_index=True)

    @cached_property
    def _hosts(self) -> list[float]:
        """Speeds that the host may have, as shares of its recorded time; one alone where steps without the profiler tell it."""
        bare = self.context.once(unprofiled)
        if bare is not None:
            return [self._bare_host(bare.step_ns / self.context.step_ns)]
        slowed = self.context.recording.has_host and (
            "python" in self.context.tables or any(self.context.recording.recorded.stacks[:50])
        )
        return [1.0, _WITHOUT_STACKS] if slowed else [1.0]

    def _bare_host(self, share: float) -> float:
        """The speed with which the replayed step is that share of the recorded one, or as near as the device lets it be."""
        aim, low, high = share * self.step_ns(self.base), 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.step_ns(self.run(self.with_host(middle))[1]) < aim:
                low = middle
            else:
                high = middle
        return high

    def _loader(self, keep: Keep) -> Ints:
        """The loader's part of each think time that is left."""
        assert self.graph is not None
        waits = self.context.waits.loader
        spans = self.context.once(clock).spans(union(waits.start, waits.end))
        return np.rint(self._within(spans) * keep.think).astype(np.int64)

    @cached_property
    def waiting(self) -> Floats:
        """The part of each think time that is no Python and no operator, but waits, or the driver that allocates and frees."""
        assert self.graph is not None
        return waiting(self.context, self.graph, driver=True)

    def _within(self, spans: Spans) -> Ints:
        assert self.graph is not None
        begin = self.graph.start - np.maximum(self.graph.think, 0)
        return covered(spans, begin, self.graph.start)
