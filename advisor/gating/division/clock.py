"""One factor by which all of the same work takes longer: a clock, a limit of power or heat, another process on the device."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.gating.division.change import Change

_LEAST = 0.03
_FURTHEST = 2.5
"""Factor beyond which no clock is slower: then it is other work after all, whose shapes were not recorded."""
_NEAR = 0.8
"""Part of the common change by which a kernel's own may differ from it."""
_MOST = 0.65
"""Share of the same work that must be near."""
_PART = 0.5
"""Share of all work that must be the same."""


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
