"""What a replay comes to: what each fix returns, and the plan, fix by fix."""

from __future__ import annotations

from dataclasses import dataclass


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
    """What each fix returns in ms: cautious and hopeful, beside the fixes that come before it; and the plan."""

    savings: dict[str, tuple[float, float]]
    plan: list[Rung]
