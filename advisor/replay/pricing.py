"""Prices and the plan: each fix replayed alone and in company, so that no millisecond is promised twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from advisor.engine.claims import Claim
from advisor.intervals import Ints, Spans, covered, union
from advisor.replay import simulate
from advisor.replay.effect import Floats, Keep, effect, waiting
from advisor.replay.graph import PLAIN, Graph, build
from advisor.replay.measure import Measurement, bound_by, measure
from advisor.replay.steady import clock
from advisor.results.analysis import typical_ms
from advisor.rulebook.rule import CONFIDENCES
from advisor.timeline.context import Context

if TYPE_CHECKING:
    import pandas as pd

LEAST_LINKED = 0.90
MOST_OFF = 0.05
MOST_RESIDUAL = 0.25
_MOST_STEPS = 12
_LARGE = 50_000
"""Nodes from which on trying every fix again beside each that is taken costs seconds."""
_WITHOUT_STACKS = 0.5
"""Prior: recording stacks makes the host one and a half to three times as slow."""


@dataclass(frozen=True)
class Rung:
    """One step of the plan, in ms; ``bound_by`` is what holds the program back after it."""

    rule: str
    before: float
    low: float
    high: float
    bound_by: str


@dataclass(frozen=True)
class Priced:
    """The ms that each fix returns, cautious and hopeful, beside the fixes that come before it; and the plan."""

    savings: dict[str, tuple[float, float]]
    plan: list[Rung]


class _World:
    """The recording with a host of some speed, and the fixes taken so far: hopefully and cautiously."""

    def __init__(self, replay: Replay, fixes: Sequence[Claim], host: float) -> None:
        assert replay.graph is not None
        self.replay = replay
        base = Keep.all_of(replay.graph)
        if host < 1:
            # Stacks slow Python and operators down, not what waits for data, for a compiler or for a collector.
            base.think *= host + (1 - host) * replay.waiting
            base.call[replay.graph.kind == PLAIN] *= host
        self.high, self.low = base, base
        self.timeline, measured = replay.run(base)
        self.at_high = self.at_low = replay.step_ns(measured)
        context, graph = replay.context, replay.graph
        self.hopeful = {claim.rule.id: effect(context, graph, claim, hopeful=True) for claim in fixes}
        self.cautious = {claim.rule.id: effect(context, graph, claim, hopeful=False) for claim in fixes}
        self._trials: dict[str, tuple[Keep, simulate.Timeline, float]] = {}

    def _try(self, rule: str) -> tuple[Keep, simulate.Timeline, float]:
        """Return the rest, the timeline and the step with one more fix; each is run once until a fix is taken."""
        if rule not in self._trials:
            keep = self.high.and_(self.hopeful[rule])
            timeline, measured = self.replay.run(keep)
            self._trials[rule] = keep, timeline, self.replay.step_ns(measured)
        return self._trials[rule]

    def gain(self, rule: str) -> float:
        """ns that a fix would return beside those that are taken."""
        return max(0.0, self.at_high - self._try(rule)[2])

    def take(self, rule: str) -> float:
        """Take a fix: the ns that it returns, hopefully."""
        self.high, self.timeline, step = self._try(rule)
        self._trials = {}
        gain = max(0.0, self.at_high - step)
        self.at_high = min(self.at_high, step)
        return gain

    def take_cautiously(self, rule: str) -> float:
        """The same with the cautious assumptions, beside those of the fixes taken so."""
        self.low = self.low.and_(self.cautious[rule])
        step = self.replay.step_ns(self.replay.run(self.low)[1])
        gain = max(0.0, self.at_low - step)
        self.at_low = min(self.at_low, step)
        return gain


class _Queue:
    """The fixes that are not taken yet; the one that returns most beside those taken, weighed by confidence, comes next.

    The first of *worlds* has the host as recorded. Times are in ms of the step: ns of the replay times *scale*.
    """

    def __init__(
        self,
        worlds: Sequence[_World],
        owned: Mapping[str, float],
        confidence: Mapping[str, float],
        *,
        scale: float,
        thorough: bool,
    ) -> None:
        self.worlds, self.owned, self.confidence = worlds, owned, confidence
        self.scale, self.thorough = scale, thorough
        self.left = list(owned)
        self._worth = {rule: owned[rule] * confidence[rule] for rule in owned}  # at most

    def next(self, *, search: bool) -> str:
        """Choose the fix to take next; without *search* the one that was worth most when it was tried last."""
        best, best_worth = "", -1.0
        for rule in sorted(self.left, key=lambda rule: (-self._worth[rule], rule)):
            # In a graph of very many nodes a fix is taken to return no more beside others than it did before.
            most = self.owned[rule] * self.confidence[rule] if self.thorough else self._worth[rule]
            if best and (most <= best_worth or not search):
                continue
            self._worth[rule] = self._gain(rule) * self.confidence[rule]
            if self._worth[rule] > best_worth:
                best, best_worth = rule, self._worth[rule]
        self.left.remove(best)
        return best

    def _gain(self, rule: str) -> float:
        """The ms that a fix would return, with the host that lets it return most."""
        gain = 0.0
        for world in self.worlds:
            if gain < self.owned[rule]:  # else a faster host has nothing to add
                gain = min(max(gain, world.gain(rule) * self.scale), self.owned[rule])
        return gain

    def take(self, rule: str, most: float) -> tuple[float, float]:
        """Take a fix: the ms that it returns, cautiously and hopefully, never more than *most* nor than its rows own."""
        # Launches go with the work that they launch; but nothing is promised beyond what the rows own.
        high = min(max([world.take(rule) for world in self.worlds]) * self.scale, self.owned[rule], most)
        return min(self.worlds[0].take_cautiously(rule) * self.scale, high), high


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
        return typical_ms(median, float(lengths.mean())) == median

    def run(self, keep: Keep) -> tuple[simulate.Timeline, Measurement]:
        """The timeline with a change, and what it amounts to."""
        assert self.graph is not None
        timeline = simulate.run(self.prepared, keep.change(self.graph))
        return timeline, measure(self.context, self.graph, timeline)

    def price(self, claims: Sequence[Claim], whole_ms: float) -> Priced:
        """Price the fixes and order them: the one that returns most, weighed by confidence, comes first, and so on.

        *whole_ms* is the step (or window) that shares are of; replayed times are scaled to it. Where stacks slowed the host
        down, the hopeful price is that of the host as recorded or of a faster one, whichever returns more: behind a host
        that only the recording slows down, work on the GPU would look free.
        """
        if self.graph is None:
            return Priced({}, [])
        fixes = [claim for claim in claims if claim.rule.replay is not None and len(claim.segments)]
        base = self.step_ns(self.base)
        queue = _Queue(
            [_World(self, fixes, host) for host in self._hosts()],
            self._owned_ms(fixes, whole_ms),
            {claim.rule.id: CONFIDENCES[claim.rule.confidence] for claim in fixes},
            scale=whole_ms / base if base else 0.0,
            thorough=len(self.graph) <= _LARGE,
        )
        savings: dict[str, tuple[float, float]] = {}
        plan: list[Rung] = []
        high_ms = low_ms = whole_ms
        while queue.left:
            rule = queue.next(search=len(savings) < _MOST_STEPS)
            low, high = savings[rule] = queue.take(rule, high_ms)
            if high > 0:
                recorded = queue.worlds[0]
                bound = bound_by(self.context, self.graph, recorded.timeline, self._loader(recorded.high))
                plan.append(Rung(rule, high_ms, low_ms - low, high_ms - high, bound))
            high_ms, low_ms = high_ms - high, low_ms - low
        return Priced(savings, plan)

    def _owned_ms(self, fixes: Sequence[Claim], whole_ms: float) -> dict[str, float]:
        """The most that each fix can return: the ms that its rows own.

        A larger batch is worth more than the gaps that show the room for it.
        """
        counted = max(self.context.ledger.counted_ns, 1)
        return {
            claim.rule.id: whole_ms
            if claim.rule.replay and claim.rule.replay.action == "batch"
            else claim.cost_ns / counted * whole_ms
            for claim in fixes
        }

    def timeline_with(self, claims: Sequence[Claim]) -> pd.DataFrame:
        """The device's work as it would run with the hopeful assumptions of all fixes."""
        import pandas as pd

        assert self.graph is not None
        keep = Keep.all_of(self.graph)
        for claim in claims:
            keep = keep.and_(effect(self.context, self.graph, claim, hopeful=True))
        replayed = self.run(keep)[0]
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

    def _hosts(self) -> list[float]:
        """Speeds that the host may have, as shares of its recorded time."""
        slowed = self.context.recording.has_host and (
            "python" in self.context.tables or any(self.context.recording.recorded.stacks[:50])
        )
        return [1.0, _WITHOUT_STACKS] if slowed else [1.0]

    def _loader(self, keep: Keep) -> Ints:
        """The loader's part of each think time that is left."""
        assert self.graph is not None
        waits = self.context.waits.loader
        spans = self.context.once(clock).spans(union(waits.start, waits.end))
        return np.rint(self._within(spans) * keep.think).astype(np.int64)

    @cached_property
    def waiting(self) -> Floats:
        """The part of each think time that is no Python and no operator."""
        assert self.graph is not None
        return waiting(self.context, self.graph)

    def _within(self, spans: Spans) -> Ints:
        assert self.graph is not None
        begin = self.graph.start - np.maximum(self.graph.think, 0)
        return covered(spans, begin, self.graph.start)
