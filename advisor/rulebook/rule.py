"""A rule: a query over a frame, a price for what it matches, and a fix. These are its parts, and the words it may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.results.analysis import Confidence, Fix, Reference, Severity
from advisor.rulebook.expression import Condition
from advisor.rulebook.expression import Limit as LimitValue

NEEDS = ("gpu", "host", "steps", "shapes", "stacks", "memory", "distributed", "loader", "ranks", "idle", "gc")
CONFIDENCES: Mapping[Confidence, float] = {"certain": 1.0, "likely": 0.7, "possible": 0.4}
SEVERITIES: tuple[Severity, ...] = ("note", "low", "medium", "high")
ACTIONS = ("remove", "hide", "scale", "unblock", "merge", "batch")
TIMES = {
    "half_times": "this GPU's 16-bit Tensor Cores peak at {:.3g} times the rate of its fp32 units",
    "tf32_times": "this GPU's TF32 peaks at {:.3g} times the rate of its fp32 units",
    "half_times_tf32": "this GPU's 16-bit Tensor Cores peak at {:.3g} times the rate of TF32",
    "batch_times": "no batch over {:.3g} times as large surely fits the memory",
}
"""Figures of `trace` that bound what a fix returns, and how a price says so."""
PROFILE = "profile"
PLACEHOLDER = re.compile(r"\{(\w+)(?::(\.\d[%f]|,|d))?\}")
"""A figure of `trace` in the title of a profile rule: ``{overhead_share:.0%}``."""


@dataclass(frozen=True)
class Limit:
    """A number (or text) of a rule, with its unit and why it is what it is. ``value`` is the user's where overridden."""

    value: LimitValue
    unit: str
    basis: str


@dataclass(frozen=True)
class Match:
    """Which rows of which frame, and when they matter, as written. Empty where there is no condition."""

    frame: str
    where: str = ""
    when: str = ""
    having: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """Settings that a finding says where the recorder wrote them: which rows of `settings`, and what to set instead.

    ``where`` and ``advice`` are SQL over the columns of `settings` and of `trace`; ``because`` is a sentence with figures of
    either, as in ``{cores}``.
    """

    name: str
    where: str = ""
    advice: str = ""
    because: str = ""


@dataclass(frozen=True)
class Compiled:
    """The conditions of a rule, checked; None where there is none. ``shown`` holds ``where`` and ``advice`` of each setting."""

    given: Condition | None = None
    when: Condition | None = None
    where: Condition | None = None
    having: Condition | None = None
    evidence: tuple[Condition, ...] = ()
    shown: tuple[tuple[Condition | None, Condition | None], ...] = ()


@dataclass(frozen=True)
class Replay:
    """What the fix does to the matched rows, and the share of their time that it returns, cautious and hopeful.

    ``times`` is one of ``TIMES``, figures of `trace` that say how many times as fast the rows can become; empty for none.
    """

    action: str
    low: float
    high: float
    basis: str
    times: str = ""

    def within(self, times: float | None) -> Replay:
        """The same where the rows become no more than *times* as fast; None where that is not known."""
        most = 1 - 1 / max(times, 1.0) if times is not None else 1.0
        if self.high <= most:
            return self
        basis = f"{self.basis}; here no more than {100 * most:.3g} %: {TIMES[self.times].format(times)}"
        return replace(self, low=min(self.low, most), high=most, basis=basis)


@dataclass(frozen=True)
class Rule:
    """One rule. Either ``levels`` (severity to the least share of time) or a fixed ``severity``."""

    id: str
    since: str
    title: str
    why: str
    needs: tuple[str, ...]
    given: str
    confidence: Confidence
    yields_to: tuple[str, ...]
    severity: Severity | None
    replaces: str
    match: Match
    limits: Mapping[str, Limit]
    levels: Mapping[Severity, float]
    fix: Fix
    replay: Replay | None
    references: tuple[Reference, ...]
    path: str
    compiled: Compiled
    settings: tuple[Shown, ...] = ()

    @property
    def category(self) -> str:
        """The folder of the rule, the first half of its id."""
        return self.id.partition("/")[0]

    @property
    def is_profile(self) -> bool:
        """Whether it speaks of the quality of the profile, not of the program."""
        return self.category == PROFILE
