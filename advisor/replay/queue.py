"""Order of fixes: each is tried beside those taken before it, with every speed that the host may have, and the best is next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from advisor.engine import ranking
from advisor.engine.acts import bundle
from advisor.engine.claims import Claim
from advisor.replay import pace, simulate
from advisor.replay.effect import Keep, effect
from advisor.replay.rungs import Bounds, Rung, returned
from advisor.threads import each

if TYPE_CHECKING:
    from advisor.replay.pricing import Host, Replay


SUPPOSED = 0.005
"""Share of the step by which a faster host has to return more, to be said."""


class Effects(NamedTuple):
    """Rest that each fix leaves, by its rule: cautiously and hopefully. It is the same with a host of any speed."""

    cautious: dict[str, Keep]
    hopeful: dict[str, Keep]


def effects(replay: Replay, fixes: Sequence[Claim], beside: Sequence[Claim] = ()) -> Effects:
    """Work out what each fix leaves; *beside* are findings whose fixes are not asked for.

    One that may change nothing for the job leaves all as it is, cautiously: others behind it cannot count on it.
    """
    assert replay.graph is not None
    context, graph = replay.context, replay.graph
    others = [claim for claim in fixes if not ranking.is_batch(claim.rule)]
    beside = [claim for claim in beside if not ranking.is_batch(claim.rule)]
    calls = [
        partial(effect, context, graph, claim, hopeful=hopeful, others=others, beside=beside)
        for hopeful in (False, True)
        for claim in fixes
    ]
    rests, rules = each(calls, beside=replay.beside), [claim.rule.id for claim in fixes]
    rests[: len(fixes)] = [
        Keep.all_of(graph) if pace.unsure(context, claim) else rest
        for claim, rest in zip(fixes, rests[: len(fixes)], strict=True)
    ]
    return Effects(*(dict(zip(rules, part, strict=True)) for part in (rests[: len(fixes)], rests[len(fixes) :])))


class World:
    """The recording with a host of some speed, and the fixes taken so far: hopefully and cautiously."""

    def __init__(self, replay: Replay, found: Effects, host: Host, *, cautious: bool = False) -> None:
        self.replay = replay
        self.base = base = replay.with_host(host)
        self.cautious = found.cautious
        self.hopeful = found.cautious if cautious else found.hopeful
        # A change of the code is one of all ranks; how much faster it makes the others, this one's recording does not say.
        self.everywhere = not cautious
        step = replay.step_ns(replay.run(base)[1])
        self._steps = [(step, step)]
        self._taken: list[str] = []
        self.high, self.low = base, base
        self._known: dict[tuple[bool, tuple[str, ...]], float] = {}
        """The step with fixes that were run, cautiously or not, in the order in which one was added to the other."""

    @property
    def step_ns(self) -> float:
        """The step without any fix."""
        return self._steps[0][0]

    @property
    def shortest_ns(self) -> float:
        """The step with the fixes taken so far, hopefully."""
        return self._steps[-1][0]

    @property
    def returned_ns(self) -> float:
        """ns that the fixes taken so far return together, hopefully."""
        return self.step_ns - self.shortest_ns

    def timeline(self) -> simulate.Timeline:
        """Run the fixes taken so far again: a timeline of each trial would take more room than all else of a large trace."""
        return self.replay.run(self.high, everywhere=self.everywhere)[0]

    @property
    def taken(self) -> Sequence[str]:
        """The fixes taken so far."""
        return self._taken

    def _step(self, before: Keep, rules: tuple[str, ...], *, cautiously: bool = False) -> float:
        """Return the step with some fixes, of which the last is not in what those *before* leave; the same ones are run once."""
        asked = (cautiously, rules)
        if asked not in self._known:
            keep = before.and_((self.cautious if cautiously else self.hopeful)[rules[-1]])
            measured = self.replay.run(keep, everywhere=self.everywhere and not cautiously)[1]
            self._known[asked] = self.replay.step_ns(measured)
        return self._known[asked]

    def _try(self, rule: str) -> float:
        """Return the step with one more fix."""
        return self._step(self.high, (*self._taken, rule))

    def alone(self, *rules: str, cautiously: bool = False) -> float:
        """ns that fixes would return together if no other were taken."""
        before = self.base
        for rule in rules[:-1]:
            before = before.and_((self.cautious if cautiously else self.hopeful)[rule])
        return max(0.0, self.step_ns - self._step(before, rules, cautiously=cautiously))

    def gain(self, rule: str) -> float:
        """ns that a fix would return beside those that are taken."""
        return max(0.0, self.shortest_ns - self._try(rule))

    def take(self, rule: str, *, cautiously: bool) -> tuple[float, float]:
        """Take a fix: the ns that it returns, cautiously (0 where that is not asked for) and hopefully."""
        at_high, at_low = self._steps[-1]
        step = self._try(rule)
        self.high = self.high.and_(self.hopeful[rule])
        low = at_low
        if cautiously:
            # With the cautious assumptions, beside those of the fixes taken so.
            low = min(at_low, self._step(self.low, (*self._taken, rule), cautiously=True))
            self.low = self.low.and_(self.cautious[rule])
        self._steps.append((min(at_high, step), low))
        self._taken.append(rule)
        return at_low - low, max(0.0, at_high - step)

    def back_to(self, count: int) -> None:
        """Keep the first *count* of the fixes taken."""
        self._steps, self._taken = self._steps[: count + 1], self._taken[:count]
        self.high, self.low = self.base, self.base
        for rule in self._taken:
            self.high, self.low = self.high.and_(self.hopeful[rule]), self.low.and_(self.cautious[rule])


class Taken(NamedTuple):
    """The ms that a fix returns beside those before it, cautiously and hopefully; and that it takes off the step of the plan."""

    low: float
    high: float
    shorter_low: float
    shorter_high: float


class Queue:
    """The fixes that are not taken yet; the one that :mod:`advisor.engine.ranking` puts first beside those taken comes next.

    The first *alike* of *worlds* have the host as recorded, or as steps without the profiler tell, or one that it may have been:
    the cautious figure is that of the one that returns least. The first *told* are what was recorded. Hosts behind the first
    *sure* are only supposed: they make more of what returns something for sure. *careful* is one whose fixes are the cautious
    ones, and whose host is a little faster than recorded, or None. *beside*: two worlds may run at the same time.
    Times are in ms of the step: ns of the replay times *scale*.

    A fix by itself is worth what it returns in the world that lets it return most. Together fixes return no more than in one
    world: a program has one host, and what faster kernels return beside a host that nothing slows, launches do not return again
    beside the recorded one.
    """

    def __init__(
        self,
        worlds: Sequence[World],
        fixes: Sequence[Claim],
        most: Mapping[str, Bounds],
        whole_ms: float,
        *,
        scale: float,
        thorough: bool,
        careful: World | None = None,
        alike: int = 1,
        told: int = 1,
        sure: int = 1,
        beside: bool = False,
    ) -> None:
        self.beside = beside
        self.worlds, self.most, self.careful, self.alike, self.sure = worlds, most, careful, alike, sure
        self.told = told
        self.claims = {claim.rule.id: claim for claim in fixes}
        self.whole_ms, self.scale, self.thorough = whole_ms, scale, thorough
        self.left = list(self.claims)
        self.spent: dict[str, int] = {}
        """Fixes that return nothing, with the number of those taken when that was seen first."""
        self.recorded: dict[str, float] = {}
        """The most ms that a fix taken returns with the host as recorded, where a faster one is supposed to return more."""
        self._returned: list[float] = []
        self._together: list[float] = []
        """The ms that each fix taken adds to what those before it return in one world; cautiously in the next one."""
        self._surely: list[float] = []
        self._cautious: list[list[float]] = []
        """The ns that each fix taken returns cautiously, in each of the first worlds."""
        self._ms = {rule: bounds.high for rule, bounds in most.items()}  # at most

    def _most(self, rule: str) -> float:
        """The most ms that a fix can return beside those that are taken."""
        return self.most[rule].high + min(self.most[rule].exposed, sum(self._returned))

    def middle(self, low: float, high: float) -> float:
        """Return the middle of a saving as a share of the steady step."""
        return (low + high) / 2 / self.whole_ms

    def _assumed(self, rule: str, high: float) -> ranking.Place:
        """Rank a fix that returns *high* hopefully, as if its cautious assumption returned as much less as it assumes."""
        replay = self.claims[rule].rule.replay
        part = replay.low / replay.high if replay is not None and replay.high else 1.0
        return ranking.place(self.claims[rule].rule, self.middle(min(high * part, self.most[rule].low), high))

    @property
    def _known(self) -> list[World]:
        """The worlds whose host is no guess."""
        return [*self.worlds[: self.alike], *([self.careful] if self.careful is not None else [])]

    def _tells(self, gain_ns: float) -> bool:
        return gain_ns * self.scale >= ranking.LEAST * self.whole_ms

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
        best = best if self._returned else self._leading(best)
        self.left.remove(best)
        return best

    def _leading(self, best: str) -> str:
        """Return the fix that leads: the *best* one, but where it returns nothing with a host that is no guess, the best that does.

        One that is only possible leaves the lead to one that is surer, where that is worth about as much.
        """
        own, place = self.claims[best].rule, self._assumed(best, self._ms[best])
        sure = self._surely_returns(best)
        if sure and own.confidence != "possible":
            return best
        chosen, most = best, ranking.FIRST
        for rule in sorted(self.left, key=lambda rule: self._assumed(rule, self._ms[rule]), reverse=True):
            if rule == best or self._assumed(rule, self._ms[rule]) <= most:
                continue
            self._ms[rule] = self._gain(rule)
            other = self._assumed(rule, self._ms[rule])
            before = (
                ranking.defers(own, place[-1], self.claims[rule].rule, other[-1])
                if sure
                else self._surely_returns(rule)
            )
            if other > most and other[0] >= 1 and before:
                chosen, most = rule, other
        return chosen

    def _surely_returns(self, rule: str) -> bool:
        """Tell whether a fix returns something beside those taken with the host as recorded, or cautiously."""
        return any(self._tells(world.gain(rule)) for world in self._known)

    def with_same(self, rule: str) -> list[str]:
        """Take out the fixes that are the same change as one that comes next; the one that leads comes first."""
        acts = {other: self.claims[other].acts for other in (rule, *self.left)}
        together = bundle(rule, self.left, acts)
        self.left = [other for other in self.left if other not in together]
        return together

    def _gain(self, rule: str) -> float:
        """The ms that a fix would return, with the host that lets it return most."""
        gain, most = 0.0, self._most(rule)
        if self.beside:  # the worlds keep what they ran
            each([partial(world.gain, rule) for world in self.worlds], beside=True)
        for at, world in enumerate(self.worlds):
            # A host that is only supposed makes nothing of what returns nothing.
            nothing = gain < ranking.LEAST * self.whole_ms and not self._exchange_left(rule)
            if gain >= most or (at >= self.sure and nothing):
                break
            gain = min(max(gain, world.gain(rule) * self.scale), most)
        return gain

    def _exchange_left(self, rule: str) -> bool:
        """Tell whether a fix shortens what ranks exchange, and one that makes them less late was taken before it.

        What is left of the host beside that is a guess, as its stalls were: the exchange is surely left, and a host that is
        a little faster no longer hides it.
        """
        taken = [self.claims[other].rule.replay for other in self.worlds[0].taken]
        return self.claims[rule].rule.match.frame == "collectives" and any(
            fix is not None and fix.late for fix in taken
        )

    def alone(self, rules: Sequence[str]) -> tuple[float, float]:
        """Return the ms that a change, of one fix or of several, returns with none of the others: cautiously and hopefully."""
        low = min(world.alone(*rules, cautiously=True) for world in self.worlds[: self.alike])
        if self.careful is not None:
            low = max(low, self.careful.alone(*rules))
        sure = self.worlds[: None if self._tells(low) else self.sure]
        most = [self.most[rule] for rule in rules]
        low_most = sum(bounds.low + bounds.alone[0] for bounds in most)
        high_most = sum(bounds.high + bounds.alone[1] for bounds in most)
        high = min(max(world.alone(*rules) for world in sure) * self.scale, high_most)
        return min(low * self.scale, low_most, high), high

    def alone_as_recorded(self, rules: Sequence[str]) -> float:
        """Return the most ms that a change returns with none of the others, with the host as recorded."""
        return max(world.alone(*rules) for world in self.worlds[: self.told]) * self.scale

    def _added(self, returned_ns: float, gain_ns: float, taken: Sequence[float]) -> float:
        """The ms that a fix which returns *gain_ns* in a world adds to what those *taken* return together in any."""
        return min(max((returned_ns + gain_ns) * self.scale - sum(taken), 0.0), gain_ns * self.scale)

    def _least_added(self, gains: Sequence[float]) -> float:
        """Return the ns that a fix adds to what those taken return together, cautiously, in the one world that lets them least.

        A host so slow that precision returns nothing is none so fast that fewer launches return nothing.
        """
        sums = [sum((each[at] for each in self._cautious), 0.0) for at in range(len(gains))]
        together: float = min(had + gain for had, gain in zip(sums, gains, strict=True))
        return together - min(sums)

    def take(self, rule: str, before: float, left: float) -> Taken:
        """Take a fix: the ms that it returns behind those that return little, and behind those that return all they can.

        Neither is more than *left*, nor than its bounds. A larger batch, which has no rows of its own to bound it, returns no
        more than what brings the plan from the step *before* it to the shortest that was run.
        """
        # Launches go with the work that they launch; but nothing is promised beyond what the rows own, or the basis says.
        all_hosts = self._exchange_left(rule)
        scale, had = self.scale, [world.returned_ns for world in self.worlds]
        takes = [partial(world.take, rule, cautiously=at < self.alike) for at, world in enumerate(self.worlds)]
        if self.careful is not None:
            careful_ns = self.careful.returned_ns
            takes.append(partial(self.careful.take, rule, cautiously=False))
        all_gains = each(takes, beside=self.beside)
        gains = all_gains[: len(self.worlds)]
        cautious = [gain for gain, _ in gains[: self.alike]]
        low, surely = min(cautious) * scale, self._least_added(cautious) * scale
        all_hosts = all_hosts or low >= ranking.LEAST * self.whole_ms
        hopeful = [gain for _, gain in (gains if all_hosts else gains[: self.sure])]
        high = min(max(hopeful) * scale, self._most(rule), left)
        shorter = max(before - min(world.shortest_ns for world in self.worlds) * scale, 0.0)
        if ranking.is_batch(self.claims[rule].rule):
            high = min(high, shorter)
        added = max(self._added(ns, gain, self._together) for ns, gain in zip(had, hopeful, strict=False))
        if self.careful is not None:
            gain = all_gains[-1][1]
            low, surely = max(low, gain * scale), max(surely, self._added(careful_ns, gain, self._surely))
        recorded = min(max(gain for _, gain in gains[: self.told]) * scale, high)
        self.recorded.pop(rule, None)
        if high - recorded > SUPPOSED * self.whole_ms:
            self.recorded[rule] = recorded
        low, surely = min(low, self.most[rule].low, left), min(surely, self.most[rule].low, left)
        self._returned.append(high)
        self._cautious.append(cautious)
        self._together.append(min(added, high, shorter))
        self._surely.append(min(surely, high))
        return Taken(low, high, self._surely[-1], self._together[-1])

    def ranked(self, bundles: Sequence[Sequence[Rung]]) -> list[list[str]]:
        """Rank the changes by what they return in this order; of two that are worth about the same, the first stays first.

        What a fix returns only behind others is no reason to put it before them, nor is what it returns only with a host that is
        supposed. One that is only possible leaves the lead to a surer one before it.
        """

        def worth(rung: Rung) -> float:
            low, high = returned(rung)
            return self.middle(low, min(high, max(self.most[rung.rule].high, low)))

        places: list[ranking.Place] = []
        for one in bundles:
            place = ranking.place(self.claims[one[0].rule].rule, sum(map(worth, one)))
            behind = not any(self._returns_alone(rung.rule) for rung in one)
            if len(places) == 1:
                rule, leading = self.claims[one[0].rule].rule, self.claims[bundles[0][0].rule].rule
                behind |= ranking.defers(rule, place[-1], leading, places[0][-1])
            if places and place > places[-1] and behind:
                place = places[-1]
            places.append(place)
        rules = [[rung.rule for rung in one] for one in bundles]
        least = ranking.LEAST * self.whole_ms
        about = [
            place[:2]
            for place, one in zip(places, bundles, strict=True)
            if sum(returned(rung)[1] for rung in one) >= least
        ]
        if about == sorted(about, reverse=True):
            return rules
        return [rules[at] for at in sorted(range(len(rules)), key=lambda at: places[at], reverse=True)]

    def _returns_alone(self, rule: str) -> bool:
        """Tell whether a fix returns something with the host as recorded, or cautiously, where no other is taken."""
        return any(self._tells(world.alone(rule)) for world in self._known)

    def back_to(self, count: int) -> None:
        """Keep the first *count* of the fixes taken."""
        self._returned, self._cautious = self._returned[:count], self._cautious[:count]
        self._together, self._surely = self._together[:count], self._surely[:count]
        for world in (*self.worlds, *([self.careful] if self.careful is not None else [])):
            world.back_to(count)
