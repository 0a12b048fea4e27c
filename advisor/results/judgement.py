"""What the gate found: one check a metric, a rule, or an assertion, and what they come to together. Renderers read it."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.results.analysis import Place, to_json

SCHEMA_VERSION = 1
Kind = Literal["metric", "rule", "assertion"]
Outcome = Literal["regression", "improvement", "same", "inconclusive"]
Level = Literal["error", "warn", "off"]
Verdict = Literal["passed", "failed", "inconclusive"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was compared or asserted. Figures are per step, in ``unit``; None where there is none."""

    kind: Kind
    name: str
    title: str
    outcome: Outcome
    level: Level
    message: str
    """One line: what grew, by how much, where; or why there is no answer."""
    unit: str = ""
    base: float | None = None
    now: float | None = None
    change: float | None = None
    change_share: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    where: list[Place] = []
    note: str = ""
    """Why there is no answer, or what to know of it; part of the message."""
    waiver: str = ""
    """The reason of the waiver that keeps it from counting; empty where there is none."""

    @property
    def counts(self) -> bool:
        """Whether it bears on the verdict."""
        return self.level == "error" and not self.waiver


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's answer: failed where a check that counts regressed, else inconclusive where one has no answer."""

    schema_version: int
    verdict: Verdict
    headline: str
    workload: str
    baseline: str
    traces: list[str]
    incomparable: list[str]
    """Why the recordings cannot be compared; empty where they can."""
    checks: list[Check]
    update: str = ""
    """The command that makes this the new baseline; empty where nothing changed."""

    def to_json(self) -> bytes:
        """The contract of ``-f json``, indented."""
        return to_json(self)
