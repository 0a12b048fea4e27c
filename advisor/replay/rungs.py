"""Prices as data: the steps of the plan, what each fix returns, and what bounds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.engine import ranking
from advisor.engine.claims import other_alone


class Rung(Struct, frozen=True):
    """One step of the plan, in ms: the step before and after it; ``bound_by`` is what holds the program back after it.

    ``before`` and ``high`` are by the hopeful assumptions, ``low_before`` and ``low`` by the cautious ones.
    """

    rule: str
    before: float
    low: float
    high: float
    bound_by: str
    low_before: float = 0.0
    recorded: float | None = None
    """The ms that the fix returns hopefully with the host as recorded, where a faster one is supposed; else None."""
    also: tuple[str, ...] = ()
    """Other rules whose fix is the same change: their price is in it."""
    worth: tuple[float, float] | None = None
    """The ms that the fix returns, cautiously and hopefully, each with the host that lets it return most; None: the steps tell."""


class Priced(Struct, frozen=True):
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
    recorded: dict[str, float] = field(default_factory=dict)
    """The most ms with the host as recorded, of fixes that return more with a faster one."""
    alone: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The ms that a change returns with none of the others."""
    alone_recorded: dict[str, float] = field(default_factory=dict)
    """Of that the most with the host as recorded, where a faster one returns more."""


class Bounds(NamedTuple):
    """The most ms that a fix can return: cautiously, and at all; ``exposed`` more once others have left the GPU less to do.

    Alone it returns ``alone`` more, cautiously and at all: idle time that other findings own.
    """

    low: float
    high: float
    exposed: float = 0.0
    alone: tuple[float, float] = (0.0, 0.0)


def returned(rung: Rung) -> tuple[float, float]:
    """Return the least and the most ms that a step of the plan returns.

    Behind fixes that return little it can return more than behind those that return all they can: then the least is that.
    """
    cautious, hopeful = rung.worth or (rung.low_before - rung.low, rung.before - rung.high)
    return min(cautious, hopeful), max(cautious, hopeful)


def as_recorded(rung: Rung) -> float:
    """Return the most ms that a step of the plan returns with the host as recorded.

    Behind others it is no less than cautiously: there those return less. The first can be: a careful host is a faster one too.
    Where the most is what is returned cautiously, no faster host is supposed.
    """
    low, high = returned(rung)
    least = 0.0 if rung.before == rung.low_before else low
    cautious, hopeful = rung.worth or (rung.low_before - rung.low, rung.before - rung.high)
    return high if rung.recorded is None or cautious > hopeful else min(max(rung.recorded, least), high)


def _needs_faster_host(rung: Rung) -> bool:
    """Tell whether a step of the plan returns less with the host as recorded."""
    return rung.recorded is not None and as_recorded(rung) < returned(rung)[1]


def parted(rungs: Sequence[Rung], order: Sequence[Sequence[str]]) -> list[list[Rung]]:
    """Part the steps by the bundles of an order."""
    by_rule = {rung.rule: rung for rung in rungs}
    return [[by_rule[rule] for rule in rules] for rules in order]


def joined(
    bundles: Sequence[Sequence[Rung]],
    least_ms: float,
    spent: Mapping[str, tuple[str, ...]],
    *,
    little_ms: float = 0.0,
    alone: Callable[[Sequence[str]], tuple[float, float] | None] = lambda rules: None,
    copies: AbstractSet[str] = frozenset(),
) -> Priced:
    """Make a step of the plan of each bundle of fixes that are one change, in order; those under *least_ms* return nothing.

    Neither do those under *little_ms* that return no other figure *alone*, where that is known. *spent* names, for a fix that
    returned nothing when it was tried first, the fixes that were taken by then. For *copies* that return nothing alone nothing
    waits: what they return beside a faster host is one more guess, and folded unless it is more than a low finding.
    """
    priced = Priced({}, [])
    for rungs in bundles:
        lead, last = rungs[0], rungs[-1]
        worth = [rung.worth or (rung.low_before - rung.low, rung.before - rung.high) for rung in rungs]
        low, high = sum(low for low, _ in worth), sum(high for _, high in worth)
        by_itself = alone([rung.rule for rung in rungs]) if high >= least_ms else None
        if _hardly(low, high, by_itself, least_ms, little_ms):
            priced.after.update((rung.rule, _taken(priced, spent.get(rung.rule, ()))) for rung in rungs)
            continue
        if lead.rule in copies and _unwaited(low, high, by_itself, little_ms / ranking.LITTLE):
            priced.after.update((rung.rule, ()) for rung in rungs)
            continue
        bound = next((rung.bound_by for rung in reversed(rungs) if rung.bound_by), "")
        also = tuple(rung.rule for rung in rungs[1:])
        step = replace(lead, low=last.low, high=last.high, bound_by=bound, also=also, worth=(low, high))
        priced.plan.append(step)
        priced.savings[lead.rule] = returned(step)
        if by_itself is not None:
            priced.alone[lead.rule] = by_itself
        if any(map(_needs_faster_host, rungs)):
            priced.recorded[lead.rule] = sum(map(as_recorded, rungs))
        for rung in rungs[1:]:
            priced.done_by[rung.rule], priced.parts[rung.rule] = lead.rule, returned(rung)
    return priced


def _hardly(low: float, high: float, alone: tuple[float, float] | None, least_ms: float, little_ms: float) -> bool:
    """Tell whether a change returns hardly anything beside those before it, or little there and no other figure alone."""
    if high < least_ms or alone is None:
        return high < least_ms
    other = other_alone((low, high), alone, little_ms / ranking.LITTLE)
    return max(low, high, 0.0 if other is None else alone[1]) < little_ms


def _taken(priced: Priced, rules: Sequence[str]) -> tuple[str, ...]:
    """Return those of some rules that have a step in the plan."""
    return tuple(step.rule for step in priced.plan if step.rule in rules)


def _unwaited(low: float, high: float, alone: tuple[float, float] | None, whole_ms: float) -> bool:
    """Tell whether a change returns nothing alone, and no more than a low finding does beside those before it."""
    if alone is None or alone[1] >= ranking.LEAST * whole_ms:
        return False
    return (low + high) / 2 < ranking.LEVELS["medium"] * whole_ms
