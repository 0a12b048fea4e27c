"""The same work in another place, or in none: counted where its like is, before anything is said to be new or gone.

A recording may lose the place of some operators in some steps, and a program may call the same work from another function. So
work without a place is counted at the places where the same operator with the same shapes has one in the same recording; and of
what then stands on one side only, as many calls as the same operator has too few elsewhere stand against those.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import msgspec

from advisor.gating.division.families import WORK, sizes_beside, unit_of
from advisor.results.sites import Site

_LEAST = 1e-6
"""Calls a step below which nothing is left."""
_NEAR = 0.02


def placed(sites: Sequence[Site], others: Sequence[Site]) -> list[Site]:
    """Give work that lost its place the places of its like on the same side, where the *others* lost less of it."""
    if not any(site.function or site.module for site in sites):
        return list(sites)
    like: dict[Hashable, list[Site]] = {}
    for site in sites:
        if site.function and site.cause in WORK:
            like.setdefault(_kind(site), []).append(site)
    lost = {side: _lost(group) for side, group in enumerate((sites, others))}
    there: dict[Hashable, float] = {}
    for site in others:
        key = _kind(site), site.module, site.function
        there[key] = there.get(key, 0.0) + site.calls
    out: list[Site] = []
    for site in sites:
        kind = _kind(site)
        homes = [home for home in like.get(kind, ()) if not site.module or home.module == site.module]
        own = lost[0].get((kind, site.module), 0.0)
        excess = own - lost[1].get((kind, site.module), 0.0)
        if site.function or site.cause not in WORK or not homes or excess <= _NEAR * own:
            out.append(site)
            continue
        missing = [max(there.get((kind, home.module, home.function), 0.0) - home.calls, 0.0) for home in homes]
        shares = _divided(excess, missing, [home.calls for home in homes])
        out += _settled(site, excess / own, homes, shares)
    return out


def _settled(site: Site, share: float, homes: Sequence[Site], shares: Sequence[float]) -> list[Site]:
    """Return a site with a share of it at the places of its like, divided among them; the rest stays without one."""
    out = [_part(site, 1.0 - share)] if share < 1.0 else []
    for home, part in zip(homes, shares, strict=True):
        if part:
            there = {"module": home.module, "function": home.function, "file": home.file, "line": home.line}
            out.append(msgspec.structs.replace(_part(site, share * part), **there))
    return out


def _kind(site: Site) -> Hashable:
    return site.cause, site.phase, unit_of(site), site.shapes, site.kernel


def _lost(sites: Iterable[Site]) -> dict[Hashable, float]:
    """Return the calls without a function, by kind of work and module."""
    out: dict[Hashable, float] = {}
    for site in sites:
        if not site.function and site.cause in WORK:
            key = _kind(site), site.module
            out[key] = out.get(key, 0.0) + site.calls
    return out


def _divided(calls: float, missing: Sequence[float], have: Sequence[float]) -> list[float]:
    """Return shares of *calls*, together 1: first for what is missing at each place, the rest as the places have calls."""
    lacking = sum(missing)
    first = min(1.0, lacking / calls)
    total = sum(have)
    of_rest = [count / total if total else 1.0 / len(have) for count in have]
    return [
        (first * lack / lacking if lacking else 0.0) + (1.0 - first) * rest
        for lack, rest in zip(missing, of_rest, strict=True)
    ]


def _part(site: Site, share: float) -> Site:
    """Return a share of a site: of its time, its calls and its bytes."""
    if share == 1.0:
        return site
    return msgspec.structs.replace(
        site,
        ms=site.ms * share,
        calls=site.calls * share,
        busy_ms=site.busy_ms * share,
        mb=None if site.mb is None else site.mb * share,
        limit_ms=None if site.limit_ms is None else site.limit_ms * share,
        samples=[value * share for value in site.samples],
    )


Sides = tuple[list[Site], list[Site]]
"""Sites of both sides that stand against each other."""


def moved(pairs: Sequence[Sides]) -> list[Sides]:
    """Move what stands on one side only to pairs in which the same operator has as many calls too few on that side.

    Pairs nearest to it come first: of its module and phase, then of its phase, then any. The pairs keep their order; what is left
    of one may be empty on both sides.
    """
    out: list[Sides] = [(list(before), list(after)) for before, after in pairs]
    short = [(_counts(before), _counts(after)) for before, after in out]
    for number, (before, after) in enumerate(out):
        if bool(before) == bool(after):
            continue
        side = 0 if before else 1
        homes = [at for at, both in enumerate(out) if at != number and all(both)]
        left: list[Site] = []
        for site in out[number][side]:
            rest: Site | None = site
            for at in _nearest(site, homes, out, side):
                if rest is not None:
                    given, rest = _split(rest, _room(site, short[at][side], short[at][1 - side]))
                    out[at][side].extend(given)
                    _add(short[at][side], site, sum(part.calls for part in given))
            left += [rest] if rest is not None else []
        out[number][side][:] = left
    return out


def _split(site: Site, calls: float) -> tuple[list[Site], Site | None]:
    """Divide a site into that of so many *calls*, where there are any, and the rest."""
    if calls <= _LEAST:
        return [], site
    share = calls / site.calls
    return ([site], None) if share >= 1.0 - _NEAR else ([_part(site, share)], _part(site, 1.0 - share))


def _nearest(site: Site, homes: Sequence[int], pairs: Sequence[Sides], side: int) -> Iterator[int]:
    """Yield pairs that have the same operator on the other side: those of its module and phase first, then those of its phase."""
    unit = unit_of(site) if site.cause in WORK and site.calls > 0 else ""
    same = [at for at in homes if unit and any(unit_of(other) == unit for other in pairs[at][1 - side])]
    yield from sorted(same, key=lambda at: _distance(site, pairs[at][1 - side]))


def _distance(site: Site, others: Sequence[Site]) -> int:
    if any(other.module == site.module and other.phase == site.phase for other in others):
        return 0
    return 1 if any(other.phase == site.phase for other in others) else 2


Counts = dict[Hashable, float]


def _works(site: Site) -> tuple[Hashable, Hashable]:
    """Return what makes work the same wherever it is called: with its shapes but for the batch, and without any."""
    return (site.cause, unit_of(site), sizes_beside(site.shapes)), (site.cause, unit_of(site))


def _counts(sites: Iterable[Site]) -> Counts:
    out: Counts = {}
    for site in sites:
        _add(out, site, site.calls)
    return out


def _add(counts: Counts, site: Site, calls: float) -> None:
    for key in set(_works(site)):
        counts[key] = counts.get(key, 0.0) + calls


def _room(site: Site, own: Counts, other: Counts) -> float:
    """Return how many more calls of the same work the other side of a pair has, as a whole and with these shapes."""
    exact, any_ = _works(site)
    missing = other.get(any_, 0.0) - own.get(any_, 0.0)
    if site.shapes:
        missing = min(missing, other.get(exact, 0.0) - own.get(exact, 0.0))
    return missing
