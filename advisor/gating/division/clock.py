"""One factor by which all of the same work takes longer: a clock, a limit of power or heat, another process on the device."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from advisor.gating.division.change import Change
from advisor.gating.division.families import WORK, unit_of
from advisor.gating.division.pairing import pair
from advisor.gating.division.side import Side
from advisor.results.sites import Site, Sites

_LEAST = 0.03
_FURTHEST = 2.5
"""Factor beyond which no clock is slower: then it is other work after all, whose shapes were not recorded."""
_NEAR = 0.8
"""Part of the common change by which a kernel's own may differ from it."""
_MOST = 0.65
"""Share of the same work that must be near."""
_PART = 0.5
"""Share of all work that must be the same."""


_ALL = 0.9
"""Share of all work that must be the same, call by call, and take longer, for a machine to be what is slower."""
_OPERATORS = 4
"""Operators from which on they speak for a machine."""
_NOTICED = 0.001
"""Share of the work from which on an operator does."""
_TIMES = 3.0


class Pace(NamedTuple):
    """Factors by which the same operators take longer on the CPU: the ``typical`` factor, and the ``most`` that is like it."""

    typical: float
    most: float


def pace(before: Sites, after: Sites) -> Pace | None:
    """Return by which factors the same operators take longer on the CPU; None where not nearly all are the same and take longer.

    They are the same where they are called as often as before, with the same shapes. One operator alone sets no bound: what is as
    far off as the second and no further than some times what is typical is like the others.
    """
    same = _same_work(before, after)
    if not same:
        return None
    times: dict[str, list[float]] = {}
    for change in same:
        total = times.setdefault(unit_of(change.site), [0.0, 0.0])
        total[0] += _typical(change.before)
        total[1] += _typical(change.after)
    told = [(was, now / was) for was, now in times.values() if was >= _NOTICED * _busy(before.sites)]
    longer = [(was, ratio) for was, ratio in told if ratio - 1 >= _LEAST]
    enough = len(longer) >= _ALL * len(told) and sum(was for was, _ in longer) >= _ALL * sum(was for was, _ in told)
    if len(told) < _OPERATORS or not enough:
        return None
    ratios = sorted(ratio for _, ratio in told)
    typical = median(ratios)
    return Pace(typical, min(ratios[-2] * (1 + _LEAST), 1 + _TIMES * (typical - 1)))


def _same_work(before: Sites, after: Sites) -> list[Change]:
    """Return the operators that both sides call as often with the same shapes; none where that is not nearly all."""
    pairs = [found for found in pair(before.sites, after.sites) if all(site.cause in WORK for site in found.sites)]
    changes = [Change(Side(found.before, 1.0, True), Side(found.after, 1.0, True), found.same_unit) for found in pairs]
    same = [change for change in changes if _is_same(change)]
    shares = (
        (sum(change.before.busy_ms for change in same), _busy(before.sites)),
        (sum(change.after.busy_ms for change in same), _busy(after.sites)),
    )
    return same if all(part >= _ALL * whole > 0 for part, whole in shares) else []


def _typical(side: Side) -> float:
    """Return what a side takes in a typical step; on average where its steps were not kept."""
    samples = side.samples()
    return side.busy_ms if samples is None or not samples.any() else float(median(samples.tolist()))


def _busy(sites: Sequence[Site]) -> float:
    return sum(site.busy_ms for site in sites if site.cause in WORK)


def _is_same(change: Change) -> bool:
    both = bool(change.before.sites and change.after.sites)
    return both and change.same and not change.more_calls and not change.other_sizes and len(change.types) < 2


def find(changes: Sequence[Change]) -> float | None:
    """Return by which factor nearly all of the same work takes longer or shorter, and mark it so; None where it does not."""
    alike = [change for change in changes if change.reason in ("slower", "exposed") and change.before.busy_ms > 0]
    total = sum(change.before.busy_ms for change in alike)
    work = sum(change.before.busy_ms for change in changes if any(s.cause == "compute" for s in change.before.sites))
    if len(alike) < 2 or total < _PART * work:
        return None
    common = _median(alike, total)
    far = abs(common - 1)
    near = [change for change in alike if abs(change.ratio - common) <= _NEAR * far]
    enough = sum(change.before.busy_ms for change in near) >= _MOST * total
    if far < _LEAST or not 1 / _FURTHEST <= common <= _FURTHEST or not enough:
        return None
    for change in near:
        change.reason, change.key = "clock", ("clock",)
    return common


def _median(changes: Sequence[Change], total: float) -> float:
    """Return the median of their factors, each by its time."""
    reached = 0.0
    for change in sorted(changes, key=lambda change: change.ratio):
        reached += change.before.busy_ms
        if reached >= total / 2:
            return change.ratio
    return 1.0
