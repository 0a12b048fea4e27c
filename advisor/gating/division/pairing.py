"""Pairs of sites: what on one side stands against what on the other.

Sites are paired at the narrowest place that both programs share: the operator with its shapes, else the operator, else its
family in the same module; what is left in a module on both sides stands against each other there, as one fused kernel does
against the four that it replaced; and what modules do not share goes up, to the lowest ancestor that both have. Nothing is
paired but with what may be the same work; the rest stays unpaired.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from advisor.gating.division.families import WORK, family_of, kin_of, sizes_beside, unit_of
from advisor.results.sites import Site

Key = Callable[[Site], Hashable | None]
"""Key of a site at one stage; None for one that the stage leaves."""
_CALLS = 0.02


@dataclass(frozen=True)
class Pair:
    """Sites of both sides that stand against each other; one of the two is empty where nothing does."""

    before: tuple[Site, ...]
    after: tuple[Site, ...]
    same_unit: bool
    """Whether they are the same operator, or the same kind of wait in the same place."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """All sites of it, those of the second side first."""
        return self.after + self.before


def pair(before: Sequence[Site], after: Sequence[Site]) -> list[Pair]:
    """Pair the sites of two sides; each site is in exactly one pair."""
    pairs: list[Pair] = []
    for chosen, stages in ((_is_work, _stages(before, after)), (_is_wait, _WAITS)):
        left = [[site for site in side if chosen(site)] for side in (before, after)]
        for key, same_unit, strict in stages:
            found, left = _stage(left[0], left[1], key, same_unit, strict)
            pairs += found
        for number, side in enumerate(left):
            alone: dict[Hashable, list[Site]] = {}
            for site in side:
                alone.setdefault((site.cause, site.phase, site.module, site.function, unit_of(site)), []).append(site)
            pairs += [Pair(*(((), tuple(sites)) if number else (tuple(sites), ())), True) for sites in alone.values()]
    return pairs


def _stage(
    before: list[Site], after: list[Site], key: Key, same_unit: bool, strict: bool
) -> tuple[list[Pair], list[list[Site]]]:
    """Pair sites with the same key; return the pairs, and what is left of each side."""
    sides: list[dict[Hashable, list[Site]]] = [{}, {}]
    rest: list[list[Site]] = [[], []]
    for number, side in enumerate((before, after)):
        for site in side:
            value = key(site)
            (rest[number] if value is None else sides[number].setdefault(value, [])).append(site)
    pairs = []
    for value in dict.fromkeys([*sides[0], *sides[1]]):
        groups = [side.get(value, []) for side in sides]
        if all(groups) and not (strict and _called_otherwise(groups[0], groups[1])):
            pairs.append(Pair(tuple(groups[0]), tuple(groups[1]), same_unit))
        else:
            for number, group in enumerate(groups):
                rest[number] += group
    return pairs, rest


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


def _place(site: Site) -> tuple[str, ...]:
    return site.cause, site.phase, site.module, site.function


def _by_sizes(site: Site) -> Hashable | None:
    return (*_place(site), unit_of(site), sizes_beside(site.shapes)) if site.shapes else None


def _in_function(site: Site) -> Hashable | None:
    """Everything else of a module, of a function where no module is known; never all of a program."""
    return (*_place(site), site.cause) if (site.module or site.function) and site.phase != "optimizer" else None


def _stages(before: Sequence[Site], after: Sequence[Site]) -> Iterator[tuple[Key, bool, bool]]:
    """Yield the stages of pairing work, the narrowest first: the key, whether it names the operator, whether calls must agree."""
    yield (lambda site: (*_place(site), unit_of(site), site.shapes) if site.shapes else None), True, True
    yield _by_sizes, True, True
    yield (lambda site: (*_place(site), unit_of(site))), True, False
    yield (lambda site: (site.cause, site.phase, site.module, unit_of(site))), True, False
    # One compiled kernel stands against all that it was made of: where one side alone is compiled, kinds are told no finer.
    one_compiled = len({any(unit_of(site).startswith("triton_") for site in side) for side in (before, after)}) == 2
    kinds = (unit_of, kin_of) if one_compiled else (unit_of, family_of, kin_of)
    yield (lambda site: (*_place(site), kinds[1](site))), False, False
    yield _in_function, False, False
    deepest = max((site.module.count("/") + 1 for site in (*before, *after) if site.module), default=0)
    for depth in range(deepest, -1, -1):
        for kind in kinds:
            yield _above(depth, kind), kind is unit_of, False
    for kind in kinds:
        yield (lambda site, kind=kind: (site.cause, kind(site))), kind is unit_of, False  # type: ignore[misc]


def _above(depth: int, kind: Callable[[Site], str]) -> Key:
    """Return the key of a site at one depth of the tree of modules."""
    return lambda site: (site.cause, site.phase, "/".join(site.module.split("/")[:depth]), kind(site))


_WAITS: tuple[tuple[Key, bool, bool], ...] = (
    ((lambda site: (*_place(site), site.unit)), True, False),
    ((lambda site: (site.cause, site.function, site.unit)), True, False),
    ((lambda site: (site.cause, site.phase, site.module, site.function)), True, False),
    ((lambda site: (site.cause, site.phase)), False, False),
    ((lambda site: site.cause), False, False),
)
