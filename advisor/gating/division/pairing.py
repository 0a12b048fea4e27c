"""Pairs of sites: what on one side stands against what on the other.

Sites are paired at the narrowest place that both programs share: the operator with its shapes, else the operator, else its
family in the same module; what is left in a module on both sides stands against each other there, as one fused kernel does
against the four that it replaced; and what modules do not share goes up, to the lowest ancestor that both have. Nothing is
paired but with what may be the same work; the rest stays unpaired.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from advisor.gating.division import settling
from advisor.gating.division.families import WORK, family_of, is_compiled, kin_of, sizes_beside, unit_of
from advisor.results.sites import Site

Key = Callable[[Site], Hashable | None]
"""Key of a site at one stage; None for one that the stage leaves."""
_CALLS = 0.02


class _Stage(NamedTuple):
    """One stage: its key; whether that names the operator; whether calls must agree; the key of the place above.

    Where the latter is given, sites are paired only if all of that place has both sides: else they wait to be paired there.
    """

    key: Key
    same_unit: bool = False
    strict: bool = False
    above: Key | None = None


class Pair(Struct, frozen=True):
    """Sites of both sides that stand against each other; one of the two is empty where nothing does."""

    before: tuple[Site, ...]
    after: tuple[Site, ...]
    same_unit: bool
    """True where they are the same operator, or the same kind of wait in the same place."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """All sites of it, those of the second side first."""
        return self.after + self.before


def pair(before: Sequence[Site], after: Sequence[Site]) -> list[Pair]:
    """Pair the sites of two sides: all of each side's time is in exactly one pair."""
    pairs: list[Pair] = []
    before, after = settling.placed(before, after), settling.placed(after, before)
    place = _place_of(before, after)
    for chosen, stages in ((_is_work, _stages(before, after, place)), (_is_wait, _waits(place))):
        left = [[site for site in side if chosen(site)] for side in (before, after)]
        for stage in stages:
            found, left = _take(left[0], left[1], stage)
            pairs += found
        for number, side in enumerate(left):
            alone: dict[Hashable, list[Site]] = {}
            for site in side:
                alone.setdefault((site.cause, site.phase, site.module, site.function, unit_of(site)), []).append(site)
            pairs += [_one_sided(tuple(sites), after=bool(number)) for sites in alone.values()]
    settled = settling.moved([(list(found.before), list(found.after)) for found in pairs])
    return [
        Pair(tuple(own), tuple(other), found.same_unit)
        for found, (own, other) in zip(pairs, settled, strict=True)
        if own or other
    ]


def _one_sided(sites: tuple[Site, ...], *, after: bool) -> Pair:
    return Pair((), sites, True) if after else Pair(sites, (), True)


def _take(before: list[Site], after: list[Site], stage: _Stage) -> tuple[list[Pair], list[list[Site]]]:
    """Pair sites with the same key; return the pairs, and what is left of each side."""
    sides: list[dict[Hashable, list[Site]]] = [{}, {}]
    rest: list[list[Site]] = [[], []]
    for number, side in enumerate((before, after)):
        for site in side:
            value = stage.key(site)
            (rest[number] if value is None else sides[number].setdefault(value, [])).append(site)
    values = list(dict.fromkeys([*sides[0], *sides[1]]))
    waiting = _waiting(sides, values, stage.above) if stage.above else set[Hashable]()
    pairs = []
    for value in values:
        groups = [side.get(value, []) for side in sides]
        apart = stage.strict and all(groups) and _called_otherwise(groups[0], groups[1])
        if all(groups) and not apart and value not in waiting:
            pairs.append(Pair(tuple(groups[0]), tuple(groups[1]), stage.same_unit))
        else:
            for number, group in enumerate(groups):
                rest[number] += group
    return pairs, rest


def _waiting(sides: Sequence[dict[Hashable, list[Site]]], values: Sequence[Hashable], above: Key) -> set[Hashable]:
    """Return the keys of what is to be paired further up: something beside it, in the place above, is on one side only."""
    places = {value: above(next(side[value][0] for side in sides if value in side)) for value in values}
    open_ = {places[value] for value in values if not all(value in side for side in sides)}
    return {value for value in values if places[value] in open_}


def _called_otherwise(before: Sequence[Site], after: Sequence[Site]) -> bool:
    """Tell whether the same kernels are called more or less often: of another shape of that operator perhaps as much less."""
    calls = [{site.kernel: site.calls for site in side} for side in (before, after)]
    if calls[0].keys() != calls[1].keys():
        return False
    return any(abs(calls[1][name] - count) > _CALLS * count for name, count in calls[0].items())


def _is_work(site: Site) -> bool:
    return site.cause in WORK


def _is_wait(site: Site) -> bool:
    return site.cause not in WORK


Place = Callable[[Site], tuple[str, str, str, str]]
"""Cause, phase, module and function of a site."""


def _place_of(before: Sequence[Site], after: Sequence[Site]) -> Place:
    """Return what the place of a site is taken from: modules and functions only where both sides have them."""
    modules, functions = (
        all(any(getattr(site, name) for site in side) for side in (before, after)) for name in ("module", "function")
    )

    def place(site: Site) -> tuple[str, str, str, str]:
        return site.cause, site.phase, site.module if modules else "", site.function if functions else ""

    return place


def _stages(before: Sequence[Site], after: Sequence[Site], place: Place) -> Iterator[_Stage]:
    """Yield the stages of pairing work, the narrowest first."""
    yield _Stage(lambda site: (place(site), unit_of(site), site.shapes) if site.shapes else None, True, True)
    yield _Stage(
        lambda site: (place(site), unit_of(site), sizes_beside(site.shapes)) if site.shapes else None, True, True
    )
    yield _Stage(lambda site: (place(site), unit_of(site)), True)
    yield _Stage(lambda site: (place(site)[:3], unit_of(site)), True)
    # One compiled kernel stands against all that it was made of: where one side alone is compiled, kinds are told no finer.
    compiled = len({any(is_compiled(unit_of(site)) for site in side) for side in (before, after)}) == 2
    kinds = (unit_of, kin_of) if compiled else (unit_of, family_of, kin_of)
    if not compiled:
        yield _Stage(lambda site: (place(site), family_of(site)))
        # What is left of a module, or of a function where no module is known, stands against each other; never all of a program.
        yield _Stage(lambda site: place(site) if any(place(site)[2:]) and site.phase != "optimizer" else None)
    deepest = max((site.module.count("/") + 1 for site in (*before, *after) if place(site)[2]), default=0)
    for depth in range(deepest, -1, -1):
        for kind in kinds:
            wait = _above(place, depth - 1, kind) if compiled and kind is kin_of and depth else None
            yield _Stage(_above(place, depth, kind), kind is unit_of, above=wait)
    for kind in kinds:
        yield _Stage(lambda site, kind=kind: (site.cause, kind(site)), kind is unit_of)  # type: ignore[misc]


def _above(place: Place, depth: int, kind: Callable[[Site], str]) -> Key:
    """Return the key of a site at one depth of the tree of modules."""

    def key(site: Site) -> Hashable:
        cause, phase, module, _ = place(site)
        return cause, phase, "/".join(module.split("/")[:depth]), kind(site)

    return key


def _waits(place: Place) -> tuple[_Stage, ...]:
    """Return the stages of pairing waits, the narrowest first."""
    return (
        _Stage(lambda site: (place(site), site.unit), True),
        _Stage(lambda site: (site.cause, place(site)[3], site.unit), True),
        _Stage(place, True),
        _Stage(lambda site: (site.cause, site.phase)),
        _Stage(lambda site: site.cause),
    )
