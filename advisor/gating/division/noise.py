"""Noise of a part: how much it may differ between two recordings of the same program."""

from __future__ import annotations

import math

import numpy as np

from advisor.gating.division.side import Side
from advisor.gating.significance import student
from advisor.results.division import Reason

_CHANCE = 0.025
"""Chance on either side of an interval at 95 %."""
_CERTAIN: frozenset[Reason] = frozenset(
    {"type", "shape", "layout", "operator", "kernel", "calls", "appeared", "vanished", "bytes", "device", "batch"}
)
"""Reasons that no noise makes: the programs differ."""
_FLOOR_CERTAIN = 0.002
_FLOOR_ALONE = 0.0005
"""Of what one side has in each of its steps, and the other side in none."""
_FLOOR = {"clock": 0.01, "slower": 0.01, "exposed": 0.02}
_FLOOR_OF_WAITS = 0.02
_OWN = {"clock": 0.03, "slower": 0.05, "exposed": 0.10}
_OWN_OF_WAITS = 0.10
_CPU = 2.0
"""Times that on the CPU the same work may differ by more: other programs share its cores, caches and clocks."""
_ONE_STEP = 1.5


def half_width(before: Side, after: Side) -> float | None:
    """Return half the width of the interval that holds the difference at 95 %, by the spread of steps; None with one step."""
    variance, freedom = 0.0, 0
    for side in (before, after):
        if not side.sites:
            continue
        samples = side.samples()
        if samples is None or len(samples) < 2:
            return None
        variance += float(np.var(samples, ddof=1)) / len(samples)
        freedom += len(samples) - 1
    return student(_CHANCE, freedom) * math.sqrt(variance) if freedom else None


def steady(before: Side, after: Side) -> bool:
    """Tell whether one side lacks something that the other side has in each of its steps."""
    if before.sites and after.sites:
        return False
    samples = (after if after.sites else before).samples()
    return samples is not None and len(samples) > 1 and bool((samples > 0).all())


def beyond(
    change: float,
    width: float | None,
    before_ms: float,
    step_ms: float,
    reason: Reason,
    *,
    on_cpu: bool,
    alike: bool,
    alone: bool,
) -> bool:
    """Tell whether a change is beyond the noise of steps, and beyond what two runs of one program differ by.

    One run of each cannot show the latter: as the gate does, floors stand for it, a share of the step and one of the part.
    On machines that are not *alike* nothing is expected to take as long; what one side lacks altogether stands *alone*.
    """
    certain = alone or reason in _CERTAIN
    floor = step_ms * (_FLOOR_ALONE if alone else _FLOOR_CERTAIN if certain else _FLOOR.get(reason, _FLOOR_OF_WAITS))
    own = 0.0 if certain else before_ms * _OWN.get(reason, _OWN_OF_WAITS)
    if not certain and alike:
        floor, own = (
            value * (_CPU if on_cpu else 1.0) * (_ONE_STEP if width is None else 1.0) for value in (floor, own)
        )
    return abs(change) > max(floor, own, width or 0.0)
