"""Claims of rules on time: rules that match the same ns do not both own it, and none is saved twice.

Time is counted in segments of the trace's ledger, which partition the window. First, rules that yield give up what the
rules they yield to own. Then each finding, the most valuable first, claims what it saves, and what is claimed is gone:
so the savings together are part of the step by construction.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from advisor.engine import ranking
from advisor.engine.acts import bundles
from advisor.intervals import Bools, Ints, distinct
from advisor.results.analysis import Saving, Severity
from advisor.rulebook.rule import CONFIDENCES, Rule

Floats = npt.NDArray[np.float64]
_WHOLLY = 0.75
"""Part of its rows' time that a fix returns at least which does away with them."""
_ALONG = 0.9
"""Part of a fix's time that another does away with, from which on it is for what the other leaves."""
_MOST = 0.5
"""Share of its time that a rule keeps beside those it yields to, from which on it speaks of the rest, however little that is.

Levels say from which size on a symptom is worth a word; the symptom is that large, whoever owns a part of it.
"""


class Claim(Struct, frozen=True):
    """A rule that fires: the rows of its frame that are its own, and the counted segments that they own.

    ``after`` names the rules whose fixes leave nothing to save, None where something is left. ``returns`` are the parts of what
    it owns that its assumptions, the cautious and the hopeful one, are shares of. ``acts`` are the keys of what its fix does.
    ``weight`` is what its rows' kind makes of both, and part of ``returns``. ``shorter`` are those of the rows that only get
    shorter where the fix removes others: their launches stay. ``behind`` pairs segments with those of the operators that they go
    with: in them the system takes back what these made.
    """

    rule: Rule
    rows: Bools
    segments: Ints
    cost_ns: int = 0
    severity: Severity = "note"
    saving: Saving | None = None
    after: tuple[str, ...] | None = None
    returns: tuple[float, float] = (1.0, 1.0)
    acts: frozenset[str] = frozenset()
    weight: float = 1.0
    shorter: Bools | None = None
    behind: tuple[Ints, Ints] | None = None

    @property
    def has_price(self) -> bool:
        """True where a fix returns time of the rows, or of other ranks that are late for the same reason."""
        replay = self.rule.replay
        return replay is not None and bool(len(self.segments) or replay.late)

    @property
    def rank(self) -> ranking.Place:
        """Rank of the finding: its severity, and the middle of its saving, less what is uncertain about it."""
        return ranking.place(self.rule, ranking.middle_of(self.saving))


class Settlement(Struct, frozen=True):
    """The claims that stand, best first; the rules that pass; and those whose time others own, with the reason."""

    claims: list[Claim]
    passes: list[str]
    owned: dict[str, str]


def settle(
    matches: Sequence[Claim],
    dur_ns: Ints,
    whole_ns: int,
    whole_ms: float,
    bare: tuple[Ints, int, float] | None = None,
    weighed: Callable[[Claim], Claim] = lambda claim: claim,
) -> Settlement:
    """Divide the time among the rules that match.

    *dur_ns* holds the length of each segment, *whole_ns* that of all counted ones, *whole_ms* what a share is a share
    of: steady work of the typical step, or of the window. The segments of a match are counted ones, each once. *bare* holds
    the same three of a step without the profiler, where one was timed: prices speak of that. *weighed* gives a claim the
    weight of what others leave of its rows.
    """
    passes: list[str] = []
    standing: list[Claim] = []
    for match in matches:
        claim = _remainder(match, match.rows, match.segments, dur_ns, whole_ns)
        if claim is None:
            passes.append(match.rule.id)
        else:
            standing.append(claim)
    rest, reasons = _yield(standing, dur_ns, whole_ns, weighed)
    worth = []
    for claim in priced(rest, *(bare or (dur_ns, whole_ns, whole_ms))):
        part = claim.cost_ns / whole_ns if whole_ns else 0.0
        middle = ranking.middle_of(claim.saving) if claim.rule.replay is not None else part
        severity = ranking.severity_of(claim.rule, middle) if claim.after is None else "note"
        worth.append(replace(claim, severity=severity))
    return Settlement(sorted(worth, key=_order), passes, reasons)


def _order(claim: Claim) -> tuple[bool, list[float], int, str]:
    return claim.after is not None, [-part for part in claim.rank], -claim.cost_ns, claim.rule.id


def _yield(
    standing: Sequence[Claim], dur_ns: Ints, whole_ns: int, weighed: Callable[[Claim], Claim]
) -> tuple[list[Claim], dict[str, str]]:
    """Return the rest of each claim once the rules that it yields to have theirs; and who lost all that mattered, to whom."""
    claims = {claim.rule.id: claim for claim in standing}
    settled: dict[str, Claim | None] = {}
    owned: dict[str, str] = {}

    def visit(rule: str) -> Claim | None:
        """The final claim of a rule; those that it yields to come first, and the rulebook allows no circle."""
        if rule in settled or rule not in claims:
            return settled.get(rule)
        claim = claims[rule]
        rows, segments, takers = claim.rows, claim.segments, []
        for other in claim.rule.yields_to:
            owner = visit(other)
            if owner is None:
                continue
            left = np.setdiff1d(segments, owner.segments, assume_unique=True)
            less = rows & ~owner.rows if owner.rule.match.frame == claim.rule.match.frame else rows
            if len(left) < len(segments) or less.sum() < rows.sum():
                takers.append(other)
            rows, segments = less, left
        if takers and rows.any():
            # Those that are left may be of another kind than those that went.
            left_over = weighed(replace(claim, rows=rows, segments=segments, cost_ns=int(dur_ns[segments].sum())))
            claim = replace(claim, weight=left_over.weight, returns=left_over.returns)
        settled[rule] = _remainder(claim, rows, segments, dur_ns, whole_ns, _MOST)
        if settled[rule] is None:
            owned[rule] = f"its time is already owned by {' and '.join(takers)}"
        return settled[rule]

    kept = [claim for claim in (visit(rule) for rule in claims) if claim is not None]
    return kept, owned


def _remainder(
    claim: Claim, rows: Bools, segments: Ints, dur_ns: Ints, whole_ns: int, enough: float | None = None
) -> Claim | None:
    """Return the claim on these rows and segments; None where its rule does not fire on them.

    It fires by what its fix would return alone: the middle of its assumption, of what the rows own. One that fired already
    also stands on what is left of it where that is more than the share *enough* of its cost.
    """
    cost = int(dur_ns[segments].sum())
    share = cost / whole_ns if whole_ns else 0.0
    middle = share * claim.weight * ranking.assumed_middle(claim.rule)
    severity = ranking.fires(claim.rule, middle)
    if severity is None and enough is not None and middle >= ranking.LEVELS["low"] and cost > enough * claim.cost_ns:
        severity = ranking.severity_of(claim.rule, middle)
    if severity is None or not rows.any():
        return None
    return replace(claim, rows=rows, segments=segments, cost_ns=cost, severity=severity)


def priced(
    claims: Sequence[Claim],
    dur_ns: Ints,
    whole_ns: int,
    whole_ms: float,
    held_ns: Callable[[Claim], float] = lambda claim: 0.0,
    error: float = 0.0,
    at_most_ns: Ints | None = None,
) -> list[Claim]:
    """Each claim with its saving; the most valuable first, each ns once. *held_ns* of what a claim owns no fix returns.

    What rows take is one fix's. Only where it makes them shorter, and another does away with them, the other returns the rest;
    and where that takes most of them along and returns more, it comes first: what can go need not be made faster.
    *error* is the part by which the times themselves may be too low: the upper end allows for it. *at_most_ns* are the segments
    by another reckoning of the same whole: the upper end is that of the one by which the rows take longer.
    """
    longest_ns = _either(at_most_ns, dur_ns)
    left = np.ones(len(dur_ns))
    owner = np.full(len(dur_ns), -1, np.int64)
    left_ms = whole_ms
    unowned_ms = _unowned_ns(claims, dur_ns) * whole_ms / max(whole_ns, 1)
    done: dict[int, Claim] = {}
    removing = [index for index, claim in enumerate(claims) if _removes(claim)]

    def free(index: int, ns: Ints = dur_ns) -> Floats:
        """The ns of each segment that the fix may return."""
        segments = claims[index].segments
        rest = left[segments] if index in removing else np.floor(left[segments])
        part: Floats = np.minimum(rest, _goes_along(claims, index, left, owner, dur_ns))
        return ns[segments] * part

    def middle(index: int) -> float:
        rule, share = claims[index].rule, float(free(index).sum()) / whole_ns if whole_ns else 0.0
        return share * claims[index].weight * ranking.assumed_middle(rule) if rule.replay else 0.0

    def weighed(index: int) -> float:
        return middle(index) * CONFIDENCES[claims[index].rule.confidence]

    def worth(index: int) -> list[float]:
        return [-part for part in ranking.place(claims[index].rule, middle(index))]

    def taken_along(index: int) -> bool:
        """Tell whether another fix, which is still to come and is worth more, does away with what this one makes faster."""
        own = claims[index].segments
        return index not in removing and any(
            other not in done
            and weighed(other) > weighed(index)
            and dur_ns[np.intersect1d(own, claims[other].segments, assume_unique=True)].sum()
            >= _ALONG * dur_ns[own].sum()
            for other in removing
        )

    # A claim can only lose worth as others take from it, so a stale top of the heap is weighed again, and no other.
    heap = [(worth(index), claim.rule.id, index) for index, claim in enumerate(claims)]
    heapq.heapify(heap)
    waiting: list[tuple[list[float], str, int]] = []
    while heap or waiting:
        if not heap:
            heap, waiting = waiting, []
        _, rule_id, index = heapq.heappop(heap)
        if heap and (now := worth(index)) > heap[0][0]:
            heapq.heappush(heap, (now, rule_id, index))
            continue
        if taken_along(index):
            waiting.append((worth(index), rule_id, index))
            continue
        claim, segments = claims[index], claims[index].segments
        others = distinct(owner[segments])
        shared = [claims[other].rule.id for other in others if other >= 0]
        ns = free(index)
        own = Owned.of(ns, free(index, longest_ns), held_ns(claim))
        left_of = (left_ms, unowned_ms)
        saving = _saving(claim, own, whole_ns, whole_ms, left_of, shared, error)
        if saving is not None and shared:
            alone = Owned.of(dur_ns[segments], longest_ns[segments], own.held_ns)
            by_itself = _saving(claim, alone, whole_ns, whole_ms, (whole_ms, unowned_ms), [], error)
            saving = _with_alone(saving, by_itself, whole_ms)
        if saving is not None and (saving.high_share < ranking.HARDLY or _is_little(saving, claim, claims)):
            done[index] = replace(claim, after=tuple(shared))
            continue
        if saving is not None:
            gone = min(saving.high_share * whole_ns / max(own.ns, 1), 1.0) if _shortens(claim) else 1.0
            owner[segments[ns > 0]] = index
            left[segments[ns > 0]] *= 1 - gone
            left_ms -= saving.high_ms
        done[index] = replace(claim, saving=saving)
        heap.extend(waiting)
        heapq.heapify(heap)
        waiting = []
    return [done[index] for index in range(len(claims))]


def _goes_along(claims: Sequence[Claim], index: int, left: Floats, owner: Ints, dur_ns: Ints) -> Floats:
    """Return, for each segment of a claim, the part that is left of the operators that it is behind; 1 where it is behind none.

    What the same change takes of them, as another finding of which it is the *owner*, takes nothing of this one's price.
    """
    claim = claims[index]
    rest = np.ones(len(left))
    if claim.behind is not None and len(claim.behind[0]):
        segments, operators = claim.behind
        same = np.array([bool(other.acts & claim.acts) for other in claims] + [False])[owner[operators]]
        took = np.bincount(segments, weights=dur_ns[operators], minlength=len(left))
        kept = dur_ns[operators] * np.where(same, 1.0, left[operators])
        rest = np.where(took > 0, np.bincount(segments, weights=kept, minlength=len(left)) / np.maximum(took, 1), 1.0)
    return rest[claim.segments]


def _unowned_ns(claims: Sequence[Claim], dur_ns: Ints) -> float:
    unowned = np.ones(len(dur_ns), np.bool_)
    for claim in claims:
        unowned[claim.segments] = False
    return float(dur_ns[unowned].sum())


def _with_alone(saving: Saving, whole: Saving | None, whole_ms: float) -> Saving:
    """Return a saving with what the fix returns alone, *whole*."""
    alone = None if whole is None else (whole.low_ms, whole.high_ms)
    return msgspec.structs.replace(saving, alone_ms=other_alone((saving.low_ms, saving.high_ms), alone, whole_ms))


def _removes(claim: Claim) -> bool:
    """Tell whether nothing is left of the rows, however long they take: what repeats, or need not be computed."""
    replay = claim.rule.replay
    return replay is not None and replay.action == "remove" and replay.low >= _WHOLLY


def _shortens(claim: Claim) -> bool:
    """Tell whether the rows stay, and each takes less."""
    return claim.rule.replay is not None and claim.rule.replay.action == "scale"


def _is_little(saving: Saving, claim: Claim, claims: Sequence[Claim]) -> bool:
    """Tell whether a fix returns little beside others and no other figure alone; not where it is the same change as another's."""
    part = any(claim.acts & other.acts for other in claims if other.rule.id != claim.rule.id)
    return saving.high_share < ranking.LITTLE and saving.alone_ms is None and not part


def ranked_bundles(claims: Sequence[Claim]) -> list[list[str]]:
    """Part the rules of priced claims by what is one change, ranked by what each change returns."""
    by_rule = {claim.rule.id: claim for claim in sorted(claims, key=lambda claim: claim.rank, reverse=True)}

    def place(rules: Sequence[str]) -> ranking.Place:
        middle = sum(ranking.middle_of(by_rule[rule].saving) for rule in rules)
        return ranking.place(by_rule[rules[0]].rule, middle)

    return sorted(bundles(by_rule, {rule: claim.acts for rule, claim in by_rule.items()}), key=place, reverse=True)


_UP_TO, WIDEST = 2.5, 1 / 3
"""Times the error by which a saving may be larger, and the share of the step than which no range is wider. Assumptions lie further
apart than this only where rows own most of the step, and then as little as the cautious one says was never measured: of ten
programs of benchmarks/cpu_* in which they did (float64 in five, Python in two, work that grows, a preparation, an optimizer) none
returned less than the high figure less a third of the step."""
_LEAST_LEFT = 0.1
"""Of what a step does beside the rows, the part that stays, however much faster it runs without them: an eighth of it stayed of a
program that collected garbage in each step, a quarter of one with int8 layers of another engine."""
_HALF = 0.5
"""Of what fixes leave of a step, the most that another one takes, where no more is left than no finding owns."""


def more_for(error: float) -> str:
    """Return what a basis says of the part by which times may be too low; empty for none."""
    words = "more at the upper end, for what differs from run to run and what runs faster beside it"
    words += ", and the ends a third of the step apart at most"
    return f"; up to {100 * _UP_TO * error:.3g} % {words}" if error else ""


_OTHER, _TELLS_ALONE = 1.5, 0.01
"""Times, and share of the step, by which the middle of a saving alone differs from that behind others, to be said."""


def other_alone(
    saving: tuple[float, float], alone: tuple[float, float] | None, whole_ms: float
) -> dict[str, float] | None:
    """Return what a fix returns alone, where that is another figure than behind the fixes before it."""
    if alone is None:
        return None
    less, more = sorted((sum(saving) / 2, sum(alone) / 2))
    if more < _OTHER * less or more - less < _TELLS_ALONE * whole_ms:
        return None
    return {"low": alone[0], "high": alone[1]}


class Owned(NamedTuple):
    """Time of a claim's rows that a fix may return: by the first reckoning, by the longest, and what of it no fix returns."""

    ns: int
    most_ns: int
    held_ns: float

    @classmethod
    def of(cls, ns: Floats | Ints, other_ns: Floats | Ints, held_ns: float) -> Owned:
        """Return the sums of two reckonings."""
        first = round(float(ns.sum()))
        return cls(first, max(first, round(float(other_ns.sum()))), held_ns)


def _either(ns: Ints | None, otherwise: Ints) -> Ints:
    return otherwise if ns is None else ns


def _staying_ms(own_ms: float, whole_ms: float, left_ms: float, unowned_ms: float) -> float:
    """Return what stays of the step beside a fix of rows that own so much, however much its times may be too low.

    The first fix may be worth most of what no finding owns, as a fault can take more than its rows. The next ones are not worth
    that again: it stays, or half of what is left where that is less.
    """
    stays_ms = _LEAST_LEFT * max(left_ms - own_ms, unowned_ms, 0.0)
    return max(stays_ms, min(unowned_ms, _HALF * left_ms)) if left_ms < whole_ms else stays_ms


def _saving(
    claim: Claim,
    own: Owned,
    whole_ns: int,
    whole_ms: float,
    left_of: tuple[float, float],
    shared: Sequence[str],
    error: float,
) -> Saving | None:
    """Return the saving out of the time that no other fix saves; None where the rows own no time or nothing is claimed.

    *left_of* the step are the ms that other fixes do not save, and those that no finding owns.
    """
    replay = claim.rule.replay
    if replay is None or not claim.cost_ns or not whole_ns:
        return None
    ms = whole_ms / whole_ns
    # The sum of many roundings may not pass the whole either.
    low_part, high_part = replay.low * claim.returns[0], replay.high * claim.returns[1]
    # What a saving may be more for the error of its times is never all that is left of the step.
    left_ms, unowned_ms = left_of
    bound_ms = max(left_ms - (_staying_ms(own.ns * ms, whole_ms, left_ms, unowned_ms) if error else 0.0), 0.0)
    own_ms, low_ms, widest_ms = high_part * own.ns * ms, low_part * own.ns * ms, WIDEST * whole_ms
    more_ms = own_ms * (1 + error)
    if low_ms and error:  # what may return nothing is not known to a third of the step
        more_ms = min(high_part * own.most_ns * ms * (1 + _UP_TO * error), low_ms + widest_ms)
        low_ms = max(low_ms, own_ms - widest_ms)
    most_ms = max(own.most_ns - own.held_ns, 0.0) * (1 + _UP_TO * error) * ms
    high = max(0.0, min(max(own_ms, more_ms), most_ms, bound_ms))
    low = min(low_ms, high)
    basis = f"bound: {100 * low_part:.3g} to {100 * high_part:.3g} % of the time it owns; {replay.basis}"
    basis += more_for(error)
    if shared:
        basis += f"; what {' and '.join(shared)} would save is not counted again"
    return Saving(
        low_ms=low,
        high_ms=high,
        low_share=low / whole_ms if whole_ms else 0.0,
        high_share=high / whole_ms if whole_ms else 0.0,
        basis=basis,
    )
